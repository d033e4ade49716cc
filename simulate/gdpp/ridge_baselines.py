r"""Ridge regression with an estimated noise variance: the baselines of random noise levels.

The oracle is ridge regression that is told :math:`\sigma^2`.  The baselines
of Vladymyrov, von Oswald, Sandler and Ge (arXiv:2402.14180, section 6) take another penalty:

* ConstRR, one number for all prompts: :math:`E \sigma^2` or a tuned one;
* AdaRR, the estimate :math:`\hat\sigma^2` from the residuals of least squares, RSS/(N - d);
* TunedRR, :math:`\min(m \hat\sigma^2, \tau)` with m and :math:`\tau` tuned.

With the eigenvalues e of :math:`X^\top X` and the coordinates z of :math:`X^\top y` in its
eigenbasis, the adjusted loss of ridge regression given the context is

.. math:: \tfrac12 \lVert\hat w - w_{\text{oracle}}\rVert^2 = \tfrac12 \sum_i
   \Bigl[\frac{(\sigma^2 - \lambda)\, z_i}{(e_i + \lambda)(e_i + \sigma^2)}\Bigr]^2 .

This takes one decomposition for all :math:`\lambda`, and no difference of nearby numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace
from tqdm.auto import tqdm

from iclimit.checks import check_arguments, check_choice, given
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Seed, get_backend, to_host
from iclimit.simulate.gdpp.contexts import check_versatile
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.simulate.prompts import Prompts, draw_prompts

# Prompts of one seed: part of what a seed means.
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class SpectralContexts:
    """Contexts in the eigenbases of X^T X.

    Attributes
    ----------
    eigenvalues, coordinates : array (n, d)
        Eigenvalues, and coordinates of X^T y.
    variance, rss : array (n,)
        Noise variance, and residual sum of squares of least squares.
    """

    eigenvalues: Array
    coordinates: Array
    variance: Array
    rss: Array

    @classmethod
    def of(cls, drawn: Prompts) -> SpectralContexts:
        """Decompose the contexts of prompts."""
        x = drawn.inputs
        y = drawn.labels[:, :, None]
        xp = array_namespace(x)
        transposed = xp.matrix_transpose(x)
        eigenvalues, basis = xp.linalg.eigh(transposed @ x)
        coordinates = xp.matrix_transpose(basis) @ (transposed @ y)
        residuals = y - x @ (basis @ (coordinates / eigenvalues[:, :, None]))
        rss = xp.sum(residuals[:, :, 0] ** 2, axis=1)
        return cls(eigenvalues, coordinates[:, :, 0], drawn.noise_variance, rss)

    def adjusted_loss(self, penalty: Array) -> Array:
        """Adjusted losses of ridge regression with one penalty for each context."""
        xp = array_namespace(self.rss)
        e = self.eigenvalues
        variance = self.variance[:, None]
        penalty = penalty[:, None]
        difference = (variance - penalty) / (e + variance) * self.coordinates / (e + penalty)
        return xp.sum(difference**2, axis=1) / 2

    def oracle_loss(self) -> Array:
        """Half the oracle's squared error, averaged over query and task given the context."""
        xp = array_namespace(self.rss)
        variance = self.variance[:, None]
        return xp.sum(variance / (self.eigenvalues + variance), axis=1) / 2


def noise_denominator(problem: Problem, noise_estimate: str) -> int:
    """Denominator of an estimate of the noise variance from the residual sum of squares.

    "unbiased": N - d; "biased", of maximum likelihood: N; "least-error", of least mean squared
    error: N - d + 2.

    Raises
    ------
    TypeError, ValueError
        If the noise of the problem cannot be estimated so.
    """
    check_versatile(problem)
    if problem.context <= problem.dim:
        raise ValueError(
            f"problem must have context > dim, got {problem.context} and {problem.dim}"
        )
    context = problem.context
    residual = problem.context - problem.dim
    known = {"unbiased": residual, "biased": context, "least-error": residual + 2}
    check_choice("noise_estimate", noise_estimate, tuple(known))
    return known[noise_estimate]


def _drawn(problem: Problem, backend: str, rng: Seed, count: int) -> Iterator[Prompts]:
    """Prompts in blocks, with noise levels drawn also where there is one only."""
    law = replace(problem, noise_variance=0.0, noise_law=problem.level_law)
    device = get_backend(backend)
    for generator, size in device.blocks(rng, count, _BLOCK):
        yield draw_prompts(law, device, generator, size)


@dataclass(frozen=True, repr=False)
class SimulatedBaselines(Result):
    """Losses of ridge regression on simulated prompts.

    Attributes
    ----------
    losses : dict of str to Estimate
        Adjusted losses "ConstRR", "AdaRR" and, if asked for, "TunedRR"; "oracle" is the oracle's
        half squared error on a noiseless query.  Each is a mean over the prompts.
    parameters : dict
        What was simulated.
    """

    losses: dict[str, Estimate]
    parameters: dict[str, Any] = field(repr=False)


def simulate_ridge_baselines(
    problem: Problem,
    *,
    contexts: int,
    rng: Seed,
    penalty: float | None = None,
    multiplier: float | None = None,
    threshold: float | None = None,
    noise_estimate: str = "unbiased",
    queries: bool = False,
    backend: str = "numpy",
    progress: bool = False,
) -> SimulatedBaselines:
    r"""Adjusted losses of ConstRR, AdaRR and TunedRR on fresh prompts.

    Parameters
    ----------
    problem : Problem
        Law of the prompts, with standard normal inputs and tasks, and context > dim.
    contexts : int >= 1
        Number of prompts.  Of each prompt only the losses are kept in memory.
    rng : int, SeedSequence or Generator
        Root seed.
    penalty : float >= 0, optional
        :math:`\lambda` of ConstRR; the mean noise variance by default.
    multiplier, threshold : float >= 0, optional
        m and :math:`\tau` of TunedRR; `iclimit.gdpp.ridge_baselines` has the best ones of a law.
        Without either TunedRR is left out; if only one is given, the multiplier is 1 or there is
        no threshold.
    noise_estimate : {"unbiased", "biased", "least-error"}
        Estimate of the noise variance, RSS over N - d, N or N - d + 2.
    queries : bool
        Whether to draw noiseless queries and to subtract the oracle's half squared error from the
        predictor's, as the adjusted loss is defined.  By default the average of this given the
        context is taken, whose variance is far smaller.
    backend : {"numpy", "cupy"}
        Where to compute.
    progress : bool
        Show a progress bar.

    Returns
    -------
    SimulatedBaselines

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If problem is no Problem.
    RuntimeError
        If the backend is not available.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, section 6 and Table 1.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.gdpp import simulate_ridge_baselines
    >>> problem = iclimit.Problem(dim=10, context=20, scale=1, noise_law="categorical:1,3")
    >>> run = simulate_ridge_baselines(problem, contexts=20_000, rng=0)
    >>> {name: round(run.losses[name].mean, 2) for name in ("ConstRR", "AdaRR")}
    {'ConstRR': 0.22, 'AdaRR': 0.05}
    """
    denominator = noise_denominator(problem, noise_estimate)
    constant = problem.mean_noise_variance if penalty is None else penalty
    tuned = {"penalty": constant, "multiplier": multiplier, "threshold": threshold}
    check_arguments(contexts=contexts, **given(tuned))

    def losses(drawn: Prompts) -> dict[str, Array]:
        rss, oracle, adjusted = (_query_losses if queries else _context_losses)(drawn)
        xp = array_namespace(rss)
        estimated = rss / denominator
        penalties = {"ConstRR": xp.full_like(rss, constant), "AdaRR": estimated}
        if multiplier is not None or threshold is not None:
            scaled = estimated if multiplier is None else multiplier * estimated
            penalties["TunedRR"] = xp.clip(scaled, None, threshold)
        return {"oracle": oracle} | {
            name: adjusted(penalty) for name, penalty in penalties.items()
        }

    parts: dict[str, list[np.ndarray]] = {}
    with tqdm(total=contexts, disable=not progress, unit="prompt", desc="ridge") as bar:
        for drawn in _drawn(problem, backend, rng, contexts):
            for name, values in losses(drawn).items():
                parts.setdefault(name, []).append(to_host(values))
            bar.update(len(drawn))
    law = {"noise_law": str(problem.level_law), "context": problem.context, "dim": problem.dim}
    options = {"noise_estimate": noise_estimate, "queries": queries, "backend": backend}
    estimates = {
        name: Estimate.of(np.concat(blocks), keep=False) for name, blocks in parts.items()
    }
    return SimulatedBaselines(estimates, {**law, **tuned, **options})


# Residual sums of squares, losses of the oracle, and adjusted losses at given penalties.
Losses: TypeAlias = tuple[Array, Array, Callable[[Array], Array]]


def _context_losses(drawn: Prompts) -> Losses:
    context = SpectralContexts.of(drawn)
    return context.rss, context.oracle_loss(), context.adjusted_loss


def _query_losses(drawn: Prompts) -> Losses:
    x = drawn.inputs
    y = drawn.labels
    xp = array_namespace(x)

    def loss(penalty: Array) -> Array:
        error = ridge_weights(x, y, penalty) - drawn.tasks
        return xp.vecdot(error, drawn.query) ** 2 / 2

    least_squares = ridge_weights(x, y, xp.zeros_like(drawn.noise_variance))
    rss = xp.sum((y - (x @ least_squares[:, :, None])[:, :, 0]) ** 2, axis=1)
    oracle = loss(drawn.noise_variance)
    return rss, oracle, lambda penalty: loss(penalty) - oracle
