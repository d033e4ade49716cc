r"""Gaps in the support of a free sum.

Outside the supports of the two laws :math:`F_1` and :math:`F_2` increase along branches: intervals
from one end of the support to the next, or to a zero of the transform, where F is infinite.  A
point of the real line outside the support of the sum is
:math:`z = F_1^{-1}(F) + F_2^{-1}(F) - F` on a pair of branches, where z increases with F.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import elementwise
from scipy.special import expit

from iclimit.asymptotics.spectra.measure import SpectralMeasure, is_atomic

_POINTS = 129
"""Points at which the slope of z is evaluated along a pair of branches."""

_FLAT = 1e-13
"""Rounding may decide the sign of a slope of z below this: z is flat at infinity and at inverse
square roots of a density."""

_REACH, _REACH_INTEGRATED = 33.0, 16.0
"""How near points come to the end of a branch, as -log of the relative distance: to rounding for
atoms, less near for densities, where no edge of the sum comes from there."""

_INVERSIONS = 60
"""Most steps, by Newton's method or halving, that invert F between two points."""


def reciprocal(law: SpectralMeasure, omega: Any) -> tuple[Any, Any]:
    """F = -1/m and its derivative."""
    with np.errstate(all="ignore"):
        m, slope = law.stieltjes(omega), law.stieltjes(omega, derivative=1)
        return -1 / m, slope / m**2


class _Branch:
    """Real interval on which F = -1/m of a measure increases, sampled."""

    def __init__(
        self, law: SpectralMeasure, zeros: tuple[float, ...], start: float, stop: float
    ) -> None:
        self.law, self.zeros, self.start, self.stop = law, zeros, start, stop
        omega = _points(law, start, stop, np.linspace(-1, 1, _POINTS))
        omega = omega[(omega > start) & (omega < stop)]
        values, slopes = reciprocal(law, omega)
        fine = np.isfinite(values) & np.isfinite(slopes)
        self.omega, self.values, self.slopes = omega[fine], values[fine], slopes[fine]

    def inverse(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points with given values of F, and the slope of F there."""
        cell = np.clip(np.searchsorted(self.values, F), 1, self.values.size - 1)
        low, high = self.omega[cell - 1], self.omega[cell]
        omega = np.where(abs(self.values[cell] - F) < abs(self.values[cell - 1] - F), high, low)
        for _ in range(_INVERSIONS):
            value, slope = reciprocal(self.law, omega)
            low, high = np.where(value < F, omega, low), np.where(value > F, omega, high)
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
    length, spacing = stop - start, 16 * np.spacing(max(abs(start), abs(stop)))
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
    (lower, upper), inner = law._ends, [(a, b) for (_, a), (b, _) in pairwise(law.support)]
    zeros = tuple(zero for gap in inner for zero in _zeros(law, *gap))
    branches = []
    for start, stop in [(-np.inf, lower), (upper, np.inf), *inner]:
        cuts = [start, *(zero for zero in zeros if start < zero < stop), stop]
        branches += [_Branch(law, zeros, *ends) for ends in pairwise(cuts)]
    return [branch for branch in branches if branch.values.size > 1]


def find_gaps(first: SpectralMeasure, second: SpectralMeasure) -> list[tuple[float, float]]:
    """Intervals outside the support of a free sum, sorted; the outer ones are unbounded."""
    others = _branches(second)
    return sorted(gap for one in _branches(first) for other in others for gap in _gaps(one, other))


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
        (omega, slope), (omega_other, slope_other) = (b.inverse(F) for b in (one, other))
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
