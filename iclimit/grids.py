"""Grids of numbers that are the same floats on every machine: each is correctly rounded.

NumPy's ``geomspace`` differs in last digits between processors, and with them would the names and
seeds of the runs that are made along a grid.
"""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

# Digits with which the points of a geometric grid are computed before they are rounded.
_DIGITS = 40


def linear_grid(start: float, stop: float, points: int) -> np.ndarray:
    """Points at equal distances, both ends included.

    Parameters
    ----------
    start, stop : float
        Finite ends.
    points : int >= 2
        Number of points.

    Returns
    -------
    ndarray (points,)
        The float nearest to each point.

    Examples
    --------
    >>> from iclimit.grids import linear_grid
    >>> linear_grid(0.5, 2.0, 4).tolist()
    [0.5, 1.0, 1.5, 2.0]
    """
    first = Fraction(start)
    step = (Fraction(stop) - first) / (points - 1)
    inner = [float(first + place * step) for place in range(1, points - 1)]
    return np.array([start, *inner, stop], dtype=float)


def geometric_grid(start: float, stop: float, points: int) -> np.ndarray:
    """Points at equal ratios, both ends included.

    Parameters
    ----------
    start, stop : float > 0
        Finite ends.
    points : int >= 2
        Number of points.

    Returns
    -------
    ndarray (points,)
        The float nearest to each point.

    Examples
    --------
    >>> from iclimit.grids import geometric_grid
    >>> geometric_grid(0.01, 100, 5).tolist()
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """
    shares = (Fraction(place, points - 1) for place in range(1, points - 1))
    return np.array([start, *geometric_points(start, stop, shares), stop], dtype=float)


def geometric_points(start: float, stop: float, shares: Iterable[float | Fraction]) -> list[float]:
    """Points between two ends at shares of the distance in the logarithm.

    Parameters
    ----------
    start, stop : float > 0
        Finite ends.
    shares : iterable of float or Fraction
        0 for the start, 1 for the stop.

    Returns
    -------
    list of float
        The float nearest to start (stop/start)^share.

    Examples
    --------
    >>> from iclimit.grids import geometric_points
    >>> geometric_points(0.01, 100, [0, 0.5, 1])
    [0.01, 1.0, 100.0]
    """
    from mpmath import mp

    with mp.workdps(_DIGITS):
        first = mp.mpf(float(start))
        length = mp.log(mp.mpf(float(stop)) / first)
        exact = [Fraction(share) for share in shares]
        exponents = [mp.mpf(share.numerator) / share.denominator for share in exact]
        return [float(first * mp.exp(exponent * length)) for exponent in exponents]
