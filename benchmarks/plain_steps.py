"""Errors after steps at test time by their two-time sums as they stand, with NumPy."""

import numpy as np

from iclimit.asymptotics.spectra import MarchenkoPastur


def plain_errors(alpha: float, tau: float, noise: float, steps: int) -> np.ndarray:
    """Errors after 0..steps steps, each entry of V a double sum over those before it."""
    g = alpha / (alpha + 1 + noise)
    v = g * (1 - g) / (tau - 1)
    nodes, weights = MarchenkoPastur(1 / alpha).quadrature(2 * steps)
    powers = (1 - g * nodes) ** np.arange(2 * steps + 1)[:, None]
    m0, m1, m2 = (powers @ (weights * nodes**r) for r in range(3))
    times = np.add.outer(np.arange(steps + 1), np.arange(steps + 1))
    C = m0[times]
    B = m2[times]
    V = B + noise / alpha * m1[times]
    fit = np.cumsum(np.cumsum(m1[times], axis=0), axis=1)
    for k in range(steps):
        for j in range(k + 1):
            V[k, j] += v * np.sum(B[:k, :j][::-1, ::-1] * V[:k, :j])
            V[j, k] = V[k, j]
    errors = [1.0]
    for k in range(1, steps + 1):
        pushed = v * np.sum(C[:k, :k][::-1, ::-1] * V[:k, :k])
        errors.append(C[k, k] + g**2 * noise / alpha * fit[k - 1, k - 1] + pushed)
    return np.array(errors)
