"""Points of the parameter space, at which limit, finite-size prediction and simulation meet.

Claims name their cells ("simulated", point, dim) and ("predicted", point, dim).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error, idg_error
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation import Cell, Comparison, Results, compare_errors
from iclimit.validation.comparisons import ERRORS

PREDICTED = 1600
"""Dimension times number of task sets that a prediction is averaged over."""
ANCHORED = 6400
"""The same for the predictions whose limit is extrapolated."""


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

    def prediction(self, dim: int, draws: int) -> Cell:
        """Finite-size prediction from mean moments; its spread over task sets shrinks as 1/d.

        The prediction task by task is closer, but takes ten times longer.
        """
        draws = 1 if self.kappa == math.inf else draws
        arguments = self.integers(dim) | {"draws": draws, "approach": "moments"}
        return Cell.of(finite_size_errors, **arguments)

    def unsure(self, dim: int) -> float:
        """Relative standard error of the finite-size prediction itself (measured, see docs)."""
        return 0.4 / dim

    def cells(self, repeats: Mapping[int, int]) -> dict[Any, Cell]:
        """Simulation and prediction at every dimension, given the repeats; the largest first."""
        found = {}
        for dim, count in sorted(repeats.items(), reverse=True):
            found["simulated", self, dim] = self.simulation(dim, count)
            found["predicted", self, dim] = self.prediction(dim, PREDICTED // dim)
        return found

    def anchor_cells(self) -> dict[Any, Cell]:
        """Predictions at the sizes from which their limit is extrapolated."""
        draws = {dim: ANCHORED // dim for dim in self.anchors}
        return {("predicted", self, dim): self.prediction(dim, draws[dim]) for dim in draws}


def compare_predictions(results: Results, points: Iterable[Point]) -> list[Comparison]:
    """Simulations at these points against the finite-size prediction, both errors."""
    chosen, rows = set(points), list[Comparison]()
    for kind, point, dim in results:
        if kind == "simulated" and point in chosen:
            predicted = results["predicted", point, dim]
            theory = SimpleNamespace(
                **{name: unsure(getattr(predicted, name), point.unsure(dim)) for name in ERRORS}
            )
            run, where = results["simulated", point, dim], f"d={dim} {point}"
            rows += compare_errors(where, theory, run, of="finite_size_errors")
    return rows


def unsure(predicted: Estimate, relative: float) -> Estimate:
    """A prediction with the error of its theory beside that of its draws."""
    error = math.hypot(predicted.standard_error, relative * predicted.mean)
    return Estimate(predicted.mean, error, predicted.repeats)
