r"""Averages of the softmax weights of two opposite heads, by integrals over two variables.

The weights are :math:`p^\pm_i = e^{\pm t s_i}/Z_\pm` of N independent scores N(0, 1).  Their
products are constant over i: :math:`c = \sum_i p^+_i p^-_i = N/(Z_+ Z_-)`.  With
:math:`X = e^{a + ts}`, :math:`Y = e^{b - ts}` and
:math:`G_{jk}(a, b) = E_s X^j Y^k e^{-X-Y}`, :math:`G = G_{00}`, averages are integrals over a and
b:

.. math::

   E c &= N \int e^{a+b} G^N, \qquad E c^2 = N^2 \int e^{2(a+b)} G^N, \qquad
   E c q_+ = \tfrac12 N^2 \int e^{a+b} G_{20} G^{N-1}, \\
   E q_+ q_- &= N \int G_{22} G^{N-1} + N(N-1) \int G_{20} G_{02} G^{N-2} .

The difference of the mean scores, :math:`S = \sum_i (p^+_i - p^-_i) s_i`, has by Gaussian
integration by parts the mean 2 t (1 - q) and the variance

.. math:: \operatorname{var} S = 2 \operatorname{var} m - 2 \bigl\{ t^2 (q^2 - E q_+ q_-)
   - \tfrac2N t^2 E c + 4 t^2 E c q_+ + (1 - t^2) E c - t^2 E c^2 \bigr\},

with q and the variance of one head, m, from `iclimit.asymptotics.softmax.weight_averages`.

As :math:`t \to 0`, :math:`p^+_i - p^-_i \to 2t(s_i - \bar s)/N`, so that over :math:`t^2` the
variance tends to :math:`8(N-1)/N^2` and :math:`E \sum_i (p^+_i - p^-_i)^2` to half of it.  The
terms cancel there, so that warm heads are interpolated.
"""

import numpy as np

from iclimit.asymptotics.softmax.weight_averages import (
    WeightAverages,
    score_rule,
    weight_averages,
    y_range,
)

# Step of a and b.  At 6/5 of it the averages are off by 1e-9.
_STEP = 0.3

# Below the last of these temperatures the heads cancel, and are interpolated in t^2 instead.
_WARM = np.array([0.06, 0.08, 0.1, 0.12])


def pair_averages(context: float, temperatures: np.ndarray, coarse: float) -> WeightAverages:
    r"""Averages of the difference of two opposite heads, at inverse temperatures t >= 0.

    The concentration is the mean of :math:`\sum_i (p^+_i - p^-_i)^2`, the spread the mean of S
    over t, and the variance that of S.
    """
    warm = temperatures < _WARM[-1]
    averages = np.empty((3, len(temperatures)))
    averages[:, ~warm] = _differences(context, temperatures[~warm], coarse)
    if np.any(warm):
        # Polynomials in t^2 of the averages over t^2, through their limits at 0.
        nodes = (_WARM / _WARM[-1]) ** 2
        slope = 4 * (context - 1) / context**2
        limits = np.array([slope, 2 * (1 - 1 / context), 2 * slope])
        power = np.stack([_WARM**2, np.ones_like(_WARM), _WARM**2])
        beside = _differences(context, _WARM, coarse) / power - limits[:, None]
        powers = np.arange(1, len(nodes) + 1)
        series = np.linalg.solve(nodes[:, None] ** powers, beside.T)
        t = temperatures[warm]
        terms = (t / _WARM[-1])[:, None] ** (2 * powers)
        values = limits[:, None] + (terms @ series).T
        averages[:, warm] = values * np.stack([t**2, np.ones_like(t), t**2])
    return WeightAverages(*averages)


def _differences(context: float, temperatures: np.ndarray, coarse: float) -> np.ndarray:
    """Concentration, spread and variance, by rows; relative rounding is 1e-14/t^2."""
    single = weight_averages(context, temperatures, coarse)
    rows = []
    for t, q, variance in zip(temperatures, single.concentration, single.variance, strict=True):
        c, cc, cq, qq = _products(context, float(t), coarse * _STEP)
        common = t**2 * (q**2 - qq) - 2 / context * t**2 * c
        common += 4 * t**2 * cq + (1 - t**2) * c - t**2 * cc
        rows.append((2 * (q - c), 2 * (variance - common)))
    concentration, variance = np.array(rows).reshape(-1, 2).T
    return np.stack([concentration, 2 * single.spread, variance])


def _products(N: float, t: float, step: float) -> tuple[float, float, float, float]:
    """Means of c, c^2, c q and of the product of both q."""
    if N == 1 or t == 0:
        return 1 / N, 1 / N**2, 1 / N**2, 1 / N**2
    y = np.arange(*y_range(N, t, 2 * 17.0), step)
    s, weight = score_rule(t, step)
    x = np.exp(np.minimum(np.add.outer(y, t * s), 300.0))
    decay = np.exp(-x)
    second = x * x * decay
    # The scores of the other head are the same with the opposite sign.
    weighted = decay * weight
    mirrored = decay[:, ::-1]
    G = np.maximum(weighted @ mirrored.T, np.finfo(float).tiny)
    G20 = (second * weight) @ mirrored.T
    G22 = (second * weight) @ second[:, ::-1].T
    gone = -np.expm1(-x)
    missing = (gone @ weight)[:, None] + weighted @ gone[:, ::-1].T
    near = missing < 0.5
    log_G = np.where(near, np.log1p(-np.where(near, missing, 0.0)), np.log(G))
    total = np.add.outer(y, y)
    # The factors outside the power are largest where the power vanishes: they go into it.
    c = np.sum(np.exp(total + N * log_G))
    cc = np.sum(np.exp(2 * total + N * log_G))
    cq = np.sum(G20 * np.exp(total + (N - 1) * log_G))
    qq = np.sum(G22 * np.exp((N - 1) * log_G))
    qq += (N - 1) * np.sum(G20 * G20.T * np.exp((N - 2) * log_G))
    area = N * step**2
    return area * c, N * area * cc, N / 2 * area * cq, area * qq
