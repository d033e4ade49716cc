"""Intervals of the real line, and functions that live on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import real_array

Intervals = tuple[tuple[float, float], ...]
"""Sorted disjoint intervals (lower, upper); also sorted pairs (position, mass) of atoms."""


def inside(x: np.ndarray, intervals: Iterable[tuple[float, float]], closed: bool = False) -> Any:
    """Whether each point lies in one of the intervals."""
    within = np.zeros(x.shape, dtype=bool)
    for lower, upper in intervals:
        within |= (x >= lower) & (x <= upper) if closed else (x > lower) & (x < upper)
    return within


def density_on(
    intervals: Iterable[tuple[float, float]],
    x: Any,
    function: Callable[[np.ndarray], Any],
    closed: bool = True,
) -> Any:
    """Density that is a function on some intervals and zero elsewhere."""
    x = real_array("x", x)
    within = inside(x, intervals, closed)
    value = np.zeros(x.shape)
    with np.errstate(all="ignore"):
        value[within] = function(x[within])
    return value[()]


def merged_intervals(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """Union of intervals."""
    merged: list[tuple[float, float]] = []
    for lower, upper in sorted(intervals):
        if merged and lower <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], upper)
        else:
            merged.append((lower, upper))
    return tuple(merged)


def merged_atoms(atoms: Iterable[tuple[float, float]]) -> Intervals:
    """Atoms, those at the same position added."""
    masses: dict[float, float] = {}
    for position, mass in atoms:
        masses[position] = masses.get(position, 0.0) + mass
    return tuple(sorted(masses.items()))
