r"""Intervals of the real line, their charts, and integrals over them.

A chart is a variable in which a spectral density is integrated with Fejer's rule.  It maps a
variable s in [start, stop] onto an interval of the real line.  In s, the singularities of a
density at its edges are harmless.  The chart also locates a pole z of the integrand in the complex
s plane.  Around that point a second substitution :math:`s = \sigma + \eta \sinh t`, :math:`s_z =
\sigma \pm i \eta`, makes the integrand smooth in t however close the pole is: the number of nodes
needed grows as the logarithm of its distance (Johnston and Elliott, Int. J. Numer. Meth. Engng 62
(2005) 564).  So many functions are integrated at once, each with a pole near or far from the
support.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.fft import dct
from scipy.special import expit

from iclimit.asymptotics.checks import real_array
from iclimit.asymptotics.numbers import Number, Value

# Sorted disjoint intervals (lower, upper); also sorted pairs (position, mass) of atoms.
Intervals = tuple[tuple[float, float], ...]


def inside(x: np.ndarray, intervals: Iterable[tuple[float, float]], closed: bool = False) -> Value:
    """Whether each point lies in one of the intervals."""
    within = np.zeros(x.shape, dtype=bool)
    for lower, upper in intervals:
        within |= (x >= lower) & (x <= upper) if closed else (x > lower) & (x < upper)
    return within


def density_on(
    intervals: Iterable[tuple[float, float]],
    x: Number,
    function: Callable[[np.ndarray], Any],
    closed: bool = True,
) -> Value:
    """Density that is a function on some intervals and zero elsewhere."""
    x = real_array("x", x)
    within = inside(x, intervals, closed)
    value = np.zeros(x.shape)
    with np.errstate(all="ignore"):
        value[within] = function(x[within])
    return value[()]


def merged_intervals(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """Union of intervals."""
    merged: list[tuple[float, float]] = []
    for lower, upper in sorted(intervals):
        if merged and lower <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], upper)
        else:
            merged.append((lower, upper))
    return tuple(merged)


def merged_atoms(atoms: Iterable[tuple[float, float]]) -> Intervals:
    """Atoms, those at the same position added."""
    masses: dict[float, float] = {}
    for position, mass in atoms:
        masses[position] = masses.get(position, 0.0) + mass
    return tuple(sorted(masses.items()))


# Poles are not followed closer than this: nodes would coincide in float64.
_CLOSEST = 1e-13

# Half-width of the doubly exponential variables.  exp(-pi sinh 6) = 1e-275, so that even x^(-0.9)
# at an edge 0 loses less than 1e-27 of its mass.
_REACH = 6.0


class Chart(ABC):
    """Map of a real interval [start, stop] onto an interval of the real line."""

    start: float
    stop: float

    @abstractmethod
    def point(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Point x(s) and dx/ds."""

    @abstractmethod
    def locate(self, z: np.ndarray) -> np.ndarray:
        """Complex s with x(s) = z."""

    def rule(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes x and weights for dx, shape (count,)."""
        nodes, weights = fejer(count)
        half = (self.stop - self.start) / 2
        x, slope = self.point((self.start + self.stop) / 2 + half * nodes)
        return x, half * weights * slope

    def rule_near(self, pole: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes x and weights for dx, dense around the poles, on a new last axis."""
        with np.errstate(all="ignore"):
            s = np.asarray(self.locate(pole))
        centre = np.clip(np.nan_to_num(s.real), self.start, self.stop)
        width = np.hypot(s.imag, s.real - centre)
        width = np.clip(np.nan_to_num(width, nan=1e3), _CLOSEST, 1e3)
        low = np.arcsinh((self.start - centre) / width)[..., None]
        high = np.arcsinh((self.stop - centre) / width)[..., None]
        nodes, weights = fejer(count)
        t = (low + high) / 2 + (high - low) / 2 * nodes
        width = width[..., None]
        inner = np.clip(centre[..., None] + width * np.sinh(t), self.start, self.stop)
        x, slope = self.point(inner)
        return x, (high - low) / 2 * weights * width * np.cosh(t) * slope


class Angle(Chart):
    r""":math:`x = a + (b - a) \sin^2(s/2)`: any half-integer power at the edges becomes analytic.

    Those are the edges of random matrix theory: square roots, inverse square roots, jumps.
    """

    start = 0.0
    stop = np.pi

    def __init__(self, lower: float, upper: float) -> None:
        self._ends = lower, upper

    def point(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = self._ends
        length = upper - lower
        below = length * np.sin(s / 2) ** 2
        above = length * np.cos(s / 2) ** 2
        x = np.where(below < above, lower + below, upper - above)
        x = np.clip(x, np.nextafter(lower, upper), np.nextafter(upper, lower))
        # The slope at the rounded x: an inverse square root of a density then cancels exactly.
        return x, np.sqrt((x - lower) * (upper - x))

    def locate(self, z: np.ndarray) -> np.ndarray:
        lower, upper = self._ends
        z = np.asarray(z) + 0j
        length = upper - lower
        from_lower = 2 * np.arcsin(np.sqrt((z - lower) / length))
        from_upper = np.pi - 2 * np.arcsin(np.sqrt((upper - z) / length))
        return np.where(abs(z - lower) < abs(z - upper), from_lower, from_upper)


class DoubleExponential(Chart):
    r""":math:`x = a + (b - a) / (1 + e^{-\pi \sinh s})`: any integrable power at the edges.

    Takahasi and Mori, Publ. RIMS 9 (1974) 721.  Slower than `Angle` where that applies.
    """

    start = -_REACH
    stop = _REACH

    def __init__(self, lower: float, upper: float) -> None:
        self._ends = lower, upper

    def point(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = self._ends
        length = upper - lower
        power = np.pi * np.sinh(s)
        below = length * expit(power)
        above = length * expit(-power)
        x = np.where(below < above, lower + below, upper - above)
        return x, below * expit(-power) * np.pi * np.cosh(s)

    def locate(self, z: np.ndarray) -> np.ndarray:
        lower, upper = self._ends
        z = np.asarray(z) + 0j
        return np.arcsinh((np.log(z - lower) - np.log(upper - z)) / np.pi)


class HalfLine(Chart):
    r""":math:`x = a + L e^{\pi \sinh(s) / 2}`: the interval [a, inf), powers at both ends."""

    start = -_REACH
    stop = _REACH

    def __init__(self, lower: float, scale: float = 1.0) -> None:
        self._lower = lower
        self._scale = scale

    def point(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        above = self._scale * np.exp(np.pi / 2 * np.sinh(s))
        return self._lower + above, above * np.pi / 2 * np.cosh(s)

    def locate(self, z: np.ndarray) -> np.ndarray:
        return np.arcsinh(2 / np.pi * np.log((np.asarray(z) + 0j - self._lower) / self._scale))


@lru_cache(maxsize=64)
def fejer(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Fejer's first rule on [-1, 1].

    At hundreds of nodes it is more accurate than SciPy's Gauss-Legendre rule, whose weights are
    off by 1e-10 near the ends, and as fast to converge.
    """
    even = np.arange(0, count, 2)
    moments = np.zeros(count)
    moments[even] = 2 / (1.0 - even**2)
    return np.cos(np.pi * (np.arange(count) + 0.5) / count), dct(moments, type=3) / count


# Nodes per interval at first; they are doubled until two results agree.
FEWEST = 64

# Most nodes per interval.
MOST = 4096

# Relative change of an integral at which the doubling stops.
AGREEMENT = 1e-13

# Largest relative change of an integral that is accepted at the largest number of nodes.
_ACCEPTED = 1e-8

# Stands for a pole at infinity.
FAR = -1e300

# Numbers held at once while an array of points is integrated over.
_BLOCK = 2**20

# Poles, shape (m,) -> nodes (m, n) and weights (m, n) or (n,).
Rule = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def sum_over_atoms(
    kernel: Callable, flat: list[np.ndarray], positions: np.ndarray, masses: np.ndarray
) -> np.ndarray:
    """Integrals over atoms; ``flat`` holds the poles and the arguments of the kernel."""

    def rule(pole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(positions, (len(pole), len(positions))), masses

    return _integrals(kernel, flat, rule, len(positions))[0]


def integrate_near(
    kernel: Callable, flat: list[np.ndarray], chart: Chart, weighted: Callable, name: object
) -> np.ndarray:
    """Integrals over the interval of a chart, with as many nodes as each pole needs.

    ``weighted`` turns nodes and weights for dx into nodes and weights of the measure.
    """

    def integrals(which: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        def rule(pole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return weighted(*chart.rule_near(pole, count))

        return _integrals(kernel, [v[which] for v in flat], rule, count)

    open_ = np.arange(len(flat[0]))
    count = FEWEST
    latest, _ = integrals(open_, count)
    result = latest.copy()
    least = np.full(len(open_), np.inf)
    while len(open_) and count < MOST:
        count *= 2
        values, scales = integrals(open_, count)
        with np.errstate(all="ignore"):
            change = abs(values - latest) / scales
        change = np.where(scales == 0, 0.0, change)
        better = change < least[open_]
        result[open_[better]] = values[better]
        # Once 8 digits agree, a change that grows again is rounding.
        settled = (change <= AGREEMENT) | (~better & (least[open_] <= _ACCEPTED))
        least[open_] = np.minimum(change, least[open_])
        open_ = open_[~settled]
        latest = values[~settled]
    if len(open_) and np.any(least[open_] > _ACCEPTED):
        point = flat[0][open_][np.argmax(least[open_])]
        raise ArithmeticError(
            f"float64 does not resolve the integral over {name} near {point}: "
            "it is too near to the support, or the density too rough"
        )
    return result


def _integrals(
    kernel: Callable, flat: list[np.ndarray], rule: Rule, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Integrals by the rule of each pole, and those of absolute values, in blocks of memory."""
    values = []
    scales = []
    size = max(1, _BLOCK // max(1, count))
    for first in range(0, len(flat[0]), size):
        block = [v[first : first + size] for v in flat]
        pole = block[0]
        arguments = block[1:]
        x, mass = rule(pole)
        # Powers of far nodes may overflow in a denominator.
        with np.errstate(over="ignore"):
            terms = kernel(x, *(v[:, None] for v in arguments)) * mass
        values.append(terms.sum(axis=-1))
        scales.append(abs(terms).sum(axis=-1))
    return np.concatenate(values), np.concatenate(scales)
