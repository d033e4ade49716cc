r"""Tasks that never stop changing: the loss of a gated delta rule in endless contexts.

In the setting of `iclimit.asymptotics.recurrent.delta_rule` a memory decays at a rate
:math:`\omega`, by :math:`e^{-\omega/d}` a token, and tasks change at a rate :math:`\vartheta`.
With :math:`R = E \langle u, w\rangle/d` and :math:`P = E |u|^2/d`, per d tokens,

.. math:: \dot R = -(\vartheta + \omega + \beta) R + \beta, \qquad
   \dot P = -(2 \omega + 2 \beta - \beta^2) P + 2 \beta (1 - \beta) R + \beta^2 (1 + \rho),

in the limit, in which the order of decay and correction does not matter.  The stationary loss
:math:`v = 1 - 2 R + P` is a sum of positive terms,

.. math:: v = \frac{2 \omega (\vartheta + \omega) + 2 \beta \vartheta
   + \beta^2 \rho\, (\beta + \vartheta + \omega)}
   {(\beta + \vartheta + \omega) (2 \omega + 2 \beta - \beta^2)} .

Where the denominator is not positive the loss grows without end.  The best gate is the task's own
decay, :math:`\omega = \vartheta`, and then

.. formula: optimum

.. math:: v = \frac{2 \vartheta + \beta^2 \rho}{2 \vartheta + 2 \beta - \beta^2}, \qquad
   \beta = \frac v{v + \rho}, \qquad
   v = \frac{\vartheta (1 - \rho) + \sqrt{\vartheta^2 (1 - \rho)^2
   + 2 \vartheta \rho (1 + 2 \vartheta)}}{1 + 2 \vartheta} .

At this optimum :math:`R = P = 1 - v`: whether a trained layer has reached it can be read off its
predictions.  The formulas are derived here; gated delta rules are those of Yang, Kautz and
Hatamizadeh (arXiv:2412.06464).

.. symbols:
   \beta: step of the delta rule
"""

from __future__ import annotations

from dataclasses import dataclass

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Number, Value
from iclimit.results import Result

_RANGES = {"drift": "(0, inf)", "step_size": "(0, inf)"}


@dataclass(frozen=True, repr=False)
class Tracking(Result):
    """Best gated delta rule for tasks that change, with its stationary error.

    Attributes
    ----------
    step_size : number or array
        Step of the delta rule.
    forgetting : number or array
        Rate at which the memory decays.
    error : number or array
        Mean squared error on a noisy query label.
    """

    step_size: Value
    forgetting: Value
    error: Value


def tracking_error(
    *, drift: Number, rho: Number, step_size: Number, forgetting: Number | None = None
) -> Value:
    r"""Stationary error of a gated delta rule on tasks that change.

    Parameters
    ----------
    drift : number or array > 0
        Rate :math:`\vartheta` at which tasks change.
    rho : number or array >= 0
        Variance of the label noise.
    step_size : number or array > 0
        Step :math:`\beta`.
    forgetting : number or array >= 0, optional
        Rate :math:`\omega` at which the memory decays, 0 for a delta rule without a gate; by
        default that of the tasks, which is the best.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label in an endless context; NumPy and other arrays,
        mpmath numbers, SymPy expressions.  ``inf`` where the memory is not stable.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.tracking`; the limit of large dimensions.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import tracking_error
    >>> tracking_error(drift=0.2, rho=0.25, step_size=[0.6, 2.0, 2.5]).round(4)
    array([0.6452, 3.75  ,    inf])
    >>> round(float(tracking_error(drift=0.2, rho=0.25, step_size=0.6, forgetting=0)), 4)
    0.7143
    """
    if forgetting is None:
        forgetting = drift
    math_, values = checked(
        ranges=_RANGES, drift=drift, rho=rho, step_size=step_size, forgetting=forgetting
    )
    theta = values.drift
    rho = values.rho
    beta = values.step_size
    omega = values.forgetting
    with math_.quiet():
        lost = theta + omega
        stability = 2 * omega + beta * (2 - beta)
        top = 2 * omega * lost + 2 * beta * theta + beta**2 * rho * (beta + lost)
        stable = top / ((beta + lost) * stability)
        error = math_.where(stability > 0, lambda: rho + stable, lambda: math_.inf)
        return math_.finish(error)


def optimal_tracking(*, drift: Number, rho: Number) -> Tracking:
    r"""Best gated delta rule for tasks that change, in endless contexts.

    Parameters
    ----------
    drift : number or array > 0
        Rate :math:`\vartheta` at which tasks change.
    rho : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    Tracking
        With fields ``step_size``, ``forgetting`` and ``error``; NumPy and other arrays, mpmath
        numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.tracking`; the limit of large dimensions.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import optimal_tracking
    >>> optimal_tracking(drift=0.2, rho=0.25)
    Tracking(step_size=0.612452, forgetting=0.2, error=0.645081)
    """
    math_, values = checked(ranges=_RANGES, drift=drift, rho=rho)
    theta = values.drift
    rho = values.rho
    with math_.quiet():
        excess = theta * (1 - rho)
        root = math_.sqrt(excess**2 + 2 * theta * rho * (1 + 2 * theta))
        # Two forms of one root, so that no digits are lost for large noise.
        loss = math_.stable(
            rho <= 1,
            lambda: (excess + root) / (1 + 2 * theta),
            lambda: 2 * theta * rho / (root - excess),
        )
        step = loss / (loss + rho)
        gate = theta + 0 * loss
        return Tracking(*map(math_.finish, (step, gate, rho + loss)))
