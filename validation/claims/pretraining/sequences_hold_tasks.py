"""Sequences hold no more tasks than there are of them.

Linear attention that is trained on all positions of n sequences with a task each memorises these
tasks as if it had been trained on n of them: the error on new sequences of a task that was seen
once, extrapolated to infinite dimension, is that of kappa = n/d tasks, below the error on fresh
ones.  The latter is that of a fresh task in every sequence.

Source: Derived in the documentation.
"""

import math
from typing import Any

from iclimit.asymptotics.pretraining import predict
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, mean, run
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.claims.pretraining.sequence_points import at, compared

# Settings of the limit, in which every sequence has a task of its own.
SETTINGS: tuple[dict[str, Any], ...] = tuple(
    {
        "sequence_ratio": ratio,
        "alpha": 1.5,
        "alpha_min": 0.5,
        "kappa": ratio,
        "rho": 0.2,
        "ridge": 0.3,
    }
    for ratio in (1, 3)
)

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {16: 240, 24: 140, 32: 80},
    "medium": {16: 1200, 24: 700, 32: 400, 48: 60},
    "full": {16: 4000, 32: 1500, 48: 300, 64: 100},
}


def rows(effort: Effort) -> Rows:
    """Limits, and fresh tasks at one size."""
    repeats = effort.by_size(**REPEATS)
    for point in effort.pick(tiny=SETTINGS[:1], quick=SETTINGS):
        yield from compared(point, repeats, balanced=True)
        dim = max(repeats)
        fresh = run(predict, run=at(dim, point | {"kappa": math.inf}, balanced=False))
        theory = call(with_uncertainty, fresh)
        runs = run(sample, run=at(dim, point, balanced=True), repeats=repeats[dim])
        name = f"ICL of fresh tasks, nu={point['kappa']}, d={dim}"
        yield mean(name, theory.icl, runs.icl, of="predict.icl")


claim = Claim.of("sequences-hold-tasks", __doc__, rows, figure=False)
