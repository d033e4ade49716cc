r"""How much of its context gated linear attention sees, and the best gate.

Gated linear attention weighs pair i of a context by :math:`g_i`.  Its summary is
:math:`h = \frac d\ell \sum_i g_i y_i x_i`, the state of RetNet, GLA and Mamba-2.  Tasks may change
from token to token, tokens may be correlated: with the task w of the query,

.. math:: E[w_i | w] = m_i w, \qquad E \langle w_i, w_j\rangle/d = c_{ij}, \qquad
   E\, x_i x_j^\top = K_{ij}\, I/d .

In the limit :math:`h = a w + \sqrt q\, z` with white noise z and

.. math:: a = \frac1\ell \sum_i g_i m_i, \qquad
   q = \frac1{\ell^2} \sum_{ij} g_i g_j \bigl[d\,(K_{ij}^2 c_{ij} + \rho\, \delta_{ij})
   + c_{ij} - m_i m_j\bigr] .

Plain attention on :math:`\alpha d` independent pairs of one task has a = 1 and
:math:`q = (1 + \rho)/\alpha`.  So a gated layer is worth a context of

.. formula: effective_context

.. math:: \alpha_{\mathrm{eff}} = (1 + \rho)\, \frac{a^2}q ,

and all theory of `iclimit.pretraining` holds with :math:`\alpha_{\mathrm{eff}}` in the place of
:math:`\alpha`, for tests with the gates, drift and context length of the training.  It is the
theory of h/a: a ridge :math:`\lambda` of pretraining on h itself is :math:`\lambda/a^2` there.

*Constant gates.*  A gate of :math:`e^{-\omega/d}` a token, drift
:math:`c_{ij} = e^{-\vartheta |i - j|/d}` and inputs with :math:`K_{ij} = r^{|i - j|}` give, with
:math:`E(z) = (1 - e^{-z})/z`, :math:`\kappa_2 = (1 + r^2)/(1 - r^2)` and
:math:`c = (\omega + \vartheta) \alpha`,

.. math:: \alpha^2 a^2 = \alpha^2 E(c)^2, \qquad
   \alpha^2 q = (\kappa_2 + \rho)\, \alpha E(2 \omega \alpha)
   - 4 \vartheta \alpha^3\, D(0, 2 \omega \alpha, c, 2 c),

where D is the third divided difference of :math:`e^{-x}`, which is negative.  Without drift and
correlation :math:`\alpha_{\mathrm{eff}} = \alpha \tanh(x)/x` with :math:`x = \omega \alpha/2`.
In endless contexts

.. math:: \alpha_{\mathrm{eff}} = \frac{(1 + \rho)\, \omega}
   {\frac12 (\kappa_2 + \rho) (\omega + \vartheta)^2 + \vartheta} ,

which is largest, among all gates that may vary over tokens, at

.. formula: optimal_forgetting

.. math:: \omega = \sqrt{\vartheta^2 + \frac{2 \vartheta}{\kappa_2 + \rho}}, \qquad
   \alpha_{\mathrm{eff}} = \frac{1 + \rho}{(\kappa_2 + \rho)(\vartheta + \omega)} .

The best one-layer readout of h has the error


.. formula: error

.. math:: e = 1 + \rho - \frac{a^2}{a^2 + q}
   = \rho + \frac{1 + \rho}{1 + \rho + \alpha_{\mathrm{eff}}} .

The formulas are derived here; constant gates are those of RetNet (Sun et al., arXiv:2307.08621).

.. page: recurrent/contexts: What gates leave of a context

.. symbols:
   \alpha_{\mathrm{eff}}: effective context: the α of plain attention with the same error
   a^2: square of the weight of the task in the context summary
   q: variance of the noise in the context summary
   e: error with the best readout
   \omega: rate of forgetting
   \kappa_2: (1 + r²)/(1 − r²), r being the correlation of neighbouring tokens
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iclimit.asymptotics.checks import CheckedValues, checked
from iclimit.asymptotics.numbers import MpMath, Namespace, Number, Value
from iclimit.asymptotics.recurrent.delta_rule import mean_decay
from iclimit.results import Result

# Below this spread of its points the divided difference is summed as a series.
_SPREAD = 0.5


@dataclass(frozen=True, repr=False)
class OptimalForgetting(Result):
    """Best constant gate in endless contexts.

    Attributes
    ----------
    forgetting : number or array
        Rate at which the memory decays.
    alpha : number or array
        Effective context length over dimension.
    error : number or array
        Mean squared error of the best readout, on a noisy query label.
    """

    forgetting: Value
    alpha: Value
    error: Value


def effective_context(
    *,
    alpha: Number,
    rho: Number,
    forgetting: Number = 0.0,
    drift: Number = 0.0,
    correlation: Number = 0.0,
) -> Value:
    r"""Context, over the dimension, that gated linear attention on changing tasks is worth.

    Parameters
    ----------
    alpha : number or array in (0, inf]
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    forgetting : number or array >= 0
        Rate :math:`\omega` of the gate, which is :math:`e^{-\omega/d}` a token.
    drift : number or array >= 0
        Rate :math:`\vartheta` at which tasks change.
    correlation : number or array in (-1, 1)
        Correlation r of the inputs of neighbouring tokens.

    Returns
    -------
    number or array
        Effective context length over dimension; NumPy and other arrays, mpmath numbers, SymPy
        expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The limit of large dimensions; `gated_context` is exact at any.  Drift and correlation are
    isotropic, and the query is independent of the tokens.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.context`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import effective_context
    >>> effective_context(alpha=2, rho=0.1, forgetting=[0, 0.5, 1]).round(4)
    array([2.    , 1.8485, 1.5232])
    >>> import iclimit
    >>> alpha = effective_context(alpha=3, rho=0.1, forgetting=0.8, drift=0.3)
    >>> round(float(iclimit.icl_error(tau=2, alpha=alpha, kappa=1.5, rho=0.1)), 4)
    1.3885
    """
    math_, values = checked(
        alpha=alpha, rho=rho, forgetting=forgetting, drift=drift, correlation=correlation
    )
    with math_.quiet():
        return math_.finish(_effective(math_, values))


def gated_error(
    *,
    alpha: Number,
    rho: Number,
    forgetting: Number = 0.0,
    drift: Number = 0.0,
    correlation: Number = 0.0,
) -> Value:
    r"""Error of gated linear attention with its best readout.

    Parameters
    ----------
    alpha, rho, forgetting, drift, correlation
        As in `effective_context`.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label after pretraining on many prompts and tasks;
        NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.context`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import gated_error
    >>> gated_error(alpha=[1, 2, 4], rho=0.25).round(4)
    array([0.8056, 0.6346, 0.4881])
    """
    math_, values = checked(
        alpha=alpha, rho=rho, forgetting=forgetting, drift=drift, correlation=correlation
    )
    with math_.quiet():
        return math_.finish(_readout_error(values.rho, _effective(math_, values)))


def optimal_forgetting(
    *, rho: Number, drift: Number, correlation: Number = 0.0
) -> OptimalForgetting:
    r"""Gate with the largest effective context where contexts are endless and tasks change.

    Parameters
    ----------
    rho : number or array >= 0
        Variance of the label noise.
    drift : number or array > 0
        Rate :math:`\vartheta` at which tasks change.
    correlation : number or array in (-1, 1)
        Correlation r of the inputs of neighbouring tokens.

    Returns
    -------
    OptimalForgetting
        With fields ``forgetting``, ``alpha`` and ``error``; NumPy and other arrays, mpmath
        numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    No other gates, also such that vary over tokens, have a larger effective context: a constant
    gate is the Kalman filter of an autoregressive process.  In contexts of finite length
    `optimal_gates` are better by some per cent.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.context`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import optimal_forgetting
    >>> optimal_forgetting(rho=0.25, drift=0.1)
    OptimalForgetting(forgetting=0.412311, alpha=1.95194, error=0.640388)
    """
    math_, values = checked(
        ranges={"drift": "(0, inf)"}, rho=rho, drift=drift, correlation=correlation
    )
    rho = values.rho
    theta = values.drift
    with math_.quiet():
        noise = _squared_kernel(values.correlation) + rho
        omega = math_.sqrt(theta**2 + 2 * theta / noise)
        alpha = (1 + rho) / (noise * (theta + omega))
        return OptimalForgetting(*map(math_.finish, (omega, alpha, _readout_error(rho, alpha))))


def _squared_kernel(r: Value) -> Value:
    """Sum of r^(2 |i - j|) over j."""
    return (1 + r**2) / (1 - r**2)


def _readout_error(rho: Value, alpha: Value) -> Value:
    return rho + (1 + rho) / (1 + rho + alpha)


def _effective(math_: Namespace, values: CheckedValues) -> Value:
    return effective(
        math_, values.alpha, values.rho, values.forgetting, values.drift, values.correlation
    )


def effective(
    math_: Namespace, alpha: Value, rho: Value, omega: Value, theta: Value, r: Value
) -> Value:
    """`effective_context` of checked arguments."""
    noise = _squared_kernel(r) + rho
    lost = omega + theta

    def endless() -> Value:
        share = (1 + rho) * math_.divide(omega, noise * lost**2 / 2 + theta)
        return math_.where(lost > 0, lambda: share, lambda: math_.inf)

    def finite() -> Value:
        a, q = signal_and_noise(math_, alpha, rho, omega, theta, r)
        return (1 + rho) * a**2 / q

    return math_.where(math_.isinf(alpha), endless, finite)


def signal_and_noise(
    math_: Namespace, alpha: Value, rho: Value, omega: Value, theta: Value, r: Value
) -> tuple[Value, Value]:
    """Weight a of the task in the summary and variance q of its noise, at finite alpha."""
    c = (omega + theta) * alpha
    p = 2 * omega * alpha
    drifting = math_.where(
        theta == 0, lambda: 0, lambda: 4 * theta * alpha * _divided(math_, p, c)
    )
    q = (_squared_kernel(r) + rho) * mean_decay(math_, p) / alpha + drifting
    return mean_decay(math_, c), q


def _divided(math_: Namespace, p: Value, c: Value) -> Value:
    """Minus the third divided difference of exp(-x) at 0, p, c and 2 c, for 0 <= p <= 2 c."""

    def pair(a: Value, b: Value) -> Value:
        return -math_.exp(-a) * mean_decay(math_, b - a)

    def explicit() -> Value:
        # Divided by the wider gap of each three points.
        below = math_.stable(
            p < c,
            lambda: (pair(p, c) - pair(0 * p, p)) / c,
            lambda: (pair(c, p) - pair(0 * p, c)) / p,
        )
        above = math_.stable(
            p < c,
            lambda: (pair(c, 2 * c) - pair(p, c)) / (2 * c - p),
            lambda: (pair(p, 2 * c) - pair(c, p)) / c,
        )
        return (below - above) / (2 * c)

    def series() -> Value:
        # Complete homogeneous polynomials of p, c and 2 c, by powers of one, two and three.
        total = 0 * c
        of_one = 1
        of_two = 1
        of_three = 1
        factor = math_.convert(1) / 6
        for k in range(_terms(math_)):
            total = total + factor * of_three
            of_one = of_one * 2 * c
            of_two = of_two * c + of_one
            of_three = of_three * p + of_two
            factor = -factor / (k + 4)
        return total

    return math_.stable(c >= _SPREAD, explicit, series)


def _terms(math_: Namespace) -> int:
    """Terms of the series that reach rounding where all points are at most 1."""
    digits = math_.dps if isinstance(math_, MpMath) else 16
    return 2 + next(k for k in range(10 * digits) if math.lgamma(k + 2) > digits * math.log(10))
