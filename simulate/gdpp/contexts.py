r"""Contexts whose noise level is drawn anew for every prompt, as far as predictors depend on them.

The setting of Vladymyrov, von Oswald, Sandler and Ge, "Linear Transformers are Versatile
In-Context Learners" (arXiv:2402.14180): inputs and tasks are standard normal, labels are
:math:`y = \langle w, x\rangle + \sigma\epsilon`, and :math:`\sigma` is fixed, uniform on
:math:`[0, \sigma_{\max}]` or one of a few levels.  The oracle is ridge regression that is told
:math:`\sigma^2`; it is the posterior mean of the task.

The adjusted loss of a predictor is half its squared error minus half that of the oracle.  For a
predictor :math:`\hat y = \langle\hat w, x\rangle` that depends on the context (X, y) only, it is

.. math:: \tfrac12\mathbb E\lVert\hat w - w_{\text{oracle}}\rVert^2,

because the query is standard normal and, given the context and :math:`\sigma`, the oracle's
weights are the mean of the task whatever :math:`\hat w` is.  This is exact and needs neither
queries nor tasks, and its sampling error vanishes with the loss itself.

The loss of L layers is a polynomial of degree :math:`2 \cdot 3^L` in the tokens, so one context in
a million can determine its mean.  To meet such contexts, they are drawn from a mixture: in a part
of it tasks and noise are larger, or the inputs are wider or narrower along one axis.  Importance
weights, at most 5/3, turn means over the mixture into means over the law itself.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from iclimit.problem import Problem, check_problem
from iclimit.simulate.arrays import Array, Backend, Generator, Seed
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.simulate.prompts.sampling import (
    draw_fresh_tasks,
    draw_inputs,
    draw_noise_levels,
    linear_labels,
)

# Contexts of one seed: part of what a seed means.
_BLOCK = 2**14

# Parts of the law that rare contexts are drawn from: share, scale of task and noise, and scale of
# the inputs along one axis.
MIXTURE = ((0.6, 1.0, 1.0), (0.1, 1.4, 1.0), (0.1, 1.7, 1.3), (0.1, 1.0, 1.6), (0.1, 1.0, 0.6))


@dataclass(frozen=True, eq=False)
class ContextSummaries:
    """Weighted contexts as far as linear attention and the oracle depend on them.

    Attributes
    ----------
    gram : array (n, dim + 1, dim + 1)
        Sums of the products of the context's tokens (x_i, y_i).
    oracle : array (n, dim)
        Weights of ridge regression with the true noise variance.
    levels : array (n,)
        Noise levels.
    weights : array (n,)
        Importance weights, of mean one.
    """

    gram: Array
    oracle: Array
    levels: Array
    weights: Array


def check_versatile(problem: Problem) -> None:
    """Check that inputs and tasks are standard normal, as in arXiv:2402.14180."""
    check_problem(problem, "noise_law", "noise_variance", "scale")
    if problem.input_scale != 1:
        raise ValueError(
            f"problem must have scale = 1 here, inputs of variance 1, got {problem.scale!r}"
        )


def draw_contexts(
    problem: Problem, backend: Backend, generator: Generator, count: int, *, rare: bool = False
) -> ContextSummaries:
    """Draw contexts, of the mixture if ``rare``; keep Gram matrices and oracle weights."""
    levels = draw_noise_levels(problem.level_law, backend, generator, count)
    tasks = draw_fresh_tasks(problem, backend, generator, count)
    x = draw_inputs(problem, backend, generator, (count, problem.context))
    noise = generator.standard_normal((count, problem.context))
    weights = backend.xp.ones_like(levels)
    if rare:
        weights = _tilt(backend, generator, x, tasks, noise)
    y = linear_labels(x, tasks) + levels[:, None] * noise
    oracle = ridge_weights(x, y, levels**2)
    return ContextSummaries(gram_matrices(x, y), oracle, levels, weights)


def _tilt(backend: Backend, generator: Generator, x: Array, tasks: Array, noise: Array) -> Array:
    """Scale standard normal draws in place to those of the mixture; return their weights."""
    xp = backend.xp
    count, context, dim = x.shape
    part = xp.asarray(generator.random(count))
    axis = xp.take(xp.eye(dim), xp.astype(generator.random(count) * dim, xp.int64), axis=0)
    first = 0.0
    for share, label_scale, axis_scale in MIXTURE:
        chosen = xp.astype((part >= first) & (part < first + share), x.dtype)[:, None]
        tasks *= 1 + (label_scale - 1) * chosen
        noise *= 1 + (label_scale - 1) * chosen
        x *= (1 + (axis_scale - 1) * chosen * axis)[:, None, :]
        first += share
    labels = xp.sum(tasks**2, axis=1) + xp.sum(noise**2, axis=1)
    lengths = xp.sum(x**2, axis=1)
    density = 0.0
    # Infinite for thousands of numbers; the weight is then 0.
    with np.errstate(over="ignore"):
        for share, label_scale, axis_scale in MIXTURE:
            by_labels = _log_ratio(labels, label_scale, dim + context)
            by_axis = _log_ratio(lengths, axis_scale, context)
            density = density + share * xp.mean(xp.exp(by_labels[:, None] + by_axis), axis=1)
    return 1 / density


def _log_ratio(squares: Array, scale: float, count: int) -> Array:
    """Density of N(0, scale^2) over N(0, 1) for so many numbers with this sum of squares, log."""
    return squares / 2 * (1 - scale**-2) - count * math.log(scale)


def context_blocks(
    problem: Problem, backend: Backend, count: int, rng: Seed, *, rare: bool
) -> Iterator[ContextSummaries]:
    """Fresh contexts in blocks."""
    for generator, size in backend.blocks(rng, count, _BLOCK):
        yield draw_contexts(problem, backend, generator, size, rare=rare)


def gram_matrices(x: Array, y: Array) -> Array:
    """Sums of the products of the context's tokens (x, y), shape (n, dim + 1, dim + 1)."""
    xp = array_namespace(x)
    tokens = xp.concat([x, y[:, :, None]], axis=2)
    return xp.matrix_transpose(tokens) @ tokens
