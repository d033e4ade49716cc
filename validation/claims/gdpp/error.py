"""Test error of GD++: exact at finite size, Marchenko-Pastur in the limit.

The loss of simulated GD++ with label noise equals its integral over the exact mean spectrum at
every size and extrapolates to the Marchenko-Pastur integral.  Descents from random starts over
the limiting spectrum reach the minima that the search finds, and the best polynomial its bound.

Source: {vonoswald2023}, Figure 13 (GD++); integrals: documentation.
"""

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_schedule
from iclimit.asymptotics.gdpp import gdpp_loss, gdpp_minima, optimal_gdpp
from iclimit.drawing import COLOURS, Figure, draw_family, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.descent.schedules import context_blocks
from iclimit.simulate.gdpp import simulate_gdpp
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
)
from iclimit.validation.claims.gdpp.controls import controlled, trace_controls
from iclimit.validation.claims.gdpp.minima import errors, local_minima

# Rates and gammas by number of layers, tame up to the largest eigenvalues that occur.  At the best
# rates of the limit the mean of three layers, of degree 26 in the eigenvalues, comes from contexts
# too rare to be simulated.
SCHEDULES = {2: ((0.3, 0.45), (0.06,)), 3: ((0.3, 0.45, 0.6), (0.06, 0.07))}

SIZES, RATIO, NOISE_RATIO = (16, 24, 32, 48, 64), 0.5, 0.05

# Contexts at the smallest size.
CONTEXTS: dict[Preset, int] = {"quick": 2000, "medium": 20_000, "full": 200_000}

# Noise ratios of the minima, and random starts by number of layers.  Of two layers every third
# start ends at the best minimum.
MINIMA_NOISES = (NOISE_RATIO, 0.2)
STARTS: dict[Preset, dict[int, int]] = {
    "quick": {2: 60},
    "medium": {2: 80, 3: 80},
    "full": {2: 200, 3: 400},
}

# Relative; minima are found to rounding (measured: 1e-14).
MINIMUM_ACCURACY = 1e-10

# Nodes of the rule over the limiting spectrum.  It is exact to rounding for every polynomial here.
NODES = 400


def simulated_loss(
    *,
    rates: tuple[float, ...],
    gammas: tuple[float, ...],
    dim: int,
    contexts: int,
    rng: Any,
    backend: str = "numpy",
) -> Estimate:
    """Loss of simulated GD++, with the traces of the same contexts as control variates."""
    size, law = (round(dim / RATIO), dim), "gaussian"
    settings: dict[str, Any] = {"context": size[0], "dim": dim, "noise_ratio": NOISE_RATIO}
    run = simulate_gdpp(rates, gammas, contexts=contexts, rng=rng, backend=backend, **settings)
    blocks = context_blocks(*size, law, contexts, rng, "numpy")
    controls = [trace_controls(x.transpose(0, 2, 1) @ x, size[0]) for x in blocks]
    return controlled(run.loss.samples, np.concatenate(controls))


def limiting_spectrum() -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and weights of the Marchenko-Pastur law, by the trapezoidal rule in an angle."""
    angle = np.arange(1, NODES) * math.pi / NODES
    eigenvalues = 1 + RATIO - 2 * math.sqrt(RATIO) * np.cos(angle)
    weights = np.sin(angle) ** 2 / eigenvalues
    return eigenvalues, weights / np.sum(weights)


def limiting_minima(*, layers: int, noise_ratio: float, starts: int, rng: Any) -> list[float]:
    """Losses at the local minima over the limiting spectrum, best first."""
    nodes, weights = limiting_spectrum()
    found = local_minima(nodes, weights, noise_ratio, layers=layers, starts=starts, rng=rng)
    return [float(sum(weights @ e**2 for e in errors(x, nodes, noise_ratio))) for x in found]


def least_loss(degree: int, noise_ratio: float) -> float:
    """Least loss over the limiting spectrum for any polynomial P with P(0) = 1, of this degree.

    It is linear least squares for the polynomial Q = (1 - P)/eigenvalue.
    """
    nodes, weights = limiting_spectrum()
    powers = np.polynomial.chebyshev.chebvander(nodes - np.mean(nodes), degree - 1)
    bias, roots = np.sqrt(weights), np.sqrt(noise_ratio * weights * nodes)
    design = np.concatenate([(bias * nodes)[:, None] * powers, roots[:, None] * powers])
    target = np.concatenate([bias, np.zeros_like(bias)])
    return float(np.linalg.lstsq(design, target, rcond=None)[1][0])


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses by number of layers and dimension, and minima by number of layers and noise."""
    losses = {
        (layers, dim): Cell.of(
            simulated_loss,
            rates=rates,
            gammas=gammas,
            dim=dim,
            contexts=CONTEXTS[preset] * SIZES[0] // dim,
        )
        for layers, (rates, gammas) in SCHEDULES.items()
        for dim in SIZES
    }
    minima = {
        ("minima", layers, noise): Cell.of(
            limiting_minima, layers=layers, noise_ratio=noise, starts=starts
        )
        for layers, starts in STARTS[preset].items()
        for noise in MINIMA_NOISES
    }
    return losses | minima


def exact(layers: int, dim: int) -> float:
    """Loss at finite size."""
    size: dict[str, Any] = {"context": round(dim / RATIO), "dim": dim}
    return float(gdpp_loss(*SCHEDULES[layers], noise_ratio=NOISE_RATIO, **size))


def limit(layers: int) -> float:
    """Loss in the limit."""
    return float(gdpp_loss(*SCHEDULES[layers], ratio=RATIO, noise_ratio=NOISE_RATIO))


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare losses with the exact ones, extrapolated losses with the limit, and minima."""
    comparisons, notes = [], []
    for layers in SCHEDULES:
        losses = [results[layers, dim] for dim in SIZES]
        comparisons += [
            compare(f"{layers} layers, d = {dim}, exact", exact(layers, dim), loss, of="gdpp_loss")
            for dim, loss in zip(SIZES, losses, strict=True)
        ]
        fit = extrapolate_runs(SIZES, losses)
        limits = {f"{layers} layers, d to infinity": limit(layers)}
        comparisons += compare_limits(limits, fit, of=["gdpp_loss.limit"])
        notes.append(f"{layers} layers: {fit.summary}.")
    for layers in STARTS[preset]:
        for noise in MINIMA_NOISES:
            comparisons += compare_minima(layers, noise, results["minima", layers, noise])
    return Verdict(comparisons, lambda figure: draw(figure, results), notes)


def compare_minima(layers: int, noise: float, losses: list[float]) -> list[Comparison]:
    """Compare minima in the limit; of more than two layers the best only."""
    setting = f"{layers} layers, v = {noise:g}"
    best = optimal_gdpp(layers, ratio=RATIO, noise_ratio=noise)
    bound = least_loss((3**layers - 1) // 2, noise)
    rows = [
        (f"least loss, {setting}", best.loss, losses[0], "optimal_gdpp.loss"),
        (f"any polynomial, {setting}", best.lower_bound, bound, "optimal_gdpp.lower_bound"),
    ]
    minima = gdpp_minima(layers, ratio=RATIO, noise_ratio=noise)[: 2 if layers == 2 else 1]
    rows += [
        (f"minimum {number}, {setting}", minimum.loss, losses[number], "gdpp_minima.loss")
        for number, minimum in enumerate(minima)
    ]
    return [
        compare(label, theory, found, relative=MINIMUM_ACCURACY, of=of)
        for label, theory, found, of in rows
    ]


def draw(figure: Figure, results: Results) -> None:
    """Draw losses against 1/d, and the best losses of GD++ against the number of layers."""
    left, right = panels(figure, width=9.0, height=3.8)
    inverse = [1 / dim for dim in SIZES]
    for layers, colour in zip(SCHEDULES, COLOURS, strict=False):
        line = [0, *inverse[::-1]], [limit(layers), *(exact(layers, dim) for dim in SIZES[::-1])]
        losses = [results[layers, dim] for dim in SIZES]
        draw_family(left, line, (inverse, losses), colour, f"{layers} layers")
    y = rf"loss, $d/N = 1/2$, $v = {NOISE_RATIO:g}$"
    finish(left, "$1/d$", y, legend="exact, to the limit at 0")
    depths = range(1, 4)
    for noise_ratio, colour in zip((0.0, *MINIMA_NOISES), COLOURS, strict=False):
        setting: dict[str, Any] = {"ratio": RATIO, "noise_ratio": noise_ratio}
        found = [optimal_gdpp(depth, **setting) for depth in depths]
        plain = [optimal_schedule(steps=depth, **setting).loss for depth in depths]
        label = rf"$v = {noise_ratio:g}$"
        right.plot(depths, [each.loss for each in found], "o-", color=colour, label=label)
        bounds = [each.lower_bound for each in found]
        right.plot(depths, bounds, "_", color=colour, markersize=14)
        right.plot(depths, plain, ":", color=colour, linewidth=1.2)
    right.plot([], [], "_", color="0.3", markersize=14, label="bound of any GD++")
    right.plot([], [], ":", color="0.3", label="gradient descent")
    right.set_ylim(3e-5, None)
    right.set_xticks(depths)
    finish(right, "layers", "loss", log="y", legend="GD++, best found")


claim = Claim.of("gdpp-error", __doc__, cells, judge)
