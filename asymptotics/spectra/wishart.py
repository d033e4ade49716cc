r"""Mean spectrum of a finite sample covariance, with its exact moments and its Gauss-Radau rule.

The rule follows from the moments through orthogonal polynomials, in as many digits as it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.numbers import Number
from iclimit.asymptotics.spectra.wishart_moments import check_size, mean_trace


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
        self.context, self.dim = check_size(context=context, dim=dim)

    def __repr__(self) -> str:
        return f"Wishart(context={self.context}, dim={self.dim})"

    @property
    def ratio(self) -> Any:
        """Dimension over number of samples, d/N."""
        return self.dim / self.context

    def moment(self, order: int) -> Any:
        r"""Moment :math:`\frac1d E \operatorname{tr} H^m`, a Fraction or a SymPy expression."""
        check_integers(order=order)
        value = mean_trace(order, self.context, self.dim)
        scale = self.dim * self.context**order
        return Fraction(value, scale) if isinstance(scale, int) else value / scale

    def christoffel(self, order: int) -> Any:
        r"""Weight of the node 0 in the Gauss-Radau rule with ``order`` further nodes.

        Equal to the minimum of :math:`\int R^2 d\mu` over polynomials R of that degree with
        R(0) = 1.  A Fraction or a SymPy expression.
        """
        check_integers(order=order)
        polynomials, norms = _orthogonal([self.moment(k) for k in range(2 * order + 1)])
        total = sum(p[0] ** 2 / h for p, h in zip(polynomials, norms, strict=True))
        return _simplify(1 / total)

    def polynomial(self, order: int) -> list[Any]:
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
        moments = [self.moment(k) for k in range(2 * order + 1)]
        digits = 30 + 2 * order
        rule = _radau(moments, digits)
        while True:
            digits *= 2
            finer = _radau(moments, digits)
            if rule and finer and np.allclose(rule, finer, rtol=1e-15, atol=0):
                return finer
            rule = finer


def _simplify(value: Any) -> Any:
    return value.cancel() if hasattr(value, "cancel") else value


def _orthogonal(moments: Sequence[Any]) -> tuple[list[list[Any]], list[Any]]:
    r"""Monic orthogonal polynomials of a measure given by its moments, and their squared norms.

    All inner products are with powers, :math:`h_k = \langle \pi_k, x^k\rangle`: exact
    or multi-precision arithmetic only: in float64 the moments would lose everything.
    """

    def inner(polynomial: list[Any], power: int) -> Any:
        return _simplify(sum(c * moments[i + power] for i, c in enumerate(polynomial)))

    polynomials, norms, sums = [[1]], [inner([1], 0)], [0]
    while len(moments) >= 2 * len(polynomials):
        k, current = len(polynomials) - 1, polynomials[-1]
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
        last, before = polynomials[-1][::-1], polynomials[-2][::-1]
        nodes, weights = [0.0], [float(at_zero)]
        for node in map(mpmath.mpf, _jacobi_eigenvalues(polynomials, norms)):
            for _ in range(4):
                value, slope = mpmath.polyval(last, node, derivative=True)
                node -= value / slope
            nodes.append(float(node))
            weights.append(float(norms[-1] / (node * slope * mpmath.polyval(before, node))))
    return np.array(nodes), np.array(weights)


def _jacobi_eigenvalues(polynomials: list[list[Any]], norms: list[Any]) -> list[float]:
    """Zeros of the last polynomial in floating point, largest first."""
    # The second coefficient of a monic polynomial is minus the sum of the centres so far.
    sums = [float(-p[k - 1]) if k else 0.0 for k, p in enumerate(polynomials)]
    off = np.sqrt([float(b / a) for a, b in pairwise(norms)])
    return [float(x) for x in eigvalsh_tridiagonal(np.diff(sums), off)[::-1]]
