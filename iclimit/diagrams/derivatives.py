r"""Derivatives of quantities by their parameters, each from the surest numbers there are.

A quantity that takes mpmath is differenced at steps of 1e-30 in so many digits that nothing is
lost; so thresholds and small parameters at any distance that float64 can state are far away.  The
best value of an argument, and the least error, follow from their objective by the implicit
function theorem and the envelope theorem in many digits, too,

.. math:: \frac{dx^*}{dp} = -\frac{e_{xp}}{e_{xx}}, \qquad \frac{de^*}{dp} = e_p .

Everything else is differenced in float64.  Then steps stay below a tenth of the parameter and of
the distance to where it may not go and to the nearest declared boundary, and two of them must
agree beyond rounding.  A quantity that is kinked, jumps or is lost in rounding has no slope.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import Value
from iclimit.diagrams.boundaries import BOUNDARIES, Boundary, structured_boundaries
from iclimit.diagrams.quantities import QUANTITIES, Quantity
from iclimit.notation import Parameter

# Digits of a step in many digits, relative to the parameter.
_STEP = 30

# The same at 0, where features may be as narrow as the square of the distance that float64 can
# state, 1e-32.
_STEP_AT_ZERO = 50

# Digits of a difference that are computed, which a step twice over (mixed derivatives) leaves.
_DIGITS = 50

# Largest step of differences in float64, relative to the distance that it may reach.
_LARGEST = 3e-2

# Most steps that are tried, each a tenth of the one before.
_MOST = 14

# Steps of differences that are compared.
_COMPARED = 4

# Offsets in steps and weights of slopes from both sides, and from above or, reversed, from below.
BOTH = np.array([-1, -0.5, 0.5, 1]), np.array([1, -8, 8, -1]) / 6
ABOVE = np.arange(5) / 4, np.array([-25, 48, -36, 16, -3]) / 3

# Slopes of two steps must agree so well, relative to the slope.
AGREE = 1e-2

# Or so well relative to the quantity over its parameter, which counts as 1 at least.
SMALL = 1e-5

# Rounding of a difference of fourth order, relative to the quantity over the step.
_ROUNDING = 2e-15

# Distance, relative to the parameter, to the places between which a jump is looked for.  Where a
# quantity jumps is known to some units of the last digit only.
_BESIDE = 1e-13

# Share of itself by which a quantity changes in a jump.  The slope explains less than a tenth.
_JUMP = 1e-3

# Relative change of a polished optimum at which it is found.
_POLISHED = 1e-40

# Most steps of Newton's method; eight digits become forty in three.
_NEWTON_STEPS = 12

# Relative difference that many digits may make to float64.
_SAME = 1e-6


class NoSlope(ArithmeticError):
    """Reason why a quantity has no slope."""


@dataclass(frozen=True)
class Optimum:
    """Quantities that are optimal: the best argument of an objective, or its value there.

    Attributes
    ----------
    objective, argument : str
        Name of the quantity that is minimised, and of its parameter.
    best : str
        Name of the quantity that is the best argument.
    """

    objective: str
    argument: str
    best: str


_ICL = Optimum("icl_error", "ridge", "optimal_ridge")
_IDG = Optimum("idg_error", "ridge", "optimal_idg_ridge")
_DELTA = Optimum("delta_rule_error", "step_size", "constant_delta_step")

# Optima that do not take mpmath while their objectives do.
OPTIMA = {
    **dict.fromkeys(("optimal_ridge", "optimal_icl_error"), _ICL),
    **dict.fromkeys(("optimal_idg_ridge", "optimal_idg_error"), _IDG),
    **dict.fromkeys(("constant_delta_step", "constant_delta_error"), _DELTA),
}


def slope_of(quantity: Quantity, point: Mapping[str, float], name: str, value: float) -> float:
    """Derivative of a quantity by a parameter, or the change by an integer.

    Raises
    ------
    NoSlope
        If it has none, or none that could be found.
    """
    parameter = quantity.all_parameters[name]
    if parameter.integer:
        return _change(quantity, point, name)
    slope = _slope_in_many_digits(quantity, point, name, value)
    if slope is None:
        return _difference(quantity, point, name, value)
    _refuse_jump(quantity, point, name, value, slope)
    return slope


def _values(
    quantity: Quantity, point: Mapping[str, float], name: str, places: Value
) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(quantity.evaluate({**point, name: places}), dtype=float)


def _change(quantity: Quantity, point: Mapping[str, float], name: str) -> float:
    """Change from one integer to the next."""
    number = point[name]
    below, _ = _sides(quantity.all_parameters[name], number)
    ends = [(number - 1, number + 1), (number - 1, number), (number, number + 1)]
    for low, high in ends if below else ends[2:]:
        try:
            first, last = _values(quantity, point, name, np.array([low, high]))
        except (ValueError, ArithmeticError):  # the function has a narrower range
            continue
        return float(last - first) / (high - low)
    raise NoSlope("is not defined for other integers")


def _sides(parameter: Parameter, number: float) -> tuple[bool, bool]:
    """Whether a parameter may be below and above a number of its range."""
    if parameter.range is None:
        return True, True
    return number > parameter.range.lower, number < parameter.range.upper


# Many digits.


def _slope_in_many_digits(
    quantity: Quantity, point: Mapping[str, float], name: str, value: float
) -> float | None:
    """Slope of a quantity of the registry by mpmath; None where it does not take it."""
    import mpmath

    registered = QUANTITIES.get(quantity.name)
    # Functions of a user may round in silence.
    if registered is None or quantity.function is not registered.function:
        return None
    optimum = OPTIMA.get(quantity.name)
    digits = _DIGITS + 2 * _step_digits(point[name])
    with mpmath.workdps(digits):
        try:
            if optimum is None:
                return _exact_slope(quantity, point, name, value)
            return _slope_of_optimum(optimum, quantity.name == optimum.best, point, name, value)
        except NoSlope:
            raise
        # mpmath numbers are not taken, or not at this point.
        except (TypeError, ValueError, ArithmeticError, mpmath.mp.NoConvergence):
            return None


def _step_digits(number: float) -> int:
    """Digits that a step is below 1."""
    if number == 0:
        return _STEP_AT_ZERO
    return _STEP + max(0, -math.floor(math.log10(abs(number))))


def _multiprecise(quantity: Quantity, point: Mapping[str, float]) -> Callable[..., Any]:
    """Quantity as a function of changes of a point, in many digits."""
    import mpmath

    fixed = {
        name: int(number) if quantity.all_parameters[name].integer else mpmath.mpf(number)
        for name, number in point.items()
    }

    def value(changes: Mapping[str, Any]) -> Any:
        result = quantity.function(**{**fixed, **changes})
        if isinstance(result, np.ndarray):
            result = result.item()
        if not isinstance(result, mpmath.mpf):
            raise TypeError(f"{quantity.name} does not take mpmath numbers")
        return result

    return value


def _exact_slope(quantity: Quantity, point: Mapping[str, float], name: str, value: float) -> float:
    """Difference of second order in many digits."""
    function = _multiprecise(quantity, point)
    middle = function({})
    if not abs(middle - value) <= _SAME * abs(value):
        raise TypeError(f"{quantity.name} is another number in mpmath")
    parameter = quantity.all_parameters[name]
    return _steepness(lambda x: function({name: x}), parameter, point[name], middle)


def _steepness(
    function: Callable[[Any], Any], parameter: Parameter, number: float, middle: Any
) -> float:
    """Slope of a function in many digits; a NoSlope where it is not smooth.

    A function that does not change at all may have rounded the parameter: a TypeError.
    """
    import mpmath

    x = mpmath.mpf(number)
    h = mpmath.mpf(10) ** -_step_digits(number) * max(abs(x), 1)
    below, above = _sides(parameter, number)
    if below and above:
        first = function(x - h)
        last = function(x + h)
        slope = (last - first) / (2 * h)
        bend = last - 2 * middle + first
    else:
        h = h if above else -h
        near = function(x + h)
        far = function(x + 2 * h)
        slope = (4 * near - far - 3 * middle) / (2 * h)
        bend = far - 2 * near + middle
    if slope == 0 == bend:
        raise TypeError("digits were lost")
    flat = abs(bend) <= _SAME * abs(h) * max(abs(slope), SMALL * abs(middle) / max(abs(x), 1))
    if not (mpmath.isfinite(slope) and flat):
        raise NoSlope("has a kink or an infinite slope")
    return float(slope)


def _slope_of_optimum(
    optimum: Optimum, is_argument: bool, point: Mapping[str, float], name: str, value: float
) -> float:
    """Slope by the implicit function theorem, or of the least error by the envelope theorem."""
    import mpmath

    best = value
    if not is_argument:
        best = float(QUANTITIES[optimum.best].evaluate(point))
    objective = QUANTITIES[optimum.objective]
    parameters = objective.all_parameters
    error = _multiprecise(objective, {**point, optimum.argument: best})
    here = mpmath.mpf(point[name])

    def at(x: Any, p: Any = here) -> Any:
        return error({optimum.argument: x, name: p})

    if best == 0:
        x = mpmath.mpf(0)
        rise = _steepness(at, parameters[optimum.argument], 0.0, at(x))
        if is_argument and rise > 0:
            return 0.0
        if is_argument:
            raise NoSlope("begins to differ from 0")
    else:
        x = _polished(at, best)
    if not is_argument:
        return _steepness(partial(at, x), parameters[name], point[name], at(x))
    return _implicit_slope(at, x, parameters[name], point[name])


def _implicit_slope(
    function: Callable[[Any, Any], Any], x: Any, parameter: Parameter, number: float
) -> float:
    """Slope, by a parameter, of the x at which a function of both is least."""
    import mpmath

    p = mpmath.mpf(number)
    k = x * mpmath.mpf(10) ** -_STEP

    def rise(p: Any) -> Any:
        return (function(x + k, p) - function(x - k, p)) / (2 * k)

    curvature = (function(x + k, p) - 2 * function(x, p) + function(x - k, p)) / k**2
    return -_steepness(rise, parameter, number, rise(p)) / float(curvature)


def _polished(function: Callable[[Any], Any], start: float) -> Any:
    """Minimum next to a number, in many digits."""
    import mpmath

    x = mpmath.mpf(start)
    for _ in range(_NEWTON_STEPS):
        k = abs(x) * mpmath.mpf(10) ** -_STEP
        below = function(x - k)
        middle = function(x)
        above = function(x + k)
        move = -k * (above - below) / (2 * (above - 2 * middle + below))
        if not abs(move) < abs(x) / 10:
            break
        x += move
        if abs(move) <= _POLISHED * abs(x):
            return x
    raise ArithmeticError("the optimum was not found in many digits")


def _refuse_jump(
    quantity: Quantity, point: Mapping[str, float], name: str, value: float, slope: float
) -> None:
    """Raise a NoSlope where values next to a number change by more than the slope explains."""
    parameter = quantity.all_parameters[name]
    number = point[name]
    if not all(_sides(parameter, number)):
        return
    places = number + _BESIDE * abs(number) * np.array([-1, 1])
    try:
        first, last = _values(quantity, point, name, places)
    except (ValueError, ArithmeticError):
        return
    change = abs(last - first)
    explained = abs(slope) * (places[1] - places[0])
    if math.isfinite(change) and change > max(_JUMP * abs(value), 10 * explained):
        raise NoSlope("changes abruptly")


# Float64.


@dataclass(frozen=True)
class _Step:
    """Slope by a step, its rounding, and the difference of the slopes of the two sides."""

    slope: float
    rounding: float
    gap: float


def _difference(quantity: Quantity, point: Mapping[str, float], name: str, value: float) -> float:
    """Slope by the two steps that agree best."""
    steps = _steps(quantity, point, name, value)
    if len(steps) < 2:
        raise NoSlope("is not finite, or not defined, next to it")
    changes = np.abs(np.diff([step.slope for step in steps]))
    best = int(np.argmin(changes))
    larger = steps[best]
    smaller = steps[best + 1]
    close = AGREE * abs(larger.slope)
    tolerance = max(close, SMALL * abs(value) / max(abs(point[name]), 1.0))
    if changes[best] > tolerance + larger.rounding:
        raise NoSlope("changes abruptly")
    if larger.rounding > tolerance:
        raise NoSlope("changes by less than rounding")
    # The gap shrinks with the step, unless there is a kink.
    if smaller.gap > max(close + smaller.rounding, larger.gap / 3):
        raise NoSlope("has a kink")
    return larger.slope


def _steps(quantity: Quantity, point: Mapping[str, float], name: str, value: float) -> list[_Step]:
    """Steps at which the quantity is finite, the largest first."""
    reach, side = _reach(quantity, point, name)
    offsets, weights = ABOVE if side else BOTH
    steps = list[_Step]()
    for order in range(_MOST):
        h = _LARGEST * reach / 10**order * (side or 1)
        try:
            values = _values(quantity, point, name, point[name] + h * offsets)
        except (ValueError, ArithmeticError):  # outside the range of the function
            continue
        if not np.all(np.isfinite(values)):
            continue
        slope = float(values @ weights) / h
        gap = 0.0 if side else abs(values[0] + values[-1] - 2 * value) / abs(h)
        steps.append(_Step(slope, _ROUNDING * abs(value) / abs(h), gap))
        if len(steps) == _COMPARED:
            break
    return steps


def _reach(quantity: Quantity, point: Mapping[str, float], name: str) -> tuple[float, int]:
    """Distance that nothing is within, and the only side that is allowed at an end, else 0."""
    parameter = quantity.all_parameters[name]
    number = point[name]
    reach = abs(number) or 1.0
    if parameter.range is not None:
        ends = (parameter.range.lower, parameter.range.upper)
        reach = min([reach, *(abs(end - number) for end in ends if end != number)])
    below, above = _sides(parameter, number)
    side = 0
    if not (below and above):
        side = 1 if above else -1
    distances = reach / 10.0 ** np.arange(_MOST)
    clear = np.ones(_MOST, dtype=bool)
    for boundary in _boundaries(quantity):
        for direction in (side,) if side else (-1, 1):
            places = np.concatenate([[number], number + direction * distances])
            clear &= _same_side(boundary, {**point, name: places})
    # All places up to a distance are clear.
    clear = np.logical_and.accumulate(clear[::-1])[::-1]
    if np.any(clear):
        reach = float(distances[np.argmax(clear)])
    return reach, side


def _boundaries(quantity: Quantity) -> list[Boundary]:
    """Declared boundaries of a quantity."""
    structure = quantity.structure
    declared = BOUNDARIES if structure is None else structured_boundaries(structure)
    return [boundary for boundary in declared.values() if quantity.name in boundary.quantities]


def _same_side(boundary: Boundary, places: Mapping[str, Any]) -> np.ndarray:
    """Whether places behind the first are on its side; all are where the boundary is not there."""
    try:
        with np.errstate(all="ignore"):
            margins = np.asarray(boundary.sharp_margin(places), dtype=float)
    except (ValueError, ArithmeticError, KeyError):  # it is not defined at all of them
        return np.ones(_MOST, dtype=bool)
    signs = np.broadcast_to(np.sign(margins), _MOST + 1)
    if not abs(signs[0]) > 0:
        return np.ones(_MOST, dtype=bool)
    return ~(signs[1:] == -signs[0])
