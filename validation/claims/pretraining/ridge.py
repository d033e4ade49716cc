"""ICL and IDG errors at finite ridge.

Mean test errors of simulated runs with a ridge, extrapolated to infinite dimension as in the
claim ``ridgeless``, equal the asymptotic ICL and IDG errors and their difference. The best ridge
is that of a scan.

Source: {lu2025}: ICL and IDG error; finite-ridge form: documentation.
"""

import math
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import icl_error, optimal_ridge
from iclimit.validation.claim import Claim, Effort, Rows, call, exact
from iclimit.validation.claims.pretraining import ridgeless
from iclimit.validation.claims.pretraining.points import Point

# Points with a ridge.
POINTS = (
    Point(tau=0.25, alpha=2, kappa=0.5, rho=0.1, ridge=0.1),
    Point(tau=0.5, alpha=2, kappa=2, rho=0.25, ridge=0.1),
    Point(tau=1, alpha=1, kappa=1, rho=0.1, ridge=0.5),
    Point(tau=4, alpha=2, kappa=0.5, rho=0.25, ridge=0.1),
)
# Repeats at each size, as without a ridge but for the quick preset.
REPEATS = ridgeless.REPEATS | {"quick": {12: 230, 20: 30, 32: 74}}
# Ridges of the scan.
RIDGES = np.geomspace(1e-4, 10, 400)
# Relative, of the best ridge: a scan with a parabola through its least values finds it.
BEST_ACCURACY = 1e-3


def scanned_ridge(given: dict[str, Any]) -> dict[str, float]:
    """Best ridge and its ICL error, from a scan."""
    errors = icl_error(**given, ridge=RIDGES)
    near = slice(np.argmin(errors) - 2, np.argmin(errors) + 3)
    curve = Polynomial.fit(np.log(RIDGES[near]), errors[near], 4)
    log_ridge = brentq(curve.deriv(), *np.log(RIDGES[near])[[0, -1]])
    return {"ridge": math.exp(log_ridge), "error": curve(log_ridge)}


def rows(effort: Effort) -> Rows:
    """Both errors and their difference, and the best ridge."""
    points = effort.pick(tiny=POINTS[1:3], quick=POINTS)
    yield from ridgeless.limit_rows(points, effort.by_size(**REPEATS))
    for point in POINTS:
        given = {name: value for name, value in vars(point).items() if name != "ridge"}
        best = call(optimal_ridge, **given)
        scanned = call(scanned_ridge, given)
        for name in ("ridge", "error"):
            theory = getattr(best, name)
            value = scanned[name]
            yield exact(f"best {name} {point}", theory, value, relative=BEST_ACCURACY)


claim = Claim.of("ridge", __doc__, rows, figure=False)
