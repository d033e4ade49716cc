"""Inputs of any covariance, commuting with that of the tasks and not.

With input eigenvalues spread ninefold, in the order of those of the tasks and in the opposite
one, simulated errors extrapolate to the asymptotic ones and follow the finite-size prediction at
every size.  With the input covariance in random position they follow the prediction too.

Source: Heuristic deterministic equivalent, derived in the documentation.
"""

from dataclasses import replace
from typing import Any

from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.claims.pretraining.study import Curve, Found, Study
from iclimit.validation.drawing import COLOURS, Figure, panels

SPECTRA: dict[str, Any] = {"task": "atoms:0.4,1.6", "inputs": "uniform:0.2,1.8"}
POINTS = (
    StructuredPoint(tau=1.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.1, **SPECTRA),
    StructuredPoint(tau=0.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.05, **SPECTRA),
)
COMMUTING = tuple(
    replace(point, alignment=alignment) for point in POINTS for alignment in ("same", "reversed")
)
ROTATED = tuple(
    Curve(replace(point, alignment="rotated", test=test), "tau", (point.tau,))
    for point in POINTS
    for test in ("aligned", "reversed")
)
"""Points at one size: there is no limit to extrapolate to."""


def draw(figure: Figure, found: Found) -> None:
    """Draw both errors against 1/d for both orders of the eigenvalues."""
    axes = panels(figure, height=3.8)
    for number, fit in enumerate(found.fits):
        ax, opposite = axes[number // 2], number % 2
        for row, name in enumerate(("icl", "idg")):
            label = f"{name.upper()}, {'opposite' if opposite else 'same'} order"
            found.draw_sizes(ax, fit, name, COLOURS[2 * row + opposite], label)
        ax.set_title(rf"$\tau = {fit.point.tau:g},\ \lambda = {fit.point.ridge:g}$")
    axes[0].set_ylabel("test error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(
        r"input eigenvalues 0.2 to 1.8 against task eigenvalues 0.4 and 1.6; "
        "lines: finite-size prediction; points: simulation; stars: asymptotic",
        fontsize=8,
    )


claim = Study(ROTATED, COMMUTING, SIZES).claim("structured-inputs", __doc__, draw)
