"""Training on all positions: the model is a step of one rate, best for an effective context.

Errors at every position of linear attention that is trained on all positions of its sequences,
extrapolated to infinitely many sequences, equal those of one step with one rate at any dimension:
for means over the examples and a fixed divisor, equal and unequal weights of positions, and for
the same few tasks in all sequences.  The rate is that of the effective context.

Source: Derived in the documentation.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import exact_position_errors
from iclimit.experiment import Experiment, Reduced, Ridge
from iclimit.losses import AllPositions
from iclimit.problem import Problem
from iclimit.simulate.pretraining import simulate_positions
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run

# Task vectors, of squared norm d.
TASKS = 2.0 * np.random.default_rng(0).integers(0, 2, (4, 6)) - 1

# Laws of sequences.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"dim": 6, "context": 12, "rho": 0.1, "first": 2},
    {"dim": 6, "context": 12, "rho": 0.1, "normalization": "length"},
    {"dim": 4, "context": 6, "rho": 0.5, "first": 3, "weights": (4.0, 2.0, 1.0, 1.0)},
    {"dim": 6, "context": 12, "rho": 0.2, "first": 4, "ridge": 0.05, "task_set": TASKS},
)

# Runs by the number of sequences.  Errors are a series in 1/n, the second order of which is below
# the resolution at these numbers.
SEQUENCES = {100: 24, 200: 16, 400: 12, 800: 10}
ORDER = 2


@named_cell("sequence_positions")
def errors_by_position(
    *,
    dim: int,
    context: int,
    rho: float,
    prompts: int,
    first: int = 1,
    weights: tuple[float, ...] | None = None,
    normalization: str = "mean",
    ridge: float = 0.0,
    task_set: Any = np.inf,
    repeats: int,
    rng: SeedSequence,
) -> np.ndarray:
    """ICL and IDG error at the first and the last position of training, (4, repeats)."""
    law = Problem(dim, context, tasks=task_set, noise_variance=rho, task_law="sphere")
    stated = Experiment(
        law,
        prompts=prompts,
        loss=AllPositions(first, weights),
        training=Ridge(ridge),
        model=Reduced(normalization=normalization),
    )
    runs = simulate_positions(stated, positions=[first, context], rng=rng, repeats=repeats)
    return np.concatenate([runs.icl.T, runs.idg.T])


def rows(effort: Effort) -> Rows:
    """First and last position of each setting."""
    for setting in SETTINGS:
        words = " ".join(
            f"{name}={value}"
            for name, value in setting.items()
            if name not in ("task_set", "weights")
        )
        runs = {
            count: run(errors_by_position, prompts=count, repeats=repeats, **setting)
            for count, repeats in effort.by_size(SEQUENCES).items()
        }
        theory = call(exact_position_errors, **setting)
        few = "task_set" in setting
        theories = {
            f"{error.upper()} {where} {words}": getattr(theory, error)[place]
            for error in (("icl", "idg") if few else ("icl",))
            for where, place in (("first position", 0), ("last position", -1))
        }
        kept = {count: call(_first_rows, errors, len(theories)) for count, errors in runs.items()}
        yield limit(theories, kept, about=words, order=ORDER, size="$n$")


def _first_rows(errors: np.ndarray, count: int) -> np.ndarray:
    """The ICL errors, or both where they differ."""
    return errors[:count]


claim = Claim.of("effective-context", __doc__, rows, figure=False)
