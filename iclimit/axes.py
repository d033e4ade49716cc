"""Axes of curves and diagrams: their spacing, and positions along them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.checks import refuse_masked
from iclimit.drawing import Axes, log_scale
from iclimit.grids import geometric_points

# A geometric grid of at most so many times the points becomes integers of which many coincide.
_ROUNDED = 4

# Ratio of neighbours from which on cells of a picture are even in the logarithm.
_COARSE = 1.2

# Powers of two that are ticks, each with its number.
_POWERS = 14


def is_geometric(grid: np.ndarray) -> bool:
    """Whether the grid is spaced evenly in the logarithm rather than in the value."""
    if grid.size < 3 or np.any(grid <= 0) or np.any(np.isinf(grid)):
        return False
    return is_even(np.log(grid))


def is_logarithmic(grid: np.ndarray) -> bool:
    """Whether the grid is geometric, or the integers next to a geometric grid."""
    if is_geometric(grid):
        return True
    first = float(grid[0])
    last = float(grid[-1])
    size = grid.size
    if size < 3 or not np.all(np.isfinite(grid)) or first <= 0 or np.any(grid != grid.round()):
        return False
    return not is_even(grid) and any(
        np.array_equal(grid, np.unique(np.geomspace(first, last, count).round()))
        for count in range(size, _ROUNDED * size)
    )


def log_axis(ax: Axes, name: str, grid: np.ndarray) -> None:
    """Make an axis logarithmic if its grid is; powers of two become its ticks."""
    if not is_logarithmic(grid):
        return
    log_scale(ax, name)
    if grid.size <= _POWERS and np.all(np.log2(grid) == np.log2(grid).round()):
        axis = getattr(ax, f"{name}axis")
        axis.set_ticks(grid, [f"{value:g}" for value in grid])
        axis.set_ticks([], minor=True)


def cell_edges(grid: np.ndarray) -> np.ndarray:
    """Edges of cells around the points of a grid, half-way as the axis is drawn."""
    coarse = is_logarithmic(grid) and grid[1] > _COARSE * grid[0]
    points = np.log(grid) if coarse else grid
    middle = (points[1:] + points[:-1]) / 2
    edges = np.concatenate([2 * points[:1] - middle[:1], middle, 2 * points[-1:] - middle[-1:]])
    return np.exp(edges) if coarse else edges


def is_even(grid: np.ndarray) -> bool:
    """Whether the grid is spaced evenly in the value."""
    steps = np.diff(grid)
    return bool(np.ptp(steps) < 1e-6 * abs(steps).max())


@dataclass(frozen=True)
class Scale:
    """Position along an axis as a share of its length, as it is drawn."""

    grid: np.ndarray

    def value(self, share: np.ndarray) -> np.ndarray:
        """Parameter at a share of the length."""
        first = self.grid[0]
        last = self.grid[-1]
        if is_logarithmic(self.grid):
            points = geometric_points(float(first), float(last), np.ravel(share).tolist())
            return np.reshape(points, np.shape(share))
        return first + (last - first) * share

    def share(self, value: np.ndarray) -> np.ndarray:
        """Share of the length at which a parameter is."""
        first = self.grid[0]
        last = self.grid[-1]
        if is_logarithmic(self.grid):
            return np.log(value / first) / np.log(last / first)
        return (value - first) / (last - first)


def parse_axis(name: str, value: Any) -> np.ndarray:
    """Values of a parameter as a one-dimensional array."""
    refuse_masked(name, value)
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {value!r}")
    return np.atleast_1d(array.astype(float))


def at_least(least: int, value: object) -> bool:
    """Whether a value is an integer of this size or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
