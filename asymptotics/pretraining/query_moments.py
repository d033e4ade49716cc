r"""Second moments of the features where the query is correlated with the context.

In contexts of `iclimit.asymptotics.pretraining.timed_contexts` the query may continue the
sequence: :math:`E\, x_i x_q^\top = k_i I/d` with :math:`k_i = K_{i, \ell + 1}`.  Then the
prediction :math:`x_q^\top \Gamma h`, :math:`\Gamma = (H, \gamma)`, has a query that is not
independent of h.  Given the tasks, query, inputs and labels are jointly Gaussian with
:math:`E\, y_i x_q = k_i w_i/d`.  The pairings of :math:`E (x_q^\top \Gamma h)^2` and
:math:`E\, y_q x_q^\top \Gamma h` give, with :math:`C = E\, w w^\top` and :math:`\bar w = E\, w`,

.. math::

   d\, E (x_q^\top \Gamma h)^2 = \operatorname{tr} \Gamma G \Gamma^\top
   &+ \frac{f_1}d \bigl[(\operatorname{tr} H)^2 + \operatorname{tr} H^2\bigr]
   + 2 \operatorname{tr} B H^2 + 2 \operatorname{tr} H \operatorname{tr} B H
   + 2 \operatorname{tr} H^\top T H \\
   &+ 2 f_3 \bigl[\operatorname{tr} H\, \langle \gamma, \bar w\rangle
   + \bar w^\top H \gamma\bigr]
   + 2 \operatorname{tr} U H\, \langle \gamma, \bar w\rangle + \gamma^\top L \gamma , \\
   d\, E\, y_q x_q^\top \Gamma h = \Bigl(a + &\frac{f_2}d\Bigr) \operatorname{tr} C H
   + f_2 \operatorname{tr} H + (b_1 + f_4) \langle \gamma, \bar w\rangle ,

where G, a and :math:`b_1` are those of an independent query,

.. math::

   f_1 &= d^2 \sum k_i k_j C_{ij}, \qquad C_{ij} = K_{ij} c_{ij} + \rho\, \delta_{ij}, \qquad
   f_2 = \frac d\ell \sum_i g_i k_i m_i k_i , \\
   f_3 &= b_1 \frac{f_2}d + 2 \sum k_i k_j C_{ij} m_j, \qquad
   f_4 = \frac 2\ell \sum_i g_i k_i^2 \Bigl(m_i^2 + \frac{1 - m_i^2}d\Bigr) , \\
   B &= \sum (k_i^2 + k_i k_j K_{ij}) W_{ij}, \qquad T = \sum k_i k_j K_{ij} W_{ij}, \qquad
   W_{ij} = m_i m_j C + z_{ij} I , \\
   U &= \frac2d \sum \bigl[(k_i k_j K_{ij} + k_j^2) m_j W_{ij} + k_i k_j K_{ij} m_i W_{jj}\bigr] ,
   \qquad
   L = \frac4d \sum \bigl[(1 + \rho) k_i^2 W_{ii} + 2 k_i k_j C_{ij} W_{ij}\bigr] .

Sums over i and j carry :math:`g_i g_j/\ell^2`.  All terms are exact but for two in those of
:math:`\gamma`, which matter as 1/d: U takes :math:`\operatorname{tr} CH \langle \gamma, \bar w
\rangle` for the third moments of the tasks, and with drift products :math:`\langle w_i, w_j
\rangle/d` are replaced by their means.  As an operator S on :math:`\Gamma` the quadratic form is
that of an independent query, :math:`\Gamma G`, and a term of order 1 along one direction,
:math:`H \propto I`: the spike of `iclimit.asymptotics.recurrent.correlated_query`.  The others are
of order 1/d.  Where the query follows all of its context, which has some d pairs, they are not
small: without the terms
:math:`f_4`, U and L and the second one of :math:`f_3`, IDG errors at d = 12, r = 0.9 are 1 % too
low.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

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
    def _known(self) -> "_Known":
        """Coefficients of the module docstring at these tasks."""
        d = self.contexts.dim
        sums = _sums(self.contexts)
        scatter = self.cross[:d] / self.contexts.moments.signal

        def matrix(pair: tuple[float, float]) -> np.ndarray:
            return np.asarray(pair[0] * scatter + pair[1] * np.eye(d))

        return _Known(
            f1=sums.f1,
            f2=sums.f2,
            f3=sums.f3,
            f4=sums.f4,
            B=matrix(sums.B),
            T=matrix(sums.T),
            U=matrix(sums.U),
            L=matrix(sums.L),
            mean=self.cross[d] / sum(self.contexts.moments.tail),
        )

    @cached_property
    def target(self) -> np.ndarray:
        """Products of the query label and the features, (d, d + 1)."""
        known = self._known
        d = self.contexts.dim
        target = self.cross.T.copy()
        target[:, :d] *= 1 + known.f2 / (d * self.contexts.moments.signal)
        target[:, :d] += known.f2 * np.eye(d)
        target[:, d] += known.f4 * known.mean
        return target

    def applied(self, gamma: np.ndarray) -> np.ndarray:
        """The operator S on a matrix (d, d + 1)."""
        known = self._known
        d = self.contexts.dim
        f1 = known.f1
        B = known.B
        tail = known.f3 * known.mean
        head = gamma[:, :d]
        last = gamma[:, d]
        trace = np.trace(head)
        own = f1 / d * trace + np.sum(B * head.T) + last @ tail
        result = gamma @ self.second
        result[:, :d] += own * np.eye(d) + f1 / d * head.T + (B @ head + head @ B).T
        result[:, :d] += trace * B + 2 * known.T @ head + np.outer(tail, last)
        result[:, :d] += (last @ known.mean) * known.U
        result[:, d] += trace * tail + tail @ head
        result[:, d] += np.sum(known.U * head) * known.mean + known.L @ last
        return result

    def best(self, xi: float) -> np.ndarray:
        """Gamma of the population at the effective ridge, (d, d + 1)."""
        start = np.linalg.inv(self.second + xi * np.eye(len(self.second)))
        return solve_features(lambda x: self.applied(x) + xi * x, self.target, start)

    def error(self, gamma: np.ndarray, label: float) -> float:
        """Mean squared error of a matrix Gamma on query labels of this variance."""
        change = self.applied(gamma) - 2 * self.target
        return float(label + np.vdot(gamma, change) / self.contexts.dim)


class _Known(NamedTuple):
    """Coefficients of the module docstring at given tasks, and their mean."""

    f1: float
    f2: float
    f3: float
    f4: float
    B: np.ndarray
    T: np.ndarray
    U: np.ndarray
    L: np.ndarray
    mean: np.ndarray


class _Sums(NamedTuple):
    """The same for any tasks: the coefficients of C and of the identity in B, T, U and L."""

    f1: float
    f2: float
    f3: float
    f4: float
    B: tuple[float, float]
    T: tuple[float, float]
    U: tuple[float, float]
    L: tuple[float, float]


@lru_cache(maxsize=64)
def _sums(contexts: TimedContexts) -> _Sums:
    d = contexts.dim
    g = np.array(contexts.gates)
    ages = np.arange(len(g), 0, -1)
    apart = np.abs(ages[:, None] - ages)
    K = contexts.kernel[apart]
    c = np.exp(-contexts.drift / d * apart)
    k = contexts.kernel[ages]
    m = np.exp(-contexts.drift / d * ages)
    p = m[:, None] * m
    z = c - p
    labels = K * c + contexts.rho * np.eye(len(g))

    def total(summands: np.ndarray) -> float:
        return float(g @ summands @ g) / len(g) ** 2

    def pair(summands: np.ndarray) -> tuple[float, float]:
        """Coefficients of C and the identity in the sum of so many W_ij."""
        return total(summands * p), total(summands * z)

    crossed = k[:, None] * k
    repeated = crossed * K
    squares = np.broadcast_to(k[:, None] ** 2, K.shape)
    mean_square = float(np.mean(g * k**2 * m))
    latest = repeated * m[:, None]
    own = (total(latest * m**2), total(latest * (1 - m**2)))
    U = 2 / d * (np.array(pair((repeated + squares.T) * m)) + own)
    single = (total(squares * m[:, None] ** 2), total(squares * (1 - m[:, None] ** 2)))
    L = 4 / d * (2 * np.array(pair(crossed * labels)) + (1 + contexts.rho) * np.array(single))
    return _Sums(
        f1=d**2 * total(crossed * labels),
        f2=d * mean_square,
        f3=sum(contexts.moments.tail) * mean_square + 2 * total(crossed * labels * m),
        f4=2 * float(np.mean(g * k**2 * (m**2 + (1 - m**2) / d))),
        B=pair(squares + repeated),
        T=pair(repeated),
        U=(float(U[0]), float(U[1])),
        L=(float(L[0]), float(L[1])),
    )


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
    solution, failed = cg(operator(applied), target.ravel(), rtol=_RESIDUAL, M=near)
    if failed:
        raise ArithmeticError("the moments of the features are singular")
    return solution.reshape(target.shape)
