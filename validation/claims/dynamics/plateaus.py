"""Plateaus of separate attention of several ranks.

Gradient flow of separate attention of rank R waits where the R, 2R, ...  largest directions
are learned, at the loss of principal component regression in context, until a head is predicted
to escape.  The waits in between grow as the logarithm of the initial weights, as predicted.

Source: {zhang2025}, sections 4 and 5.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.comparison import Comparison, compare
from iclimit.drawing import COLOURS, Figure, panels, write_key
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, judged, run
from iclimit.validation.claims.dynamics.setting import CONTEXT, TIME, eigenvalues
from iclimit.validation.claims.dynamics.staircase_flows import (
    TIME_TOLERANCE,
    FlowCell,
    separate_flows,
)

# Scales of the initial weights.  Few starts: each is held against the theory of its own weights.
SCALES = (1e-6, 1e-8)
# Relative, at the smaller initial weights (measured: at most 2e-14).
HEIGHT_TOLERANCE = 1e-8


def rows(effort: Effort) -> Rows:
    """Heights and ends of the long plateaus, and the growth of the short waits."""
    dim, heads = effort.pick(quick=(4, 5), medium=(8, 9))
    ranks = effort.pick(tiny=(4,), quick=(1, 4), medium=(1, 2, 4, 8))
    setting: dict[str, Any] = {"dim": dim, "heads": heads, "scales": SCALES}
    flows = {
        (rank, seed): run(separate_flows, rank=rank, seed=seed, **setting)
        for rank in ranks
        for seed in range(effort.pick(quick=1, full=3))
    }
    # Relative, of what the wait between two drops of one head gains from the larger to the smaller
    # initial weights.  Errors fall as powers of the weights that are the smaller, the closer the
    # eigenvalues (measured: at most 3e-7 for D = 4, 4e-3 for D = 8).
    tolerance = effort.pick(quick=1e-5, medium=1e-2)
    yield judged(call(compare_flows, dim, tolerance, flows))
    yield drawing(draw, dim, {rank: flows[rank, 0][-1] for rank in ranks})


def compare_flows(
    dim: int, wait_tolerance: float, flows: Mapping[tuple[int, int], Sequence[FlowCell]]
) -> Iterator[Comparison]:
    """Compare heights and ends of the long plateaus, and the growth of the short waits."""
    heights = plateau_losses(eigenvalues(dim), context=CONTEXT)
    drop_times = "separate_attention_staircase.drop_times"
    for (rank, seed), (large, small) in flows.items():
        with np.errstate(invalid="ignore"):  # drops that are not predicted or did not happen
            predicted = np.diff(small.predicted) - np.diff(large.predicted)
            measured = np.diff(small.crossings) - np.diff(large.crossings)
        for m in np.flatnonzero(large.expected[1:] & small.expected[1:]) + 1:
            where = f"rank {rank}, {m} learned, seed {seed}"
            if m % rank:
                label = f"growth of the wait within a head, {where}"
                pair = (predicted[m - 1], measured[m - 1])
                tolerance = wait_tolerance
            else:
                label = f"end of the plateau, {where}"
                pair = (small.predicted[m], small.crossings[m])
                tolerance = TIME_TOLERANCE
                height = heights[m], small.heights[m - 1]
                options: dict[str, Any] = {"relative": HEIGHT_TOLERANCE, "of": "plateau_losses"}
                yield compare(f"height, {where}", *height, **options)
            yield compare(label, *pair, relative=tolerance, of=drop_times)


def draw(figure: Figure, dim: int, flows: Mapping[int, FlowCell]) -> None:
    """Draw a flow of each rank, and the plateaus."""
    heights = plateau_losses(eigenvalues(dim), context=CONTEXT)
    first = min(flow.predicted[0] for flow in flows.values())
    axes = panels(figure, len(flows), height=3.4, sharex=True, sharey=True)
    for ax, (rank, flow), colour in zip(axes, flows.items(), COLOURS, strict=False):
        for count, height in enumerate(heights):
            shade = "0.8" if count % rank else "0.2"
            ax.axhline(height, color=shade, linestyle="--", linewidth=0.9)
        ax.plot(flow.times, flow.losses, color=colour)
        ax.set(title=f"rank {rank}", xscale="log", xlabel=TIME, ylabel="loss")
        ax.set_xlim(left=first / 3)
        ax.grid(visible=False)
        ax.label_outer()
    write_key(figure, f"D = {dim}; lines: simulation; dashes: plateaus, dark: multiples of R")


claim = Claim.of("dynamics-plateaus", __doc__, rows)
