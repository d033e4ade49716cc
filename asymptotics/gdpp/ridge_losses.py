r"""Losses of ridge regression in context when every prompt has its own noise level.

A prompt is a context of N pairs with :math:`x \sim N(0, I_d)` and :math:`y = \langle x, w\rangle
+ \sigma \epsilon`.  The task :math:`w \sim N(0, I_d)` and the noise level :math:`\sigma` are drawn
for every prompt (Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180).  Losses are half the
squared error of a noiseless query.

*Spectral estimators.*  With :math:`S = X^\top X`, eigenvalues e, the estimator :math:`\hat w =
q(S) X^\top y` has the loss :math:`\frac12 E \sum [(1 - e q)^2 + \sigma^2 e q^2]`; ridge
regression is :math:`q = 1/(e + \lambda)`, best at :math:`\lambda = \sigma^2`, where the loss is
:math:`R(\sigma^2) = \frac12 E \sum \sigma^2/(e + \sigma^2)`.  Where :math:`\sigma` is known, this
oracle is the Bayes estimator.  Losses are *adjusted* by subtracting its loss, and

.. formula: penalty

.. math:: \frac{\lambda^2 + v e}{(e + \lambda)^2} - \frac v{e + v}
   = \frac{e (\lambda - v)^2}{(e + \lambda)^2 (e + v)}

is not negative, so adjusted losses are sums of positive terms.

*Estimators that ignore the labels.*  If q depends on X alone, the loss is linear in
:math:`\sigma^2`, so it depends on the noise law through :math:`E \sigma^2` only.  The best such
estimator is therefore ridge regression with the constant :math:`\lambda = E \sigma^2` (ConstRR).
Its adjusted loss :math:`R(E \sigma^2) - E R(\sigma^2)` is a lower bound of GD++ at every depth.

*Estimators that use the labels.*  The residual sum of squares of ordinary least squares is
:math:`\sigma^2 u`, where u has the chi-square law of :math:`N - d` degrees of freedom.  It is
independent of X and of the least-squares estimate, and every ridge estimator is a function of
these two.  So :math:`\hat\sigma^2 = \sigma^2 u/(N - d)` can be averaged over separately.  AdaRR
takes :math:`\lambda = \hat\sigma^2`.  TunedRR takes :math:`\lambda = \min(m \hat\sigma^2, \tau)`,
with the multiplier m and the threshold :math:`\tau` that are best for the noise law.

Averages over eigenvalues use their exact density at finite N and d
(`iclimit.asymptotics.spectra.wishart_eigenvalues`) and a rule that is accurate down to
:math:`\sigma = 0`.

.. page: gdpp/noisy-regression: Random noise levels: linear transformers and ridge baselines

.. symbols:
   e: eigenvalue of XᵀX of a context
   v: variance of the label noise of a prompt
   \lambda: ridge penalty of the context
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from iclimit.asymptotics.checks import CheckedValues, check_integers, checked, real_number
from iclimit.asymptotics.gdpp.ridge_excess import adaptive_excess, constant_excess, risk
from iclimit.asymptotics.numbers import Number, Value, require
from iclimit.problem import NoiseLaw

# Smallest and largest noise level other than 0: their squares stay within the eigenvalue rule, and
# their fourth powers within float64.
LEVELS = (1e-15, 1e15)

# Step of the double-exponential rule over a uniform noise level.
STEP = 1 / 20


def parse_noise_law(noise_law: str | NoiseLaw) -> NoiseLaw:
    """Read a noise law whose levels the rules can take.

    Raises
    ------
    ValueError
        If it is none, or a level is out of range.
    """
    law = NoiseLaw.parse(noise_law)
    least, most = LEVELS
    if not all(level == 0 or least <= level <= most for level in law.levels):
        raise ValueError(
            f"noise_law must have levels 0 or in [{least:g}, {most:g}], got {noise_law!r}"
        )
    return law


def level_rule(law: NoiseLaw, step: float = STEP) -> tuple[np.ndarray, np.ndarray]:
    """Levels and weights of a quadrature rule, exact except for a uniform law.

    For a uniform law it is the double-exponential rule, which is accurate to rounding for
    functions of the level that are analytic except at 0, on whatever scale they change.

    Parameters
    ----------
    law : NoiseLaw
        Law of the noise level.
    step : float
        Step of the rule for a uniform law; a smaller one resolves sharper changes.

    Returns
    -------
    levels, weights : ndarray
        Noise levels and weights of sum 1.
    """
    levels = law.levels
    if law.kind != "uniform" or levels == (0,):
        return np.array(levels), np.full(len(levels), 1 / len(levels))
    t = np.arange(-3.25, 3.25 + step, step)
    x = expit(np.pi * np.sinh(t))
    y = expit(-np.pi * np.sinh(t))
    return x * levels[0], step * np.pi * np.cosh(t) * x * y


# Step of the rule over a uniform noise level, times the root of the degrees of freedom.  TunedRR
# switches to the threshold within a relative width 1/sqrt(2 freedom) of noise levels, which the
# rule must resolve.
_STEP_TIMES_ROOT = 0.2


def ridge_risk(penalty: Number, *, noise_variance: Number, context: int, dim: int) -> Value:
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
    ArithmeticError
        If the law of so many eigenvalues would take minutes or more.

    References
    ----------
    Module `iclimit.asymptotics.gdpp.ridge_losses`.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import ridge_risk
    >>> least_squares = ridge_risk(0.0, noise_variance=1.0, context=20, dim=10)
    >>> round(float(least_squares), 12)  # d/(N - d - 1)/2
    0.555555555556
    >>> round(float(ridge_risk(1.0, noise_variance=1.0, context=20, dim=10)), 4)
    0.4508
    """
    check_size(context, dim)
    values = check_scales(2, penalty=penalty, noise_variance=noise_variance)
    return risk(values.penalty, values.noise_variance, context, dim)[()]


def oracle_risk(noise_law: str | NoiseLaw, *, context: int, dim: int) -> float:
    r"""Mean loss of the oracle, ridge regression with :math:`\lambda = \sigma^2` known.

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, or its text, such as "uniform:5".
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
    ArithmeticError
        If the law of so many eigenvalues would take minutes or more.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import oracle_risk
    >>> round(oracle_risk("uniform:1", context=20, dim=10), 4)
    0.1623
    """
    check_size(context, dim)
    levels, weights = level_rule(parse_noise_law(noise_law))
    return float(weights @ risk(levels**2, levels**2, context, dim))


def constant_ridge_loss(
    noise_law: str | NoiseLaw, *, context: int, dim: int, penalty: float | None = None
) -> float:
    r"""Adjusted loss of ridge regression with one parameter for all prompts (ConstRR).

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Law of the noise level, or its text, such as "uniform:5".
    context, dim : int >= 1
        Number N of pairs and dimension d.
    penalty : float, optional
        The parameter, 0 or in [1e-30, 1e30]; the best one, :math:`E \sigma^2`, by default.

    Returns
    -------
    float
        Loss minus the oracle's.  With the default penalty it is a lower bound for every estimator
        :math:`q(X^\top X) X^\top y` whose q ignores the labels, such as GD++ of any depth.

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
    check_size(context, dim)
    law = parse_noise_law(noise_law)
    if penalty is None:
        penalty = law.mean_variance
    values = check_scales(2, penalty=penalty)
    levels, weights = level_rule(law)
    return float(weights @ constant_excess(float(values.penalty), levels**2, context, dim))


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
        Law of the noise level, or its text, such as "uniform:5".
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
    check_size(context, dim, adaptive=True)
    law = parse_noise_law(noise_law)
    multiplier = real_number("multiplier", multiplier)
    threshold = real_number("threshold", threshold)
    if not (1e-3 <= multiplier <= 1e7 or multiplier == math.inf):
        raise ValueError(f"multiplier must be in [1e-3, 1e7] or inf, got {multiplier}")
    if not (1e-30 <= threshold <= 1e30 or threshold == math.inf):
        raise ValueError(f"threshold must be in [1e-30, 1e30] or inf, got {threshold}")
    if multiplier == threshold == math.inf:
        raise ValueError("threshold must be finite if multiplier is inf, got inf")
    levels, weights = level_rule(law, level_step(context - dim))
    return float(weights @ adaptive_excess(multiplier, threshold, levels**2, context, dim))


def check_size(context: int, dim: int, adaptive: bool = False) -> None:
    """Raise a ValueError unless the size is allowed, for an estimate of the noise if adaptive."""
    check_integers(dim=dim, context=context)
    if adaptive and context <= dim:
        raise ValueError(
            "context must be > dim for an estimate of the noise from residuals, "
            f"got {context} and {dim}"
        )


def check_scales(power: int, **arguments: Any) -> CheckedValues:
    """Arrays of numbers that are 0 or within the noise levels to a power."""
    math_, values = checked(systems="numpy", **arguments)
    least, most = LEVELS
    lower = least**power
    upper = most**power
    allowed = f"0 or in [{lower:g}, {upper:g}]"
    for name, array in vars(values).items():
        require(math_, name, array, lambda v: (v == 0) | ((v >= lower) & (v <= upper)), allowed)
    return values


def level_step(freedom: int) -> float:
    """Step of the rule over a uniform noise level for an estimate with degrees of freedom."""
    return min(STEP, _STEP_TIMES_ROOT / math.sqrt(freedom))
