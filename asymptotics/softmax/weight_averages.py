r"""Averages of softmax weights of independent Gaussian scores, by one integral each.

The weights are :math:`p_i = e^{t s_i}/Z`, :math:`Z = \sum_j e^{t s_j}`, of N independent scores
:math:`s_i \sim N(0, 1)` at inverse temperature t >= 0.  With
:math:`Z^{-k} = \int_0^\infty u^{k-1} e^{-uZ}\,du/(k-1)!` and :math:`u = e^y` an average over N
scores becomes an integral of averages over one score.  In terms of

.. math:: x = e^{y + ts}, \qquad H_k(y) = E_s\, x^k e^{-x}, \qquad G_k(y) = E_s\, s^k x^k e^{-x},

the averages that the loss of a softmax head needs are

.. math::

   q = E\sum_i p_i^2 &= N \int H_2 H_0^{N-1}\,dy, \\
   1 - q = E\sum_{i \ne j} p_i p_j &= N(N-1) \int H_1^2 H_0^{N-2}\,dy, \\
   E\Bigl[\sum_i p_i^3 - \bigl(\sum_i p_i^2\bigr)^2\Bigr]
   &= \tfrac16 N(N-1) \int \bigl(H_1 H_3 - H_2^2\bigr) H_0^{N-2}\,dy, \\
   E\Bigl(\sum_i p_i s_i\Bigr)^2 &= N \int G_2 H_0^{N-1}\,dy + N(N-1) \int G_1^2 H_0^{N-2}\,dy .

All terms are positive.  Their sum q + (1 - q) = 1 is a check of the integrals, not used in them.
The mean :math:`m = \sum_i p_i s_i` of the scores has, by Gaussian integration by parts,

.. math:: E\,m = t(1 - q), \qquad
   \operatorname{var} m = q + t^2 q(1 - q) - 6 t^2 E\bigl[\textstyle\sum p^3 - (\sum p^2)^2\bigr].

For cold scores the last two terms nearly cancel; the variance is then :math:`E m^2 - (E m)^2`.

*Quadrature.*  The trapezoidal rule on the whole line converges geometrically, as the integrands
are analytic in a strip: the error of step h is about :math:`|\Gamma(k + 2\pi i/h)/\Gamma(k)|`
relative to the integral, 3e-15 for k = 2 at the step used.  Warm scores (t < 1.5) are summed over
s.  Cold ones are summed over :math:`a = y + ts`, since the factors :math:`x^k e^{-x}` fix the
range of a: the cost does not grow with t.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr, ndtri

# Step of y.  At 6/5 of it the averages are off by up to 4e-10, at cold scores and large N.
_STEP = 0.25

# From this inverse temperature on the sum is over a = y + t s, not over the scores.
_COLD = 1.5

# Negative logarithm of the smallest factor that counts, 1e-17.
_TAIL = 39.0

# Standard deviations of a score that are summed over; beyond, the Gaussian weight is 1e-20.
_SCORES = 9.5


@dataclass(frozen=True)
class WeightAverages:
    r"""Averages of softmax weights, one for each inverse temperature.

    Attributes
    ----------
    concentration : ndarray
        q, the mean of :math:`\sum_i p_i^2`: one over the number of scores that count.
    spread : ndarray
        1 - q, without cancellation.
    variance : ndarray
        Variance of the mean score :math:`\sum_i p_i s_i`.
    """

    concentration: np.ndarray
    spread: np.ndarray
    variance: np.ndarray


def weight_averages(context: float, temperatures: np.ndarray, coarse: float) -> WeightAverages:
    """Averages for N scores at inverse temperatures t >= 0.

    The steps of the quadrature are longer by the factor ``coarse``: 1 is the rule itself, and 6/5
    a second rule, which tells its error.
    """
    rows = [_averages(context, float(t), coarse * _STEP) for t in temperatures]
    return WeightAverages(*np.array(rows).reshape(-1, 3).T)


def _averages(N: float, t: float, step: float) -> tuple[float, float, float]:
    if N == 1:
        return 1.0, 0.0, 1.0
    if t == 0:
        return 1 / N, 1 - 1 / N, 1 / N
    if t < _COLD:
        y, H, G = _warm(N, t, step)
    else:
        y, H, G = _cold(N, t, step)
    dy = abs(y[1] - y[0])
    # Close to 1, the logarithm of H_0 is found from 1 - H_0.
    missing = H[0]
    near = missing < 0.5
    log_H0 = np.where(near, np.log1p(-np.where(near, missing, 0.0)), np.log(H[4]))
    without_one = np.exp((N - 1) * log_H0)
    without_two = np.exp((N - 2) * log_H0)
    pairs = N * (N - 1) * dy
    q = N * dy * (H[2] @ without_one)
    spread = pairs * ((H[1] * H[1]) @ without_two)
    skew = pairs / 6 * ((H[1] * H[3] - H[2] ** 2) @ without_two)
    square = N * dy * (G[1] @ without_one) + pairs * ((G[0] * G[0]) @ without_two)
    terms = q + t**2 * q * spread
    # Whichever form cancels less.
    variance = terms - 6 * t**2 * skew if terms < square else square - (t * spread) ** 2
    return q, spread, variance


def y_range(N: float, t: float, tail: float = 17.0) -> tuple[float, float]:
    """Smallest and largest y that count, for N scores at inverse temperature t.

    Integrals of H_1^2 or H_2 decay as e^{2y} on the left, those of H_1 need twice the tail.
    """
    # Largest score that occurs, and the one below which not all N scores are.
    highest = -ndtri(1e-18 / N)
    lowest = max(-_SCORES, ndtri(np.exp(-_TAIL / N)))
    # Largest logarithm of Z: of typical scores, or, beyond sqrt(2 log N), of the highest one.
    log_Z = np.log(N) + min(highest, 7.0) * t
    if t > 1:
        typical = np.log(N) + t * t / 2 if t < np.sqrt(2 * np.log(N)) else 0.0
        log_Z = max(t * highest, typical)
    return -log_Z - tail, 4.0 - t * lowest


def score_rule(t: float, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the mean over a score, for a step of y + t s."""
    ds = min(0.5, step / t)
    count = int(_SCORES / ds) + 1
    s = ds * np.arange(-count, count + 1)
    return s, ds / np.sqrt(2 * np.pi) * np.exp(-s * s / 2)


def _warm(N: float, t: float, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes y; 1 - H_0, H_1, H_2, H_3, H_0; G_1, G_2; by a sum over the scores."""
    y = np.arange(*y_range(N, t), step)
    s, weight = score_rule(t, step)
    x = np.exp(np.minimum(np.add.outer(y, t * s), 300.0))
    decay = np.exp(-x)
    first = x * decay
    second = x * first
    H1, G1 = (first @ np.stack([weight, weight * s], axis=1)).T
    H2, G2 = (second @ np.stack([weight, weight * s * s], axis=1)).T
    H3 = (x * second) @ weight
    H0 = np.maximum(decay @ weight, np.finfo(float).tiny)
    return y, np.stack([-np.expm1(-x) @ weight, H1, H2, H3, H0]), np.stack([G1, G2])


def _cold(N: float, t: float, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Do the same by a sum over a = y + ts, with :math:`H_0 = \int e^{a - e^a} P(ts < a - y) da`.

    On a common grid of y and a the Gaussian factors depend on a - y only: they are computed once
    and read through a sliding window.  For scores so cold that these windows do not overlap, only
    what is in one of them is computed.
    """
    bottom, top = y_range(N, t)
    # H_0^N falls within t over the largest score: a step of y may be that long.
    stride = max(1, int(0.25 * t / np.sqrt(2 * np.log(N) + 2) / step))
    a = np.arange(-_TAIL, 4.2, step)
    count = int((top - bottom) / (stride * step)) + 2
    y = top - stride * step * np.arange(count)
    overlap = stride < len(a)
    if overlap:
        s = (a[0] - top + step * np.arange(len(a) + stride * count)) / t
    else:
        s = (a - y[:, None]) / t

    def window(values: np.ndarray) -> np.ndarray:
        if not overlap:
            return values
        return sliding_window_view(values, len(a))[: stride * count : stride]

    density = step / t / np.sqrt(2 * np.pi) * np.exp(-s * s / 2)
    falling = np.exp(np.outer([1, 2, 3], a) - np.exp(a))
    H1, H2, H3 = (window(density) @ falling.T).T
    G1 = window(density * s) @ falling[0]
    G2 = window(density * s * s) @ falling[1]
    missing = step * (window(ndtr(-s)) @ falling[0])
    H0 = np.maximum(step * (window(ndtr(s)) @ falling[0]), np.finfo(float).tiny)
    return y, np.stack([missing, H1, H2, H3, H0]), np.stack([G1, G2])
