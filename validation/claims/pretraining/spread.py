"""Scatter of the errors of one pretraining run.

Standard deviations of the ICL error, the IDG error and their difference, over runs with new tasks
and prompts, are those predicted at the integers of the runs, and so is the correlation of the two
errors.  Settings have few and many tasks and prompts, with and without a ridge, other contexts in
the tests, and structured tasks.  The predictions tend to their limit.

Source: Derived in the documentation; for ridge regression without fluctuating leverages see
`iclimit.pretraining.ridge_fluctuations`.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import error_spread, finite_size_spread
from iclimit.prediction import Scatter
from iclimit.results import Estimate
from iclimit.samples import Samples
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, mean, run

# Dimension, context, tasks, prompts, label noise, ridge.
SETTINGS = (
    (16, 32, 24, 384, 0.1, 0.05),
    (20, 24, 16, 880, 0.3, 0.15),
    (20, 40, 40, 200, 0.3, 0.2),
    (24, 24, 48, 288, 0.1, 0.1),
    (24, 72, 60, 403, 0.05, 0.02),
    (16, 16, 16, 256, 0.1, 0.01),
    (16, 64, 64, 768, 0.05, 0.0),
    (16, 16, 8, 384, 0.1, 0.0),
    (16, 20, 16, 512, 0.2, 0.5),
    (16, 24, 16, 512, 0.2, 0.02),
    (16, 16, 48, 460, 0.2, 0.1),
)
# Names of these numbers.
NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")
# Longer contexts of the tests.
LONGER = {"test_context": 60}
# Structured tasks.
STRUCTURED = {"task_covariance": 2 * np.arange(1, 17) / 17}
# Runs of each setting.
REPEATS = 160
# Root mean square of what predictions of standard deviations leave out, cubes in 1/d, by 5760 runs
# a setting.  It is relative, and counts as a standard error of theirs.  Beside thresholds, and for
# as many prompts a dimension as tasks, it is larger: 1.16 at d = 20, 200 prompts and 10 tasks (400
# runs).
LEFT_OUT = 0.04
# The same for the atanh of a correlation, absolute.
LEFT_OUT_ATANH = 0.035
# Settings that these are measured at.
MEASURED = 13
# Dimensions from which the prediction for fresh tasks is extrapolated.
DIMS = (16, 32, 64)
# Parameters of the limit.
LIMIT = {"tau": 2.0, "alpha": 2.0, "kappa": math.inf, "rho": 0.1, "ridge": 0.05}
# Relative error of the extrapolated prediction.
EXTRAPOLATED = 0.002


def scatter(errors: Samples) -> dict[str, Estimate]:
    """Standard deviations over runs and atanh of the correlation, by the jackknife."""
    icl = errors.icl.samples
    idg = errors.idg.samples
    samples = np.stack([icl, idg, icl - idg])
    count = samples.shape[1]

    def statistics(totals: Iterable[np.ndarray], n: int) -> Any:
        sums, squares, product = totals
        covariance = product - sums[0] * sums[1] / n
        squares = squares - sums**2 / n
        correlation = np.arctanh(covariance / np.sqrt(squares[0] * squares[1]))
        return np.stack([*np.sqrt(squares / (n - 1)), correlation])

    terms = samples, samples**2, icl * idg
    sums = [term.sum(axis=-1, keepdims=True) for term in terms]
    others = (total - term for total, term in zip(sums, terms, strict=True))
    without_one = statistics(others, count - 1)
    values = count * statistics(sums, count) - (count - 1) * without_one
    names = ("icl", "idg", "gap", "correlation")
    return {name: Estimate.of(value) for name, value in zip(names, values, strict=True)}


def extrapolated(spread: str) -> float:
    """Limit of d times a predicted spread for fresh tasks, from three dimensions."""
    given: dict[str, Any] = {"tasks": math.inf, "rho": LIMIT["rho"], "ridge": LIMIT["ridge"]}

    def scaled(d: int) -> float:
        predicted = finite_size_spread(dim=d, context=2 * d, prompts=2 * d * d, **given)
        return d * getattr(predicted, spread)

    return (8 * scaled(DIMS[2]) - 6 * scaled(DIMS[1]) + scaled(DIMS[0])) / 3


def _spread(theory: Scatter, name: str) -> Estimate:
    value = getattr(theory, name)
    return Estimate(value, LEFT_OUT * value, MEASURED)


def _atanh(theory: Scatter) -> Estimate:
    return Estimate(math.atanh(theory.correlation), LEFT_OUT_ATANH, MEASURED)


def rows(effort: Effort) -> Rows:
    """All settings, and one limit."""
    plain: list[dict[str, Any]] = [dict(zip(NAMES, setting, strict=True)) for setting in SETTINGS]
    # With a ridge, without one, and what plain settings leave out.
    compared = effort.pick(tiny=plain[5:7], quick=plain)
    for setting in (*compared, plain[8] | LONGER, plain[8] | STRUCTURED):
        runs = run(simulate_errors, **setting, repeats=effort(REPEATS))
        theory = call(finite_size_spread, **setting, rng=0)
        estimates = call(scatter, runs)
        where = " ".join(f"{k}={v}" for k, v in setting.items() if np.ndim(v) == 0)
        if "task_covariance" in setting:
            where += " structured"
        for name in ("icl", "idg", "gap"):
            label = f"standard deviation of {name.upper()} {where}"
            of = f"finite_size_spread.{name}"
            yield mean(label, call(_spread, theory, name), estimates[name], of=of, draws=where)
        correlation = call(_atanh, theory)
        of = "finite_size_spread.correlation"
        yield mean(f"atanh of correlation {where}", correlation, estimates["correlation"], of=of)
    for name in ("icl", "idg"):
        theory = getattr(call(error_spread, **LIMIT), name)
        value = call(extrapolated, name)
        yield exact(f"limit of {name.upper()}", theory, value, relative=EXTRAPOLATED)


claim = Claim.of("spread", __doc__, rows, figure=False)
