r"""Ridge baselines of in-context regression when every prompt has its own noise level.

A prompt is a context of N pairs, :math:`x \sim N(0, I_d)`, :math:`y = \langle x, w\rangle + \sigma
\epsilon` with :math:`w \sim N(0, I_d)` and a noise level :math:`\sigma` drawn per prompt
(Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180).  Losses are half the squared error of
a noiseless query.

*Spectral estimators.*  With :math:`S = X^\top X`, eigenvalues e, the estimator :math:`\hat w =
q(S) X^\top y` has the loss :math:`\frac12 E \sum [(1 - e q)^2 + \sigma^2 e q^2]`; ridge
regression is :math:`q = 1/(e + \lambda)`, best at :math:`\lambda = \sigma^2`, where the loss is
:math:`R(\sigma^2) = \frac12 E \sum \sigma^2/(e + \sigma^2)`.  Where :math:`\sigma` is known, this
oracle is the Bayes estimator.  Losses are *adjusted* by subtracting its loss, and

.. math:: \frac{\lambda^2 + v e}{(e + \lambda)^2} - \frac v{e + v}
   = \frac{e (\lambda - v)^2}{(e + \lambda)^2 (e + v)}

is not negative, so adjusted losses are sums of positive terms.

*Labels not looked at.*  If q depends on X alone, the loss is linear in :math:`\sigma^2`, so it
depends on the noise law through :math:`E \sigma^2` only.  The best such estimator is therefore
ridge regression with the constant :math:`\lambda = E \sigma^2` (ConstRR), of adjusted loss
:math:`R(E \sigma^2) - E R(\sigma^2)`: a lower bound of GD++ at every depth.

*Labels looked at.*  The residual sum of squares of ordinary least squares is :math:`\sigma^2 u`
with u of the chi-square law of :math:`N - d` degrees of freedom, independent of X and of the
least-squares estimate, of which every ridge estimator is a function.  So
:math:`\hat\sigma^2 = \sigma^2 u/(N - d)` can be averaged over separately: AdaRR takes
:math:`\lambda = \hat\sigma^2`, TunedRR :math:`\lambda = \min(m \hat\sigma^2, \tau)` with the
multiplier m and the threshold :math:`\tau` that are best for the noise law.

The averages over eigenvalues are with their exact density at finite N and d
(`iclimit.asymptotics.spectra.wishart_density`), by a rule that is accurate down to
:math:`\sigma = 0`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from iclimit.asymptotics.gdpp.noise_laws import LEVELS, STEP, NoiseLaw, parse_noise_law
from iclimit.asymptotics.gdpp.ridge_excess import (
    adaptive_excess,
    clipped_excess,
    constant_excess,
    risk,
    step_excess,
)
from iclimit.asymptotics.numbers import Number, convert, namespace, numpy_namespace, require
from iclimit.asymptotics.spectra.wishart import check_integer

_STEP_TIMES_ROOT = 0.2
"""Step of the rule over a uniform noise level, times the root of the degrees of freedom: TunedRR
switches to the threshold within a relative width 1/sqrt(2 freedom) of noise levels."""

_SCAN = np.geomspace(0.2, 1e3, 20), np.linspace(0, 1, 13)[1:]
"""Multipliers, and thresholds relative to the largest noise variance, where tuning starts."""

_ROUGH = 4
"""Factor by which the rule over a uniform noise level is coarser in that scan."""

_LARGEST = math.log(1e6)
"""Logarithm of the largest multiplier."""

_BETTER = 1 - 1e-9
"""Gain over ConstRR below which the labels are taken not to help."""


def ridge_risk(penalty: Number, noise_variance: Number, *, context: int, dim: int) -> Any:
    r"""Loss of ridge regression with a given parameter, at a given noise variance.

    Parameters
    ----------
    penalty : number or array
        Parameter :math:`\lambda` of :math:`(X^\top X + \lambda)^{-1} X^\top y`, without a factor
        1/N: 0 (least squares of minimal norm) or in [1e-30, 1e30].
    noise_variance : number or array
        Variance :math:`\sigma^2` of the label noise, 0 or in [1e-30, 1e30].
    context, dim : int >= 1
        Number N of pairs and dimension d.

    Returns
    -------
    float or ndarray
        Half the mean squared error of a noiseless query; the null predictor has d/2.  Infinite
        for least squares with noise at \|N - d\| <= 1.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.

    References
    ----------
    Module `iclimit.asymptotics.gdpp.mixed_noise`.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import ridge_risk
    >>> round(float(ridge_risk(0.0, 1.0, context=20, dim=10)), 12)  # d/(N - d - 1)/2
    0.555555555556
    >>> round(float(ridge_risk(1.0, 1.0, context=20, dim=10)), 4)
    0.4508
    """
    _check_size(context, dim)
    penalty = _check_variance("penalty", penalty)
    variance = _check_variance("noise_variance", noise_variance)
    try:
        np.broadcast_shapes(penalty.shape, variance.shape)
    except ValueError:
        raise ValueError(
            "penalty and noise_variance must have shapes that broadcast, got "
            f"{penalty.shape}, {variance.shape}"
        ) from None
    return risk(penalty, variance, context, dim)[()]


def oracle_risk(noise_law: str | NoiseLaw, *, context: int, dim: int) -> float:
    r"""Mean loss of the oracle, ridge regression with :math:`\lambda = \sigma^2` known.

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, as read by `parse_noise_law`.
    context, dim : int >= 1
        Number N of pairs and dimension d.

    Returns
    -------
    float
        :math:`E R(\sigma^2)`, the least loss of any predictor.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import oracle_risk
    >>> round(oracle_risk("uniform:1", context=20, dim=10), 4)
    0.1623
    """
    _check_size(context, dim)
    levels, weights = parse_noise_law(noise_law).quadrature()
    return float(weights @ risk(levels**2, levels**2, context, dim))


def constant_ridge_loss(
    noise_law: str | NoiseLaw, *, context: int, dim: int, penalty: float | None = None
) -> float:
    r"""Adjusted loss of ridge regression with one parameter for all prompts (ConstRR).

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, as read by `parse_noise_law`.
    context, dim : int >= 1
        Number N of pairs and dimension d.
    penalty : float, optional
        The parameter, 0 or in [1e-30, 1e30]; the best one, :math:`E \sigma^2`, by default.

    Returns
    -------
    float
        Loss minus the oracle's.  By default a lower bound for every estimator
        :math:`q(X^\top X) X^\top y` whose q does not see the labels, such as GD++ of any depth.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is of the wrong kind.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import constant_ridge_loss
    >>> round(constant_ridge_loss("uniform:7", context=20, dim=10), 3)
    0.53
    """
    _check_size(context, dim)
    law = parse_noise_law(noise_law)
    if penalty is None:
        penalty = law.mean_variance
    penalty = float(_check_variance("penalty", penalty))
    levels, weights = law.quadrature()
    return float(weights @ constant_excess(penalty, levels**2, context, dim))


def adaptive_ridge_loss(
    noise_law: str | NoiseLaw,
    *,
    context: int,
    dim: int,
    multiplier: float = 1.0,
    threshold: float = math.inf,
) -> float:
    r"""Adjusted loss of ridge regression with an estimated noise variance (AdaRR, TunedRR).

    The parameter is :math:`\lambda = \min(m \hat\sigma^2, \tau)` with
    :math:`\hat\sigma^2 = \sum (y - \hat y_{OLS})^2/(N - d)`.

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, as read by `parse_noise_law`.
    context, dim : int, context > dim >= 1
        Number N of pairs and dimension d.
    multiplier : float in [1e-3, 1e7], or inf
        Factor m; 1 for AdaRR.  Infinite: the parameter is the threshold.
    threshold : float in [1e-30, 1e30], or inf
        Largest parameter :math:`\tau`; inf for AdaRR.

    Returns
    -------
    float
        Loss minus the oracle's.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import adaptive_ridge_loss
    >>> round(adaptive_ridge_loss("uniform:5", context=20, dim=10), 3)
    0.069
    """
    _check_size(context, dim, adaptive=True)
    law = parse_noise_law(noise_law)
    if not (1e-3 <= multiplier <= 1e7 or multiplier == math.inf):
        raise ValueError(f"multiplier must be in [1e-3, 1e7] or inf, got {multiplier}")
    if not (1e-30 <= threshold <= 1e30 or threshold == math.inf):
        raise ValueError(f"threshold must be in [1e-30, 1e30] or inf, got {threshold}")
    if multiplier == threshold == math.inf:
        raise ValueError("threshold must be finite if multiplier is inf, got inf")
    levels, weights = law.quadrature(_level_step(context - dim))
    return float(weights @ adaptive_excess(multiplier, threshold, levels**2, context, dim))


@dataclass(frozen=True)
class RidgeBaselines:
    r"""Losses of the ridge baselines for one noise law, and their parameters.

    Attributes
    ----------
    oracle : float
        Mean loss of the oracle, :math:`\lambda = \sigma^2` known.  The other losses are adjusted:
        the oracle's is subtracted.
    one_layer, constant, adaptive, tuned : float
        Best step of gradient descent, ConstRR, AdaRR and TunedRR.
    penalty : float
        Parameter of ConstRR.
    multiplier, threshold : float
        Parameters of TunedRR, the multiplier at most 1e6; infinite where looking at the labels
        does not help: TunedRR is ConstRR there.
    """

    oracle: float
    one_layer: float
    constant: float
    adaptive: float
    tuned: float
    penalty: float
    multiplier: float
    threshold: float


def ridge_baselines(noise_law: str | NoiseLaw, *, context: int, dim: int) -> RidgeBaselines:
    """Losses of the baselines of arXiv:2402.14180, Table 1, with their best parameters.

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, as read by `parse_noise_law`.
    context, dim : int, context > dim >= 1
        Number N of pairs and dimension d; 20 and 10 in the paper.

    Returns
    -------
    RidgeBaselines
        Losses, accurate to 1e-11 relative; multiplier and threshold, being the place of a
        minimum, to about 1e-5 where they matter.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Multiplier and threshold are scanned, then refined by the simplex method: half a second
    at the size of the paper, some seconds for hundreds of pairs or N = d + 1.
    Nothing is gained by a threshold beyond the largest noise variance, since the loss of ridge
    regression increases with its parameter beyond the noise variance.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import ridge_baselines
    >>> best = ridge_baselines("categorical:1,3", context=20, dim=10)
    >>> round(best.constant, 3), round(best.adaptive, 3), round(best.tuned, 3)
    (0.22, 0.051, 0.021)
    """
    _check_size(context, dim, adaptive=True)
    law = parse_noise_law(noise_law)
    oracle = oracle_risk(law, context=context, dim=dim)
    constant = constant_ridge_loss(law, context=context, dim=dim)
    tuned, multiplier, threshold = _tune(law, constant, context, dim)
    rate = float(one_layer(law.mean_variance, context=context, dim=dim).rate)
    levels, chances = law.quadrature(_level_step(context - dim))
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


@dataclass(frozen=True)
class BaselineProfiles:
    """Losses at given noise levels of the baselines tuned for a noise law.

    Attributes
    ----------
    oracle : float or ndarray
        Loss of the oracle; the other losses are adjusted: the oracle's is subtracted.
    one_layer, constant, adaptive, tuned : float or ndarray
        As in `RidgeBaselines`, whose losses are their means over the noise law.
    """

    oracle: Any
    one_layer: Any
    constant: Any
    adaptive: Any
    tuned: Any


def baseline_profiles(
    noise_level: Number, noise_law: str | NoiseLaw, *, context: int, dim: int
) -> BaselineProfiles:
    """Losses of the baselines as functions of the noise level of the prompt.

    Parameters
    ----------
    noise_level : number or array
        Noise levels at which prompts are drawn, 0 or in [1e-15, 1e15].
    noise_law : str or NoiseLaw
        Law of the noise level for which the baselines are tuned, as read by `parse_noise_law`.
    context, dim : int, context > dim >= 1
        Number N of pairs and dimension d.

    Returns
    -------
    BaselineProfiles
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
    >>> found = baseline_profiles([0.0, 2.0], "fixed:2", context=20, dim=10)
    >>> [round(float(loss), 4) for loss in found.constant]
    [0.4557, 0.0]
    """
    math_ = numpy_namespace(noise_level=noise_level)
    levels = convert(math_, "noise_level", noise_level)
    lower, upper = LEVELS
    allowed = f"0 or in [{lower:g}, {upper:g}]"
    require(
        math_, "noise_level", levels, lambda v: (v == 0) | ((v >= lower) & (v <= upper)), allowed
    )
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
    return BaselineProfiles(
        **{name: math_.finish(loss.reshape(levels.shape)) for name, loss in losses.items()}
    )


@dataclass(frozen=True)
class OneLayer:
    r"""Best single step of gradient descent.

    Attributes
    ----------
    rate : number, array or SymPy expression
        Step on the sum over the context: :math:`-w_{yx}` of the paper's layer.
    loss : number, array or SymPy expression
        Loss, not adjusted.
    """

    rate: Any
    loss: Any


def one_layer(mean_noise_variance: Number, *, context: Any, dim: Any) -> OneLayer:
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
    math_ = namespace(mean_noise_variance=mean_noise_variance, context=context, dim=dim)
    variance = convert(math_, "mean_noise_variance", mean_noise_variance)
    context, dim = convert(math_, "context", context), convert(math_, "dim", dim)
    require(
        math_,
        "mean_noise_variance",
        variance,
        lambda v: (v >= 0) & (v < math_.inf),
        ">= 0 and finite",
    )
    require(math_, "context", context, lambda v: (v > 0) & (v < math_.inf), "> 0 and finite")
    require(math_, "dim", dim, lambda v: (v > 0) & (v < math_.inf), "> 0 and finite")
    rest = dim + 1 + variance
    total = context + rest
    return OneLayer(math_.finish(1 / total), math_.finish(dim * rest / (2 * total)))


def _check_size(context: Any, dim: Any, adaptive: bool = False) -> None:
    check_integer("dim", dim, least=1)
    check_integer("context", context, least=1)
    if adaptive and context <= dim:
        raise ValueError(
            "context must be > dim for an estimate of the noise from residuals, "
            f"got {context} and {dim}"
        )


def _check_variance(name: str, value: Number) -> Any:
    math_ = numpy_namespace(**{name: value})
    variance = convert(math_, name, value)
    lower, upper = LEVELS[0] ** 2, LEVELS[1] ** 2
    require(
        math_,
        name,
        variance,
        lambda v: (v == 0) | ((v >= lower) & (v <= upper)),
        f"0 or in [{lower:g}, {upper:g}]",
    )
    return variance


def _level_step(freedom: int) -> float:
    return min(STEP, _STEP_TIMES_ROOT / math.sqrt(freedom))


@lru_cache(maxsize=64)
def _tune(law: NoiseLaw, constant: float, context: int, dim: int) -> tuple[float, float, float]:
    """Loss, multiplier and threshold of TunedRR."""
    labels_do_not_help = constant, math.inf, law.mean_variance
    if constant == 0:
        return labels_do_not_help

    def losses(step: float) -> Callable[[np.ndarray, float], np.ndarray]:
        levels, weights = law.quadrature(step)
        # Losses are at most of the order of the variance: the search leaves the least levels out.
        heard = weights * levels**2 > 1e-20 * law.mean_variance
        variance, weights = levels[heard] ** 2, weights[heard]
        return lambda m, t: clipped_excess(m, t, variance, context, dim) @ weights

    multipliers, thresholds = _SCAN[0], _SCAN[1] * max(law.values) ** 2
    step = _level_step(context - dim)
    rough, fine = losses(_ROUGH * step), losses(step)
    scan = np.stack([rough(multipliers, threshold) for threshold in thresholds])
    i, j = np.unravel_index(np.argmin(scan), scan.shape)

    def loss(logarithms: np.ndarray) -> float:
        multiplier = math.exp(min(logarithms[0], _LARGEST))
        return float(fine(np.array([multiplier]), math.exp(logarithms[1]))[0])

    start = np.log([multipliers[j], thresholds[i]])
    # Small steps, and to lower thresholds: beyond the largest variance is a plateau.
    simplex = start + np.array([[0, 0], [0.1, 0], [0, -0.1]])
    found = minimize(
        loss,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-13 * scan[i, j]},
    )
    multiplier = math.exp(min(found.x[0], _LARGEST))
    # The search itself has no wall at the largest variance, where the simplex would collapse.
    threshold = min(math.exp(found.x[1]), max(law.values) ** 2)
    tuned = adaptive_ridge_loss(
        law, context=context, dim=dim, multiplier=multiplier, threshold=threshold
    )
    if tuned >= constant * _BETTER:
        return labels_do_not_help
    return tuned, multiplier, threshold
