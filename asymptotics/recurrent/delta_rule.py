r"""The delta rule in the limit: its loss at a constant step and at the best ones.

A memory of d numbers reads pairs with :math:`x \sim N(0, I_d/d)`, :math:`w \sim N(0, I_d)` and
labels :math:`y = \langle w, x\rangle + \epsilon` of noise variance :math:`\rho`, and corrects what
it would have answered,

.. math:: u' = u + \beta\, (y - \langle u, x\rangle)\, x ,

as DeltaNet (Yang et al., arXiv:2406.06484) does in each channel of its values.  The mean squared
error on a noisy query label is :math:`\rho + v`, with v = 1 before the first pair.  One pair
changes it to

.. math:: v' = v - \frac{2 \beta}d v + \frac{\beta^2}d \Bigl[\Bigl(1 + \frac2d\Bigr) v + \rho\Bigr]

because :math:`E\, x x^\top x x^\top = (1 + 2/d)\, I/d`.

*Drift.*  Tasks may change from token to token, :math:`w' = \phi w + \sqrt{1 - \phi^2}\, \xi` with
:math:`\phi = e^{-\vartheta/d}`.  A gated delta rule multiplies its memory by a gate, here by
:math:`\phi` after each pair, its best value.  Then :math:`v'' = 1 - \phi^2 (1 - v')`.

*Constant step.*  Both maps are affine, and after :math:`\alpha d` pairs

.. formula: error

.. math:: v = e^{-\alpha K} + \alpha\, S\, \frac{E(\alpha K)}{E(K/d)}, \qquad
   E(z) = \frac{1 - e^{-z}}z ,

.. math:: K = 2\vartheta - d \ln\Bigl[1 - \frac{\beta}d \Bigl(2 - \beta - \frac{2\beta}d\Bigr)
   \Bigr], \qquad
   S = d\,(1 - \phi^2) + \phi^2 \beta^2 \rho ,

in the limit :math:`K = 2\vartheta + \beta (2 - \beta)` and :math:`S = 2\vartheta + \beta^2 \rho`.
The loss stays finite in long contexts while K > 0: without drift for
:math:`\beta < 2/(1 + 2/d)`.

*Best steps.*  Minimising v' over :math:`\beta` at every token gives
:math:`\beta = v/(v + \rho)` and :math:`dv/d\alpha = -v^2/(v + \rho)`, so that
:math:`v = e^{-y}` with

.. formula: optimum

.. math:: y + \rho\, (e^y - 1) = \alpha, \qquad
   v = \frac\rho{W\bigl(\rho\, e^{\rho + \alpha}\bigr)},

W being Lambert's function.  As v' increases with v, the best step at every token is also best for
all later ones.  It is the best of all recurrences
:math:`u' = \gamma (u - \beta x \langle u, x\rangle) + \eta x y` with numbers
:math:`\gamma, \beta, \eta` that may depend on the token but not on its input: with u scaled to
:math:`E \langle u, w\rangle = E |u|^2`, the innovation :math:`x (y - \langle u, x\rangle)` is
orthogonal to u and to :math:`x \langle u, x\rangle`, so the projection of w on what a recurrence
can reach is :math:`u + \beta x (y - \langle u, x\rangle)`.

Long contexts end at :math:`v \approx \rho/(\alpha - \ln \alpha)`, the rate of the Bayes estimator,
whose memory is d times larger.  Without noise :math:`\beta = 1` and :math:`v = e^{-\alpha}`.
The formulas are derived here.

.. symbols:
   K: rate at which v decays, 2ϑ + β(2 − β) in the limit; ϑ is the drift, β the step
   S: source of v, 2ϑ + β²ρ in the limit
   E(z): mean of exp(−x) for x from 0 to z
   e: 2.718...
   y: −ln v
   W: Lambert's function
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.noisy_decay import noisy_decay
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.searches import find_root
from iclimit.results import Result

_RANGES = {"alpha": "(0, inf)", "dim": "[1, inf]"}


@dataclass(frozen=True, repr=False)
class DeltaStep(Result):
    """Best step of the delta rule and its error.

    Attributes
    ----------
    step_size : number or array
        Step.
    error : number or array
        Mean squared error on a noisy query label.
    """

    step_size: Value
    error: Value


def mean_decay(math_: Namespace, z: Value) -> Value:
    """E(z) = (1 - exp(-z))/z, the mean of exp(-z t) over t from 0 to 1."""
    return math_.where(z == 0, lambda: 1, lambda: -math_.expm1(-z) / z)


def delta_rule_error(
    *, alpha: Number, rho: Number, step_size: Number, drift: Number = 0.0, dim: Number = np.inf
) -> Value:
    r"""Error of the delta rule at a constant step.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    step_size : number or array >= 0
        Step :math:`\beta`.
    drift : number or array >= 0
        Rate :math:`\vartheta` at which tasks change.  The memory decays at the same rate, which is
        the best gate.
    dim : number or array in [1, inf]
        Dimension; the formula is exact for Gaussian inputs.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label; NumPy and other arrays, mpmath numbers, SymPy
        expressions.  Steps beyond the edge of stability have an error that grows with the context;
        ``inf`` where it exceeds float64.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.delta_rule`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import delta_rule_error
    >>> delta_rule_error(alpha=[1, 2, 4], rho=0.25, step_size=0.64).round(4)
    array([0.7372, 0.5224, 0.3948])
    >>> from sympy import Symbol
    >>> delta_rule_error(alpha=Symbol("alpha", positive=True), rho=0, step_size=1)
    exp(-alpha)
    """
    math_, values = checked(
        ranges=_RANGES, alpha=alpha, rho=rho, step_size=step_size, drift=drift, dim=dim
    )
    alpha = values.alpha
    rho = values.rho
    beta = values.step_size
    theta = values.drift
    d = values.dim
    with math_.quiet():
        limit = math_.isinf(d)
        rate = 2 * theta + math_.where(
            limit,
            lambda: beta * (2 - beta),
            lambda: -d * math_.log1p(-beta * (2 - beta - 2 * beta / d) / d),
        )
        source = beta**2 * rho * math_.exp(-2 * theta / d) + 2 * theta * mean_decay(
            math_, 2 * theta / d
        )
        length = alpha * mean_decay(math_, alpha * rate) / mean_decay(math_, rate / d)
        # Without a source the length may overflow.
        added = math_.stable(source > 0, lambda: source * length, lambda: 0 * source)
        return math_.finish(rho + math_.exp(-alpha * rate) + added)


def optimal_delta_step(*, alpha: Number, rho: Number) -> DeltaStep:
    r"""Step for the next token, and the error, where every token so far had its best step.

    Parameters
    ----------
    alpha : number or array in (0, inf]
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    DeltaStep
        With fields ``step_size`` and ``error``; NumPy and other arrays, mpmath numbers, SymPy
        expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The limit of large dimensions; `recurrent_errors` has the best steps at finite dimension, and
    with drift those that are best for the end of a context.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.delta_rule`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import optimal_delta_step
    >>> best = optimal_delta_step(alpha=[1, 2, 4], rho=0.25)
    >>> best.error.round(4), best.step_size.round(3)
    (array([0.7315, 0.5179, 0.3682]), array([0.658, 0.517, 0.321]))
    """
    math_, values = checked(ranges={"alpha": "(0, inf]"}, alpha=alpha, rho=rho)
    alpha = values.alpha
    rho = values.rho
    with math_.quiet():
        remaining = math_.where(
            math_.isinf(alpha), lambda: 0 * rho, lambda: noisy_decay(math_, alpha, rho)
        )
        # Without noise the step is 1, also where nothing remains.
        step = math_.where(rho > 0, lambda: remaining / (remaining + rho), lambda: 1)
        return DeltaStep(math_.finish(step), math_.finish(rho + remaining))


def constant_delta_step(*, alpha: Number, rho: Number, drift: Number = 0.0) -> DeltaStep:
    r"""Constant step of the delta rule with the least error at the end of a context.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    drift : number or array >= 0
        Rate :math:`\vartheta` at which tasks change; the memory decays at the same rate.

    Returns
    -------
    DeltaStep
        With fields ``step_size`` and ``error``, numbers or NumPy arrays.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.delta_rule`; the limit of large dimensions.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import constant_delta_step
    >>> best = constant_delta_step(alpha=[1, 2, 4], rho=0.25)
    >>> best.error.round(4), best.step_size.round(3)
    (array([0.7325, 0.5224, 0.3787]), array([0.726, 0.64 , 0.481]))
    """
    math_, values = checked(systems="numpy", ranges=_RANGES, alpha=alpha, rho=rho, drift=drift)
    with math_.quiet():
        # Zeros of the shape of all arguments.
        zeros = 0 * (values.alpha + values.rho + values.drift)
        alpha = values.alpha + zeros
        rho = values.rho + zeros
        drift = values.drift + zeros
        setting = {"alpha": alpha, "rho": rho, "drift": drift}
        bracket = (0 * alpha, 0 * alpha + 1)
        step = find_root(math_, _slope, bracket, setting, "best step of the delta rule")
        error = delta_rule_error(alpha=alpha, rho=rho, drift=drift, step_size=step)
    return DeltaStep(math_.finish(step), error)


def _slope(beta: Value, alpha: Value, rho: Value, theta: Value) -> Value:
    """Half the derivative of the loss by a constant step, in the limit."""
    with np.errstate(all="ignore"):
        rate = 2 * theta + beta * (2 - beta)
        source = 2 * theta + beta**2 * rho
        z = alpha * rate
        decay = np.exp(-z)
        ended = alpha * np.where(z == 0, 1.0, -np.expm1(-z) / z)
        # Derivative of ended by -rate; the series where it cancels.
        slope = np.where(z < 1e-3, alpha**2 * (0.5 - z / 3), (ended - alpha * decay) / rate)
        return beta * rho * ended - (1 - beta) * (alpha * decay + source * slope)
