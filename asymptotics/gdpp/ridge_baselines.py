"""The baselines of regression with random noise levels, tuned for a law of the noise level.

Their losses are those of `iclimit.asymptotics.gdpp.ridge_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.gdpp.ridge_excess import (
    adaptive_excess,
    clipped_excess,
    constant_excess,
    risk,
    step_excess,
)
from iclimit.asymptotics.gdpp.ridge_losses import (
    adaptive_ridge_loss,
    check_scales,
    check_size,
    constant_ridge_loss,
    level_rule,
    level_step,
    oracle_risk,
    parse_noise_law,
)
from iclimit.asymptotics.numbers import Number, Value
from iclimit.problem import NoiseLaw
from iclimit.results import Result

# Multipliers of the grid from which tuning starts.
_MULTIPLIERS = np.geomspace(0.2, 1e3, 20)

# Thresholds of that grid, relative to the largest noise variance.
_THRESHOLDS = np.linspace(0, 1, 13)[1:]

# On that grid the step of the rule over a uniform noise level is larger by this factor.
_ROUGH = 4

# Logarithm of the largest multiplier.
_LARGEST = math.log(1e6)

# TunedRR must improve on ConstRR by this factor; otherwise the labels are taken not to help.
_BETTER = 1 - 1e-9


@dataclass(frozen=True, repr=False)
class BaselineLosses(Result):
    r"""Losses of the ridge baselines.

    Attributes
    ----------
    oracle : float or ndarray
        Loss of the oracle, :math:`\lambda = \sigma^2` known.  The other losses are adjusted: the
        oracle's is subtracted.
    one_layer, constant, adaptive, tuned : float or ndarray
        Best step of gradient descent, ConstRR, AdaRR and TunedRR.
    """

    oracle: Value
    one_layer: Value
    constant: Value
    adaptive: Value
    tuned: Value


@dataclass(frozen=True, repr=False)
class RidgeBaselines(BaselineLosses):
    """Mean losses of the ridge baselines for one noise law, and their parameters.

    Attributes
    ----------
    oracle, one_layer, constant, adaptive, tuned : float
        See `BaselineLosses`.
    penalty : float
        Parameter of ConstRR.
    multiplier, threshold : float
        Parameters of TunedRR, the multiplier at most 1e6; infinite where looking at the labels
        does not help: TunedRR is ConstRR there.
    """

    penalty: float
    multiplier: float
    threshold: float


def ridge_baselines(noise_law: str | NoiseLaw, *, context: int, dim: int) -> RidgeBaselines:
    """Losses of the baselines of arXiv:2402.14180, Table 1, with their best parameters.

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, or its text, such as "uniform:5".
    context, dim : int, context > dim >= 1
        Number N of pairs and dimension d; 20 and 10 in the paper.

    Returns
    -------
    RidgeBaselines
        The relative error of the losses is 1e-11.  Multiplier and threshold are the position of a
        minimum, so their error is about 1e-5 where they matter.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Multiplier and threshold are scanned, then refined by the simplex method.  This takes half a
    second at the size of the paper, and some seconds for hundreds of pairs or N = d + 1.  The
    threshold is at most the largest noise variance: a larger one gains nothing, since the loss of
    ridge regression increases with its penalty beyond the noise variance.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import ridge_baselines
    >>> best = ridge_baselines("categorical:1,3", context=20, dim=10)
    >>> round(best.constant, 3), round(best.adaptive, 3), round(best.tuned, 3)
    (0.22, 0.051, 0.021)
    """
    check_size(context, dim, adaptive=True)
    law = parse_noise_law(noise_law)
    oracle = oracle_risk(law, context=context, dim=dim)
    constant = constant_ridge_loss(law, context=context, dim=dim)
    tuned, multiplier, threshold = _tune(law, constant, context, dim)
    rate = float(one_layer(law.mean_variance, context=context, dim=dim).rate)
    levels, chances = level_rule(law, level_step(context - dim))
    return RidgeBaselines(
        oracle=oracle,
        one_layer=float(chances @ step_excess(rate, levels**2, context, dim)),
        constant=constant,
        adaptive=adaptive_ridge_loss(law, context=context, dim=dim),
        tuned=tuned,
        penalty=law.mean_variance,
        multiplier=multiplier,
        threshold=threshold,
    )


def baseline_profiles(
    noise_level: Number, *, noise_law: str | NoiseLaw, context: int, dim: int
) -> BaselineLosses:
    """Losses of the baselines as functions of the noise level of the prompt.

    Parameters
    ----------
    noise_level : number or array
        Noise levels at which prompts are drawn, 0 or in [1e-15, 1e15].
    noise_law : str or NoiseLaw
        Law of the noise level for which the baselines are tuned, or its text, such as "uniform:5".
    context, dim : int, context > dim >= 1
        Number N of pairs and dimension d.

    Returns
    -------
    BaselineLosses
        Arrays of the shape of noise_level.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is of the wrong kind.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import baseline_profiles
    >>> found = baseline_profiles([0.0, 2.0], noise_law="fixed:2", context=20, dim=10)
    >>> [round(float(loss), 4) for loss in found.constant]
    [0.4557, 0.0]
    """
    levels = check_scales(1, noise_level=noise_level).noise_level
    best = ridge_baselines(noise_law, context=context, dim=dim)
    v = levels.ravel() ** 2
    oracle = risk(v, v, context, dim)
    rate = float(one_layer(best.penalty, context=context, dim=dim).rate)
    losses = {
        "oracle": oracle,
        "one_layer": step_excess(rate, v, context, dim),
        "constant": constant_excess(best.penalty, v, context, dim),
        "adaptive": adaptive_excess(1.0, math.inf, v, context, dim),
        "tuned": adaptive_excess(best.multiplier, best.threshold, v, context, dim),
    }
    return BaselineLosses(
        **{name: loss.reshape(levels.shape)[()] for name, loss in losses.items()}
    )


def _losses(
    law: NoiseLaw, step: float, context: int, dim: int
) -> Callable[[np.ndarray, float], np.ndarray]:
    """Losses of multipliers and a threshold, by a rule over the noise levels with this step."""
    levels, weights = level_rule(law, step)
    # Losses are at most of the order of the variance, so the smallest levels do not matter.
    counts = weights * levels**2 > 1e-20 * law.mean_variance
    variance = levels[counts] ** 2
    weights = weights[counts]
    return lambda m, t: clipped_excess(m, t, variance, context, dim) @ weights


@lru_cache(maxsize=64)
def _tune(law: NoiseLaw, constant: float, context: int, dim: int) -> tuple[float, float, float]:
    """Loss, multiplier and threshold of TunedRR."""
    labels_do_not_help = constant, math.inf, law.mean_variance
    if constant == 0:
        return labels_do_not_help

    multipliers = _MULTIPLIERS
    thresholds = _THRESHOLDS * max(law.levels) ** 2
    step = level_step(context - dim)
    rough = _losses(law, _ROUGH * step, context, dim)
    fine = _losses(law, step, context, dim)
    scan = np.stack([rough(multipliers, threshold) for threshold in thresholds])
    i, j = np.unravel_index(np.argmin(scan), scan.shape)

    def loss(logarithms: np.ndarray) -> float:
        multiplier = math.exp(min(logarithms[0], _LARGEST))
        return float(fine(np.array([multiplier]), math.exp(logarithms[1]))[0])

    start = np.log([multipliers[j], thresholds[i]])
    # Small steps, and to lower thresholds: the loss is flat beyond the largest variance.
    simplex = start + np.array([[0, 0], [0.1, 0], [0, -0.1]])
    search = minimize(
        loss,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-13 * scan[i, j]},
    )
    multiplier = math.exp(min(search.x[0], _LARGEST))
    # The search is not bounded by the largest variance: the simplex would collapse there.
    threshold = min(math.exp(search.x[1]), max(law.levels) ** 2)
    tuned = adaptive_ridge_loss(
        law, context=context, dim=dim, multiplier=multiplier, threshold=threshold
    )
    if tuned >= constant * _BETTER:
        return labels_do_not_help
    return tuned, multiplier, threshold


# Sizes of one layer, which need not be integers.
_SIZES = dict.fromkeys(("context", "dim"), "(0, inf)")


@dataclass(frozen=True, repr=False)
class OneLayer(Result):
    r"""Best single step of gradient descent.

    Attributes
    ----------
    rate : number, array or SymPy expression
        Step on the sum over the context: :math:`-w_{yx}` of the paper's layer.
    loss : number, array or SymPy expression
        Loss, not adjusted.
    """

    rate: Value
    loss: Value


def one_layer(mean_noise_variance: Number, *, context: Number, dim: Number) -> OneLayer:
    r"""Best single step of gradient descent, :math:`\hat w = \eta X^\top y`.

    Parameters
    ----------
    mean_noise_variance : number or array >= 0
        Mean noise variance :math:`E \sigma^2`.
    context, dim : number or array > 0
        Number N of pairs and dimension d.

    Returns
    -------
    OneLayer
        :math:`\eta = 1/(N + d + 1 + E \sigma^2)` and the loss :math:`\frac d2 (1 - N \eta)`;
        broadcast, and of the number system of the arguments (NumPy or another array library,
        mpmath, SymPy).

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    arXiv:2402.14180, the one-layer rows of Table 1; follows from
    :math:`E \operatorname{tr} S = N d` and :math:`E \operatorname{tr} S^2 = N d (N + d + 1)`.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import one_layer
    >>> from sympy import symbols
    >>> N, d, v = symbols("N d v", positive=True)
    >>> one_layer(v, context=N, dim=d).loss
    d*(d + v + 1)/(2*N + 2*d + 2*v + 2)
    """
    math_, values = checked(
        ranges=_SIZES, mean_noise_variance=mean_noise_variance, context=context, dim=dim
    )
    rest = values.dim + 1 + values.mean_noise_variance
    total = values.context + rest
    return OneLayer(math_.finish(1 / total), math_.finish(values.dim * rest / (2 * total)))
