r"""Exact means of products of two powers of a sample covariance: another route to `TwoPoint`.

The sample covariance S is that of `iclimit.asymptotics.spectra.two_point`.
Powers of S, or of :math:`1 - \eta S`, are the coefficients of a resolvent: with :math:`\kappa = 0`
and :math:`\eta = -1`, or with :math:`\kappa = 1`,

.. math:: \sum_l u^l (\kappa - \eta S)^l = (1 - \kappa u + \eta u S)^{-1} \simeq
   F(u) = (1 - \kappa u + \eta u s(u) \Lambda)^{-1}, \qquad
   \frac1s = 1 + \frac{\eta u}P \operatorname{tr} \Lambda F .

Both sides are power series in u, so that the coefficients of s and F follow one after the other.
With :math:`H = s F` the equivalent of a product of two resolvents is, as a series in u and v,

.. math:: \langle A B F_u F_v \rangle + \langle B \lambda F_u F_v \rangle
   \frac{uv\, \eta^2 \langle \lambda A H_u H_v \rangle}
   {\alpha - uv\, \eta^2 \langle \lambda^2 H_u H_v \rangle} .

Its coefficients are :math:`E \operatorname{tr} B (\kappa - \eta S)^j A (\kappa - \eta S)^k/d` for
all j and k at once: sums of products, exact in exact arithmetic.
"""

import numpy as np


def pair_moments(values, *, order, alpha, outer, inner, rate=None):
    r"""Moments :math:`E \operatorname{tr} B S^j A S^k/d` for large d, as (order + 1, order + 1).

    ``values`` are the eigenvalues of the population covariance, ``outer`` and ``inner`` those of B
    and A: floats, fractions or mpmath numbers.  ``alpha`` is P/d.  With ``rate`` the powers are
    those of :math:`1 - \eta S`.
    """
    lam = np.asarray(values)
    A = np.asarray(inner)
    B = np.asarray(outer)
    one = lam[0] * 0 + 1
    ones = np.array([one] * lam.size, dtype=lam.dtype)
    mass = ones / lam.size
    kappa = 0 if rate is None else 1
    eta = -1 if rate is None else rate

    f = [ones]
    s = [one]
    traces = [mass @ lam]
    for _ in range(order):
        change = _last_coefficient(s, traces)
        f.append(kappa * f[-1] - eta * lam * _last_coefficient(s, f))
        s.append(-eta * change / alpha)
        traces.append((mass * lam) @ f[-1])
    F = np.array(f)
    H = np.array([_last_coefficient(s[:k], F[:k]) for k in range(1, order + 2)])

    def mean(x, G):
        return (G * (mass * x)) @ G.T

    def shifted(x):
        """Series times u v eta^2/alpha."""
        moved = 0 * x
        moved[1:, 1:] = x[:-1, :-1] * eta**2 / alpha
        return moved

    total = shifted(mean(lam * A, H))
    loops = _resummed(shifted(mean(lam**2, H)))
    return mean(A * B, F) + _product(mean(B * lam, F), _product(total, loops))


def _last_coefficient(s, f):
    """Last coefficient of a product of two series of equal length."""
    return sum(a * b for a, b in zip(reversed(s), f, strict=True))


def _product(x, y):
    """Product of two series in u and v, up to their order."""
    product = 0 * x
    for j in range(len(x)):
        product[j:] = product[j:] + y[: len(x) - j] @ _times_in_v(x[j])
    return product


def _resummed(x):
    """Series of 1/(1 - x), x without terms of order 0 in u: each row adds to those after it."""
    inverse = 0 * x
    inverse[0, 0] = inverse[0, 0] + 1
    for j in range(len(x)):
        later = x[1 : len(x) - j] @ _times_in_v(inverse[j])
        inverse[j + 1 :] = inverse[j + 1 :] + later
    return inverse


def _times_in_v(series):
    """Triangular matrix by which rows of coefficients are multiplied by a series in v."""
    order = np.arange(len(series))
    power = order - order[:, None]
    return np.where(power >= 0, series[np.maximum(power, 0)], 0 * series[0])
