"""Points of a phase diagram to simulate: a grid, refined where the picture changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.diagrams.axes import Scale, at_least
from iclimit.diagrams.quantities import Quantity
from iclimit.diagrams.refinement import refined_points


def points_to_simulate(
    quantity: Quantity,
    grids: Mapping[str, np.ndarray],
    fixed: Mapping[str, float],
    boundaries: Sequence[np.ndarray],
    shape: Any,
    refine: int,
) -> list[dict[str, float]]:
    """Parameters of the points of a diagram to simulate.

    Parameters
    ----------
    quantity : Quantity
        What the diagram shows.
    grids : mapping of two names to ndarrays
        The axes x and y, finite and ascending.
    fixed : mapping
        The other parameters.
    boundaries : sequence of arrays (n, 2)
        Lines in the diagram.
    shape : int or tuple of two int >= 2
        Points along the axes to begin with.
    refine : int >= 0
        How often the rectangles between points are split in four where a boundary passes or the
        quantity changes most: its logarithm, where it is positive.

    Returns
    -------
    list of dict
        Those points at which the theory is finite.

    Raises
    ------
    ValueError
        If an argument is not allowed.
    """
    both = (shape, shape) if isinstance(shape, int) else shape
    if not (isinstance(both, tuple) and len(both) == 2 and all(at_least(2, n) for n in both)):
        raise ValueError(f"points of the simulation must be one or two integers >= 2, got {shape}")
    if not at_least(0, refine):
        raise ValueError(f"refine must be an integer >= 0, got {refine!r}")
    for name, grid in grids.items():
        if not np.all(np.isfinite(grid)):
            raise ValueError(f"{name} must be finite to simulate, got inf")
    axes = {name: Scale(grid) for name, grid in grids.items()}

    def parameters(points: np.ndarray) -> dict[str, np.ndarray]:
        pairs = zip(axes.items(), points.T, strict=True)
        return {name: axis.value(shares) for (name, axis), shares in pairs}

    def height(points: np.ndarray) -> np.ndarray:
        found = quantity.evaluate({**fixed, **parameters(points)})
        return np.log(found) if np.min(found) > 0 else found

    lines = [
        np.column_stack([axis.share(v) for axis, v in zip(axes.values(), line.T, strict=True)])
        for line in boundaries
    ]
    points = refined_points(both, refine, height, lines)
    points = points[np.isfinite(height(points))]
    return [
        {**fixed, **dict(zip(axes, place, strict=True))}
        for place in np.column_stack(list(parameters(points).values())).tolist()
    ]
