"""Roots and minima, elementwise: SciPy's for NumPy arrays, recorded for recorded ones.

Functions take the argument that is searched for and then ``args``, one point at each place of the
arrays.  The number system of the arguments may bring its own searches (`iclimit.explorer`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.numbers import Namespace

_TIGHT = {"xatol": 1e-15, "xrtol": 1e-15, "fatol": 0, "frtol": 0}


def find_root(
    math_: Namespace,
    function: Callable[..., Any],
    bracket: tuple[Any, Any],
    args: Sequence[Any],
    report: Callable[[int], str],
) -> Any:
    """Root between the ends of a bracket; an ArithmeticError reports the first one not found."""
    if search := getattr(math_, "find_root", None):
        return search(function, bracket, args)
    found = elementwise.find_root(function, bracket, args=tuple(args), tolerances=_TIGHT)
    return _found(found, report)


def find_root_above(
    math_: Namespace,
    function: Callable[..., Any],
    start: Any,
    args: Sequence[Any],
    report: Callable[[int], str],
) -> Any:
    """Root above a point, looked for from there on; errors are reported in the same way."""
    if search := getattr(math_, "find_root_above", None):
        return search(function, start, args)
    args = tuple(args)
    bracket = elementwise.bracket_root(function, start, start + 1.0, xmin=start, args=args)
    return _found(elementwise.find_root(function, bracket.bracket, args=args), report)


def _found(result: Any, report: Callable[[int], str]) -> Any:
    if not np.all(result.success):
        raise ArithmeticError(report(int(np.argmin(result.success))))
    return result.x


def find_minimum(
    math_: Namespace, function: Callable[..., Any], points: np.ndarray, args: Sequence[Any]
) -> tuple[Any, Any]:
    """Minimum near the best of some points and its value; at the ends only the points count."""
    if search := getattr(math_, "find_minimum", None):
        return search(function, points, args)
    scanned = np.stack([function(point, *args) for point in points])
    best, value = np.argmin(scanned, axis=0), np.min(scanned, axis=0)
    x = points[best]
    inside = (best > 0) & (best < len(points) - 1)
    bracket = tuple(points[best[inside] + shift] for shift in (-1, 0, 1))
    found = elementwise.find_minimum(function, bracket, args=tuple(v[inside] for v in args))
    x[inside], value[inside] = found.x, found.f_x
    return x, value
