r"""Orthonormal polynomials on a union of intervals.

Each interval carries the arcsine law, of mass one.  For a single interval these are the Chebyshev
polynomials; for several they are of size one on all intervals, however large between them.  The
Arnoldi method finds them on Chebyshev nodes, on which the inner products are exact, and its
recurrence

.. math:: x\, q_j = \sum_{i \le j + 1} h_{ij}\, q_i

evaluates them elsewhere (Brubeck, Nakatsukasa and Trefethen, SIAM Review 63 (2021) 405).
"""

from collections.abc import Sequence

import numpy as np


class IntervalPolynomials:
    """Polynomials of degree 0, 1, ..., degree, orthonormal on intervals.

    Parameters
    ----------
    intervals : sequence of (float, float)
        Disjoint intervals in ascending order.
    degree : int
        Largest degree.

    Attributes
    ----------
    nodes : ndarray (m,)
        Points on the intervals.
    projection : ndarray (degree + 1, m)
        Takes the values of a polynomial at the nodes to its coefficients.
    largest : float
        Largest value of all polynomials on the intervals.
    """

    def __init__(self, intervals: Sequence[tuple[float, float]], degree: int) -> None:
        lower = intervals[0][0]
        upper = intervals[-1][1]
        self._middle = (upper + lower) / 2
        self._half = (upper - lower) / 2
        count = degree + 1
        angles = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        parts = [(a + b) / 2 + (b - a) / 2 * angles for a, b in intervals]
        self.nodes = np.concatenate(parts)
        x = self._scaled(self.nodes)
        basis = np.ones((degree + 1, x.size)) * np.sqrt(count)
        basis[0] /= np.sqrt(x.size)
        self._first = float(basis[0, 0])
        self._recurrence = np.zeros((degree + 1, degree))
        for j in range(degree):
            new = x * basis[j]
            known = basis[: j + 1]
            for _ in range(2):  # once more, against rounding
                shares = known @ new / count
                new = new - shares @ known
                self._recurrence[: j + 1, j] += shares
            size = np.sqrt(new @ new / count)
            self._recurrence[j + 1, j] = size
            basis[j + 1] = new / size
        self.largest = float(np.max(abs(basis)))
        self.projection = basis / count

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return (x - self._middle) / self._half

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (degree + 1, m) at m real or complex points."""
        x = self._scaled(np.asarray(points))
        H = self._recurrence
        values = np.full((len(H), x.size), self._first, dtype=x.dtype)
        for j in range(len(H) - 1):
            values[j + 1] = (x * values[j] - H[: j + 1, j] @ values[: j + 1]) / H[j + 1, j]
        return values

    def zeros(self, coefficients: np.ndarray) -> np.ndarray:
        """Zeros of a combination of all polynomials, the last of which takes part."""
        H = self._recurrence
        matrix = H[:-1].copy()
        matrix[:, -1] -= H[-1, -1] * coefficients[:-1] / coefficients[-1]
        return self._middle + self._half * np.linalg.eigvals(matrix)
