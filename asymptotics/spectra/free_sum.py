r"""Free additive convolution: limiting spectrum of :math:`A + U B U^\top`, U a random rotation.

With :math:`F_j = -1/m_j` for the laws of A and B and :math:`F = -1/m` for that of the sum, there
are subordination functions :math:`\omega_j(z)` with

.. math:: F(z) = F_1(\omega_1) = F_2(\omega_2), \qquad \omega_1 + \omega_2 = z + F(z)

(Biane, Math. Z. 227 (1998) 143; Belinschi and Bercovici, J. Anal. Math. 101 (2007) 357), unique
in the upper half plane.  On the real line outside the support they are real, increasing, and
outside the supports of the two laws, and F parametrises them:
:math:`z = F_1^{-1}(F) + F_2^{-1}(F) - F`.  So the real line outside the support consists of the
images, under this map, of where it increases, for every pair of intervals on which :math:`F_1`
and :math:`F_2` increase from one end of the support to the next, or to a zero of the transform.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import elementwise
from scipy.special import expit

from iclimit.asymptotics.checks import check_derivative, check_integers
from iclimit.asymptotics.spectra.charts import Angle, Chart
from iclimit.asymptotics.spectra.fixed_points import follow
from iclimit.asymptotics.spectra.free_cumulants import cumulants_of_moments, moments_of_cumulants
from iclimit.asymptotics.spectra.intervals import Intervals, density_on
from iclimit.asymptotics.spectra.measure import SpectralMeasure, is_atomic

_LIFT = 1e-9
"""Height at which real points are solved, over their distance from the support: the transform
changes by the square of it."""

_ROUNDING, _INTEGRATION = 4e-15, 1e-12
"""Relative error of the equation with sums over atoms, and with integrals."""

_POINTS = 129
"""Points at which the slope of z is looked at along a pair of intervals."""

_FLAT = 1e-13
"""Slope of z whose sign rounding may decide: it is 0 at infinity and at inverse square roots."""

_REACH, _REACH_INTEGRATED = 33.0, 16.0
"""How near to the end of an interval that is, as -log of the relative distance: to rounding for
atoms, less for densities, where edges of the sum do not come from there."""


_INVERSIONS = 60
"""Most steps of Newton's method, or halvings, that invert F between two points."""


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
    Gaps of the support are found if the slope of z changes sign on them between two of the points
    at which it is looked at, 129 for each pair of intervals; there are as many pairs as the
    product of the numbers of atoms.  Two laws of two atoms each have an exceptional real point,
    where all of the upper half plane solves the equation and the density is not to be trusted:
    x = 0 for masses 1/2 at -1 and 1.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Atoms, FreeSum
    >>> law = FreeSum(Atoms([-1.0, 1.0]), Atoms([-1.0, 1.0]))  # the arcsine law on [-2, 2]
    >>> round(float(law.density(1.0)), 9), law.moment(4)
    (0.183776298, 6.0)
    """

    def __init__(self, first: SpectralMeasure, second: SpectralMeasure) -> None:
        for name, measure in (("first", first), ("second", second)):
            if not isinstance(measure, SpectralMeasure):
                raise TypeError(f"{name} must be a SpectralMeasure, got {measure!r}")
            if not np.all(np.isfinite(measure.support)):
                raise ValueError(f"{name} must have a bounded support, got {measure.support}")
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
        gaps = sorted(
            gap
            for one in _branches(self.first)
            for other in _branches(self.second)
            for gap in _gaps(one, other)
        )
        lower = min(stop for start, stop in gaps if start == -np.inf)
        upper = max(start for start, stop in gaps if stop == np.inf)
        # Gaps meet where a transform vanishes, and at an atom of the sum: nothing is between.
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
            F, slope = _reciprocal(self.first, omega)
            other = z + (F - omega)
            return F, slope, other, *_reciprocal(self.second, other)

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


def _reciprocal(law: SpectralMeasure, omega: Any) -> tuple[Any, Any]:
    """F = -1/m and its derivative."""
    with np.errstate(all="ignore"):
        m, slope = law.stieltjes(omega), law.stieltjes(omega, derivative=1)
        return -1 / m, slope / m**2


@dataclass(frozen=True)
class _Branch:
    """Real interval on which F = -1/m of a measure increases, and points of it."""

    law: SpectralMeasure
    start: float
    stop: float
    scale: float
    places: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    zeros: tuple[float, ...]

    def omega(self, place: Any) -> Any:
        """Points of the interval from the real line, the ends approached exponentially."""
        return _point(self.start, self.stop, self.scale, place)


def _point(start: float, stop: float, scale: float, place: Any) -> Any:
    if np.isinf(start):
        return stop - scale * np.exp(-place)
    if np.isinf(stop):
        return start + scale * np.exp(place)
    near_start, near_stop = (stop - start) * expit(place), (stop - start) * expit(-place)
    return np.where(place < 0, start + near_start, stop - near_stop)


def _within(start: float, stop: float, reach: float) -> float:
    """Places at which points are still told from the ends of the interval."""
    if not np.isfinite(stop - start):
        return reach
    spacing = 16 * np.spacing(max(abs(start), abs(stop)))
    return min(reach, float(np.log(max((stop - start) / spacing, 2.0))))


def _branches(law: SpectralMeasure) -> list[_Branch]:
    """Intervals outside the support, cut where the transform vanishes."""
    support = law.support
    scale = max(support[-1][1] - support[0][0], 1e-3 * abs(support[0][0]), 1e-300)
    reach = _REACH if is_atomic(law) else _REACH_INTEGRATED
    zeros = []
    ends = [(-np.inf, support[0][0]), (support[-1][1], np.inf)]
    for (_, start), (stop, _) in pairwise(support):
        places = _within(start, stop, reach) * np.array([-1.0, 1.0])
        signs = law.stieltjes(_point(start, stop, scale, places))
        if signs[0] < 0 < signs[1]:
            zero = elementwise.find_root(
                lambda p, start=start, stop=stop: law.stieltjes(_point(start, stop, scale, p)),
                (places[:1], places[1:]),
            ).x[0]
            middle = float(_point(start, stop, scale, zero))
            zeros.append(middle)
            ends += [(start, middle), (middle, stop)]
        else:
            ends.append((start, stop))
    branches = []
    for start, stop in ends:
        places = np.linspace(-1, 1, _POINTS) * _within(start, stop, reach)
        omega = _point(start, stop, scale, places)
        inside = (omega > start) & (omega < stop)
        places = places[inside]
        if places.size > 1:
            values, slopes = _reciprocal(law, omega[inside])
            fine = np.isfinite(values) & np.isfinite(slopes)
            branches.append(
                _Branch(
                    law, start, stop, scale, places[fine], values[fine], slopes[fine], tuple(zeros)
                )
            )
    return branches


def _gaps(one: _Branch, other: _Branch) -> list[tuple[float, float]]:
    """Intervals of z, images of where z increases in F along two branches."""
    low = max(one.values[0], other.values[0])
    high = min(one.values[-1], other.values[-1])
    if low >= high or 1 / one.slopes.min() + 1 / other.slopes.min() <= 1:
        return []
    F = np.unique(np.concatenate([one.values, other.values]))
    F = F[(low <= F) & (high >= F)]

    def along(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points z and a number of the sign of their slope."""
        (omega, slope), (omega_other, slope_other) = (_inverse(b, F) for b in (one, other))
        return omega + (omega_other - F), 1 / slope + 1 / slope_other - 1

    z, slope = along(F)
    clear = abs(slope) > _FLAT
    if not np.any(clear):
        return []
    F, rising = F[clear], slope[clear] > 0
    change = np.flatnonzero(rising[1:] != rising[:-1])
    edges = np.empty(0)
    if change.size:
        root = elementwise.find_root(lambda F: along(F)[1], (F[change], F[change + 1])).x
        edges = along(root)[0]
    first = _limit(one, other, one.start, other.start, z[0])
    last = _limit(one, other, one.stop, other.stop, z[-1])
    marks = [*([first] if rising[0] else []), *edges, *([last] if rising[-1] else [])]
    return [(float(a), float(b)) for a, b in zip(marks[::2], marks[1::2], strict=True)]


def _limit(one: _Branch, other: _Branch, end: float, end_other: float, found: float) -> float:
    """End of z: exact where F is infinite there, omega - F tending to the mean of its law."""
    if np.isinf(end) and np.isinf(end_other):
        return end
    if np.isinf(end) and end_other in other.zeros:
        return one.law.mean + end_other
    if np.isinf(end_other) and end in one.zeros:
        return other.law.mean + end
    return found


def _inverse(branch: _Branch, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Point of a branch with a given F, and the slope of F there."""
    cell = np.clip(np.searchsorted(branch.values, F), 1, branch.values.size - 1)
    low, high = branch.omega(branch.places[cell - 1]), branch.omega(branch.places[cell])
    omega = np.where(abs(branch.values[cell] - F) < abs(branch.values[cell - 1] - F), high, low)
    for _ in range(_INVERSIONS):
        value, slope = _reciprocal(branch.law, omega)
        low, high = np.where(value < F, omega, low), np.where(value > F, omega, high)
        newton = omega - (value - F) / slope
        moved = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        moved = np.where(abs(newton - omega) <= 4e-16 * abs(omega), omega, moved)
        if np.all(moved == omega):
            break
        omega = moved
    return omega, slope
