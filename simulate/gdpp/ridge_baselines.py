r"""Ridge regression with an estimated noise variance: the baselines of random noise levels.

The oracle of `NoisyRegression` is ridge regression that is told :math:`\sigma^2`.  The baselines
of Vladymyrov, von Oswald, Sandler and Ge (arXiv:2402.14180, section 6) take another penalty:

* ConstRR, one number for all prompts: :math:`E \sigma^2` or a tuned one;
* AdaRR, the estimate :math:`\hat\sigma^2` from the residuals of least squares, RSS/(N - d);
* TunedRR, :math:`\min(m \hat\sigma^2, \tau)` with m and :math:`\tau` tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from tqdm import tqdm

from iclimit.results import Estimate
from iclimit.simulate.arrays import Array, get_backend, to_host
from iclimit.simulate.checks import check_arguments, check_choice, given
from iclimit.simulate.gdpp.noisy_regression import NoisyPrompts, NoisyRegression, ridge_weights
from iclimit.simulate.gdpp.ridge_contexts import (
    SpectralContexts,
    check_problem,
    draw_prompts,
    noise_denominators,
)

Penalties = Callable[[Array], dict[str, Array]]


@dataclass(frozen=True)
class SimulatedBaselines:
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
    problem: NoisyRegression,
    *,
    contexts: int,
    rng: Any,
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
    problem : NoisyRegression
        Law of the prompts, with context > dim.
    contexts : int >= 1
        Number of prompts.  Of each prompt only the losses are kept in memory.
    rng : int, SeedSequence or Generator
        Root seed.
    penalty : float >= 0, optional
        :math:`\lambda` of ConstRR; the mean noise variance by default.
    multiplier, threshold : float >= 0, optional
        m and :math:`\tau` of TunedRR.  Without either TunedRR is left out; if only one is given,
        the multiplier is 1 or there is no threshold.
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
        If problem is not a NoisyRegression.
    RuntimeError
        If the backend is not available.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, section 6 and Table 1.

    Examples
    --------
    >>> from iclimit.simulate.gdpp import NoisyRegression, simulate_ridge_baselines
    >>> problem = NoisyRegression("categorical:1,3")
    >>> run = simulate_ridge_baselines(problem, contexts=20_000, rng=0)
    >>> {name: round(run.losses[name].mean, 2) for name in ("ConstRR", "AdaRR")}
    {'ConstRR': 0.22, 'AdaRR': 0.05}
    """
    check_problem(problem)
    check_arguments(
        contexts=contexts, **given(penalty=penalty, multiplier=multiplier, threshold=threshold)
    )
    denominators = noise_denominators(problem)
    check_choice("noise_estimate", noise_estimate, tuple(denominators))
    constant = problem.noise_law.mean_variance if penalty is None else penalty

    def penalties(rss: Array) -> dict[str, Array]:
        xp = array_namespace(rss)
        estimated = rss / denominators[noise_estimate]
        found = {"ConstRR": xp.full_like(rss, constant), "AdaRR": estimated}
        if multiplier is not None or threshold is not None:
            scaled = estimated if multiplier is None else multiplier * estimated
            found["TunedRR"] = xp.clip(scaled, None, math.inf if threshold is None else threshold)
        return found

    losses = _query_losses if queries else _context_losses
    parts: dict[str, list[np.ndarray]] = {}
    with tqdm(total=contexts, disable=not progress, unit="prompt", desc="ridge") as bar:
        for drawn in draw_prompts(problem, contexts, rng, get_backend(backend)):
            for name, values in losses(drawn, penalties).items():
                parts.setdefault(name, []).append(to_host(values))
            bar.update(drawn.levels.shape[0])
    parameters = {
        "noise_law": str(problem.noise_law),
        "context": problem.context,
        "dim": problem.dim,
        "penalty": constant,
        "multiplier": multiplier,
        "threshold": threshold,
        "noise_estimate": noise_estimate,
        "queries": queries,
        "backend": backend,
    }
    estimates = {name: Estimate.of(np.concat(each), keep=False) for name, each in parts.items()}
    return SimulatedBaselines(estimates, parameters)


def _context_losses(drawn: NoisyPrompts, penalties: Penalties) -> dict[str, Array]:
    context = SpectralContexts.of(drawn)
    adjusted = {
        name: context.adjusted_loss(penalty) for name, penalty in penalties(context.rss).items()
    }
    return {"oracle": context.oracle_loss(), **adjusted}


def _query_losses(drawn: NoisyPrompts, penalties: Penalties) -> dict[str, Array]:
    x, y = drawn.prompts.x, drawn.prompts.y
    xp = array_namespace(x)

    def loss(penalty: Array) -> Array:
        error = ridge_weights(x, y, penalty) - drawn.tasks
        return xp.vecdot(error, drawn.prompts.x_query) ** 2 / 2

    least_squares = ridge_weights(x, y, xp.zeros_like(drawn.levels))
    rss = xp.sum((y - (x @ least_squares[:, :, None])[:, :, 0]) ** 2, axis=1)
    oracle = loss(drawn.levels**2)
    adjusted = {name: loss(penalty) - oracle for name, penalty in penalties(rss).items()}
    return {"oracle": oracle, **adjusted}
