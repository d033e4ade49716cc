"""Points of the parameter space, at which limit, finite-size prediction and simulation meet.

Claims name their cells ("simulated", point, dim) and ("predicted", point, dim).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from iclimit.asymptotics.pretraining import (
    FiniteSizeErrors,
    finite_size_errors,
    icl_error,
    idg_error,
)
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation import Cell, Comparison, Results, compare_errors
from iclimit.validation.judge.comparisons import ERRORS

MOST_TASKS = 100
"""Above this number a prediction task by task would cost more than the simulation."""
CHEAP = 3
"""Factor of the repeats where there are fewer prompts than parameters: they cost less there, and
scatter more."""
TASK_SETS = 8
"""Task sets of other predictions."""
ANCHORED = 4000
"""Dimension times task sets, where the limit of the predictions is extrapolated."""


@dataclass(frozen=True)
class Point:
    """Parameters of the limit; sizes are chosen so that the integers come out exact."""

    tau: float
    alpha: float
    kappa: float
    rho: float
    ridge: float = 0.0

    anchors = (40, 56, 80, 104, 136)
    """Dimensions from which the limit of the predictions is extrapolated."""

    functions = ("icl_error", "idg_error")
    """Theory of the limits of both errors."""

    def __str__(self) -> str:
        text = f"tau={self.tau:g} alpha={self.alpha:g} kappa={self.kappa:g} rho={self.rho:g}"
        return text + (f" ridge={self.ridge:g}" if self.ridge else "")

    @property
    def limit(self) -> Any:
        """Asymptotic errors, as ``icl`` and ``idg``."""
        return SimpleNamespace(icl=icl_error(**vars(self)), idg=idg_error(**vars(self)))

    def integers(self, dim: int) -> dict[str, Any]:
        """Arguments of a run at this dimension."""
        return {
            "dim": dim,
            "context": max(1, round(self.alpha * dim)),
            "tasks": math.inf if self.kappa == math.inf else max(1, round(self.kappa * dim)),
            "prompts": max(1, round(self.tau * dim**2)),
            "rho": self.rho,
            "ridge": self.ridge,
        }

    def simulation(self, dim: int, repeats: int, **options: Any) -> Cell:
        """Simulation of this point."""
        return Cell.of(simulate_errors, **self.integers(dim), repeats=repeats, **options)

    def prediction(self, dim: int, draws: int, approach: str = "tasks") -> Cell:
        """Finite-size prediction; its spread over task sets shrinks as 1/d."""
        given = self.integers(dim)
        draws = 1 if given["tasks"] == math.inf else draws
        return Cell.of(finite_size_errors, **given, draws=draws, approach=approach)

    def cells(self, dim: int, repeats: int) -> dict[Any, Cell]:
        """Simulation and prediction at one dimension."""
        predicted = self.line_prediction(dim, TASK_SETS)
        simulated = self.simulation(dim, repeats)
        return {("simulated", self, dim): simulated, ("predicted", self, dim): predicted}

    def line_prediction(self, dim: int, draws: int) -> Cell:
        """Prediction task by task, unless there are too many tasks for that."""
        many = MOST_TASKS < self.integers(dim)["tasks"] < math.inf
        return self.prediction(dim, draws, "moments" if many else "tasks")

    def limit_cells(self, repeats: Mapping[int, int]) -> dict[Any, Cell]:
        """Simulations and predictions whose limit is extrapolated, given the repeats by dimension.

        Predictions at larger sizes come from the simpler approach, which has the same limit.  Runs
        with few prompts cost little and scatter most: there are more of them, and fewer task sets.
        With more prompts the predictions of random task sets scatter half as much as the runs, at
        a quarter of their cost: as many task sets as repeats make the error bar smallest.
        """
        more, found = CHEAP if self.tau < 1 else 1, {}
        factor = 1 + sum(repeats.values()) // 1000
        for dim, count in sorted(repeats.items(), reverse=True):
            found["simulated", self, dim] = self.simulation(dim, more * count)
            found["predicted", self, dim] = self.prediction(dim, count // more)
        for dim in self.anchors:
            key = "predicted", self, dim
            found[key] = self.prediction(dim, factor * ANCHORED // (more * dim), "moments")
        return found


def compare_predictions(results: Results, points: Iterable[Point]) -> list[Comparison]:
    """Simulations at these points against the finite-size prediction, both errors."""
    chosen, rows = set(points), list[Comparison]()
    for kind, point, dim in results:
        if kind == "simulated" and point in chosen:
            predicted = results["predicted", point, dim]
            theory = SimpleNamespace(**{name: unsure(predicted, name) for name in ERRORS})
            run, where = results["simulated", point, dim], f"d={dim} {point}"
            rows += compare_errors(where, theory, run, of="finite_size_errors")
    return rows


def unsure(predicted: FiniteSizeErrors, name: str) -> Estimate:
    """A predicted error, with the uncertainty of the theory in its standard error.

    Nearly all runs are within the uncertainty, which so counts as two standard errors.
    """
    error = getattr(predicted, name)
    doubt = predicted.uncertainty / 2 * error.mean
    return Estimate(error.mean, math.hypot(error.standard_error, doubt), error.repeats)
