r"""Spectral measures: what a researcher writes to add one, and what follows from it.

A measure is a class with `support` and `density` (or `atoms`); moments, distribution function,
quadrature and transforms follow by integration:

.. math:: m(z) = \int \frac{d\mu(x)}{x - z}, \quad
   \eta(\gamma) = \int \frac{d\mu(x)}{1 + \gamma x}, \quad
   \mathcal V(\gamma) = \int \log(1 + \gamma x)\, d\mu(x),

and with Voiculescu's :math:`G(z) = -m(z)`

.. math:: G\bigl(R(x) + 1/x\bigr) = x, \qquad
   \eta\Bigl(-\frac{x}{1+x} S(x)\Bigr) = 1 + x,

the R-transform (additive under free sums) and the S-transform (multiplicative under free
products), in the conventions of Tulino and Verdu, Random Matrix Theory and Wireless
Communications (2004), sections 2.2.

R and S are computed without inverting G or :math:`\eta`, whose inverses cancel at x = 0:
they are the roots R and S = 1/v of

.. math:: \int \frac{R - t}{1 + x (R - t)}\, d\mu(t) = 0, \qquad
   \int \frac{t}{v (1 + x) - x t}\, d\mu(t) = 1,

both monotone, with R(0) the mean and S(0) its inverse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.numbers import ArrayMath, convert, numpy_namespace, require
from iclimit.asymptotics.spectra.charts import Angle, Chart, DoubleExponential, HalfLine, fejer
from iclimit.asymptotics.spectra.wishart import check_integer

# Nodes per interval: doubled from the first number until two results agree.
_FEWEST, _MOST = 64, 4096
# Agreement asked of two successive rules, and what is accepted at the largest number of nodes.
_AGREEMENT, _ACCEPTED = 1e-13, 1e-8
# How far from 1 the total mass of a density may be: above quadrature errors, below mistakes.
_MASS = 1e-6
# The equations of R and S are solved up to this fraction of the distance at which their poles
# reach an edge.
_MARGIN = 1e-9
# Largest part of an integral over an unbounded support that its farthest node may carry.
_TAIL = 1e-7
# Stands for a pole at infinity.
_FAR = -1e300
# Numbers held at once while an array of points is integrated over.
_BLOCK = 2**20


class SpectralMeasure(ABC):
    """Probability measure on the real line, bounded from below.

    A subclass defines `support` and, unless it consists of atoms, `density`; it may override
    whatever has a closed form.  Edges at which the density behaves as a half-integer power of the
    distance (jumps, square roots, inverse square roots) are integrated with spectral accuracy,
    other integrable powers by a doubly exponential rule.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.spectra import SpectralMeasure
    >>> class Semicircle(SpectralMeasure):
    ...     support = ((1.0, 3.0),)
    ...
    ...     def density(self, x):
    ...         return 2 / np.pi * np.sqrt(np.maximum(1 - (np.asarray(x) - 2) ** 2, 0))
    >>> law = Semicircle()
    >>> [round(float(v), 12) for v in (law.moment(2), law.stieltjes(0.0), law.r_transform(0.5))]
    [4.25, 0.535898384862, 2.125]
    """

    @property
    @abstractmethod
    def support(self) -> tuple[tuple[float, float], ...]:
        """Sorted closed intervals; an atom outside the others is (position, position)."""

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """Pairs (position, mass), sorted."""
        return ()

    def density(self, x: Any) -> Any:
        """Density of the continuous part at x; zero outside the support."""
        return np.zeros(np.shape(real_points("x", x)))[()]

    @property
    def edges(self) -> tuple[Any, Any]:
        """Lower and upper end of the support; the upper one may be inf."""
        return self.support[0][0], self.support[-1][1]

    # Integration

    @cached_property
    def _charts(self) -> list[Chart]:
        """One chart per interval, chosen by which converges on the density itself."""
        charts: list[Chart] = []
        for lower, upper in self.support:
            if lower == upper:
                continue
            if not np.isfinite(lower):
                raise ValueError(f"support must be bounded from below, got {self.support}")
            if np.isinf(upper):
                charts.append(HalfLine(lower))
                continue
            choices = [Angle(lower, upper), DoubleExponential(lower, upper)]
            charts.append(min(choices, key=self._roughness))
        mass = sum(self._interval_mass(chart, 512) for chart in charts)
        mass += sum(weight for _, weight in self.atoms)
        if not abs(mass - 1) <= _MASS:
            raise ValueError(
                f"a spectral measure must have total mass 1, got {mass} from {self} "
                "(intervals of the support must end where the density is not smooth)"
            )
        return charts

    def _interval_mass(self, chart: Chart, count: int) -> float:
        return float(self._weighted(*chart.rule(count))[1].sum())

    def _roughness(self, chart: Chart) -> float:
        """Relative change of the mass of an interval when the nodes are doubled."""
        fine = self._interval_mass(chart, 256)
        change = abs(fine - self._interval_mass(chart, 128))
        return max(change / (abs(fine) or 1.0), _AGREEMENT)

    def _weighted(self, x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn weights for dx into weights of the measure."""
        with np.errstate(all="ignore"):
            mass = weights * self.density(x)
        # Nodes that round to an edge, where a density may be infinite.
        mass = np.where(np.isfinite(mass), mass, 0.0)
        return np.where(mass != 0, x, self.support[0][0]), mass

    def quadrature(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights: the sum of weights * f(nodes) tends to the integral of f.

        Parameters
        ----------
        order : int >= 1
            Nodes per interval of the support; the atoms are added to them.

        Returns
        -------
        nodes, weights : ndarray, shape (m,)
            The error decreases geometrically in order for f analytic around the support.  Use
            `integrate` for an error estimate and `expect` for functions with poles near by.

        Raises
        ------
        ValueError
            If order is not a positive integer.
        """
        check_integer("order", order, least=1)
        return self._rule(order)

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        rules = [self._weighted(*chart.rule(order)) for chart in self._charts]
        rules.append(tuple(np.reshape(self.atoms, (-1, 2)).astype(float).T))  # type: ignore[arg-type]
        nodes, weights = (np.concatenate(parts) for parts in zip(*rules, strict=True))
        return nodes, weights

    def integrate(self, f: Callable[[np.ndarray], Any]) -> tuple[Any, Any]:
        """Integral of f against the measure, with an error estimate.

        Parameters
        ----------
        f : callable
            Takes nodes of shape (m,), returns an array whose last axis is theirs.

        Returns
        -------
        value, error : float or ndarray
            The estimate is the larger of the last two changes as the number of nodes per
            interval was doubled, up to 4096, plus rounding.  It held for smooth functions,
            kinks, jumps and singularities at an edge in the tests.

        Raises
        ------
        ArithmeticError
            If f is not finite on the support, or the integral over an unbounded one diverges.
        """
        count = _FEWEST // 4
        history: list[Any] = []
        value, error = None, np.inf
        while True:
            nodes, weights = self._rule(count)
            terms = weights * np.asarray(f(nodes))
            if np.isinf(self.edges[1]) and _does_not_end(nodes, terms):
                raise ArithmeticError(f"the integral over {self} diverges")
            history.append(terms.sum(axis=-1))
            if not np.all(np.isfinite(history[-1])):
                raise ArithmeticError("f must be finite on the support")
            if len(history) > 2:
                last = np.maximum(*abs(np.diff(history[-3:], axis=0)))
                last = last + 1e-15 * np.sqrt(count) * abs(terms).sum(axis=-1)
                value = np.asarray(np.where(last < error, history[-1], value))[()]
                error = np.minimum(last, error)
            if count >= _MOST:
                return value, error
            count *= 2

    def expect(self, kernel: Callable[..., Any], pole: Any, *arguments: Any) -> Any:
        """Integrals of many functions, each with a singularity near or far.

        Parameters
        ----------
        kernel : callable
            ``kernel(x, *arguments)``, analytic around the support but for the pole; the
            arguments arrive broadcast to the shape of pole, with a last axis for the nodes x.
        pole : array, real or complex
            Where the singularity of each kernel is; it only directs the nodes.
        *arguments : arrays
            Broadcast with pole.

        Returns
        -------
        ndarray
            Shape of pole and arguments broadcast.

        Raises
        ------
        ArithmeticError
            If 4096 nodes per interval do not bring 8 digits.
        """
        pole, *rest = np.broadcast_arrays(pole, *arguments)
        shape, flat = pole.shape, [np.ravel(v) for v in (pole, *rest)]
        total = self._sum_over_atoms(kernel, [v[:, None] for v in flat[1:]], len(flat[0]))
        for chart in self._charts:
            total = total + self._expect_on(chart, kernel, flat)
        return np.reshape(total, shape)[()]

    def _sum_over_atoms(self, kernel: Callable, columns: list, size: int) -> Any:
        positions, masses = np.reshape(self.atoms, (-1, 2)).astype(float).T
        total = [np.zeros(0)]
        block = max(1, _BLOCK // max(1, len(positions)))
        for first in range(0, size, block):
            part = [column[first : first + block] for column in columns]
            nodes = np.broadcast_to(positions, (min(block, size - first), len(positions)))
            total.append((kernel(nodes, *part) * masses).sum(axis=-1))
        return np.concatenate(total)

    def _expect_on(self, chart: Chart, kernel: Callable, flat: list[np.ndarray]) -> np.ndarray:
        def rule(which: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
            parts, size = [], max(1, _BLOCK // count)
            for first in range(0, len(which), size):
                block = [v[which[first : first + size]] for v in flat]
                x, mass = self._weighted(*chart.rule_near(block[0], count))
                # Powers of far nodes may overflow in a denominator.
                with np.errstate(over="ignore"):
                    terms = kernel(x, *(v[:, None] for v in block[1:])) * mass
                parts.append((terms.sum(axis=-1), abs(terms).sum(axis=-1)))
            values, scales = (np.concatenate(part) for part in zip(*parts, strict=True))
            return values, scales

        open_, count = np.arange(len(flat[0])), _FEWEST
        if not len(open_):
            return np.zeros(0)
        latest = rule(open_, count)[0]
        result = latest.copy()
        least = np.full(len(open_), np.inf)
        while len(open_) and count < _MOST:
            count *= 2
            values, scales = rule(open_, count)
            with np.errstate(all="ignore"):
                change = abs(values - latest) / scales
            change = np.where(scales == 0, 0.0, change)
            better = change < least[open_]
            result[open_[better]] = values[better]
            # Once digits are there, a growing change is rounding.
            settled = (change <= _AGREEMENT) | (~better & (least[open_] <= _ACCEPTED))
            least[open_] = np.minimum(change, least[open_])
            open_, latest = open_[~settled], values[~settled]
        if len(open_) and np.any(least[open_] > _ACCEPTED):
            point = flat[0][open_][np.argmax(least[open_])]
            raise ArithmeticError(
                f"float64 does not resolve the integral over {self} near {point}: "
                "it is too near to the support, or the density too rough"
            )
        return result

    # Moments and distribution

    def moment(self, order: int) -> Any:
        r"""Moment :math:`\int x^m d\mu`."""
        check_integer("order", order, least=0)
        return float(self.integrate(lambda x: x**order)[0])

    @property
    def mean(self) -> Any:
        """First moment."""
        return self.moment(1)

    def cdf(self, x: Any) -> Any:
        """Distribution function: mass of (-inf, x]."""
        x = real_points("x", x)
        nodes, weights = fejer(256)
        total = np.zeros(np.shape(x))
        for chart, (lower, upper) in zip(self._charts, self._intervals, strict=True):
            inside = np.clip(x, lower, upper)
            with np.errstate(all="ignore"):
                stop = np.clip(chart.locate(inside).real, chart.start, chart.stop)
            stop = np.where(inside == upper, chart.stop, stop)
            stop = np.where(inside == lower, chart.start, stop)
            half = (stop - chart.start)[..., None] / 2
            points, slope = chart.point(chart.start + half * (1 + nodes))
            total = total + self._weighted(points, half * weights * slope)[1].sum(axis=-1)
        for position, mass in self.atoms:
            total = total + mass * (x >= position)
        return np.clip(total, 0.0, 1.0)[()]

    @property
    def _intervals(self) -> list[tuple[float, float]]:
        return [(lower, upper) for lower, upper in self.support if lower < upper]

    def quantile(self, probability: Any) -> Any:
        """Inverse of the distribution function.

        Raises
        ------
        ValueError
            If a probability lies outside [0, 1].
        """
        p = real_points("probability", probability)
        require(ArrayMath(np), "probability", p, lambda v: (v >= 0) & (v <= 1), "in [0, 1]")
        lower, upper = self.support[0][0], self.support[-1][1]

        def position(u: np.ndarray) -> np.ndarray:
            """[0, 1] onto the support."""
            with np.errstate(divide="ignore"):
                return lower + (u / (1 - u) if np.isinf(upper) else u * (upper - lower))

        def excess(u: np.ndarray, p: np.ndarray) -> np.ndarray:
            return self.cdf(position(u)) - p

        # The ends are known, and rounding may leave the root outside the bracket there.
        u = elementwise.find_root(excess, (np.zeros_like(p), np.ones_like(p)), args=(p,)).x
        u = np.where(p == 0, 0.0, np.where(p == 1, 1.0, u))
        found = np.where(np.isnan(u), upper, position(u))
        return np.where(self.cdf(np.full(p.shape, lower)) >= p, lower, found)[()]

    def quantiles(self, count: int) -> np.ndarray:
        """Eigenvalues of a matrix of that size with this spectrum.

        Parameters
        ----------
        count : int >= 1
            Dimension d of the matrix.

        Returns
        -------
        ndarray, shape (count,)
            The quantiles at (j - 1/2)/d, ascending.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import Uniform
        >>> Uniform(0.0, 2.0).quantiles(4)
        array([0.25, 0.75, 1.25, 1.75])
        """
        check_integer("count", count, least=1)
        return np.asarray(self.quantile((np.arange(count) + 0.5) / count))

    # Transforms

    def stieltjes(self, z: Any, *, derivative: int = 0) -> Any:
        r"""Stieltjes transform :math:`m(z) = \int d\mu(x) / (x - z)` or a derivative in z.

        Parameters
        ----------
        z : number or array, real or complex
            Points on the real axis must lie outside the support.
        derivative : {0, 1, 2}
            Order of the derivative.

        Returns
        -------
        number or ndarray
            Shape of z; real for real z.

        Raises
        ------
        ValueError
            If a real z lies in the support, or derivative is not 0, 1 or 2.

        Notes
        -----
        By integration the relative error is below 1e-12 at distances from the support above 1e-3
        of its length (1e-11 for the second derivative); nearer, below 1e-15 over that distance
        in units of the largest point of the support, since the nodes have no more digits.
        At an edge 0 nothing is lost.  Beyond the distance where 8 digits remain, an
        ArithmeticError says so.
        """
        check_derivative(derivative, most=2)
        z = self.outside("z", z)
        infinite = np.isinf(z)
        factor = (1.0, 1.0, 2.0)[derivative]
        point = np.where(infinite, _FAR, z)
        value = self.expect(lambda x, z: factor * (1 / (x - z)) ** (derivative + 1), point, point)
        return np.where(infinite, 0.0, value)[()]

    def outside(self, name: str, z: Any) -> np.ndarray:
        """Convert points of the plane; raise a ValueError for one in the support."""
        if np.iscomplexobj(z):
            z = np.asarray(numpy_namespace(**{name: z}) and z, dtype=complex)
            if np.any(np.isnan(z)):
                raise ValueError(f"{name} must be a number, got {z}")
        else:
            z = real_points(name, z)
        real = z.real
        within = np.zeros(z.shape, dtype=bool)
        for lower, upper in self.support:
            within |= (z.imag == 0) & (real >= lower) & (real <= upper) & np.isfinite(real)
        if np.any(within):
            raise ValueError(
                f"{name} must lie outside the support {self.support}, got {real[within][0]}; "
                "inside, take a complex z with a small positive imaginary part"
            )
        return z

    def eta_transform(self, gamma: Any, *, derivative: int = 0) -> Any:
        r"""Eta transform :math:`\int d\mu(x) / (1 + \gamma x)` or a derivative in gamma.

        Parameters
        ----------
        gamma : number or array
            With -1/gamma outside the support.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If -1/gamma lies in the support, or derivative is not 0, 1 or 2.
        """
        check_derivative(derivative, most=2)
        gamma, pole = self._reciprocal(gamma)
        factor = (1.0, -1.0, 2.0)[derivative]
        return self.expect(
            lambda x, g: factor * (x / (1 + g * x)) ** derivative / (1 + g * x), pole, gamma
        )

    def shannon_transform(self, gamma: Any, *, derivative: int = 0) -> Any:
        r"""Shannon transform :math:`\int \log(1 + \gamma x)\, d\mu(x)` or a derivative in gamma.

        Parameters
        ----------
        gamma : number or array
            With 1 + gamma x > 0 on the support.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If 1 + gamma x vanishes or is negative on the support, or derivative is not 0, 1 or 2.
        """
        check_derivative(derivative, most=2)
        gamma, pole = self._reciprocal(gamma)
        for edge in (self.support[0][0], self.support[-1][1]):
            positive = (gamma >= 0) if np.isinf(edge) else (1 + gamma * edge > 0)
            if not np.all(positive):
                raise ValueError(
                    f"gamma must leave 1 + gamma x > 0 on the support {self.support}, got {gamma}"
                )
        kernels: tuple[Callable, ...] = (
            lambda x, g: np.log1p(g * x),
            lambda x, g: x / (1 + g * x),
            lambda x, g: -((x / (1 + g * x)) ** 2),
        )
        return self.expect(kernels[derivative], pole, gamma)

    def _reciprocal(self, gamma: Any) -> tuple[np.ndarray, np.ndarray]:
        """Points gamma and the poles -1/gamma, far away for gamma = 0."""
        gamma = real_points("gamma", gamma)
        require(ArrayMath(np), "gamma", gamma, np.isfinite, "finite")
        with np.errstate(divide="ignore", over="ignore"):
            pole = np.where(gamma == 0, -np.inf, -1 / gamma)
        self.outside("-1/gamma", pole)
        return gamma, np.where(np.isinf(pole), _FAR, pole)

    def r_transform(self, x: Any, *, derivative: int = 0) -> Any:
        r"""R-transform, the solution of :math:`G(R(x) + 1/x) = x`, or its derivative.

        Parameters
        ----------
        x : number or array, real
            Between the values of G = -m at the two edges of the support (taken 1e-9/x away from
            them): a bounded interval around 0 if the density vanishes there.
        derivative : {0, 1}
            Order of the derivative.

        Raises
        ------
        ValueError
            If x is outside that interval, or derivative is not 0 or 1.
        """
        check_derivative(derivative, most=1)
        x = real_points("x", x)
        require(ArrayMath(np), "x", x, np.isfinite, "finite")
        (lower, upper), mean = (self.support[0][0], self.support[-1][1]), self.mean
        if np.isinf(upper):
            _require_below_zero(x, derivative)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = (1 - _MARGIN) / x
            low = np.where(x > 0, np.maximum(mean, upper - inverse), np.where(x < 0, lower, mean))
            high = np.where(x > 0, upper, np.where(x < 0, np.minimum(mean, lower - inverse), mean))

        def pole(r: np.ndarray, x: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore", over="ignore"):
                return np.where(abs(x) < 1e-300, _FAR, r + 1 / x)

        def equation(r: np.ndarray, x: np.ndarray) -> np.ndarray:
            return self.expect(lambda t, r, x: (r - t) / (1 + x * (r - t)), pole(r, x), r, x)

        root = _monotone_root(equation, low, high, x, "G at the edges of the support")
        if derivative == 0:
            return root
        at = pole(root, x), root, x
        spread = self.expect(lambda t, r, x: ((r - t) / (1 + x * (r - t))) ** 2, *at)
        return spread / self.expect(lambda t, r, x: (1 + x * (r - t)) ** -2.0, *at)

    def s_transform(self, x: Any, *, derivative: int = 0) -> Any:
        r"""S-transform, with :math:`\eta(-x S(x) / (1 + x)) = 1 + x`, or its derivative.

        Parameters
        ----------
        x : number or array, real
            Above the mass at zero minus 1; above 0, up to :math:`\eta - 1` at the upper edge.
        derivative : {0, 1}
            Order of the derivative.

        Raises
        ------
        ValueError
            If the support reaches below 0 or is {0}, x is outside its interval, or derivative
            is not 0 or 1.
        """
        check_derivative(derivative, most=1)
        x = real_points("x", x)
        (lower, upper), mean = (self.support[0][0], self.support[-1][1]), self.mean
        if lower < 0 or not mean > 0:
            raise ValueError(f"s_transform needs a support in [0, inf), not {{0}}, got {self}")
        at_zero = sum(mass for position, mass in self.atoms if position == 0)
        require(
            ArrayMath(np), "x", x, lambda v: (v > at_zero - 1) & (v < np.inf), f"> {at_zero - 1}"
        )
        if np.isinf(upper):
            _require_below_zero(x, derivative)
        with np.errstate(invalid="ignore"):
            edge = (1 + _MARGIN) * upper * x / (1 + x)
        low = np.where(x > 0, np.maximum(mean, edge), np.where(x < 0, max(lower, 1e-30), mean))
        high = np.where(x > 0, upper, mean)

        def pole(v: np.ndarray, x: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore", over="ignore"):
                return np.where(abs(x) < 1e-300, _FAR, v * (1 + x) / x)

        def equation(v: np.ndarray, x: np.ndarray) -> np.ndarray:
            return 1 - self.expect(lambda t, v, x: t / (v * (1 + x) - x * t), pole(v, x), v, x)

        root = _monotone_root(equation, low, high, x, "the bounds set by the support")
        if derivative == 0:
            return 1 / root
        at = pole(root, x), root, x
        slope = self.expect(
            lambda t, v, x: t / (v * (1 + x) - x * t) * ((v - t) / (v * (1 + x) - x * t)), *at
        )
        weight = self.expect(lambda t, v, x: t / (v * (1 + x) - x * t) ** 2, *at)
        return slope / (weight * (1 + x) * root**2)

    # Affine images

    def scaled(self, factor: float) -> SpectralMeasure:
        """Law of factor * x, for factor > 0."""
        return Affine(self, factor, 0.0)

    def shifted(self, by: float) -> SpectralMeasure:
        """Law of x + by."""
        return Affine(self, 1.0, by)


class Affine(SpectralMeasure):
    """Law of factor * x + by, where x has a given law.

    Parameters
    ----------
    measure : SpectralMeasure
        Law of x.
    factor : float > 0
    by : float

    Raises
    ------
    ValueError
        If factor is not positive and finite, or by not finite.
    """

    def __init__(self, measure: SpectralMeasure, factor: float, by: float) -> None:
        self.measure = measure
        self.factor, self.by = real_number("factor", factor), real_number("by", by)
        if self.factor <= 0:
            raise ValueError(f"factor must be > 0, got {factor}")

    def __repr__(self) -> str:
        return f"Affine({self.measure}, factor={self.factor}, by={self.by})"

    @property
    def support(self) -> tuple[tuple[float, float], ...]:
        return tuple((self._image(a), self._image(b)) for a, b in self.measure.support)

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        return tuple((self._image(x), mass) for x, mass in self.measure.atoms)

    def _image(self, x: Any) -> Any:
        return self.factor * x + self.by

    def _origin(self, name: str, x: Any) -> Any:
        return (real_points(name, x) - self.by) / self.factor

    def density(self, x: Any) -> Any:
        return self.measure.density(self._origin("x", x)) / self.factor

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = self.measure._rule(order)
        return self._image(nodes), weights

    def expect(self, kernel: Callable[..., Any], pole: Any, *arguments: Any) -> Any:
        return self.measure.expect(
            lambda x, *rest: kernel(self._image(x), *rest),
            (np.asarray(pole) - self.by) / self.factor,
            *arguments,
        )

    def cdf(self, x: Any) -> Any:
        return self.measure.cdf(self._origin("x", x))

    def quantile(self, probability: Any) -> Any:
        return self._image(self.measure.quantile(probability))

    def stieltjes(self, z: Any, *, derivative: int = 0) -> Any:
        z = (self.outside("z", z) - self.by) / self.factor
        return self.measure.stieltjes(z, derivative=derivative) / self.factor ** (derivative + 1)

    def r_transform(self, x: Any, *, derivative: int = 0) -> Any:
        inner = self.measure.r_transform(
            self.factor * real_points("x", x), derivative=derivative
        ) * self.factor ** (derivative + 1)
        return inner if derivative else inner + self.by


def _does_not_end(nodes: np.ndarray, terms: np.ndarray) -> bool:
    """Whether the farthest node still carries a part of a sum."""
    farthest = abs(terms[..., np.argmax(nodes)])
    return bool(np.any(farthest > _TAIL * abs(terms).sum(axis=-1)))


def _monotone_root(equation: Callable, low: Any, high: Any, x: np.ndarray, bounds: str) -> Any:
    """Root of an increasing function in a bracket; of a bracket of one point, the point."""
    low, high, x = np.broadcast_arrays(low, high, x)
    root = np.array(high)
    wide = high - low > 4e-16 * abs(high)
    found = elementwise.find_root(equation, (low[wide], high[wide]), args=(x[wide],))
    if not np.all(found.success):
        raise ValueError(f"x must lie within {bounds}, got {x[wide][~found.success][0]}")
    root[wide] = found.x
    return root[()]


def _require_below_zero(x: np.ndarray, derivative: int) -> None:
    """Over an unbounded support; at 0 the derivatives are moments that may not exist."""
    if derivative:
        text = "< 0 for a derivative over an unbounded support"
        require(ArrayMath(np), "x", x, lambda v: v < 0, text)
    require(ArrayMath(np), "x", x, lambda v: v <= 0, "<= 0 for an unbounded support")


def real_points(name: str, x: Any) -> np.ndarray:
    """Points of the real line as a NumPy array."""
    math_ = numpy_namespace(**{name: x})
    x = convert(math_, name, x)
    require(math_, name, x, lambda v: (v <= 0) | (v > 0), "a number")
    return x


def real_number(name: str, value: Any) -> float:
    """One finite number."""
    x = real_points(name, value)
    if x.ndim or not np.isfinite(x):
        raise ValueError(f"{name} must be a finite number, got {value}")
    return float(x)


def check_derivative(derivative: int, most: int) -> None:
    """Raise a ValueError unless derivative is 0, 1 or, for most = 2, 2."""
    if derivative not in range(most + 1):
        orders = {1: "0 or 1", 2: "0, 1 or 2"}[most]
        raise ValueError(f"derivative must be {orders}, got {derivative!r}")
