"""Roots and minima, elementwise: SciPy's for NumPy arrays, recorded for recorded ones.

Functions take the argument that is searched for and then ``args``, one point at each place of the
arrays.  The number system of the arguments may bring its own searches (`iclimit.explorer`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import broadcast_shape
from iclimit.asymptotics.numbers import Namespace

_SETTLED = 1e-15
"""Relative change below which a repeated step has settled."""

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
    """Minimum near the best of some points (n, ...) and its value.

    The best point counts at the ends, and where the function is flat to rounding beside it.
    """
    if search := getattr(math_, "find_minimum", None):
        return search(function, points, args)
    points = np.sort(points, axis=0)
    scanned = np.stack([function(point, *args) for point in points])
    shape = scanned.shape[1:]
    points = np.broadcast_to(points.T, scanned.T.shape).T.reshape(len(points), -1)
    scanned = scanned.reshape(points.shape)
    best, value = np.argmin(scanned, axis=0), np.min(scanned, axis=0)
    inside = (best > 0) & (best < len(points) - 1)
    x, *bracket = (
        np.take_along_axis(points, np.where(inside, best + shift, best)[None], axis=0)[0]
        for shift in (0, -1, 0, 1)
    )
    with np.errstate(all="ignore"):
        found = elementwise.find_minimum(
            function,
            tuple(end[inside] for end in bracket),
            args=tuple(np.broadcast_to(v, shape).ravel()[inside] for v in args),
        )
    inside[inside] = found.success
    x[inside], value[inside] = found.x[found.success], found.f_x[found.success]
    return x.reshape(shape), value.reshape(shape)


def repeat_until_settled(
    math_: Namespace, step: Callable[..., Any], start: Any, args: Sequence[Any], most: int
) -> Any:
    """Apply a step again and again, until it changes x >= 0 by less than 1e-15 (1 + x)."""
    if search := getattr(math_, "repeat_until_settled", None):
        return search(step, start, args, most)
    x = start
    for _ in range(most):
        before, x = x, step(x, *args)
        if np.all(np.abs(x - before) <= _SETTLED * (1 + x)):
            break
    return x


def count_until(math_: Namespace, step: Callable[[Any], Any], start: Any, goal: Any) -> Any:
    """How often a step is applied to x until x <= goal, elementwise."""
    if search := getattr(math_, "count_until", None):
        return search(step, start, goal)
    x, count = start, np.zeros(broadcast_shape(start=start, goal=goal), dtype=int)
    while np.any(above := np.asarray(x > goal, dtype=bool)):
        count += above
        x = step(x)
    return count[()]
