"""Curves for drawing: on a dense grid, climbing out of the picture where they diverge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iclimit.diagrams.axes import Scale, is_geometric

# Least number of points of a drawn curve.
POINTS = 300

# A peak is looked at so often, between the neighbours of its highest point, at these points.
_ZOOMS, _SHARES = 6, np.linspace(0, 1, 33)

# A peak that grows by less than this factor in the first zoom is smooth.
_FLAT = 1.05

# A peak that grows by more than this factor in the last zoom has no top.  A pole grows by 16 in
# each, a square root of one by 4.
_DIVERGENT = 1.5

# A point that is larger than its neighbours, or a peak that is higher than on the grid, by this
# factor is the divergence but for rounding.
_BEYOND = 1e6

# Peaks that are looked at, the highest: a function found by a search has many small ones.
_MOST_PEAKS = 8

# Points on each side of a divergence, each half as far from it as the one before.
_HALVINGS = 24

# Share of the axis beside a divergence that does not count for the limits of the other axis.
_CLEARANCE = 0.01


@dataclass(frozen=True)
class Line:
    """A curve as it is drawn.

    Attributes
    ----------
    x, y : ndarray (points,)
        With NaN in y at divergences and where the curve is infinite.
    framed : ndarray (points,)
        The same y without what is so near to a divergence that it should leave the picture.
    """

    x: np.ndarray
    y: np.ndarray
    framed: np.ndarray


def dense_line(
    function: Callable[[np.ndarray], np.ndarray], grid: np.ndarray, values: np.ndarray
) -> Line:
    """Curve through given points, with more of them in between and around its divergences.

    Parameters
    ----------
    function : callable
        Of the real parameter along the curve, vectorised.
    grid, values : ndarray (points,)
        Points that are known.

    Returns
    -------
    Line
    """
    kept = np.isfinite(grid)
    x, first = np.unique(grid[kept], return_index=True)
    y = values[kept][first]
    if x.size < 2:
        return Line(x, y, y)
    x, y = _joined(function, x, y, _between(x))
    peaks, poles = _peaks_and_poles(function, x, y)
    steps = 0.5 ** np.arange(1, _HALVINGS + 1)
    sides = [
        pole + steps * (end - pole)
        for pole in poles
        for end in (x[x < pole][-1:], x[x > pole][:1])
        if end.size
    ]
    x, y = _joined(function, x, y, np.concatenate([peaks, *sides]))
    x, y = _joined(lambda pole: np.full(pole.size, np.nan), x, y, poles)
    y = np.where(np.isfinite(y) & ~np.isin(x, poles), y, np.nan)
    scale = Scale(np.unique(grid[kept]))
    beside = np.zeros(x.size, dtype=bool)
    for pole in poles:
        beside |= abs(scale.share(x) - scale.share(pole)) < _CLEARANCE
    return Line(x, y, np.where(beside, np.nan, y))


def _between(x: np.ndarray) -> np.ndarray:
    """Points between those of a grid, as many as it lacks, spaced as it is."""
    pieces = -(-POINTS // (x.size - 1))
    shares = np.arange(1, pieces) / pieces
    low, high = x[:-1, None], x[1:, None]
    if is_geometric(x):
        return (low * (high / low) ** shares).ravel()
    return (low + (high - low) * shares).ravel()


def _joined(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray, more: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y with more points, in order."""
    more = np.setdiff1d(more, x)
    if not more.size:
        return x, y
    x, y = np.concatenate([x, more]), np.concatenate([y, function(more)])
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _peaks_and_poles(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points that show the tops of sharp peaks, and where the function diverges."""
    size = np.where(np.isnan(y), 0, abs(y))
    inner, beside = size[1:-1], np.maximum(size[:-2], size[2:])
    pole = np.isfinite(beside) & (inner / _BEYOND > beside)
    poles = x[1:-1][pole].tolist()
    at = 1 + np.flatnonzero(
        (inner > size[:-2]) & (inner >= size[2:]) & ~pole & np.isfinite(beside)
    )
    at = at[np.argsort(-size[at])][:_MOST_PEAKS]
    low, high, top, shown = x[at - 1], x[at + 1], size[at], [np.empty(0)]
    first = top
    for zoom in range(_ZOOMS):
        if not low.size:
            break
        points = low[:, None] + (high - low)[:, None] * _SHARES
        heights = abs(function(points))
        best, rows = np.nanargmax(heights, axis=1), np.arange(low.size)
        growth = heights[rows, best] / top
        far, last = heights[rows, best] / _BEYOND > first, zoom == _ZOOMS - 1
        pole = np.isinf(growth) | (far & (last | (growth <= _FLAT)))
        pole |= last & (growth > _DIVERGENT)
        poles += points[rows, best][pole].tolist()
        sharp = ~pole & (growth > _FLAT)
        shown.append(points[sharp].ravel())
        top, first = heights[rows, best][sharp], first[sharp]
        around = np.clip(best, 1, _SHARES.size - 2)
        low, high = (points[rows, around + step][sharp] for step in (-1, 1))
    return np.concatenate(shown), np.unique(poles)
