"""The staircase of separate attention, predicted from its initial weights.

The times of all drops of gradient flow from tiny random weights are those at which heads
escape one after the other.

Source: {zhang2025}, section 4; times for general weights: documentation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Figure, finish
from iclimit.validation import Comparison, compare
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.dynamics.setting import TIME, draw_prediction
from iclimit.validation.claims.dynamics.staircase_flows import (
    TIME_TOLERANCE,
    FlowCell,
    separate_flows,
)
from iclimit.validation.rows import Rows, call, drawing, judged, note, run

DIM, HEADS, SCALE = 4, 5, 1e-6


def rows(effort: Effort) -> Rows:
    """The times of all drops that are predicted before the end."""
    setting: dict[str, Any] = {"dim": DIM, "heads": HEADS, "rank": 1, "scales": (SCALE,)}
    seeds = range(effort.pick(tiny=1, quick=2, medium=20, full=200))
    flows = {seed: run(separate_flows, seed=seed, **setting)[0] for seed in seeds}
    comparisons = call(lambda given: [*compare_drops(given)], flows)
    yield judged(comparisons)
    yield note(call(describe, flows, comparisons))
    yield drawing(draw, list(flows.values())[:4])


def compare_drops(flows: Mapping[int, FlowCell]) -> Iterator[Comparison]:
    """Compare the times of all drops that are predicted before the end."""
    of = "separate_attention_staircase.drop_times"
    for seed, flow in flows.items():
        for drop in np.flatnonzero(flow.expected):
            label, times = (
                f"time of drop {drop + 1}, seed {seed}",
                (flow.predicted, flow.crossings),
            )
            pair = (each[drop] for each in times)
            yield compare(label, *pair, relative=TIME_TOLERANCE, of=of)


def describe(flows: Mapping[int, FlowCell], comparisons: Sequence[Comparison]) -> list[str]:
    """Errors, spans, and drops that are not compared."""
    errors = [abs(row.estimate / row.theory - 1) for row in comparisons]
    spans = [flow.predicted[-1] / flow.predicted[0] for flow in flows.values()]
    return [
        f"Relative errors of the predicted times: largest {max(errors, default=0):.2g}, median "
        f"{np.median(errors or [0]):.2g}.",
        "The prediction knows the initial weights and nothing else; the last drop of a seed comes "
        f"{np.median(spans):.0f} times as late as the first, in the median.",
        f"{DIM * len(flows) - len(comparisons)} of {DIM * len(flows)} drops are predicted for "
        "after the flow, or never, and are not compared.",
    ]


def draw(figure: Figure, flows: Sequence[FlowCell]) -> None:
    """Draw flows beside their predictions."""
    ax = figure.subplots()
    for flow, colour in zip(flows, COLOURS, strict=False):
        draw_prediction(ax, flow.times, flow.losses, flow.theory, colour)
    names = ("gradient flow", "from initial weights")
    draw_prediction(ax, [], [], [], "0.4", names)
    ax.set_xscale("log")
    ax.set_xlim(left=0.5 * min(flow.predicted[0] for flow in flows))
    finish(ax, TIME, "loss", legend="")


claim = Claim.of("dynamics-drop-times", __doc__, rows)
