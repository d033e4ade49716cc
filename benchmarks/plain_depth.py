"""Loss of tied layers at their best on one drawn context, with NumPy."""

import numpy as np


def drawn_curve(
    eigenvalues: np.ndarray, tasks: np.ndarray, context: int, depths: np.ndarray, seed: int
) -> np.ndarray:
    """Losses at the best step of each depth, by golden section on one context."""
    dim = eigenvalues.size
    X = np.random.default_rng(seed).standard_normal((context, dim)) * np.sqrt(eigenvalues)
    values, basis = np.linalg.eigh(X.T @ X / context)
    pairs = (basis.T * tasks) @ basis * ((basis.T * eigenvalues) @ basis) / dim

    def losses(rates: np.ndarray) -> np.ndarray:
        p = (1 - rates[:, None] * values) ** depths[:, None]
        return np.sum(p @ pairs * p, axis=1)

    golden = (np.sqrt(5) - 1) / 2
    lower = np.zeros(depths.size)
    upper = np.full(depths.size, 2 / values[-1])
    for _ in range(30):
        left = upper - golden * (upper - lower)
        right = lower + golden * (upper - lower)
        fall = losses(left) > losses(right)
        lower = np.where(fall, left, lower)
        upper = np.where(fall, upper, right)
    return losses((lower + upper) / 2)
