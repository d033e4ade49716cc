"""Training of separate attention: heights of the plateaus and times of the drops."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses, separate_attention_staircase
from iclimit.simulate.dynamics import TaskMixture, simulate_gradient_flow
from iclimit.simulate.dynamics.attention_models import AttentionModel
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS

PAPER = "Zhang, Singh, Latham, Saxe, ICML 2025, arXiv:2501.16265"
CONTEXT = 31

RANKS, PLATEAU_DIM, PLATEAU_HEADS = (1, 2, 4, 8), 8, 9
PLATEAU_SCALES = (0.004, 0.001)
PLATEAU_SEEDS: dict[Preset, int] = {"quick": 1, "full": 6}
HEIGHT_ALLOWANCE = 1e-4
"""Relative; at the smaller initial weights (measured: at most 4e-7)."""
END_ALLOWANCE = 0.03
"""Relative; of the extrapolated end of a plateau (measured: at most 0.02)."""
LOGARITHMIC = 2.0
"""Largest growth of the time between two drops of one head when the weights at the start are a
fourth: far below the factor of 4 of a plateau (measured: at most 1.3)."""

DROP_DIM, DROP_HEADS = 4, 5
DROP_SCALES = (0.005, 0.00125)
DROP_SEEDS: dict[Preset, int] = {"quick": 5, "full": 40}
DROP_ALLOWANCE = 0.01
"""Relative; the extrapolation leaves terms of second order (measured: at most 2e-3)."""
PATIENCE = 40.0
"""Duration of the flows in units of 1/(scale lambda^2) for the smallest eigenvalue: that of the
escape of one head with weights of this scale."""
MARGIN = 1.5
"""Drops are compared that are predicted to happen so many times before the end."""


def eigenvalues(dim: int) -> np.ndarray:
    """Eigenvalues of the published simulations, proportional to D, ..., 1, with the sum 1."""
    return np.arange(dim, 0, -1) / (dim * (dim + 1) / 2)


@dataclass(frozen=True)
class FlowCell:
    """A flow from small random weights, and what is predicted from these weights.

    Attributes
    ----------
    predicted, crossings : list of float
        Times of half of each drop; infinite if it does not happen.
    heights : list of float
        Loss where it falls slowest between two of these times, for 1, ..., D - 1 directions; NaN
        without the first of them.
    duration : float
        End of the flow.
    times, losses, theory : list of float
        The curve, thinned, and its prediction.
    """

    predicted: list[float]
    crossings: list[float]
    heights: list[float]
    duration: float
    times: list[float]
    losses: list[float]
    theory: list[float]

    @property
    def expected(self) -> np.ndarray:
        """Which drops are predicted to happen well before the flow ends."""
        return np.array(self.predicted) < self.duration / MARGIN


def separate_flows(
    *, dim: int, heads: int, rank: int, scales: tuple[float, ...], seed: int, rng: Any
) -> tuple[FlowCell, ...]:
    """Flows from random weights of several scales, proportional to each other."""
    del seed  # cells of different seeds differ
    lam = eigenvalues(dim)
    unit = AttentionModel("separate", dim, heads, rank).random_weights(
        np.random.default_rng(rng), 1.0
    )
    return tuple(_flow(lam, [scale * each for each in unit], scale) for scale in scales)


def _flow(lam: np.ndarray, weights: list[np.ndarray], scale: float) -> FlowCell:
    value, key, query = weights
    heads, rank, _ = query.shape
    steps = separate_attention_staircase(
        value[:, -1], key[..., :-1], query, eigenvalues=lam, context=CONTEXT
    )
    duration = PATIENCE / (scale * float(lam[-1]) ** 2)
    flow = simulate_gradient_flow(
        TaskMixture(lam, CONTEXT),
        model="separate",
        heads=heads,
        rank=rank,
        initial=weights,
        duration=duration,
    )
    crossings = flow.crossing_times((steps.losses[1:] + steps.losses[:-1]) / 2)
    heights = []
    for before, after in itertools.pairwise(crossings):
        between = (flow.times >= before) & (flow.times <= after)
        slowest = np.argmin(np.where(between, flow.speeds, np.inf))
        heights.append(float(flow.losses[slowest]) if between.any() else np.nan)
    last = max([time for time in crossings if time < np.inf], default=duration)
    kept = np.flatnonzero(flow.times <= 1.3 * last)
    kept = kept[np.linspace(0, len(kept) - 1, min(600, len(kept))).astype(int)]
    return FlowCell(
        steps.drop_times.tolist(),
        crossings.tolist(),
        heights,
        duration,
        flow.times[kept].tolist(),
        flow.losses[kept].tolist(),
        steps.loss(flow.times[kept]).tolist(),
    )


def _limits(runs: Sequence[FlowCell], scales: tuple[float, ...]) -> list[float]:
    """Times of the drops over the predicted, extrapolated linearly to small weights.

    A drop that has not happened is infinitely late.
    """
    large, small = scales
    with np.errstate(invalid="ignore"):  # neither predicted nor happened
        before, after = (np.array(run.crossings) / np.array(run.predicted) for run in runs)
    happened = np.isfinite(before) & np.isfinite(after)
    slope = np.subtract(before, after, where=happened, out=np.zeros_like(before))
    return np.where(happened, after - slope * small / (large - small), np.inf).tolist()


def _plateau_cell(rank: int, seed: int) -> Cell:
    return Cell.of(
        separate_flows,
        dim=PLATEAU_DIM,
        heads=PLATEAU_HEADS,
        rank=rank,
        scales=PLATEAU_SCALES,
        seed=seed,
    )


def _plateau_cells(preset: Preset) -> list[Cell]:
    return [_plateau_cell(rank, seed) for rank in RANKS for seed in range(PLATEAU_SEEDS[preset])]


def _plateau_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    heights = plateau_losses(eigenvalues(PLATEAU_DIM), context=CONTEXT)
    comparisons = []
    growths: dict[bool, list[float]] = {True: [], False: []}
    for rank in RANKS:
        for seed in range(PLATEAU_SEEDS[preset]):
            runs = results[_plateau_cell(rank, seed)]
            limits = _limits(runs, PLATEAU_SCALES)
            with np.errstate(invalid="ignore"):
                waits = [np.diff(run.crossings) for run in runs]
                growth = waits[1] / waits[0]
            expected = runs[0].expected & runs[1].expected
            for learned in np.flatnonzero(expected[1:]) + 1:
                long = bool(learned % rank == 0)
                where = f"rank {rank}, {learned} learned, seed {seed}"
                growths[long].append(float(growth[learned - 1]))
                if not long:
                    comparisons.append(
                        Comparison(
                            f"growth of the wait within a head, {where}",
                            LOGARITHMIC,
                            growths[long][-1],
                            0.0,
                            upper_bound=True,
                        )
                    )
                    continue
                comparisons += [
                    Comparison(
                        f"height, {where}",
                        float(heights[learned]),
                        runs[-1].heights[learned - 1],
                        0.0,
                        HEIGHT_ALLOWANCE * float(heights[learned]),
                    ),
                    Comparison(
                        f"end of the plateau over the predicted, {where}",
                        1.0,
                        limits[learned],
                        0.0,
                        END_ALLOWANCE,
                    ),
                ]
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
                    height,
                    color="0.2" if count % rank == 0 else "0.8",
                    linestyle="--",
                    linewidth=0.9,
                )
            run = results[_plateau_cell(rank, 0)][-1]
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


def _drop_cell(seed: int) -> Cell:
    return Cell.of(
        separate_flows, dim=DROP_DIM, heads=DROP_HEADS, rank=1, scales=DROP_SCALES, seed=seed
    )


def _drop_cells(preset: Preset) -> list[Cell]:
    return [_drop_cell(seed) for seed in range(DROP_SEEDS[preset])]


def _drop_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, late = [], 0
    errors: dict[float, list[float]] = {scale: [] for scale in DROP_SCALES}
    for seed in range(DROP_SEEDS[preset]):
        runs = results[_drop_cell(seed)]
        limits = _limits(runs, DROP_SCALES)
        for drop in range(DROP_DIM):
            if not all(run.expected[drop] for run in runs):
                late += 1
                continue
            comparisons.append(
                Comparison(
                    f"time of drop {drop + 1} over the predicted, seed {seed}",
                    1.0,
                    limits[drop],
                    0.0,
                    DROP_ALLOWANCE,
                )
            )
            for scale, run in zip(DROP_SCALES, runs, strict=True):
                errors[scale].append(abs(run.crossings[drop] / run.predicted[drop] - 1))
    spans = [
        run.predicted[-1] / run.predicted[0]
        for run in (results[_drop_cell(seed)][-1] for seed in range(DROP_SEEDS[preset]))
    ]
    notes = (
        "Largest and median relative error of a predicted time before the extrapolation: "
        + "; ".join(
            f"{max(found, default=0):.2g} and {np.median(found or [0]):.2g} "
            f"at initial weights of {scale}"
            for scale, found in errors.items()
        )
        + ".",
        "The prediction knows the initial weights and nothing else; the last drop of a seed comes "
        f"{np.median(spans):.0f} times as late as the first, in the median.",
        f"{late} of {DROP_DIM * DROP_SEEDS[preset]} drops are predicted for after the flow, or "
        "never, and are not compared.",
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for seed, colour in zip(range(min(4, DROP_SEEDS[preset])), COLOURS, strict=False):
            run = results[_drop_cell(seed)][0]
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
