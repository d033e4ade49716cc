"""Held-out losses of a trained layer and of a constructed one on the same prompts."""

from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.regression import Regression, regression_tokens
from iclimit.simulate.transformer import Layer, prediction
from iclimit.validation import Comparison, Preset, compare

DIM = 10
BLOCK = 4_000
HELD_OUT: dict[Preset, int] = {"quick": 40_000, "full": 1_000_000}
LOSS_ALLOWANCE = 0.01
"""Relative; training ends 0.1 to 0.5 % above the optimum (measured)."""


def seeds(rng: Any) -> tuple[Any, np.random.Generator]:
    """Seeds of training and of testing."""
    first, second = rng.spawn(2)
    return first, np.random.default_rng(second)


def paired_losses(
    problem: Regression, layer: Layer, step: Layer, count: int, generator: np.random.Generator
) -> tuple[Estimate, Estimate]:
    """Loss of a layer minus that of a step on the same fresh prompts, and the step's loss."""
    parts = []
    for _ in range(count // BLOCK):
        prompts = problem.sample(get_backend("numpy"), generator, BLOCK)
        tokens = regression_tokens(prompts)
        errors = [prediction(tokens, [each]) - prompts.y_query for each in (layer, step)]
        parts.append(np.square(errors))
    losses = np.concatenate(parts, axis=1)
    return Estimate.of(losses[0] - losses[1], keep=False), Estimate.of(losses[1], keep=False)


def held_out_loss(best: float, excess: Estimate) -> Estimate:
    """Loss of a trained layer: that of the step in theory plus the simulated excess.

    The excess over the constructed step on the same prompts is known much better than the loss.
    """
    return Estimate(best + excess.mean, excess.standard_error, excess.repeats)


def compare_held_out(label: str, best: float, excess: Estimate, relative: float) -> Comparison:
    """Compare a trained layer's loss with the least one."""
    return compare(label, best, held_out_loss(best, excess), relative=relative)
