r"""Schedules of GD++: how fast layers can improve the condition number of the context.

A layer of GD++ multiplies the inputs of the context by :math:`I - \gamma H`, with H their second
moment matrix.  Its eigenvalues go over into

.. math:: f(\lambda) = \lambda (1 - \gamma \lambda)^2 .

For a spectrum in :math:`[\mu, \nu]` write :math:`\kappa = \nu/\mu`, :math:`r = \sqrt\kappa`.

*Monotone schedule* (Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, Lemma A.3 and
Theorem 5.1): :math:`\gamma = 1/(3\nu)` is the largest choice that keeps f increasing on
:math:`[0, \nu]`.  The paper has :math:`\kappa' \le 0.915\,\kappa` for :math:`\kappa \ge 1.1`,
:math:`\kappa' \le 1 + 2 \epsilon^2` for :math:`\kappa = 1 + \epsilon`, :math:`\epsilon \le 0.1`,
and so :math:`O(\log\kappa + \log\log 1/\epsilon)` layers.  Exactly,

.. math:: \kappa' - 1 = \frac{(\kappa - 1)^2 (4\kappa - 1)}{(3\kappa - 1)^2}
   \le \tfrac34 (\kappa - 1)^2 .

*Optimal schedule.*  If f may fold, its largest value on the interval is :math:`4/(27\gamma)`, at
:math:`1/(3\gamma)`, and its smallest at an end.  The ratio is least when both ends go to the same
value, :math:`f(\mu) = f(\nu)` (equioscillation):

.. math:: \gamma = \frac1{\mu + \sqrt{\mu\nu} + \nu}, \qquad
   \kappa' - 1 = \frac{(r-1)^2 (2r+1)^2 (r+2)^2}{27 r^2 (1+r)^2} \le \tfrac3{16} (\kappa-1)^2 .

Doing so in every layer is optimal for any number of layers.  Singular values
:math:`s = \sqrt\lambda` go over into :math:`s (1 - \gamma s^2)`, an odd cubic.  Up to scale, which
is free here, the layers are the optimal odd cubics of Polar Express (Amsel, Persson, Musco and
Gower, arXiv:2505.16932, Theorem 4.1), whose greedy composition has the best ratio of all
compositions of odd cubics.  For large :math:`\kappa` a layer divides it by 27/4 instead of 9/4:
the monotone schedule takes :math:`\ln(27/4)/\ln(9/4) = 2.35` times as many layers.

Both schedules are one formula.  With :math:`\delta = 1/(\gamma\mu) - 3`,

.. math:: \kappa' - 1 = \frac{\delta^2 (4\delta + 9)}{27 (\delta + 2)^2}, \qquad
   \nu' = \frac4{27\gamma},

as long as :math:`1/(3\gamma)` lies in the interval and :math:`f(\mu) \le f(\nu)`;
:math:`\delta = 3(\kappa - 1)` is monotone, :math:`\delta = \kappa + r - 2` optimal.

*Sensitivity.*  f has a double zero at :math:`1/\gamma = \nu(1 + 1/r + 1/r^2)`: an eigenvalue
that much above :math:`\nu` is annihilated, and a relative error of the largest eigenvalue is
multiplied by :math:`-(2r + 1)(r - 1)/(r + 1) \approx -2\sqrt\kappa`.  Rounding :math:`\gamma` to
float64 is such an error too, of 3 % of the condition number at :math:`\kappa = 10^{30}`.
Safeguards are the arguments ``cap`` and ``margin``; `interval_after` tells what becomes of a
misjudged spectrum.

*Accuracy.*  Every layer rounds, and near convergence doubles the relative error of
:math:`\kappa - 1`.  For :math:`\kappa \le 10^{100}` float64 has it to 1e-12 down to
:math:`\kappa - 1 = 10^{-30}` and to 4e-12 at 1e-300.  A cap rounds :math:`\gamma` alike in many
layers: 1e-12 then holds for :math:`\kappa \le 10^{20}`, and at :math:`10^{100}` errors are up to
tenfold.  mpmath numbers lose as many digits of theirs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import (
    ArrayMath,
    Namespace,
    Number,
    SymPyMath,
    convert,
    namespace,
    numpy_namespace,
    require,
)
from iclimit.asymptotics.spectra.wishart import check_integer

METHODS = ("optimal", "monotone")

_LARGEST = 1e100
"""Largest condition number of floats; rounding errors add up over its hundreds of layers."""

_RANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "condition_number": (lambda v: (v >= 1) & (v < math.inf), ">= 1 and finite"),
    "excess": (lambda v: (v >= 0) & (v < math.inf), ">= 0 and finite"),
    "tol": (lambda v: (v > 0) & (v < math.inf), "> 0 and finite"),
    "cap": (lambda v: v >= 1, ">= 1"),
    "margin": (lambda v: (v >= 0) & (v < math.inf), ">= 0 and finite"),
}


@dataclass(frozen=True)
class ConditionSchedule:
    r"""Layers of GD++ and the condition number after each.

    Arrays have the shape of the arguments, broadcast, and a last axis of layers; from mpmath and
    SymPy numbers the fields are tuples.

    Attributes
    ----------
    gammas : array (..., steps) or tuple
        :math:`\gamma` of every layer, in units of the inverse largest eigenvalue at the start.  A
        layer acts on the spectrum that the layers before have left, not rescaled.
    condition_number : array (..., steps + 1) or tuple
        :math:`\kappa` at the start and after every layer.
    excess : array (..., steps + 1) or tuple
        :math:`\kappa - 1`, accurate relative to itself; below 1e-308 float64 has 0.
    top : array (..., steps + 1) or tuple
        Largest eigenvalue.
    residual : array (..., steps + 1) or tuple
        Largest :math:`|1 - \eta\lambda|` of one final gradient-descent step, after so many layers:
        :math:`(\kappa - 1)/(\kappa + 1)`.
    final_rate : array (..., steps + 1) or tuple
        Learning rate of that step, :math:`\eta = 2/(\mu + \nu)` of the spectrum after the layers.
    """

    gammas: Any
    condition_number: Any
    excess: Any
    top: Any
    residual: Any
    final_rate: Any


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

    lower: Any
    upper: Any
    condition_number: Any


def condition_number_schedule(
    condition_number: Number = None,
    *,
    excess: Number = None,
    steps: Any = None,
    tol: Number = None,
    method: str = "optimal",
    cap: Number = math.inf,
    margin: Number = 0.0,
) -> ConditionSchedule:
    r"""Layers of GD++ that bring the condition number down.

    Parameters
    ----------
    condition_number : number or array >= 1
        Condition number at the start, of a spectrum scaled to the largest eigenvalue 1.
    excess : number or array >= 0
        :math:`\kappa - 1` instead of condition_number, for what a float near 1 cannot hold.
    steps : int >= 0
        Number of layers; give either this or tol.
    tol : number or array > 0
        As few layers as make :math:`\kappa - 1 \le` tol, for arrays in the worst element.
    method : {"optimal", "monotone"}
        Least condition number after every layer, or the published schedule.
    cap : number or array >= 1
        Safeguard: no :math:`\gamma` is computed for a larger condition number than this; what lies
        below is followed exactly.  The sensitivity to the largest eigenvalue is then at most
        :math:`2\sqrt{\text{cap}}`.  Polar Express takes 100.  A cap of 1 is the monotone schedule,
        on which no cap has an effect.
    margin : number or array >= 0
        Safeguard: the schedule is that of the interval from :math:`1/\kappa` to 1 + margin.

    Returns
    -------
    ConditionSchedule
        Its condition number at the start is :math:`\kappa (1 + \text{margin})`.

    Raises
    ------
    ValueError
        If an argument is outside its range, not exactly one of condition_number and excess or of
        steps and tol is given, floats start above 1e100, or the spectrum shrinks below float64
        (in every
        layer to 4/9 at most).
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    NumPy arrays, mpmath numbers, and, for given steps, SymPy expressions.

    References
    ----------
    Module `iclimit.asymptotics.gdpp.condition_number`, with the accuracy.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp.condition_number import condition_number_schedule
    >>> best = condition_number_schedule(100, steps=4)
    >>> best.gammas.round(3)
    array([ 0.901,  4.663, 17.371, 44.874])
    >>> best.condition_number.round(3)
    array([100.   ,  16.745,   3.553,   1.337,   1.016])
    >>> len(condition_number_schedule(100, tol=1e-30).gammas)
    8
    >>> import sympy
    >>> condition_number_schedule(sympy.Integer(4), steps=1).condition_number
    (4, 343/243)
    """
    if (steps is None) == (tol is None):
        raise ValueError(f"give either steps or tol, got steps={steps}, tol={tol}")
    if steps is not None:
        check_integer("steps", steps, least=0)
    given = {
        "condition_number": condition_number,
        "excess": excess,
        "tol": tol,
        "cap": cap,
        "margin": margin,
    }
    math_, x, values = _start(given, method)
    top = 1 + values["margin"]
    gammas: list[Any] = []
    excesses, tops = [x], [top]
    while np.any(x > values["tol"]) if steps is None else len(gammas) < steps:
        x, zero = _layer(math_, x, method, values["cap"] - 1)
        gammas.append(1 / (zero * top))
        top = 4 * zero * top / 27
        if isinstance(math_, ArrayMath) and np.any(top < sys.float_info.min):
            raise ValueError(
                f"steps must be fewer, got {steps}: the spectrum shrinks below the range of "
                "float64 (pass mpmath numbers)"
            )
        excesses.append(x)
        tops.append(top)
    fields = [
        gammas,
        [1 + x for x in excesses],
        excesses,
        tops,
        [x / (x + 2) for x in excesses],
        [2 * (1 + x) / (top * (x + 2)) for x, top in zip(excesses, tops, strict=True)],
    ]
    return ConditionSchedule(*(_by_layer(math_, field, np.shape(x)) for field in fields))


def steps_needed(
    condition_number: Number = None,
    tol: Number = None,
    *,
    excess: Number = None,
    method: str = "optimal",
) -> Any:
    r"""Least number of layers of GD++ that make :math:`\kappa - 1 \le` tol.

    Parameters
    ----------
    condition_number : number or array >= 1
        Condition number at the start.
    tol : number or array > 0
        Largest :math:`\kappa - 1` allowed.
    excess : number or array >= 0
        :math:`\kappa - 1` at the start instead of condition_number.
    method : {"optimal", "monotone"}
        As in `condition_number_schedule`.

    Returns
    -------
    int or array of int
        Number of layers, elementwise.  Where a layer meets tol within rounding, one more or less.

    Raises
    ------
    ValueError
        If an argument is outside its range, is missing or is a symbol, or floats start above
        1e100.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    For predictions within :math:`\epsilon \|x\| \|w^*\|`, Theorem 5.1 of arXiv:2402.14180 takes
    tol = :math:`\epsilon/(2\kappa)` and one gradient-descent step after these layers.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.gdpp.condition_number import steps_needed
    >>> condition_number = np.array([10.0, 1e4, 1e8])
    >>> steps_needed(condition_number, 1e-10), steps_needed(condition_number, 1e-10, method="monotone")
    (array([ 5,  9, 14]), array([ 8, 16, 28]))
    """
    if tol is None:
        raise ValueError("tol must be given")
    math_, x, values = _start(
        {"condition_number": condition_number, "excess": excess, "tol": tol}, method
    )
    count = np.zeros(np.shape(x), dtype=int)
    while np.any(above := np.asarray(x > values["tol"], dtype=bool)):
        count += above
        x, _ = _layer(math_, x, method, math_.inf)
    return count[()]


def eigenvalues_after(eigenvalues: Any, gammas: Any) -> Any:
    r"""Eigenvalues at the start and after every layer, :math:`\lambda (1 - \gamma\lambda)^2`.

    Parameters
    ----------
    eigenvalues : number or array
        Eigenvalues; one at a time in mpmath and SymPy numbers.
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
    float64 rounds :math:`1 - \gamma\lambda` to 1e-16, not relative to its value: eigenvalues that
    a layer brings close to zero lose digits.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp.condition_number import eigenvalues_after
    >>> eigenvalues_after([0.1, 0.5, 1.0], [1 / 3, 0.7])
    array([[0.1       , 0.5       , 1.        ],
           [0.09344444, 0.34722222, 0.44444444],
           [0.08161965, 0.19894614, 0.21091907]])
    """
    math_, layers, (values,) = _given_gammas(gammas, eigenvalues=eigenvalues)
    spectra = [values]
    with math_.quiet():
        for g in layers:
            spectra.append(spectra[-1] * (1 - g * spectra[-1]) ** 2)
    return math_.finish(np.stack(spectra)) if isinstance(math_, ArrayMath) else tuple(spectra)


def interval_after(gammas: Any, *, lower: Number, upper: Number) -> SpectralInterval:
    r"""Image of an interval under layers of GD++, whatever it was that they were made for.

    The largest value is at an end or at :math:`1/(3\gamma)`, the smallest at an end or at the
    double zero :math:`1/\gamma`, if these lie inside.

    Parameters
    ----------
    gammas : array (..., steps), or sequence of mpmath or SymPy numbers
        :math:`\gamma` of every layer, of any sign.
    lower, upper : number or array, 0 <= lower <= upper
        True ends of the spectrum, in the units in which gammas are the inverse; they broadcast with
        gammas without its last axis.

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
    layers of an optimal schedule the lower end, and with it the condition number, is good to
    about :math:`10^{-15} \sqrt\kappa`, no better than :math:`\gamma` rounded to float64 deserves.

    Examples
    --------
    The largest eigenvalue was underestimated by 2 %:

    >>> from iclimit.asymptotics.gdpp.condition_number import condition_number_schedule, interval_after
    >>> best = condition_number_schedule(100, steps=1)
    >>> best.condition_number.round(2)
    array([100.  ,  16.74])
    >>> interval_after(best.gammas, lower=0.01, upper=1.02).condition_number.round(1)
    array([102. ,  24.5])
    """
    math_, layers, (a, b) = _given_gammas(gammas, lower=lower, upper=upper)
    _no_symbols([*(("gammas", g) for g in layers), ("lower", a), ("upper", b)])
    require(math_, "lower", a, lambda v: (v >= 0) & (v <= b), ">= 0 and <= upper")

    def ratio(a: Any, b: Any) -> Any:
        return math_.where(a > 0, lambda: b / a, lambda: math_.inf)

    ends = [(a, b)]
    with math_.quiet():
        for g in layers:
            ends.append(_image(math_, *ends[-1], g))
        fields = [*zip(*((*pair, ratio(*pair)) for pair in ends), strict=True)]
    results = (_by_layer(math_, field, np.shape(a)) for field in fields)
    return SpectralInterval(*map(math_.finish, results))


def _layer(math_: Namespace, x: Any, method: str, cap: Any) -> tuple[Any, Any]:
    r"""Excess after a layer, and the double zero :math:`1/\gamma` over the largest eigenvalue.

    ``cap`` is the largest excess that the layer is made for.
    """
    if method == "monotone":
        planned = 0 * x
    elif isinstance(math_, SymPyMath) and math_.isinf(cap):  # SymPy cannot decide x <= oo
        planned = x
    else:
        planned = math_.where(x <= cap, lambda: x, lambda: cap)
    delta = planned + planned / (math_.sqrt(1 + planned) + 1)
    zero = (3 + delta) / (1 + planned)
    # The true lower end is below the one that the layer is made for, and f increases there.
    delta = delta + zero * (x - planned)
    return (delta / (delta + 2)) ** 2 * (4 * delta + 9) / 27, zero


def _image(math_: Namespace, a: Any, b: Any, gamma: Any) -> tuple[Any, Any]:
    """Image of the interval from a to b under one layer."""
    left, right = (v * (1 - gamma * v) ** 2 for v in (a, b))
    low = math_.where(left < right, lambda: left, lambda: right)
    high = math_.where(left < right, lambda: right, lambda: left)
    zero_inside = math_.all_of(gamma * a < 1, gamma * b > 1)
    # Far beyond the double zero f exceeds its maximum at 1/(3 gamma).
    folds = math_.all_of(3 * gamma * a < 1, 3 * gamma * b > 1, 27 * gamma * high < 4)
    return (
        math_.where(zero_inside, lambda: 0 * a, lambda: low),
        math_.where(folds, lambda: 4 / (27 * gamma), lambda: high),
    )


def _start(given: dict[str, Any], method: str) -> tuple[Namespace, Any, dict[str, Any]]:
    """Check the arguments that are given; return number system, excess at the start, arguments."""
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if (given["condition_number"] is None) == (given["excess"] is None):
        condition_number, excess = given["condition_number"], given["excess"]
        raise ValueError(
            f"give either condition_number or excess, got condition_number={condition_number}, "
            f"excess={excess}"
        )
    given = {name: value for name, value in given.items() if value is not None}
    math_ = namespace(**given)
    if isinstance(math_, ArrayMath):
        math_ = numpy_namespace(**given)
    values = {name: convert(math_, name, value) for name, value in given.items()}
    for name, value in values.items():
        require(math_, name, value, *_RANGES[name])
    if "tol" in values and isinstance(math_, SymPyMath):
        raise ValueError(
            f"tol must not be given with SymPy numbers, got {values['tol']}: give steps (exact "
            "comparisons of nested roots do not end; count layers with floats or mpmath numbers)"
        )
    if isinstance(math_, ArrayMath):
        values = dict(zip(values, _broadcast([*values], [*values.values()]), strict=True))
    x = values["excess"] if "excess" in values else values["condition_number"] - 1
    with math_.quiet():
        x = x + values.get("margin", 0) * (1 + x)
    if isinstance(math_, ArrayMath):
        allowed = f"<= {_LARGEST} in float64 (pass mpmath numbers)"
        require(math_, "condition_number at the start", 1 + x, lambda v: v <= _LARGEST, allowed)
    return math_, x, values


def _given_gammas(gammas: Any, **others: Any) -> tuple[Namespace, list[Any], list[Any]]:
    """Number system, gamma layer by layer, and the other arguments, converted and broadcast."""
    if isinstance(gammas, (str, bytes)) or not (isinstance(gammas, Sequence) or np.ndim(gammas)):
        raise TypeError(f"gammas must be a sequence of numbers, got {gammas!r}")
    items = list(gammas) if isinstance(gammas, Sequence) else [gammas]
    math_ = namespace(**others, **{f"gammas_{k}": item for k, item in enumerate(items)})
    if isinstance(math_, ArrayMath):
        math_ = numpy_namespace(**others, gammas=gammas)
        layers = [*np.moveaxis(convert(math_, "gammas", gammas), -1, 0)]
    else:
        layers = [convert(math_, "gammas", item) for item in items]
    values = [convert(math_, name, value) for name, value in others.items()]
    names = [*others] + ["gammas"] * len(layers)
    for name, value in zip(names, values + layers, strict=True):
        require(math_, name, value, lambda v: (v > -math.inf) & (v < math.inf), "real and finite")
    if isinstance(math_, ArrayMath):
        names = [*others, "gammas without its last axis"]
        values = _broadcast(names, values + layers[:1])[: len(others)]
    return math_, layers, values


def _broadcast(names: list[str], values: list[Any]) -> list[Any]:
    try:
        return [*np.broadcast_arrays(*values)]
    except ValueError:
        shapes = [np.shape(value) for value in values]
        raise ValueError(
            f"{', '.join(names)} must have shapes that broadcast, got {shapes}"
        ) from None


def _no_symbols(values: Iterable[tuple[str, Any]]) -> None:
    for name, value in values:
        if getattr(value, "free_symbols", None):
            raise ValueError(f"{name} must be a number, got {value}")


def _by_layer(math_: Namespace, values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Results layer by layer: along a last axis, or in a tuple."""
    if not isinstance(math_, ArrayMath):
        return tuple(values)
    return np.moveaxis(np.array(values).reshape(len(values), *shape), 0, -1)
