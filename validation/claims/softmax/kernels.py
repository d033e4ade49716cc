"""Kernels of attention: how much context a softmax, a ReLU or several heads are worth.

At finite size the loss of a head with weights f(score), not normalised, is the exact one, for
ReLU, tanh and linear kernels.  As context length and dimension grow, the efficiency that follows
from the loss is extrapolated over sizes.  It is c/loss - c, with the loss relative to predicting
zero and c = d/N.  It is that of theory for the kernels, for one softmax head (1/e), for two
opposite heads and for three with positive keys.

Source: derived in the theory pages.
"""

from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.softmax import (
    KernelHead,
    attention_loss,
    heads_efficiency,
    kernel_efficiency,
    optimal_kernel,
)
from iclimit.drawing import COLOURS, Figure, draw_sizes, finish, panels
from iclimit.results import Estimate
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
)
from iclimit.validation.claims.softmax.runs import KERNELS, head_loss

RATIO = 0.5
"""c = d/N."""
SIZES: dict[Preset, tuple[int, ...]] = {
    "quick": (16, 32, 64, 128),
    "medium": (16, 32, 64, 128, 256),
    "full": (16, 32, 64, 128, 256, 512),
}
CONTEXTS: dict[Preset, int] = {"quick": 5_000, "medium": 50_000, "full": 200_000}
"""Prompts at the largest size; as many scores at the others."""
KINDS = ("linear", "ReLU", "tanh")
"""Kernels that are not normalised, at inverse temperature 1/sqrt(d)."""
HEADS: dict[str, tuple[float, ...]] = {
    "one head": (1.0,),
    "two heads": (-1.0, 1.0),
    "three heads": (0.3, 0.6, 0.9),
}
"""Softmax heads: inverse temperatures times sqrt(d)."""
LARGER = {"three heads": 4}
"""Factor of the sizes: the values of three heads nearly cancel, and the terms in 1/d are large."""


def one_kernel(kind: str) -> Any:
    """The kernel as a function of one score."""
    return lambda s: float(KERNELS[kind](np.float64(s)))


def sizes_of(name: str, preset: Preset) -> list[int]:
    """Dimensions at which a kernel or heads are simulated."""
    return [LARGER.get(name, 1) * dim for dim in SIZES[preset]]


@cache
def finite(kind: str, dim: int) -> KernelHead:
    """Best value of a kernel at a size, and its loss."""
    return optimal_kernel(KERNELS[kind], dim**-0.5, context=round(dim / RATIO), dim=dim)


def best_values(t: tuple[float, ...], dim: int) -> tuple[float, ...]:
    """Values of softmax heads with the least loss in the limit, from normal equations."""
    scores = np.array(t)
    power = np.outer(scores, scores) + RATIO * np.exp(np.outer(scores, scores))
    return tuple(float(v) for v in dim**0.5 * np.linalg.solve(power, scores))


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses of kernels and of heads by size, the largest first."""
    found: dict[Any, Cell] = {}
    for number, unit in reversed(list(enumerate(SIZES[preset]))):
        contexts = CONTEXTS[preset] * SIZES[preset][-1] // unit
        for kind in KINDS:
            found[kind, unit] = Cell.of(
                head_loss,
                inverse_temperatures=(unit**-0.5,),
                values=(finite(kind, unit).value,),
                kernel=kind,
                context=round(unit / RATIO),
                dim=unit,
                contexts=contexts,
            )
        for name, t in HEADS.items():
            dim = sizes_of(name, preset)[number]
            found[name, dim] = Cell.of(
                head_loss,
                inverse_temperatures=tuple(each * dim**-0.5 for each in t),
                values=best_values(t, dim),
                context=round(dim / RATIO),
                dim=dim,
                contexts=contexts // LARGER.get(name, 1),
            )
    return found


def efficiency(loss: Estimate, dim: int) -> Estimate:
    """Efficiency that has such a loss in the limit, linearised in the samples about the mean."""
    mean = loss.mean / dim
    slope = -RATIO / mean**2
    return Estimate.of(RATIO / mean - RATIO + slope * (loss.samples / dim - mean))


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare losses at finite size, and extrapolated efficiencies and losses."""
    sizes, comparisons, notes = SIZES[preset], [], []
    for kind in KINDS:
        comparisons += [
            compare(
                f"{kind} kernel, d={dim}",
                finite(kind, dim).loss,
                results[kind, dim],
                of="optimal_kernel.loss",
                draws=(kind, dim),
            )
            for dim in sizes
        ]
    theory = {kind: (kernel_efficiency(one_kernel(kind)), "kernel_efficiency") for kind in KINDS}
    theory |= {name: (heads_efficiency(t), "heads_efficiency") for name, t in HEADS.items()}
    fits = {}
    for name, (expected, function) in theory.items():
        dims = sizes_of(name, preset)
        found = [efficiency(results[name, dim], dim) for dim in dims]
        fits[name] = found, extrapolate_runs(dims, found)
        label = f"efficiency, {name}, d=inf"
        comparisons += compare_limits(
            {label: expected}, fits[name][1], of=[function], draws=("eff", name)
        )
        comparisons.append(compare_p_value(f"fit of {name}", fits[name][1].p_value))
        notes.append(f"Efficiency, {name}: {fits[name][1].summary}.")
        if function == "heads_efficiency":
            losses = [Estimate.of(results[name, dim].samples / dim) for dim in dims]
            limit = {f"loss / d, {name}, d=inf": attention_loss(expected, ratio=RATIO)}
            fit = extrapolate_runs(dims, losses)
            comparisons += compare_limits(limit, fit, of=["attention_loss"], draws=("eff", name))

    def draw(figure: Figure) -> None:
        left, right = panels(figure)
        for name, colour in zip(theory, COLOURS, strict=False):
            found, fit = fits[name]
            dims, limit = sizes_of(name, preset), theory[name][0]
            draw_sizes(left, dims, found, colour, limit=limit, fit=fit, label=name)
        finish(left, "$1/d$", "efficiency from the loss", title="stars: limit")
        left.legend(fontsize=8, loc="center right")
        for k, (kind, colour) in enumerate(zip(KINDS, COLOURS, strict=False)):
            ratios = [results[kind, dim].mean / finite(kind, dim).loss for dim in sizes]
            errors = [results[kind, dim].standard_error / finite(kind, dim).loss for dim in sizes]
            right.errorbar(
                np.array(sizes) * (1 + 0.06 * (k - 1)),
                100 * (np.array(ratios) - 1),
                100 * np.array(errors),
                fmt="o",
                color=colour,
                markersize=4,
                capsize=2,
                label=kind,
            )
        right.axhline(0, color="0.4")
        finish(right, "dim", "above the exact loss (%)", log="x", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("softmax-kernels", __doc__, cells, judge)
