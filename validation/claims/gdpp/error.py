"""Test error of GD++: exact at finite size, Marchenko-Pastur in the limit.

The loss of simulated GD++ with label noise equals its integral over the exact mean spectrum at
every size and extrapolates to the Marchenko-Pastur integral.

Source: {vonoswald2023} (GD++); integrals: documentation.
"""

from typing import Any

from iclimit.asymptotics.descent import optimal_schedule
from iclimit.asymptotics.gdpp import gdpp_loss, optimal_gdpp
from iclimit.simulate.gdpp import simulate_gdpp
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    extrapolate_runs,
)
from iclimit.validation.drawing import COLOURS, Figure, draw_family, finish, panels

# Rates and gammas by number of layers, tame up to the largest eigenvalues that occur.  At the best
# rates of the limit the mean of three layers, of degree 26 in the eigenvalues, comes from contexts
# too rare to be simulated.
SCHEDULES = {2: ((0.3, 0.45), (0.06,)), 3: ((0.3, 0.45, 0.6), (0.06, 0.07))}

SIZES, NOISE_RATIO = (16, 24, 32, 48, 64), 0.05

# Contexts at the smallest size.
CONTEXTS: dict[Preset, int] = {"quick": 20_000, "full": 400_000}


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses by number of layers and dimension."""
    return {
        (layers, dim): Cell.of(
            simulate_gdpp,
            rates=rates,
            gammas=gammas,
            context=2 * dim,
            dim=dim,
            noise_ratio=NOISE_RATIO,
            contexts=CONTEXTS[preset] * SIZES[0] // dim,
        )
        for layers, (rates, gammas) in SCHEDULES.items()
        for dim in SIZES
    }


def exact(layers: int, dim: int) -> float:
    """Loss at finite size."""
    rates, gammas = SCHEDULES[layers]
    return float(gdpp_loss(rates, gammas, context=2 * dim, dim=dim, noise_ratio=NOISE_RATIO))


def limit(layers: int) -> float:
    """Loss in the limit."""
    return float(gdpp_loss(*SCHEDULES[layers], ratio=0.5, noise_ratio=NOISE_RATIO))


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare losses with the exact ones, and extrapolated losses with the limit."""
    comparisons, notes = [], []
    for layers in SCHEDULES:
        losses = [results[layers, dim].loss for dim in SIZES]
        comparisons += [
            compare(f"{layers} layers, d = {dim}, exact", exact(layers, dim), loss)
            for dim, loss in zip(SIZES, losses, strict=True)
        ]
        fit = extrapolate_runs(SIZES, losses)
        comparisons += compare_limits({f"{layers} layers, d to infinity": limit(layers)}, fit)
        notes.append(f"{layers} layers: {fit.summary}.")
    return Verdict(comparisons, lambda figure: draw(figure, results), notes)


def draw(figure: Figure, results: Results) -> None:
    """Draw losses against 1/d, and the best losses of GD++ against the number of layers."""
    left, right = panels(figure, width=9.0, height=3.8)
    inverse = [1 / dim for dim in SIZES]
    for layers, colour in zip(SCHEDULES, COLOURS, strict=False):
        line = [0, *inverse[::-1]], [limit(layers), *(exact(layers, dim) for dim in SIZES[::-1])]
        losses = [results[layers, dim].loss for dim in SIZES]
        draw_family(left, line, (inverse, losses), colour, f"{layers} layers")
    y = rf"loss, $d/N = 1/2$, $v = {NOISE_RATIO:g}$"
    finish(left, "$1/d$", y, legend="exact, to the limit at 0")
    depths = range(1, 4)
    for noise_ratio, colour in zip((0.0, 0.01, NOISE_RATIO, 0.2), COLOURS, strict=False):
        setting: dict[str, Any] = {"ratio": 0.5, "noise_ratio": noise_ratio}
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
