r"""Training of linear attention with separate key and query: plateaus, one for each direction.

The model predicts :math:`\hat y = \beta^\top \bigl(\sum_h v_h k_h q_h^\top\bigr) x_q` from
:math:`\beta = \frac1N \sum_n y_n x_n`.  Inputs, tasks, noise, loss and flow are those of
`iclimit.asymptotics.dynamics.merged`: :math:`E \beta \beta^\top` has the eigenvalues
:math:`\lambda_d^2 c_d` with :math:`\lambda_d c_d = \lambda_d + (\lambda_d + \operatorname{tr}
\Lambda + \sigma^2)/N =: A_d`.  The flow

.. math:: \tau \dot v = k^\top R q, \quad \tau \dot k = v R q, \quad \tau \dot q = v R^\top k,
   \qquad R = \Lambda^2 - E[\beta \beta^\top] \Bigl(\sum_h v_h k_h q_h^\top\Bigr) \Lambda

(for each head) has :math:`2^D` fixed points of different losses, one for each set S of directions,

.. math:: \sum_h v_h k_h q_h^\top = \sum_{d \in S} A_d^{-1} e_d e_d^\top, \qquad
   L_S = \operatorname{tr} \Lambda + \sigma^2 - \sum_{d \in S} \lambda_d/c_d .

From a small start training passes near those of the m largest eigenvalues, m = 0, 1, ..., D: there
the model performs principal component regression in context.  The last one is also where merged
attention ends.  Between two of them one head learns one direction, :math:`|k| = |q| = v`,

.. math:: \tau \dot v = \lambda^2 v^2 (1 - A v^3),

which has a closed inverse: with :math:`u = A^{1/3} v`,

.. math:: \frac{\lambda^2 t}{\tau A^{1/3}} = -\frac1u + \int_0^u \frac{s\, ds}{1 - s^3}, \qquad
   \int_0^u \frac{s\, ds}{1 - s^3} = \frac13 \Bigl[ -\ln(1 - u) + \tfrac12 \ln(1 + u + u^2)
   - \sqrt3 \arctan \frac{\sqrt3\, u}{2 + u} \Bigr] .

Here time is counted from the pole of the solution :math:`v = -\tau/(\lambda^2 t)` for small v,
where it would diverge if it stayed valid.  From a start :math:`v_0` the pole is
:math:`\tau/(\lambda^2 v_0)` away, up to a term of the order :math:`v_0^2`.

References
----------
Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265), section 4 and its appendix.  The
inverse and the label noise are not in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics.inputs import (
    NOT_NEGATIVE,
    collected,
    descending,
    elementary,
    excess,
    given_eigenvalues,
    given_numbers,
)
from iclimit.asymptotics.numbers import (
    ArrayMath,
    MpMath,
    Namespace,
    Number,
    SymPyMath,
    require,
)

_MOST_DIRECTIONS = 20
"""A million fixed points."""

_ROUNDING = 4e-15
"""Relative excess over the fixed point that is taken for its rounding."""

_END = (math.log(3) / 2 - math.pi / math.sqrt(12)) / 3 - 1
"""Limit for u -> 1 of the time from the pole, in units of A^(1/3)/lambda^2, plus ln(1 - u)/3."""

_MOST_STEPS = 100
"""Newton steps; 6 have been enough."""


def plateau_losses(eigenvalues: Any, *, context: Number, noise_variance: Number = 0.0) -> Any:
    r"""Losses of the plateaus that separate attention passes, and of its end.

    Parameters
    ----------
    eigenvalues : array (..., D), or sequence of D mpmath or SymPy numbers
        Eigenvalues of :math:`\Lambda`, >= 0 and not all zero, in any order; SymPy expressions in
        descending order, as they are not sorted.
    context : number or array >= 1
        Number N of context pairs.
    noise_variance : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    ndarray (..., D + 1), or tuple of mpmath or SymPy numbers
        Mean squared error on a noisy query label (no 1/2) when the m largest directions are
        learned, m = 0, ..., D.  The first is the loss at zero weights, the last the one to which
        separate and merged attention converge.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import plateau_losses
    >>> plateau_losses([0.25, 0.45, 0.7, 1], context=31).round(4)
    array([2.4   , 1.4988, 0.8863, 0.5127, 0.3264])
    >>> from sympy import symbols
    >>> N, lam = symbols("N lambda", positive=True)
    >>> plateau_losses([lam], context=N)[1].factor()
    2*lambda/(N + 2)
    """
    math_, lam, values = given_eigenvalues(
        eigenvalues, allow_zero=True, context=context, noise_variance=noise_variance
    )
    N, noise = values["context"], values["noise_variance"]
    lam = descending(math_, lam)
    with math_.quiet():
        residuals = _residuals(lam, N, noise)
        # Sums of positive terms: what is left of the learned directions, and the others.
        others = [0 * N * noise * lam[0]]
        for value in reversed(lam):
            others.append(others[-1] + value)
        losses, learned = [noise + others[-1]], noise
        for residual, other in zip(residuals, reversed(others[:-1]), strict=True):
            learned = learned + residual
            losses.append(learned + other)
        return collected(math_, losses)


def plateau_head_values(eigenvalues: Any, *, context: Number, noise_variance: Number = 0.0) -> Any:
    r"""Value weight of a head that has learned a direction, :math:`(\lambda_d c_d)^{-1/3}`.

    For rank one and a balanced start, where the norms of key and query are the same.

    Parameters
    ----------
    eigenvalues : array (..., D), or sequence of D mpmath or SymPy numbers
        Eigenvalues of :math:`\Lambda`, > 0, in any order; SymPy expressions in descending order.
    context, noise_variance
        As in `plateau_losses`.

    Returns
    -------
    ndarray (..., D), or tuple of mpmath or SymPy numbers
        For the directions in descending order of the eigenvalues, as they are learned.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import plateau_head_values
    >>> plateau_head_values([1, 0.7, 0.45, 0.25], context=31).round(4)
    array([0.9659, 1.0772, 1.2265, 1.4392])
    """
    math_, lam, values = given_eigenvalues(
        eigenvalues, context=context, noise_variance=noise_variance
    )
    lam = descending(math_, lam)
    with math_.quiet():
        trace, (N, noise) = sum(lam), values.values()
        return collected(
            math_, [1 / _cube_root(math_, x + excess(x, trace, N, noise)) for x in lam]
        )


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """Fixed points of separate attention of rank one.

    Attributes
    ----------
    learned : ndarray of bool (2^D, D)
        Which directions each of them has learned.
    losses : ndarray (2^D,), or tuple of mpmath or SymPy numbers
        Mean squared error on a noisy query label (no 1/2).
    """

    learned: np.ndarray
    losses: Any


def fixed_point_losses(
    eigenvalues: Any, *, context: Number, noise_variance: Number = 0.0
) -> FixedPoints:
    r"""Losses at all fixed points of the training of separate attention of rank one.

    Parameters
    ----------
    eigenvalues : array (D,), or sequence of D mpmath or SymPy numbers
        Eigenvalues of :math:`\Lambda`, > 0, D <= 20.
    context : number >= 1
        Number N of context pairs.
    noise_variance : number >= 0
        Variance of the label noise.

    Returns
    -------
    FixedPoints
        With fields ``learned`` and ``losses``; the directions in the order of the eigenvalues, the
        points in that of binary numbers, the first direction as the first digit.

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
    >>> from iclimit.asymptotics.dynamics import fixed_point_losses
    >>> points = fixed_point_losses([1, 0.5], context=10)
    >>> points.learned.astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> points.losses.round(3)
    array([1.5  , 1.143, 0.7  , 0.343])
    """
    math_, lam, values = given_eigenvalues(
        eigenvalues, context=context, noise_variance=noise_variance
    )
    N, noise = values["context"], values["noise_variance"]
    if isinstance(math_, ArrayMath) and any(np.ndim(x) for x in (lam[0], N, noise)):
        raise ValueError(
            "eigenvalues must have shape (D,), context and noise_variance (), got "
            f"{(len(lam), *np.shape(lam[0]))}, {np.shape(N)}, {np.shape(noise)}"
        )
    if len(lam) > _MOST_DIRECTIONS:
        raise ValueError(f"eigenvalues must be at most {_MOST_DIRECTIONS}, got {len(lam)}")
    residuals = _residuals(lam, N, noise)
    losses: Any = np.reshape(noise, (1,)) if isinstance(math_, ArrayMath) else [noise]
    for value, residual in zip(reversed(lam), reversed(residuals), strict=True):
        if isinstance(math_, ArrayMath):
            losses = np.concatenate([losses + value, losses + residual])
        else:
            losses = [*(x + value for x in losses), *(x + residual for x in losses)]
    numbers = np.arange(2 ** len(lam))[:, None] >> np.arange(len(lam))[::-1]
    if not isinstance(math_, ArrayMath):
        losses = tuple(losses)
    return FixedPoints((numbers & 1).astype(bool), losses)


def growth_time(
    value: Number,
    *,
    start: Number,
    eigenvalue: Number,
    trace: Number,
    context: Number,
    noise_variance: Number = 0.0,
) -> Any:
    r"""Time in which the value weight of a head that learns one direction grows.

    Parameters
    ----------
    value : number or array
        Value weight at the end, at least ``start`` and at most the fixed point
        :math:`A^{-1/3}`, which takes infinite time.
    start : number or array > 0
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
    float64 is accurate to 1e-12, also for an end near the start.  Within a part
    :math:`\epsilon < 10^{-3}` of the fixed point the relative error is about
    :math:`10^{-15}/\epsilon`, since the distance is not resolved better.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.plateaus`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import growth_time
    >>> more = {"eigenvalue": 1, "trace": 2.4, "context": 31}
    >>> round(float(growth_time(0.767, start=0.1, **more)), 2)
    9.12
    """
    math_, values, root = _direction(
        value=value, start=start, eigenvalue=eigenvalue, trace=trace,
        context=context, noise_variance=noise_variance,
    )  # fmt: skip
    v, v0, lam = (values[name] for name in ("value", "start", "eigenvalue"))
    with math_.quiet():
        u, u0, step = root * v, root * v0, root * (v - v0)
        grown = v - v0
    require(math_, "value - start", grown, *NOT_NEGATIVE)
    _check_below(math_, "value", u, allow_end=True)
    _check_below(math_, "start", u0 + 0 * u, allow_end=False)
    with math_.quiet():
        time = (v - v0) / v / v0 + root * _integral(math_, u, u0, step)
        return math_.finish(time / lam**2)


def escape_time(start: Number, *, eigenvalue: Number) -> Any:
    r"""Leading time :math:`1/(\lambda^2 v_0)` in which a head leaves a small start.

    Parameters
    ----------
    start : number or array > 0
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
    math_, values = given_numbers(start=start, eigenvalue=eigenvalue)
    with math_.quiet():
        return math_.finish(1 / values["start"] / values["eigenvalue"] ** 2)


def time_from_pole(
    value: Number,
    *,
    eigenvalue: Number,
    trace: Number,
    context: Number,
    noise_variance: Number = 0.0,
) -> Any:
    r"""Time at which a head reaches a value weight, from the pole of its early growth.

    The limit of `growth_time` minus `escape_time` for a vanishing start: negative for small
    values, where it is :math:`-1/(\lambda^2 v)`.

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
    float64 is accurate to 1e-12 relative to :math:`1/(\lambda^2 v)`, and near the fixed point as
    `growth_time`; the time itself changes sign.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.plateaus`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import time_from_pole
    >>> more = {"eigenvalue": 1, "trace": 2.4, "context": 31}
    >>> [round(float(time_from_pole(v, **more)), 4) for v in (0.1, 0.5, 0.9)]
    [-9.9944, -1.8529, -0.3077]
    """
    math_, values, root = _direction(
        value=value, eigenvalue=eigenvalue, trace=trace,
        context=context, noise_variance=noise_variance,
    )  # fmt: skip
    v, lam = values["value"], values["eigenvalue"]
    require(math_, "value", v, *NOT_NEGATIVE)
    u = root * v
    _check_below(math_, "value", u, allow_end=True)
    with math_.quiet():
        time = -math_.divide(1, v) + root * _integral(math_, u, 0 * u, u)
        return math_.finish(time / lam**2)


def head_growth(
    t: Any,
    *,
    eigenvalue: Any,
    trace: Any,
    context: Any,
    noise_variance: Any = 0.0,
) -> Any:
    r"""Value weight of a head at a time from the pole of its early growth.

    The inverse of `time_from_pole`: the solution of the flow that comes from zero.

    Parameters
    ----------
    t : number or array
        Time in units of :math:`\tau`, from minus to plus infinity.
    eigenvalue, trace, context, noise_variance
        As in `growth_time`.

    Returns
    -------
    float or ndarray
        Value weight, from 0 to the fixed point :math:`A^{-1/3}`, with a relative error below
        1e-12; the broadcast of all arguments.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    Newton's method in :math:`z = 1/u - 1`, in which the equation is increasing and concave: from a
    start below the root it converges without fail.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.plateaus`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import head_growth
    >>> head_growth([-10, -1, 0, 2], eigenvalue=1, trace=2.4, context=31).round(4)
    array([0.0999, 0.7308, 0.9354, 0.9658])
    """
    math_, values, root = _direction(
        numpy_only=True, t=t, eigenvalue=eigenvalue, trace=trace,
        context=context, noise_variance=noise_variance,
    )  # fmt: skip
    t, lam = values["t"], values["eigenvalue"]
    require(math_, "t", t, lambda x: x == x, "a number")
    with math_.quiet():
        given = lam**2 * t / root
        # Beyond these ends u is 1/(-given) and 1 in float64.
        time = np.clip(given, -1e200, 200.0)
        # The integral is positive, so 1/u >= -time; and the end is approached exponentially.
        z = np.maximum(-time - 1, 0.3 * np.exp(-3 * np.maximum(time - _END, 0)))
        for _ in range(_MOST_STEPS):
            u, left = 1 / (1 + z), z / (1 + z)
            wrong = 1 + z - _integral(math_, u, 0 * u, u, left) + time
            step = wrong * left * (1 + u + u**2)
            z = np.maximum(z - step, z / 2)
            if np.all(np.abs(step) <= 1e-15 * (1 + z)):
                break
        u = np.where(given < -1e200, -1 / given, 1 / (1 + z))
        return math_.finish(u / root)


def _direction(numpy_only: bool = False, **given: Any) -> tuple[Namespace, dict[str, Any], Any]:
    """Number system, checked arguments and the cube root of A."""
    math_, values = given_numbers(numpy_only, **given)
    lam, trace = values["eigenvalue"], values["trace"]
    require(math_, "trace - eigenvalue", trace - lam + _slack(math_, trace), *NOT_NEGATIVE)
    fluctuation = excess(lam, trace, values["context"], values["noise_variance"])
    return math_, values, _cube_root(math_, lam + fluctuation)


def _slack(math_: Namespace, trace: Any) -> Any:
    """Allowance for a trace that has been summed in another order."""
    return 0 if isinstance(math_, SymPyMath) else _ROUNDING * trace


def _cube_root(math_: Namespace, value: Any) -> Any:
    return value ** (math_.convert(1) / 3)


def _residuals(lam: list[Any], context: Any, noise_variance: Any) -> list[Any]:
    """Part of the loss that stays when a direction is learned, lambda (1 - 1/c)."""
    trace = sum(lam)
    extra = [excess(x, trace, context, noise_variance) for x in lam]
    return [x * e / (x + e) for x, e in zip(lam, extra, strict=True)]


def _check_below(math_: Namespace, name: str, u: Any, *, allow_end: bool) -> None:
    """Check a value over the fixed point, with room for the rounding of the latter."""
    slack = _ROUNDING if isinstance(math_, ArrayMath) else 0
    if isinstance(math_, MpMath):
        slack = 16 * math_.tiny ** (math_.convert(1) / 4)
    if allow_end:
        require(math_, f"{name} over the fixed point", u, lambda x: x <= 1 + slack, "<= 1")
    else:
        require(math_, f"{name} over the fixed point", u, lambda x: x < 1, "< 1")


def _integral(math_: Namespace, u: Any, u0: Any, step: Any, left: Any = None) -> Any:
    r"""Integral of :math:`s/(1 - s^3)` from u0 to u = u0 + step, left = 1 - u.

    Each of the three terms is a function of the step: nothing cancels but their leading terms for
    small u, where 1/u is much larger.
    """
    if left is None:
        left = math_.stable(u < 1, lambda: 1 - u, lambda: 0 * u)
    third = math_.convert(1) / 3
    root3 = math_.sqrt(math_.convert(3))
    angle = elementary(math_, "atan", root3 * step / (2 + u + u0 + 2 * u * u0))
    square = math_.log1p(step * (1 + u + u0) / (1 + u0 + u0**2))
    return third * (math_.log1p(math_.divide(step, left)) + square / 2 - root3 * angle)
