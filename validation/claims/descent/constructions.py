"""Constructed attention layers perform gradient descent, on every token.

One layer is one gradient-descent step and four layers are four, to 1e-12, with and without
noise, initial weights or a preconditioner.  A copying layer before them builds their tokens:
exactly when it is linear, and with softmax up to an error that falls exponentially with the
sharpness.

Source: {vonoswald2023}, Propositions 1 and 3.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.constructions import (
    copying_layer,
    descent_layer,
    one_hot_positions,
    separate_tokens,
    sinusoidal_positions,
    widen_layer,
)
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.models.transformer import apply_layer, forward
from iclimit.simulate.prompts import draw_prompts, regression_tokens
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, run

# Pairs of a context.
CONTEXT = 10
# Dimension of the inputs.
DIM = 6
# Prompts on which constructions are compared with gradient descent.
PROMPTS = 200
# Layers of the deep construction.
STEPS = 4
# Learning rate of each layer.
RATES = (0.9, 0.5, 0.7, 0.3)
# Variances of the label noise.
NOISES = (0.0, 0.3)
# Words for whether descent starts from initial weights.
INITIAL = {False: "zero initial weights", True: "any initial weights"}
# Constructions that are compared with gradient descent.
CONSTRUCTIONS = (
    "every token after 1 steps",
    f"every token after {STEPS} steps",
    "a preconditioned step",
    "copying, then gradient descent",
)
# Largest deviation allowed for, relative to the largest number compared.
ROUNDING = 1e-12
# Harmonics of the sinusoidal positions.
PAIRS = 5
# Sharpness of the softmax of the copying layer.
SHARPNESS = tuple(float(s) for s in np.linspace(5, 80, 16))
# Errors between which the decay is exponential: it ends in rounding.
DECAY = (1e-10, 1e-3)


@named_cell("construction_errors")
def construction_errors(
    *, noise_variance: float, initial: bool, rng: SeedSequence
) -> dict[str, float]:
    """Largest deviations of constructed layers from gradient descent, relative."""
    generator = np.random.default_rng(rng)
    problem = Problem(
        dim=DIM, context=CONTEXT, input_law="uniform", noise_variance=noise_variance, scale=1
    )
    prompts = draw_prompts(problem, get_backend("numpy"), generator, PROMPTS)
    first = generator.standard_normal(DIM) if initial else None
    tokens = regression_tokens(prompts, first)
    size: dict[str, Any] = {"context": CONTEXT, "dim": DIM, "initial": first}
    layers = [descent_layer(rate, **size) for rate in RATES]

    def descended(rates: tuple[float, ...], **more: Any) -> np.ndarray:
        """Labels of all tokens after gradient descent."""
        change = descend(prompts, rates, initial=first, **more) - (0 if first is None else first)
        return tokens[:, :, -1] - np.einsum("ntd,nd->nt", tokens[:, :, :-1], change)

    errors = {}
    for steps in (1, STEPS):
        labels = forward(tokens, layers[:steps])[:, :, -1]
        errors[f"every token after {steps} steps"] = deviation(labels, descended(RATES[:steps]))
    mixing = generator.standard_normal((DIM, DIM))
    layer = descent_layer(0.5, **size, preconditioner=mixing)
    labels = apply_layer(tokens, layer)[:, :, -1]
    errors["a preconditioned step"] = deviation(labels, descended((0.5,), preconditioner=mixing))
    positions = one_hot_positions(CONTEXT)
    separate = separate_tokens(prompts, positions, first)
    copied = apply_layer(separate, copying_layer(positions, dim=DIM))
    labels = forward(copied, [widen_layer(layer, separate.shape[-1]) for layer in layers])
    errors["copying, then gradient descent"] = deviation(
        labels[:, ::2, : DIM + 1], forward(tokens, layers)
    )
    return errors


@named_cell("softmax_copying")
def softmax_copying(*, rng: SeedSequence) -> list[float]:
    """Relative error of softmax copying and a descent step, at each sharpness."""
    problem = Problem(dim=DIM, context=CONTEXT, input_law="uniform", scale=1)
    prompts = draw_prompts(problem, get_backend("numpy"), np.random.default_rng(rng), PROMPTS)
    positions = sinusoidal_positions(CONTEXT, PAIRS)
    layer = descent_layer(RATES[0], context=CONTEXT, dim=DIM)
    expected = apply_layer(regression_tokens(prompts), layer)
    separate = separate_tokens(prompts, positions)
    errors = []
    for sharpness in SHARPNESS:
        copying = copying_layer(positions, dim=DIM, sharpness=sharpness)
        copied = apply_layer(separate, copying, softmax=True)
        stepped = apply_layer(copied, widen_layer(layer, separate.shape[-1]))
        errors.append(deviation(stepped[:, ::2, : DIM + 1], expected))
    return errors


def deviation(tokens: np.ndarray, expected: np.ndarray) -> float:
    """Largest deviation over the largest number."""
    return float(np.max(np.abs(tokens - expected)) / np.max(np.abs(expected)))


def decay(errors: Sequence[float]) -> float:
    """Decay of softmax copying per sharpness, over the gap between positions."""
    sizes = np.array(errors)
    sharpness = np.array(SHARPNESS)
    positions = sinusoidal_positions(CONTEXT, PAIRS)
    gap = 1 - float(np.sort(positions @ positions[0])[-2])
    straight = (sizes > DECAY[0]) & (sizes < DECAY[1])
    return np.polyfit(sharpness[straight], np.log(sizes[straight]), 1)[0] / gap


def rows(_: Effort) -> Rows:
    """Deviations against 0, and the decay of softmax copying against the gap of positions."""
    for noise, initial in product(NOISES, INITIAL):
        errors = run(construction_errors, noise_variance=noise, initial=initial)
        for name in CONSTRUCTIONS:
            label = f"{name}, noise {noise:g}, {INITIAL[initial]}"
            yield exact(label, 0.0, errors[name], allowance=ROUNDING)
    label = "softmax copying: decay per sharpness over the gap"
    slope = run(softmax_copying)
    yield exact(label, -1.0, call(decay, slope), allowance=0.01)


claim = Claim.of("gd-constructions", __doc__, rows, figure=False)
