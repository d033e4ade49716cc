"""Lines on which a function of two parameters vanishes.

The function is evaluated on a grid, contours through its changes of sign are joined to lines, and
every vertex is moved along its grid edge to the root.  So vertices are exact whatever the grid: it
only decides which features are seen, and how smooth a line looks.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import elementwise

# Most grid points along an axis at which the function is evaluated.
POINTS = 401

# A change of sign at which the function stays larger than this, relative to the ends of its edge,
# is a jump and no root.
_JUMP = 1e-6


def zero_lines(
    margin: Callable[[Mapping[str, Any]], Any],
    x: tuple[str, np.ndarray],
    y: tuple[str, np.ndarray],
    fixed: Mapping[str, float],
    points: int = POINTS,
) -> list[np.ndarray]:
    """Lines on which a margin vanishes.

    Parameters
    ----------
    margin : callable
        Signed function of the parameters by name, broadcasting.
    x, y : tuple of str and ndarray
        Name and ascending grid of the parameter along each axis.
    fixed : mapping
        The other parameters.
    points : int
        Most points of a grid that are used.

    Returns
    -------
    list of ndarray (n, 2)
        Vertices x, y of each line in order; of a closed line the first is also the last.
    """
    from contourpy import contour_generator

    x_name, x_grid = x
    y_name, y_grid = y
    x_grid = _thinned(x_grid, points)
    y_grid = _thinned(y_grid, points)
    if min(x_grid.size, y_grid.size) < 2:
        return []

    def at(x_values: np.ndarray, y_values: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            values = margin({**fixed, x_name: x_values, y_name: y_values})
        return np.asarray(values, dtype=float)

    shape = (y_grid.size, x_grid.size)
    values = np.broadcast_to(at(x_grid[None, :], y_grid[:, None]), shape)
    above = values > 0
    if not np.any(above):
        above = values >= 0  # it may vanish on the last row or column
    signs = np.ma.masked_array(np.where(above, 1.0, -1.0), mask=np.isnan(values))
    # In units of grid points every vertex is in the middle of an edge.
    lines: Any = contour_generator(z=signs, corner_mask=False).lines(0.0)
    if not lines:
        return []
    middles = np.concatenate(lines)
    polished = _polished(at, x_grid, y_grid, middles)
    parts = np.split(polished, np.cumsum([len(line) for line in lines])[:-1])
    return [piece for line in parts for piece in _unbroken(line)]


def _thinned(grid: np.ndarray, points: int) -> np.ndarray:
    """Finite points of a grid, not more than are needed."""
    grid = grid[np.isfinite(grid)]
    return grid[np.linspace(0, grid.size - 1, min(grid.size, points)).round().astype(int)]


def _polished(
    at: Callable[..., np.ndarray], x_grid: np.ndarray, y_grid: np.ndarray, middles: np.ndarray
) -> np.ndarray:
    """Move vertices along their edges to the roots; NaN where the margin jumps."""
    low = np.floor(middles.T).astype(int)
    high = np.ceil(middles.T).astype(int)
    ends = x_grid[low[0]], x_grid[high[0]], y_grid[low[1]], y_grid[high[1]]
    start = np.zeros(len(middles))
    stop = np.ones(len(middles))

    def along(part: np.ndarray, *ends: np.ndarray) -> np.ndarray:
        return at(_between(part, *ends[:2]), _between(part, *ends[2:]))

    tolerances = {"xatol": 1e-14, "xrtol": 1e-14, "fatol": 0, "frtol": 0}
    search = elementwise.find_root(along, (start, stop), args=ends, tolerances=tolerances)
    scale = np.maximum(abs(along(start, *ends)), abs(along(stop, *ends)))
    root = np.stack([_between(search.x, *ends[:2]), _between(search.x, *ends[2:])], axis=1)
    root[~(abs(search.f_x) <= _JUMP * scale)] = np.nan
    return root


def _between(part: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Point between low and high, exactly low or high at the ends."""
    return np.where(low == high, low, (1 - part) * low + part * high)


def _unbroken(line: np.ndarray) -> list[np.ndarray]:
    """Split a line at vertices that are NaN; what is a single point is no line."""
    good = np.isfinite(line[:, 0])
    pieces = np.split(line, np.flatnonzero(np.diff(good)) + 1)
    return [piece for piece in pieces if np.isfinite(piece[0, 0]) and np.any(np.ptp(piece, 0) > 0)]
