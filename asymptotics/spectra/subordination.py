r"""Subordination function of a sample covariance matrix, in the upper half plane and below zero.

:math:`\omega(z)` solves

.. math:: z = \Phi(\omega), \qquad
   \Phi(\omega) = \omega \Bigl(1 - c \int \frac{t\, d\nu(t)}{t - \omega}\Bigr)

for a population with the spectral measure :math:`\nu`.  In the upper half plane the solution
there is unique.  For :math:`z < 0`, :math:`y = -\omega > 0` solves a convex equation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iclimit.asymptotics.spectra.fixed_points import convex_root, follow

ROUNDING = 1e-15
"""Error of a sum over atoms, relative to the mean size of its terms."""

_LARGE = 2.0
r"""Ratio from which :math:`\Phi` is computed as in its definition."""

Average = Callable[..., Any]
"""(kernel, omega, c, excess, index of points) -> means over t of kernel(t, omega, c, excess)."""


def _quotients(t: np.ndarray, omega: Any) -> tuple[np.ndarray, np.ndarray]:
    r""":math:`t/(t - \omega)`, and :math:`\omega/(t - \omega)` or 0 at t = 0."""
    with np.errstate(all="ignore"):
        return t / (t - omega), np.where(t > 0, omega / (t - omega), 0.0)


def shrinkage(t: np.ndarray, omega: Any, c: Any, excess: Any) -> np.ndarray:
    r"""Integrand of :math:`z/\omega`, in the form in which no more cancels than must."""
    r, small = _quotients(t, omega)
    return np.where(c > _LARGE, 1 - c * r, excess - c * small)


def _shrinkage_size(t: np.ndarray, omega: Any, c: Any, excess: Any) -> np.ndarray:
    """Size of what is added in `shrinkage`."""
    r, small = _quotients(t, omega)
    return np.where(c > _LARGE, 1 + c * abs(r), abs(excess) + c * abs(small))


def slope(t: np.ndarray, omega: Any, c: Any, excess: Any) -> np.ndarray:
    r"""Integrand of :math:`\Phi'`."""
    r, small = _quotients(t, omega)
    with np.errstate(all="ignore"):
        small = small * (2 * t - omega) / (t - omega)
    return np.where(c > _LARGE, 1 - c * r**2, excess - c * small)


def above(
    average: Average,
    z: np.ndarray,
    c: np.ndarray,
    excess: np.ndarray,
    mean: np.ndarray,
    error: float = ROUNDING,
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
        rise = average(slope, *arguments)
        step = (omega * average(shrinkage, *arguments) - z) / rise
        size = abs(z) + abs(omega) * average(_shrinkage_size, *arguments)
        rounding = error * size / abs(rise)
        length = np.maximum(abs(step) - rounding, 0.0) / omega.imag
        return step, length, rounding, 1 / (abs(rise) * omega.imag)

    # At this height |omega - z| is at most 1/8 of it.
    height = abs(z.real) + 8 * c * mean
    return follow(newton, lambda z: z - c * mean, z, height)


def below(
    average: Average,
    depth: np.ndarray,
    c: np.ndarray,
    excess: np.ndarray,
    mean: np.ndarray,
    second: np.ndarray,
    error: float = ROUNDING,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Minus the subordination function at z = -depth < 0, and the steps taken.

    Parameters
    ----------
    average, c, excess, mean, error
        As for `above`.
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
        s = average(shrinkage, *arguments)
        constant = np.where(c[which] > _LARGE, 1.0, excess[which])
        size = depth[which] + y * (abs(constant) + abs(s - constant))
        return y * s - depth[which], average(slope, *arguments), error / 2 * size

    upper = _positive_root(mean * (1 - c) - depth, depth * mean)
    with np.errstate(all="ignore"):
        spread = second / mean
        lower = _positive_root(spread - c * mean - depth, depth * spread)
    lower = np.where(np.isfinite(lower), np.maximum(lower, depth), depth)
    return convex_root(function, lower * (1 - 1e-12), upper * (1 + 1e-12))


def _positive_root(b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Positive root of y^2 + b y = c."""
    root = np.hypot(b, 2 * np.sqrt(c))
    with np.errstate(all="ignore"):
        return np.where(b > 0, 2 * c / (b + root), (root - b) / 2)
