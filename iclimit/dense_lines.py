"""Curves for drawing: on a dense grid, climbing out of the picture where they diverge."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iclimit.axes import Scale

# Least number of points of a drawn curve.
POINTS = 300

# Peaks that are looked at, the highest: a function that is found by a search has many small ones.
_MOST_PEAKS = 8

# How often a peak is magnified, each time 16-fold, in all by 3e8.
_ZOOMS = 7

# Points at which a magnified peak is looked at, as shares of the distance to its neighbours: from
# one on its left, -1, to one on its right, 1.
_SHARES = np.linspace(-1, 1, 33)[:, None]

# Poles that are nearer to each other than this share of the axis are one, seen twice.
_SAME = 1e-9

# A peak has a top, or is the edge of a jump, if the next two points on a side of the highest are
# at least so high relative to it.  Beside a pole they are at most 0.33 as high, at most 0.58 where
# it is a square root, however near to the pole the highest point is.
_LEVEL = 0.98

# Share of the axis beside a divergence that does not count for the limits of the other axis.
_CLEARANCE = 0.01

# Number of points on each side of a divergence: the first is as far away as the clearance, and
# each of the others half as far as the one before.
_HALVINGS = 21


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
    scale = Scale(x)
    pieces = -(-POINTS // (x.size - 1))
    known = scale.share(x)
    between = known[:-1, None] + np.diff(known)[:, None] * np.arange(1, pieces) / pieces
    points = scale.value(between.ravel())
    x, y = _merged(x, y, points, function(points))
    points, heights, poles = _peaks_and_poles(function, x, y)
    x, y = _merged(x, y, points, heights)
    steps = _CLEARANCE * 0.5 ** np.arange(_HALVINGS)
    sides = scale.share(poles)[:, None] + np.concatenate([-steps, steps])
    points = scale.value(sides[(sides > 0) & (sides < 1)])
    x, y = _merged(x, y, points, function(points))
    x, y = _merged(poles, np.full(poles.size, np.nan), x, y)
    y = np.where(np.isfinite(y), y, np.nan)
    beside = np.zeros(x.size, dtype=bool)
    for pole in poles:
        # The outermost points of the sides stay.
        beside |= abs(scale.share(x) - scale.share(pole)) < 0.999 * _CLEARANCE
    return Line(x, y, np.where(beside, np.nan, y))


def _merged(
    x: np.ndarray, y: np.ndarray, more_x: np.ndarray, more_y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and more points in order; where they coincide the first ones stay."""
    merged, first = np.unique(np.concatenate([x, more_x]), return_index=True)
    return merged, np.concatenate([y, more_y])[first]


def _peaks_and_poles(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points that show the tops of peaks, their values, and where the function diverges.

    Each peak is magnified around its highest point until that has a top; a pole never has one.
    """
    size = np.where(np.isnan(y), 0, abs(y))
    left = np.append(0, size[:-1])
    right = np.append(size[1:], 0)
    apart = np.isfinite(np.maximum(left, right))
    peaks = np.flatnonzero((size > left) & (size >= right) & np.isfinite(size) & apart)
    peaks = peaks[(peaks > 0) & (peaks < x.size - 1)]
    at = peaks[np.argsort(-size[peaks])][:_MOST_PEAKS]
    top = x[at]
    width = np.maximum(x[at + 1] - x[at], x[at] - x[at - 1])
    shown_x = [np.empty(0)]
    shown_y = [np.empty(0)]
    for _ in range(_ZOOMS):
        if not top.size:
            break
        points = top + width * _SHARES
        inside = np.clip(points, x[0], x[-1])
        values = function(inside)
        shown_x.append(inside.ravel())
        shown_y.append(values.ravel())
        highest, sharp = _highest_points(np.where(points == inside, values, np.nan))
        top = points[highest, np.arange(top.size)][sharp]
        width = width[sharp] * _SHARES[17]
    poles = np.unique(np.concatenate([x[np.isinf(size) & apart], top]))
    distinct = np.diff(poles, prepend=-np.inf) > _SAME * (x[-1] - x[0])
    return np.concatenate(shown_x), np.concatenate(shown_y), poles[distinct]


def _highest_points(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row of the highest point in each column, and whether it stands out from those beside it."""
    heights = np.pad(np.where(np.isnan(values), 0, abs(values)), ((2, 2), (0, 0)))
    best = np.argmax(heights, axis=0)
    columns = np.arange(best.size)
    before = np.minimum(heights[best - 1, columns], heights[best - 2, columns])
    after = np.minimum(heights[best + 1, columns], heights[best + 2, columns])
    return best - 2, np.maximum(before, after) < _LEVEL * heights[best, columns]
