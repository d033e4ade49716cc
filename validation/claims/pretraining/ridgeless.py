"""Ridgeless ICL and IDG errors, both sides of tau = 1.

Mean test errors of simulated runs without a ridge, extrapolated to infinite dimension, equal the
asymptotic ICL and IDG errors and their difference. The ratio of the
errors to a finite-size prediction is extrapolated by a straight line in 1/d; the predictions are
extrapolated from larger sizes.  The product estimates the limit of the errors without the formula
for it.

Source: {lu2025}: ICL and IDG error in the ridgeless limit.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from iclimit.asymptotics.pretraining import task_gap
from iclimit.comparison import Comparison
from iclimit.statistics import Extrapolation
from iclimit.validation.claim import Claim, Effort, Rows, call, judged
from iclimit.validation.claims.pretraining.points import Point

# Points without a ridge.
POINTS = (
    Point(tau=0.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=0.5, alpha=4, kappa=2, rho=0.25),
    Point(tau=4, alpha=1, kappa=1, rho=0.1),
    Point(tau=4, alpha=2, kappa=0.5, rho=0.25),
)
# Repeats at each size: error bars shrink as 1/d, the cost grows as d^3 to d^4: larger sizes would
# be no better in the same time.  A small size makes the slope sharp for next to nothing: from d =
# 12 the limits take less than half the time that they take from d = 16.  There the errors are
# within 0.8 % of their predictions (3000 repeats); what is not a straight line in 1/d may move a
# limit by 0.3 %, less than its error bar in ``quick`` only.
REPEATS = {
    "quick": {12: 290, 20: 40, 32: 92},
    "medium": {16: 800, 24: 240, 32: 320, 48: 80},
    "full": {16: 4000, 24: 2000, 32: 2000, 48: 1000, 64: 250},
}


def compare_gap(point: Point, fit: Extrapolation) -> Iterator[Comparison]:
    """Difference of the extrapolated ICL and IDG errors."""
    contrast = np.array([1, -1])
    yield Comparison(
        f"ICL-IDG d=inf {point}",
        float(task_gap(**vars(point))),
        float(contrast @ fit.value),
        math.sqrt(contrast @ fit.covariance @ contrast),
        degrees=fit.error_degrees,
        of="task_gap",
        draws=str(point),
        deviations=contrast @ fit.deviations,
    )


def limit_rows(points: tuple[Point, ...], repeats: Mapping[int, int]) -> Rows:
    """Both errors at points, and their difference."""
    for point in points:
        row = point.extrapolated(repeats)
        yield row
        yield judged(call(compare_gap, point, row.fit))


def rows(effort: Effort) -> Rows:
    """Both errors at all points, and their difference."""
    points = effort.pick(tiny=POINTS[1:3], quick=POINTS)
    yield from limit_rows(points, effort.by_size(**REPEATS))


claim = Claim.of("ridgeless", __doc__, rows, figure=False)
