"""Two softmax heads with opposite weights: linear attention with one pair less, and better.

The exact loss of two heads with opposite keys and values is that of simulated prompts.  As their
temperatures grow it is that of linear attention with one context pair less.  The best temperature
is finite, and its gain is that of theory on the same prompts.  On uniform inputs and in long
contexts the best two heads beat the best linear layer, by as much as theory says.  Two heads
trained from random weights come within a percent of the best pair; more heads gain hardly more.

Source: derived in the theory pages; {he2025} for small weights; {vonoswald2023}, Figures 11 and
12.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.asymptotics.softmax import (
    SoftmaxHead,
    optimal_softmax,
    softmax_loss,
    uniform_softmax,
    uniform_softmax_loss,
)
from iclimit.drawing import COLOURS, Figure, draw_points, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.softmax import simulate_softmax
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare, difference
from iclimit.validation.claims.softmax.runs import (
    KERNELS,
    compare_trained,
    head_loss,
    trained_heads,
)

CONTEXTS: dict[Preset, int] = {"quick": 25_000, "medium": 1_000_000, "full": 4_000_000}
"""Prompts of a simulation of scores."""
SIZES = ((10, 10), (10, 5), (20, 10))
"""Context lengths and dimensions of pairs on Gaussian inputs."""
NOISE = 0.5
"""Noise variance of the law of warm heads."""
WARM = 0.01
"""Inverse temperature of warm heads in units of 1/sqrt(d).  Their loss differs from the limit by
2e-6 of it."""
COLD = 0.6
"""Inverse temperature, in the same units, of a pair away from its best one, at value 1.5."""
UNIFORM: dict[Preset, tuple[tuple[int, int], ...]] = {
    "quick": ((50, 5),),
    "medium": ((10, 5), (50, 5), (98, 5)),
    "full": ((10, 10), (10, 5), (50, 5), (98, 5)),
}
"""Context lengths and dimensions of pairs on uniform inputs."""
TOKENS: dict[Preset, int] = {"quick": 60_000, "medium": 400_000, "full": 2_000_000}
"""Prompts of a simulation of whole tokens."""
OTHER = (1.5, 0.8, 0.3)
"""Inverse temperature, value and noise of a further pair on uniform inputs, N = 10 and d = 3."""
OTHER_SIZE: dict[str, Any] = {"context": 10, "dim": 3, "noise_variance": OTHER[2]}
TRAINED: dict[Preset, tuple[tuple[int, int, int], ...]] = {
    "quick": ((6, 4, 2),),
    "medium": ((6, 4, 2), (10, 10, 2), (10, 10, 4)),
    "full": ((6, 4, 2), (10, 10, 2), (10, 10, 4), (10, 10, 8)),
}
"""Context lengths, dimensions and heads of trained heads."""
BATCH: dict[Preset, int] = {"quick": 512, "medium": 2048, "full": 2048}
HELD_OUT: dict[Preset, int] = {"quick": 50_000, "medium": 200_000, "full": 500_000}
EXCESS = 0.01
"""Most that training may leave of the loss of the best pair: .03 % measured at N = 6, d = 4, and
0.5 % at N = d = 10, where the loss hardly depends on the temperature."""


@dataclass(frozen=True)
class UniformPair:
    """A pair of heads and a linear layer on the same prompts with uniform inputs."""

    pair: Estimate
    layer: Estimate


def uniform_pair(
    *, context: int, dim: int, beta: float, value: float, rate: float, contexts: int, rng: Any
) -> UniformPair:
    """Loss of a pair of heads and of a linear layer with a learning rate."""
    setting: dict[str, Any] = {"context": context, "dim": dim, "input_law": "uniform"}
    setting |= {"contexts": contexts, "sampler": "tokens", "rng": rng}
    pair = simulate_softmax((beta, -beta), **setting)
    layer = simulate_softmax(1.0, score_function=KERNELS["linear"], **setting)
    return UniformPair(pair.loss((value, -value)), layer.loss(rate / context))


@dataclass(frozen=True)
class WarmPair:
    """The best pair of heads and a warm one, on the same prompts."""

    best: Estimate
    warm: Estimate


def warm_pair(
    *,
    betas: tuple[float, float],
    values: tuple[float, float],
    contexts: int,
    rng: Any,
    **size: Any,
) -> WarmPair:
    """Losses of two pairs of heads with opposite keys and values."""
    heads = simulate_softmax(
        (betas[0], -betas[0], betas[1], -betas[1]), contexts=contexts, rng=rng, **size
    )
    best, warm = values
    return WarmPair(heads.loss((best, -best, 0, 0)), heads.loss((0, 0, warm, -warm)))


@cache
def best_pair(context: int, dim: int) -> SoftmaxHead:
    """Best pair on Gaussian inputs."""
    return optimal_softmax(context=context, dim=dim, heads=2)


@cache
def best_uniform(context: int, dim: int) -> SoftmaxHead:
    """Best pair on uniform inputs."""
    return uniform_softmax(context=context, dim=dim, heads=2)


def one_pair_less(context: int, dim: int, noise: float = 0.0) -> float:
    """Loss of warm heads, that of linear attention on N - 1 pairs."""
    return dim * (dim + 1 + noise) / (context + dim + noise)


def warm_value(context: int, dim: int, noise: float = 0.0) -> float:
    """Value of warm heads: a learning rate N/(N + d + noise) of a step on centred inputs."""
    return context / (context + dim + noise) / (2 * WARM / dim**0.5)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Pairs on Gaussian and uniform inputs, and trained heads."""
    found: dict[Any, Cell] = {}
    for context, dim, heads in reversed(TRAINED[preset]):
        best = best_pair(context, dim)
        found["trained", context, dim, heads] = Cell.of(
            trained_heads,
            best=(float(best.inverse_temperature), float(best.value)),
            heads=heads,
            context=context,
            dim=dim,
            batch=BATCH[preset],
            held_out=HELD_OUT[preset],
        )
    for context, dim in UNIFORM[preset]:
        best = best_uniform(context, dim)
        size: dict[str, Any] = {"context": context, "dim": dim}
        found["uniform", context, dim] = Cell.of(
            uniform_pair,
            beta=float(best.inverse_temperature),
            value=float(best.value),
            rate=float(optimal_learning_rate(**size, input_law="uniform").rate),
            contexts=TOKENS[preset],
            **size,
        )
    found["other"] = Cell.of(
        head_loss,
        inverse_temperatures=(OTHER[0], -OTHER[0]),
        values=(OTHER[1], -OTHER[1]),
        input_law="uniform",
        contexts=2 * TOKENS[preset],
        **OTHER_SIZE,
    )
    for context, dim in SIZES:
        best, scale, size = best_pair(context, dim), dim**-0.5, {"context": context, "dim": dim}
        found["paired", context, dim] = Cell.of(
            warm_pair,
            betas=(float(best.inverse_temperature), WARM * scale),
            values=(float(best.value), warm_value(context, dim)),
            contexts=CONTEXTS[preset],
            **size,
        )
        beta, value = WARM * scale, warm_value(context, dim, NOISE)
        found["warm", context, dim] = Cell.of(
            head_loss,
            inverse_temperatures=(beta, -beta),
            values=(value, -value),
            noise_variance=NOISE,
            contexts=CONTEXTS[preset],
            **size,
        )
        found["cold", context, dim] = Cell.of(
            head_loss,
            inverse_temperatures=(COLD * scale, -COLD * scale),
            values=(1.5, -1.5),
            contexts=CONTEXTS[preset],
            **size,
        )
    return found


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare losses, gains on the same prompts, and trained heads."""
    comparisons, notes, gains = [], [], []
    for context, dim in SIZES:
        size, where = {"context": context, "dim": dim}, f"N={context}, d={dim}"
        best, run = best_pair(context, dim), results["paired", context, dim]
        warm = one_pair_less(context, dim)
        draws = ("paired", context, dim)
        beta = COLD / dim**0.5
        comparisons += [
            compare(f"warm heads, {where}", warm, run.warm, draws=draws),
            compare(
                f"warm heads, noise {NOISE}, {where}",
                one_pair_less(context, dim, NOISE),
                results["warm", context, dim],
            ),
            compare(
                f"best heads, {where}", best.loss, run.best, of="optimal_softmax.loss", draws=draws
            ),
            compare(
                f"heads at beta sqrt(d) = {COLD} and value 1.5, {where}",
                softmax_loss(beta, 1.5, **size, heads=2),
                results["cold", context, dim],
                of="softmax_loss",
            ),
        ]
        gain = difference(run.warm, run.best)
        comparisons.append(
            compare(f"gain of the best temperature, {where}", warm - best.loss, gain)
        )
        gains.append((f"{context}, {dim}", (warm - best.loss) / warm, gain, warm))
    for context, dim in UNIFORM[preset]:
        where, found = f"uniform inputs, N={context}, d={dim}", results["uniform", context, dim]
        best, draws = best_uniform(context, dim), ("uniform", context, dim)
        line = optimal_learning_rate(context=context, dim=dim, input_law="uniform").loss
        gain = difference(found.layer, found.pair)
        comparisons += [
            compare(
                f"best heads, {where}",
                best.loss,
                found.pair,
                of="uniform_softmax.loss",
                draws=draws,
            ),
            compare(f"linear layer minus best heads, {where}", line - best.loss, gain),
        ]
        gains.append((f"{context}, {dim}", (line - best.loss) / line, gain, line))
        notes.append(
            f"Two heads gain {gain} on the best linear layer, {where}: "
            f"{gain.z(0):.0f} standard errors."
        )
    comparisons.append(
        compare(
            "other heads, uniform inputs, N=10, d=3, noise {2:g}".format(*OTHER),
            uniform_softmax_loss(OTHER[0], OTHER[1], **OTHER_SIZE, heads=2),
            results["other"],
            of="uniform_softmax_loss",
        )
    )
    for context, dim, heads in TRAINED[preset]:
        run, best = results["trained", context, dim, heads], best_pair(context, dim)
        where = f"{heads} heads, N={context}, d={dim}"
        comparisons += compare_trained(where, run, EXCESS)
        if heads == 2:
            label = f"sum of the values over their size, {where}"
            asymmetry = abs(run.value.sum()) / abs(run.value).max() / 0.05
            comparisons.append(compare(f"{label}, over its bound", 1, asymmetry, upper_bound=True))
        notes.append(
            f"Trained, {where}, {run.steps} steps: loss {run.loss}, over that of the best pair "
            f"{run.ratio}; inverse temperatures {_listed(run.inverse_temperature)} "
            f"({best.inverse_temperature:.3f}), values {_listed(run.value)} ({best.value:.3f})."
        )

    def draw(figure: Figure) -> None:
        left, right = panels(figure)
        grid = range(4, 41, 4)
        dim = 10
        curves = {
            "one softmax head": [optimal_softmax(context=n, dim=dim).loss for n in grid],
            "two heads, warm": [one_pair_less(n, dim) for n in grid],
            "linear attention": [optimal_learning_rate(context=n, dim=dim).loss for n in grid],
        }
        for (label, curve), colour in zip(curves.items(), COLOURS, strict=False):
            left.plot(grid, [each / dim for each in curve], color=colour, label=label)
        at = [size for size in SIZES if size[1] == dim]
        found = [results["paired", *size].best.mean / dim for size in at]
        left.plot([n for n, _ in at], found, "k.", label="best two heads, simulated")
        finish(left, "context length $N$", "loss / d", legend="", title="Gaussian inputs, d = 10")
        for k, (_, theory, gain, unit) in enumerate(gains):
            colour = COLOURS[k >= len(SIZES)]
            right.plot([k - 0.3, k + 0.3], [100 * theory] * 2, color="0.4")
            error = 100 * gain.standard_error / unit
            draw_points(right, [k], [100 * gain.mean / unit], [error], colour)
        right.axhline(0, color="0.8", linewidth=0.8)
        right.set_xticks(range(len(gains)), [name for name, *_ in gains], fontsize=8)
        right.plot([], [], "o", color=COLOURS[0], label="over warm heads, Gaussian inputs")
        right.plot([], [], "o", color=COLOURS[1], label="over linear attention, uniform inputs")
        right.plot([], [], color="0.4", label="exact")
        finish(right, "N, d", "gain of the best two heads (%)", legend="")

    return Verdict(comparisons, draw, notes)


def _listed(numbers: Any) -> str:
    return ", ".join(f"{number:.3f}" for number in numbers)


claim = Claim.of("softmax-pair", __doc__, cells, judge)
