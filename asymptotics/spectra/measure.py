r"""Spectral measures: what a researcher writes to add one, and what follows from it.

A measure is a class with `support` and `density` (or `atoms`).  Moments, distribution function,
quadrature and transforms follow by integration:

.. math:: m(z) = \int \frac{d\mu(x)}{x - z}, \quad
   \eta(\gamma) = \int \frac{d\mu(x)}{1 + \gamma x}, \quad
   \mathcal V(\gamma) = \int \log(1 + \gamma x)\, d\mu(x).

The R- and S-transforms are those of `iclimit.asymptotics.spectra.free_transforms`.  All follow
the conventions of Tulino and Verdu, Random Matrix Theory and Wireless Communications (2004),
section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import check_derivative, check_integers, real_array, real_number
from iclimit.asymptotics.numbers import Number, Value, numpy_namespace
from iclimit.asymptotics.spectra import free_transforms, integration
from iclimit.asymptotics.spectra.integration import (
    Angle,
    Chart,
    DoubleExponential,
    HalfLine,
    Intervals,
    fejer,
    inside,
    merged_atoms,
)

# How far from 1 the total mass of a density may be: above the errors of quadrature, below those of
# a mistake.
_MASS = 1e-6

# Largest part of an integral over an unbounded support that its farthest node may carry.
_TAIL = 1e-7


class SpectralMeasure:
    """Probability measure on the real line, bounded from below.

    A subclass defines `support` and, unless it consists of atoms, `density`.  It may override
    whatever has a closed form.  A density may have edges at which it behaves as a half-integer
    power of the distance (jumps, square roots, inverse square roots): integrals then have spectral
    accuracy.  Other integrable powers are integrated by a doubly exponential rule.

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

    @cached_property
    def support(self) -> Intervals:
        """Sorted closed intervals; an atom outside the others is (position, position)."""
        raise TypeError(f"{type(self).__name__} must define support")

    @cached_property
    def atoms(self) -> Intervals:
        """Pairs (position, mass), sorted."""
        return ()

    def __repr__(self) -> str:
        given = (getattr(self, name, "...") for name in signature(type(self)).parameters)
        return f"{type(self).__name__}({', '.join(map(str, given))})"

    @property
    def statement(self) -> dict[str, Any]:
        """What stands for this measure in the name of a run (`iclimit.statement`)."""
        return {"measure": repr(self)}

    def density(self, x: Number) -> Value:
        """Density of the continuous part at x; zero outside the support."""
        return np.zeros(real_array("x", x).shape)[()]

    @property
    def edges(self) -> tuple[Value, Value]:
        """Lower and upper end of the support; the upper one may be inf."""
        return self._ends

    @property
    def _ends(self) -> tuple[float, float]:
        return self.support[0][0], self.support[-1][1]

    @property
    def _intervals(self) -> list[tuple[float, float]]:
        """Intervals of the support that are no isolated atoms."""
        return [(lower, upper) for lower, upper in self.support if lower < upper]

    @property
    def _atom_arrays(self) -> np.ndarray:
        """Positions and masses of the atoms, shape (2, m)."""
        return np.reshape(self.atoms, (-1, 2)).astype(float).T

    def _mass_of_atoms(self, x: np.ndarray) -> np.ndarray:
        """Mass of the atoms in (-inf, x]."""
        positions, masses = self._atom_arrays
        return (masses * (x[..., None] >= positions)).sum(axis=-1)

    # Integration

    @cached_property
    def _charts(self) -> list[Chart]:
        """One chart per interval, chosen by which converges on the density itself."""
        charts: list[Chart] = []
        for lower, upper in self._intervals:
            if not np.isfinite(lower):
                raise ValueError(f"support must be bounded from below, got {self.support}")
            if np.isinf(upper):
                charts.append(HalfLine(lower))
            else:
                choices = [Angle(lower, upper), DoubleExponential(lower, upper)]
                charts.append(min(choices, key=self._roughness))
        mass = sum(self._interval_mass(chart, 512) for chart in charts)
        mass += self._atom_arrays[1].sum()
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
        return max(change / (abs(fine) or 1.0), integration.AGREEMENT)

    def _weighted(self, x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn weights for dx into weights of the measure."""
        with np.errstate(all="ignore"):
            mass = weights * self.density(x)
        # A node may round to an edge, where the density may be infinite.
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
        check_integers(least=1, order=order)
        return self._rule(order)

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        rules = [self._weighted(*chart.rule(order)) for chart in self._charts]
        nodes, weights = np.concatenate([*map(np.stack, rules), self._atom_arrays], axis=1)
        return nodes, weights

    def integrate(self, function: Callable[[np.ndarray], Any]) -> tuple[Value, Value]:
        """Integral of a function against the measure, with an error estimate.

        Parameters
        ----------
        function : callable
            Takes nodes of shape (m,), returns an array whose last axis is theirs.

        Returns
        -------
        value, error : float or ndarray
            The number of nodes per interval is doubled up to 4096.  The estimate is the larger
            of the last two changes, plus rounding.  In the tests it held for smooth functions,
            kinks, jumps and singularities at an edge.

        Raises
        ------
        ArithmeticError
            If the function is not finite on the support, or the integral over an unbounded one
            diverges.
        """
        count = integration.FEWEST // 4
        history: list[Any] = []
        value = None
        error = np.inf
        while True:
            nodes, weights = self._rule(count)
            terms = weights * np.asarray(function(nodes))
            size = abs(terms).sum(axis=-1)
            farthest = abs(terms[..., np.argmax(nodes)])
            if np.isinf(self._ends[1]) and np.any(farthest > _TAIL * size):
                raise ArithmeticError(f"the integral over {self} diverges")
            history.append(terms.sum(axis=-1))
            if not np.all(np.isfinite(history[-1])):
                raise ArithmeticError("function must be finite on the support")
            if len(history) > 2:
                last = np.maximum(*abs(np.diff(history[-3:], axis=0)))
                last = last + 1e-15 * np.sqrt(count) * size
                value = np.asarray(np.where(last < error, history[-1], value))[()]
                error = np.minimum(last, error)
            if count >= integration.MOST:
                return value, error
            count *= 2

    def expect(self, kernel: Callable[..., Any], pole: Number, *arguments: Any) -> Value:
        """Integrals of many functions, each with a singularity near or far.

        Parameters
        ----------
        kernel : callable
            ``kernel(x, *arguments)``, analytic around the support but for the pole.  The
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
        shape = pole.shape
        flat = [np.ravel(v) for v in (pole, *rest)]
        if not pole.size:
            return np.zeros(shape)
        total = integration.sum_over_atoms(kernel, flat, *self._atom_arrays)
        for chart in self._charts:
            total = total + integration.integrate_near(kernel, flat, chart, self._weighted, self)
        return np.reshape(total, shape)[()]

    # Moments and distribution

    def moment(self, order: int) -> Value:
        r"""Moment :math:`\int x^m d\mu`."""
        check_integers(order=order)
        return float(self.integrate(lambda x: x**order)[0])

    @property
    def mean(self) -> Value:
        """First moment."""
        return self.moment(1)

    def cdf(self, x: Number) -> Value:
        """Distribution function: mass of (-inf, x]."""
        x = real_array("x", x)
        nodes, weights = fejer(256)
        total = self._mass_of_atoms(x)
        for chart, (lower, upper) in zip(self._charts, self._intervals, strict=True):
            inside = np.clip(x, lower, upper)
            with np.errstate(all="ignore"):
                stop = np.clip(chart.locate(inside).real, chart.start, chart.stop)
            stop = np.where(inside == upper, chart.stop, stop)
            stop = np.where(inside == lower, chart.start, stop)
            half = (stop - chart.start)[..., None] / 2
            points, slope = chart.point(chart.start + half * (1 + nodes))
            total = total + self._weighted(points, half * weights * slope)[1].sum(axis=-1)
        return np.clip(total, 0.0, 1.0)[()]

    def quantile(self, probability: Number) -> Value:
        """Inverse of the distribution function.

        Raises
        ------
        ValueError
            If a probability lies outside [0, 1].
        """
        p = real_array("probability", probability)
        lower, upper = self._ends

        def position(u: np.ndarray) -> np.ndarray:
            """[0, 1] onto the support."""
            with np.errstate(divide="ignore"):
                return lower + (u / (1 - u) if np.isinf(upper) else u * (upper - lower))

        def excess(u: np.ndarray, p: np.ndarray) -> np.ndarray:
            return self.cdf(position(u)) - p

        # The ends are known; rounding may leave the root outside the bracket there.
        u = elementwise.find_root(excess, (np.zeros_like(p), np.ones_like(p)), args=(p,)).x
        u = np.where(p == 0, 0.0, np.where(p == 1, 1.0, u))
        inside = np.where(np.isnan(u), upper, position(u))
        return np.where(self.cdf(np.full(p.shape, lower)) >= p, lower, inside)[()]

    def quantiles(self, dim: int) -> np.ndarray:
        """Eigenvalues of a matrix of that size with this spectrum.

        Parameters
        ----------
        dim : int >= 1
            Dimension d of the matrix.

        Returns
        -------
        ndarray, shape (dim,)
            The quantiles at (j - 1/2)/d, ascending.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import Uniform
        >>> Uniform(0.0, 2.0).quantiles(4)
        array([0.25, 0.75, 1.25, 1.75])
        """
        check_integers(dim=dim)
        return np.asarray(self.quantile((np.arange(dim) + 0.5) / dim))

    # Transforms

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        r"""Stieltjes transform :math:`m(z) = \int d\mu(x) / (x - z)` or a derivative in z.

        Parameters
        ----------
        z : number or array, real or complex
            Points on the real axis must lie outside the support.
        derivative : {0, 1, 2}
            Order of the derivative; the measures that solve a fixed point have no second one.

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
        of its length (1e-11 for the second derivative).  Nearer, it is below 1e-15 over that
        distance in units of the largest point of the support, since the nodes have no more digits.
        At an edge 0 nothing is lost.  Where fewer than 8 digits remain, an ArithmeticError says
        so.
        """
        check_derivative(derivative, most=2)
        z = self._outside("z", z)
        infinite = np.isinf(z)
        factor = (1.0, 1.0, 2.0)[derivative]
        point = np.where(infinite, integration.FAR, z)
        value = self.expect(lambda x, z: factor * (1 / (x - z)) ** (derivative + 1), point, point)
        return np.where(infinite, 0.0, value)[()]

    def _outside(self, name: str, z: Value, finite: bool = False) -> np.ndarray:
        """Convert points of the plane; raise a ValueError for one in the support."""
        if np.iscomplexobj(z):
            z = np.asarray(numpy_namespace({name: z}) and z, dtype=complex)
            if np.any(np.isnan(z)):
                raise ValueError(f"{name} must be a number, got {z}")
        else:
            z = real_array(name, z, "[-inf, inf]")
        if finite and not np.all(np.isfinite(z)):
            raise ValueError(f"{name} must be finite, got {z}")
        within = (z.imag == 0) & np.isfinite(z.real) & inside(z.real, self.support, closed=True)
        reject_inside(name, z.real[within], f"{self.support}")
        return z

    def eta_transform(self, snr: Number, *, derivative: int = 0) -> Value:
        r"""Eta transform :math:`\int d\mu(x) / (1 + \gamma x)` or a derivative in gamma.

        Parameters
        ----------
        snr : number or array
            The argument :math:`\gamma`, with -1/snr outside the support.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If -1/snr lies in the support, or derivative is not 0, 1 or 2.
        """
        check_derivative(derivative, most=2)
        snr, pole = self._reciprocal(snr)
        factor = (1.0, -1.0, 2.0)[derivative]
        return self.expect(
            lambda x, g: factor * (x / (1 + g * x)) ** derivative / (1 + g * x), pole, snr
        )

    def shannon_transform(self, snr: Number, *, derivative: int = 0) -> Value:
        r"""Shannon transform :math:`\int \log(1 + \gamma x)\, d\mu(x)` or a derivative in gamma.

        Parameters
        ----------
        snr : number or array
            The argument :math:`\gamma`, with 1 + snr x > 0 on the support.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If 1 + snr x vanishes or is negative on the support, or derivative is not 0, 1 or 2.
        """
        check_derivative(derivative, most=2)
        snr, pole = self._reciprocal(snr)
        for edge in self._ends:
            positive = (snr >= 0) if np.isinf(edge) else (1 + snr * edge > 0)
            if not np.all(positive):
                raise ValueError(
                    f"snr must leave 1 + snr x > 0 on the support {self.support}, got {snr}"
                )
        kernels: tuple[Callable, ...] = (
            lambda x, g: np.log1p(g * x),
            lambda x, g: x / (1 + g * x),
            lambda x, g: -((x / (1 + g * x)) ** 2),
        )
        return self.expect(kernels[derivative], pole, snr)

    def _reciprocal(self, snr: Value) -> tuple[np.ndarray, np.ndarray]:
        """Arguments of the eta transform and their poles -1/snr, far away for snr = 0."""
        snr = real_array("snr", snr, "(-inf, inf)")
        with np.errstate(divide="ignore", over="ignore"):
            pole = np.where(snr == 0, -np.inf, -1 / snr)
        self._outside("-1/snr", pole)
        return snr, np.where(np.isinf(pole), integration.FAR, pole)

    def r_transform(self, x: Number, *, derivative: int = 0) -> Value:
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
        return free_transforms.r_transform(self, real_array("x", x, "(-inf, inf)"), derivative)

    def s_transform(self, x: Number, *, derivative: int = 0) -> Value:
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
        return free_transforms.s_transform(self, real_array("x", x), derivative)

    # Affine images

    def scaled(self, factor: float) -> SpectralMeasure:
        """Law of factor * x, for factor > 0."""
        return Affine(self, factor, 0.0)

    def shifted(self, shift: float) -> SpectralMeasure:
        """Law of x + shift."""
        return Affine(self, 1.0, shift)


class Affine(SpectralMeasure):
    """Law of factor * x + shift, where x has a given law; keeps every closed form of that law.

    Parameters
    ----------
    measure : SpectralMeasure
        Law of x.
    factor : float > 0
    shift : float

    Raises
    ------
    ValueError
        If factor is not positive and finite, or shift not finite.
    """

    def __init__(self, measure: SpectralMeasure, factor: float, shift: float) -> None:
        self.factor = real_number("factor", factor)
        self.shift = real_number("shift", shift)
        self.measure = measure

    def __repr__(self) -> str:
        return f"Affine({self.measure}, {[self.shift, self.factor]})"

    def _image(self, x: Any) -> Value:
        return self.shift + self.factor * x

    def _preimage(self, y: np.ndarray) -> np.ndarray:
        return (y - self.shift) / self.factor

    @cached_property
    def support(self) -> Intervals:
        """Image of the support."""
        ends = ([self._image(end) for end in pair] for pair in self.measure.support)
        return tuple((lower, upper) for lower, upper in ends)

    @cached_property
    def atoms(self) -> Intervals:
        return merged_atoms((float(self._image(x)), mass) for x, mass in self.measure.atoms)

    def density(self, x: Number) -> Value:
        x = real_array("x", x)
        finite = np.isfinite(x)
        density = self.measure.density(self._preimage(np.where(finite, x, 0.0)))
        return np.where(finite, density / self.factor, 0.0)[()]

    def quadrature(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """Images of the nodes of the measure, with their weights."""
        nodes, weights = self.measure.quadrature(order)
        return self._image(nodes), weights

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = self.measure._rule(order)
        return self._image(nodes), weights

    def expect(self, kernel: Callable[..., Any], pole: Number, *arguments: Any) -> Value:
        def image_kernel(x: Value, *rest: Any) -> Any:
            return kernel(self._image(x), *rest)

        return self.measure.expect(image_kernel, self._preimage(np.asarray(pole)), *arguments)

    def cdf(self, x: Number) -> Value:
        return self.measure.cdf(self._preimage(real_array("x", x)))

    def quantile(self, probability: Number) -> Value:
        return self.factor * self.measure.quantile(probability) + self.shift

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        origin = self._preimage(self._outside("z", z))
        value = self.measure.stieltjes(origin, derivative=derivative)
        return value / self.factor ** (derivative + 1)

    def r_transform(self, x: Number, *, derivative: int = 0) -> Value:
        value = self.measure.r_transform(self.factor * real_array("x", x), derivative=derivative)
        return value * self.factor ** (derivative + 1) + (0.0 if derivative else self.shift)


def reject_inside(name: str, points: np.ndarray, support: str) -> None:
    """Raise a ValueError if there are points, real ones in a support."""
    if points.size:
        raise ValueError(
            f"{name} must lie outside the support {support}, got {points.flat[0]}; "
            "inside, take a complex z with a small positive imaginary part"
        )


def is_atomic(measure: SpectralMeasure) -> bool:
    """Whether a measure consists of atoms."""
    return all(lower == upper for lower, upper in measure.support)


def parse_measure(name: str, value: Number, bounded: bool = False) -> SpectralMeasure:
    """Return an argument that is a measure, of bounded support where that is needed."""
    if not isinstance(value, SpectralMeasure):
        raise TypeError(f"{name} must be a SpectralMeasure, got {value!r}")
    if bounded and not np.all(np.isfinite(value.support)):
        raise ValueError(f"{name} must have a bounded support, got {value.support}")
    return value
