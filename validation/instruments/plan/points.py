"""What runs of one setting are expected to show at one size, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics.pretraining import (
    all_position_errors,
    finite_size_errors,
    finite_size_spread,
    structured_errors,
)
from iclimit.asymptotics.pretraining.finite_size_spread import paired_covariance
from iclimit.checks import check_arguments
from iclimit.experiment import Experiment, Point
from iclimit.simulate.pretraining.cell_cost import (
    OPERATIONS_PER_SECOND,
    RUN_OPERATIONS,
    count_operations,
)
from iclimit.validation.instruments.plan.durations import descent_operations
from iclimit.validation.instruments.runs.limits import limit_errors
from iclimit.validation.instruments.runs.measured import MEASURED, OF_LOSS, SIZES, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict

# Law of the tests, where it is not that of the pretraining.
TESTS = ("test_alpha", "test_rho")

# How long a run is trained, and from where.
TRAINED = ("time", "start_variance")

# Numbers of a setting.
RATIOS = (
    *("tau", "alpha", "kappa", "rho", "ridge", *TESTS, *TRAINED),
    *("sequence_ratio", "alpha_min"),
)

# Keywords of runs that are predicted with their scatter.
KNOWN = {*SIZES, "rho", "ridge", "task_law", "test_context", "test_rho", *TRAINED, *OF_LOSS}

# Task sets from which the scatter of runs is found.
SPREAD_SETS = 30

# Task sets of a prediction for tests of another context or noise.
SHIFTED_SETS = 4

# Runs whose mean is nearly normal, over the kurtosis of the law of a run with a heavy tail.
RUNS_OF_KURTOSIS = 2

# What is run: at every dimension, or at its own one.
Setting: TypeAlias = Point | Experiment

# Cost of a run, of dim, context, tasks and prompts.
Cost = Callable[..., float]


class NotProposed(Exception):
    """Why runs of a size are not proposed."""


def check_ratio(name: str, value: float) -> None:
    """Raise a ValueError for a number of a setting that no run has."""
    check_arguments(**{name: value})
    if value == math.inf and name != "kappa":
        raise ValueError(f"{name} must be finite for runs, got {value!r}")


def run_at(setting: Setting, dim: int) -> Experiment:
    """The run of a setting at a dimension.

    Raises
    ------
    ValueError
        If it is a run of another one.
    """
    if isinstance(setting, Point):
        return setting.at(dim)
    if setting.dim != dim:
        raise ValueError(f"dim must be that of the run, {setting.dim}, got {dim}")
    return setting


def task_law_of(setting: Setting) -> str:
    """Law of the tasks."""
    return setting.task_law if isinstance(setting, Point) else setting.problem.task_law


@dataclass(frozen=True)
class PlannedRun:
    """Runs of one setting at one size, with what is expected of them.

    Attributes
    ----------
    run : MeasuredRun
        A run that has not been measured.
    prediction : Prediction
        Predicted errors.
    covariance : ndarray (2, 2)
        Covariance of the ICL and the IDG error of a run; infinite where it is.
    cost : float
        Cost of a run.
    quantity : {"icl", "idg", "gap"}
        What is measured.
    """

    run: MeasuredRun
    prediction: Prediction
    covariance: np.ndarray
    cost: float
    quantity: str

    @property
    def ratios(self) -> dict[str, float]:
        """Parameters of the limit that the integers stand for."""
        ratios = self.run.ratios | self.run.test_ratios
        if self.run.by_position:
            # A sum over integers is an integral that begins half a position earlier.
            first = (self.run.first_position - 0.5) / self.run.sizes["dim"]
            ratios |= {"sequence_ratio": self.run.parameters["sequence_ratio"], "alpha_min": first}
            del ratios["tau"]
        left_out = () if self.run.trained else TRAINED
        return {name: value for name, value in ratios.items() if name not in left_out}

    @property
    def weights(self) -> np.ndarray:
        """Weights of the two errors in what is measured."""
        return np.array(MEASURED[self.quantity])

    @property
    def mean(self) -> float:
        """Predicted value."""
        return self.prediction.value(self.quantity)

    @property
    def variance(self) -> float:
        """Variance of one run."""
        return float(self.weights @ self.covariance @ self.weights)

    @property
    def floor(self) -> float:
        """Variance of the predicted mean."""
        return float(self.weights @ self.prediction.covariance @ self.weights)

    @property
    def doubt(self) -> float:
        """Largest systematic error of the prediction."""
        return 2 * float(np.linalg.norm(self.weights @ self.prediction.doubts))

    @property
    def fewest(self) -> int:
        """Runs from which on their mean is nearly normal: 0, or by the kurtosis of a heavy law."""
        if not self.prediction.heavy:
            return 0
        drawn = self.prediction.law @ self.weights
        drawn = drawn - np.mean(drawn)
        kurtosis = float(np.mean(drawn**4) / np.mean(drawn**2) ** 2)
        return math.ceil(RUNS_OF_KURTOSIS * kurtosis)

    @property
    def relative_spread(self) -> float:
        """Standard deviation of a run over the mean, the largest of the errors that are used."""
        spreads = np.sqrt(np.diag(self.covariance)) / self.prediction.mean
        return float(np.max(spreads[self.weights != 0]))

    def limit(self, ratios: Mapping[str, Any]) -> np.ndarray:
        """Limit of what is measured at the ratios of the run, of which some may be others."""
        named = {**self.ratios, **ratios}
        if self.run.by_position:
            divisor = self.run.experiment.model.normalization
            own = all_position_errors(**named, normalization=divisor)
            return np.asarray(np.stack([own.icl, own.idg], axis=-1) @ self.weights)
        if self.run.trained:
            return np.asarray(limit_errors(named, None) @ self.weights)
        errors = structured_errors(**named)
        icl, idg = self.weights
        return icl * errors.icl + idg * errors.idg

    def under(self, prediction: Prediction) -> PlannedRun:
        """The run with another prediction, whose runs scatter as much relative to it."""
        factor = prediction.mean / self.prediction.mean
        covariance = self.covariance * np.outer(factor, factor)
        return replace(self, prediction=prediction, covariance=covariance)


def _cost_of(function: Cost, sizes: Mapping[str, int]) -> float:
    """What the user's function says of a run."""
    allowed = "cost must return a number > 0 and finite"
    try:
        cost = float(function(*sizes.values()))
    except (Exception, SystemExit) as error:
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ValueError(f"{allowed}, got {type(error).__name__}: {error} at {at}") from error
    if not 0 < cost < math.inf:
        raise ValueError(f"{allowed}, got {cost!r}")
    return cost


@dataclass(frozen=True)
class Planner:
    """What is measured, what it costs and what predicts it."""

    quantity: str
    cost: Cost | None
    theory: Theory

    def at(self, experiment: Experiment) -> PlannedRun:
        """What is expected of a run.

        Raises
        ------
        ValueError
            If it has parts that no plan knows.
        NotProposed
            If nothing is predicted there, or the error or its variance is infinite.
        """
        values = experiment.keywords()
        if unknown := values.keys() - KNOWN:
            raise ValueError(f"plans know no {', '.join(sorted(unknown))} of a run")
        if values.keys() & {"test_context", "test_rho"} and values.keys() & {*TRAINED}:
            raise ValueError("time must be left out where tests differ from the pretraining")
        # The law of the tasks is that of the theory, as in a table of runs.
        values.pop("task_law", None)
        run = MeasuredRun((1,), Experiment.of(**values), {})
        plain = run
        if run.tests and not run.by_position:
            plain = replace(run, experiment=run.experiment.with_(test=None))
        try:
            prediction = predict(plain, self.theory)
            covariance = prediction.spread + prediction.scatter
            if (
                plain is not run and prediction.finite
            ):  # the ratio over a few task sets that are the same
                sets = {"draws": SHIFTED_SETS, **self.options}
                pair = [finite_size_errors(**tested.arguments, **sets) for tested in (run, plain)]
                ratio = pair[0].icl.mean / pair[1].icl.mean
                prediction = prediction.scaled(np.array([ratio, 1.0]))
                sets["draws"] = SPREAD_SETS
                covariance = finite_size_spread(**run.arguments, **sets).covariance
        except (ArithmeticError, ValueError) as error:
            raise NotProposed(str(error).removeprefix(f"{plain.label}: ")) from None
        if not (prediction.finite and np.all(np.isfinite(covariance))):
            raise NotProposed("the error or its variance is infinite")
        if self.cost is None:
            operations = RUN_OPERATIONS + descent_operations(plain.experiment)
            if not run.trained:
                operations = count_operations(plain.experiment)
            cost = operations / OPERATIONS_PER_SECOND
        else:
            cost = _cost_of(self.cost, run.sizes)
        return PlannedRun(run, prediction, covariance, cost, self.quantity)

    @property
    def options(self) -> dict[str, Any]:
        """Tasks of a prediction."""
        return {"task_law": self.theory.task_law, "rng": self.theory.root}

    def paired_variance(self, points: Sequence[PlannedRun]) -> float:
        """Variance of the difference of two tests of the same runs."""
        if points[0].run.by_position:
            errors = [point.prediction.drawn @ point.weights for point in points]
            return float(np.var(errors[0] - errors[1], ddof=1))
        tests = [point.run.tests for point in points]
        setting = points[0].run.experiment.with_(test=None).keywords()
        covariance = paired_covariance(tests, **setting, **self.options, draws=SPREAD_SETS)
        return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
