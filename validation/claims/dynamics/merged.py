"""The single drop of merged attention.

Gradient flow of merged attention from tiny random weights grows and drops as predicted from its
effective initial scale: by the sigmoid for white inputs, and by the reduced equations for any
others.  The effective scales of random weights have the predicted mean and spread of logarithms.
One balanced flow has inputs, context, noise and scale that the seed draws.

Source: {zhang2025}, eq. (10) and Figure 1; any covariance, law of the effective scale:
documentation.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import dynamics
from iclimit.comparison import Comparison, compare
from iclimit.problem import Problem
from iclimit.simulate.dynamics import AttentionModel, FlowCurve, simulate_gradient_flow
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, judged, mean, run
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues

# Eigenvalues of the inputs, by what they are called.
SPECTRA = {"white": np.full(4, 0.25), "4:3:2:1": eigenvalues(4), "8:...:1": eigenvalues(8)}
# Heads of merged attention.
HEADS = 8
# Scale of the initial weights.  One start of each spectrum, which is held against the theory of
# its own weights.
SCALE = 1e-8
# Relative tolerance of the integration.
RTOL = 1e-10
# Context length, and variance of the label noise.
SIZES: dict[str, Any] = {"context": CONTEXT, "noise_variance": 0.1}
# Parts of the drop whose times are compared.
FRACTIONS = (0.1, 0.5, 0.9)
# Relative.  Weights that do not grow make an error of the order of their scale; the rest is
# interpolation between the steps of the integrator (measured: at most 2e-8).
TOLERANCE = 1e-6
# Growth of the weights, still small, from which the effective scale is found.
GROWTH = 1e4

# Balanced and aligned weights that are not small: the law of the drop is then exact.
LARGE = 0.3
# Parts of the drop from these weights; the last one comes soon after the start.
LARGE_FRACTIONS = (0.5, 0.9, 0.042)

# Numbers of heads whose law of the effective scale is compared.
LAW_HEADS = (1, 8)
# Draws of the effective scale in a block.
BLOCK = 5000


def flow_from(
    weights: Sequence[np.ndarray], lam: np.ndarray, sizes: dict[str, Any], duration: float
) -> FlowCurve:
    """Flow of merged attention from given weights."""
    law = Problem(len(lam), **sizes, input_covariance=lam, scale=1)
    start: dict[str, Any] = {"heads": len(weights[0]), "initial": weights}
    return simulate_gradient_flow(law, model="merged", **start, duration=duration, rtol=RTOL)


@named_cell("merged_flow")
def merged_flow(*, spectrum: str, rng: SeedSequence) -> dict[str, Any]:
    """Flow of merged attention from random weights.

    Initial value and lookup matrix of each head, norm of the values after exponential growth over
    the growth, times of the ``FRACTIONS`` of the drop, and the curve.
    """
    lam = SPECTRA[spectrum]
    dim = len(lam)
    rate = float(np.linalg.norm(lam**2))
    weights = AttentionModel("merged", dim, HEADS).random_weights(
        np.random.default_rng(rng), SCALE
    )
    early = flow_from(weights, lam, SIZES, math.log(GROWTH) / rate)
    whole = flow_from(weights, lam, SIZES, math.log(SCALE**-2) / rate)
    first, last = dynamics.plateau_losses(lam, **SIZES)[[0, -1]]
    crossings = whole.crossing_times(first - np.array(FRACTIONS) * (first - last))
    times = np.linspace(0, 1.8 * crossings[1], 41)
    return {
        "value": weights[0][:, -1],
        "key_query": weights[1][:, :dim],
        "grown": float(np.linalg.norm(early.weights[0])) / GROWTH,
        "crossings": crossings,
        "times": times,
        "losses": whole.at(times),
    }


@named_cell("balanced_flow")
def balanced_flow(
    *, spectrum: str, rng: SeedSequence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flow of one balanced and aligned head: times, losses there, and times of the fractions."""
    del rng
    return balanced(SPECTRA[spectrum], LARGE, SIZES, LARGE_FRACTIONS)


@named_cell("drawn_flow")
def drawn_flow(*, rng: SeedSequence) -> tuple[dict[str, Any], tuple[np.ndarray, ...]]:
    """Setting of a balanced flow that the seed draws, and the flow."""
    generator = np.random.default_rng(rng)
    lam = generator.uniform(0.1, 1, int(generator.integers(1, 7)))
    scale = float(np.exp(generator.uniform(np.log(1e-3), np.log(LARGE))))
    sizes = {
        "context": int(generator.integers(1, 101)),
        "noise_variance": float(generator.uniform(0, 1)),
    }
    setting = {"eigenvalues": lam, "init_scale": scale, **sizes}
    return setting, balanced(lam, scale, sizes, FRACTIONS[1:])


def balanced(
    lam: np.ndarray, scale: float, sizes: dict[str, Any], fractions: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flow of one balanced and aligned head: times, losses there, and times of the fractions."""
    dim = len(lam)
    growing = np.diag(lam**2 / np.linalg.norm(lam**2))
    value = np.zeros((1, dim + 1))
    lookup = np.zeros((1, dim + 1, dim))
    value[0, -1] = scale
    lookup[0, :dim] = scale * growing
    duration = (10 - 2 * math.log(scale / LARGE)) / float(np.linalg.norm(lam**2))
    flow = flow_from([value, lookup], lam, sizes, duration)
    first, last = dynamics.plateau_losses(lam, **sizes)[[0, -1]]
    levels = first - np.array(fractions) * (first - last)
    times = np.linspace(0, flow.times[-1], 9)
    return times, flow.at(times), flow.crossing_times(levels)


@named_cell("log_scales")
def log_scales(*, heads: int, blocks: int, rng: SeedSequence) -> np.ndarray:
    """Means and standard deviations, by blocks, of ln(effective scale / scale): (2, blocks)."""
    lam = SPECTRA["4:3:2:1"]
    direction = lam**2 / np.linalg.norm(lam**2)
    model = AttentionModel("cubic", len(lam), heads * BLOCK)
    laws = []
    for seed in rng.spawn(blocks):
        value, lookup = model.random_weights(np.random.default_rng(seed), 1.0)
        growing = value[:, 0] / 2 + np.einsum("hdd,d->h", lookup, direction) / 2
        logs = np.log(np.linalg.norm(growing.reshape(BLOCK, heads), axis=1))
        laws.append((np.mean(logs), np.std(logs, ddof=1)))
    return np.transpose(laws)


def rows(effort: Effort) -> Rows:
    """Scales, curves and drop times, and the law of the scales."""
    for spectrum in SPECTRA:
        yield judged(call(compare_flow, spectrum, run(merged_flow, spectrum=spectrum)))
    for spectrum in list(SPECTRA)[:2]:
        yield judged(call(compare_large, spectrum, run(balanced_flow, spectrum=spectrum)))
    yield judged(call(compare_drawn, run(drawn_flow)))
    for heads in LAW_HEADS:
        samples = run(log_scales, heads=heads, blocks=effort(40))
        law = call(dynamics.effective_init_scale_moments, heads)
        for number, name in enumerate(("mean", "std")):
            label = f"{name} of the logarithm of the effective scale, {heads} heads"
            yield mean(label, getattr(law, name), samples[number], draws=heads)


def compare_flow(spectrum: str, flow: dict[str, Any]) -> Iterator[Comparison]:
    """Compare a flow with what is predicted from its initial weights."""
    start = {name: flow[name] for name in ("value", "key_query")}
    scale = float(dynamics.effective_init_scale(**start, eigenvalues=SPECTRA[spectrum]))
    of = "effective_init_scale"
    yield compare(f"{of} 1, {spectrum}", scale, flow["grown"], relative=TOLERANCE, of=of)
    curve = flow["times"][20::4], flow["losses"][20::4]
    setting = {"eigenvalues": SPECTRA[spectrum], "init_scale": scale, **SIZES}
    yield from compare_curve(spectrum, setting, curve, (FRACTIONS, flow["crossings"]))


def compare_large(spectrum: str, flow: tuple[np.ndarray, ...]) -> Iterator[Comparison]:
    """Compare a flow from weights that are not small with what holds for balanced ones."""
    times, losses, crossings = flow
    setting = {"eigenvalues": SPECTRA[spectrum], "init_scale": LARGE, **SIZES}
    drops = LARGE_FRACTIONS, crossings
    yield from compare_curve(spectrum, setting, (times, losses), drops, " from large weights")


def compare_drawn(drawn: tuple[dict[str, Any], tuple[np.ndarray, ...]]) -> Iterator[Comparison]:
    """Compare the flow at the drawn setting with what holds for balanced weights."""
    setting, (times, losses, crossings) = drawn
    drops = FRACTIONS[1:], crossings
    yield from compare_curve("drawn setting", setting, (times, losses), drops)


def compare_curve(
    spectrum: str,
    setting: dict[str, Any],
    curve: tuple[np.ndarray, np.ndarray],
    drops: tuple[Sequence[float], np.ndarray],
    words: str = "",
) -> Iterator[Comparison]:
    """Compare losses, and times of parts of the drop, with the law of an initial scale."""
    times, losses = curve
    parts, crossings = drops
    predicted = [dynamics.merged_curve_drop_time(part, **setting) for part in parts]
    pairs = {
        "merged_curve_drop_time": (predicted, crossings),
        "merged_attention_curve": (dynamics.merged_attention_curve(times, **setting), losses),
    }
    if spectrum == "white":
        lam = setting["eigenvalues"]
        white: dict[str, Any] = {name: setting[name] for name in ("init_scale", *SIZES)}
        white |= {"dim": len(lam), "input_variance": lam[0]}
        pairs["merged_drop_time"] = dynamics.merged_drop_time(np.array(parts), **white), crossings
        pairs["merged_attention_loss"] = dynamics.merged_attention_loss(times, **white), losses
    for name, values in pairs.items():
        for number, pair in enumerate(zip(*values, strict=True), start=1):
            label = f"{name} {number}{words}, {spectrum}"
            yield compare(label, *pair, relative=TOLERANCE, of=name)


claim = Claim.of("dynamics-merged", __doc__, rows, figure=False)
