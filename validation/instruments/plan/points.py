"""What runs of one setting are expected to show at one size, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import (
    finite_size_errors,
    finite_size_spread,
    structured_errors,
)
from iclimit.asymptotics.pretraining.finite_size_spread import paired_covariance
from iclimit.experiment import Experiment
from iclimit.notation import sizes_of
from iclimit.simulate.pretraining.cell_cost import estimate_cost
from iclimit.validation.instruments.runs.measured import MEASURED, SIZES, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict

TESTS = ("test_alpha", "test_rho")
UNSIZED = ("rho", "ridge", "test_rho")

# Task sets from which the scatter of runs is found.
SPREAD_SETS = 30

# Task sets of a prediction for tests of another context or noise.
SHIFTED_SETS = 4

# Runs whose mean is nearly normal, over the kurtosis of the law of a run with a heavy tail.
RUNS_OF_KURTOSIS = 2

# Ratios, noise and ridge by name.
Setting = Mapping[str, float]

# Cost of a run, of dim, context, tasks and prompts.
Cost = Callable[..., float]


class NotProposed(Exception):
    """Why runs of a size are not proposed."""


@dataclass(frozen=True)
class Point:
    """Runs of one setting at one size.

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
        return self.run.ratios | self.run.test_ratios

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

    def limit(self, **changes: Any) -> np.ndarray:
        """Limit of what is measured at the ratios of the point, or at others."""
        errors = structured_errors(**self.ratios | changes)
        icl, idg = self.weights
        return icl * errors.icl + idg * errors.idg

    def under(self, prediction: Prediction) -> Point:
        """The point with another prediction, whose runs scatter as much relative to it."""
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

    def at(self, setting: Setting, dim: int) -> Point:
        """Point of a setting at a dimension.

        Raises
        ------
        NotProposed
            If nothing is predicted there, or the error or its variance is infinite.
        """
        numbers = dict(setting)
        ratios = {name: numbers.pop(name) for name in setting if name not in UNSIZED}
        values: dict[str, Any] = {"dim": dim, **sizes_of(dim, **ratios), **numbers}
        tests = {name: value for name, value in values.items() if "test_" in name}
        sizes = {name: values[name] for name in SIZES}
        run = MeasuredRun((1,), Experiment.of(**values), {})
        plain = replace(run, experiment=run.experiment.with_(test=None))
        try:
            prediction = predict(plain, self.theory)
            covariance = prediction.spread + prediction.scatter
            if tests and prediction.finite:  # the ratio over a few task sets that are the same
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
            cost = estimate_cost(**plain.arguments).seconds
        else:
            cost = _cost_of(self.cost, sizes)
        return Point(run, prediction, covariance, cost, self.quantity)

    @property
    def options(self) -> dict[str, Any]:
        """Tasks of a prediction."""
        return {"task_law": self.theory.task_law, "rng": self.theory.root}

    def paired_variance(self, points: Sequence[Point]) -> float:
        """Variance of the difference of two tests of the same runs."""
        tests = [point.run.tests for point in points]
        setting = points[0].run.experiment.with_(test=None).keywords()
        covariance = paired_covariance(tests, **setting, **self.options, draws=SPREAD_SETS)
        return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
