r"""Separate attention between two plateaus: how the head grows that learns a direction.

One head learns one direction, :math:`|k| = |q| = v`,

.. formula: flow

.. math:: \tau \dot v = \lambda^2 v^2 (1 - A v^3),

which has a closed inverse: with :math:`u = A^{1/3} v`,

.. formula: time

.. math:: \frac{\lambda^2 t}{\tau A^{1/3}} = -\frac1u + \int_0^u \frac{s\, ds}{1 - s^3}, \qquad
   \int_0^u \frac{s\, ds}{1 - s^3} = \frac13 \Bigl[ -\ln(1 - u) + \tfrac12 \ln(1 + u + u^2)
   - \sqrt3 \arctan \frac{\sqrt3\, u}{2 + u} \Bigr] .

Time is counted from the pole of the early solution :math:`v = -\tau/(\lambda^2 t)`, where a small
v would diverge if its growth did not saturate.  A head that starts at :math:`v_0` reaches the pole
after :math:`\tau/(\lambda^2 v_0)`, up to a term of the order :math:`v_0^2`.

Notation and range are those of `iclimit.asymptotics.dynamics.plateaus`.

References
----------
Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265), section 4 and its appendix.  The
inverse is not in the paper.

.. symbols:
   v: value weight of the head
   t: time since the pole of the early growth
   u: v over its final value, A^(1/3) v
   A: final value of the head to the power −3
   \lambda: eigenvalue of the direction that the head learns
   \tau: time constant of training, the inverse learning rate
   s: variable of integration
"""

import math

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, check_range, checked
from iclimit.asymptotics.dynamics.plateaus import cube_root, excess
from iclimit.asymptotics.numbers import (
    ArrayMath,
    MpMath,
    Namespace,
    Number,
    SymPyMath,
    Value,
    require,
)
from iclimit.asymptotics.searches import repeat_until_settled

# A value may exceed the fixed point by this relative amount, the rounding error of the latter.
_ROUNDING = 4e-15

# Limit for u -> 1 of the time from the pole, in units of A^(1/3)/lambda^2, plus ln(1 - u)/3.
_END = (math.log(3) / 2 - math.pi / math.sqrt(12)) / 3 - 1

# Most Newton steps; 6 have been enough.
_MOST_STEPS = 100

# Ranges that differ from those of the notation: times from the pole can be negative.
_RANGES = {"eigenvalue": "(0, inf)", "t": "[-inf, inf]"}


def growth_time(
    value: Number,
    *,
    initial_value: Number,
    eigenvalue: Number,
    trace: Number,
    context: Number,
    noise_variance: Number = 0.0,
) -> Value:
    r"""Time in which the value weight of a head that learns one direction grows.

    Parameters
    ----------
    value : number or array
        Value weight at the end, at least ``initial_value`` and at most the fixed point
        :math:`A^{-1/3}`, which takes infinite time.
    initial_value : number or array > 0
        Value weight at the start, below the fixed point.
    eigenvalue : number or array > 0
        Eigenvalue :math:`\lambda` of the direction.
    trace : number or array >= eigenvalue
        Trace of :math:`\Lambda`.
    context : number or array >= 1
        Number N of context pairs.
    noise_variance : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    number or array
        Time in units of :math:`\tau`; NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 is accurate to 1e-12, also if the end is close to the start.  Closer to the fixed point
    than a relative distance :math:`\epsilon < 10^{-3}` the relative error is about
    :math:`10^{-15}/\epsilon`, as float64 does not resolve the distance better.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.growth`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import growth_time
    >>> more = {"eigenvalue": 1, "trace": 2.4, "context": 31}
    >>> round(float(growth_time(0.767, initial_value=0.1, **more)), 2)
    9.12
    """
    math_, values = checked(
        ranges=_RANGES,
        value=value,
        initial_value=initial_value,
        eigenvalue=eigenvalue,
        trace=trace,
        context=context,
        noise_variance=noise_variance,
    )
    root = _inverse_fixed_point(math_, values)
    v = values.value
    v0 = values.initial_value
    with math_.quiet():
        u = root * v
        u0 = root * v0
        step = root * (v - v0)
        grown = v - v0
    check_range(math_, "value - initial_value", grown, "[0, inf)")
    _check_below(math_, "value", u)
    check_range(math_, "initial_value over the fixed point", u0 + 0 * u, "(0, 1)")
    with math_.quiet():
        time = (v - v0) / v / v0 + root * _integral(math_, u, u0, step)
        return math_.finish(time / values.eigenvalue**2)


def escape_time(initial_value: Number, *, eigenvalue: Number) -> Value:
    r"""Leading time :math:`1/(\lambda^2 v_0)` in which a head leaves a small start.

    Parameters
    ----------
    initial_value : number or array > 0
        Value weight :math:`v_0` at the start, aligned with the direction and balanced.
    eigenvalue : number or array > 0
        Eigenvalue :math:`\lambda` of the direction.

    Returns
    -------
    number or array
        Time in units of :math:`\tau` to the pole of the solution for small weights; NumPy and
        other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import escape_time
    >>> float(escape_time(0.1, eigenvalue=0.5))
    40.0
    """
    math_, values = checked(ranges=_RANGES, initial_value=initial_value, eigenvalue=eigenvalue)
    with math_.quiet():
        return math_.finish(1 / values.initial_value / values.eigenvalue**2)


def time_from_pole(
    value: Number,
    *,
    eigenvalue: Number,
    trace: Number,
    context: Number,
    noise_variance: Number = 0.0,
) -> Value:
    r"""Time at which a head reaches a value weight, from the pole of its early growth.

    This is the limit of `growth_time` minus `escape_time` for a vanishing start.  For small values
    it is negative, :math:`-1/(\lambda^2 v)`.

    Parameters
    ----------
    value : number or array >= 0
        Value weight, at most the fixed point :math:`A^{-1/3}`.
    eigenvalue, trace, context, noise_variance
        As in `growth_time`.

    Returns
    -------
    number or array
        Time in units of :math:`\tau`, from minus infinity for 0 to infinity for the fixed point;
        NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 is accurate to 1e-12 relative to :math:`1/(\lambda^2 v)`, as the time itself changes
    sign; near the fixed point it is as accurate as `growth_time`.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.growth`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import time_from_pole
    >>> more = {"eigenvalue": 1, "trace": 2.4, "context": 31}
    >>> [round(float(time_from_pole(v, **more)), 4) for v in (0.1, 0.5, 0.9)]
    [-9.9944, -1.8529, -0.3077]
    """
    math_, values = checked(
        ranges=_RANGES,
        value=value,
        eigenvalue=eigenvalue,
        trace=trace,
        context=context,
        noise_variance=noise_variance,
    )
    root = _inverse_fixed_point(math_, values)
    v = values.value
    check_range(math_, "value", v, "[0, inf)")
    u = root * v
    _check_below(math_, "value", u)
    with math_.quiet():
        time = -math_.divide(1, v) + root * _integral(math_, u, 0 * u, u)
        return math_.finish(time / values.eigenvalue**2)


def head_growth(
    t: Number, *, eigenvalue: Number, trace: Number, context: Number, noise_variance: Number = 0.0
) -> Value:
    r"""Value weight of a head at a time from the pole of its early growth.

    The inverse of `time_from_pole`: the solution of the flow that comes from zero.

    Parameters
    ----------
    t : number or array in [-inf, inf]
        Time in units of :math:`\tau` from the pole: negative before it, unlike other times of
        training.  At a time s after a small start :math:`v_0` it is s minus the `escape_time` of
        :math:`v_0`.
    eigenvalue, trace, context, noise_variance
        As in `growth_time`.

    Returns
    -------
    float or ndarray
        Value weight, from 0 for minus infinity to the fixed point :math:`A^{-1/3}` for infinity,
        with a relative error below 1e-12; the broadcast of all arguments.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    Newton's method in :math:`z = 1/u - 1`.  In this variable the equation is increasing and
    concave, so that the method converges from any start below the root.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.growth`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import head_growth
    >>> head_growth([-10, -1, 0, 2], eigenvalue=1, trace=2.4, context=31).round(4)
    array([0.0999, 0.7308, 0.9354, 0.9658])
    """
    math_, values = checked(
        systems="numpy",
        ranges=_RANGES,
        t=t,
        eigenvalue=eigenvalue,
        trace=trace,
        context=context,
        noise_variance=noise_variance,
    )
    root = _inverse_fixed_point(math_, values)
    lam = values.eigenvalue
    with math_.quiet():
        scaled = lam * values.t / root * lam  # the square of the eigenvalue alone may underflow
        # Beyond these ends u is 1/(-scaled) and 1 in float64.
        time = np.clip(scaled, -1e200, 200.0)
        # The integral is positive, so 1/u >= -time; and the end is approached exponentially.
        z = np.maximum(-time - 1, 0.3 * np.exp(-3 * np.maximum(time - _END, 0)))

        def newton(z: Value, time: Value) -> Value:
            u = 1 / (1 + z)
            remaining = z / (1 + z)
            wrong = 1 + z - _integral(math_, u, 0 * u, u, remaining) + time
            return np.maximum(z - wrong * remaining * (1 + u + u**2), z / 2)

        z = repeat_until_settled(math_, newton, z, [time], _MOST_STEPS)
        u = np.where(scaled < -1e200, -1 / scaled, 1 / (1 + z))
        return math_.finish(u / root)


def _inverse_fixed_point(math_: Namespace, values: CheckedValues) -> Value:
    """Cube root of A, one over the fixed point; a ValueError if trace is below eigenvalue."""
    lam = values.eigenvalue
    trace = values.trace
    # A trace that was summed in another order may be smaller than the eigenvalue by rounding.
    slack = 0 if isinstance(math_, SymPyMath) else _ROUNDING * trace
    check_range(math_, "trace - eigenvalue", trace - lam + slack, "[0, inf)")
    return cube_root(math_, lam + excess(lam, trace, values.context, values.noise_variance))


def _check_below(math_: Namespace, name: str, u: Value) -> None:
    """Check a value over the fixed point, with room for the rounding of the latter."""
    slack = _ROUNDING if isinstance(math_, ArrayMath) else 0
    if isinstance(math_, MpMath):
        slack = 16 * math_.tiny ** (math_.convert(1) / 4)
    require(math_, f"{name} over the fixed point", u, lambda x: x <= 1 + slack, "<= 1")


def _integral(
    math_: Namespace, u: Value, u0: Value, step: Value, remaining: Value = None
) -> Value:
    r"""Integral of :math:`s/(1 - s^3)` from u0 to u = u0 + step, remaining = 1 - u.

    Each of the three terms is computed from the step, so that they do not cancel.  Only their
    leading terms for small u do, where 1/u is much larger.
    """
    if remaining is None:
        remaining = math_.stable(u < 1, lambda: 1 - u, lambda: 0 * u)
    third = math_.convert(1) / 3
    root3 = math_.sqrt(math_.convert(3))
    angle = math_.atan(root3 * step / (2 + u + u0 + 2 * u * u0))
    square = math_.log1p(step * (1 + u + u0) / (1 + u0 + u0**2))
    return third * (math_.log1p(math_.divide(step, remaining)) + square / 2 - root3 * angle)
