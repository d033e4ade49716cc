"""Training of separate attention: heights of the plateaus and times of the drops."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics import plateau_losses, separate_attention_staircase
from iclimit.simulate import TaskMixture, simulate_gradient_flow
from iclimit.simulate.attention_models import AttentionModel
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS

PAPER = "Zhang, Singh, Latham, Saxe, ICML 2025, arXiv:2501.16265"
CONTEXT = 31

RANKS, PLATEAU_DIM, PLATEAU_HEADS = (1, 2, 4, 8), 8, 9
PLATEAU_SCALES = (0.02, 0.005)
PLATEAU_SEEDS: dict[Preset, int] = {"quick": 1, "full": 6}
HEIGHT_ALLOWANCE = 1e-3
"""Relative; at the smaller initial weights (measured: at most 3e-4)."""
LOGARITHMIC = 2.0
"""Largest growth of the time between two drops of one head when the weights at the start are a
fourth: far below the factor of 4 of a plateau (measured: at most 1.6)."""

DROP_DIM, DROP_HEADS = 4, 5
DROP_SCALES = (0.005, 0.00125)
DROP_SEEDS: dict[Preset, int] = {"quick": 5, "full": 40}
DROP_ALLOWANCE = 0.01
"""Relative; what is left of the extrapolation is of second order in the initial weights."""
PATIENCE = 40.0
"""Longest flow in units of 1/(scale lambda^2) for the smallest eigenvalue."""


def eigenvalues(dim: int) -> np.ndarray:
    """Eigenvalues of the published simulations, proportional to D, ..., 1, with the sum 1."""
    return np.arange(dim, 0, -1) / (dim * (dim + 1) / 2)


@dataclass(frozen=True)
class FlowCell:
    """A flow from small random weights, and what is predicted from these weights.

    Attributes
    ----------
    predicted, crossings : list of float
        Times of half of each drop.
    heights, contrasts : list of float
        Loss where it falls slowest between two of these times, for 1, ..., D - 1 directions; and
        the speed there over the lower of the largest speeds before and after.
    times, losses, theory : list of float
        The curve, thinned, and its prediction.
    end : float
        Last loss.
    """

    predicted: list[float]
    crossings: list[float]
    heights: list[float]
    contrasts: list[float]
    times: list[float]
    losses: list[float]
    theory: list[float]
    end: float


def separate_flow(
    *, dim: int, heads: int, rank: int, scale: float, seed: int, rng: Any
) -> FlowCell:
    """Flow from random weights; those of one seed are proportional at all scales."""
    del rng
    lam = eigenvalues(dim)
    model = AttentionModel("separate", dim, heads, rank)
    value, key, query = model.random_weights(np.random.default_rng([seed, rank]), scale)
    steps = separate_attention_staircase(
        value[:, -1], key[..., :-1], query, eigenvalues=lam, context=CONTEXT
    )
    finite = steps.drop_times[np.isfinite(steps.drop_times)]
    duration = min(1.3 * float(finite.max()), PATIENCE / (scale * float(lam[-1]) ** 2))
    flow = simulate_gradient_flow(
        TaskMixture(lam, CONTEXT), model="separate", heads=heads, rank=rank,
        weights=[value, key, query], duration=duration,
    )  # fmt: skip
    middles = (steps.losses[1:] + steps.losses[:-1]) / 2
    crossings = flow.crossing_times(middles)
    heights, contrasts = [], []
    for before, after in itertools.pairwise(crossings):
        between = (flow.times >= before) & (flow.times <= after)
        if not np.isfinite(before) or np.count_nonzero(between) < 3:
            heights.append(np.nan)
            contrasts.append(np.nan)
            continue
        speeds = flow.speeds[between]
        slowest = int(np.argmin(speeds))
        heights.append(float(flow.losses[between][slowest]))
        contrasts.append(float(speeds[slowest] / min(speeds[0], speeds[-1])))
    kept = np.linspace(0, len(flow.times) - 1, min(600, len(flow.times))).astype(int)
    return FlowCell(
        steps.drop_times.tolist(), crossings.tolist(), heights, contrasts,
        flow.times[kept].tolist(), flow.losses[kept].tolist(),
        steps.loss(flow.times[kept]).tolist(), float(flow.losses[-1]),
    )  # fmt: skip


def _plateau_cell(rank: int, scale: float, seed: int) -> Cell:
    return Cell.of(
        separate_flow, dim=PLATEAU_DIM, heads=PLATEAU_HEADS, rank=rank, scale=scale, seed=seed
    )


def _plateau_cells(preset: Preset) -> list[Cell]:
    return [
        _plateau_cell(rank, scale, seed)
        for rank in RANKS
        for scale in PLATEAU_SCALES
        for seed in range(PLATEAU_SEEDS[preset])
    ]


def _plateau_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    heights = plateau_losses(eigenvalues(PLATEAU_DIM), context=CONTEXT)
    comparisons = []
    growths: dict[bool, list[float]] = {True: [], False: []}
    for rank in RANKS:
        for seed in range(PLATEAU_SEEDS[preset]):
            runs = [results[_plateau_cell(rank, scale, seed)] for scale in PLATEAU_SCALES]
            waits = [np.diff(run.crossings) for run in runs]
            for learned in range(1, PLATEAU_DIM):
                if not all(np.isfinite(wait[learned - 1]) for wait in waits):
                    continue
                long = learned % rank == 0
                growth = float(waits[1][learned - 1] / waits[0][learned - 1])
                growths[long].append(growth)
                where = f"rank {rank}, {learned} learned, seed {seed}"
                if long:
                    comparisons.append(
                        Comparison(
                            f"height, {where}", float(heights[learned]),
                            runs[-1].heights[learned - 1], 0.0,
                            HEIGHT_ALLOWANCE * float(heights[learned]),
                        )
                    )  # fmt: skip
                else:
                    comparisons.append(
                        Comparison(
                            f"growth of the wait within a head, {where}", LOGARITHMIC, growth,
                            0.0, upper_bound=True,
                        )
                    )  # fmt: skip
    small = PLATEAU_SCALES[0] / PLATEAU_SCALES[1]
    notes = (
        f"Initial weights of {PLATEAU_SCALES[0]} and {PLATEAU_SCALES[1]}: the wait at a plateau "
        f"where a new head is needed grows {np.median(growths[True]):.2f} times in the median "
        f"(predicted: {small:.0f}), the wait between two drops of one head "
        f"{np.median(growths[False]):.2f} times.",
        "Plateaus at multiples of the rank are the ones that stay: "
        f"{len(growths[True])} plateaus and {len(growths[False])} waits within heads.",
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(7.2, 4.6)
        axes = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
        for ax, rank, colour in zip(axes, RANKS, COLOURS, strict=False):
            for count, height in enumerate(heights):
                ax.axhline(
                    height, color="0.2" if count % rank == 0 else "0.8",
                    linestyle="--", linewidth=0.9,
                )  # fmt: skip
            run = results[_plateau_cell(rank, PLATEAU_SCALES[-1], 0)]
            ax.plot(run.times, run.losses, color=colour)
            ax.set_title(f"rank {rank}")
            ax.set_xscale("log")
            ax.set_xlim(left=3e3)
            ax.grid(visible=False)
        for ax in axes[2:]:
            ax.set_xlabel(r"time $t/\tau$")
        for ax in axes[::2]:
            ax.set_ylabel("loss")
        figure.suptitle("separate key and query, D = 8; dashed: plateaus, dark: multiples of R")

    return Verdict(tuple(comparisons), draw, notes)


plateaus_claim = Claim(
    name="dynamics-plateaus",
    title="Plateaus of separate attention of rank 1, 2, 4 and 8",
    source=f"{PAPER}, sections 4 and 5",
    statement=(
        "Gradient flow of separate attention of rank R waits where the R, 2R, ... largest "
        "directions are learned, at the loss of principal component regression in context; the "
        "waits in between stay short when the initial weights get smaller."
    ),
    cells=_plateau_cells,
    judge=_plateau_judge,
)


def _drop_cell(scale: float, seed: int) -> Cell:
    return Cell.of(separate_flow, dim=DROP_DIM, heads=DROP_HEADS, rank=1, scale=scale, seed=seed)


def _drop_cells(preset: Preset) -> list[Cell]:
    return [_drop_cell(scale, seed) for seed in range(DROP_SEEDS[preset]) for scale in DROP_SCALES]


def _drop_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = []
    errors: dict[float, list[float]] = {scale: [] for scale in DROP_SCALES}
    large, small = DROP_SCALES
    for seed in range(DROP_SEEDS[preset]):
        ratios = {}
        for scale in DROP_SCALES:
            run = results[_drop_cell(scale, seed)]
            ratios[scale] = np.array(run.crossings) / np.array(run.predicted)
            reached = np.isfinite(ratios[scale])
            errors[scale] += np.abs(ratios[scale][reached] - 1).tolist()
        limit = ratios[small] - (ratios[large] - ratios[small]) * small / (large - small)
        comparisons += [
            Comparison(
                f"time of drop {drop + 1} over the predicted, seed {seed}", 1.0, float(ratio),
                0.0, DROP_ALLOWANCE,
            )
            for drop, ratio in enumerate(limit)
            if np.isfinite(ratio)
        ]  # fmt: skip
    spans = [
        run.predicted[-1] / run.predicted[0]
        for run in (results[_drop_cell(small, seed)] for seed in range(DROP_SEEDS[preset]))
    ]
    notes = (
        "Largest and median relative error of a predicted time before the extrapolation: "
        + "; ".join(
            f"{max(found):.2g} and {np.median(found):.2g} at initial weights of {scale}"
            for scale, found in errors.items()
        )
        + ".",
        "The prediction knows the initial weights and nothing else; the last drop of a seed comes "
        f"{np.median(spans):.0f} times as late as the first, in the median.",
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for seed, colour in zip(range(min(4, DROP_SEEDS[preset])), COLOURS, strict=False):
            run = results[_drop_cell(large, seed)]
            ax.plot(run.times, run.losses, color=colour, linewidth=3, alpha=0.4)
            ax.plot(run.times, run.theory, color=colour, linestyle="--", linewidth=1.2)
        ax.plot([], [], color="0.4", linewidth=3, alpha=0.4, label="gradient flow")
        ax.plot([], [], color="0.4", linestyle="--", linewidth=1.2, label="from initial weights")
        ax.set_xscale("log")
        ax.set_xlim(left=300)
        ax.set_xlabel(r"time $t/\tau$")
        ax.set_ylabel("loss")
        ax.legend()

    return Verdict(tuple(comparisons), draw, notes)


drop_times_claim = Claim(
    name="dynamics-drop-times",
    title="The staircase of separate attention, predicted from its initial weights",
    source=f"{PAPER}, section 4; times for general weights: documentation",
    statement=(
        "The times of all drops of gradient flow from small random weights are those at which "
        "heads escape one after the other; the ratio of both, extrapolated to small weights, "
        "is one."
    ),
    cells=_drop_cells,
    judge=_drop_judge,
)
