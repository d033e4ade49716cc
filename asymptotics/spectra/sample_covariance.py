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
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.numbers import ArrayMath, Number, convert, numpy_namespace, require
from iclimit.asymptotics.spectra.charts import Angle, Chart, HalfLine
from iclimit.asymptotics.spectra.fixed_points import convex_root, follow
from iclimit.asymptotics.spectra.free_cumulants import moments_of_cumulants
from iclimit.asymptotics.spectra.measure import SpectralMeasure, check_derivative, real_points
from iclimit.asymptotics.spectra.wishart import check_integer

_LIFT = 1e-9
"""Height at which real points are solved, over their distance from the support: the transform
changes by the square of it."""

_ROUNDING, _INTEGRATION = 1e-15, 2e-13
"""Error of a sum over atoms and of an integral, relative to the mean size of its terms."""

_LARGE = 2.0
r"""Ratio from which :math:`\Phi` is computed as in its definition."""

_CLOSEST = 1e-7
"""Distance from a continuous population, over the gap, below which no edge is looked for."""

Average = Callable[..., Any]
"""(kernel, omega, c, excess, index of points) -> means over t of kernel(t, omega, c, excess)."""


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
        if not isinstance(population, SpectralMeasure):
            raise TypeError(f"population must be a SpectralMeasure, got {population!r}")
        math_ = numpy_namespace(ratio=ratio)
        self.ratio = convert(math_, "ratio", ratio)
        require(math_, "ratio", self.ratio, lambda v: (v > 0) & (v < np.inf), "> 0 and finite")
        self.population = population
        lower, upper = population.support[0][0], population.support[-1][1]
        mean = population.mean
        if not (lower >= 0 and upper > 0 and mean < np.inf):
            raise ValueError(
                "population must have a support in [0, inf), not {0}, and a finite mean, got "
                f"{population} on {population.support} of mean {mean}"
            )
        self._mean, self._second = float(mean), float(population.moment(2))
        atomic = all(lower == upper for lower, upper in population.support)
        self._error = _ROUNDING if atomic else _INTEGRATION
        self._at_zero = sum(mass for position, mass in population.atoms if position == 0)
        self._excess = 1 - self.ratio * (1 - self._at_zero)

    def __repr__(self) -> str:
        return f"SampleCovariance({self.population}, ratio={self.ratio})"

    @property
    def _single_ratio(self) -> float:
        if self.ratio.ndim:
            raise ValueError(f"ratio must be one number here, got shape {self.ratio.shape}")
        return float(self.ratio)

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """The mass at zero, if any: the larger of that of the population and 1 - 1/c."""
        mass = max(self._at_zero, 1 - 1 / self._single_ratio)
        return ((0.0, float(mass)),) if mass > 0 else ()

    @property
    def support(self) -> tuple[tuple[float, float], ...]:
        isolated = self.atoms and self._bands[0][0] > 0
        return ((0.0, 0.0), *self._bands) if isolated else self._bands

    @cached_property
    def _bands(self) -> tuple[tuple[float, float], ...]:
        """Intervals that carry a density: what the images of the gaps of the population leave."""
        pieces = np.array([piece for piece in self.population.support if piece != (0.0, 0.0)])
        lowest, highest = pieces[0, 0], pieces[-1, 1]
        starts, stops = pieces[:-1, 1], pieces[1:, 0]
        middles = self._middles(starts, stops)
        open_ = np.isfinite(middles)
        starts, stops, middles = starts[open_], stops[open_], middles[open_]

        # For t >= 0 > w, t^2/(t - w)^2 <= t/(4|w|): Phi' >= 3/4 below -c times the mean.
        below = np.array([-self._single_ratio * self._mean])
        above = highest + 2 * np.sqrt(self._single_ratio * self._second)
        from_zero = lowest == 0 and self._excess >= 0
        lower = [] if from_zero else self._edges_between(below, np.array([lowest]))
        upper = (
            []
            if np.isinf(highest)
            else self._edges_between(np.array([above]), np.array([highest]))
        )
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

    def _descent(self, omega: Any) -> Any:
        r"""The convex function :math:`1 - \Phi'(\omega)` at real points outside the population."""
        kernel = lambda t, w: (t / (t - w)) ** 2  # noqa: E731
        with np.errstate(invalid="ignore", divide="ignore"):  # at an atom at 0
            return self._single_ratio * self.population.expect(kernel, omega, omega)

    def _middles(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """In every gap of the population the point of largest slope, NaN if that is < 0."""
        middles = np.full(starts.shape, np.nan)
        masses = dict(self.population.atoms)
        left, right = (
            np.cbrt([self._single_ratio * masses.get(t, 0.0) * t**2 for t in ends.tolist()])
            for ends in (starts, stops)
        )
        # What the two ends contribute at least, wherever between them.
        candidate = (left + right) ** 3 < (stops - starts) ** 2
        start, length = starts[candidate], (stops - starts)[candidate]
        if not start.size:
            return middles

        def slope(s: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
            at = start + s * length
            return self.population.expect(
                lambda t, w, length: (t / (t - w)) ** 2 * (length / (t - w)), at, at, length
            )

        s = np.full(start.shape, _CLOSEST)
        falling = slope(s, start, length) < 0
        rising = slope(1 - s, start, length) > 0
        both = falling & rising
        if np.any(both):
            s[both] = elementwise.find_root(
                slope, (s[both], 1 - s[both]), args=(start[both], length[both])
            ).x
        s[falling & ~rising] = 1 - _CLOSEST
        at = start + s * length
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
        s = near.copy()
        found = ~below
        if np.any(found):
            bracket = near[found], np.minimum(8 * near[found], 1.0)
            s[found] = elementwise.find_root(excess, bracket, args=(inside[found], end[found])).x
        return self._image(end + s * (inside - end)).tolist()

    def _image(self, omega: np.ndarray) -> np.ndarray:
        c, excess = self._single_ratio, float(self._excess)
        return omega * self.population.expect(
            lambda t, w: _shrinkage(t, w, c, excess), omega, omega
        )

    def density(self, x: Any) -> Any:
        x = real_points("x", x)
        inside = np.zeros(x.shape, dtype=bool)
        for lower, upper in self._bands:
            inside |= (x > lower) & (x < upper)
        omega = self._solve(x[inside] + 0j, np.broadcast_to(self.ratio, x[inside].shape))
        value = np.zeros(x.shape)
        value[inside] = omega.imag / (np.pi * self.ratio * abs(omega) ** 2)
        return value[()]

    def moment(self, order: int) -> Any:
        """Moment, from the free cumulants c times the moments of the population."""
        check_integer("order", order, least=0)
        if order == 0:
            return np.ones(self.ratio.shape)[()]
        moments = [self.population.moment(k) for k in range(1, order + 1)]
        return (moments_of_cumulants([self.ratio * m for m in moments])[-1] / self.ratio)[()]

    def subordination(self, z: Any) -> Any:
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
        z = self._outside(z, bool(np.any(self._excess < 0) or self._at_zero))
        return self._at(z)[0]

    def stieltjes(self, z: Any, *, derivative: int = 0) -> Any:
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
        z = self._outside(z, bool(np.any(self._excess < 0) or self._at_zero))
        omega, shrinkage, speed = self._at(z)
        c = self.ratio
        m = self.population.stieltjes(omega)
        if derivative == 0:
            return (m / shrinkage)[()]
        slope = self.population.stieltjes(omega, derivative=1)
        return (speed * ((1 - c) * slope + c * m**2) / shrinkage**2)[()]

    def companion_stieltjes(self, z: Any, *, derivative: int = 0) -> Any:
        r"""Transform :math:`v(z) = c\, m(z) - (1 - c)/z` of the spectrum of the Gram matrix.

        Parameters, errors and broadcasting are those of `stieltjes`, for the support of the
        companion law: zero is in it for c < 1 and not for c > 1.
        """
        check_derivative(derivative, most=1)
        omega, _, speed = self._at(self._outside(z, bool(np.any(self._excess > 0))))
        return (speed / omega**2 if derivative else -1 / omega)[()]

    def eta_transform(self, gamma: Any, *, derivative: int = 0) -> Any:
        if derivative:
            return super().eta_transform(gamma, derivative=derivative)
        gamma = self._positive(gamma)
        return self.population.eta_transform(gamma * self._shrinkage_at(gamma))

    def shannon_transform(self, gamma: Any, *, derivative: int = 0) -> Any:
        if derivative > 1:
            return super().shannon_transform(gamma, derivative=derivative)
        gamma = self._positive(gamma)
        s = self._shrinkage_at(gamma)
        inner = self.population.shannon_transform(gamma * s, derivative=derivative)
        return s * inner if derivative else inner + (s - 1 - np.log(s)) / self.ratio

    def s_transform(self, x: Any, *, derivative: int = 0) -> Any:
        inner = self.population.s_transform(x)
        factor = 1 / (1 + self.ratio * x)
        if derivative == 0:
            return inner * factor
        slope = self.population.s_transform(x, derivative=derivative)
        return (slope - self.ratio * factor * inner) * factor

    def _positive(self, gamma: Any) -> np.ndarray:
        gamma = real_points("gamma", gamma)
        require(ArrayMath(np), "gamma", gamma, lambda v: (v > 0) & (v < np.inf), "> 0 and finite")
        return gamma

    def _shrinkage_at(self, gamma: np.ndarray) -> Any:
        return self._at(-1 / gamma)[1]

    def _outside(self, z: Any, atom: bool) -> np.ndarray:
        """Points of the plane, none of them in a band or, with an atom there, at 0."""
        z = np.asarray(z, dtype=complex) if np.iscomplexobj(z) else real_points("z", z)
        if not np.all(np.isfinite(z)):
            raise ValueError(f"z must be finite, got {z}")
        real = (z.imag == 0) & (z.real >= 0)
        if np.any(real) and self.ratio.ndim:
            raise ValueError(f"z must be < 0 or not real for an array of ratios, got {z}")
        if np.any(real):
            wrong = real & (z.real == 0) & atom
            for lower, upper in self._bands:
                wrong |= real & (z.real >= lower) & (z.real <= upper)
            if np.any(wrong):
                raise ValueError(
                    f"z must lie outside the support {self.support}, got {z[wrong][0]}; "
                    "inside, take a complex z with a small positive imaginary part"
                )
        return z

    def _at(self, z: np.ndarray) -> tuple[Any, Any, Any]:
        r"""Subordination function, :math:`z/\omega` and :math:`\omega'(z)` outside the support."""
        z, c, excess = np.broadcast_arrays(z, self.ratio, self._excess)
        shape, is_real = z.shape, not np.iscomplexobj(z)
        z, c, excess = z.ravel(), c.ravel(), excess.ravel()
        omega = np.zeros(z.shape, dtype=complex)
        negative = (z.imag == 0) & (z.real < 0)
        if np.any(negative):
            mean, second = (np.full(negative.sum(), m) for m in (self._mean, self._second))
            omega[negative] = -subordination_below(
                self._average,
                -z[negative].real,
                c[negative],
                excess[negative],
                mean,
                second,
                self._error,
            )[0]
        if not np.all(negative):
            rest = z[~negative] + 0j
            height = np.where(rest.imag == 0, _LIFT * self._distance(rest.real), abs(rest.imag))
            found = self._solve(rest.real + 1j * height, c[~negative])
            found = np.where(rest.imag == 0, found.real, found)
            found[(rest == 0) & (excess[~negative] > 0)] = 0.0
            omega[~negative] = np.where(rest.imag < 0, found.conj(), found)
        omega = omega.real if is_real else omega
        population = self.population
        with np.errstate(all="ignore"):
            shrinkage = np.where(z == 0, excess, z / omega)
        speed = 1 / population.expect(_slope, omega, omega, c, excess)
        return omega.reshape(shape), shrinkage.reshape(shape), speed.reshape(shape)

    def _distance(self, x: np.ndarray) -> np.ndarray:
        """Distance of real points from the edges and 0; an array of ratios has none here."""
        if self.ratio.ndim:
            return np.ones(x.shape)
        ends = np.array([end for band in self._bands for end in band])
        nearest = abs(x[:, None] - ends).min(axis=-1)
        return np.where(x == 0, nearest, np.minimum(nearest, abs(x)))

    def _average(
        self, kernel: Callable, omega: Any, c: Any, excess: Any, _: np.ndarray
    ) -> np.ndarray:
        return self.population.expect(kernel, omega, omega, c, excess)

    def _solve(self, z: np.ndarray, c: np.ndarray) -> np.ndarray:
        excess = 1 - c * (1 - self._at_zero)
        mean = np.full(c.shape, self._mean)
        return subordination_above(self._average, z, c, excess, mean, self._error)[0]


def _shrinkage(t: np.ndarray, omega: Any, c: Any, excess: Any) -> np.ndarray:
    r"""Integrand of :math:`z/\omega`, in the form in which no more cancels than must."""
    with np.errstate(all="ignore"):
        r = t / (t - omega)
        small = np.where(t > 0, omega / (t - omega), 0.0)
    return np.where(c > _LARGE, 1 - c * r, excess - c * small)


def _shrinkage_size(t: np.ndarray, omega: Any, c: Any, excess: Any) -> np.ndarray:
    """Size of what is added in `_shrinkage`."""
    with np.errstate(all="ignore"):
        r = abs(t / (t - omega))
        small = np.where(t > 0, abs(omega / (t - omega)), 0.0)
    return np.where(c > _LARGE, 1 + c * r, abs(excess) + c * small)


def _slope(t: np.ndarray, omega: Any, c: Any, excess: Any) -> np.ndarray:
    r"""Integrand of :math:`\Phi'`."""
    with np.errstate(all="ignore"):
        r = t / (t - omega)
        small = np.where(t > 0, omega / (t - omega), 0.0)
        small = small * (2 * t - omega) / (t - omega)
    return np.where(c > _LARGE, 1 - c * r**2, excess - c * small)


def subordination_above(
    average: Average,
    z: np.ndarray,
    c: np.ndarray,
    excess: np.ndarray,
    mean: np.ndarray,
    error: float = _ROUNDING,
) -> tuple[np.ndarray, np.ndarray]:
    """Subordination function in the closed upper half plane, and the Newton steps taken.

    Parameters
    ----------
    average : callable
        Population means.
    z : ndarray of complex, shape (m,)
        Points of the upper half plane, or real ones inside the support.
    c, excess, mean : ndarray, shape (m,)
        Ratios, 1 - c times the mass of the population above 0, and means of the population.
    error : float
        Relative error of the means.

    Raises
    ------
    ArithmeticError
        If a point is not solved in `iclimit.asymptotics.spectra.fixed_points.MOST_STEPS` steps.
    """

    def newton(omega: np.ndarray, z: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, ...]:
        arguments = omega, c[which], excess[which], which
        slope = average(_slope, *arguments)
        step = (omega * average(_shrinkage, *arguments) - z) / slope
        size = abs(z) + abs(omega) * average(_shrinkage_size, *arguments)
        rounding = error * size / abs(slope)
        length = np.maximum(abs(step) - rounding, 0.0) / omega.imag
        return step, length, rounding, 1 / (abs(slope) * omega.imag)

    # There |omega - z| is at most 1/8 of the height.
    height = abs(z.real) + 8 * c * mean
    return follow(newton, lambda z: z - c * mean, z, height)


def subordination_below(
    average: Average,
    depth: np.ndarray,
    c: np.ndarray,
    excess: np.ndarray,
    mean: np.ndarray,
    second: np.ndarray,
    error: float = _ROUNDING,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Minus the subordination function at z = -depth < 0, and the steps taken.

    Parameters
    ----------
    average, c, excess, mean, error
        As for `subordination_above`.
    depth : ndarray, shape (m,)
        Minus the points.
    second : ndarray, shape (m,)
        Second moments of the population, possibly infinite.

    Notes
    -----
    The root y lies between those of two quadratic equations, since for given first two moments
    the mean of :math:`t/(t + y)` is largest for a point mass (Jensen) and at least
    :math:`m_1^2/(m_2 + m_1 y)` (Cauchy and Schwarz).
    """

    def function(y: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, ...]:
        arguments = -y, c[which], excess[which], which
        s = average(_shrinkage, *arguments)
        rest = np.where(c[which] > _LARGE, 1.0, abs(excess[which]))
        size = depth[which] + y * (rest + abs(s - np.where(c[which] > _LARGE, 1.0, excess[which])))
        return y * s - depth[which], average(_slope, *arguments), error / 2 * size

    upper = _positive_root(np.ones_like(c), mean * (1 - c) - depth, depth * mean)
    with np.errstate(all="ignore"):
        spread = second / mean
        lower = _positive_root(np.ones_like(c), spread - c * mean - depth, depth * spread)
    lower = np.where(np.isfinite(lower), np.maximum(lower, depth), depth)
    return convex_root(function, lower * (1 - 1e-12), upper * (1 + 1e-12))


def _positive_root(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Positive root of a y^2 + b y = c."""
    root = np.hypot(b, 2 * np.sqrt(a * c))
    with np.errstate(all="ignore"):
        return np.where(b > 0, 2 * c / (b + root), (root - b) / (2 * a))
