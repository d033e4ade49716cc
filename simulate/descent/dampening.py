r"""Critical dampening of a recurrent gradient-descent layer, from simulated contexts.

The layer's update times a factor :math:`\lambda` diverges on a context if
:math:`\lambda\eta s_{\max} > 2`, with the largest eigenvalue of :math:`X^\top X/N`.  The worst of
T test tasks decides, so the critical factor is an extreme value.  Its quantiles come from the tail
of many simulated eigenvalues.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from iclimit.results import Estimate
from iclimit.simulate.checks import check_arguments, check_positive, parse_array
from iclimit.simulate.descent.schedules import largest_eigenvalues

FEWEST = 5
"""Fewest simulated eigenvalues on either side of a quantile."""

WINDOW = 3
"""Standard errors on either side of a quantile over which its local slope is taken.  Over only
one, neighbours that lie close by chance make the error bar too small.  Measured with 10
eigenvalues beyond the quantile: over one, 1 % of the deviations exceeded 4 standard errors, some
10; over three, 0.1 % do."""


@dataclass(frozen=True)
class CriticalDampening:
    """Quantiles of the critical dampening factor.

    Attributes
    ----------
    quantiles : tuple of Estimate
        One for each probability; ``repeats`` is the number of simulated contexts.
    """

    quantiles: tuple[Estimate, ...]


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
    rng: Any,
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
    >>> found = simulate_critical_dampening(
    ...     [0.5], rate=10 / 21, context=10, dim=10, test_tasks=100, contexts=20_000, rng=0
    ... )
    >>> print(found.quantiles[0])
    0.8337(51)
    """
    check_arguments(test_tasks=test_tasks, contexts=contexts)
    check_positive(rate=rate)
    points = parse_array("probability", np.atleast_1d(probability), (None,))
    if not np.all((points > 0) & (points < 1)):
        raise ValueError(f"probability must be > 0 and < 1, got {probability!r}")
    beyond = -np.expm1(np.log1p(-points) / test_tasks) * contexts
    fewest = float(np.min(np.minimum(beyond, contexts - beyond)))
    if fewest < FEWEST:
        needed = math.ceil(contexts * FEWEST / fewest) if fewest * 1e15 > contexts else math.inf
        raise ValueError(f"contexts must be >= {needed} for these quantiles, got {contexts}")
    top = np.sort(
        largest_eigenvalues(
            context=context,
            dim=dim,
            input_law=input_law,
            scale=scale,
            contexts=contexts,
            rng=rng,
            backend=backend,
        )
    )[::-1]
    logits = logit((np.arange(1, contexts + 1) - 0.5) / contexts)

    def factor(at: np.ndarray) -> np.ndarray:
        return 2 / (rate * np.exp(np.interp(at, logits, np.log(top))))

    # The number of eigenvalues beyond a point is binomial: this is its standard error as a logit.
    spread = 1 / np.sqrt(beyond * (1 - beyond / contexts))
    at = logit(beyond / contexts)
    lower, upper = (np.clip(at + s * WINDOW * spread, logits[0], logits[-1]) for s in (-1, 1))
    slope = (factor(upper) - factor(lower)) / (upper - lower)
    pairs = zip(factor(at).tolist(), (slope * spread).tolist(), strict=True)
    return CriticalDampening(tuple(Estimate(*pair, contexts) for pair in pairs))
