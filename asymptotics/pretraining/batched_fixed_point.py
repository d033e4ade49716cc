"""Fixed points of many problems at once, by Anderson acceleration."""

from collections.abc import Callable

import numpy as np

_MEMORY = 6
"""Earlier steps that an accelerated step combines."""

_PLAIN = 2
"""Plain steps at the start: acceleration from far away may find another root."""


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
        points, changes = [*points[-_MEMORY:], x], [*changes[-_MEMORY:], change]
        x = new
        if count >= _PLAIN:
            faster = new - _combination(points, changes)
            x = faster
            if allowed is not None:
                x = np.where(allowed(faster.reshape(start.shape))[:, None], faster, new)
    return new.reshape(start.shape), False


def _combination(points: list[np.ndarray], changes: list[np.ndarray]) -> np.ndarray:
    """Combination of earlier differences that Anderson mixing subtracts from a plain step."""
    of_points, of_changes = (np.diff(np.stack(x, axis=1), axis=1) for x in (points, changes))
    gram = of_changes @ of_changes.swapaxes(1, 2)
    # Scaled to a unit diagonal; the shift keeps dependent differences harmless.
    scale = 1 / np.sqrt(np.einsum("bii->bi", gram) + np.finfo(float).tiny)
    gram *= scale[:, :, None] * scale[:, None, :]
    gram += 1e-13 * np.eye(gram.shape[-1])
    right = (of_changes @ changes[-1][..., None]) * scale[..., None]
    weights = np.linalg.solve(gram, right) * scale[..., None]
    return np.sum((of_points + of_changes) * weights, axis=1)
