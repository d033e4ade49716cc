"""A layer beside what pretraining on finitely many prompts is predicted to give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.pretraining import FiniteSizeErrors, GammaErrors, finite_size_errors
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.pretraining import SimulatedErrors, simulate_errors

DRAWS = 20
"""Task sets that the prediction is averaged over."""


@dataclass(frozen=True)
class PretrainingComparison:
    """Errors of a layer beside those of ridge regression on the same number of prompts.

    Attributes
    ----------
    errors : GammaErrors
        Of the layer.  Its ``idg`` is on fresh tasks if only the number of tasks is known.
    predicted : FiniteSizeErrors
        What the theory predicts at these integers.
    simulated : SimulatedErrors
        Simulated pretrainings at the same integers.
    same_tasks : bool
        Whether the tasks are those of the layer, so that the IDG errors can be compared.
    """

    errors: GammaErrors
    predicted: FiniteSizeErrors
    simulated: SimulatedErrors
    same_tasks: bool

    def z(self, error: str = "icl") -> float:
        """Distance from the prediction in standard deviations of one simulated pretraining."""
        allowed = ("icl", "idg") if self.same_tasks else ("icl",)
        if error not in allowed:
            raise ValueError(f"error must be one of {', '.join(allowed)}, got {error!r}")
        runs = getattr(self.simulated, error)
        spread = runs.standard_error * math.sqrt(runs.repeats)
        mean = getattr(self.predicted, error).mean
        return float((getattr(self.errors, error) - mean) / spread)

    def __str__(self) -> str:
        """Short table."""
        lines = [f"{'':<22}{'layer':>10}{'predicted':>12}{'one run':>16}{'z':>8}"]
        for error in ("icl", "idg") if self.same_tasks else ("icl",):
            runs = getattr(self.simulated, error)
            spread = runs.standard_error * math.sqrt(runs.repeats)
            run = f"{runs.mean:.4g} ± {spread:.2g}"
            mean = getattr(self.predicted, error).mean
            found = getattr(self.errors, error)
            name = "fresh tasks" if error == "icl" else "pretraining tasks"
            lines.append(f"{name:<22}{found:>10.4g}{mean:>12.4g}{run:>16}{self.z(error):>8.2f}")
        return "\n".join(lines)


def compare_with_pretraining(
    errors: GammaErrors, run: dict[str, Any], repeats: int, rng: Any
) -> PretrainingComparison:
    """Predict and simulate a run given by arguments of `simulate_errors`."""
    check_integers(least=2, repeats=repeats)
    theory, simulation = seed_sequences(rng, 2)
    return PretrainingComparison(
        errors,
        finite_size_errors(**run, rng=theory, draws=DRAWS),
        simulate_errors(**run, rng=simulation, repeats=repeats),
        same_tasks=not isinstance(run["tasks"], (int, float)),
    )
