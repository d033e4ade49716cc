"""The staircase of separate attention, predicted from its initial weights.

The times of all drops of gradient flow from tiny random weights are those at which heads
escape one after the other.

Source: {zhang2025}, section 4; times for general weights: documentation.
"""

from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Figure, finish
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.dynamics.setting import TIME, draw_prediction
from iclimit.validation.claims.dynamics.staircase_flows import TIME_TOLERANCE, separate_flows

DIM, HEADS, SCALE = 4, 5, 1e-6
SEEDS: dict[Preset, int] = {"quick": 2, "medium": 20, "full": 200}


def cells(preset: Preset) -> dict[Any, Cell]:
    """Flows by seed."""
    setting: dict[str, Any] = {"dim": DIM, "heads": HEADS, "rank": 1, "scales": (SCALE,)}
    return {seed: Cell.of(separate_flows, seed=seed, **setting) for seed in range(SEEDS[preset])}


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the times of all drops that are predicted before the end."""
    comparisons = [
        compare(
            f"time of drop {drop + 1}, seed {seed}",
            run.predicted[drop],
            run.crossings[drop],
            relative=TIME_TOLERANCE,
            of="separate_attention_staircase.drop_times",
        )
        for seed, (run,) in results.items()
        for drop in np.flatnonzero(run.expected)
    ]
    errors = [abs(row.estimate / row.theory - 1) for row in comparisons]
    spans = [run.predicted[-1] / run.predicted[0] for (run,) in results.values()]
    notes = (
        f"Relative errors of the predicted times: largest {max(errors, default=0):.2g}, median "
        f"{np.median(errors or [0]):.2g}.",
        "The prediction knows the initial weights and nothing else; the last drop of a seed comes "
        f"{np.median(spans):.0f} times as late as the first, in the median.",
        f"{DIM * len(results) - len(comparisons)} of {DIM * len(results)} drops are predicted for "
        "after the flow, or never, and are not compared.",
    )

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for (run,), colour in zip([*results.values()][:4], COLOURS, strict=False):
            draw_prediction(ax, run.times, run.losses, run.theory, colour)
        names = ("gradient flow", "from initial weights")
        draw_prediction(ax, [], [], [], "0.4", names)
        ax.set_xscale("log")
        ax.set_xlim(left=0.5 * min(run.predicted[0] for (run,) in results.values()))
        finish(ax, TIME, "loss", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-drop-times", __doc__, cells, judge)
