"""How many heads separate attention needs.

Separate attention with H heads of rank R ends where the min(H R, D) largest directions are
learned; more heads change nothing but the times.

Source: {zhang2025}, sections 4 and 5.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.simulate.dynamics import AttentionModel, simulate_gradient_flow
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem
from iclimit.validation.drawing import COLOURS, Figure, finish

DIM, SCALE = 4, 0.02
HEADS = ((1, 1), (2, 1), (3, 1), (6, 1), (1, 2), (2, 2), (1, 4))
"""Heads and ranks."""
SEEDS: dict[Preset, int] = {"quick": 2, "full": 10}
ALLOWANCE = 1e-9
"""Relative to the loss of the limit (measured: at most 1e-14)."""


def few_heads(*, heads: int, rank: int, seed: int, rng: Any) -> float:
    """Last loss of a flow of separate attention with few heads."""
    del rng
    model = AttentionModel("separate", DIM, heads, rank)
    weights = model.random_weights(np.random.default_rng([seed, heads, rank]), SCALE)
    duration = 2000 / (SCALE * float(eigenvalues(DIM)[0]))
    flow = simulate_gradient_flow(
        problem(DIM), model="separate", heads=heads, rank=rank, initial=weights, duration=duration
    )
    return float(flow.losses[-1])


def cells(preset: Preset) -> dict[Any, Cell]:
    """Last losses by heads, rank and seed."""
    return {
        (heads, rank, seed): Cell.of(few_heads, heads=heads, rank=rank, seed=seed)
        for heads, rank in HEADS
        for seed in range(SEEDS[preset])
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the last loss with the plateau of as many directions as can be learned."""
    heights = plateau_losses(eigenvalues(DIM), context=CONTEXT)
    comparisons = tuple(
        compare(
            f"last loss, {heads} heads of rank {rank}, seed {seed}",
            heights[min(heads * rank, DIM)],
            loss,
            allowance=ALLOWANCE * heights[-1],
        )
        for (heads, rank, seed), loss in results.items()
    )
    notes = (
        "For merged attention the number of heads enters through the effective initial scale "
        "only: see dynamics-merged.",
    )

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        ax.plot(range(DIM + 1), heights, "_", color="0.3", markersize=22, label="plateaus")
        for k, rank in enumerate(sorted({rank for _, rank in HEADS})):
            ends = [(h * r, loss) for (h, r, _), loss in results.items() if r == rank]
            label, size = f"rank {rank}", 9 - 2 * k
            ax.plot(*zip(*ends, strict=True), "o", color=COLOURS[k], markersize=size, label=label)
        ax.locator_params("x", integer=True)
        finish(ax, "heads times rank", "loss at the end, D = 4", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-heads", __doc__, cells, judge)
