"""Inputs of any covariance, commuting with that of the tasks and not.

With input eigenvalues spread ninefold, in the order of those of the tasks and in the opposite
one, simulated errors extrapolate to the asymptotic ones.  With the input covariance in random
position they follow the finite-size prediction.

Source: Heuristic deterministic equivalent, derived in the documentation.
"""

import math
from dataclasses import replace
from typing import Any

from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.claims.pretraining.study import Curve, Found, Study

SPECTRA: dict[str, Any] = {"task": "atoms:0.4,1.6", "inputs": "uniform:0.2,1.8"}
ENDLESS = StructuredPoint(
    tau=2, alpha=2, kappa=math.inf, rho=0.1, ridge=0.1, test="reversed", **SPECTRA
)
FEW = StructuredPoint(tau=0.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.4, **SPECTRA)
COMMUTING = (ENDLESS, *(replace(point, alignment="reversed") for point in (ENDLESS, FEW)))
ROTATED = tuple(
    Curve(replace(FEW, alignment="rotated", test=test, ridge=0.1), "tau", (0.5, 1.5))
    for test in ("aligned", "reversed")
)
"""Points at one size: there is no limit to extrapolate to."""


def draw(figure: Figure, found: Found) -> None:
    """Draw both errors against 1/d for both orders of the eigenvalues."""
    axes = panels(figure, len(found.fits), width=9.6, height=3.8)
    for ax, fit in zip(axes, found.fits, strict=True):
        found.draw_sizes(ax, fit, "icl", COLOURS[0], "ICL")
        found.draw_sizes(ax, fit, "idg", COLOURS[1], "IDG")
        tau, kappa, order = (getattr(fit.point, name) for name in ("tau", "kappa", "alignment"))
        title = rf"$\tau = {tau:g},\ \kappa = {kappa:g}$, {order} order"
        finish(ax, "$1/d$", "test error", title=title)
    axes[0].legend()
    figure.suptitle(
        r"input eigenvalues 0.2 to 1.8 against task eigenvalues 0.4 and 1.6; "
        "lines: finite-size prediction; points: simulation; stars: asymptotic",
        fontsize=8,
    )


claim = Study(ROTATED, COMMUTING, SIZES).claim("structured-inputs", __doc__, draw)
