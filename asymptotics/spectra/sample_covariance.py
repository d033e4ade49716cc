r"""Limiting spectrum of a sample covariance matrix with any population spectrum.

:math:`\hat C = \frac1N \sum_{j=1}^N z_j z_j^\top`, where :math:`z_j = C^{1/2} x_j`, the entries of
:math:`x_j` are independent of mean 0 and variance 1, and C has the spectral measure :math:`\nu`:
the free multiplicative convolution of :math:`\nu` with the Marchenko-Pastur law of ratio
:math:`c = d/N`.
Everything follows from its subordination function :math:`\omega(z)`, which solves

.. math:: z = \Phi(\omega), \qquad
   \Phi(\omega) = \omega \Bigl(1 - c \int \frac{t\, d\nu(t)}{t - \omega}\Bigr),

by :math:`E(\hat C - z)^{-1} \simeq \frac{\omega}{z} (C - \omega)^{-1}`, so that
:math:`z\, m(z) = \omega\, m_\nu(\omega)`.  The companion transform is :math:`v = -1/\omega`; in
terms of it the equation is that of Silverstein, J. Multivariate Anal. 55 (1995) 331.  In the
upper half plane the solution there is unique.  The real line outside the support is where
:math:`\Phi` increases, outside the support of :math:`\nu` (Silverstein and Choi, J. Multivariate
Anal. 54 (1995) 295): :math:`1 - \Phi' = c \int t^2 d\nu / (t - \omega)^2` is convex between two
points of the support, so at most one interval of each gap belongs to a gap of the new law, and
its ends, where :math:`\Phi' = 0`, are the edges.

For :math:`z < 0`, :math:`y = -\omega > 0` solves a convex equation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import check_derivative, check_integers, real_array
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra import fixed_points
from iclimit.asymptotics.spectra.free_transforms import moments_of_cumulants
from iclimit.asymptotics.spectra.integration import (
    Angle,
    Chart,
    HalfLine,
    Intervals,
    density_on,
    inside,
)
from iclimit.asymptotics.spectra.measure import (
    SpectralMeasure,
    is_atomic,
    parse_measure,
    reject_inside,
)
from iclimit.checks import refuse_masked

# Height at which real points are solved, over their distance from the support: the transform
# changes by the square of it.
_LIFT = 1e-9

# Error of an integral over the population, relative to the mean size of its terms.
_INTEGRATION = 2e-13

# Edges are not looked for nearer to a continuous population than this part of the gap.
_CLOSEST = 1e-7


class SampleCovariance(SpectralMeasure):
    r"""Limiting spectral measure of :math:`\frac1N \sum_j z_j z_j^\top`.

    Parameters
    ----------
    population : SpectralMeasure
        Spectrum of the covariance of z, >= 0 and of finite mean.
    ratio : number or array, 0 < ratio < inf
        Dimension over number of samples, d/N.  With an array the transforms broadcast it against
        their argument; support, density and quadrature need a number.

    Raises
    ------
    ValueError
        If the population reaches below 0, is {0} or has no mean, or ratio is out of range.

    References
    ----------
    Marchenko and Pastur (1967); Silverstein (1995); Silverstein and Choi (1995).

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Atoms, SampleCovariance
    >>> law = SampleCovariance(Atoms([1.0, 10.0]), 0.05)
    >>> [[round(edge, 6) for edge in band] for band in law.support]
    [[0.685826, 1.308442], [7.116092, 13.43964]]
    >>> round(float(law.moment(2)), 12)
    52.0125
    """

    def __init__(self, population: SpectralMeasure, ratio: Number) -> None:
        self.ratio = real_array("ratio", ratio)
        self.population = parse_measure("population", population)
        lower, upper = population._ends
        mean = population.mean
        if not (lower >= 0 and upper > 0 and mean < np.inf):
            raise ValueError(
                "population must have a support in [0, inf), not {0}, and a finite mean, got "
                f"{population} on {population.support} of mean {mean}"
            )
        self._mean = float(mean)
        self._second = float(population.moment(2))
        self._error = fixed_points.ROUNDING if is_atomic(population) else _INTEGRATION
        self._at_zero = float(population._mass_of_atoms(np.zeros(())))
        self._excess = 1 - self.ratio * (1 - self._at_zero)

    @property
    def _single_ratio(self) -> float:
        if self.ratio.ndim:
            raise ValueError(f"ratio must be one number here, got shape {self.ratio.shape}")
        return float(self.ratio)

    @cached_property
    def atoms(self) -> Intervals:
        """The mass at zero, if any: the larger of that of the population and 1 - 1/c."""
        mass = max(self._at_zero, 1 - 1 / self._single_ratio)
        return ((0.0, float(mass)),) if mass > 0 else ()

    @cached_property
    def support(self) -> Intervals:
        isolated = self.atoms and self._bands[0][0] > 0
        return ((0.0, 0.0), *self._bands) if isolated else self._bands

    @cached_property
    def _bands(self) -> Intervals:
        """Intervals with a density: the complement of the images of the gaps of the population."""
        pieces = np.array([piece for piece in self.population.support if piece != (0.0, 0.0)])
        lowest = pieces[0, 0]
        highest = pieces[-1, 1]
        starts = pieces[:-1, 1]
        stops = pieces[1:, 0]
        middles = self._middles(starts, stops)
        open_ = np.isfinite(middles)
        starts = starts[open_]
        stops = stops[open_]
        middles = middles[open_]

        # For t >= 0 > w, t^2/(t - w)^2 <= t/(4|w|): Phi' >= 3/4 below -c times the mean.
        below = np.array([-self._single_ratio * self._mean])
        above = highest + 2 * np.sqrt(self._single_ratio * self._second)
        from_zero = lowest == 0 and self._excess >= 0
        lower = [] if from_zero else self._edges_between(below, np.array([lowest]))
        bounded = np.isfinite(highest)
        upper = self._edges_between(np.array([above]), np.array([highest])) if bounded else []
        inner = zip(
            self._edges_between(middles, starts), self._edges_between(middles, stops), strict=True
        )
        ends = [*(lower or [0.0]), *(x for pair in inner for x in pair), *(upper or [np.inf])]
        ends[0] = max(ends[0], 0.0)
        return tuple(zip(ends[::2], ends[1::2], strict=True))

    @cached_property
    def _charts(self) -> list[Chart]:
        """The edges are square roots, or inverse ones at 0."""
        return [
            HalfLine(lower, self._mean) if np.isinf(upper) else Angle(lower, upper)
            for lower, upper in self._bands
        ]

    def _descent(self, omega: Value) -> Value:
        r"""The convex function :math:`1 - \Phi'(\omega)` at real points outside the population."""
        with np.errstate(invalid="ignore", divide="ignore"):  # at an atom at 0
            mean = self.population.expect(lambda t, w: (t / (t - w)) ** 2, omega, omega)
        return self._single_ratio * mean

    def _middles(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Point of largest slope in every gap of the population; NaN if the slope is negative."""
        middles = np.full(starts.shape, np.nan)
        masses = dict(self.population.atoms)

        def roots(ends: np.ndarray) -> np.ndarray:
            """Cube roots of what the atoms at ends of gaps contribute at unit distance."""
            return np.cbrt([self._single_ratio * masses.get(t, 0.0) * t**2 for t in ends.tolist()])

        left = roots(starts)
        right = roots(stops)
        # Least value in the gap of what the atoms at its two ends contribute.
        candidate = (left + right) ** 3 < (stops - starts) ** 2
        start = starts[candidate]
        length = (stops - starts)[candidate]
        if not start.size:
            return middles

        def rise(s: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
            at = start + s * length
            return self.population.expect(
                lambda t, w, length: (t / (t - w)) ** 2 * (length / (t - w)), at, at, length
            )

        ends = np.full(start.shape, _CLOSEST), np.full(start.shape, 1 - _CLOSEST)
        falling = rise(ends[0], start, length) < 0
        rising = rise(ends[1], start, length) > 0
        root = elementwise.find_root(rise, ends, args=(start, length)).x
        at = start + length * np.where(falling, np.where(rising, root, ends[1]), ends[0])
        middles[candidate] = np.where(self._descent(at) < 1, at, np.nan)
        return middles

    def _edges_between(self, inside: np.ndarray, end: np.ndarray) -> list[float]:
        """Edges: images of the points between a gap's inside and its end where the slope is 0."""
        if not inside.size:
            return []

        def excess(s: np.ndarray, inside: np.ndarray, end: np.ndarray) -> np.ndarray:
            return self._descent(end + s * (inside - end)) - 1

        near = np.ones(inside.shape)
        while True:
            below = excess(near, inside, end) < 0
            if not np.any(below & (near > _CLOSEST)):
                break
            near = np.where(below, near / 8, near)
        bracket = near, np.minimum(8 * near, 1.0)
        root = elementwise.find_root(excess, bracket, args=(inside, end)).x
        return self._image(end + np.where(below, near, root) * (inside - end)).tolist()

    def _image(self, omega: np.ndarray) -> np.ndarray:
        c = self._single_ratio
        excess = float(self._excess)
        return omega * self.population.expect(
            lambda t, w: fixed_points.shrinkage(t, w, c, excess), omega, omega
        )

    def density(self, x: Number) -> Value:
        def function(x: np.ndarray) -> np.ndarray:
            omega = self._solve(x + 0j, np.broadcast_to(self.ratio, x.shape))
            return omega.imag / (np.pi * self.ratio * abs(omega) ** 2)

        return density_on(self._bands, x, function, closed=False)

    def moment(self, order: int) -> Value:
        """Moment, from the free cumulants c times the moments of the population."""
        check_integers(order=order)
        if order == 0:
            return np.ones(self.ratio.shape)[()]
        moments = [self.population.moment(k) for k in range(1, order + 1)]
        return (moments_of_cumulants([self.ratio * m for m in moments])[-1] / self.ratio)[()]

    def subordination(self, z: Number) -> Value:
        r"""Point :math:`\omega(z)` with :math:`E(\hat C - z)^{-1} \simeq \frac{\omega}{z}
        (C - \omega)^{-1}`.

        Parameters, errors and broadcasting are those of `stieltjes`.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import Atoms, SampleCovariance
        >>> law = SampleCovariance(Atoms([1.0]), 0.5)
        >>> round(float(law.subordination(-1.0)), 9)
        -1.280776406
        """
        z = self._points(z, bool(np.any(self._excess < 0) or self._at_zero))
        return self._at(z)[0][()]

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        r"""Stieltjes transform :math:`m(z) = \int d\mu(x) / (x - z)` or its derivative in z.

        Parameters
        ----------
        z : number or array, real or complex
            Real points must lie outside the support; with an array of ratios, below 0.
        derivative : {0, 1}
            Order of the derivative.

        Returns
        -------
        number or ndarray
            Broadcast of z and ratio; real for real z.

        Raises
        ------
        ValueError
            If a real z lies in the support, or derivative is not 0 or 1.
        ArithmeticError
            If the fixed point is not reached, which was not observed: see
            `iclimit.asymptotics.spectra.fixed_points`.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur, SampleCovariance, Uniform
        >>> round(float(SampleCovariance(Uniform(0.0, 2.0), 0.5).stieltjes(-0.1)), 9)
        2.123484643
        """
        check_derivative(derivative, most=1)
        z = self._points(z, bool(np.any(self._excess < 0) or self._at_zero))
        omega, shrunk, speed = self._at(z)
        c = self.ratio
        m = self.population.stieltjes(omega)
        if derivative == 0:
            return (m / shrunk)[()]
        m_slope = self.population.stieltjes(omega, derivative=1)
        return (speed * ((1 - c) * m_slope + c * m**2) / shrunk**2)[()]

    def companion_stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        r"""Transform :math:`v(z) = c\, m(z) - (1 - c)/z` of the spectrum of the Gram matrix.

        Parameters, errors and broadcasting are those of `stieltjes`, for the support of the
        companion law: zero is in it for c < 1 and not for c > 1.
        """
        check_derivative(derivative, most=1)
        omega, _, speed = self._at(self._points(z, bool(np.any(self._excess > 0))))
        return (speed / omega**2 if derivative else -1 / omega)[()]

    def eta_transform(self, snr: Number, *, derivative: int = 0) -> Value:
        check_derivative(derivative, most=2)
        if derivative:
            return super().eta_transform(snr, derivative=derivative)
        snr = real_array("snr", snr, "(0, inf)")
        return self.population.eta_transform(snr * self._at(-1 / snr)[1])

    def shannon_transform(self, snr: Number, *, derivative: int = 0) -> Value:
        check_derivative(derivative, most=2)
        if derivative > 1:
            return super().shannon_transform(snr, derivative=derivative)
        snr = real_array("snr", snr, "(0, inf)")
        s = self._at(-1 / snr)[1]
        inner = self.population.shannon_transform(snr * s, derivative=derivative)
        return s * inner if derivative else inner + (s - 1 - np.log(s)) / self.ratio

    def s_transform(self, x: Number, *, derivative: int = 0) -> Value:
        check_derivative(derivative, most=1)
        inner = self.population.s_transform(x)
        factor = 1 / (1 + self.ratio * x)
        if derivative == 0:
            return inner * factor
        inner_slope = self.population.s_transform(x, derivative=derivative)
        return (inner_slope - self.ratio * factor * inner) * factor

    def _points(self, z: Value, atom: bool) -> np.ndarray:
        """Points of the plane, none of them in a band or, with an atom there, at 0."""
        refuse_masked("z", z)
        z = np.asarray(z, dtype=complex) if np.iscomplexobj(z) else real_array("z", z)
        if not np.all(np.isfinite(z)):
            raise ValueError(f"z must be finite, got {z}")
        real = (z.imag == 0) & (z.real >= 0)
        if not np.any(real):
            return z
        if self.ratio.ndim:
            raise ValueError(f"z must be < 0 or not real for an array of ratios, got {z}")
        wrong = real & (inside(z.real, self._bands, closed=True) | ((z == 0) & atom))
        reject_inside("z", z[wrong], f"{self.support}")
        return z

    def _at(self, z: np.ndarray) -> tuple[Value, Value, Value]:
        r"""Subordination function, :math:`z/\omega` and :math:`\omega'(z)` outside the support."""
        z, c, excess = np.broadcast_arrays(z, self.ratio, self._excess)
        shape = z.shape
        is_real = not np.iscomplexobj(z)
        z = z.ravel()
        c = c.ravel()
        excess = excess.ravel()
        omega = np.zeros(z.shape, dtype=complex)
        negative = (z.imag == 0) & (z.real < 0)
        if np.any(negative):
            omega[negative] = -self._below(-z[negative].real, c[negative], excess[negative])
        if not np.all(negative):
            omega[~negative] = self._above(z[~negative] + 0j, c[~negative], excess[~negative])
        omega = omega.real if is_real else omega
        with np.errstate(all="ignore"):
            shrunk = np.where(z == 0, excess, z / omega)
        speed = 1 / self.population.expect(fixed_points.slope, omega, omega, c, excess)
        return omega.reshape(shape), shrunk.reshape(shape), speed.reshape(shape)

    def _distance(self, x: np.ndarray) -> np.ndarray:
        """Distance of real points from the edges and 0; an array of ratios has none here."""
        if self.ratio.ndim:
            return np.ones(x.shape)
        ends = np.array([end for band in self._bands for end in band])
        nearest = abs(x[:, None] - ends).min(axis=-1)
        return np.where(x == 0, nearest, np.minimum(nearest, abs(x)))

    def _average(
        self, kernel: Callable, omega: Value, c: Value, excess: Value, _: np.ndarray
    ) -> np.ndarray:
        return self.population.expect(kernel, omega, omega, c, excess)

    def _below(self, x: np.ndarray, c: np.ndarray, excess: np.ndarray) -> np.ndarray:
        """Minus the subordination function at -x < 0."""
        mean = np.full(x.shape, self._mean)
        second = np.full(x.shape, self._second)
        return fixed_points.below(self._average, x, c, excess, mean, second, self._error)[0]

    def _above(self, z: np.ndarray, c: np.ndarray, excess: np.ndarray) -> np.ndarray:
        """Subordination function at complex points, and at 0 and right of it."""
        height = np.where(z.imag == 0, _LIFT * self._distance(z.real), abs(z.imag))
        solution = self._solve(z.real + 1j * height, c)
        solution = np.where(z.imag == 0, solution.real, solution)
        solution[(z == 0) & (excess > 0)] = 0.0
        return np.where(z.imag < 0, solution.conj(), solution)

    def _solve(self, z: np.ndarray, c: np.ndarray) -> np.ndarray:
        excess = 1 - c * (1 - self._at_zero)
        mean = np.full(c.shape, self._mean)
        return fixed_points.above(self._average, z, c, excess, mean, self._error)[0]
