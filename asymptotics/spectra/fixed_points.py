r"""Fixed points of free convolutions, followed from far above the real axis down to it.

The transform of a free convolution is a composition with a subordination function
:math:`\omega`, analytic from the upper half plane into itself and the only solution of its
equation there (Belinschi and Bercovici, J. Anal. Math. 101 (2007) 357).  By the lemma of Schwarz
and Pick it moves by no more than z does in the hyperbolic metric: when the height
:math:`\operatorname{Im} z` shrinks by a constant factor, Newton's method started from the old
solution is close enough to converge.  Heights are lowered as fast as this allows.  On the real
axis, inside the support, :math:`\omega` itself has an imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MOST_STEPS = 200
"""Bound on the Newton steps of `follow`: 2.4 times the largest number that any of 1e5 random
sample covariances took in `benchmarks/stress_fixed_points.py`."""

MOST_REAL_STEPS = 60
"""Bound on the steps of `convex_root`: four times the largest number there."""

_NEAR = 0.3
"""A height counts as solved once a Newton step is shorter than this, in the hyperbolic metric."""

_FAR = 0.95
"""A height is given up for a larger one if the first Newton step there is longer than this."""

_CONTRACTION = 0.6
"""It is also given up if a step is longer than this part of the one before."""

_FIRST_RATIO = 1 / 16
"""First ratio of successive heights: squared at a success, replaced by its root at a failure."""

_DIRECT = 0.3
"""If the rest of the way down is estimated to be shorter than this, it is gone in one step.  The
length is halved at a failure."""

_LOWEST = 1e-40
"""Height, relative to the first one, below which a height 0 is reached in one step."""

Newton = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]
"""(omega, z, index of the points) -> Newton step to be subtracted, its hyperbolic length, its
rounding error, and the hyperbolic speed of omega as z moves."""


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
    solved, solved_at, ratio = omega.copy(), height / _FIRST_RATIO, np.full(z.shape, _FIRST_RATIO)
    limit, direct = np.full(z.shape, _FAR), np.full(z.shape, _DIRECT)
    steps = np.zeros(z.shape, dtype=int)
    open_ = np.arange(z.size)
    for _ in range(MOST_STEPS):
        if not open_.size:
            return omega, steps
        steps[open_] += 1
        at, now, q, final = omega[open_], height[open_], ratio[open_], target[open_]
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
        omega[open_], ratio[open_] = at, q
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
    lower, upper = lower.copy(), upper.copy()
    y, steps = upper.copy(), np.zeros(upper.shape, dtype=int)
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
        far = (count % 3 == 2) & ~(abs(newton - at) <= 0.1 * at)
        lower[open_], upper[open_] = low, high
        middle = np.sqrt(low) * np.sqrt(high)
        y[open_] = np.where(settled, at, np.where(far | (slope <= 0), middle, high))
        open_ = open_[~(settled | (high <= low * (1 + 4e-16)))]
    if open_.size:
        raise ArithmeticError(
            f"{open_.size} roots were not reached in {MOST_REAL_STEPS} steps, the first between "
            f"{lower[open_[0]]} and {upper[open_[0]]}"
        )
    return y, steps
