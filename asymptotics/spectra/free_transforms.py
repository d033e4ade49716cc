r"""R- and S-transform of a spectral measure, by integration, and free cumulants.

With Voiculescu's :math:`G(z) = -m(z)` and the eta transform :math:`\eta`,

.. math:: G\bigl(R(x) + 1/x\bigr) = x, \qquad
   \eta\Bigl(-\frac{x}{1+x} S(x)\Bigr) = 1 + x.

R is additive under free sums, S multiplicative under free products.

Both are computed without inverting G or :math:`\eta`, whose inverses cancel at x = 0:
they are the roots R and S = 1/v of

.. math:: \int \frac{R - t}{1 + x (R - t)}\, d\mu(t) = 0, \qquad
   \int \frac{t}{v (1 + x) - x t}\, d\mu(t) = 1,

both monotone, with R(0) the mean and S(0) its inverse.

Free cumulants are what adds under free convolution.  With :math:`M(x) = 1 + \sum_n m_n x^n` and
free cumulants :math:`\kappa_s`, the coefficients of the R-transform :math:`\sum_s \kappa_s
x^{s-1}`,

.. math:: m_n = \sum_{s=1}^n \kappa_s\, [x^{n-s}]\, M(x)^s,

the sum over non-crossing partitions by the block of their first element (Speicher, Math. Ann.
298 (1994) 611).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.integration import FAR

# The equations are solved up to this fraction of the distance at which their poles reach an edge.
_MARGIN = 1e-9


class Measure(Protocol):
    """Members of a spectral measure that the transforms need."""

    @property
    def mean(self) -> Value: ...

    @property
    def _ends(self) -> tuple[float, float]: ...

    def _mass_of_atoms(self, x: np.ndarray) -> np.ndarray: ...

    def expect(self, kernel: Callable[..., Any], pole: Number, *arguments: Any) -> Value: ...


def r_transform(measure: Measure, x: np.ndarray, derivative: int) -> Value:
    """R-transform of a measure or its derivative, at finite x."""
    lower, upper = measure._ends
    mean = measure.mean
    _check_unbounded(upper, x, derivative)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = (1 - _MARGIN) / x
        low = np.where(x > 0, np.maximum(mean, upper - inverse), np.where(x < 0, lower, mean))
        high = np.where(x > 0, upper, np.where(x < 0, np.minimum(mean, lower - inverse), mean))

    def average(kernel: Callable, r: Value, x: Value) -> Value:
        with np.errstate(divide="ignore", over="ignore"):
            pole = np.where(abs(x) < 1e-300, FAR, r + 1 / x)
        return measure.expect(kernel, pole, r, x)

    def equation(r: np.ndarray, x: np.ndarray) -> np.ndarray:
        return average(lambda t, r, x: (r - t) / (1 + x * (r - t)), r, x)

    root = _monotone_root(equation, low, high, x, "G at the edges of the support")
    if derivative == 0:
        return root
    spread = average(lambda t, r, x: ((r - t) / (1 + x * (r - t))) ** 2, root, x)
    return spread / average(lambda t, r, x: (1 + x * (r - t)) ** -2.0, root, x)


def s_transform(measure: Measure, x: np.ndarray, derivative: int) -> Value:
    """S-transform of a measure on [0, inf) or its derivative."""
    lower, upper = measure._ends
    mean = measure.mean
    if lower < 0 or not mean > 0:
        raise ValueError(f"s_transform needs a support in [0, inf), not {{0}}, got {measure}")
    least = float(measure._mass_of_atoms(np.zeros(()))) - 1
    if np.any((x <= least) | (x == np.inf)):
        raise ValueError(f"x must be > {least} and finite, got {x}")
    _check_unbounded(upper, x, derivative)
    with np.errstate(invalid="ignore"):
        edge = (1 + _MARGIN) * upper * x / (1 + x)
    low = np.where(x > 0, np.maximum(mean, edge), np.where(x < 0, max(lower, 1e-30), mean))
    high = np.where(x > 0, upper, mean)

    def average(kernel: Callable, v: Value, x: Value) -> Value:
        """Mean of kernel(t, u, v), where u = v (1 + x) - x t vanishes at the pole."""
        with np.errstate(divide="ignore", over="ignore"):
            pole = np.where(abs(x) < 1e-300, FAR, v * (1 + x) / x)
        return measure.expect(lambda t, v, x: kernel(t, v * (1 + x) - x * t, v), pole, v, x)

    def equation(v: np.ndarray, x: np.ndarray) -> np.ndarray:
        return 1 - average(lambda t, u, _: t / u, v, x)

    root = _monotone_root(equation, low, high, x, "the bounds set by the support")
    if derivative == 0:
        return 1 / root
    slope = average(lambda t, u, v: t / u * ((v - t) / u), root, x)
    return slope / (average(lambda t, u, _: t / u**2, root, x) * (1 + x) * root**2)


def _check_unbounded(upper: float, x: np.ndarray, derivative: int) -> None:
    """Over an unbounded support, at 0, the derivatives are moments, which may not exist."""
    if np.isinf(upper) and derivative and np.any(x >= 0):
        raise ValueError(f"x must be < 0 for a derivative over an unbounded support, got {x}")
    if np.isinf(upper) and np.any(x > 0):
        raise ValueError(f"x must be <= 0 for an unbounded support, got {x}")


def _monotone_root(
    equation: Callable, low: Value, high: Value, x: np.ndarray, bounds: str
) -> Value:
    """Root of an increasing function in a bracket; of a bracket of one point, the point."""
    low, high, x = np.broadcast_arrays(low, high, x)
    root = np.array(high)
    wide = high - low > 4e-16 * abs(high)
    roots = elementwise.find_root(equation, (low[wide], high[wide]), args=(x[wide],))
    if not np.all(roots.success):
        raise ValueError(f"x must lie within {bounds}, got {x[wide][~roots.success][0]}")
    root[wide] = roots.x
    return root[()]


def moments_of_cumulants(cumulants: Sequence[Any]) -> list[Value]:
    """Moments of orders 1, ..., n from as many free cumulants; any numbers, or arrays of them."""
    moments: list[Any] = []
    for order in range(1, len(cumulants) + 1):
        moments.append(_outer_blocks(cumulants[:order], moments, order))
    return moments


def cumulants_of_moments(moments: Sequence[Any]) -> list[Value]:
    """Free cumulants of orders 1, ..., n from as many moments; any numbers, or arrays of them."""
    cumulants: list[Any] = []
    for order, moment in enumerate(moments, start=1):
        cumulants.append(moment - _outer_blocks(cumulants, moments, order))
    return cumulants


def _outer_blocks(cumulants: Sequence[Value], moments: Sequence[Value], order: int) -> Value:
    """Sum over s of kappa_s [x^(order - s)] M^s, which asks for moments below that order only."""
    series = [1, *moments[: order - 1]]
    total = 0
    power = [1] + [0] * (order - 1)
    for size, cumulant in enumerate(cumulants, start=1):
        power = [
            sum(power[i] * series[n - i] for i in range(n + 1)) for n in range(order - size + 1)
        ]
        total = total + cumulant * power[order - size]
    return total
