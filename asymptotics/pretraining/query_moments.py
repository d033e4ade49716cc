r"""Second moments of the features where the query is correlated with the context.

In contexts of `iclimit.asymptotics.pretraining.timed_contexts` the query may continue the
sequence: :math:`E\, x_i x_q^\top = k_i I/d` with :math:`k_i = K_{i, \ell + 1}`.  Then the
prediction :math:`x_q^\top \Gamma h`, :math:`\Gamma = (H, \gamma)`, has a query that is not
independent of h.  Given the tasks, query, inputs and labels are jointly Gaussian with
:math:`E\, y_i x_q = k_i w_i/d`.  The 15 pairings of :math:`E (x_q^\top H h)^2` and the three of
:math:`E\, y_q x_q^\top H h` give, with :math:`C = E\, w w^\top`,

.. math::

   d\, E (x_q^\top \Gamma h)^2 = \operatorname{tr} \Gamma G \Gamma^\top
   &+ \frac{f_1}d \bigl[(\operatorname{tr} H)^2 + \operatorname{tr} H^2\bigr]
   + 2 \operatorname{tr} B H^2 + 2 \operatorname{tr} H \operatorname{tr} B H
   + 2 \operatorname{tr} H^\top T H \\
   &+ \frac{2 b_1 f_2}d \bigl[\operatorname{tr} H\, \langle \gamma, \bar w\rangle
   + \bar w^\top H \gamma\bigr] , \\
   d\, E\, y_q x_q^\top \Gamma h = \Bigl(a + &\frac{f_2}d\Bigr) \operatorname{tr} C H
   + f_2 \operatorname{tr} H + b_1 \langle \gamma, \bar w\rangle ,

where G, a and :math:`b_1` are those of an independent query, :math:`\bar w = E\, w` and

.. math::

   f_1 &= d^2 \sum k_i k_j (K_{ij} c_{ij} + \rho\, \delta_{ij}), \qquad
   f_2 = \frac d\ell \sum_i g_i k_i m_i k_i , \\
   B &= \sum (k_i^2 + k_i k_j K_{ij}) (m_i m_j C + z_{ij} I), \qquad
   T = \sum k_i k_j K_{ij} (m_i m_j C + z_{ij} I) .

Sums over i and j carry :math:`g_i g_j/\ell^2`.  The terms of :math:`\gamma` are of first order in
1/d, all others are exact.  As an operator S on :math:`\Gamma` the quadratic form is that of an
independent query, :math:`\Gamma G`, and a term of order 1 along one direction,
:math:`H \propto I`: the spike of `iclimit.asymptotics.recurrent.correlated_query`.  The others are
of order 1/d.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts

# Relative residual of the solution for the best matrix.
_RESIDUAL = 1e-11


@dataclass(frozen=True)
class QueryMoments:
    """Moments of the features of timed contexts whose query continues the sequence.

    Attributes
    ----------
    contexts : TimedContexts
    second : ndarray (d + 1, d + 1)
        Moments G of the summaries.
    cross : ndarray (d + 1, d)
        E h w^T.
    """

    contexts: TimedContexts
    second: np.ndarray
    cross: np.ndarray

    @cached_property
    def _known(self) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
        """Numbers f1 and f2, matrices B and T, and the vector b1 f2/d times the mean task."""
        d = self.contexts.dim
        f1, f2, *pairs = _sums(self.contexts)
        scatter = self.cross[:d] / self.contexts.moments.signal
        B, T = (of_task * scatter + drifted * np.eye(d) for of_task, drifted in pairs)
        return f1, f2, B, T, f2 / d * self.cross[d]

    @cached_property
    def target(self) -> np.ndarray:
        """Products of the query label and the features, (d, d + 1)."""
        d, (_, f2, *_) = self.contexts.dim, self._known
        target = self.cross.T.copy()
        target[:, :d] *= 1 + f2 / (d * self.contexts.moments.signal)
        target[:, :d] += f2 * np.eye(d)
        return target

    def applied(self, gamma: np.ndarray) -> np.ndarray:
        """The operator S on a matrix (d, d + 1)."""
        d, (f1, _, B, T, tail) = self.contexts.dim, self._known
        head, last = gamma[:, :d], gamma[:, d]
        trace = np.trace(head)
        own = f1 / d * trace + np.sum(B * head.T) + last @ tail
        result = gamma @ self.second
        result[:, :d] += own * np.eye(d) + f1 / d * head.T + (B @ head + head @ B).T
        result[:, :d] += trace * B + 2 * T @ head + np.outer(tail, last)
        result[:, d] += trace * tail + tail @ head
        return result

    def best(self, xi: float) -> np.ndarray:
        """Gamma of the population at the effective ridge, (d, d + 1)."""
        start = np.linalg.inv(self.second + xi * np.eye(len(self.second)))
        return solve_features(lambda x: self.applied(x) + xi * x, self.target, start)

    def error(self, gamma: np.ndarray, label: float) -> float:
        """Mean squared error of a matrix Gamma on query labels of this variance."""
        change = self.applied(gamma) - 2 * self.target
        return float(label + np.vdot(gamma, change) / self.contexts.dim)


@lru_cache(maxsize=64)
def _sums(
    contexts: TimedContexts,
) -> tuple[float, float, tuple[float, float], tuple[float, float]]:
    """Numbers f1 and f2, and the coefficients of w w^T and the identity in B and T."""
    d, kernel, g = contexts.dim, contexts.kernel, np.array(contexts.gates)
    ages = np.arange(len(g), 0, -1)
    apart = np.abs(ages[:, None] - ages)
    K, c = kernel[apart], np.exp(-contexts.drift / d * apart)
    k, m = kernel[ages], np.exp(-contexts.drift / d * ages)
    p = m[:, None] * m

    def total(summands: np.ndarray) -> float:
        return float(g @ summands @ g) / len(g) ** 2

    repeated = k[:, None] * k * K
    f1 = d**2 * total(k[:, None] * k * (K * c + contexts.rho * np.eye(len(g))))
    f2 = d * float(np.mean(g * k**2 * m))
    both = k[:, None] ** 2 + repeated
    B, T = ((total(each * p), total(each * (c - p))) for each in (both, repeated))
    return f1, f2, B, T


def solve_features(
    applied: Callable[[np.ndarray], np.ndarray], target: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Solve for the matrix that an operator maps to a target; ``target @ start`` is near it."""

    def operator(function: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
        return LinearOperator(
            (target.size,) * 2,
            matvec=lambda x: function(x.reshape(target.shape)).ravel(),
            dtype=float,
        )

    near = operator(lambda x: x @ start)
    found, failed = cg(operator(applied), target.ravel(), rtol=_RESIDUAL, M=near)
    if failed:
        raise ArithmeticError("the moments of the features are singular")
    return found.reshape(target.shape)
