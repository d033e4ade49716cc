"""Training of merged attention: its single drop, the network on cubic features, and heads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, chdtri, ndtri

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_curve,
    merged_attention_loss,
    merged_curve_drop_time,
    plateau_losses,
)
from iclimit.simulate.dynamics import (
    TaskMixture,
    simulate_gradient_descent,
    simulate_gradient_flow,
)
from iclimit.simulate.dynamics.attention_models import AttentionModel
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.dynamics.separate import CONTEXT, PAPER, eigenvalues
from iclimit.validation.drawing import COLOURS, draw_points
from iclimit.validation.statistics import extrapolate

SPECTRA = {
    "white": (0.25, 0.25, 0.25, 0.25),
    "4:3:2:1": tuple(eigenvalues(4).tolist()),
    "8:...:1": tuple(eigenvalues(8).tolist()),
}
SCALES = (1e-2, 1e-3, 1e-4)
FIRST_ORDER = 1.0
"""Largest error of the loss, relative to the initial loss, in units of the scale of the initial
weights: those that do not grow stay (measured: at most 0.6)."""
SEEDS: dict[Preset, int] = {"quick": 60, "full": 1000}
SEED_SCALE, SEED_HEADS = 1e-5, (1, 8)

SETS = (1000, 2000, 4000, 8000)
"""Sizes of the training set."""
CUBIC_REPEATS: dict[Preset, int] = {"quick": 24, "full": 400}
CUBIC: dict[str, Any] = {
    "init_scale": 1e-3,
    "learning_rate": 0.002,
    "steps": 1500,
    "record": 10,
    "normalization": "sum",
}
ROUNDING = 1e-11
"""Relative difference of two programs for the same curve."""

HEADS = ((1, 1), (2, 1), (3, 1), (6, 1), (1, 2), (2, 2), (1, 4))
"""Heads and ranks, in four dimensions."""
HEADS_SCALE, HEADS_DIM = 0.02, 4
HEADS_SEEDS: dict[Preset, int] = {"quick": 2, "full": 10}
HEADS_ALLOWANCE = 1e-9
"""Relative (measured: at most 1e-14)."""


@dataclass(frozen=True)
class MergedCell:
    """A flow of merged attention beside its prediction from the effective initial scale.

    Attributes
    ----------
    error : float
        Largest difference of the losses, relative to the first.
    times, losses, theory : list of float
        The curves.
    """

    error: float
    times: list[float]
    losses: list[float]
    theory: list[float]


def merged_flow(*, spectrum: str, heads: int, scale: float, rng: Any) -> MergedCell:
    """Flow of merged attention from random weights."""
    lam = np.array(SPECTRA[spectrum])
    dim = len(lam)
    model = AttentionModel("merged", dim, heads)
    weights = model.random_weights(np.random.default_rng(rng), scale)
    effective = float(
        effective_init_scale(weights[0][:, -1], weights[1][:, :dim, :], eigenvalues=lam)
    )
    setting: dict[str, Any] = {"eigenvalues": lam, "context": CONTEXT, "init_scale": effective}
    duration = 4 * float(merged_curve_drop_time(**setting))
    flow = simulate_gradient_flow(
        TaskMixture(lam, CONTEXT), model="merged", heads=heads, initial=weights, duration=duration
    )
    if spectrum == "white":
        theory = merged_attention_loss(
            flow.times, dim=dim, context=CONTEXT, init_scale=effective, input_variance=lam[0]
        )
    else:
        theory = merged_attention_curve(flow.times, **setting)
    kept = np.linspace(0, len(theory) - 1, min(400, len(theory))).astype(int)
    return MergedCell(
        float(np.max(np.abs(flow.losses - theory)) / flow.losses[0]),
        flow.times[kept].tolist(),
        flow.losses[kept].tolist(),
        theory[kept].tolist(),
    )


def merged_drop_times(*, spectrum: str, heads: int, scale: float, seeds: int, rng: Any) -> list:
    """Half-drop times of flows from independent random weights."""
    lam = np.array(SPECTRA[spectrum])
    losses = plateau_losses(lam, context=CONTEXT)
    typical = merged_curve_drop_time(eigenvalues=lam, context=CONTEXT, init_scale=scale)
    # The chance of a weight so small that the drop comes later is about 1e-9.
    duration = float(typical) + 20 / float(np.linalg.norm(lam**2))
    times = []
    for seed in rng.spawn(seeds):
        flow = simulate_gradient_flow(
            TaskMixture(lam, CONTEXT),
            model="cubic",
            heads=heads,
            init_scale=scale,
            duration=duration,
            rng=seed,
        )
        times.append(float(flow.crossing_times((losses[0] + losses[-1]) / 2)))
    return times


def _flow_cell(spectrum: str, scale: float) -> Cell:
    return Cell.of(merged_flow, spectrum=spectrum, heads=8, scale=scale)


def _times_cell(preset: Preset, spectrum: str, heads: int) -> Cell:
    return Cell.of(
        merged_drop_times, spectrum=spectrum, heads=heads, scale=SEED_SCALE, seeds=SEEDS[preset]
    )


def _merged_cells(preset: Preset) -> list[Cell]:
    flows = [_flow_cell(spectrum, scale) for spectrum in SPECTRA for scale in SCALES]
    return flows + [
        _times_cell(preset, spectrum, heads)
        for spectrum in ("white", "4:3:2:1")
        for heads in SEED_HEADS
    ]


def _merged_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = [
        Comparison(
            f"error of the loss, {spectrum}, initial weights {scale}",
            0.0,
            results[_flow_cell(spectrum, scale)].error,
            0.0,
            FIRST_ORDER * scale,
        )
        for spectrum in SPECTRA
        for scale in SCALES
    ]
    for spectrum in ("white", "4:3:2:1"):
        for heads in SEED_HEADS:
            times = np.array(results[_times_cell(preset, spectrum, heads)])
            comparisons += _law_comparisons(times, spectrum, heads)
    errors = [results[_flow_cell("4:3:2:1", scale)].error / scale for scale in SCALES]
    notes = (
        "Errors of the loss are of first order in the initial weights: "
        + ", ".join(f"{error:.2f}" for error in errors)
        + " times their scale for 4:3:2:1.",
        "Law of the drop times: twice the square of the effective scale of a normal start has a "
        "chi-square law, whatever the spectrum.  The drop times are turned into such squares; "
        "their sum and their distribution are compared as normal deviates.",
        *(
            _moments_note(results[_times_cell(preset, "4:3:2:1", heads)], heads)
            for heads in SEED_HEADS
        ),
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.0, 3.6)
        left, right = figure.subplots(1, 2)
        for spectrum, colour in zip(SPECTRA, COLOURS, strict=False):
            run = results[_flow_cell(spectrum, SCALES[-1])]
            left.plot(run.times, run.losses, color=colour, linewidth=3, alpha=0.4)
            left.plot(
                run.times, run.theory, color=colour, linestyle="--", linewidth=1.2, label=spectrum
            )
        left.set_xlabel(r"time $t/\tau$")
        left.set_ylabel("loss")
        left.legend(title="eigenvalues (dashed: theory)")
        for heads, colour in zip(SEED_HEADS, COLOURS, strict=False):
            times = np.sort(results[_times_cell(preset, "4:3:2:1", heads)])
            share = (np.arange(len(times)) + 0.5) / len(times)
            right.plot(times, share, ".", color=colour, label=f"{heads} heads, seeds")
            right.plot(_law_times("4:3:2:1", heads, share), share, color=colour)
        right.set_xlabel(r"half-drop time $t/\tau$")
        right.set_ylabel("fraction of seeds")
        right.legend()

    return Verdict(tuple(comparisons), draw, notes)


def _moments_note(times: list[float], heads: int) -> str:
    lam = np.array(SPECTRA["4:3:2:1"])
    law = effective_init_scale_moments(heads)
    mean = merged_curve_drop_time(
        eigenvalues=lam, context=CONTEXT, init_scale=SEED_SCALE * math.exp(float(law.mean))
    )
    return (
        f"4:3:2:1, {heads} heads: half-drop time {np.mean(times):.2f} with standard deviation "
        f"{np.std(times, ddof=1):.2f} over seeds; predicted {float(mean):.2f} and "
        f"{float(law.std / np.linalg.norm(lam**2)):.2f}."
    )


def _law_times(spectrum: str, heads: int, share: np.ndarray) -> np.ndarray:
    """Quantiles of the half-drop time over seeds."""
    lam = np.array(SPECTRA[spectrum])
    typical = merged_curve_drop_time(eigenvalues=lam, context=CONTEXT, init_scale=SEED_SCALE)
    effective = np.sqrt(chdtri(heads, share) / 2)
    return typical - np.log(effective) / np.linalg.norm(lam**2)


def _law_comparisons(times: np.ndarray, spectrum: str, heads: int) -> list[Comparison]:
    """Scale and shape of the law, as normal deviates of exact probabilities."""
    from scipy.stats import chi2, kstest  # a second, which workers do without

    lam = np.array(SPECTRA[spectrum])
    typical = merged_curve_drop_time(eigenvalues=lam, context=CONTEXT, init_scale=SEED_SCALE)
    squares = 2 * np.exp(2 * np.linalg.norm(lam**2) * (typical - times))
    scale = -ndtri(chdtrc(heads * len(times), np.sum(squares)))
    shape = -ndtri(kstest(squares, chi2(heads).cdf).pvalue / 2)
    where = f"of the half-drop times over seeds, {spectrum}, {heads} heads"
    return [
        Comparison(f"chi-square {where}", 0.0, float(scale), 1.0),
        Comparison(f"Kolmogorov-Smirnov {where}", 0.0, float(shape), 1.0),
    ]


merged_claim = Claim(
    name="dynamics-merged",
    title="The single drop of merged attention",
    source=f"{PAPER}, eq. (10); any covariance, law over seeds: documentation",
    statement=(
        "Gradient flow of merged attention from small random weights follows the sigmoid for "
        "white inputs and the reduced equations for others, up to first order in the initial "
        "weights; the drop times over seeds have the law of the effective scale."
    ),
    cells=_merged_cells,
    judge=_merged_judge,
)


@dataclass(frozen=True)
class PairedCell:
    """Merged attention and the network on cubic features, from the same weights and data.

    Attributes
    ----------
    steps, merged, cubic : list of float
        Training losses of the first repeat.
    difference : float
        Largest difference of the losses of any repeat, relative to the first.
    gap, standard_error : float
        Mean over repeats of the last loss of the network minus that of merged attention.
    """

    steps: list[float]
    merged: list[float]
    cubic: list[float]
    difference: float
    gap: float
    standard_error: float


def paired_descent(
    *, training_set: float, repeats: int, rng: Any, backend: str = "numpy"
) -> PairedCell:
    """Gradient descent of both models."""
    merged, cubic = (
        simulate_gradient_descent(
            TaskMixture(eigenvalues(4), CONTEXT),
            model=model,
            heads=8,
            repeats=repeats,
            training_set=training_set,
            rng=rng,
            backend=backend,
            **CUBIC,
        )
        for model in ("merged", "cubic")
    )
    gaps = cubic.losses[:, -1] - merged.losses[:, -1]
    return PairedCell(
        merged.steps.tolist(),
        merged.losses[0].tolist(),
        cubic.losses[0].tolist(),
        float(np.max(np.abs(cubic.losses - merged.losses)) / merged.losses[0, 0]),
        float(np.mean(gaps)),
        float(np.std(gaps, ddof=1) / math.sqrt(repeats)),
    )


def _paired_cell(preset: Preset, size: float) -> Cell:
    repeats = CUBIC_REPEATS[preset] if size < math.inf else 2
    return Cell.of(paired_descent, training_set=size, repeats=repeats)


def _cubic_cells(preset: Preset) -> list[Cell]:
    return [_paired_cell(preset, size) for size in (*SETS, math.inf)]


def _cubic_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    limit = results[_paired_cell(preset, math.inf)]
    runs = [results[_paired_cell(preset, size)] for size in SETS]
    fit = extrapolate(
        SETS,
        np.array([[run.gap] for run in runs]),
        np.array([[[run.standard_error**2]] for run in runs]),
        orders=(1, 2),
    )
    comparisons = (
        Comparison(
            "difference of the curves on the law of the data", 0.0, limit.difference, 0.0, ROUNDING
        ),
        Comparison(
            "gap of the training losses, extrapolated to infinite training sets",
            0.0,
            float(fit.value[0]),
            float(fit.standard_error[0]),
            degrees=CUBIC_REPEATS[preset] - 1,
        ),
    )
    notes = (
        "On finite training sets merged attention also fits x-x and y-y moments, and is lower: "
        + ", ".join(f"{run.gap:.2g} ({size})" for size, run in zip(SETS, runs, strict=True))
        + ".",
        f"Extrapolation of order {fit.order}, p = {fit.p_value:.2f}.",
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.0, 3.6)
        left, right = figure.subplots(1, 2)
        left.plot(
            limit.steps,
            limit.merged,
            color=COLOURS[0],
            linewidth=3,
            alpha=0.4,
            label="merged attention",
        )
        left.plot(
            limit.steps,
            limit.cubic,
            color=COLOURS[0],
            linestyle="--",
            linewidth=1.2,
            label="network on cubic features",
        )
        run = runs[0]
        left.plot(run.steps, run.merged, color=COLOURS[1], label=f"merged, {SETS[0]} sequences")
        left.plot(run.steps, run.cubic, color=COLOURS[1], linestyle=":", label="network, the same")
        left.set_xlabel("step")
        left.set_ylabel("training loss")
        left.legend()
        draw_points(
            right,
            [1 / size for size in SETS],
            [run.gap for run in runs],
            [run.standard_error for run in runs],
            COLOURS[1],
        )
        right.set_xlim(left=0)
        right.set_ylim(bottom=0)
        right.set_xlabel("1 / training set")
        right.set_ylabel("network minus merged attention")

    return Verdict(comparisons, draw, notes)


cubic_claim = Claim(
    name="dynamics-cubic",
    title="Merged attention is a two-layer network on cubic features",
    source=f"{PAPER}, section 3",
    statement=(
        "From the same weights, on the law of the data, both have the same loss at every step; "
        "on finite training sets the difference vanishes as their size grows."
    ),
    cells=_cubic_cells,
    judge=_cubic_judge,
)


def few_heads(*, heads: int, rank: int, seed: int, rng: Any) -> float:
    """Last loss of a flow of separate attention with few heads."""
    del rng
    lam = eigenvalues(HEADS_DIM)
    model = AttentionModel("separate", HEADS_DIM, heads, rank)
    weights = model.random_weights(np.random.default_rng([seed, heads, rank]), HEADS_SCALE)
    duration = 2000 / (HEADS_SCALE * float(lam[0]))
    flow = simulate_gradient_flow(
        TaskMixture(lam, CONTEXT),
        model="separate",
        heads=heads,
        rank=rank,
        initial=weights,
        duration=duration,
    )
    return float(flow.losses[-1])


def _heads_cell(heads: int, rank: int, seed: int) -> Cell:
    return Cell.of(few_heads, heads=heads, rank=rank, seed=seed)


def _heads_cells(preset: Preset) -> list[Cell]:
    return [
        _heads_cell(heads, rank, seed)
        for heads, rank in HEADS
        for seed in range(HEADS_SEEDS[preset])
    ]


def _heads_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    heights = plateau_losses(eigenvalues(HEADS_DIM), context=CONTEXT)
    comparisons = tuple(
        Comparison(
            f"last loss, {heads} heads of rank {rank}, seed {seed}",
            float(heights[min(heads * rank, HEADS_DIM)]),
            results[_heads_cell(heads, rank, seed)],
            0.0,
            HEADS_ALLOWANCE * float(heights[-1]),
        )
        for heads, rank in HEADS
        for seed in range(HEADS_SEEDS[preset])
    )
    notes = (
        "For merged attention the number of heads enters through the effective initial scale "
        "only: see dynamics-merged.",
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        learned = np.arange(HEADS_DIM + 1)
        ax.plot(learned, heights, "_", color="0.3", markersize=22, label="plateaus")
        for k, rank in enumerate(sorted({rank for _, rank in HEADS})):
            chosen = [heads for heads, other in HEADS if other == rank]
            ends = [
                (heads * rank, results[_heads_cell(heads, rank, seed)])
                for heads in chosen
                for seed in range(HEADS_SEEDS[preset])
            ]
            ax.plot(
                *zip(*ends, strict=True),
                "o",
                color=COLOURS[k],
                label=f"rank {rank}",
                markersize=9 - 2 * k,
            )
        ax.set_xlabel("heads times rank")
        ax.set_ylabel("loss at the end, D = 4")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend()

    return Verdict(comparisons, draw, notes)


heads_claim = Claim(
    name="dynamics-heads",
    title="How many heads separate attention needs",
    source=f"{PAPER}, sections 4 and 5",
    statement=(
        "Separate attention with H heads of rank R ends where the min(H R, D) largest directions "
        "are learned; more heads change nothing but the times."
    ),
    cells=_heads_cells,
    judge=_heads_judge,
)
