"""ICL and IDG errors at finite ridge.

Mean test errors of simulated runs with a ridge, extrapolated to infinite dimension as in the
claim ``ridgeless``, equal the asymptotic ICL and IDG errors and their difference. The best ridge
is that of a scan.

Source: {lu2025}: ICL and IDG error; finite-ridge form: documentation.
"""

import math

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import icl_error, optimal_ridge
from iclimit.validation import Comparison, Preset, compare
from iclimit.validation.claims.pretraining import ridgeless
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.ridgeless import compare_gaps, draw
from iclimit.validation.claims.pretraining.study import Found, Study

POINTS = (
    Point(tau=0.25, alpha=2, kappa=0.5, rho=0.1, ridge=0.1),
    Point(tau=0.5, alpha=2, kappa=2, rho=0.25, ridge=0.1),
    Point(tau=1, alpha=1, kappa=1, rho=0.1, ridge=0.5),
    Point(tau=4, alpha=2, kappa=0.5, rho=0.25, ridge=0.1),
)
REPEATS: dict[Preset, dict[int, int]] = {
    "quick": {12: 230, 20: 30, 32: 74},
    "medium": ridgeless.REPEATS["medium"],
    "full": ridgeless.REPEATS["full"],
}
RIDGES = np.geomspace(1e-4, 10, 400)
BEST_ACCURACY = 1e-3
"""Relative, of the best ridge: a scan with a parabola through its least values finds it."""


def compare_best() -> list[Comparison]:
    """The best ridge and its error, against a scan of the ICL error."""
    rows = []
    for point in POINTS:
        given = {name: value for name, value in vars(point).items() if name != "ridge"}
        best, errors = optimal_ridge(**given), icl_error(**given, ridge=RIDGES)
        near = slice(np.argmin(errors) - 2, np.argmin(errors) + 3)
        curve = Polynomial.fit(np.log(RIDGES[near]), errors[near], 4)
        log_ridge = brentq(curve.deriv(), *np.log(RIDGES[near])[[0, -1]])
        found = {"ridge": math.exp(log_ridge), "error": curve(log_ridge)}
        rows += [
            compare(
                f"best {name} {point}",
                getattr(best, name),
                value,
                relative=BEST_ACCURACY,
                of=f"optimal_ridge.{name}",
            )
            for name, value in found.items()
        ]
    return rows


def compare_all(found: Found) -> list[Comparison]:
    """Differences of the errors, and the best ridge."""
    return compare_gaps(found) + compare_best()


claim = Study(limits=POINTS, sizes=REPEATS).claim(
    "ridge", __doc__, draw, compare_all, figure=False
)
