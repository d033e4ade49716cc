r"""Moments of the context summary where the order of the pairs matters.

Pairs, their tasks and inputs are those of `iclimit.asymptotics.pretraining.timed_contexts`.

Given all tasks, inputs and labels are jointly Gaussian with
:math:`E\, y_i x_j = K_{ij} w_i/d` and
:math:`E\, y_i y_j = K_{ij} \langle w_i, w_j\rangle/d + \rho\, \delta_{ij}`.  Isserlis' theorem
gives the fourth moments of these, and then averages over :math:`\zeta`.  With
:math:`\omega = |w|^2/d`, :math:`\beta = \operatorname{tr} B/d`, :math:`p_{ij} = m_i m_j`,
:math:`o_{ij} = p_{ij} \omega + z_{ij} \beta` and :math:`v_i = o_{ii} + \rho`,

.. math::

   E h &= (a w, b_1), \qquad b_1 = \frac1\ell \sum_i g_i v_i, \\
   E h_x h_x^\top &= a_2 w w^\top + b I + b_B B, \qquad
   E h_x h_\eta = e_1 w + e_B B w, \\
   a_2 &= \sum p_{ij} (1 + K_{ij}^2), \qquad
   b = d \sum (K_{ij}^2 o_{ij} + \rho\, \delta_{ij}), \qquad b_B = \sum z_{ij} (1 + K_{ij}^2), \\
   e_1 &= \sum \bigl[m_i v_j + 2 K_{ij}^2 m_j o_{ij} + 2 \rho\, \delta_{ij} m_j\bigr], \\
   e_B &= \frac2d \sum \bigl[m_j z_{ij} + K_{ij}^2 (m_i z_{jj} + m_j z_{ij})\bigr], \\
   E h_\eta^2 &= \sum \Bigl[v_i v_j + 2 (K_{ij} o_{ij} + \rho\, \delta_{ij})^2
   + \bigl(4 p_{ij} z_{ij} + 2 K_{ij}^2 (m_i^2 z_{jj} + m_j^2 z_{ii} + 2 p_{ij} z_{ij})\bigr)
   \frac{w^\top B w}{d^2} \\
   &\qquad + 2 \bigl(z_{ij}^2 + K_{ij}^2 (z_{ii} z_{jj} + z_{ij}^2)\bigr)
   \frac{\operatorname{tr} B^2}{d^2}\Bigr] ,

where a is that of `iclimit.asymptotics.pretraining.gates`.  Sums run over i and j and carry
:math:`g_i g_j/\ell^2`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.pretraining.summary_moments import TaskMoments


@dataclass(frozen=True)
class TimedMoments:
    r"""Coefficients of the moments of the summary (head, tail), by powers of :math:`\omega`.

    Attributes
    ----------
    signal : float
        E head is so many times w.
    square, drifted : float
        Coefficients of w w^T and B in E head head^T.
    noise : tuple of float
        That of the identity.
    mixed : tuple of float
        Coefficient of w in E head tail.
    mixed_drifted : float
        That of B w.
    tail, tail_square : tuple of float
        Mean and mean square of the tail.
    tail_along, tail_drifted : float
        Coefficients of w^T B w and tr B^2 in the mean square of the tail.
    """

    signal: float
    square: float
    drifted: float
    noise: tuple[float, float]
    mixed: tuple[float, float]
    mixed_drifted: float
    tail: tuple[float, float]
    tail_square: tuple[float, float, float]
    tail_along: float
    tail_drifted: float

    def tail_mean_square(self, norm: ArrayLike, dim: int, innovation: float) -> np.ndarray:
        """Mean square of the tail of isotropic innovations for tasks of norms omega."""
        norm = np.asarray(norm)
        square = self.tail_square[0] + self.tail_square[1] * norm + self.tail_square[2] * norm**2
        square = square + self.tail_along * dim * innovation * norm
        return np.asarray(square + self.tail_drifted * dim * innovation**2)

    def second(self, tasks: TaskMoments, rho: float, innovations: np.ndarray) -> np.ndarray:
        """E h h^T for moments of tasks, of any leading axes, and the covariance B (d, d)."""
        d = tasks.second.shape[-1]
        norm = np.asarray(tasks.label - rho)
        square = tasks.label_square - 2 * rho * tasks.label + rho**2
        weighed = tasks.third - rho * tasks.mean
        G = np.empty((*tasks.second.shape[:-2], d + 1, d + 1))
        noise = self.noise[0] + self.noise[1] * norm
        G[..., :d, :d] = self.square * tasks.second + self.drifted * innovations
        G[..., :d, :d] += noise[..., None, None] * np.eye(d)
        mixed = self.mixed[0] * tasks.mean + self.mixed[1] * weighed
        mixed = mixed + self.mixed_drifted * tasks.mean @ innovations
        G[..., :d, d] = mixed
        G[..., d, :d] = mixed
        tail = self.tail_square[0] + self.tail_square[1] * norm + self.tail_square[2] * square
        along = np.sum(tasks.second * innovations, axis=(-2, -1))
        tail = tail + self.tail_along * along + self.tail_drifted * np.sum(innovations**2)
        G[..., d, d] = tail
        return G

    def cross(self, tasks: TaskMoments, rho: float) -> np.ndarray:
        """E h w^T, (d + 1, d)."""
        tail = self.tail[0] * tasks.mean + self.tail[1] * (tasks.third - rho * tasks.mean)
        return np.vstack([self.signal * tasks.second, tail])


@dataclass(frozen=True)
class Pairs:
    """Pairs of a context that have a gate, and matrices over two of them.

    Attributes
    ----------
    gates, kept : ndarray (p,)
        Gates g, and shares m that the tasks keep of the query's task.
    kernel, drifted : ndarray (p, p)
        Correlations K of the inputs, and z of what drift adds to the tasks.
    length : int
        Pairs of the context, those without a gate included.
    """

    gates: np.ndarray
    kept: np.ndarray
    kernel: np.ndarray
    drifted: np.ndarray
    length: int

    @classmethod
    def of(cls, gates: np.ndarray, kernel: np.ndarray, rate: float) -> Pairs:
        """Pairs by their gates, the correlations at each distance and the drift over d."""
        ages = np.arange(len(gates), 0, -1)[gates > 0]
        apart = np.abs(ages[:, None] - ages)
        kept = np.exp(-rate * ages)
        drifted = np.exp(-rate * apart) - kept[:, None] * kept
        return cls(gates[gates > 0], kept, kernel[apart], drifted, len(gates))


def timed_moments(pairs: Pairs, *, dim: int, rho: float, innovation: float) -> TimedMoments:
    """Coefficients of the moments for these pairs (module docstring)."""
    d = dim
    beta = innovation
    g = pairs.gates
    m = pairs.kept
    z = pairs.drifted
    K2 = pairs.kernel**2
    own = np.eye(len(g))
    first = m[:, None]
    second = m[None, :]
    p = first * second
    length = pairs.length
    # Label variances are kept^2 omega + fixed.
    fixed = (1 - m**2) * beta + rho
    changed = 1 - m**2

    def total(summands: np.ndarray) -> float:
        return float(g @ summands @ g) / length**2

    noise = d * total(K2 * z * beta + rho * own), d * total(K2 * p)
    mixed = (
        total(first * fixed + 2 * K2 * second * z * beta + 2 * rho * own * second),
        total(first * second**2 + 2 * K2 * second * p),
    )
    tail = float(g @ fixed) / length, float(g @ m**2) / length
    tail_square = (
        total(
            fixed[:, None] * fixed
            + 2 * K2 * z**2 * beta**2
            + own * (4 * rho * z * beta + 2 * rho**2)
        ),
        total(2 * first**2 * fixed + 4 * K2 * p * z * beta + 4 * rho * own * p),
        total(p**2 * (1 + 2 * K2)),
    )
    crossed = first**2 * changed + second**2 * changed[:, None] + 2 * p * z
    tail_along = total(4 * p * z + 2 * K2 * crossed) / d**2
    tail_drifted = 2 * total(z**2 + K2 * (changed[:, None] * changed + z**2)) / d**2
    return TimedMoments(
        signal=float(g @ m) / length,
        square=total(p * (1 + K2)),
        drifted=total(z * (1 + K2)),
        noise=noise,
        mixed=mixed,
        mixed_drifted=2 / d * total(second * z + K2 * (first * changed + second * z)),
        tail=tail,
        tail_square=tail_square,
        tail_along=tail_along,
        tail_drifted=tail_drifted,
    )
