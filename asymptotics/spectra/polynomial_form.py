r"""Two-point means of all polynomials of a degree, as a matrix.

`iclimit.asymptotics.spectra.TwoPoint.mean` chooses one contour for one function.  The polynomials
of a high degree are large almost everywhere but on the spectrum.  So here the contours keep to it:
an ellipse around each part of the spectrum, confocal with it in the plane of the eigenvalues, on
which no polynomial of the basis `iclimit.asymptotics.spectra.interval_polynomials` exceeds its
largest value on the spectrum by more than a factor of ten.  The trapezoidal rule converges
geometrically on each of them.

The subordination function w at the nodes is continued along the ellipse by Newton's method, from a
real point beside the part of the spectrum, where it is monotonic.

The matrix is the mean over two sets of ellipses; their difference is its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.contours import GROWTH
from iclimit.asymptotics.spectra.interval_polynomials import IntervalPolynomials
from iclimit.asymptotics.spectra.two_point import Contour, Function, TwoPoint

# The spectrum is divided at its widest gaps into at most this many parts.
_MOST_PARTS = 24

# Gaps are kept if they are wider than this share of the narrower of the parts beside them.
_LEAST_GAP = 0.3

# Ellipses keep to this share of a gap, so that they are as far from both sides of it.
_NEAR = 0.25

# Sum of the half axes of an ellipse over the distance of its foci, at most.
_WIDEST = 4.0

# Digits of the trapezoidal rule.
_DIGITS = 17.0

# Second ellipses are nearer, in the logarithm of the sum of their half axes, by this factor.
_SECOND = 0.8

# Halvings towards the middle of a gap.
_ROUGH = 16

# Halvings towards the ends of a gap.
_BISECTIONS = 60


@dataclass(frozen=True)
class Part:
    """Part of a spectrum, with the real points w that belong to the gaps beside it.

    Attributes
    ----------
    lower, upper : float
        Ends in the plane of the eigenvalues.
    room : float
        How far an ellipse may reach beyond them.
    turn, stop : float
        Ends of the gap above, in the plane of w.
    """

    lower: float
    upper: float
    room: float
    turn: float
    stop: float


@dataclass(frozen=True)
class PolynomialForm:
    r"""Mean of :math:`\operatorname{tr} B\, q_j(S)^\top A\, q_k(S)/d` for a basis of polynomials.

    Attributes
    ----------
    basis : IntervalPolynomials
        The polynomials :math:`q_j`.
    matrix : ndarray (degree + 1, degree + 1)
        The means.
    error : float
        Largest eigenvalue of the error of the matrix.
    contours : tuple of Contour
        The two sets of ellipses.
    """

    basis: IntervalPolynomials
    matrix: np.ndarray
    error: float
    contours: tuple[Contour, Contour]

    @classmethod
    def of(cls, law: TwoPoint, degree: int, outer: Number, inner: Number) -> PolynomialForm:
        """Form of a law of sample covariances, up to a degree >= 1.

        Raises
        ------
        ArithmeticError
            If the contours fail.
        """
        parts = spectral_parts(law)
        basis = IntervalPolynomials([(part.lower, part.upper) for part in parts], degree)
        sizes = [_ellipse(basis, part) for part in parts]
        near = _contour(law, parts, sizes, outer, inner)
        nearer = _contour(law, parts, [size**_SECOND for size in sizes], outer, inner)
        first = near.matrix(basis(near.nodes))
        second = nearer.matrix(basis(nearer.nodes))
        error = float(np.linalg.norm(first - second, 2))
        rounding = np.finfo(float).eps * float(np.linalg.norm(first, 2))
        return cls(basis, (first + second) / 2, max(error, rounding), (near, nearer))

    def pair(self, p: Function) -> tuple[float, float]:
        """Value of the form at a polynomial of at most its degree, and its numerical error."""
        c = self.basis.projection @ np.asarray(p(self.basis.nodes)).real
        return float(c @ self.matrix @ c), float(self.error * (c @ c))

    def single(self, p: Function) -> tuple[float, float]:
        r"""Value of :math:`\operatorname{tr} A\, p(S)/d`, and its numerical error.

        The degree may be twice that of the form.
        """
        near, nearer = self.contours
        first = float(near.single(p(near.nodes)))
        second = float(nearer.single(p(nearer.nodes)))
        return (first + second) / 2, abs(first - second)


def spectral_parts(law: TwoPoint) -> list[Part]:
    """Parts of the spectrum in ascending order; a single one if the width is finite."""
    lower, upper = law.edges
    ends = law._ends
    far = 1e6 * float(law.values[-1])
    gaps = _gaps(law) if law.width_ratio == np.inf else []
    z = [lower, *(float(law._image(np.array(w))) for gap in gaps for w in gap), upper]
    # Where gaps are narrow, ellipses between them would need many nodes.
    kept = []
    for k in range(len(gaps)):
        size = z[2 * k + 2] - z[2 * k + 1]
        left = z[2 * k + 1] - z[2 * k]
        right = z[2 * k + 3]
        right -= z[2 * k + 2]
        share = size / max(min(left, right), 1e-300)
        if share > _LEAST_GAP:
            kept.append((share, k))
    chosen = sorted(k for _, k in sorted(kept)[-_MOST_PARTS + 1 :])
    turns = [(*gaps[k], z[2 * k + 1], z[2 * k + 2]) for k in chosen]
    turns.append((ends[1], far, upper, np.inf))
    parts = []
    bottom = lower
    below = np.inf
    for turn, stop, top, after in turns:
        parts.append(Part(bottom, top, _NEAR * min(below, after - top), turn, stop))
        bottom = after
        below = after - top
    return parts


def _gaps(law: TwoPoint) -> list[tuple[float, float]]:
    """Gaps of the spectrum in the plane of w: where z(w) rises between two eigenvalues."""
    kept = law.values > 0
    values = law.values[kept]
    mass = (law.weights * law.values**2)[kept]
    # The two eigenvalues beside a gap alone take at least this from the slope of z, times alpha.
    roots = np.cbrt(mass)
    taken = (roots[:-1] + roots[1:]) ** 3 / np.diff(values) ** 2
    possible = taken < law.alpha
    low = values[:-1][possible]
    high = values[1:][possible]
    if not low.size:
        return []

    def falling(w: np.ndarray) -> np.ndarray:
        """Whether the slope of z falls there."""
        return (1 / (values - w[:, None]) ** 3) @ mass > 0

    left = low.copy()
    right = high.copy()
    for _ in range(_ROUGH):
        middle = (left + right) / 2
        beyond = falling(middle)
        left = np.where(beyond, left, middle)
        right = np.where(beyond, middle, right)
    peak = (left + right) / 2
    is_open = law._speed(peak) > 0
    return list(
        zip(
            *(_turn(law, peak[is_open], end[is_open]).tolist() for end in (low, high)), strict=True
        )
    )


def _turn(law: TwoPoint, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Points between in and outside of a gap where z turns back, on the inner side."""
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            rising = law._speed(middle) > 0
        inside = np.where(rising, middle, inside)
        outside = np.where(rising, outside, middle)
    return inside


def _ellipse(basis: IntervalPolynomials, part: Part) -> float:
    """Sum of the half axes of the ellipse around a part, over half the distance of its foci."""
    half = (part.upper - part.lower) / 2
    reach = 1 + part.room / half
    size = _WIDEST if reach > _WIDEST else min(_WIDEST, reach + np.sqrt(reach**2 - 1))
    count = 4 * len(basis.projection)
    angles = np.pi * (np.arange(count) + 0.5) / count
    while size - 1 > 1e-6:
        points, _ = _points(part, size, angles)
        with np.errstate(over="ignore", invalid="ignore"):
            if np.max(abs(basis(points))) <= GROWTH * basis.largest:
                break
        size = size**0.8
    return float(size)


def _points(part: Part, size: float, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of an ellipse and their derivative by the angle."""
    turn = size * np.exp(1j * angles)
    half = (part.upper - part.lower) / 2
    return (part.upper + part.lower) / 2 + half * (turn + 1 / turn) / 2, half * 0.5j * (
        turn - 1 / turn
    )


def _contour(
    law: TwoPoint, parts: Sequence[Part], sizes: Sequence[float], outer: Value, inner: Value
) -> Contour:
    """The form on one set of ellipses."""
    points = []
    weights = []
    w = []
    for part, size in zip(parts, sizes, strict=True):
        count = int(np.ceil((_DIGITS + np.log10(GROWTH)) / np.log10(size) / 2))
        z, slope = _points(part, size, np.pi * (np.arange(count) + 0.5) / count)
        points.append(z)
        weights.append(slope / (2j * count))
        w.append(_continued(law, part, z))
    return Contour(
        law, np.concatenate(w), np.concatenate(points), np.concatenate(weights), outer, inner
    )


def _continued(law: TwoPoint, part: Part, z: np.ndarray) -> np.ndarray:
    """Points w that belong to points of the upper half plane along an ellipse."""
    right = float(z[0].real)

    def distance(w: float) -> float:
        return float(law._image(np.array(w))) - right

    extreme = ArithmeticError("alpha or the spectrum is too extreme for contours of float64")
    if not distance(part.turn) * distance(part.stop) <= 0:
        raise extreme
    before = right
    w = brentq(distance, part.turn, part.stop, xtol=1e-14 * abs(part.turn))
    path = np.empty(z.shape, dtype=complex)
    w = complex(w)
    for k, goal in enumerate(z.tolist()):
        w = w + (goal - before) / complex(law._speed(np.array(w)))
        for _ in range(50):
            step = (goal - complex(law._image(np.array(w)))) / complex(law._speed(np.array(w)))
            w = w + step
            if abs(step) <= 1e-14 * abs(w):
                break
        path[k] = w
        before = goal
    if np.any(path.imag <= 0):
        raise extreme
    return path
