"""The staircase of separate attention, predicted from its initial weights.

The times of all drops of gradient flow from small random weights are those at which heads
escape one after the other: the ratio of both, extrapolated to small weights, is one.

Source: {zhang2025}, section 4; times for general weights: documentation.
"""

from typing import Any

import numpy as np

from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.dynamics.setting import TIME, draw_prediction
from iclimit.validation.claims.dynamics.staircase_flows import extrapolated_times, separate_flows
from iclimit.validation.drawing import COLOURS, Figure, finish

DIM, HEADS = 4, 5
SCALES = (0.005, 0.00125)
SEEDS: dict[Preset, int] = {"quick": 5, "full": 40}
ALLOWANCE = 0.01
"""Relative; the extrapolation leaves terms of second order (measured: at most 2e-3)."""


def cells(preset: Preset) -> dict[Any, Cell]:
    """Flows by seed."""
    setting: dict[str, Any] = {"dim": DIM, "heads": HEADS, "rank": 1, "scales": SCALES}
    return {seed: Cell.of(separate_flows, seed=seed, **setting) for seed in range(SEEDS[preset])}


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the extrapolated times of all drops that are predicted before the end."""
    comparisons, late = [], 0
    errors: dict[float, list[float]] = {scale: [] for scale in SCALES}
    for seed, runs in results.items():
        for drop, time in enumerate(extrapolated_times(runs, SCALES)):
            if not all(run.expected[drop] for run in runs):
                late += 1
                continue
            label = f"time of drop {drop + 1} over the predicted, seed {seed}"
            comparisons.append(compare(label, 1.0, time, allowance=ALLOWANCE))
            for scale, run in zip(SCALES, runs, strict=True):
                errors[scale].append(abs(run.crossings[drop] / run.predicted[drop] - 1))
    spans = [runs[-1].predicted[-1] / runs[-1].predicted[0] for runs in results.values()]
    listed = "; ".join(
        f"{max(found, default=0):.2g} and {np.median(found or [0]):.2g} at initial weights of "
        f"{scale}"
        for scale, found in errors.items()
    )
    notes = (
        "Largest and median relative error of a predicted time before the extrapolation: "
        f"{listed}.",
        "The prediction knows the initial weights and nothing else; the last drop of a seed comes "
        f"{np.median(spans):.0f} times as late as the first, in the median.",
        f"{late} of {DIM * len(results)} drops are predicted for after the flow, or never, and "
        "are not compared.",
    )

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for runs, colour in zip([*results.values()][:4], COLOURS, strict=False):
            run = runs[0]
            draw_prediction(ax, run.times, run.losses, run.theory, colour)
        names = ("gradient flow", "from initial weights")
        draw_prediction(ax, [], [], [], "0.4", names)
        ax.set_xscale("log")
        ax.set_xlim(left=300)
        finish(ax, TIME, "loss", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-drop-times", __doc__, cells, judge)
