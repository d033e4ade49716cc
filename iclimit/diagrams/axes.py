"""Axes of curves and diagrams: their spacing, and positions along them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def is_geometric(grid: np.ndarray) -> bool:
    """Whether the grid is spaced evenly in the logarithm rather than in the value."""
    if grid.size < 3 or np.any(grid <= 0) or np.any(np.isinf(grid)):
        return False
    return is_even(np.log(grid))


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
        first, last = self.grid[0], self.grid[-1]
        if is_geometric(self.grid):
            return first * (last / first) ** share
        return first + (last - first) * share

    def share(self, value: np.ndarray) -> np.ndarray:
        """Share of the length at which a parameter is."""
        first, last = self.grid[0], self.grid[-1]
        if is_geometric(self.grid):
            return np.log(value / first) / np.log(last / first)
        return (value - first) / (last - first)


def at_least(least: int, value: object) -> bool:
    """Whether a value is an integer of this size or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def given_axes(ax: Axes | None) -> Axes:
    """Return the axes to draw into, new ones for None."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    new: Axes = plt.subplots(layout="constrained")[1]
    return new
