"""Attention layers with written-down weights against the algorithms they perform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.constructions import (
    copying_layer,
    descent_layer,
    one_hot_positions,
    separate_tokens,
    sinusoidal_positions,
    widen_layer,
)
from iclimit.simulate.descent.regression import Regression, regression_tokens
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.transformer import apply_layer, forward
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.learning_rates import VON_OSWALD
from iclimit.validation.drawing import COLOURS, log_scale

CONTEXT, DIM, PROMPTS, STEPS = 10, 6, 200, 4
RATES = (0.9, 0.5, 0.7, 0.3)
ROUNDING = 1e-12
"""Largest deviation allowed for, relative to the largest number compared."""
PAIRS = 5
SHARPNESS = tuple(float(s) for s in np.linspace(5, 80, 16))
SOFTMAX_FLOOR = 1e-10


def construction_errors(*, noise_variance: float, initial: bool, rng: Any) -> dict[str, float]:
    """Largest deviations of constructed layers from gradient descent, relative."""
    generator, place = np.random.default_rng(rng), get_backend("numpy")
    problem = Regression(CONTEXT, DIM, input_law="uniform", noise_variance=noise_variance)
    prompts = problem.sample(place, generator, PROMPTS)
    first = generator.standard_normal(DIM) if initial else None
    origin = np.zeros(DIM) if first is None else first
    tokens = regression_tokens(prompts, first)
    size: dict[str, Any] = {"context": CONTEXT, "dim": DIM, "initial": first}
    layers = [descent_layer(rate, **size) for rate in RATES]
    inputs, labels = tokens[:, :, :-1], tokens[:, :, -1]
    errors = {}
    for steps in (1, STEPS):
        weights = descend(prompts, RATES[:steps], initial=first)
        expected = labels - np.einsum("ntd,nd->nt", inputs, weights - origin)
        errors[f"every token after {steps} steps"] = _deviation(
            forward(tokens, layers[:steps])[:, :, -1], expected
        )
    mixing = generator.standard_normal((DIM, DIM))
    layer = descent_layer(0.5, **size, preconditioner=mixing)
    weights = descend(prompts, [0.5], initial=first, preconditioner=mixing)
    expected = labels - np.einsum("ntd,nd->nt", inputs, weights - origin)
    errors["a preconditioned step"] = _deviation(apply_layer(tokens, layer)[:, :, -1], expected)
    separate = separate_tokens(prompts, one_hot_positions(CONTEXT), first)
    copied = apply_layer(separate, copying_layer(one_hot_positions(CONTEXT), dim=DIM))
    widened = [widen_layer(layer, separate.shape[-1]) for layer in layers]
    errors["copying, then gradient descent"] = _deviation(
        forward(copied, widened)[:, ::2, : DIM + 1], forward(tokens, layers)
    )
    return errors


def softmax_copying(*, rng: Any) -> list[float]:
    """Relative error of softmax copying and a descent step, at each sharpness."""
    problem = Regression(CONTEXT, DIM, input_law="uniform")
    prompts = problem.sample(get_backend("numpy"), np.random.default_rng(rng), PROMPTS)
    positions = sinusoidal_positions(CONTEXT, PAIRS)
    layer = descent_layer(RATES[0], context=CONTEXT, dim=DIM)
    expected = apply_layer(regression_tokens(prompts), layer)
    separate = separate_tokens(prompts, positions)
    widened = widen_layer(layer, separate.shape[-1])
    errors = []
    for sharpness in SHARPNESS:
        copying = copying_layer(positions, dim=DIM, sharpness=sharpness)
        copied = apply_layer(separate, copying, softmax=True)
        found = apply_layer(copied, widened)[:, ::2, : DIM + 1]
        errors.append(_deviation(found, expected))
    return errors


def _deviation(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


EXACT = tuple(
    Cell.of(construction_errors, noise_variance=noise, initial=start)
    for noise in (0.0, 0.3)
    for start in (False, True)
)
SOFTMAX = Cell.of(softmax_copying)


def _cells(preset: Preset) -> list[Cell]:  # noqa: ARG001
    return [*EXACT, SOFTMAX]


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:  # noqa: ARG001
    comparisons = []
    for cell in EXACT:
        noise, start = (dict(cell.parameters)[key] for key in ("noise_variance", "initial"))
        where = f"noise {noise:g}, {'any' if start else 'zero'} initial weights"
        comparisons += [
            Comparison(f"{name}, {where}", 0.0, error, 0.0, ROUNDING)
            for name, error in results[cell].items()
        ]
    softmax = results[SOFTMAX]
    positions = sinusoidal_positions(CONTEXT, PAIRS)
    gap = 1 - float(np.sort(positions @ positions[0])[-2])
    straight = [k for k, error in enumerate(softmax) if SOFTMAX_FLOOR < error < 1e-3]
    slope = np.polyfit(np.array(SHARPNESS)[straight], np.log(np.array(softmax)[straight]), 1)[0]
    comparisons.append(
        Comparison(
            "softmax copying: decay per sharpness over the gap", -1.0, slope / gap, 0.0, 0.01
        )
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(5.2, 3.4)
        ax = figure.subplots()
        ax.plot(SHARPNESS, softmax, "o", color=COLOURS[0], label="softmax copying")
        line = softmax[straight[0]] * np.exp(-gap * (np.array(SHARPNESS) - SHARPNESS[straight[0]]))
        ax.plot(SHARPNESS, line, color=COLOURS[1], label=r"$\propto e^{-\beta g}$")
        ax.set(xlabel=r"sharpness $\beta$", ylabel="relative error", ylim=(1e-16, 10))
        log_scale(ax, "y")
        ax.legend()

    return Verdict(tuple(comparisons), draw)


constructions_claim = Claim(
    name="gd-constructions",
    title="Constructed attention layers perform gradient descent, on every token",
    source=f"{VON_OSWALD}, Propositions 1 and 2",
    statement=(
        "One layer is one gradient-descent step and four layers are four, to 1e-12, with and "
        "without noise, initial weights or a preconditioner; a copying layer before them builds "
        "their tokens, exactly when linear, up to an error that falls exponentially with the "
        "sharpness when softmax."
    ),
    cells=_cells,
    judge=_judge,
)
