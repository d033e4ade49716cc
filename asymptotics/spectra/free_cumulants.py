r"""Free cumulants: what adds under free convolution, from moments and back.

With :math:`M(x) = 1 + \sum_n m_n x^n` and free cumulants :math:`\kappa_s`, the coefficients of
the R-transform :math:`\sum_s \kappa_s x^{s-1}`,

.. math:: m_n = \sum_{s=1}^n \kappa_s\, [x^{n-s}]\, M(x)^s,

the sum over non-crossing partitions by the block of their first element (Speicher, Math. Ann.
298 (1994) 611).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def moments_of_cumulants(cumulants: Sequence[Any]) -> list[Any]:
    """Moments of orders 1, ..., n from as many free cumulants; any numbers, or arrays of them."""
    moments: list[Any] = []
    for order in range(1, len(cumulants) + 1):
        moments.append(_outer_blocks(cumulants[:order], moments, order))
    return moments


def cumulants_of_moments(moments: Sequence[Any]) -> list[Any]:
    """Free cumulants of orders 1, ..., n from as many moments; any numbers, or arrays of them."""
    cumulants: list[Any] = []
    for order, moment in enumerate(moments, start=1):
        cumulants.append(moment - _outer_blocks(cumulants, moments, order))
    return cumulants


def _outer_blocks(cumulants: Sequence[Any], moments: Sequence[Any], order: int) -> Any:
    """Sum over s of kappa_s [x^(order - s)] M^s, which asks for moments below that order only."""
    series = [1, *moments[: order - 1]]
    total, power = 0, [1] + [0] * (order - 1)
    for size, cumulant in enumerate(cumulants, start=1):
        power = [
            sum(power[i] * series[n - i] for i in range(n + 1)) for n in range(order - size + 1)
        ]
        total = total + cumulant * power[order - size]
    return total
