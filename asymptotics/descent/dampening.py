r"""Dampening of a recurrent gradient-descent layer.

A layer trained for one step performs gradient descent at the optimal one-step rate
:math:`\eta^*`.  Applied again and again, its update multiplied by a dampening factor
:math:`\lambda`, it runs gradient descent at the constant rate :math:`\lambda\eta^*` (von Oswald et
al., arXiv:2212.07677, who use 0.75; Rossi, Yuan and Hannagan, ICLR 2024 blog post track, find
0.70).  On one context this diverges if :math:`\lambda \eta^* s_{\max} > 2`, with the largest
eigenvalue :math:`s_{\max}` of :math:`H = X^\top X/N`.  The mean loss over T test tasks diverges
with the worst of them: the critical factor

.. math:: \lambda_c = \frac2{\eta^* \max_{t \le T} s_{\max}^{(t)}}

is an extreme value, different for every set of test tasks and decreasing with T.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainccinv

from iclimit.asymptotics.checks import check_integers, real_array, real_number
from iclimit.asymptotics.descent.best_rates import constant_schedule
from iclimit.asymptotics.descent.learning_rate import optimal_learning_rate
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.wishart_eigenvalues import largest_eigenvalue_tail

# Shape of the gamma law that stands for the Tracy-Widom law of real matrices (Chiani, J.
# Multivariate Anal. 129 (2014) 69).
_SHAPE = 46.446

# Scale of that gamma law.
_SCALE = 0.186054

# Distance by which that gamma law is moved to the left.
_SHIFT = 9.84801

# Width of the first bracket around the quantile of the law, in standard units.
_NEAR = 0.02


def critical_dampening(
    probability: Number, *, context: int, dim: int, test_tasks: int, noise_ratio: float = 0.0
) -> Value:
    r"""Quantiles of the dampening factor beyond which a recurrent layer diverges.

    Parameters
    ----------
    probability : number or array in (0, 1)
        Probabilities p; 0.5 for the median.
    context, dim : int >= 1
        Number N of context pairs and dimension d, Gaussian inputs.
    test_tasks : int >= 1
        Number T of test tasks.
    noise_ratio : number >= 0
        Variance of the label noise over N times that of the tasks.  Noise lowers :math:`\eta^*`.

    Returns
    -------
    float or ndarray
        The critical factor of T tasks is smaller than this with probability p.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    References
    ----------
    Module `iclimit.asymptotics.descent.dampening`; for other input laws see
    `iclimit.simulate.descent.simulate_critical_dampening`.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import critical_dampening
    >>> critical_dampening([0.05, 0.5, 0.95], context=10, dim=10, test_tasks=10_000).round(3)
    array([0.586, 0.652, 0.699])
    """
    check_integers(test_tasks=test_tasks)
    rate = _one_step_rate(context, dim, noise_ratio)
    points = real_array("probability", probability, "(0, 1)")
    # All T eigenvalues stay below x with probability 1 - p.
    tails = -np.expm1(np.log1p(-points) / test_tasks)
    largest = [_eigenvalue_exceeded_by(float(tail), context, dim) for tail in tails.ravel()]
    return (2 / (rate * np.array(largest))).reshape(points.shape)[()]


def optimal_dampening(*, steps: int, context: int, dim: int, noise_ratio: float = 0.0) -> float:
    r"""Dampening factor with the least mean loss after a number of repetitions.

    This is the best constant rate for L steps over the best rate for one step.  It decreases with
    L because of rare contexts with a large eigenvalue.

    Parameters
    ----------
    steps : int >= 1
        Number L of repetitions.
    context, dim : int >= 1
        Number N of context pairs and dimension d, Gaussian inputs.
    noise_ratio : number >= 0
        Variance of the label noise over N times that of the tasks.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import optimal_dampening
    >>> round(optimal_dampening(steps=1, context=10, dim=10), 9)
    1.0
    """
    one_step = _one_step_rate(context, dim, noise_ratio)
    best = constant_schedule(
        steps=steps, context=int(context), dim=int(dim), noise_ratio=noise_ratio
    )
    return float(best.rates[..., 0] / one_step)


def _one_step_rate(context: int, dim: int, noise_ratio: float) -> float:
    check_integers(context=context, dim=dim)
    variance = real_number("noise_ratio", noise_ratio) * context
    return float(optimal_learning_rate(context=context, dim=dim, noise_variance=variance).rate)


def _eigenvalue_exceeded_by(tail: float, context: int, dim: int) -> float:
    """Point that the largest eigenvalue of H exceeds with this probability."""
    import mpmath

    @cache
    def excess(log_x: float) -> float:
        beyond = largest_eigenvalue_tail(math.exp(log_x), context, dim)
        # Far out the tail is below float64.
        return math.inf if beyond <= 0 else float(mpmath.log(tail) - mpmath.log(beyond))

    # The law of Tracy and Widom at finite size (Ma, Bernoulli 18 (2012) 322), as a gamma law
    # (Chiani): an evaluation takes up to seconds, and a bracket near the root saves half of them.
    root_context = math.sqrt(context - 0.5)
    root_dim = math.sqrt(dim - 0.5)
    scale = (root_context + root_dim) * (1 / root_context + 1 / root_dim) ** (1 / 3)
    deviate = _SCALE * gammainccinv(_SHAPE, tail) - _SHIFT
    guess = max(
        (root_context + root_dim) ** 2 + scale * deviate, 1e-3 * (root_context + root_dim) ** 2
    )
    low = math.log(guess / context)
    high = low
    width = min(_NEAR * scale / guess, 0.5)
    while excess(high) < 0:
        low = high
        high = high + width
        width = 2 * width
    while excess(low) > 0:
        high = low
        low = low - width
        width = 2 * width
    return math.exp(float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))
