"""Roots, minima and fixed points of many problems at once.

Those of scalar functions are SciPy's for NumPy arrays, recorded for recorded ones.

Functions take the argument that is searched for and then ``args``, one point at each place of the
arrays.  The number system of the arguments may bring its own searches (`iclimit.explorer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import broadcast_shape
from iclimit.asymptotics.numbers import Namespace, Value

# Relative change below which a repeated step has settled.
_SETTLED = 1e-15

# Most steps of `find_roots`; those of 1e5 settings of structured data took 26 at most
# (`benchmarks/stress_structured.py`).
MOST_STEPS = 100

# A smaller step ends Newton's method: it converges quadratically, so only rounding is left.
_CLOSE = 1e-8

# Earlier steps that an accelerated step combines.
_MEMORY = 6

# Plain steps at the start: acceleration from far away may find another root.
_PLAIN = 2

# Points of a scan that are evaluated in one call, about.
_SCANNED_AT_ONCE = 20_000

_TIGHT = {"xatol": 1e-15, "xrtol": 1e-15, "fatol": 0, "frtol": 0}


def find_root(
    math_: Namespace,
    function: Callable[..., Any],
    bracket: tuple[Value, Value],
    args: Mapping[str, Value],
    what: str,
) -> Value:
    """Root between the ends of a bracket; an ArithmeticError says what was not solved, and where.

    ``args`` are the further arguments of the function, under the names of the error.
    """
    values = tuple(args.values())
    if search := getattr(math_, "find_root", None):
        return search(function, bracket, values)
    roots = elementwise.find_root(function, bracket, args=values, tolerances=_TIGHT)
    return _successful(roots, args, what)


def find_root_above(
    math_: Namespace,
    function: Callable[..., Any],
    start: Value,
    args: Mapping[str, Value],
    what: str,
) -> Value:
    """Root above a point, looked for from there on; errors are reported in the same way."""
    values = tuple(args.values())
    if search := getattr(math_, "find_root_above", None):
        return search(function, start, values)
    bracket = elementwise.bracket_root(function, start, start + 1.0, xmin=start, args=values)
    roots = elementwise.find_root(function, bracket.bracket, args=values)
    return _successful(roots, args, what)


def _successful(result: Value, args: Mapping[str, Value], what: str) -> Value:
    if not np.all(result.success):
        worst = int(np.argmin(result.success))
        setting = ", ".join(f"{name}={value[worst]:g}" for name, value in args.items())
        raise ArithmeticError(f"the {what} was not solved at {setting}")
    return result.x


def find_minimum(
    math_: Namespace, function: Callable[..., Any], points: np.ndarray, args: Sequence[Any]
) -> tuple[Value, Value]:
    """Minimum near the best of some points (n, ...) and its value.

    The best point counts at the ends, and where the function is flat to rounding beside it.
    """
    if search := getattr(math_, "find_minimum", None):
        return search(function, points, args)
    shape = np.broadcast_shapes(points.shape[1:], *(np.shape(value) for value in args))
    points = np.sort(points, axis=0)
    points = np.broadcast_to(points.T, (*shape[::-1], len(points))).T.reshape(len(points), -1)
    settings = [np.broadcast_to(numbers, shape).ravel() for numbers in args]
    blocks = np.array_split(points, min(len(points), 1 + points.size // _SCANNED_AT_ONCE))
    scanned = np.concatenate([_values_at(function, block, settings) for block in blocks])
    best = np.argmin(scanned, axis=0)
    value = np.min(scanned, axis=0)
    inside = (best > 0) & (best < len(points) - 1)

    def near_best(shift: int) -> np.ndarray:
        """Points so many places from the best ones; at the ends the best ones themselves."""
        place = np.where(inside, best + shift, best)
        return np.take_along_axis(points, place[None], axis=0)[0]

    x = near_best(0)
    bracket = [near_best(-1), near_best(0), near_best(1)]
    with np.errstate(all="ignore"):
        minima = elementwise.find_minimum(
            function,
            tuple(end[inside] for end in bracket),
            args=tuple(numbers[inside] for numbers in settings),
        )
    inside[inside] = minima.success
    x[inside] = minima.x[minima.success]
    value[inside] = minima.f_x[minima.success]
    return x.reshape(shape), value.reshape(shape)


def _values_at(
    function: Callable[..., Any], points: np.ndarray, settings: Sequence[np.ndarray]
) -> np.ndarray:
    """Values at points (n, m) of m settings."""
    several = [np.tile(numbers, len(points)) for numbers in settings]
    return np.reshape(function(points.ravel(), *several), points.shape)


def repeat_until_settled(
    math_: Namespace, step: Callable[..., Any], start: Value, args: Sequence[Any], most: int
) -> Value:
    """Apply a step again and again, until it changes x >= 0 by less than 1e-15 (1 + x)."""
    if search := getattr(math_, "repeat_until_settled", None):
        return search(step, start, args, most)
    x = start
    for _ in range(most):
        before = x
        x = step(x, *args)
        if np.all(np.abs(x - before) <= _SETTLED * (1 + x)):
            break
    return x


def count_until(math_: Namespace, step: Callable[[Any], Any], start: Value, goal: Value) -> Value:
    """How often a step is applied to x until x <= goal, elementwise."""
    if search := getattr(math_, "count_until", None):
        return search(step, start, goal)
    x = start
    count = np.zeros(broadcast_shape({"start": start, "goal": goal}), dtype=int)
    while np.any(above := np.asarray(x > goal, dtype=bool)):
        count += above
        x = step(x)
    return count[()]


def find_roots(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    lower: np.ndarray,
    upper: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:
    """Positive roots of monotone equations by Newton's method in log x, kept within bounds.

    ``step(x, index)`` is the Newton step in log x of the equations ``index``; it points to the
    root.  The bracket is halved in the logarithm where a step would leave it, or is longer than
    half the last step but one.
    """
    shape = np.shape(start)
    x = np.array(start, dtype=float).ravel()
    lower = np.array(lower, dtype=float).ravel()
    upper = np.array(upper, dtype=float).ravel()
    last, before = np.full((2, x.size), np.inf)
    index = np.arange(x.size)
    for _ in range(MOST_STEPS):
        here = x[index]
        move = step(here, index)
        if np.any(np.isnan(move)):
            break
        low = np.where(move > 0, here, lower[index])
        high = np.where(move < 0, here, upper[index])
        lower[index] = low
        upper[index] = high
        new = here * np.exp(move)
        done = np.abs(move) < _CLOSE
        newton = done | ((new > low) & (new < high) & (np.abs(move) <= before[index] / 2))
        x[index] = np.where(newton, new, np.sqrt(low) * np.sqrt(high))
        before[index] = last[index]
        last[index] = np.where(newton, np.abs(move), np.log(high / low) / 2)
        index = index[~done]
        if index.size == 0:
            return x.reshape(shape)
    raise ArithmeticError(
        f"the fixed point was not solved within {MOST_STEPS} iterations: arguments too "
        "extreme for float64"
    )


def fixed_points(
    step: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    tolerance: float,
    limit: int,
    allowed: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, bool]:
    """Solve x = step(x) for a batch of problems, one for each index of the first axis.

    Each accelerated step minimises the linearised change among the last steps (Anderson mixing,
    Walker and Ni, SIAM J. Numer. Anal. 49, 1715 (2011), by normal equations).

    Parameters
    ----------
    step : callable
        Map of the whole batch.
    start : ndarray (b, ...)
        First guess.
    tolerance : float
        Largest change of a step, relative to its result in the Euclidean norm.
    limit : int
        Most steps.
    allowed : callable, optional
        Which problems of a batch are at a permitted point, (b,); where an accelerated step leads
        elsewhere, the plain one is taken.  None: all points are permitted.

    Returns
    -------
    ndarray (b, ...), bool
        The last step, and whether all problems reached the tolerance.
    """
    x = start.reshape(len(start), -1)
    points: list[np.ndarray] = []
    changes: list[np.ndarray] = []
    for count in range(limit):
        new = step(x.reshape(start.shape)).reshape(x.shape)
        change = new - x
        size = np.linalg.norm(change, axis=1)
        if np.all(size <= tolerance * np.linalg.norm(new, axis=1)):
            return new.reshape(start.shape), True
        points = [*points[-_MEMORY:], x]
        changes = [*changes[-_MEMORY:], change]
        x = new
        if count >= _PLAIN:
            faster = new - _combination(points, changes)
            x = faster
            if allowed is not None:
                x = np.where(allowed(faster.reshape(start.shape))[:, None], faster, new)
    return new.reshape(start.shape), False


def _combination(points: list[np.ndarray], changes: list[np.ndarray]) -> np.ndarray:
    """Combination of earlier differences that Anderson mixing subtracts from a plain step."""
    of_points = np.diff(np.stack(points, axis=1), axis=1)
    of_changes = np.diff(np.stack(changes, axis=1), axis=1)
    gram = of_changes @ of_changes.swapaxes(1, 2)
    # Scaled to a unit diagonal; the shift keeps dependent differences harmless.
    scale = 1 / np.sqrt(np.einsum("bii->bi", gram) + np.finfo(float).tiny)
    gram *= scale[:, :, None] * scale[:, None, :]
    gram += 1e-13 * np.eye(gram.shape[-1])
    right = (of_changes @ changes[-1][..., None]) * scale[..., None]
    weights = np.linalg.solve(gram, right) * scale[..., None]
    return np.sum((of_points + of_changes) * weights, axis=1)
