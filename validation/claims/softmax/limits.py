"""In the limit one softmax head sees e times less context than linear attention.

The loss of the limiting best head over the dimension, simulated at several sizes, is extrapolated
in 1/d: it is e c/(1 + e c), c = d/N plus the noise over N.  On prompts of other lengths it is that
of theory.  With inputs and tasks of two covariances the best matrix of keys and queries has the
loss of theory.  In long contexts at fixed dimension the loss falls as the stated constant over N;
this is left out of the quick preset.

Source: derived in the theory pages.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import softmax
from iclimit.results import Estimate
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Later, Limit, Number, Rows, call, limit, run
from iclimit.validation.claims.softmax.runs import SIZES, head_loss, simulated_loss

# Prompts at the largest size; as many scores at the others.
CONTEXTS = {"tiny": 1_000, "quick": 4_000, "medium": 10_000, "full": 50_000}
# d/N and the noise variance over N.
POINTS = ((2.0, 0.0), (1.0, 0.0), (0.5, 0.0), (0.5, 0.25))
# d/N of a head that is the best one, and d/N of the prompts that it is tested on.
TESTED = (0.5, 0.25)
# Dimensions with two covariances.
MATRIX_SIZES = {"tiny": (4, 8, 16, 32), "quick": (12, 24, 48, 96), "medium": (16, 32, 64, 128)}
# Prompts at the largest size; as many numbers at the others.
MATRIX_CONTEXTS = {"quick": 1_000, "medium": 5_000, "full": 40_000}
# Noise variance over N.
MATRIX_NOISE = 0.3
# Dimension of long contexts.  Rare queries of large norm determine their losses: an extrapolation
# to 0.5 % takes minutes.
LONG_DIM = 8
# Lengths of long contexts.
LENGTHS: dict[str, tuple[int, ...]] = {"quick": (), "medium": (200, 400, 800, 1600, 3200)}
# Prompts of the longest context; as many scores in the others.
LONG_CONTEXTS = {"quick": 0, "medium": 10_000, "full": 50_000}
# Variance of the label noise in long contexts.
LONG_NOISE = 0.5

# Block of the covariance of the inputs.  Every size has the same eigenvalues.
INPUT_BLOCK = np.array([[1.7, 0.5, 0, 0], [0.5, 0.9, 0, 0], [0, 0, 0.4, 0.1], [0, 0, 0.1, 1.0]])
# Block of the covariance of the tasks, which does not commute with that of the inputs.
TASK_BLOCK = np.array([[0.3, 0, 0.2, 0], [0, 1.8, 0, 0], [0.2, 0, 1.1, 0.3], [0, 0, 0.3, 0.8]])


@cache
def limit_head(ratio: float, noise: float) -> softmax.SoftmaxHead:
    """Best head in the limit."""
    return softmax.optimal_softmax(ratio=ratio, noise_ratio=noise)


def matrix_setting(dim: int) -> dict[str, Any]:
    """Covariances, context and noise of a size, d/N = 1/2."""
    copies = np.eye(dim // 4)
    return {
        "input_covariance": np.kron(copies, INPUT_BLOCK),
        "task_covariance": np.kron(copies, TASK_BLOCK),
        "context": 2 * dim,
        "noise_variance": MATRIX_NOISE * 2 * dim,
    }


@named_cell("matrix_loss")
def matrix_loss(
    *, dim: int, contexts: int, rng: SeedSequence, value: float, key_query: np.ndarray
) -> Estimate:
    """Loss of a head with a matrix of keys and queries, over the dimension."""
    simulated = head_loss(
        inverse_temperatures=(1.0,),
        values=(value,),
        key_query=key_query,
        dim=dim,
        contexts=contexts,
        rng=rng,
        **matrix_setting(dim),
    )
    return Estimate.of(simulated.samples / dim)


def head_losses(
    effort: Effort, best_at: tuple[float, float], ratio: float, noise: float
) -> dict[int, Later]:
    """Losses over the dimension, by size, of the best head in the limit of another or this point.

    The points are d/N and the noise variance over N.
    """
    head = limit_head(*best_at)
    words = "best in the limit at d/N={:g}, noise/N={:g}".format(*best_at)
    sizes = effort.pick(**SIZES)
    losses = {
        dim: simulated_loss(
            float(head.inverse_temperature) / dim**0.5,
            float(head.value) * dim**0.5,
            head=words,
            context=round(dim / ratio),
            dim=dim,
            noise_variance=noise * round(dim / ratio),
            contexts=effort.pick(**CONTEXTS) * sizes[-1] // dim,
        )
        for dim in sizes
    }
    return {dim: loss.scaled(1 / dim) for dim, loss in losses.items()}


def extrapolated(label: str, theory: Number, of: str, runs: dict[int, Later]) -> Limit:
    """Limit of losses, with the goodness of the fit."""
    fit = f"fit of {label}"
    return limit({label: theory}, runs, of=[of], draws=label, fit_label=fit, name=label)


def matrix_limit(dim: int) -> float:
    """Loss of the best matrix over the dimension."""
    return softmax.optimal_softmax_matrix(**matrix_setting(dim)).loss / dim


def rows(effort: Effort) -> Rows:
    """Extrapolated losses against the limits."""
    for ratio, noise in POINTS:
        runs = head_losses(effort, (ratio, noise), ratio, noise)
        label = f"loss / d, d/N={ratio:g}, noise/N={noise:g}, d=inf"
        theory = call(limit_head, ratio, noise).loss
        yield extrapolated(label, theory, "optimal_softmax.loss", runs)
    trained, tested = TESTED
    head = limit_head(trained, 0.0)
    theory = call(softmax.softmax_loss, head.inverse_temperature, value=head.value, ratio=tested)
    label = f"loss / d, best head of d/N={trained:g} at d/N={tested:g}, d=inf"
    yield extrapolated(
        label, theory, "softmax_loss", head_losses(effort, (trained, 0.0), tested, 0.0)
    )
    sizes = effort.pick(**MATRIX_SIZES)
    runs = {}
    for dim in sizes:
        best = softmax.optimal_softmax_matrix(**matrix_setting(dim))
        runs[dim] = run(
            matrix_loss,
            dim=dim,
            value=Derived(best.value, "best"),
            key_query=Derived(best.matrix, "best"),
            contexts=round(effort.pick(**MATRIX_CONTEXTS) * (sizes[-1] / dim) ** 2),
        )
    label = "loss / d, two covariances, d=inf"
    of = "optimal_softmax_matrix.loss"
    yield extrapolated(label, call(matrix_limit, sizes[0]), of, runs)
    long = softmax.long_context_softmax(dim=LONG_DIM, noise_variance=LONG_NOISE)
    lengths = effort.pick(**LENGTHS)
    runs = {
        context: simulated_loss(
            long.inverse_temperature,
            long.value,
            head="best in long contexts",
            context=context,
            dim=LONG_DIM,
            noise_variance=LONG_NOISE,
            contexts=effort.pick(**LONG_CONTEXTS) * lengths[-1] // context,
        )
        for context in lengths
    }
    if runs:
        runs = {context: loss.scaled(context) for context, loss in runs.items()}
        label = f"N times the loss, d={LONG_DIM}, N=inf"
        of = "long_context_softmax.loss"
        yield extrapolated(label, float(long.loss), of, runs)


claim = Claim.of("softmax-limit", __doc__, rows, figure=False)
