"""The single drop of merged attention.

Gradient flow of merged attention from small random weights follows the sigmoid for white
inputs and the reduced equations for others, up to first order in the initial weights.  The drop
times over seeds have the law of the effective scale.

Source: {zhang2025}, eq. (10); any covariance, law over seeds: documentation.
"""

import math
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
from iclimit.simulate.dynamics import AttentionModel, TaskMixture, simulate_gradient_flow
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.dynamics.setting import CONTEXT, TIME, draw_prediction, eigenvalues
from iclimit.validation.drawing import COLOURS, Figure, finish, panels

SPECTRA = {"white": np.full(4, 0.25), "4:3:2:1": eigenvalues(4), "8:...:1": eigenvalues(8)}
SCALES = (1e-2, 1e-3, 1e-4)
FIRST_ORDER = 1.0
"""Largest error of the loss, relative to the initial loss, in units of the scale of the initial
weights.  Weights that do not grow stay, which makes an error of first order (measured: at most
0.6)."""

LAWS = ("white", "4:3:2:1")
"""Spectra for which the law of the drop times is compared."""
SEEDS: dict[Preset, int] = {"quick": 60, "full": 1000}
SEED_SCALE, SEED_HEADS = 1e-5, (1, 8)


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
    lam = SPECTRA[spectrum]
    dim = len(lam)
    model = AttentionModel("merged", dim, heads)
    weights = model.random_weights(np.random.default_rng(rng), scale)
    effective = float(
        effective_init_scale(weights[0][:, -1], weights[1][:, :dim, :], eigenvalues=lam)
    )
    setting: dict[str, Any] = {"context": CONTEXT, "init_scale": effective}
    duration = 4 * merged_curve_drop_time(eigenvalues=lam, **setting)
    flow = simulate_gradient_flow(
        TaskMixture(lam, CONTEXT), model="merged", heads=heads, initial=weights, duration=duration
    )
    if spectrum == "white":
        theory = merged_attention_loss(flow.times, dim=dim, input_variance=lam[0], **setting)
    else:
        theory = merged_attention_curve(flow.times, eigenvalues=lam, **setting)
    kept = np.linspace(0, len(theory) - 1, min(400, len(theory))).astype(int)
    error = float(np.max(np.abs(flow.losses - theory)) / flow.losses[0])
    return MergedCell(error, *(x[kept].tolist() for x in (flow.times, flow.losses, theory)))


def drop_time(spectrum: str, scale: float) -> float:
    """Predicted half-drop time from a balanced start of this scale."""
    lam = SPECTRA[spectrum]
    return merged_curve_drop_time(eigenvalues=lam, context=CONTEXT, init_scale=scale)


def growth_rate(spectrum: str) -> float:
    """Rate at which small weights grow."""
    return float(np.linalg.norm(SPECTRA[spectrum] ** 2))


def merged_drop_times(*, spectrum: str, heads: int, scale: float, seeds: int, rng: Any) -> list:
    """Half-drop times of flows from independent random weights."""
    lam = SPECTRA[spectrum]
    losses = plateau_losses(lam, context=CONTEXT)
    # The chance of a weight so small that the drop comes later is about 1e-9.
    duration = drop_time(spectrum, scale) + 20 / growth_rate(spectrum)
    flows = (
        simulate_gradient_flow(
            TaskMixture(lam, CONTEXT),
            model="cubic",
            heads=heads,
            init_scale=scale,
            duration=duration,
            rng=seed,
        )
        for seed in rng.spawn(seeds)
    )
    return [float(flow.crossing_times((losses[0] + losses[-1]) / 2)) for flow in flows]


def cells(preset: Preset) -> dict[Any, Cell]:
    """Flows by spectrum and scale, drop times by spectrum and heads."""
    flows = {
        (spectrum, scale): Cell.of(merged_flow, spectrum=spectrum, heads=8, scale=scale)
        for spectrum in SPECTRA
        for scale in SCALES
    }
    law: dict[str, Any] = {"scale": SEED_SCALE, "seeds": SEEDS[preset]}
    return flows | {
        (spectrum, heads): Cell.of(merged_drop_times, spectrum=spectrum, heads=heads, **law)
        for spectrum in LAWS
        for heads in SEED_HEADS
    }


def compare_law(times: np.ndarray, spectrum: str, heads: int) -> list[Comparison]:
    """Compare scale and shape of the law, as normal deviates of exact probabilities."""
    from scipy.stats import chi2, kstest  # takes a second, which workers do without

    typical = drop_time(spectrum, SEED_SCALE)
    squares = 2 * np.exp(2 * growth_rate(spectrum) * (typical - times))
    deviates = {
        "chi-square": -ndtri(chdtrc(heads * len(times), np.sum(squares))),
        "Kolmogorov-Smirnov": -ndtri(kstest(squares, chi2(heads).cdf).pvalue / 2),
    }
    where = f"of the half-drop times over seeds, {spectrum}, {heads} heads"
    return [Comparison(f"{kind} {where}", 0.0, float(z), 1.0) for kind, z in deviates.items()]


def describe_moments(times: list[float], heads: int) -> str:
    """Mean and spread over seeds, with their predictions."""
    law = effective_init_scale_moments(heads)
    mean = drop_time("4:3:2:1", SEED_SCALE * math.exp(law.mean))
    return (
        f"4:3:2:1, {heads} heads: half-drop time {np.mean(times):.2f} with standard deviation "
        f"{np.std(times, ddof=1):.2f} over seeds; predicted {mean:.2f} and "
        f"{law.std / growth_rate('4:3:2:1'):.2f}."
    )


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the errors of the curves, and the laws of the drop times."""
    comparisons = [
        compare(
            f"error of the loss, {spectrum}, initial weights {scale}",
            0.0,
            results[spectrum, scale].error,
            allowance=FIRST_ORDER * scale,
        )
        for spectrum in SPECTRA
        for scale in SCALES
    ]
    for spectrum in LAWS:
        for heads in SEED_HEADS:
            comparisons += compare_law(np.array(results[spectrum, heads]), spectrum, heads)
    errors = ", ".join(f"{results['4:3:2:1', scale].error / scale:.2f}" for scale in SCALES)
    notes = (
        f"Errors of the loss are of first order in the initial weights: {errors} times their "
        "scale for 4:3:2:1.",
        "Law of the drop times: twice the square of the effective scale of a normal start has a "
        "chi-square law for any spectrum.  The drop times are turned into such squares; their sum "
        "and their distribution are compared as normal deviates.",
        *(describe_moments(results["4:3:2:1", heads], heads) for heads in SEED_HEADS),
    )

    def draw(figure: Figure) -> None:
        left, right = panels(figure, width=8.0, height=3.6)
        for spectrum, colour in zip(SPECTRA, COLOURS, strict=False):
            run = results[spectrum, SCALES[-1]]
            draw_prediction(left, run.times, run.losses, run.theory, colour, (None, spectrum))
        finish(left, TIME, "loss", legend="eigenvalues (dashed: theory)")
        typical, rate = drop_time("4:3:2:1", SEED_SCALE), growth_rate("4:3:2:1")
        for heads, colour in zip(SEED_HEADS, COLOURS, strict=False):
            times = np.sort(results["4:3:2:1", heads])
            share = (np.arange(len(times)) + 0.5) / len(times)
            law = typical - np.log(chdtri(heads, share) / 2) / (2 * rate)
            right.plot(times, share, ".", color=colour, label=f"{heads} heads, seeds")
            right.plot(law, share, color=colour)
        finish(right, f"half-drop {TIME}", "fraction of seeds", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-merged", __doc__, cells, judge)
