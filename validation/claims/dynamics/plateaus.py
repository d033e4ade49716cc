"""Plateaus of separate attention of rank 1, 2, 4 and 8.

Gradient flow of separate attention of rank R waits where the R, 2R, ...  largest directions
are learned, at the loss of principal component regression in context.  The waits in between
stay short when the initial weights get smaller.

Source: {zhang2025}, sections 4 and 5.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.dynamics.setting import CONTEXT, TIME, eigenvalues
from iclimit.validation.claims.dynamics.staircase_flows import extrapolated_times, separate_flows
from iclimit.validation.drawing import COLOURS, Figure, panels

DIM, HEADS, RANKS = 8, 9, (1, 2, 4, 8)
SCALES = (0.004, 0.001)
SEEDS: dict[Preset, int] = {"quick": 1, "full": 6}
HEIGHT_ALLOWANCE = 1e-4
"""Relative, at the smaller initial weights (measured: at most 4e-7)."""
END_ALLOWANCE = 0.03
"""Relative, of the extrapolated end of a plateau (measured: at most 0.02)."""
LOGARITHMIC = 2.0
"""Largest growth of the time between two drops of one head when the initial weights shrink to a
fourth.  It is far below the growth of a plateau, by 4 (measured: at most 1.3)."""


def cells(preset: Preset) -> dict[Any, Cell]:
    """Flows by rank and seed."""
    setting: dict[str, Any] = {"dim": DIM, "heads": HEADS, "scales": SCALES}
    return {
        (rank, seed): Cell.of(separate_flows, rank=rank, seed=seed, **setting)
        for rank in RANKS
        for seed in range(SEEDS[preset])
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare heights and ends of the long plateaus, and the growth of the short waits."""
    heights = plateau_losses(eigenvalues(DIM), context=CONTEXT)
    comparisons: list[Comparison] = []
    long, short = list[float](), list[float]()
    for (rank, seed), runs in results.items():
        ends = extrapolated_times(runs, SCALES)
        with np.errstate(invalid="ignore"):
            before, after = (np.diff(run.crossings) for run in runs)
            growths = after / before
        expected = runs[0].expected & runs[1].expected
        for learned in np.flatnonzero(expected[1:]) + 1:
            where = f"rank {rank}, {learned} learned, seed {seed}"
            growth, height = float(growths[learned - 1]), heights[learned]
            if learned % rank:
                short.append(growth)
                label = f"growth of the wait within a head, {where}"
                comparisons.append(compare(label, LOGARITHMIC, growth, upper_bound=True))
                continue
            long.append(growth)
            found, end = runs[-1].heights[learned - 1], ends[learned]
            label = f"end of the plateau over the predicted, {where}"
            comparisons += [
                compare(f"height, {where}", height, found, relative=HEIGHT_ALLOWANCE),
                compare(label, 1.0, end, allowance=END_ALLOWANCE),
            ]
    notes = (
        f"Initial weights of {SCALES[0]} and {SCALES[1]}: the wait at a plateau where a new head "
        f"is needed grows {np.median(long):.2f} times in the median (predicted: "
        f"{SCALES[0] / SCALES[1]:.0f}), the wait between two drops of one head "
        f"{np.median(short):.2f} times.",
        "Only plateaus at multiples of the rank stay: "
        f"{len(long)} plateaus and {len(short)} waits within heads.",
    )

    def draw(figure: Figure) -> None:
        axes = panels(figure, 2, 2, width=7.2, height=4.6, sharex=True, sharey=True)
        for ax, rank, colour in zip(axes, RANKS, COLOURS, strict=False):
            for count, height in enumerate(heights):
                shade = "0.8" if count % rank else "0.2"
                ax.axhline(height, color=shade, linestyle="--", linewidth=0.9)
            run = results[rank, 0][-1]
            ax.plot(run.times, run.losses, color=colour)
            ax.set(title=f"rank {rank}", xscale="log", xlabel=TIME, ylabel="loss")
            ax.set_xlim(left=3e3)
            ax.grid(visible=False)
            ax.label_outer()
        figure.suptitle("separate key and query, D = 8; dashed: plateaus, dark: multiples of R")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-plateaus", __doc__, cells, judge)
