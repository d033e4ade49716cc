r"""Free additive convolution: limiting spectrum of :math:`A + U B U^\top`, U a random rotation.

With :math:`F_j = -1/m_j` for the laws of A and B and :math:`F = -1/m` for that of the sum, there
are subordination functions :math:`\omega_j(z)` with

.. math:: F(z) = F_1(\omega_1) = F_2(\omega_2), \qquad \omega_1 + \omega_2 = z + F(z)

(Biane, Math. Z. 227 (1998) 143; Belinschi and Bercovici, J. Anal. Math. 101 (2007) 357), unique
in the upper half plane.

**Support.**  Outside the supports of the two laws :math:`F_1` and :math:`F_2` increase along
branches: intervals from one end of the support to the next, or to a zero of the transform, where F
is infinite.  A point of the real line outside the support of the sum is :math:`z = F_1^{-1}(F) +
F_2^{-1}(F) - F` on a pair of branches, where z increases with F.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.optimize import elementwise
from scipy.special import expit

from iclimit.asymptotics.checks import check_derivative, check_integers
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.fixed_points import follow
from iclimit.asymptotics.spectra.free_transforms import cumulants_of_moments, moments_of_cumulants
from iclimit.asymptotics.spectra.integration import Angle, Chart, Intervals, density_on
from iclimit.asymptotics.spectra.measure import SpectralMeasure, is_atomic, parse_measure

# Height at which real points are solved, over their distance from the support: the transform
# changes by the square of it.
_LIFT = 1e-9

# Relative error of the equation with sums over atoms.
_ROUNDING = 4e-15

# Relative error of the equation with integrals.
_INTEGRATION = 1e-12


class FreeSum(SpectralMeasure):
    r"""Free additive convolution of two measures.

    Parameters
    ----------
    first, second : SpectralMeasure
        Measures with finite means and bounded supports, of widths between 1e-140 and 1e140 that
        differ by at most a factor of a million.

    Raises
    ------
    TypeError
        If an argument is not a SpectralMeasure.
    ValueError
        If a support is not bounded, or one point, or too narrow or wide.

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
        _check_widths({"first": first, "second": second})
        self.first = first
        self.second = second
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
        bands = []
        reached = lower
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

    def density(self, x: Number) -> Value:
        def function(x: np.ndarray) -> np.ndarray:
            F = self._evaluate(x + 0j)[0]
            return F.imag / (np.pi * abs(F) ** 2)

        return density_on(self._bands, x, function, closed=False)

    def moment(self, order: int) -> Value:
        """Moment, from the sum of the free cumulants."""
        check_integers(order=order)
        if order == 0:
            return 1.0
        parts = [
            cumulants_of_moments([law.moment(k) for k in range(1, order + 1)])
            for law in (self.first, self.second)
        ]
        return moments_of_cumulants([a + b for a, b in zip(*parts, strict=True)])[-1]

    def r_transform(self, x: Number, *, derivative: int = 0) -> Value:
        parts = [law.r_transform(x, derivative=derivative) for law in (self.first, self.second)]
        return parts[0] + parts[1]

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
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
            height = omega.imag
            height_other = other.imag
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


# Widths of supports of which squares of the slopes near an end are within float64.
_WIDTHS = (1e-140, 1e140)

# Least width over that of the other support.  Edges of the sum are off by up to 1e-7 of the wider
# one there; below, branches that end near densities have no values of F in common.
_NARROWEST = 1e-6


def _check_widths(measures: Mapping[str, SpectralMeasure]) -> None:
    """Raise a ValueError unless the supports have widths of a similar, moderate size."""
    widths = {name: float(law.edges[1] - law.edges[0]) for name, law in measures.items()}
    for name, width in widths.items():
        if not _WIDTHS[0] <= width <= _WIDTHS[1]:
            raise ValueError(
                f"{name} must have a support of a width in [1e-140, 1e140], got {width:.3g}: "
                "take other units"
            )
    narrow, wide = sorted(widths, key=widths.__getitem__)
    if widths[narrow] < _NARROWEST * widths[wide]:
        raise ValueError(
            f"{narrow} must have a support of at least {_NARROWEST:g} times the width of {wide}, "
            f"got {widths[narrow]:.3g} and {widths[wide]:.3g}: shift {wide} by the mean of "
            f"{narrow} instead, which changes transforms by the square of that ratio"
        )


# Points at which the slope of z is evaluated along a pair of branches.
_POINTS = 129

# Rounding may decide the sign of a slope of z below this: z is flat at infinity and at inverse
# square roots of a density.
_FLAT = 1e-13

# Points of a law of atoms come this near to the end of a branch, as -log of the relative distance:
# to rounding.
_REACH = 33.0

# The same for a law with a density: no edge of the sum comes from the end of a branch there.
_REACH_INTEGRATED = 16.0

# Most steps, by Newton's method or halving, that invert F between two points.
_INVERSIONS = 60


def reciprocal(law: SpectralMeasure, omega: Number) -> tuple[Value, Value]:
    """F = -1/m and its derivative."""
    with np.errstate(all="ignore"):
        m = law.stieltjes(omega)
        slope = law.stieltjes(omega, derivative=1)
        return -1 / m, slope / m**2


class _Branch:
    """Real interval on which F = -1/m of a measure increases, sampled."""

    def __init__(
        self, law: SpectralMeasure, zeros: tuple[float, ...], start: float, stop: float
    ) -> None:
        self.law = law
        self.zeros = zeros
        self.start = start
        self.stop = stop
        omega = _points(law, start, stop, np.linspace(-1, 1, _POINTS))
        omega = omega[(omega > start) & (omega < stop)]
        values, slopes = reciprocal(law, omega)
        fine = np.isfinite(values) & np.isfinite(slopes)
        self.omega = omega[fine]
        self.values = values[fine]
        self.slopes = slopes[fine]

    def inverse(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points with given values of F, and the slope of F there."""
        cell = np.clip(np.searchsorted(self.values, F), 1, self.values.size - 1)
        low = self.omega[cell - 1]
        high = self.omega[cell]
        omega = np.where(abs(self.values[cell] - F) < abs(self.values[cell - 1] - F), high, low)
        for _ in range(_INVERSIONS):
            value, slope = reciprocal(self.law, omega)
            low = np.where(value < F, omega, low)
            high = np.where(value > F, omega, high)
            newton = omega - (value - F) / slope
            moved = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
            moved = np.where(abs(newton - omega) <= 4e-16 * abs(omega), omega, moved)
            if np.all(moved == omega):
                break
            omega = moved
        return omega, slope


def _points(law: SpectralMeasure, start: float, stop: float, part: np.ndarray) -> np.ndarray:
    """Points of an interval from its start (part = -1) to its stop (1).

    The distance from an end decreases exponentially, down to where float64 still resolves it.
    """
    lower, upper = law._ends
    scale = max(upper - lower, 1e-3 * abs(lower), 1e-300)
    reach = _REACH if is_atomic(law) else _REACH_INTEGRATED
    if np.isinf(start):
        return stop - scale * np.exp(-reach * part)
    if np.isinf(stop):
        return start + scale * np.exp(reach * part)
    length = stop - start
    spacing = 16 * np.spacing(max(abs(start), abs(stop)))
    place = part * min(reach, np.log(max(length / spacing, 2.0)))
    return np.where(place < 0, start + length * expit(place), stop - length * expit(-place))


def _zeros(law: SpectralMeasure, start: float, stop: float) -> list[float]:
    """Zero of the transform in a gap of the support, if there is one."""

    def transform(part: np.ndarray) -> np.ndarray:
        return law.stieltjes(_points(law, start, stop, part))

    ends = np.array([-1.0, 1.0])
    signs = transform(ends)
    if not signs[0] < 0 < signs[1]:
        return []
    root = elementwise.find_root(transform, (ends[:1], ends[1:])).x
    return _points(law, start, stop, root).tolist()


def _branches(law: SpectralMeasure) -> list[_Branch]:
    """Intervals outside the support, cut where the transform vanishes."""
    lower, upper = law._ends
    inner = [(a, b) for (_, a), (b, _) in pairwise(law.support)]
    zeros = tuple(zero for gap in inner for zero in _zeros(law, *gap))
    branches = []
    for start, stop in [(-np.inf, lower), (upper, np.inf), *inner]:
        cuts = [start, *(zero for zero in zeros if start < zero < stop), stop]
        branches += [_Branch(law, zeros, *ends) for ends in pairwise(cuts)]
    return [branch for branch in branches if branch.values.size > 1]


def find_gaps(first: SpectralMeasure, second: SpectralMeasure) -> list[tuple[float, float]]:
    """Intervals outside the support of a free sum, sorted; the outer ones are unbounded."""
    others = _branches(second)
    return sorted(
        gap for branch in _branches(first) for other in others for gap in _gaps(branch, other)
    )


def _gaps(branch: _Branch, other: _Branch) -> list[tuple[float, float]]:
    """Intervals of z, images of where z increases in F along two branches."""
    low = max(branch.values[0], other.values[0])
    high = min(branch.values[-1], other.values[-1])
    if low >= high or 1 / branch.slopes.min() + 1 / other.slopes.min() <= 1:
        return []
    F = np.unique(np.concatenate([branch.values, other.values]))
    F = F[(low <= F) & (high >= F)]

    def along(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points z and a number of the sign of their slope."""
        omega, slope = branch.inverse(F)
        omega_other, slope_other = other.inverse(F)
        return omega + (omega_other - F), 1 / slope + 1 / slope_other - 1

    z, slope = along(F)
    clear = abs(slope) > _FLAT
    if not np.any(clear):
        return []
    F = F[clear]
    rising = slope[clear] > 0
    change = np.flatnonzero(rising[1:] != rising[:-1])
    edges = np.empty(0)
    if change.size:
        root = elementwise.find_root(lambda F: along(F)[1], (F[change], F[change + 1])).x
        edges = along(root)[0]
    first = _limit(branch, other, branch.start, other.start, z[0])
    last = _limit(branch, other, branch.stop, other.stop, z[-1])
    marks = [*([first] if rising[0] else []), *edges, *([last] if rising[-1] else [])]
    return [(float(a), float(b)) for a, b in zip(marks[::2], marks[1::2], strict=True)]


def _limit(branch: _Branch, other: _Branch, end: float, end_other: float, root: float) -> float:
    """End of z: exact where F is infinite there, omega - F tending to the mean of its law."""
    if np.isinf(end) and np.isinf(end_other):
        return end
    if np.isinf(end) and end_other in other.zeros:
        return branch.law.mean + end_other
    if np.isinf(end_other) and end in branch.zeros:
        return other.law.mean + end
    return root
