"""In the limit one softmax head sees e times less context than linear attention.

The loss of the limiting best head over the dimension, simulated at several sizes, is extrapolated
in 1/d: it is e c/(1 + e c), c = d/N plus the noise over N.  On prompts of other lengths it is that
of theory.  With inputs and tasks of two covariances the best matrix of keys and queries has the
loss of theory.  In long contexts at fixed dimension the loss falls as the stated constant over N;
this is left out of the quick preset.

Source: derived in the theory pages.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.softmax import (
    SoftmaxHead,
    long_context_softmax,
    optimal_softmax,
    optimal_softmax_matrix,
    softmax_loss,
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
    compare_limits,
    compare_p_value,
)
from iclimit.validation.claims.softmax.runs import head_loss

SIZES: dict[Preset, tuple[int, ...]] = {
    "quick": (16, 32, 64, 128),
    "medium": (16, 32, 64, 128, 256),
    "full": (16, 32, 64, 128, 256, 512),
}
CONTEXTS: dict[Preset, int] = {"quick": 4_000, "medium": 50_000, "full": 200_000}
"""Prompts at the largest size; as many scores at the others."""
POINTS = ((2.0, 0.0), (1.0, 0.0), (0.5, 0.0), (0.5, 0.25))
"""d/N and the noise variance over N."""
TESTED = (0.5, 0.25)
"""d/N of a head that is the best one, and d/N of the prompts that it is tested on."""
MATRIX_SIZES: dict[Preset, tuple[int, ...]] = {
    "quick": (12, 24, 48, 96),
    "medium": (16, 32, 64, 128),
    "full": (16, 32, 64, 128, 256),
}
MATRIX_CONTEXTS: dict[Preset, int] = {"quick": 1_000, "medium": 10_000, "full": 20_000}
"""Prompts at the largest size; as many numbers at the others."""
MATRIX_NOISE = 0.3
"""Noise variance over N."""
LONG_DIM = 8
"""Dimension of long contexts.  Rare queries of large norm determine their losses: an extrapolation
to 0.5 % takes minutes."""
LENGTHS: dict[Preset, tuple[int, ...]] = {
    "quick": (),
    "medium": (200, 400, 800, 1600, 3200),
    "full": (400, 800, 1600, 3200, 6400),
}
LONG_CONTEXTS: dict[Preset, int] = {"quick": 0, "medium": 50_000, "full": 200_000}
"""Prompts of the longest context; as many scores in the others."""
LONG_NOISE = 0.5

# Blocks of two covariances that do not commute.  Every size has the same eigenvalues.
INPUT_BLOCK = np.array([[1.7, 0.5, 0, 0], [0.5, 0.9, 0, 0], [0, 0, 0.4, 0.1], [0, 0, 0.1, 1.0]])
TASK_BLOCK = np.array([[0.3, 0, 0.2, 0], [0, 1.8, 0, 0], [0.2, 0, 1.1, 0.3], [0, 0, 0.3, 0.8]])

Table = tuple[tuple[float, ...], ...]


def table(matrix: np.ndarray) -> Table:
    """A matrix as an argument of a cell."""
    return tuple(tuple(map(float, row)) for row in matrix)


@cache
def limit_head(ratio: float, noise: float) -> SoftmaxHead:
    """Best head in the limit."""
    return optimal_softmax(ratio=ratio, noise_ratio=noise)


def matrix_setting(dim: int) -> dict[str, Any]:
    """Covariances, context and noise of a size, d/N = 1/2."""
    inputs, tasks = (np.kron(np.eye(dim // 4), each) for each in (INPUT_BLOCK, TASK_BLOCK))
    return {
        "input_covariance": inputs,
        "task_covariance": tasks,
        "context": 2 * dim,
        "noise_variance": MATRIX_NOISE * 2 * dim,
    }


def matrix_loss(*, dim: int, contexts: int, rng: Any, value: float, key_query: Table) -> Estimate:
    """Loss of a head with a matrix of keys and queries, over the dimension."""
    found = head_loss(
        inverse_temperatures=(1.0,),
        values=(value,),
        key_query=key_query,
        dim=dim,
        contexts=contexts,
        rng=rng,
        **matrix_setting(dim),
    )
    return Estimate.of(found.samples / dim)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses of the limiting heads by size, the largest first."""
    found: dict[Any, Cell] = {}
    largest = SIZES[preset][-1]
    for dim in reversed(SIZES[preset]):
        settings = {(c, v): (c, c, v) for c, v in POINTS} | {"tested": (*TESTED, 0.0)}
        for key, (trained, ratio, noise) in settings.items():
            best = limit_head(trained, noise)
            found[key, dim] = Cell.of(
                head_loss,
                inverse_temperatures=(float(best.inverse_temperature) / dim**0.5,),
                values=(float(best.value) * dim**0.5,),
                context=round(dim / ratio),
                dim=dim,
                noise_variance=noise * round(dim / ratio),
                contexts=CONTEXTS[preset] * largest // dim,
            )
    for dim in reversed(MATRIX_SIZES[preset]):
        best_matrix = optimal_softmax_matrix(**matrix_setting(dim))
        more = (MATRIX_SIZES[preset][-1] / dim) ** 2
        found["matrix", dim] = Cell.of(
            matrix_loss,
            dim=dim,
            value=best_matrix.value,
            key_query=table(best_matrix.matrix),
            contexts=round(MATRIX_CONTEXTS[preset] * more),
        )
    best = long_context_softmax(dim=LONG_DIM, noise_variance=LONG_NOISE)
    for context in reversed(LENGTHS[preset]):
        found["long", context] = Cell.of(
            head_loss,
            inverse_temperatures=(float(best.inverse_temperature),),
            values=(float(best.value),),
            context=context,
            dim=LONG_DIM,
            noise_variance=LONG_NOISE,
            contexts=LONG_CONTEXTS[preset] * LENGTHS[preset][-1] // context,
        )
    return found


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare extrapolated losses with the limits."""
    comparisons, notes, fits = [], [], {}

    def add(key: Any, label: str, theory: float, of: str, runs: dict[int, Estimate]) -> None:
        fit = extrapolate_runs(list(runs), list(runs.values()))
        fits[key] = theory, runs, fit
        comparisons.extend(compare_limits({label: theory}, fit, of=[of], draws=key))
        comparisons.append(compare_p_value(f"fit of {label}", fit.p_value))
        notes.append(f"{label}: {fit.summary}.")

    for point in POINTS:
        ratio, noise = point
        runs = {d: Estimate.of(results[point, d].samples / d) for d in SIZES[preset]}
        label = f"loss / d, d/N={ratio:g}, noise/N={noise:g}, d=inf"
        add(point, label, float(limit_head(*point).loss), "optimal_softmax.loss", runs)
    head, runs = limit_head(TESTED[0], 0.0), {}
    runs = {d: Estimate.of(results["tested", d].samples / d) for d in SIZES[preset]}
    theory = softmax_loss(head.inverse_temperature, head.value, ratio=TESTED[1])
    label = f"loss / d, best head of d/N={TESTED[0]:g} at d/N={TESTED[1]:g}, d=inf"
    add("tested", label, float(theory), "softmax_loss", runs)
    runs = {d: results["matrix", d] for d in MATRIX_SIZES[preset]}
    size = MATRIX_SIZES[preset][0]
    theory = optimal_softmax_matrix(**matrix_setting(size)).loss / size
    add("matrix", "loss / d, two covariances, d=inf", theory, "optimal_softmax_matrix.loss", runs)
    if runs := {n: Estimate.of(n * results["long", n].samples) for n in LENGTHS[preset]}:
        theory = long_context_softmax(dim=LONG_DIM, noise_variance=LONG_NOISE).loss
        label = f"N times the loss, d={LONG_DIM}, N=inf"
        add("long", label, float(theory), "long_context_softmax.loss", runs)

    def draw(figure: Figure) -> None:
        curve, sizes, *long = panels(figure, 3 if LENGTHS[preset] else 2, width=11)
        grid = np.geomspace(0.1, 5, 60)
        curve.plot(1 / grid, optimal_softmax(ratio=grid).loss, label="one softmax head")
        curve.plot(1 / grid, grid / (1 + grid), "--", label="linear attention")
        curve.plot(math.e / grid, grid / (1 + grid), ":", color="0.4", label="e times the context")
        for ratio, noise in POINTS:
            if not noise:
                value = fits[ratio, noise][2].value[0]
                curve.plot(1 / ratio, value, "ko", markersize=4)
        curve.plot([], [], "ko", markersize=4, label="extrapolated")
        curve.set_xlim(0.2, 20)
        finish(curve, "$N/d$", "loss / d", log="x", legend="")
        names: dict[Any, str] = {
            point: "d/N={:g}, noise/N={:g}".format(*point) for point in POINTS
        }
        names |= {"tested": "other test length", "matrix": "two covariances"}
        for (key, name), colour in zip(names.items(), COLOURS, strict=False):
            theory, runs, fit = fits[key]
            draw_sizes(
                sizes, list(runs), list(runs.values()), colour, limit=theory, fit=fit, label=name
            )
        finish(sizes, "$1/d$", "loss / d", title="stars: limit")
        sizes.set_ylim(0.2, 1.25)
        sizes.legend(fontsize=7, ncols=2, loc="upper center")
        for ax in long:
            theory, runs, fit = fits["long"]
            draw_sizes(ax, list(runs), list(runs.values()), COLOURS[0], limit=theory, fit=fit)
            finish(ax, "$1/N$", "N times the loss", title=f"d = {LONG_DIM}")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("softmax-limit", __doc__, cells, judge)
