"""Ridgeless ICL and IDG errors, both sides of tau = 1.

Mean test errors of simulated runs without a ridge, extrapolated to infinite dimension, equal the
asymptotic ICL and IDG errors and their difference. What is extrapolated, by a straight line in
1/d, is the ratio of the errors to a finite-size prediction; its limit times that of the
predictions, which are extrapolated from larger sizes, estimates the limit of the errors without
the formula for it.

Source: {lu2025}: ICL and IDG error in the ridgeless limit.
"""

import math

import numpy as np

from iclimit.asymptotics.pretraining import task_gap
from iclimit.drawing import COLOURS, Figure, panels
from iclimit.validation import Comparison, Preset
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.study import Found, Study

POINTS = (
    Point(tau=0.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=0.5, alpha=4, kappa=2, rho=0.25),
    Point(tau=4, alpha=1, kappa=1, rho=0.1),
    Point(tau=4, alpha=2, kappa=0.5, rho=0.25),
)
REPEATS: dict[Preset, dict[int, int]] = {
    "quick": {12: 290, 20: 40, 32: 92},
    "medium": {16: 2000, 24: 600, 32: 800, 48: 200},
    "full": {16: 8000, 24: 4000, 32: 4000, 48: 2000, 64: 500},
}
"""Repeats at each size: error bars shrink as 1/d, the cost grows as d^3 to d^4: larger sizes would
be no better in the same time.  A small size makes the slope sharp for next to nothing: from d = 12
the limits take less than half the time that they take from d = 16.  There the errors are within
0.8 % of their predictions (3000 repeats); what is not a straight line in 1/d may move a limit by
0.3 %, less than its error bar in ``quick`` only."""


def compare_gaps(found: Found) -> list[Comparison]:
    """Differences of the extrapolated ICL and IDG errors."""
    rows, contrast = [], np.array([1, -1])
    for fit in found.fits:
        limits = fit.limits
        gap = Comparison(
            f"ICL-IDG d=inf {fit.point}",
            float(task_gap(**vars(fit.point))),
            float(contrast @ limits.value),
            math.sqrt(contrast @ limits.covariance @ contrast),
            degrees=limits.error_degrees,
            of="task_gap",
            draws=str(fit.point),
            deviations=contrast @ limits.deviations,
        )
        rows.append(gap)
    return rows


def draw(figure: Figure, found: Found) -> None:
    """Draw a panel for each point, both errors against 1/d."""
    axes = panels(figure, len(found.fits), width=3.1 * len(found.fits), height=3.5)
    for ax, fit in zip(axes, found.fits, strict=True):
        found.draw_sizes(ax, fit, "icl", COLOURS[0], "ICL simulated")
        found.draw_sizes(ax, fit, "idg", COLOURS[1], "IDG simulated")
        ax.set_title(str(fit.point).replace(" ridge", "\nridge"), fontsize=7.5)
    axes[0].set_ylabel("test error")
    axes[0].plot([], [], color="0.4", linewidth=1.2, label="finite-size prediction")
    axes[0].plot([], [], "*", color="0.4", markersize=11, label="asymptotic")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


claim = Study(limits=POINTS, sizes=REPEATS).claim(
    "ridgeless", __doc__, draw, compare_gaps, figure=False
)
