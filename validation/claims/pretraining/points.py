"""Points of the parameter space, at which limit, finite-size prediction and simulation meet."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from iclimit.asymptotics import pretraining
from iclimit.comparison import ERRORS
from iclimit.notation import sizes_of
from iclimit.prediction import Prediction
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.rows import (
    Later,
    Limit,
    Number,
    Row,
    Rows,
    both_errors,
    call,
    limit,
    mean,
    run,
)

# Above this number a prediction task by task would cost more than the simulation.
MOST_TASKS = 100
# Factor of the repeats where there are fewer prompts than parameters: they cost less there, and
# scatter more.
CHEAP = 3
# Task sets of other predictions.
TASK_SETS = 8
# Dimensions from which the limit of the predictions is extrapolated.
ANCHORS = (40, 56, 80, 104, 136)
# Dimension times task sets, where the limit of the predictions is extrapolated.
ANCHORED = 4000


@dataclass(frozen=True)
class Point:
    """Parameters of the limit; sizes are chosen so that the integers come out exact."""

    tau: float
    alpha: float
    kappa: float
    rho: float
    ridge: float = 0.0

    def __str__(self) -> str:
        text = f"tau={self.tau:g} alpha={self.alpha:g} kappa={self.kappa:g} rho={self.rho:g}"
        return text + (f" ridge={self.ridge:g}" if self.ridge else "")

    @property
    def limit(self) -> Any:
        """Asymptotic errors, as ``icl`` and ``idg``."""
        return SimpleNamespace(
            icl=pretraining.icl_error(**vars(self)), idg=pretraining.idg_error(**vars(self))
        )

    def theories(self) -> tuple[Later, Later]:
        """Asymptotic ICL and IDG error, as rows have them."""
        return call(pretraining.icl_error, **vars(self)), call(pretraining.idg_error, **vars(self))

    def integers(self, dim: int) -> dict[str, Any]:
        """Arguments of a run at this dimension."""
        sizes = sizes_of(dim, {"alpha": self.alpha, "kappa": self.kappa, "tau": self.tau})
        return {"dim": dim, **sizes, "rho": self.rho, "ridge": self.ridge}

    def simulated(self, dim: int, repeats: int, **options: Any) -> Later:
        """Errors of simulated runs."""
        return run(simulate_errors, **self.integers(dim), repeats=repeats, **options)

    def predicted(self, dim: int, draws: int = TASK_SETS, approach: str = "") -> Later:
        """Finite-size prediction; its spread over task sets shrinks as 1/d.

        By default it is made task by task, unless there are too many tasks for that.
        """
        given = self.integers(dim)
        many = MOST_TASKS < given["tasks"] < math.inf
        draws = 1 if given["tasks"] == math.inf else draws
        approach = approach or ("moments" if many else "tasks")
        return run(pretraining.finite_size_errors, **given, draws=draws, approach=approach)

    def rows(self, dim: int, repeats: int) -> Rows:
        """Both errors at one dimension against the finite-size prediction."""
        theory = call(with_uncertainty, self.predicted(dim))
        errors = self.simulated(dim, repeats)
        yield from both_errors(f"d={dim} {self}", theory, errors, of="finite_size_errors")

    def extrapolated(self, repeats: Mapping[int, int]) -> Limit:
        """Both errors in infinite dimension, given the repeats by dimension.

        The errors over their predictions tend to 1 as c0 + c1/d, much closer to a straight line
        than the errors themselves.  So c0 times the limit of the predictions estimates the limit
        of the errors.  The formula of the limit takes no part in it: the predictions are
        extrapolated from larger sizes, by the simpler approach, which has the same limit.

        Runs with few prompts cost little and scatter most: there are more of them, and fewer task
        sets.  With more prompts the predictions of random task sets scatter half as much as the
        runs, at a quarter of their cost: as many task sets as repeats make the error bar smallest.
        """
        more = CHEAP if self.tau < 1 else 1
        total = sum(repeats.values())
        factor = 1 + total // 1000
        runs = {dim: self.simulated(dim, more * repeats[dim]) for dim in sorted(repeats)}
        predictions = {dim: self.predicted(dim, repeats[dim] // more, "tasks") for dim in runs} | {
            dim: self.predicted(dim, min(factor * ANCHORED // (more * dim), total), "moments")
            for dim in ANCHORS
        }
        theories = dict(zip(ERRORS, self.theories(), strict=True))
        return limits_by_ratios(str(self), theories, runs, predictions, ANCHORS)


def limits_by_ratios(
    name: str,
    theories: Mapping[str, Number],
    runs: Mapping[int, Later],
    predictions: Mapping[int, Later],
    anchors: Sequence[int],
    order: int = 1,
) -> Limit:
    """Limits of errors, by their names, against runs that are extrapolated by ratios.

    The ratios are those to the predictions, which are extrapolated from the anchors; they are
    polynomials of this order in 1/d.
    """

    def errors_of(results: Mapping[int, Later]) -> dict[int, tuple[Later, ...]]:
        return {
            dim: tuple(getattr(errors, error) for error in theories)
            for dim, errors in results.items()
        }

    return limit(
        {f"{error.upper()} d=inf {name}": theory for error, theory in theories.items()},
        errors_of(runs),
        fit=extrapolate_ratios,
        order=order,
        predictions=errors_of(predictions),
        anchors=anchors,
        draws=name,
        fit_label=f"chi-square of the ratios {name}",
        name=f"{name}: ratio to the prediction",
    )


def predicted_at(
    dim: int, name: str, predictions: Mapping[int, Later], runs: Mapping[int, Later]
) -> Rows:
    """Both errors at one dimension against the finite-size prediction."""
    theory = call(with_uncertainty, predictions[dim])
    yield from both_errors(f"d={dim} {name}", theory, runs[dim], of="predict")


def with_uncertainty(predicted: Prediction) -> SimpleNamespace:
    """Predicted errors, with the uncertainty of the theory in their standard errors.

    Nearly all runs are within the uncertainty, which so counts as two standard errors.
    """
    estimates = {}
    for name in ERRORS:
        error = getattr(predicted, name)
        doubt = predicted.uncertainty / 2 * error.mean
        total = math.hypot(error.standard_error, doubt)
        estimates[name] = Estimate(error.mean, total, error.repeats)
    return SimpleNamespace(**estimates)


def difference_of_means(first: Estimate, second: Estimate) -> Estimate:
    """First minus second, which are independent."""
    error = math.hypot(first.standard_error, second.standard_error)
    return Estimate(first.mean - second.mean, error, min(first.repeats, second.repeats))


def rise(label: str, low: Point, high: Point, dim: int, repeats: int) -> Row:
    """Difference of the ICL errors at two points, simulated against predicted."""
    predicted_high = call(with_uncertainty, high.predicted(dim)).icl
    predicted_low = call(with_uncertainty, low.predicted(dim)).icl
    theory = call(difference_of_means, predicted_high, predicted_low)
    simulated_high = high.simulated(dim, repeats).icl
    simulated_low = low.simulated(dim, repeats).icl
    return mean(label, theory, call(difference_of_means, simulated_high, simulated_low))
