"""Contexts and label noise of tests that differ from training.

The ICL error falls with the context length of the tests and grows with their noise as
predicted, at training contexts shorter and longer than those of the tests.  For given tests the
best training context is not theirs: with few tasks it is shorter, with many longer, by as much as
predicted.  Extrapolated, the errors after training on any number of tasks equal their limits.

Source: {letey2025}: test-time context; general form derived in the documentation.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from iclimit.drawing import COLOURS, Figure, finish, panels, write_key
from iclimit.validation.claim import Claim, Effort, Rows, drawing
from iclimit.validation.claims.pretraining.curves import LEGEND, Curve, CurveResults, curve_rows
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint

# Few tasks, tested in long contexts.
FEW = StructuredPoint(tau=2, alpha=2, kappa=0.5, rho=0.1, task="powerlaw:0.9", test_alpha=8.0)
# Many tasks, tested in the same way.
MANY = replace(FEW, kappa=4.0)
# Few tasks, tested with noise.
NOISY = replace(FEW, test_rho=0.5)
# Points whose errors are extrapolated: they vary little from run to run.
LIMITS = (
    replace(NOISY, kappa=math.inf, ridge=0.1),
    replace(NOISY, kappa=math.inf, alpha=8.0, ridge=0.4),
)
# Context lengths of the tests over dimension.
TEST_ALPHAS = (0.5, 8.0, 32.0)
# Errors against the context length of the tests, by the training.
TESTED = {
    r"trained at $\alpha = 2$": Curve(FEW, "test_alpha", TEST_ALPHAS),
    r"trained at $\alpha = 8$": Curve(replace(FEW, alpha=8.0), "test_alpha", (8.0, 32.0)),
    r"trained at $\alpha = 2$, $\rho' = 0.5$": Curve(NOISY, "test_alpha", (0.5, 8.0)),
}
# Errors against the context length of the training, by the number of tasks.
TRAINED = {
    r"$\kappa = 0.5$": Curve(FEW, "alpha", (2.0, 8.0)),
    r"$\kappa = 4$": Curve(MANY, "alpha", (2.0, 8.0, 32.0)),
}
# Points between which the ICL error rises.
RISES = {
    "rise of ICL by noise of tests": (FEW, NOISY),
    "rise of ICL by test context from 8 to 0.5": (FEW, replace(FEW, test_alpha=0.5)),
    "rise of ICL by training context from 2 to 8, few tasks": (FEW, replace(FEW, alpha=8.0)),
    "rise of ICL by training context from 8 to 2, many tasks": (replace(MANY, alpha=8.0), MANY),
}


def rows(effort: Effort) -> Rows:
    """Errors along the curves, their differences, limits, and the best contexts of training."""
    for point in LIMITS:
        yield point.extrapolated(effort.by_size(**SIZES))
    yield from curve_rows(effort, (*TESTED.values(), *TRAINED.values()), RISES)
    tested = {label: curve.results(effort) for label, curve in TESTED.items()}
    trained = {label: curve.results(effort) for label, curve in TRAINED.items()}
    yield drawing(draw, tested, trained)


def best_training_context(point: Point) -> float:
    """Training context of the least ICL error, the rest of a point given."""
    alpha = np.geomspace(0.1, 1000, 801)
    return float(alpha[np.argmin(Curve(point, "alpha", ()).at(alpha).limit.icl)])


def draw(
    figure: Figure, tested: Mapping[str, CurveResults], trained: Mapping[str, CurveResults]
) -> None:
    """Draw the ICL error against the context of the tests and of training."""
    left, right = panels(figure, height=3.8)
    for (label, results), colour in zip(tested.items(), COLOURS, strict=False):
        results.draw(left, "icl", colour, label)
    for (label, results), colour in zip(trained.items(), COLOURS[3:], strict=False):
        results.draw(right, "icl", colour, label)
        curve = results.curve
        best = best_training_context(curve.base)
        if best <= max(curve.values):
            right.plot(best, curve.at(best).limit.icl, "v", color="black")
    right.axvline(8, color="0.6", linewidth=0.8, zorder=0)
    title = r"$\kappa = 0.5,\ \tau = 2,\ \rho = 0.1$"
    finish(left, "test_alpha", "icl_error", title=title, log="x", legend="")
    title = r"tests at $\alpha' = 8$ (vertical line); triangle: least"
    x = r"context in training, $\alpha$"
    finish(right, x, "icl_error", title=title, log="x", legend="")
    write_key(figure, LEGEND.format(results.dim))


claim = Claim.of("structured-context", __doc__, rows)
