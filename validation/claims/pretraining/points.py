"""Points of the parameter space, at which limit, finite-size prediction and simulation meet.

Claims name their cells ("simulated", point, dim) and ("predicted", point, dim).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error, idg_error
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation.claim import Cell, Comparison
from iclimit.validation.comparisons import compare, compare_errors
from iclimit.validation.drawing import draw_sizes
from iclimit.validation.statistics import Extrapolation

Results = Mapping[Any, Any]
"""Results of the cells of a claim, by its keys."""


@dataclass(frozen=True)
class Errors:
    """The two errors in the limit."""

    icl: Any
    idg: Any


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
        return Errors(icl_error(**vars(self)), idg_error(**vars(self)))

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

    def prediction(self, dim: int) -> Cell:
        """Finite-size prediction; its spread over task sets shrinks as 1/d."""
        draws = 1 if self.kappa == math.inf else max(4, 1000 // dim)
        return Cell.of(finite_size_errors, **self.integers(dim), draws=draws)

    def allowance(self, dim: int) -> float:
        """Relative systematic deviation of the finite-size prediction (measured, see docs).

        The worst seen, ridgeless with fewer prompts than parameters and with a ridge near 1, is
        3.3 % at d = 16, 1.9 % at d = 32, 1.0 % at d = 64.
        """
        return 0.8 / dim

    def cells(self, repeats: Mapping[int, int]) -> dict[Any, Cell]:
        """Simulation and prediction at every dimension, given the repeats; the largest first."""
        found = {}
        for dim, count in sorted(repeats.items(), reverse=True):
            found["simulated", self, dim] = self.simulation(dim, count)
            found["predicted", self, dim] = self.prediction(dim)
        return found


def cells_of(points: Iterable[Point], repeats: Mapping[int, int]) -> dict[Any, Cell]:
    """Cells of several points at the same dimensions."""
    return {key: cell for point in points for key, cell in point.cells(repeats).items()}


def compare_predictions(results: Results) -> list[Comparison]:
    """Every simulation against the finite-size prediction, both errors."""
    return [
        row
        for key, run in results.items()
        if key[0] == "simulated"
        for row in _compare_prediction(key[1], key[2], results["predicted", *key[1:]], run)
    ]


def _compare_prediction(point: Point, dim: int, predicted: Any, run: Any) -> list[Comparison]:
    return compare_errors(f"d={dim} {point}", predicted, run, relative=point.allowance(dim))


def compare_rise(label: str, low: Point, high: Point, dim: int, results: Results) -> Comparison:
    """Difference of the ICL errors at two points, simulated against predicted."""
    before, after = (results["simulated", point, dim].icl for point in (low, high))
    predicted = [float(results["predicted", point, dim].icl) for point in (low, high)]
    rise = Estimate(
        after.mean - before.mean,
        math.hypot(before.standard_error, after.standard_error),
        after.repeats,
    )
    allowance = low.allowance(dim) * predicted[0] + high.allowance(dim) * predicted[1]
    return compare(label, predicted[1] - predicted[0], rise, allowance=allowance)


def draw_errors(
    ax: Any,
    point: Point,
    name: str,
    sizes: Iterable[int],
    results: Results,
    fit: Extrapolation,
    colour: str,
    label: str | None = None,
) -> None:
    """Draw one error of a point against 1/d: simulation, prediction (line) and limit (star)."""
    dims = list(sizes)
    draw_sizes(
        ax,
        dims,
        [getattr(results["simulated", point, dim], name) for dim in dims],
        colour,
        limit=float(getattr(point.limit, name)),
        fit=fit,
        quantity=("icl", "idg").index(name),
        label=label,
    )
    predicted = [float(getattr(results["predicted", point, dim], name)) for dim in dims]
    ax.plot(1 / np.array(dims), predicted, color=colour, linewidth=1.2)
