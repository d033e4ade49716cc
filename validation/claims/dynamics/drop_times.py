"""The staircase of separate attention, predicted from its initial weights.

The times of all drops of gradient flow from tiny random weights are those at which heads
escape one after the other.

Source: {zhang2025}, section 4; times for general weights: documentation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from iclimit.comparison import Comparison, compare
from iclimit.validation.claim import Claim, Effort, Rows, call, judged, run
from iclimit.validation.claims.dynamics.staircase_flows import (
    TIME_TOLERANCE,
    FlowCell,
    separate_flows,
)

# Dimension of the inputs.
DIM = 4
# Heads of rank one.
HEADS = 5
# Scale of the initial weights.  Few starts: each is held against the theory of its own weights.
SCALE = 1e-6
# Two heads of rank two, each of which learns two directions, and noisy labels.
WIDE: dict[str, Any] = {"heads": 2, "rank": 2, "noise_variance": 0.1}


def rows(effort: Effort) -> Rows:
    """The times of all drops that are predicted before the end."""
    same: dict[str, Any] = {"dim": DIM, "scales": (SCALE,)}
    setting = {"heads": HEADS, "rank": 1} | same
    seeds = range(effort.pick(tiny=1, quick=2, medium=8, full=40))
    flows = {f"seed {n}": run(separate_flows, seed=n, **setting)[0] for n in seeds}
    for n in range(effort.pick(tiny=1, quick=1, medium=4, full=20)):
        flows[f"rank 2, seed {n}"] = run(separate_flows, seed=n, **same, **WIDE)[0]
    yield judged(call(compare_drops, flows))


def compare_drops(flows: Mapping[str, FlowCell]) -> Iterator[Comparison]:
    """Compare the times of all drops that are predicted before the end."""
    of = "separate_attention_staircase.drop_times"
    for where, flow in flows.items():
        for drop in np.flatnonzero(flow.expected):
            label = f"time of drop {drop + 1}, {where}"
            pair = flow.predicted[drop], flow.crossings[drop]
            yield compare(label, *pair, relative=TIME_TOLERANCE, of=of)


claim = Claim.of("dynamics-drop-times", __doc__, rows, figure=False)
