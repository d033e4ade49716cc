r"""Losses of learning-rate schedules and critical dampening on simulated contexts.

Gradient descent from :math:`w_0 = 0` with the rates :math:`\eta_1, \dots, \eta_L` has the error
:math:`w - w_L = P(H) w - Q(H) X^\top \epsilon/N` with :math:`H = X^\top X/N`,
:math:`P(s) = \prod_l (1 - \eta_l s)` and :math:`Q = (1 - P)/s`.  Let the tasks have independent
coordinates of variance :math:`a^2` and the label noise the variance :math:`\sigma^2`.  Given the
inputs, the mean square of the error over :math:`a^2 d` is then known exactly,

.. math:: \frac1d \sum_{i=1}^d \bigl[P(s_i)^2 + v s_i Q(s_i)^2\bigr],
   \qquad v = \frac{\sigma^2}{a^2 N},

in the eigenvalues :math:`s_i` of H: tasks, labels and queries need no sampling.  The loss on a
query is :math:`\sigma^2 + a^2 d\, m_2` times this, with :math:`m_2` the variance of an input
coordinate.

*Critical dampening.*  The update of a recurrent layer times a factor :math:`\lambda` diverges on a
context if :math:`\lambda\eta s_{\max} > 2`.  The worst of T test tasks decides, so the critical
factor is an extreme value.  Its quantiles come from the tail of many simulated eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike
from scipy.special import logit

from iclimit.checks import by_name, check_arguments, check_choice, check_positive, parse_array
from iclimit.problem import COORDINATE_VARIANCE
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Seed, get_backend, to_host
from iclimit.simulate.prompts.sampling import draw_coordinates
from iclimit.statement import named_cell

# Input numbers drawn from one seed (2 MiB).  Runs of any length agree where they overlap, because
# this number is part of what a seed means.
BLOCK_NUMBERS = 2**18

# Fewest simulated eigenvalues on either side of a quantile.
FEWEST = 5

# The local slope at a quantile is taken over this many standard errors on either side.  Over only
# one, neighbours that lie close by chance make the error bar too small.  Measured with 10
# eigenvalues beyond the quantile: with one standard error 1 % of the deviations were larger than 4
# standard errors and some larger than 10; with three, 0.1 % are larger than 4.
WINDOW = 3


@dataclass(frozen=True, repr=False)
class ContextLosses(Result):
    """Losses of one or several schedules on simulated contexts.

    Attributes
    ----------
    losses : tuple of Estimate
        Mean loss of each schedule over the contexts.  The samples are the exact losses given each
        context, ``inf`` beyond the largest float.
    parameters : dict
        What was simulated.
    """

    losses: tuple[Estimate, ...]
    parameters: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, samples: np.ndarray, parameters: dict[str, Any]) -> ContextLosses:
        """Losses (contexts, m) of m schedules on the same contexts."""
        return cls(tuple(map(Estimate.of, samples.T)), parameters)

    @property
    def loss(self) -> Estimate:
        """Mean loss of the only schedule, or of the first one."""
        return self.losses[0]

    @property
    def median(self) -> Estimate:
        """Median loss of that schedule, with the standard error of Maritz and Jarrett.

        It is what a typical context has where rare ones carry the mean.
        """
        return Estimate.of_median(self.loss.samples)

    @property
    def medians(self) -> np.ndarray:
        """Median losses.  Rare contexts on which the rates diverge do not affect them."""
        return np.array([np.median(loss.samples) for loss in self.losses])


@named_cell("simulate_schedule")
def simulate_schedule(
    rates: ArrayLike,
    *,
    context: int,
    dim: int,
    input_law: str = "gaussian",
    scale: float = 1.0,
    noise_ratio: float = 0.0,
    rng: Seed,
    contexts: int = 1000,
    backend: str = "numpy",
) -> ContextLosses:
    r"""Losses of gradient descent with given rates on simulated contexts.

    Parameters
    ----------
    rates : array (L,) or (m, L)
        Learning rates of one schedule, or of m schedules that are run on the same contexts.
    context, dim : int >= 1
        Number N of pairs and dimension d of the inputs.
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the input coordinates, as in `iclimit.Problem`.
    scale : float > 0
        Factor of the inputs.
    noise_ratio : float >= 0
        Variance of the label noise over N times that of the tasks, :math:`v`.  Inputs of variance
        :math:`m_2` behave like inputs of variance 1 with :math:`m_2` times the rates and v over
        :math:`m_2`.
    rng : int, SeedSequence or Generator
        Root seed.  Context r depends on (root, r) and the size of a context only.
    contexts : int >= 1
        Number of contexts.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    ContextLosses
        Mean squared error of the weights over its value at zero weights.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.simulate.descent import simulate_schedule
    >>> run = simulate_schedule([[20 / 31], [0.5]], context=20, dim=10, rng=0, contexts=4000)
    >>> len(run.losses), abs(run.loss.z(11 / 31)) < 4
    (2, True)
    """
    check_arguments(noise_ratio=noise_ratio)
    schedules = parse_array("rates", rates, (None, None) if np.ndim(rates) > 1 else (None,))
    blocks = _eigenvalue_blocks(context, dim, input_law, scale, contexts, rng, backend)
    rows = np.reshape(schedules, (-1, schedules.shape[-1])).tolist()
    losses = [
        np.stack([to_host(_loss(values, row, dim, noise_ratio)) for row in rows], axis=1)
        for values in blocks
    ]
    parameters = by_name(
        rates=rates,
        context=context,
        dim=dim,
        input_law=input_law,
        scale=scale,
        noise_ratio=noise_ratio,
        backend=backend,
    )
    return ContextLosses.of(np.concat(losses), parameters)


def _loss(eigenvalues: Array, rates: list[float], dim: int, noise: float) -> Array:
    """Conditional losses of contexts given the eigenvalues (n, k) of H that can be non-zero."""
    xp = array_namespace(eigenvalues)
    P = xp.ones_like(eigenvalues)
    Q = xp.zeros_like(eigenvalues)
    with np.errstate(over="ignore", invalid="ignore"):
        for rate in rates:
            Q = Q + rate * P
            P = P * (1 - rate * eigenvalues)
        total = xp.sum(P**2 + noise * eigenvalues * Q**2, axis=1)
    zero = dim - eigenvalues.shape[1]  # P = 1 there
    # Only overflow gives NaN, as inf - inf.
    return xp.where(xp.isnan(total), xp.inf, (zero + total) / dim)


@named_cell("largest_eigenvalues")
def largest_eigenvalues(
    context: int,
    dim: int,
    input_law: str = "gaussian",
    scale: float = 1.0,
    *,
    contexts: int,
    rng: Seed,
    backend: str = "numpy",
) -> np.ndarray:
    """Largest eigenvalues of X^T X/N for many contexts.

    Gradient descent with a constant rate diverges on a context once the rate exceeds two over
    this eigenvalue.

    Parameters
    ----------
    context, dim, input_law, scale, rng, backend
        As in `simulate_schedule`; the same root gives the same contexts.
    contexts : int >= 1
        Number of contexts.  Memory does not grow with it, except for the result.

    Returns
    -------
    ndarray (count,)

    Raises
    ------
    ValueError
        If an argument is outside its range.
    RuntimeError
        If the backend is not available.
    """
    blocks = _eigenvalue_blocks(context, dim, input_law, scale, contexts, rng, backend)
    return np.concat([to_host(values[:, -1]) for values in blocks])


def _eigenvalue_blocks(
    context: int, dim: int, input_law: str, scale: float, contexts: int, rng: Seed, backend: str
) -> Iterator[Array]:
    """Ascending eigenvalues (block, min(context, dim)) of H, those that can be non-zero."""
    check_arguments(scale=scale)
    for z in context_blocks(context, dim, input_law, contexts, rng, backend):
        xp = array_namespace(z)
        transposed = xp.matrix_transpose(z)
        gram = transposed @ z if dim <= context else z @ transposed
        yield scale**2 / context * xp.linalg.eigvalsh(gram)


def context_blocks(
    context: int, dim: int, input_law: str, contexts: int, rng: Seed, backend: str
) -> Iterator[Array]:
    """Coordinates (block, context, dim) of contexts, one block for each seed."""
    check_arguments(context=context, dim=dim, contexts=contexts)
    check_choice("input_law", input_law, tuple(COORDINATE_VARIANCE))
    device = get_backend(backend)
    block = max(1, BLOCK_NUMBERS // (context * dim))
    for generator, size in device.blocks(rng, contexts, block):
        yield draw_coordinates(device, generator, (block, context, dim), input_law)[:size, :, :]


@dataclass(frozen=True, repr=False)
class CriticalDampening(Result):
    """Quantiles of the critical dampening factor.

    Attributes
    ----------
    quantiles : tuple of Estimate
        One for each probability; ``repeats`` is the number of simulated contexts.
    """

    quantiles: tuple[Estimate, ...]


@named_cell("simulate_critical_dampening")
def simulate_critical_dampening(
    probability: Any,
    *,
    rate: float,
    context: int,
    dim: int,
    test_tasks: int,
    input_law: str = "gaussian",
    scale: float = 1.0,
    contexts: int = 200_000,
    rng: Seed,
    backend: str = "numpy",
) -> CriticalDampening:
    """Simulate quantiles of the factor beyond which a recurrent layer diverges on some task.

    Parameters
    ----------
    probability : number in (0, 1) or array (m,) of them
        Probabilities; 0.5 for the median.
    rate : float > 0
        Learning rate of the layer, mean over the context.
    context, dim, input_law, scale, rng, backend
        As in `simulate_schedule`.
    test_tasks : int >= 1
        Number T of test tasks whose worst decides.
    contexts : int
        Simulated contexts; at least 5 must be expected on either side of every quantile.

    Returns
    -------
    CriticalDampening

    Raises
    ------
    ValueError
        If an argument is outside its range, or the contexts are too few.

    Examples
    --------
    >>> from iclimit.simulate.descent import simulate_critical_dampening
    >>> simulated = simulate_critical_dampening(
    ...     [0.5], rate=10 / 21, context=10, dim=10, test_tasks=100, contexts=20_000, rng=0
    ... )
    >>> print(simulated.quantiles[0])
    0.8337(51)
    """
    check_arguments(test_tasks=test_tasks, contexts=contexts)
    check_positive("rate", rate)
    points = parse_array("probability", np.atleast_1d(probability), (None,))
    if not np.all((points > 0) & (points < 1)):
        raise ValueError(f"probability must be > 0 and < 1, got {probability!r}")
    beyond = -np.expm1(np.log1p(-points) / test_tasks) * contexts
    fewest = float(np.min(np.minimum(beyond, contexts - beyond)))
    if fewest < FEWEST:
        needed = math.ceil(contexts * FEWEST / fewest) if fewest * 1e15 > contexts else math.inf
        raise ValueError(f"contexts must be >= {needed} for these quantiles, got {contexts}")
    where: dict[str, Any] = {"contexts": contexts, "rng": rng, "backend": backend}
    top = np.sort(largest_eigenvalues(context, dim, input_law, scale, **where))[::-1]
    logits = logit((np.arange(1, contexts + 1) - 0.5) / contexts)

    def factor(at: np.ndarray) -> np.ndarray:
        return 2 / (rate * np.exp(np.interp(at, logits, np.log(top))))

    # The number of eigenvalues beyond a point is binomial: this is its standard error as a logit.
    spread = 1 / np.sqrt(beyond * (1 - beyond / contexts))
    at = logit(beyond / contexts)
    lower = np.clip(at - WINDOW * spread, logits[0], logits[-1])
    upper = np.clip(at + WINDOW * spread, logits[0], logits[-1])
    slope = (factor(upper) - factor(lower)) / (upper - lower)
    pairs = zip(factor(at).tolist(), (slope * spread).tolist(), strict=True)
    return CriticalDampening(tuple(Estimate(*pair, contexts) for pair in pairs))
