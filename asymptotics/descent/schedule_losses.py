r"""Loss of multi-step gradient descent over a spectrum, and its lower bound.

The residual polynomials :math:`P = \prod_l (1 - \eta_l \lambda)` and :math:`Q = (1 - P)/\lambda`
and the loss :math:`\int (P^2 + v \lambda Q^2) d\mu` are those of
`iclimit.asymptotics.descent.schedules`.  In float64 the loss is computed by the Gauss-Radau rule
of the measure, a sum of positive terms; in exact and multi-precision arithmetic from its moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import MpMath, Namespace
from iclimit.asymptotics.spectra import MarchenkoPastur
from iclimit.asymptotics.spectra.resolvent import resolvent


def quadrature_loss(rates: Iterable[Any], nodes: Any, weights: Any, noise: Any) -> Any:
    """Loss by a quadrature rule, all terms positive; infinite where a factor overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        P, Q = np.ones_like(nodes), np.zeros_like(nodes)
        for each in rates:
            rate = np.asarray(each)[..., None]
            P, Q = P * (1 - rate * nodes), Q + rate * P
        loss = np.sum(weights * (P**2 + np.asarray(noise)[..., None] * nodes * Q**2), axis=-1)
        return np.where(np.isnan(loss), np.inf, loss)


def moment_loss(math_: Namespace, rates: list[Any], spectrum: Any, noise: Any) -> Any:
    """Loss as a combination of moments, in exact or multi-precision arithmetic."""
    extra = 8 * len(rates) * isinstance(math_, MpMath)
    with more_digits(math_, extra):
        P: list[Any] = [1]
        for rate in rates:
            P = [a - rate * b for a, b in zip([*P, 0], [0, *P], strict=True)]
        Q = [-a for a in P[1:]]
        moments = [exact_number(math_, spectrum.moment(k)) for k in range(2 * len(rates) + 1)]
        total = sum(
            a * b * moments[i + j] for i, a in enumerate(P) for j, b in enumerate(P)
        ) + noise * sum(
            a * b * moments[i + j + 1] for i, a in enumerate(Q) for j, b in enumerate(Q)
        )
    return +total


def more_digits(math_: Namespace, digits: int) -> Any:
    """Compute mpmath numbers with so many digits more."""
    if isinstance(math_, MpMath):
        import mpmath

        return mpmath.workdps(mpmath.mp.dps + digits)
    return math_.quiet()


def exact_number(math_: Namespace, value: Any) -> Any:
    """Convert a moment, a Fraction at finite integer size."""
    if hasattr(value, "numerator") and not hasattr(value, "free_symbols"):
        return math_.convert(value.numerator) / value.denominator
    return value


def interval_points(math_: Namespace, c: Any, turns: Iterable[int], q: int) -> list[Any]:
    """Points 1 + c + 2 sqrt(c) cos(pi p/q) of the Marchenko-Pastur interval, p from turns."""
    root = math_.sqrt(c)
    squeeze = ((1 - c) / (1 + root)) ** 2

    def node(p: int) -> Any:
        # Floating point takes the second form, which does not cancel at the lower edge.
        return math_.stable(
            c < 0,
            lambda: 1 + c + 2 * root * math_.cos(math_.pi * p / q),
            lambda: squeeze + 4 * root * math_.cos(math_.pi * p / (2 * q)) ** 2,
        )

    return [node(p) for p in turns]


def lower_bound(math_: Namespace, steps: int, spectrum: Any, noise: Any) -> Any:
    """Least loss over residual polynomials."""
    if isinstance(spectrum, MarchenkoPastur):
        c = spectrum.ratio
        with math_.quiet():
            return math_.where(
                noise > math_.tiny,
                lambda: _noisy_limit(math_, steps, c, noise),
                lambda: _noiseless_limit(math_, steps, c),
            )
    nodes, weights = spectrum.quadrature(steps)
    v, theta = np.asarray(noise)[..., None], nodes[1:]
    residual = np.prod((nodes[:, None] - theta) / (-v[..., None] - theta), axis=-1)
    with np.errstate(all="ignore"):
        P = np.where(nodes > 0, (v + nodes * residual) / (nodes + v), 1.0)
        Q = np.where(nodes > 0, (1 - residual) / (nodes + v), 0.0)
    return np.sum(weights * (P**2 + v * nodes * Q**2), axis=-1)


def _noiseless_limit(math_: Namespace, steps: int, c: Any) -> Any:
    """1/sum c^-k, k = 0..L."""
    return math_.stable(
        c > 1,
        lambda: 1 / _geometric_sum(1 / c, steps),
        lambda: c**steps / _geometric_sum(c, steps),
    )


def _noisy_limit(math_: Namespace, steps: int, c: Any, noise: Any) -> Any:
    """Ridge v M plus g s^L / sum s^k, with the resolvent M, g = 1 - v M and s = c g^2 <= 1."""
    M = resolvent(math_, noise, 1 / c, 1 - c)
    g = 1 / (1 / M + c)
    s = c * g**2
    return noise * M + g * s**steps / _geometric_sum(s, steps)


def _geometric_sum(x: Any, steps: int) -> Any:
    """Sum of x^k, k = 0..L."""
    total = 1
    for _ in range(steps):
        total = 1 + x * total
    return total
