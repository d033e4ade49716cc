"""Errors at a time of training, and the best time to stop.

Mean errors of simulated runs of gradient flow, extrapolated to infinite dimension, equal the
asymptotic ICL error, IDG error and training loss at their time, with and without weight decay
and a random start.  At given integers they equal their prediction.  The best time to stop is that
of a scan.

Source: here; setting of {lu2025}.
"""

import math

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import brentq

from iclimit import experiment
from iclimit.asymptotics.pretraining import optimal_stopping, predict, training_errors
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, limit, run
from iclimit.validation.claims.pretraining.points import limits_by_ratios, predicted_at
from iclimit.validation.rows import Later

# Times from early to late, on both sides of tau = 1.
POINTS = (
    experiment.Point(tau=2, alpha=1, kappa=0.5, rho=0.1, time=0.5),
    experiment.Point(tau=0.5, alpha=2, kappa=2, rho=0.3, time=1.0, start_variance=0.4),
    experiment.Point(tau=4, alpha=2, kappa=1, rho=0.05, time=2.0, ridge=0.05),
    experiment.Point(tau=1, alpha=2, kappa=2, rho=0.3, time=3.0),
)

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {16: 130, 24: 75, 32: 42},
    "medium": {16: 600, 24: 300, 32: 200},
    "full": {16: 3000, 24: 1500, 32: 1000, 48: 300},
}

# Task sets of a prediction, and dimensions from which the limit of predictions is extrapolated.
TASK_SETS = {"tiny": 4, "quick": 12}
ANCHORS = (40, 56, 80, 112)

# Times of the scan.
TIMES = np.geomspace(1e-2, 1e2, 400)

# Relative, of the best time: a scan with a parabola through its least values finds it.
BEST_ACCURACY = 1e-3


def scanned_time(given: dict[str, float], objective: str) -> dict[str, float]:
    """Best time and its error, from a scan."""
    errors = getattr(training_errors(time=TIMES, **given), objective)
    near = slice(np.argmin(errors) - 2, np.argmin(errors) + 3)
    curve = Polynomial.fit(np.log(TIMES[near]), errors[near], 4)
    log_time = brentq(curve.deriv(), *np.log(TIMES[near])[[0, -1]])
    return {"time": math.exp(log_time), "error": curve(log_time)}


def limits(
    point: experiment.Point, name: str, runs: dict[int, Later], predictions: dict[int, Later]
) -> Rows:
    """The three errors of a point in infinite dimension."""
    theory = call(training_errors, **point.limit)
    theories = {"icl": theory.icl, "idg": theory.idg}
    yield limits_by_ratios(name, theories, runs, predictions, ANCHORS)
    yield limit(
        {f"training loss d=inf {name}": theory.training},
        {dim: errors["training"] for dim, errors in runs.items()},
        order=1,
        about=f"training loss {name}",
    )


def rows(effort: Effort) -> Rows:
    """Limits, one size, and the best times."""
    repeats = effort.by_size(**REPEATS)
    draws = effort.pick(**TASK_SETS)
    for point in effort.pick(tiny=POINTS[:2], quick=POINTS):
        name = " ".join(f"{key}={value:g}" for key, value in point.limit.items() if value)
        runs = {
            dim: run(sample, run=point.at(dim), repeats=count) for dim, count in repeats.items()
        }
        predictions = {
            dim: run(predict, run=point.at(dim), draws=draws, approach=approach)
            for approach, dims in (("tasks", runs), ("moments", ANCHORS))
            for dim in dims
        }
        yield from limits(point, name, runs, predictions)
        yield from predicted_at(min(runs), name, predictions, runs)
    for start_variance, ridge, objective in ((0.0, 0.0, "icl"), (0.3, 0.05, "idg")):
        given = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": ridge}
        given["start_variance"] = start_variance
        best = call(optimal_stopping, **given, objective=objective)
        scanned = call(scanned_time, given, objective)
        for part in ("time", "error"):
            label = f"best {part} {objective} from {start_variance:g} with ridge {ridge:g}"
            yield exact(label, getattr(best, part), scanned[part], relative=BEST_ACCURACY)


claim = Claim.of("training-time", __doc__, rows, figure=False)
