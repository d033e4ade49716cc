"""Images of eigenvalues, and of an interval of them, under given layers of GD++.

A layer maps an eigenvalue x to x (1 - gamma x)^2; see `iclimit.asymptotics.gdpp.condition_number`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import broadcast_shape, checked
from iclimit.asymptotics.gdpp.condition_number import by_layer
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, Value, require

_FINITE = {"gammas": "(-inf, inf)", "eigenvalues": "(-inf, inf)"}


@dataclass(frozen=True)
class SpectralInterval:
    """Smallest interval that holds the spectrum at the start and after every layer.

    Attributes
    ----------
    lower, upper : array (..., steps + 1) or tuple
        Ends.
    condition_number : array (..., steps + 1) or tuple
        Their ratio; infinite where the lower end is 0.
    """

    lower: Value
    upper: Value
    condition_number: Value


def eigenvalues_after(eigenvalues: Number, *, gammas: ArrayLike) -> Value:
    r"""Eigenvalues at the start and after every layer, :math:`\lambda (1 - \gamma\lambda)^2`.

    Parameters
    ----------
    eigenvalues : number or array
        Eigenvalues; one at a time for mpmath and SymPy numbers.
    gammas : array (..., steps), or sequence of mpmath or SymPy numbers
        :math:`\gamma` of every layer, of any sign.  Without its last axis it broadcasts with
        eigenvalues.

    Returns
    -------
    array (steps + 1, ...) or tuple
        Eigenvalues, those of the start first, in the order given.

    Raises
    ------
    ValueError
        If an argument is not finite.
    TypeError
        If an argument is of another kind, or number systems mix.
    ArithmeticError
        If float64 overflows so far that a result is undetermined.

    Notes
    -----
    In float64 the rounding error of :math:`1 - \gamma\lambda` is 1e-16, not relative to its value:
    eigenvalues that a layer brings close to zero lose digits.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import eigenvalues_after
    >>> eigenvalues_after([0.1, 0.5, 1.0], gammas=[1 / 3, 0.7])
    array([[0.1       , 0.5       , 1.        ],
           [0.09344444, 0.34722222, 0.44444444],
           [0.08161965, 0.19894614, 0.21091907]])
    """
    math_, values = checked(
        ranges=_FINITE,
        sequences=("gammas",),
        may_be_empty=("gammas",),
        eigenvalues=eigenvalues,
        gammas=gammas,
    )
    layers = values.gammas
    start = values.eigenvalues
    if isinstance(math_, ArrayMath) and layers:
        start = np.broadcast_arrays(start, layers[0])[0]
    spectra = [start]
    with math_.quiet():
        for gamma in layers:
            spectra.append(spectra[-1] * (1 - gamma * spectra[-1]) ** 2)
    return math_.finish(np.stack(spectra)) if isinstance(math_, ArrayMath) else tuple(spectra)


def interval_after(gammas: ArrayLike, *, lower: Number, upper: Number) -> SpectralInterval:
    r"""Image of an interval under layers of GD++, whatever interval they were made for.

    The largest value is at an end or at :math:`1/(3\gamma)`, the smallest at an end or at the
    double zero :math:`1/\gamma`, if these lie inside.

    Parameters
    ----------
    gammas : array (..., steps), or sequence of mpmath or SymPy numbers
        :math:`\gamma` of every layer, of any sign.
    lower, upper : number or array, 0 <= lower <= upper
        True ends of the spectrum, in units of the inverse of gammas; they broadcast with gammas
        without its last axis.

    Returns
    -------
    SpectralInterval
        With fields ``lower``, ``upper`` and ``condition_number``.

    Raises
    ------
    ValueError
        If an argument is outside its range or is a symbol.
    TypeError
        If an argument is of another kind, or number systems mix.
    ArithmeticError
        As `eigenvalues_after`.

    Notes
    -----
    As in `eigenvalues_after`, ends that a layer brings close to zero lose digits in float64.  For
    layers of an optimal schedule the relative error of the lower end, and of the condition number,
    is about :math:`10^{-15} \sqrt\kappa` for a condition number :math:`\kappa`.  Rounding
    :math:`\gamma` to float64 changes them by as much.

    Examples
    --------
    The largest eigenvalue was underestimated by 2 %:

    >>> from iclimit.asymptotics.gdpp import condition_number_schedule, interval_after
    >>> best = condition_number_schedule(100, steps=1)
    >>> best.condition_number.round(2)
    array([100.  ,  16.74])
    >>> interval_after(best.gammas, lower=0.01, upper=1.02).condition_number.round(1)
    array([102. ,  24.5])
    """
    math_, values = checked(
        ranges=_FINITE,
        sequences=("gammas",),
        may_be_empty=("gammas",),
        gammas=gammas,
        lower=lower,
        upper=upper,
    )
    layers = values.gammas
    a = values.lower
    b = values.upper
    for name, value in [("lower", a), ("upper", b), *(("gammas", gamma) for gamma in layers)]:
        if getattr(value, "free_symbols", None):
            raise ValueError(f"{name} must be a number, got {value}")
    shape = broadcast_shape({"lower": a, "upper": b, "gammas": layers[0] if layers else a})
    if isinstance(math_, ArrayMath):
        a = np.broadcast_to(a, shape)
        b = np.broadcast_to(b, shape)
    require(math_, "lower", a, lambda v: v <= b, "<= upper")
    ends = [(a, b)]
    with math_.quiet():
        for gamma in layers:
            ends.append(_image(math_, *ends[-1], gamma))
    fields = [*zip(*((*pair, _ratio(math_, *pair)) for pair in ends), strict=True)]
    return SpectralInterval(*(math_.finish(by_layer(math_, field, shape)) for field in fields))


def _ratio(math_: Namespace, a: Value, b: Value) -> Value:
    with math_.quiet():
        return math_.where(a > 0, lambda: b / a, lambda: math_.inf)


def _image(math_: Namespace, a: Value, b: Value, gamma: Value) -> tuple[Value, Value]:
    """Image of the interval from a to b under one layer."""
    left = a * (1 - gamma * a) ** 2
    right = b * (1 - gamma * b) ** 2
    low = math_.where(left < right, lambda: left, lambda: right)
    high = math_.where(left < right, lambda: right, lambda: left)
    zero_inside = math_.all_of(gamma * a < 1, gamma * b > 1)
    # Far beyond the double zero f exceeds its maximum at 1/(3 gamma).
    folds = math_.all_of(3 * gamma * a < 1, 3 * gamma * b > 1, 27 * gamma * high < 4)
    return (
        math_.where(zero_inside, lambda: 0 * a, lambda: low),
        math_.where(folds, lambda: 4 / (27 * gamma), lambda: high),
    )
