"""Points of a phase diagram to simulate: a grid, refined where the picture changes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.axes import Scale, at_least
from iclimit.diagrams.quantities import Quantity

# A rectangle is split if the change across it exceeds the mean over all by this factor.
_STEEP = 2.0

# Distance, in shares of the axes, up to which a curve beside a rectangle counts as crossing it: a
# boundary may run along the side of a rectangle, and its last digits must not decide.
_BESIDE = 1e-4

_CORNERS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])


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
    shape : int or two int >= 2
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
    both = tuple(shape) if isinstance(shape, (list, tuple)) else (shape, shape)
    if not (len(both) == 2 and all(at_least(2, n) for n in both)):
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
        values = quantity.evaluate({**fixed, **parameters(points)})
        return np.log(values) if np.min(values) > 0 else values

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


def refined_points(
    shape: tuple[int, int],
    rounds: int,
    value: Callable[[np.ndarray], np.ndarray],
    curves: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """Corners of rectangles that are split where a curve passes or a value changes most.

    Parameters
    ----------
    shape : tuple of int >= 2
        Points along the two sides of the unit square to begin with.
    rounds : int >= 0
        How often rectangles are split in four.
    value : callable
        Values (n,) at points (n, 2) of the unit square; infinite ones count as no change.
    curves : sequence of arrays (m, 2)
        Polygonal lines in the unit square; every rectangle that one crosses is split.

    Returns
    -------
    ndarray (n, 2)
        Points, all different, those of earlier rounds first.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.diagrams.phase_points import refined_points
    >>> line = np.array([[0.1, 0.0], [0.1, 1.0]])
    >>> points = refined_points((3, 3), 1, lambda points: 0 * points[:, 0], [line])
    >>> len(points), int(np.sum(points[9:, 0] < 0.6))
    (18, 9)
    """
    columns, rows = shape
    x = np.linspace(0, 1, columns)
    y = np.linspace(0, 1, rows)
    low = np.stack(np.meshgrid(x[:-1], y[:-1], indexing="ij"), axis=-1).reshape(-1, 2)
    size = np.array([x[1], y[1]])
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    for _ in range(rounds):
        split = _crossed(low, size, curves) | _steep(low, size, value)
        if not np.any(split):
            break
        size = size / 2
        low = (low[split, None, :] + _CORNERS * size).reshape(-1, 2)
        new = (low[:, None, :] + _CORNERS * size).reshape(-1, 2)
        points = _distinct(np.concatenate([points, new]))
    return points


def _crossed(low: np.ndarray, size: np.ndarray, curves: Sequence[np.ndarray]) -> np.ndarray:
    """Which rectangles a segment of a curve meets (the part of it between all four sides).

    Curves that pass within `_BESIDE` count.
    """
    crossed = np.zeros(len(low), bool)
    for curve in curves:
        start = curve[:-1]
        step = np.diff(curve, axis=0)
        below = low[:, None, :] - _BESIDE - start
        above = (low + size)[:, None, :] + _BESIDE - start
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.stack([below / step, above / step])
        along = np.where((below <= 0) & (above >= 0), np.inf, -np.inf)
        enter = np.max(np.where(step == 0, -along, np.min(at, axis=0)), axis=2)
        leave = np.min(np.where(step == 0, along, np.max(at, axis=0)), axis=2)
        crossed |= np.any(np.maximum(enter, 0) <= np.minimum(leave, 1), axis=1)
    return crossed


def _steep(
    low: np.ndarray, size: np.ndarray, value: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Which rectangles a value changes across by much more than across the others."""
    corners = (low[:, None, :] + _CORNERS * size).reshape(-1, 2)
    values = np.asarray(value(corners), float).reshape(-1, len(_CORNERS))
    finite = np.all(np.isfinite(values), axis=1)
    change = np.where(finite, np.ptp(np.where(finite[:, None], values, 0.0), axis=1), 0.0)
    return change > _STEEP * np.mean(change)


def _distinct(points: np.ndarray) -> np.ndarray:
    """The points without repetitions, in their order."""
    _, first = np.unique(np.round(points, 12), axis=0, return_index=True)
    return points[np.sort(first)]
