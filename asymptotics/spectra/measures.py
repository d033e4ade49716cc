"""Spectral measures with a density, and spectra as typed on a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ive

from iclimit.asymptotics.checks import check_derivative, check_integers, real_array, real_number
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.atoms import Atoms
from iclimit.asymptotics.spectra.integration import Chart, density_on
from iclimit.asymptotics.spectra.marchenko_pastur import MarchenkoPastur
from iclimit.asymptotics.spectra.measure import SpectralMeasure

# Ends of the names of files that hold eigenvalues.
FILES = (".csv", ".txt")


class Uniform(SpectralMeasure):
    """Uniform distribution of eigenvalues.

    Parameters
    ----------
    lower, upper : float
        Ends, lower < upper.

    Raises
    ------
    ValueError
        If the ends are not finite and ordered.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Uniform
    >>> round(float(Uniform(0.5, 1.5).stieltjes(0.0)), 12)
    1.098612288668
    """

    def __init__(self, lower: float, upper: float) -> None:
        self.lower = real_number("lower", lower, "(-inf, inf)")
        self.upper = real_number("upper", upper, "(-inf, inf)")
        if self.lower >= self.upper:
            raise ValueError(f"lower must be < upper, got {lower} and {upper}")
        self.support = ((self.lower, self.upper),)
        self._centre = (self.lower + self.upper) / 2
        self._half = (self.upper - self.lower) / 2

    def density(self, x: Number) -> Value:
        return density_on(self.support, x, lambda _: 0.5 / self._half)

    def moment(self, order: int) -> float:
        check_integers(order=order)
        powers = np.arange(order + 1)
        return float((self.lower**powers * self.upper ** powers[::-1]).mean())

    def cdf(self, x: Number) -> Value:
        return np.clip((real_array("x", x) - self.lower) / (2 * self._half), 0.0, 1.0)[()]

    def quantile(self, probability: Number) -> Value:
        p = real_array("probability", probability)
        return (self.lower * (1 - p) + self.upper * p)[()]

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        check_derivative(derivative, most=2)
        z = self._outside("z", z)
        with np.errstate(all="ignore"):
            low = self.lower - z
            high = self.upper - z
            if derivative == 1:
                return (1 / low / high)[()]
            if derivative == 2:
                return ((1 / low + 1 / high) / low / high)[()]
            # The logarithm of a number near 1 cancels, the inverse tangent of one near 1 too.
            slope = self._half / (self._centre - z)
            near = np.log(high / low) / (2 * self._half)
            value = np.where(abs(slope) > 0.5, near, np.arctanh(slope) / self._half)
        return np.where(np.isinf(z), 0.0, value)[()]

    def r_transform(self, x: Number, *, derivative: int = 0) -> Value:
        r"""R-transform, :math:`c + h(\coth hx - 1/(hx))` for [c - h, c + h], at every real x."""
        check_derivative(derivative, most=1)
        y = self._half * real_array("x", x, "(-inf, inf)")
        # A quotient of Bessel functions, in which nothing cancels.
        size = np.maximum(abs(y), 1e-100)
        with np.errstate(over="ignore", divide="ignore"):
            langevin = np.where(size < 1e4, ive(1.5, size) / ive(0.5, size), 1 - 1 / size)
            if derivative == 0:
                return (self._centre + self._half * np.sign(y) * langevin)[()]
            near = 1 - langevin**2 - 2 * langevin / size
            far = (1 / size - 1 / np.sinh(size)) * (1 / size + 1 / np.sinh(size))
        return (self._half**2 * np.where(size < 2, near, far))[()]


class PowerLaw(SpectralMeasure):
    r"""Eigenvalues proportional to :math:`(j/d)^{-a}`, j = 1, ..., d, as d grows, of mean 1.

    The law of :math:`(1 - a) u^{-a}`, u uniform on [0, 1]: supported on [1 - a, inf).

    Parameters
    ----------
    exponent : float, 0 <= exponent < 1
        Decay a of the eigenvalues.

    Raises
    ------
    ValueError
        If exponent is outside [0, 1), where no mean exists.

    Notes
    -----
    The variance is infinite for a >= 1/2.  `integrate` and `quadrature` are for functions that
    grow no faster than x.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import PowerLaw
    >>> round(float(PowerLaw(0.9).stieltjes(-0.1)), 9)
    3.203042415
    """

    def __init__(self, exponent: float) -> None:
        self.exponent = real_number("exponent", exponent)
        self.support = ((1 - self.exponent, np.inf if self.exponent else 1.0),)
        self.atoms = () if self.exponent else ((1.0, 1.0),)

    @cached_property
    def _charts(self) -> list[Chart]:
        return [_PowerTail(self.exponent)] if self.exponent else []

    def density(self, x: Number) -> Value:
        a = self.exponent
        return density_on(self._intervals, x, lambda x: (x / (1 - a)) ** (-1 / a) / (a * x))

    def moment(self, order: int) -> float:
        check_integers(order=order)
        heaviness = order * self.exponent
        return (1 - self.exponent) ** order / (1 - heaviness) if heaviness < 1 else np.inf

    def cdf(self, x: Number) -> Value:
        x = real_array("x", x)
        least = 1 - self.exponent
        if not self.exponent:
            return np.where(x >= 1, 1.0, 0.0)[()]
        return -np.expm1(-np.log(np.maximum(x / least, 1.0)) / self.exponent)

    def quantile(self, probability: Number) -> Value:
        p = real_array("probability", probability)
        with np.errstate(divide="ignore"):
            return ((1 - self.exponent) * (1 - p) ** -self.exponent)[()]


class _PowerTail(Chart):
    r""":math:`x = (1 - a) e^{a y}`, :math:`y = e^s`: the law has density :math:`e^{-y}` in y."""

    start = -40.0

    def __init__(self, exponent: float) -> None:
        self._exponent = exponent
        # x stays within float64, the mass beyond is below 1e-299.
        self.stop = float(np.log(690 / exponent))

    def point(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = np.exp(s)
        x = (1 - self._exponent) * np.exp(self._exponent * y)
        return x, x * self._exponent * y

    def locate(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z) + 0j
        return np.log(np.log(z / (1 - self._exponent)) / self._exponent)


class Exponential(SpectralMeasure):
    r"""Eigenvalues proportional to :math:`e^{-\kappa j/d}`, j = 1, ..., d, as d grows, of mean 1.

    The logarithm of an eigenvalue is uniform.

    Parameters
    ----------
    decay : float, 0 < decay <= 600
        Decay :math:`\kappa` over the spectrum: the logarithm of the condition number.

    Raises
    ------
    ValueError
        If decay is outside its range.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Exponential
    >>> round(float(Exponential(3.0).stieltjes(-0.1)), 9)
    1.537281829
    """

    def __init__(self, decay: float) -> None:
        self.decay = real_number("decay", decay)
        self._upper = self.decay / -np.expm1(-self.decay)
        self._lower = self.decay / np.expm1(self.decay)
        self.support = ((float(self._lower), float(self._upper)),)

    @cached_property
    def _charts(self) -> list[Chart]:
        return [_Logarithm(self._lower, self._upper)]

    def density(self, x: Number) -> Value:
        return density_on(self.support, x, lambda x: 1 / (self.decay * x))

    def moment(self, order: int) -> float:
        check_integers(order=order)
        power = order * self.decay
        return float(self._upper**order * -np.expm1(-power) / power) if order else 1.0

    def cdf(self, x: Number) -> Value:
        inside = np.clip(real_array("x", x), self._lower, self._upper)
        return np.clip(1 + np.log(inside / self._upper) / self.decay, 0.0, 1.0)[()]

    def quantile(self, probability: Number) -> Value:
        p = real_array("probability", probability)
        return (self._upper * np.exp(-self.decay * (1 - p)))[()]


class _Logarithm(Chart):
    r""":math:`x = e^s` on a positive interval."""

    def __init__(self, lower: float, upper: float) -> None:
        self._ends = lower, upper
        self.start = float(np.log(lower))
        self.stop = float(np.log(upper))

    def point(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.clip(np.exp(s), *self._ends)
        return x, x

    def locate(self, z: np.ndarray) -> np.ndarray:
        return np.log(np.asarray(z) + 0j)


class DensityMeasure(SpectralMeasure):
    """Law of a given density.

    Parameters
    ----------
    density : callable
        Takes an array of points inside the support and returns the density there, >= 0.
    support : (lower, upper) or sequence of such intervals
        Disjoint and ascending; the last may end at inf.  Put ends where the density is not
        smooth.

    Raises
    ------
    ValueError
        If the intervals are not ascending, or the density is negative, not finite in the
        interior, or of total mass other than 1.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import DensityMeasure
    >>> triangle = DensityMeasure(lambda x: x / 2, (0, 2))
    >>> round(triangle.mean, 12), round(float(triangle.stieltjes(-1.0)), 12)
    (1.333333333333, 0.450693855666)
    """

    def __init__(self, density: Callable[[np.ndarray], Any], support: Sequence[Any]) -> None:
        ends = real_array("support", support)
        if ends.shape == (2,):
            ends = ends[None]
        flat = ends.ravel()
        if ends.ndim != 2 or ends.shape[1:] != (2,) or not np.all(np.isfinite(flat[:-1])):
            raise ValueError(f"support must be intervals (lower, upper), got {support}")
        if np.any(ends[:, 0] >= ends[:, 1]) or np.any(np.diff(flat) < 0):
            raise ValueError(f"support must be ascending intervals, got {support}")
        self._function = density
        self.support = tuple((a, b) for a, b in ends.tolist())
        for chart in self._charts:
            x = chart.rule(255)[0]
            value = self.density(x[(x > flat[0]) & (x < flat[-1]) & np.isfinite(x)])
            if np.any(value < 0) or np.any(np.isnan(value)):
                raise ValueError(f"density must be >= 0 on {support}, got {np.min(value)}")

    def __repr__(self) -> str:
        return f"DensityMeasure({self._function!r}, {self.support})"

    @property
    def statement(self) -> dict[str, Any]:
        name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        return {"measure": f"DensityMeasure({name}, {self.support})"}

    def density(self, x: Number) -> Value:
        return density_on(self.support, x, self._function)


_FORMS = (
    "isotropic, powerlaw:EXPONENT, exponential:DECAY, mp:RATIO (mean 1), powerlaw:EXPONENT,COUNT "
    "(eigenvalues k^-EXPONENT), uniform:LOWER,UPPER, atoms:V1,V2,...[;W1,W2,...] (as they are), "
    "or a file .csv or .txt of eigenvalues in one column or row, or of a square matrix"
)
_SHAPES: dict[str, Callable[[float], SpectralMeasure]] = {
    "powerlaw": PowerLaw,
    "exponential": Exponential,
    "mp": MarchenkoPastur,
}


# Largest number of eigenvalues of a power law of single eigenvalues.
_MOST_ATOMS = 10**5

# Largest exponent of a power law of single eigenvalues.
_STEEPEST = 50.0


def spectrum(spec: str) -> SpectralMeasure:
    """Spectral measure of a covariance from its description.

    Parameters
    ----------
    spec : str
        ``isotropic``, ``powerlaw:0.9``, ``exponential:3``, ``mp:0.5`` (shapes: their mean is 1),
        ``powerlaw:1.2,400`` (the eigenvalues :math:`k^{-1.2}`, k = 1, ..., 400, as they are),
        ``uniform:0.5,1.5``, ``atoms:0.4,1.6``, ``atoms:0.4,1.6;0.3,0.7`` with weights, or the path
        of a .csv or .txt file of eigenvalues in one column or row, or of a square matrix
        (eigenvalues as they are given).

    Raises
    ------
    ValueError
        If the description is none of these, a parameter is outside its range or an eigenvalue
        negative.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import spectrum
    >>> spectrum("atoms:0.4,1.6;0.3,0.7").atoms
    ((0.4, 0.3), (1.6, 0.7))
    >>> spectrum("powerlaw:0.9")
    PowerLaw(0.9)
    >>> spectrum("powerlaw:2,3").values.round(3)
    array([0.111, 0.25 , 1.   ])
    """
    measure = _parse(spec)
    lower = measure.support[0][0]
    if lower < 0:
        raise ValueError(f"spec must have eigenvalues >= 0, got {spec!r} with {lower}")
    return measure


def _parse(spec: str) -> SpectralMeasure:
    if not isinstance(spec, str):
        raise TypeError(f"spec must be a string, got {spec!r}")
    if spec == "isotropic":
        return Atoms([1.0])
    if spec.endswith(FILES):
        return Atoms.from_file(spec)
    name, _, rest = spec.partition(":")
    groups = [_numbers(part) for part in rest.split(";")]
    sizes = [len(group) for group in groups]
    if name in _SHAPES and sizes == [1]:
        return _SHAPES[name](groups[0][0])
    if name == "powerlaw" and sizes == [2]:
        exponent, count = groups[0]
        if not (count.is_integer() and 1 <= count <= _MOST_ATOMS and 0 <= exponent <= _STEEPEST):
            raise ValueError(
                f"spec must have an EXPONENT in [0, {_STEEPEST:g}] and an integer COUNT in "
                f"[1, {_MOST_ATOMS}], got {spec!r}"
            )
        return Atoms(np.arange(1.0, count + 1) ** -exponent)
    if name == "uniform" and sizes == [2]:
        return Uniform(*groups[0])
    if name == "atoms" and len(sizes) <= 2 and min(sizes):
        return Atoms(*groups)
    raise ValueError(f"spec must be one of {_FORMS}; got {spec!r}")


def _numbers(text: str) -> list[float]:
    """Numbers separated by commas; none if something else is among them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []
