"""What runs of one setting are expected to show at one size, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread
from iclimit.notation import sizes_of
from iclimit.simulate.pretraining.cost import estimate_cost
from iclimit.validation.yours.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.yours.runs.predictions import Prediction, Theory, predict

# Parameters of a setting: ratios, noise, ridge, and another law of the tests.
RATIOS = ("tau", "alpha", "kappa")
TESTS = ("test_alpha", "test_rho")

# Task sets over which errors of a run scatter, and those of a prediction of other tests.
SPREAD_SETS, SHIFTED_SETS = 30, 4

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
        if not np.all(np.isfinite(self.covariance)):
            return math.inf
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
        """Standard deviation of a run over the mean; the larger one of the two errors of a gap."""
        used = self.weights != 0
        return float(np.max(np.sqrt(np.diag(self.covariance)[used]) / self.prediction.mean[used]))


class Points:
    """Points by setting and dimension, each computed once."""

    def __init__(self, quantity: str, cost: Cost | None, theory: Theory) -> None:
        self.quantity, self.cost, self.theory = quantity, cost, theory
        self.known: dict[tuple[object, ...], Point] = {}

    def at(self, setting: Setting, dim: int) -> Point:
        """Point of a setting at a dimension.

        Raises
        ------
        NotProposed
            If nothing is predicted there.
        """
        arguments = run_arguments(setting, dim)
        key = tuple(arguments.items())
        if key not in self.known:
            self.known[key] = self._predicted(arguments)
        return self.known[key]

    def _predicted(self, arguments: dict[str, Any]) -> Point:
        sizes = {name: arguments[name] for name in ("dim", "context", "tasks", "prompts")}
        noise, ridge = arguments["rho"], arguments["ridge"]
        run = MeasuredRun((1,), sizes, noise, ridge, {})
        try:
            prediction = self._of_tests(predict(run, self.theory), arguments)
            spread = finite_size_spread(
                **arguments, task_law=self.theory.task_law, rng=self.theory.root, draws=SPREAD_SETS
            )
        except (ArithmeticError, ValueError) as error:
            raise NotProposed(str(error).removeprefix("row 1: ")) from None
        if not prediction.finite:
            raise NotProposed("the error is infinite")
        if self.cost is None:
            cost = estimate_cost(**sizes, rho=noise, ridge=ridge).seconds
        else:
            cost = float(self.cost(*sizes.values()))
            if not 0 < cost < math.inf:
                raise ValueError(f"cost must return a number > 0 and finite, got {cost!r}")
        return Point(arguments, prediction, spread.covariance, cost, self.quantity)

    def _of_tests(self, prediction: Prediction, arguments: dict[str, Any]) -> Prediction:
        """Prediction of other tests: multiplied by the ratio of a few task sets."""
        tests = {name: each for name, each in arguments.items() if name.startswith("test_")}
        if not tests or not prediction.finite:
            return prediction
        usual = {name: each for name, each in arguments.items() if name not in tests}
        options: dict[str, Any] = {"draws": SHIFTED_SETS, "rng": self.theory.root}
        options["task_law"] = self.theory.task_law
        shifted, plain = (finite_size_errors(**usual, **t, **options) for t in (tests, {}))
        return prediction.scaled(np.array([shifted.icl.mean / plain.icl.mean, 1.0]))

    def rival(self, point: Point, estimator: str) -> Point:
        """The point if errors are those of a Bayes estimator, whose runs scatter as much."""
        sizes = {name: point.arguments[name] for name in ("dim", "context", "tasks", "prompts")}
        run = MeasuredRun((1,), sizes, point.arguments["rho"], 0.0, {}, estimator=estimator)
        return with_prediction(point, predict(run, self.theory))


def with_prediction(point: Point, prediction: Prediction) -> Point:
    """Point with another prediction, whose runs scatter as much relative to the mean."""
    factor = prediction.mean / point.prediction.mean
    covariance = point.covariance * np.outer(factor, factor)
    return replace(point, prediction=prediction, covariance=covariance)


def run_arguments(setting: Setting, dim: int) -> dict[str, Any]:
    """Integers, noise, ridge and tests of a setting at a dimension."""
    sizes = sizes_of(dim, **{name: setting[name] for name in RATIOS})
    tests = {name: setting[name] for name in TESTS if name in setting}
    if "test_alpha" in tests:
        tests["test_context"] = sizes_of(dim, test_alpha=tests.pop("test_alpha"))["test_context"]
    ordered = {name: sizes[name] for name in ("context", "tasks", "prompts")}
    return {"dim": dim, **ordered, "rho": setting["rho"], "ridge": setting["ridge"], **tests}
