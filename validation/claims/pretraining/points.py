"""Points of the parameter space, at which theory, prediction and simulation meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error, idg_error
from iclimit.simulate.pretraining import SimulatedErrors, simulate_errors
from iclimit.validation.claim import Cell, Comparison

PAPER = "Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751"


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
    def theory(self) -> np.ndarray:
        """Asymptotic ICL and IDG errors."""
        parameters = vars(self)
        return np.array([icl_error(**parameters), idg_error(**parameters)])

    def integers(self, d: int) -> dict[str, Any]:
        """Arguments of a run at dimension d."""
        return {
            "dim": d,
            "context": max(1, round(self.alpha * d)),
            "tasks": math.inf if self.kappa == math.inf else max(1, round(self.kappa * d)),
            "prompts": max(1, round(self.tau * d**2)),
            "rho": self.rho,
            "ridge": self.ridge,
        }

    def cell(self, d: int, repeats: int, **options: Any) -> Cell:
        """Simulation of this point at dimension d."""
        return Cell.of(simulate_errors, **self.integers(d), repeats=repeats, **options)

    def prediction(self, d: int) -> Cell:
        """Finite-size prediction at dimension d; its spread over task sets shrinks as 1/d."""
        draws = 1 if self.kappa == math.inf else max(4, 1000 // d)
        return Cell.of(finite_size_errors, **self.integers(d), draws=draws)

    def allowance(self, d: int) -> float:
        """Relative systematic deviation of the finite-size prediction (measured, see docs).

        The worst seen, ridgeless with fewer prompts than parameters and with a ridge near 1, is
        3.3 % at d = 16, 1.9 % at d = 32, 1.0 % at d = 64.
        """
        return 0.8 / d


def covariance(run: SimulatedErrors) -> np.ndarray:
    """Covariance of the mean ICL and IDG errors of a run, correlation kept."""
    return np.cov(np.stack([run.icl.samples, run.idg.samples])) / run.repeats


def means(run: SimulatedErrors) -> np.ndarray:
    """Mean ICL and IDG errors of a run."""
    return np.array([run.icl.mean, run.idg.mean])


def prediction_comparisons(
    point: Point, d: int, results: Mapping[Cell, Any], cell: Cell, label: str = ""
) -> list[Comparison]:
    """Simulation at size d against the finite-size prediction, both errors."""
    run, predicted = results[cell], results[point.prediction(d)]
    rows = []
    for name in ("icl", "idg"):
        prediction, estimate = getattr(predicted, name), getattr(run, name)
        theory = prediction.mean
        rows.append(
            Comparison(
                label=f"{name.upper()} d={d} {label or point}",
                theory=theory,
                estimate=estimate.mean,
                standard_error=math.hypot(estimate.standard_error, prediction.standard_error),
                allowance=point.allowance(d) * theory,
                degrees=run.repeats - 1,
            )
        )
    return rows
