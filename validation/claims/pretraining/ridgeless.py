"""Ridgeless ICL and IDG errors, both sides of tau = 1.

Mean test errors of simulated runs without a ridge, extrapolated to infinite dimension by a
polynomial in 1/d, equal the asymptotic ICL and IDG errors and their difference.  So do, with
smaller error bars, the errors over their finite-size prediction, which has the same limit.  The
fits pass their chi-square tests.  At every simulated size errors and prediction agree up to the
documented deviation of the prediction.

Source: {lu2025}: ICL and IDG error in the ridgeless limit.
"""

import math

import numpy as np

from iclimit.results import Estimate
from iclimit.validation import Comparison, Preset, compare, compare_p_value
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.study import Found, Study
from iclimit.validation.drawing import COLOURS, Figure, panels

POINTS = (
    Point(tau=0.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=1.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=0.5, alpha=4, kappa=2, rho=0.25),
    Point(tau=2, alpha=4, kappa=2, rho=0.1),
)
REPEATS: dict[Preset, dict[int, int]] = {
    "quick": {16: 192, 24: 96, 32: 64, 48: 32},
    "full": {16: 2000, 24: 1200, 32: 800, 48: 400, 64: 250, 96: 80},
}
"""Repeats at each size: error bars shrink as 1/d, the cost grows as d^4."""


def compare_gaps(found: Found) -> list[Comparison]:
    """Extrapolated differences of the errors, and the fits of the ratios."""
    rows, contrast = [], np.array([1, -1])
    for fit in found.fits:
        name, limit = f"chi-square of the ratios {fit.point}", fit.point.limit
        rows.append(compare_p_value(name, fit.ratio.p_value))
        error = math.sqrt(contrast @ fit.errors.covariance @ contrast)
        gap = Estimate(float(contrast @ fit.errors.value), error, 1)
        name = f"ICL-IDG d=inf {fit.point}"
        rows.append(compare(name, limit.icl - limit.idg, gap, degrees=math.inf))
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
