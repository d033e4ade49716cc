r"""Exact moments of real Wishart matrices.

For a Gaussian :math:`N \times d` matrix X and :math:`W = X^\top X`, Stein's lemma gives, with
:math:`p_k = \operatorname{tr} W^k`, :math:`p_0 = d` and k the largest index of the product,

.. math:: E\Bigl[p_k \prod_j p_{k_j}\Bigr] = (N + k - 1)\, E\Bigl[p_{k-1} \prod_j p_{k_j}\Bigr]
   + \sum_{m=1}^{k-1} E\Bigl[p_m p_{k-1-m} \prod_j p_{k_j}\Bigr]
   + \sum_j 2 k_j\, E\Bigl[p_{k+k_j-1} \prod_{i \ne j} p_{k_i}\Bigr],

a recursion over integer partitions: exact integers at integer N and d, polynomials for symbols.

A single trace needs no recursion.  In Jack polynomials of parameter 2 (zonal polynomials) the
power sum :math:`p_k` has coefficients only on partitions :math:`(a, b, 1, ..., 1)`, and a zonal
polynomial of a Wishart matrix has the mean
:math:`\prod_s (N + c_s)(d + c_s)`, a product over the boxes s = (i, j) of the partition
with :math:`c_s = 2(j-1) - (i-1)`:

.. math:: E\, p_k = \sum_{\kappa = (a, b, 1^r) \vdash k} 2k\, \frac{\prod_{s \ne (1,1)} c_s}
   {\prod_s (2 a_s + l_s + 1)(2 a_s + l_s + 2)} \prod_s (N + c_s)(d + c_s)

with the arm :math:`a_s` and the leg :math:`l_s` of a box: a sum of order :math:`k^2` terms
(Macdonald, Symmetric Functions and Hall Polynomials, 2nd ed., VI.10; Muirhead, Aspects of
Multivariate Statistical Theory, Theorem 7.2.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import factorial
from operator import mul
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.numbers import Number


def wishart_moment(powers: Sequence[int], *, context: Number, dim: Number) -> Any:
    r"""Mixed moment :math:`E \prod_j \operatorname{tr} W^{k_j}` of :math:`W = X^\top X`.

    Parameters
    ----------
    powers : sequence of int >= 0
        The exponents :math:`k_j`.
    context, dim : int >= 1 or SymPy expression
        Number N of rows of X (degrees of freedom) and its number d of columns.

    Returns
    -------
    int or SymPy expression
        Exact; an expanded polynomial in N and d for expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If powers is not a sequence.

    Notes
    -----
    The cost is that of the integer partitions of the sum of the powers: 32 takes about a second.
    A single trace is much cheaper through `Wishart.moment`.

    References
    ----------
    Stein's lemma as in Letac and Massam, Scand. J. Stat. 31 (2004) 295, where the moments are
    found through zonal polynomials.

    Examples
    --------
    >>> from sympy import factor, symbols
    >>> from iclimit.asymptotics.spectra import wishart_moment
    >>> wishart_moment([2], context=20, dim=10)
    6200
    >>> N, d = symbols("N d")
    >>> factor(wishart_moment([2], context=N, dim=d))
    N*d*(N + d + 1)
    """
    if isinstance(powers, (str, bytes)) or not isinstance(powers, (Sequence, np.ndarray)):
        raise TypeError(f"powers must be a sequence of integers, got {powers!r}")
    for power in powers:
        check_integers(powers=power)
    context, dim = check_size(context=context, dim=dim)
    positive = sorted((int(k) for k in powers if k), reverse=True)
    return dim ** (len(powers) - len(positive)) * _moments_of(context, dim)(tuple(positive))


@lru_cache(maxsize=8)
def _moments_of(context: Any, dim: Any) -> Any:
    """Memoised moments of one Wishart law, as a function of a descending tuple of powers."""
    known: dict[tuple[int, ...], Any] = {(): 1}
    expand = (lambda value: value.expand()) if hasattr(dim, "expand") else (lambda value: value)

    def moment(powers: tuple[int, ...]) -> Any:
        if powers not in known:
            terms = stein_terms(powers, context, dim)
            known[powers] = expand(sum(factor * moment(part) for factor, part in terms))
        return known[powers]

    return moment


def stein_terms(
    powers: tuple[int, ...], context: Any, dim: Any
) -> list[tuple[Any, tuple[int, ...]]]:
    """One step of the recursion: factors and the mixed moments (descending powers) they multiply.

    The powers are in descending order and not empty; a trace of the power 0 is taken out as d.
    """
    first, rest = powers[0], powers[1:]
    parts = [(context + first - 1, (*rest, first - 1))]
    parts += [(1, (*rest, m, first - 1 - m)) for m in range(1, first)]
    for j, other in enumerate(rest):
        parts.append((2 * other, (*rest[:j], *rest[j + 1 :], first + other - 1)))
    terms: dict[tuple[int, ...], Any] = {}
    for factor, part in parts:
        left = tuple(sorted((k for k in part if k), reverse=True))
        terms[left] = terms.get(left, 0) + factor * dim ** (len(part) - len(left))
    return [(factor, part) for part, factor in terms.items()]


@lru_cache(maxsize=4096)
def mean_trace(order: int, context: Any, dim: Any) -> Any:
    """Mean of tr W^order by zonal polynomials."""
    if order == 0:
        return dim

    def boxes(start: int, step: int) -> list[tuple[int, Any]]:
        """Products of c_s and of (N + c_s)(d + c_s) over none, one, ... of a row or column."""
        contents = range(start, start + step * order, step)
        coefficients = accumulate((c or 1 for c in contents), mul, initial=1)
        means = accumulate(((context + c) * (dim + c) for c in contents), mul, initial=1)
        return list(zip(coefficients, means, strict=True))

    first, second, column = boxes(0, 2), boxes(-1, 2), boxes(-2, -1)
    total = 0
    for a in range(1, order + 1):
        for b in range(min(a, order - a) + 1):
            r = order - a - b
            if b or not r:
                (c1, mean1), (c2, mean2), (c3, mean3) = first[a], second[b], column[r]
                factor = Fraction(2 * order * c1 * c2 * c3, _hooks(a, b, r))
                total = total + _scaled(mean1 * mean2 * mean3, factor)
    return total.expand() if hasattr(total, "expand") else int(total)


def _hooks(a: int, b: int, r: int) -> int:
    """Product of h (h + 1) over the hooks h = 2 a_s + l_s + 1 of the partition (a, b, 1^r)."""
    if b == 0:
        return factorial(2 * a)
    # Hooks of the boxes (1, 1) and (2, 1), then the rest of the two rows, then the boxes below.
    corner, below = 2 * a + r, 2 * b + r - 1
    rows = factorial(2 * a - 1) // (2 * (a - b) + 1) * factorial(2 * b - 2)
    legs = factorial(r) * factorial(r + 1)
    return corner * (corner + 1) * below * (below + 1) * rows * legs


def _scaled(value: Any, factor: Fraction) -> Any:
    symbolic = hasattr(value, "expand")
    return value * factor.numerator / factor.denominator if symbolic else value * factor


def check_size(**sizes: Any) -> list[Any]:
    """Sizes as integers >= 1, or as positive SymPy expressions."""
    for name, value in sizes.items():
        if not _is_symbolic(value):
            check_integers(**{name: value})
        elif value.is_positive is False:
            raise ValueError(f"{name} must be positive, got {value}")
    return [value if _is_symbolic(value) else int(value) for value in sizes.values()]


def _is_symbolic(value: Any) -> bool:
    return hasattr(value, "as_poly") and bool(value.free_symbols)
