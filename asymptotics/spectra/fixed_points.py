r"""Fixed points of free convolutions, followed from far above the real axis down to it.

The transform of a free convolution is a composition with a subordination function
:math:`\omega`, analytic from the upper half plane into itself and the only solution of its
equation there (Belinschi and Bercovici, J. Anal. Math. 101 (2007) 357).  By the lemma of Schwarz
and Pick it moves by no more than z does in the hyperbolic metric: when the height
:math:`\operatorname{Im} z` shrinks by a constant factor, Newton's method started from the old
solution is close enough to converge.  Heights are lowered as fast as this allows.  On the real
axis, inside the support, :math:`\omega` itself has an imaginary part.

**Sample covariances.**  There :math:`\omega(z)` solves

.. math:: z = \Phi(\omega), \qquad
   \Phi(\omega) = \omega \Bigl(1 - c \int \frac{t\, d\nu(t)}{t - \omega}\Bigr)

for a population with the spectral measure :math:`\nu`.  In the upper half plane the solution
there is unique.  For :math:`z < 0`, :math:`y = -\omega > 0` solves a convex equation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import Value

# Bound on the Newton steps of `follow`: 2.4 times the largest number that any of 1e5 random sample
# covariances took in `benchmarks/stress_fixed_points.py`.
MOST_STEPS = 200

# Bound on the steps of `convex_root`: four times the largest number there.
MOST_REAL_STEPS = 60

# A height counts as solved once a Newton step is shorter than this, in the hyperbolic metric.
_NEAR = 0.3

# A height is given up for a larger one if the first Newton step there is longer than this.
_FAR = 0.95

# It is also given up if a step is longer than this part of the one before.
_CONTRACTION = 0.6

# First ratio of successive heights: squared at a success, replaced by its root at a failure.
_FIRST_RATIO = 1 / 16

# If the rest of the way down is estimated to be shorter than this, it is gone in one step.  The
# length is halved at a failure.
_DIRECT = 0.3

# Height, relative to the first one, below which a height 0 is reached in one step.
_LOWEST = 1e-40

# (omega, z, index of the points) -> Newton step to be subtracted, its hyperbolic length, its
# rounding error, and the hyperbolic speed of omega as z moves.
Newton = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]


def follow(
    newton: Newton, start: Callable[[np.ndarray], np.ndarray], z: np.ndarray, height: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Subordination function at points of the closed upper half plane, shape (m,).

    Parameters
    ----------
    newton : callable
        Newton step of the equation.
    start : callable
        Approximation of the solution far above the real axis.
    z : ndarray of complex
        Points.
    height : ndarray
        Imaginary parts at which ``start`` is good.

    Returns
    -------
    omega : ndarray of complex
        The solution, in the open upper half plane: there is no other.
    steps : ndarray of int
        Newton steps taken, at most `MOST_STEPS`.

    Raises
    ------
    ArithmeticError
        If they do not suffice at some point, which is named.
    """
    target = z.imag
    height = np.maximum(height, target)
    lowest = np.maximum(_LOWEST * height, target)
    omega = start(z.real + 1j * height)
    solved = omega.copy()
    solved_at = height / _FIRST_RATIO
    ratio = np.full(z.shape, _FIRST_RATIO)
    limit = np.full(z.shape, _FAR)
    direct = np.full(z.shape, _DIRECT)
    steps = np.zeros(z.shape, dtype=int)
    open_ = np.arange(z.size)
    for _ in range(MOST_STEPS):
        if not open_.size:
            return omega, steps
        steps[open_] += 1
        at = omega[open_]
        now = height[open_]
        q = ratio[open_]
        final = target[open_]
        with np.errstate(all="ignore"):
            step, length, rounding, speed = newton(at, z.real[open_] + 1j * now, open_)
        exact = abs(step) <= rounding
        failed = ~exact & ~(length <= limit[open_])
        near = ~failed & (exact | (length <= _NEAR))
        lower = near & (now > final)

        at = np.where(failed, solved[open_], np.where(exact, at, at - step))
        solved[open_] = np.where(near, at, solved[open_])
        solved_at[open_] = np.where(near, now, solved_at[open_])
        unspoilt = direct[open_] == _DIRECT
        q = np.where(failed, np.sqrt(q), np.where(lower & unspoilt, q**2, q))
        following = np.where(failed | lower, solved_at[open_] * q, now)
        jump = (lower & (speed * (now - final) <= direct[open_])) | (following <= lowest[open_])
        omega[open_] = at
        ratio[open_] = q
        height[open_] = np.where(jump, final, following)
        limit[open_] = np.where(failed | lower, _FAR, _CONTRACTION * length)
        direct[open_] /= np.where(failed, 2, 1)
        open_ = open_[~(exact & (now == final))]
    if open_.size:
        raise ArithmeticError(
            f"{open_.size} of {z.size} fixed points were not reached in {MOST_STEPS} steps, "
            f"the first at z = {z[open_[0]]}"
        )
    return omega, steps


def convex_root(
    function: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]],
    lower: np.ndarray,
    upper: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Positive root of a convex function that is negative left of it, shape (m,).

    Parameters
    ----------
    function : callable
        (y, index of the points) -> value, slope, rounding error of the value.
    lower, upper : ndarray
        Bracket, both positive.

    Returns
    -------
    root : ndarray
        Newton's method comes from above, since the function is convex.  If it still moves by more
        than a tenth at every third step, the logarithm of the bracket is halved instead.
    steps : ndarray of int
        Evaluations, at most `MOST_REAL_STEPS`.
    """
    lower = lower.copy()
    upper = upper.copy()
    y = upper.copy()
    steps = np.zeros(upper.shape, dtype=int)
    open_ = np.arange(upper.size)
    for count in range(MOST_REAL_STEPS):
        if not open_.size:
            break
        steps[open_] += 1
        at = y[open_]
        with np.errstate(all="ignore"):
            value, slope, rounding = function(at, open_)
            newton = at - value / slope
        low = np.where(value < 0, np.maximum(at, lower[open_]), lower[open_])
        high = np.where(value >= 0, np.minimum(at, upper[open_]), upper[open_])
        settled = abs(value) <= rounding
        # The tangent of a convex function lies below it: its root is an upper bound.
        high = np.where((slope > 0) & (newton >= low), np.minimum(newton, high), high)
        lower[open_] = low
        upper[open_] = high
        halves = (slope <= 0) | (count % 3 == 2) & ~(abs(newton - at) <= 0.1 * at)
        y[open_] = np.where(settled, at, np.where(halves, np.sqrt(low) * np.sqrt(high), high))
        open_ = open_[~(settled | (high <= low * (1 + 4e-16)))]
    if open_.size:
        raise ArithmeticError(
            f"{open_.size} roots were not reached in {MOST_REAL_STEPS} steps, the first between "
            f"{lower[open_[0]]} and {upper[open_[0]]}"
        )
    return y, steps


# Error of a sum over atoms, relative to the mean size of its terms.
ROUNDING = 1e-15

# Ratio from which :math:`\Phi` is computed as in its definition.
_LARGE = 2.0

# (kernel, omega, c, excess, index of points) -> means over t of kernel(t, omega, c, excess).
Average = Callable[..., Any]


def _quotients(t: np.ndarray, omega: Value) -> tuple[np.ndarray, np.ndarray]:
    r""":math:`t/(t - \omega)`, and :math:`\omega/(t - \omega)` or 0 at t = 0."""
    with np.errstate(all="ignore"):
        return t / (t - omega), np.where(t > 0, omega / (t - omega), 0.0)


def shrinkage(t: np.ndarray, omega: Value, c: Value, excess: Value) -> np.ndarray:
    r"""Integrand of :math:`z/\omega`, in the form in which no more cancels than must."""
    r, small = _quotients(t, omega)
    return np.where(c > _LARGE, 1 - c * r, excess - c * small)


def _shrinkage_size(t: np.ndarray, omega: Value, c: Value, excess: Value) -> np.ndarray:
    """Size of what is added in `shrinkage`."""
    r, small = _quotients(t, omega)
    return np.where(c > _LARGE, 1 + c * abs(r), abs(excess) + c * abs(small))


def slope(t: np.ndarray, omega: Value, c: Value, excess: Value) -> np.ndarray:
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
