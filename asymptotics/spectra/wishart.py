r"""Mean spectrum of a finite sample covariance, with its exact moments and its Gauss-Radau rule.

The rule follows from the moments through orthogonal polynomials, in as many digits as it takes.

**Exact moments.**  For a Gaussian :math:`N \times d` matrix X and :math:`W = X^\top X`, Stein's
lemma gives, with :math:`p_k = \operatorname{tr} W^k`, :math:`p_0 = d` and k the largest index of
the product,

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
from itertools import accumulate, pairwise
from math import factorial
from operator import mul
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.numbers import Number, Value


class Wishart:
    r"""Mean spectral measure of the sample covariance :math:`H = X^\top X/N`, X Gaussian.

    The measure :math:`\mu` with :math:`\int f d\mu = \frac1d E \operatorname{tr} f(H)` at finite
    N and d, of which `MarchenkoPastur` is the limit.

    Parameters
    ----------
    context, dim : int >= 1 or SymPy expression
        Number N of samples and dimension d.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Wishart
    >>> Wishart(context=20, dim=10).moment(2)
    Fraction(31, 20)
    """

    def __init__(self, *, context: Number, dim: Number) -> None:
        self.context = parse_size("context", context)
        self.dim = parse_size("dim", dim)

    def __repr__(self) -> str:
        return f"Wishart(context={self.context}, dim={self.dim})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wishart) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def ratio(self) -> Value:
        """Dimension over number of samples, d/N."""
        return self.dim / self.context

    def moment(self, order: int) -> Value:
        r"""Moment :math:`\frac1d E \operatorname{tr} H^m`, a Fraction or a SymPy expression."""
        check_integers(order=order)
        value = mean_trace(order, self.context, self.dim)
        scale = self.dim * self.context**order
        return Fraction(value, scale) if isinstance(scale, int) else value / scale

    def christoffel(self, order: int) -> Value:
        r"""Weight of the node 0 in the Gauss-Radau rule with ``order`` further nodes.

        Equal to the minimum of :math:`\int R^2 d\mu` over polynomials R of that degree with
        R(0) = 1.  A Fraction or a SymPy expression.
        """
        check_integers(order=order)
        polynomials, norms = _orthogonal([self.moment(k) for k in range(2 * order + 1)])
        total = sum(p[0] ** 2 / h for p, h in zip(polynomials, norms, strict=True))
        return _simplify(1 / total)

    def polynomial(self, order: int) -> list[Value]:
        r"""Coefficients, constant first, of the monic orthogonal polynomial of :math:`x\,d\mu`.

        Its zeros are the nodes of `quadrature` other than 0.
        """
        check_integers(order=order)
        if order == 0:
            return [1]
        polynomials, _ = _orthogonal([self.moment(k) for k in range(1, 2 * order + 1)])
        return [_simplify(c) for c in polynomials[order]]

    def quadrature(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Gauss-Radau rule with fixed node 0: exact for polynomials of degree 2 * order.

        The digits of the computation are doubled until nodes and weights are correct to rounding.

        Parameters
        ----------
        order : int >= 1
            Number n of positive nodes.

        Returns
        -------
        nodes, weights : ndarray, shape (order + 1,)
            As from `MarchenkoPastur.quadrature`, 0 first.

        Raises
        ------
        ValueError
            If order is not a positive integer.
        TypeError
            If the sizes are symbols.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import Wishart
        >>> law = Wishart(context=20, dim=10)
        >>> nodes, weights = law.quadrature(3)
        >>> abs(weights @ nodes**6 - float(law.moment(6))) < 1e-12 * law.moment(6)
        np.True_
        """
        check_integers(least=1, order=order)
        if not isinstance(self.dim, int) or not isinstance(self.context, int):
            raise TypeError(f"context and dim must be integers, got {self.context}, {self.dim}")
        nodes, weights = _rule(self, order)
        return nodes.copy(), weights.copy()


def _simplify(value: Value) -> Value:
    return value.cancel() if hasattr(value, "cancel") else value


def _orthogonal(moments: Sequence[Value]) -> tuple[list[list[Value]], list[Value]]:
    r"""Monic orthogonal polynomials of a measure given by its moments, and their squared norms.

    All inner products are with powers, :math:`h_k = \langle \pi_k, x^k\rangle`: exact
    or multi-precision arithmetic only: in float64 the moments would lose everything.
    """

    def inner(polynomial: list[Value], power: int) -> Value:
        return _simplify(sum(c * moments[i + power] for i, c in enumerate(polynomial)))

    polynomials = [[1]]
    norms = [inner([1], 0)]
    sums = [0]
    while len(moments) >= 2 * len(polynomials):
        k = len(polynomials) - 1
        current = polynomials[-1]
        sums.append(inner(current, k + 1) / norms[k])
        centre = sums[k + 1] - sums[k]
        following = [0, *current]
        for i, c in enumerate(current):
            following[i] -= centre * c
        if k:
            for i, c in enumerate(polynomials[k - 1]):
                following[i] -= norms[k] / norms[k - 1] * c
        polynomials.append(following)
        if len(moments) > 2 * (k + 1):
            norms.append(inner(following, k + 1))
    return polynomials, norms


@lru_cache(maxsize=64)
def _rule(law: Wishart, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Radau rule, with digits doubled until it is correct to rounding."""
    moments = [law.moment(k) for k in range(2 * order + 1)]
    digits = 30 + 2 * order
    rule = _radau(moments, digits)
    while True:
        digits *= 2
        finer = _radau(moments, digits)
        if rule and finer and np.allclose(rule, finer, rtol=1e-15, atol=0):
            return finer
        rule = finer


def _radau(moments: Sequence[Fraction], digits: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Gauss-Radau rule of a measure from its moments, or None if so many digits are too few."""
    import mpmath

    with mpmath.workdps(digits):
        numbers = [mpmath.mpf(m.numerator) / m.denominator for m in moments]
        polynomials, norms = _orthogonal(numbers)
        if min(norms) <= 0:
            return None
        at_zero = 1 / sum(p[0] ** 2 / h for p, h in zip(polynomials, norms, strict=True))
        polynomials, norms = _orthogonal(numbers[1:])
        if min(norms) <= 0:
            return None
        last = polynomials[-1][::-1]
        before = polynomials[-2][::-1]
        nodes = [0.0]
        weights = [float(at_zero)]
        for node in map(mpmath.mpf, _jacobi_eigenvalues(polynomials, norms)):
            for _ in range(4):
                value, slope = mpmath.polyval(last, node, derivative=True)
                node -= value / slope
            nodes.append(float(node))
            weights.append(float(norms[-1] / (node * slope * mpmath.polyval(before, node))))
    return np.array(nodes), np.array(weights)


def _jacobi_eigenvalues(polynomials: list[list[Value]], norms: list[Value]) -> list[float]:
    """Zeros of the last polynomial in floating point, largest first."""
    # The second coefficient of a monic polynomial is minus the sum of the centres so far.
    sums = [float(-p[k - 1]) if k else 0.0 for k, p in enumerate(polynomials)]
    off = np.sqrt([float(b / a) for a, b in pairwise(norms)])
    return [float(x) for x in eigvalsh_tridiagonal(np.diff(sums), off)[::-1]]


def wishart_moment(powers: Sequence[int], *, context: Number, dim: Number) -> Value:
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
    context = parse_size("context", context)
    dim = parse_size("dim", dim)
    positive = sorted((int(k) for k in powers if k), reverse=True)
    return dim ** (len(powers) - len(positive)) * _moments_of(context, dim)(tuple(positive))


@lru_cache(maxsize=8)
def _moments_of(context: Value, dim: Value) -> Value:
    """Memoised moments of one Wishart law, as a function of a descending tuple of powers."""
    known: dict[tuple[int, ...], Any] = {(): 1}
    expand = (lambda value: value.expand()) if hasattr(dim, "expand") else (lambda value: value)

    def moment(powers: tuple[int, ...]) -> Value:
        if powers not in known:
            terms = stein_terms(powers, context, dim)
            known[powers] = expand(sum(factor * moment(part) for factor, part in terms))
        return known[powers]

    return moment


def stein_terms(
    powers: tuple[int, ...], context: Value, dim: Value
) -> list[tuple[Value, tuple[int, ...]]]:
    """One step of the recursion: factors and the mixed moments (descending powers) they multiply.

    The powers are in descending order and not empty; a trace of the power 0 is taken out as d.
    """
    first = powers[0]
    rest = powers[1:]
    parts = [(context + first - 1, (*rest, first - 1))]
    parts += [(1, (*rest, m, first - 1 - m)) for m in range(1, first)]
    for j, other in enumerate(rest):
        parts.append((2 * other, (*rest[:j], *rest[j + 1 :], first + other - 1)))
    terms: dict[tuple[int, ...], Any] = {}
    for factor, part in parts:
        remaining = tuple(sorted((k for k in part if k), reverse=True))
        terms[remaining] = terms.get(remaining, 0) + factor * dim ** (len(part) - len(remaining))
    return [(factor, part) for part, factor in terms.items()]


@lru_cache(maxsize=4096)
def mean_trace(order: int, context: Value, dim: Value) -> Value:
    """Mean of tr W^order by zonal polynomials."""
    if order == 0:
        return dim

    def boxes(start: int, step: int) -> list[tuple[int, Value]]:
        """Products of c_s and of (N + c_s)(d + c_s) over none, one, ... of a row or column."""
        contents = range(start, start + step * order, step)
        coefficients = accumulate((c or 1 for c in contents), mul, initial=1)
        means = accumulate(((context + c) * (dim + c) for c in contents), mul, initial=1)
        return list(zip(coefficients, means, strict=True))

    first = boxes(0, 2)
    second = boxes(-1, 2)
    column = boxes(-2, -1)
    total = 0
    for a in range(1, order + 1):
        for b in range(min(a, order - a) + 1):
            r = order - a - b
            if b or not r:
                c1, mean1 = first[a]
                c2, mean2 = second[b]
                c3, mean3 = column[r]
                factor = Fraction(2 * order * c1 * c2 * c3, _hooks(a, b, r))
                total = total + _scaled(mean1 * mean2 * mean3, factor)
    return total.expand() if hasattr(total, "expand") else int(total)


def _hooks(a: int, b: int, r: int) -> int:
    """Product of h (h + 1) over the hooks h = 2 a_s + l_s + 1 of the partition (a, b, 1^r)."""
    if b == 0:
        return factorial(2 * a)
    # Hooks of the boxes (1, 1) and (2, 1), then the rest of the two rows, then the boxes below.
    corner = 2 * a + r
    below = 2 * b + r - 1
    rows = factorial(2 * a - 1) // (2 * (a - b) + 1) * factorial(2 * b - 2)
    legs = factorial(r) * factorial(r + 1)
    return corner * (corner + 1) * below * (below + 1) * rows * legs


def _scaled(value: Value, factor: Fraction) -> Value:
    symbolic = hasattr(value, "expand")
    return value * factor.numerator / factor.denominator if symbolic else value * factor


def parse_size(name: str, value: Any) -> Value:
    """Return a size as an integer >= 1, or as a positive SymPy expression."""
    if not _is_symbolic(value):
        check_integers(**{name: value})
        return int(value)
    if value.is_positive is False:
        raise ValueError(f"{name} must be positive, got {value}")
    return value


def _is_symbolic(value: Value) -> bool:
    return hasattr(value, "as_poly") and bool(value.free_symbols)
