r"""Contours around the spectrum of a sample covariance, in the plane of its subordination.

A contour is an ellipse that crosses the real axis at two given points.  Its nodes are those of the
trapezoidal rule in an angle that is spread by a Jacobi elliptic function, so that they gather at
the crossings.  There the functions that are integrated vary fastest: a polynomial of degree L that
is of size one on the spectrum grows within a distance 1/L of its ends.  The rule still converges
geometrically, at a rate that falls only as the logarithm of the distance, as for the contours of
Hale, Higham and Trefethen, SIAM J. Numer. Anal. 46 (2008) 2505.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ellipj, ellipkm1

# Largest size of a function on the contour, over its largest size on the spectrum: so many times
# rounding errors are amplified, for each of the two functions of a product.
GROWTH = 10.0

# A contour may pass the ends of the spectrum at a distance of 2^-45 of its length.
_HALVINGS = 45

# Heights of ellipses over their lengths, the flattest first: functions vary least on them.
_ASPECTS = (0.35, 0.5, 0.7, 1.0, 1.3, 1.7, 2.2, 3.0)

# The map from the plane of the contour to that of the eigenvalues turns back at the boundary of
# its physical sheet, where the imaginary part vanishes.  The ratio of both imaginary parts, over
# its values far away and at the crossings, measures the distance from there.
_CLEARANCES = (0.6, 0.4, 0.25, 0.15, 0.08, 0.04, 0.02, 0.01)

# Least spacing at the crossings: SciPy's elliptic functions lose accuracy below 1e-5.
_GATHER = 2e-5

# Nodes on which a contour is judged.
_PROBES = 128


@dataclass(frozen=True)
class Ellipse:
    """Ellipse with nodes that gather where it crosses the real axis.

    Attributes
    ----------
    lower, upper : float
        Crossings of the real axis.
    aspect : float
        Height over length.
    gather : float
        Spacing of the nodes at the crossings over that of an even spread, up to a logarithm.
    """

    lower: float
    upper: float
    aspect: float
    gather: float

    def nodes(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        r"""Nodes in the upper half plane, and weights of :math:`dw/(2\pi i)`.

        Those in the lower half plane, as many, are the complex conjugates of both.
        """
        quarter = ellipkm1(self.gather**2)
        spacing = 2 * quarter / count
        u = spacing * (np.arange(count) + 0.5)
        _, _, speed, amplitude = ellipj(u + quarter, 1 - self.gather**2)
        angle = amplitude - np.pi / 2
        half = (self.upper - self.lower) / 2
        turn = np.cos(angle) + 1j * self.aspect * np.sin(angle)
        slope = -np.sin(angle) + 1j * self.aspect * np.cos(angle)
        points = (self.upper + self.lower) / 2 + half * turn
        return points, half * slope * speed * spacing / (2j * np.pi)

    def nearer(self, ends: tuple[float, float]) -> Ellipse:
        """Another contour, which crosses the real axis nearer to the ends of a spectrum."""
        end_below, end_above = ends
        lower = 0.7 * self.lower + 0.3 * end_below
        upper = 0.7 * self.upper + 0.3 * end_above
        return Ellipse(lower, upper, self.aspect, max(_GATHER, 0.7 * self.gather))


def choose_ellipse(
    functions: Callable[[np.ndarray], np.ndarray],
    image: Callable[[np.ndarray], np.ndarray],
    ends: tuple[float, float],
    spectrum: tuple[float, float],
    far: float,
) -> Ellipse:
    """Contour around a spectrum on which given functions are not much larger than on it.

    Parameters
    ----------
    functions : callable
        Values (k, m) of k functions at m points of the plane of the eigenvalues.
    image : callable
        Map from the plane of the contour to that of the eigenvalues.
    ends, spectrum : (float, float)
        Ends of the spectrum in the two planes.
    far : float
        Slope of the map far away.

    Returns
    -------
    Ellipse

    Raises
    ------
    ArithmeticError
        If there is none, because the functions grow too fast.
    """
    inside = functions(np.linspace(*spectrum, 257) + 0j)
    bound = GROWTH * np.max(abs(inside), axis=-1)

    def small(points: np.ndarray) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.all(abs(functions(image(points))) <= bound[:, None]))

    length = ends[1] - ends[0]
    gaps = [_gap(small, ends[0], -length), _gap(small, ends[1], length)]
    lower = ends[0] - gaps[0]
    upper = ends[1] + gaps[1]
    # The ratio can hardly be larger than at the crossings, where it is the slope of the map.
    crossings = np.array([lower, upper]) + 1e-9j * length
    slope = min(1.0, float(np.min(image(crossings).imag / crossings.imag)) / far)
    for clearance in _CLEARANCES:
        for aspect in _ASPECTS:
            gather = np.clip(2 * min(gaps) / (aspect * (upper - lower)), _GATHER, 1.0)
            ellipse = Ellipse(lower, upper, aspect, gather)
            points, _ = ellipse.nodes(_PROBES)
            lift = np.min(image(points).imag / points.imag) / far
            if lift >= clearance * slope and small(points):
                return ellipse
    raise ArithmeticError(_TOO_FAST)


def _gap(small: Callable[[np.ndarray], bool], end: float, length: float) -> float:
    """Distance from an end of the spectrum, in the direction of a length, of a small function."""
    for k in range(1, _HALVINGS):
        step = length * 2.0**-k
        if small(np.array([end + step + 0j])):
            return abs(step)
    raise ArithmeticError(_TOO_FAST)


_TOO_FAST = (
    "function grows too fast next to the spectrum for float64: its degree is too high, or it is "
    "not analytic there"
)
