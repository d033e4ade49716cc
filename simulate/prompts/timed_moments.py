r"""Moments of the summaries of prompts in which the order of the pairs matters.

Pairs are weighed by gates :math:`g_i`, inputs are correlated, :math:`E\, x_i x_j^\top = K_{ij}
I/d`, and tasks drift: :math:`w_i = m_i w + \zeta_i` with the query's task w and
:math:`E\, \zeta_i \zeta_j^\top = z_{ij} I`.  For Gaussian inputs and :math:`|w|^2 = d` all second
moments of the summary

.. math:: h = \Bigl(\frac d\ell \sum_i g_i y_i x_i,\ \frac1\ell \sum_i g_i y_i^2\Bigr)

are sums over pairs of tokens, by Wick's theorem.  The part that is linear in w and its two squares
are those of `TimedMoments`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iclimit.problem import Problem


@dataclass(frozen=True)
class TimedMoments:
    """Coefficients of the moments of a summary (head, tail), given its task w.

    Attributes
    ----------
    signal : float
        E head is so many times w.
    square, noise : float
        E head head^T is so many times w w^T, and the identity.
    mixed : float
        E head tail is so many times w.
    tail, tail_square : float
        Mean and mean square of the tail.
    """

    signal: float
    square: float
    noise: float
    mixed: float
    tail: float
    tail_square: float


def timed_moments(problem: Problem, gates: ArrayLike | None) -> TimedMoments:
    """Coefficients for a problem and gates (context,), exact at any size."""
    d = problem.dim
    rho = float(problem.noise_variance)
    context = problem.context
    ages = np.arange(context, 0, -1)
    apart = np.abs(ages[:, None] - ages)
    g = np.ones(context) if gates is None else np.asarray(gates, dtype=float)
    m = np.exp(-problem.drift / d * ages)
    z = np.exp(-problem.drift / d * apart) - m[:, None] * m
    K = problem.kernel[apart]
    same = rho * np.eye(context)
    own = np.diag(z)
    mm = m[:, None] * m
    first = m[:, None]
    second = m[None, :]

    def total(values: np.ndarray) -> float:
        return float(g @ values @ g) / context**2

    label = 1 + rho
    # The first index is that of the head, the second that of the tail.
    tilted = first * second**2 + z * second + (first * own + second * z) / d
    mixed = first * label + 2 * z * second / d + 2 * K**2 * tilted + 2 * K * same * second
    spread = first**2 * own + second**2 * own[:, None] + 2 * mm * z + own[:, None] * own + z**2
    labels = K**2 * ((mm + z) ** 2 + spread / d) + 2 * same * K * (mm + z) + rho * same
    return TimedMoments(
        signal=float(g @ m) / context,
        square=total(mm * (1 + K**2)),
        noise=total(z * (1 + K**2) + d * K**2 * (mm + z) + d * same),
        mixed=total(mixed),
        tail=label * float(np.mean(g)),
        tail_square=total(label**2 + (4 * mm * z + 2 * z**2) / d + 2 * labels),
    )
