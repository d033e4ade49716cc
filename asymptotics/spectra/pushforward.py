r"""Images of spectral measures under polynomials.

One layer of gradient descent or GD++ transforms eigenvalues in this way, as does
:math:`C \mapsto p(C)` in general.  A point y has the preimages :math:`x_i`, the roots of
:math:`p(x) = y`.  The density is :math:`\sum_i \rho(x_i)/|p'(x_i)|` over the real roots.  By
partial fractions over all of them,

.. math:: \int \frac{d\mu(x)}{p(x) - z} = \sum_i \frac{m(x_i)}{p'(x_i)}, \qquad p(x_i) = z.

`iclimit.asymptotics.spectra.measure` has affine maps, which also take an unbounded support.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import check_derivative, check_integers, real_array
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.integration import Intervals, merged_atoms, merged_intervals
from iclimit.asymptotics.spectra.measure import SpectralMeasure, parse_measure

# Computed roots with a smaller imaginary part, relative to their size, are real: the error of a
# double root is the square root of rounding.
_REAL = 1e-7


class Pushforward(SpectralMeasure):
    """Law of p(x), where x has a given law.

    Parameters
    ----------
    measure : SpectralMeasure
        Law of x, of bounded support.
    polynomial : array, shape (degree + 1,)
        Real coefficients of p, constant first, of degree at least 1.

    Raises
    ------
    TypeError
        If measure is not a SpectralMeasure or the coefficients are not real.
    ValueError
        If the support is not bounded, or the polynomial constant or not finite.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import MarchenkoPastur, Pushforward
    >>> law = Pushforward(MarchenkoPastur(0.25), [1.0, -0.5])  # one step of gradient descent
    >>> law.support, round(float(law.moment(2)), 12)
    (((-0.125, 0.875),), 0.3125)
    """

    def __init__(self, measure: SpectralMeasure, polynomial: Any) -> None:
        given = np.atleast_1d(real_array("polynomial", polynomial, "(-inf, inf)"))
        coefficients = np.trim_zeros(given, "b") if given.ndim == 1 else given
        if coefficients.ndim != 1 or coefficients.size < 2:
            raise ValueError(f"polynomial must be of degree >= 1, got {polynomial}")
        self.measure = parse_measure("measure", measure, bounded=True)
        self.polynomial = Polynomial(coefficients)
        self._slope = self.polynomial.deriv()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.measure}, {self.polynomial.coef.tolist()})"

    @cached_property
    def _pieces(self) -> list[tuple[float, float]]:
        """Intervals of x on which p is monotone."""
        roots = self._slope.roots() if self._slope.degree() else np.empty(0)
        turns = np.sort(roots[abs(roots.imag) <= _REAL * (1 + abs(roots))].real)
        pieces = []
        for lower, upper in self.measure.support:
            inner = turns[(turns > lower) & (turns < upper)]
            ends = [lower, *inner.tolist(), upper]
            pieces += list(pairwise(ends)) if lower < upper else []
        return pieces

    @cached_property
    def _images(self) -> list[tuple[float, float]]:
        ends = [sorted(map(float, self.polynomial(np.array(piece)))) for piece in self._pieces]
        return [(lower, upper) for lower, upper in ends]

    @cached_property
    def support(self) -> Intervals:
        """Union of the images of the intervals, cut at the critical points of p, and the atoms."""
        return merged_intervals([*self._images, *((x, x) for x, _ in self.atoms)])

    @cached_property
    def atoms(self) -> Intervals:
        return merged_atoms((float(self.polynomial(x)), mass) for x, mass in self.measure.atoms)

    def density(self, x: Number) -> Value:
        x = real_array("x", x)
        roots = self._preimages(np.where(np.isfinite(x), x, 0.0))
        real = abs(roots.imag) <= _REAL * (1 + abs(roots))
        with np.errstate(all="ignore"):
            terms = self.measure.density(roots.real) / abs(self._slope(roots.real))
        return np.where(np.isfinite(x), np.where(real, terms, 0.0).sum(axis=-1), 0.0)[()]

    def _preimages(self, y: np.ndarray) -> np.ndarray:
        """Roots of p(x) = y on a last axis: eigenvalues of the companion matrix, polished."""
        c = self.polynomial.coef
        degree = c.size - 1
        companion = np.zeros((*np.shape(y), degree, degree), dtype=complex)
        companion[...] = np.eye(degree, k=-1)
        companion[..., :, -1] = -c[:-1] / c[-1]
        companion[..., 0, -1] += np.asarray(y) / c[-1]
        roots = np.linalg.eigvals(companion)
        with np.errstate(all="ignore"):
            step = (self.polynomial(roots) - np.asarray(y)[..., None]) / self._slope(roots)
        # Near a double root a step is longer than the distance to the other root.
        return np.where(abs(step) < 1e-6 * (1 + abs(roots)), roots - step, roots)

    def quadrature(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Images of the nodes of the measure, with their weights."""
        nodes, weights = self.measure.quadrature(order)
        return self.polynomial(nodes), weights

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = self.measure._rule(order)
        return self.polynomial(nodes), weights

    def moment(self, order: int) -> Value:
        """Moment, from those of the measure."""
        check_integers(order=order)
        power = (self.polynomial**order).coef
        return sum(c * self.measure.moment(k) for k, c in enumerate(power.tolist()))

    def expect(self, kernel: Callable[..., Any], pole: Number, *arguments: Any) -> Value:
        pole = np.asarray(pole)
        roots = self._preimages(pole)
        ends = np.array(self.measure.support)
        beyond = np.maximum(ends[:, 0] - roots.real[..., None], roots.real[..., None] - ends[:, 1])
        distance = np.hypot(np.maximum(beyond, 0).min(axis=-1), roots.imag)
        nearest = np.take_along_axis(roots, distance.argmin(axis=-1)[..., None], axis=-1)[..., 0]
        return self.measure.expect(
            lambda x, *rest: kernel(self.polynomial(x), *rest), nearest, *arguments
        )

    def cdf(self, x: Number) -> Value:
        """Distribution function: mass of (-inf, x]."""
        x = real_array("x", x)
        total = np.zeros(x.shape)
        for (start, stop), (low, high) in zip(self._pieces, self._images, strict=True):
            rising = bool(self.polynomial(stop) > self.polynomial(start))
            at = elementwise.find_root(
                lambda u, y: self.polynomial(u) - y,
                (np.full(x.shape, start), np.full(x.shape, stop)),
                args=(np.clip(x, low, high),),
            ).x
            at = np.where(x <= low, start if rising else stop, at)
            at = np.where(x >= high, stop if rising else start, at)
            below = self._continuous(at)
            total += below - self._continuous(start) if rising else self._continuous(stop) - below
        return np.clip(total + self._mass_of_atoms(x), 0.0, 1.0)[()]

    def _continuous(self, x: Value) -> Value:
        """Distribution function of the measure without its atoms."""
        return self.measure.cdf(x) - self.measure._mass_of_atoms(np.asarray(x))

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        r"""Stieltjes transform :math:`\int d\mu(x) / (p(x) - z)` or its derivative in z.

        Parameters
        ----------
        z : number or array, real or complex
            Real points must lie outside the support.
        derivative : {0, 1}
            Order of the derivative.

        Raises
        ------
        ValueError
            If a real z lies in the support, or derivative is not 0 or 1.

        Notes
        -----
        Exact, given the transform of the measure.  Near a critical value of the polynomial outside
        the support two terms cancel; half of the digits are lost at it.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur, Pushforward
        >>> round(float(Pushforward(MarchenkoPastur(0.25), [0.0, 0.0, 1.0]).stieltjes(-1.0)), 9)
        0.549630485
        """
        check_derivative(derivative, most=1)
        z = self._outside("z", z, finite=True)
        roots = self._preimages(z)
        slope = self._slope(roots)
        value = self.measure.stieltjes(roots)
        if derivative:
            curvature = self._slope.deriv()(roots)
            value = self.measure.stieltjes(roots, derivative=1) - value * curvature / slope
            value = value / slope
        total = (value / slope).sum(axis=-1)
        return (total if np.iscomplexobj(z) else total.real)[()]
