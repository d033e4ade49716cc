"""Points of the parameter space, at which limit, finite-size prediction and simulation meet.

Claims name their cells ("simulated", point, dim) and ("predicted", point, dim).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error, idg_error
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation import Cell, Comparison, Results, compare_errors


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


def compare_predictions(results: Results) -> list[Comparison]:
    """Every simulation against the finite-size prediction, both errors."""
    rows = []
    for key, found in results.items():
        if key[0] == "predicted" and ("simulated", *key[1:]) in results:
            _, point, dim = key
            run, allowance = results["simulated", point, dim], point.allowance(dim)
            rows += compare_errors(f"d={dim} {point}", found, run, relative=allowance)
    return rows
