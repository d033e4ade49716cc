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
from iclimit.notation import ratios_of, sizes_of
from iclimit.simulate.pretraining.cost import estimate_cost
from iclimit.validation.yours.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.yours.runs.predictions import Prediction, Theory, predict

SIZES = ("dim", "context", "tasks", "prompts")
TESTS = ("test_alpha", "test_rho")
UNSIZED = ("rho", "ridge", "test_rho")

# Task sets of the scatter of runs, and of a prediction of other tests.
SPREAD_SETS, SHIFTED_SETS = 30, 4

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
    arguments : dict
        Integers, noise, ridge and test laws, as `simulate_errors` takes them.
    prediction : Prediction
        Predicted errors.
    covariance : ndarray (2, 2)
        Covariance of the ICL and the IDG error of a run; infinite where it is.
    cost : float
        Cost of a run.
    quantity : {"icl", "idg", "gap"}
        What is measured.
    """

    arguments: Mapping[str, Any]
    prediction: Prediction
    covariance: np.ndarray
    cost: float
    quantity: str

    @property
    def sizes(self) -> dict[str, Any]:
        """The integers."""
        return {name: self.arguments[name] for name in SIZES}

    @property
    def tests(self) -> dict[str, Any]:
        """Tests that differ from the training."""
        return {name: each for name, each in self.arguments.items() if "test_" in name}

    @property
    def pretraining(self) -> dict[str, Any]:
        """Arguments without the tests."""
        return {name: each for name, each in self.arguments.items() if "test_" not in name}

    @property
    def ratios(self) -> dict[str, float]:
        """Parameters of the limit that the integers stand for."""
        numbers = dict(self.arguments)
        sizes = [name for name in numbers if name in SIZES or name == "test_context"]
        return ratios_of(**{name: numbers.pop(name) for name in sizes}) | numbers

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
    def relative_spread(self) -> float:
        """Standard deviation of a run over the mean, the largest of the errors that are used."""
        spreads = np.sqrt(np.diag(self.covariance)) / self.prediction.mean
        return float(np.max(spreads[self.weights != 0]))

    def limit(self, **changes: Any) -> Any:
        """Limit of what is measured at the ratios of the point, or at others."""
        errors, (icl, idg) = structured_errors(**self.ratios | changes), self.weights
        return icl * errors.icl + idg * errors.idg

    def under(self, prediction: Prediction) -> Point:
        """The point with another prediction, whose runs scatter as much relative to it."""
        factor = prediction.mean / self.prediction.mean
        covariance = self.covariance * np.outer(factor, factor)
        return replace(self, prediction=prediction, covariance=covariance)


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
        plain = {name: values[name] for name in (*SIZES, "rho", "ridge")}
        tests = {name: each for name, each in values.items() if "test_" in name}
        options = self.options
        run = self.run(plain)
        try:
            prediction = predict(run, self.theory)
            covariance = prediction.spread + prediction.scatter
            if tests and prediction.finite:  # the ratio over a few task sets that are the same
                sets = {"draws": SHIFTED_SETS, **options}
                pair = [finite_size_errors(**plain, **each, **sets) for each in (tests, {})]
                ratio = pair[0].icl.mean / pair[1].icl.mean
                prediction = prediction.scaled(np.array([ratio, 1.0]))
                sets["draws"] = SPREAD_SETS
                covariance = finite_size_spread(**plain, **tests, **sets).covariance
        except (ArithmeticError, ValueError) as error:
            raise NotProposed(str(error).removeprefix(f"{run.label}: ")) from None
        if not (prediction.finite and np.all(np.isfinite(covariance))):
            raise NotProposed("the error or its variance is infinite")
        if self.cost is None:
            cost = estimate_cost(**plain).seconds
        else:
            cost = float(self.cost(*(plain[name] for name in SIZES)))
            if not 0 < cost < math.inf:
                raise ValueError(f"cost must return a number > 0 and finite, got {cost!r}")
        return Point({**plain, **tests}, prediction, covariance, cost, self.quantity)

    @property
    def options(self) -> dict[str, Any]:
        """Tasks of a prediction."""
        return {"task_law": self.theory.task_law, "rng": self.theory.root}

    def paired_variance(self, points: Sequence[Point]) -> float:
        """Variance of the difference of two tests of the same runs."""
        tests, setting = [point.tests for point in points], points[0].pretraining
        covariance = paired_covariance(tests, **setting, **self.options, draws=SPREAD_SETS)
        return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])

    def run(self, arguments: Mapping[str, Any], estimator: str = "attention") -> MeasuredRun:
        """Run of linear attention, or of a Bayes estimator, that has not been measured."""
        sizes = {name: arguments[name] for name in SIZES}
        rho, ridge = arguments["rho"], arguments["ridge"]
        return MeasuredRun((1,), sizes, rho, ridge, {}, estimator=estimator)
