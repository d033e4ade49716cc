"""Accuracy of in-context classification after pretraining on n prompts.

The share of queries that simulated linear attention puts into the right class, on fresh tasks and
on its pretraining tasks, extrapolated to infinite dimension, equals the arccosine of the theory:
with and without flipped labels, and for labels that are no classes.  The ridge with the largest
accuracy is that of a scan.

Source: Derived in the documentation.
"""

import math
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import brentq

from iclimit import experiment
from iclimit.asymptotics.pretraining import accurate_ridge, pretrained_accuracy
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, limit, run
from iclimit.validation.claims.pretraining.links import named

# Classes, classes of which some are wrong, few tasks, and labels that are no classes.
POINTS = (
    experiment.Point(tau=2, alpha=2, kappa=2, ridge=0.05, link="sign"),
    experiment.Point(tau=2, alpha=2, kappa=0.5, ridge=1.0, link="sign", flips=0.1),
    experiment.Point(tau=0.5, alpha=4, kappa=1, rho=0.1, ridge=0.1, link="relu"),
)

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {12: 60, 16: 40, 24: 60},
    "medium": {12: 600, 16: 400, 24: 300},
    "full": {12: 2000, 16: 1500, 24: 1000, 32: 600},
}

# Ridges of the scan, and the relative accuracy of its best one.
RIDGES = np.geomspace(1e-2, 1e2, 400)
BEST_ACCURACY = 1e-3


def scanned_ridge(given: dict[str, Any]) -> dict[str, float]:
    """Best ridge and its accuracy, from a scan."""
    accuracies = pretrained_accuracy(**given, ridge=RIDGES).icl
    near = slice(np.argmax(accuracies) - 2, np.argmax(accuracies) + 3)
    curve = Polynomial.fit(np.log(RIDGES[near]), accuracies[near], 4)
    log_ridge = brentq(curve.deriv(), *np.log(RIDGES[near])[[0, -1]])
    return {"ridge": math.exp(log_ridge), "accuracy": curve(log_ridge)}


def rows(effort: Effort) -> Rows:
    """Both accuracies in the limit, and the best ridge."""
    repeats = effort.by_size(**REPEATS)
    for point in effort.pick(tiny=POINTS[2:], quick=POINTS):
        name = named(point)
        runs = {
            dim: run(sample, run=point.at(dim), repeats=count, accuracies=True)
            for dim, count in repeats.items()
        }
        theory = call(pretrained_accuracy, **point.limit)
        for words, field, column in (
            ("fresh tasks", "icl", "accuracy"),
            ("pretraining tasks", "idg", "idg_accuracy"),
        ):
            yield limit(
                {f"accuracy on {words}, {name}": getattr(theory, field)},
                {dim: errors[column] for dim, errors in runs.items()},
                order=1,
                about=f"accuracy on {words}, {name}",
            )
    given = {"tau": 2.0, "alpha": 2.0, "kappa": 0.5, "flips": 0.05}
    best = call(accurate_ridge, **given)
    scanned = call(scanned_ridge, given)
    for part in ("ridge", "accuracy"):
        yield exact(f"best {part}", getattr(best, part), scanned[part], relative=BEST_ACCURACY)


claim = Claim.of("pretrained-classification", __doc__, rows, figure=False)
