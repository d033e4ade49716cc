r"""Free additive convolution: limiting spectrum of :math:`A + U B U^\top`, U a random rotation.

With :math:`F_j = -1/m_j` for the laws of A and B and :math:`F = -1/m` for that of the sum, there
are subordination functions :math:`\omega_j(z)` with

.. math:: F(z) = F_1(\omega_1) = F_2(\omega_2), \qquad \omega_1 + \omega_2 = z + F(z)

(Biane, Math. Z. 227 (1998) 143; Belinschi and Bercovici, J. Anal. Math. 101 (2007) 357), unique
in the upper half plane.  `iclimit.asymptotics.spectra.free_sum_gaps` finds the support.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_derivative, check_integers
from iclimit.asymptotics.spectra.charts import Angle, Chart
from iclimit.asymptotics.spectra.fixed_points import follow
from iclimit.asymptotics.spectra.free_cumulants import cumulants_of_moments, moments_of_cumulants
from iclimit.asymptotics.spectra.free_sum_gaps import find_gaps, reciprocal
from iclimit.asymptotics.spectra.intervals import Intervals, density_on
from iclimit.asymptotics.spectra.measure import SpectralMeasure, is_atomic, parse_measure

_LIFT = 1e-9
"""Height at which real points are solved, over their distance from the support: the transform
changes by the square of it."""

_ROUNDING, _INTEGRATION = 4e-15, 1e-12
"""Relative error of the equation with sums over atoms, and with integrals."""


class FreeSum(SpectralMeasure):
    r"""Free additive convolution of two measures.

    Parameters
    ----------
    first, second : SpectralMeasure
        Measures with finite means and bounded supports.

    Raises
    ------
    TypeError
        If an argument is not a SpectralMeasure.
    ValueError
        If a support is not bounded, or one point.

    Notes
    -----
    The slope of z is evaluated at 129 points for each pair of intervals; there are as many pairs
    as the product of the numbers of atoms.  A gap of the support is found if the slope changes its
    sign between two of these points.  Two laws of two atoms each have an exceptional real point,
    x = 0 for masses 1/2 at -1 and 1: there all of the upper half plane solves the equation, and
    the density is not to be trusted.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Atoms, FreeSum
    >>> law = FreeSum(Atoms([-1.0, 1.0]), Atoms([-1.0, 1.0]))  # the arcsine law on [-2, 2]
    >>> round(float(law.density(1.0)), 9), law.moment(4)
    (0.183776298, 6.0)
    """

    def __init__(self, first: SpectralMeasure, second: SpectralMeasure) -> None:
        for name, measure in (("first", first), ("second", second)):
            parse_measure(name, measure, bounded=True)
            if measure.edges[0] == measure.edges[1]:
                raise ValueError(f"{name} must not be a point mass: shift the other measure")
        self.first, self.second = first, second
        self._error = _ROUNDING if is_atomic(first) and is_atomic(second) else _INTEGRATION

    @cached_property
    def atoms(self) -> Intervals:
        """Sums of atoms whose masses exceed 1 together (Bercovici and Voiculescu, 1998)."""
        return tuple(
            sorted(
                (a + b, p + q - 1)
                for a, p in self.first.atoms
                for b, q in self.second.atoms
                if p + q - 1 > 1e-14
            )
        )

    @cached_property
    def _bands(self) -> Intervals:
        """Intervals that carry a density, between the gaps that are found."""
        gaps = find_gaps(self.first, self.second)
        lower = min(stop for start, stop in gaps if start == -np.inf)
        upper = max(start for start, stop in gaps if stop == np.inf)
        # Gaps meet where a transform vanishes, and at an atom of the sum, with no band between.
        least = 1e-9 * (upper - lower)
        bands, reached = [], lower
        for start, stop in [gap for gap in gaps if gap[0] > -np.inf]:
            if start - reached > least:
                bands.append((reached, start))
            reached = max(reached, stop)
        return tuple(bands)

    @cached_property
    def support(self) -> Intervals:
        isolated = [(x, x) for x, _ in self.atoms if not any(a <= x <= b for a, b in self._bands)]
        return tuple(sorted([*self._bands, *isolated]))

    @cached_property
    def _charts(self) -> list[Chart]:
        return [Angle(lower, upper) for lower, upper in self._bands]

    def density(self, x: Any) -> Any:
        def function(x: np.ndarray) -> np.ndarray:
            F = self._evaluate(x + 0j)[0]
            return F.imag / (np.pi * abs(F) ** 2)

        return density_on(self._bands, x, function, closed=False)

    def moment(self, order: int) -> Any:
        """Moment, from the sum of the free cumulants."""
        check_integers(order=order)
        if order == 0:
            return 1.0
        parts = [
            cumulants_of_moments([law.moment(k) for k in range(1, order + 1)])
            for law in (self.first, self.second)
        ]
        return moments_of_cumulants([a + b for a, b in zip(*parts, strict=True)])[-1]

    def r_transform(self, x: Any, *, derivative: int = 0) -> Any:
        parts = [law.r_transform(x, derivative=derivative) for law in (self.first, self.second)]
        return parts[0] + parts[1]

    def stieltjes(self, z: Any, *, derivative: int = 0) -> Any:
        r"""Stieltjes transform :math:`m(z) = \int d\mu(x) / (x - z)` or its derivative in z.

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
        ArithmeticError
            If the fixed point is not reached.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import Atoms, FreeSum
        >>> round(float(FreeSum(Atoms([-1.0, 1.0]), Atoms([-1.0, 1.0])).stieltjes(4.0)), 9)
        -0.288675135
        """
        check_derivative(derivative, most=1)
        z = self._outside("z", z, finite=True)
        flat = np.ravel(z) + 0j
        ends = np.array([end for interval in self.support for end in interval])
        real = flat.imag == 0
        distance = abs(flat.real[:, None] - ends).min(axis=-1)
        height = np.where(real, _LIFT * distance, abs(flat.imag))
        F, slope = self._evaluate(flat.real + 1j * height)
        value = slope / F**2 if derivative else -1 / F
        value = np.where(flat.imag < 0, value.conj(), value)
        value = value if np.iscomplexobj(z) else value.real
        return value.reshape(np.shape(z))[()]

    def _evaluate(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F(z) and its derivative in the closed upper half plane, shape (m,)."""

        def both(omega: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
            F, slope = reciprocal(self.first, omega)
            other = z + (F - omega)
            return F, slope, other, *reciprocal(self.second, other)

        def newton(omega: np.ndarray, z: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, ...]:
            F, slope, other, F_other, slope_other = both(omega, z)
            total = slope_other * (slope - 1) - slope
            step = (F_other - F) / total
            size = abs(F) + abs(F_other) + abs(slope_other) * (abs(z) + abs(F) + abs(omega))
            rounding = self._error * size / abs(total)
            height, height_other = omega.imag, other.imag
            move = np.maximum(abs(step) - rounding, 0.0)
            length = np.maximum(move / height, abs(slope - 1) * move / height_other)
            length = np.where((height > 0) & (height_other > 0), length, np.inf)
            speed = np.maximum(abs(slope_other) / height, abs(slope) / height_other) / abs(total)
            return step, length, rounding, speed

        means = self.first.mean, self.second.mean
        spread = sum(law.support[-1][1] - law.support[0][0] for law in (self.first, self.second))
        height = 4 * (abs(z.real - sum(means)) + spread + 1e-3 * abs(sum(means)))
        omega, _ = follow(newton, lambda z: z - means[1], z, height)
        F, slope, _, _, slope_other = both(omega, z)
        return F, slope * slope_other / (slope + slope_other - slope * slope_other)
