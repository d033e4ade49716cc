r"""Effective ridges of a run's features along a contour, and the largest eigenvalue of them.

For second moments g of the summaries and d/n directions per prompt, the effective ridge of z is

.. math:: \frac nd\Bigl(1 - \frac z\xi\Bigr) = \sum_j \frac{g_j}{g_j + \xi} .

Real ones are bracketed; along a contour each is found by Newton's method from its neighbour.

The largest eigenvalue of the sample covariance S of the features is that of :math:`x(1 + T(x))`,
:math:`T = \frac dn\sum_j g_j/(x - g_j)`, at its minimum over :math:`x > \max g`.  A prompt whose
features have r times the mean squared norm adds an eigenvalue :math:`x(1 + T)` at
:math:`T = 1/(r - 1)`, if this is beyond the others.
"""

import cmath
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from iclimit.asymptotics.numbers import numpy_namespace
from iclimit.asymptotics.pretraining.icl import ridge_bracket
from iclimit.asymptotics.pretraining.training_contours import Branch
from iclimit.asymptotics.pretraining.training_time import CLOSE, MOST_NEWTON_STEPS
from iclimit.asymptotics.searches import find_roots

# Range of the logarithm of x / max g - 1 in which the largest eigenvalue is looked for.
_ABOVE = (-20.0, 20.0)


def largest_eigenvalue(g: np.ndarray, share: float, heaviest: float = 1.0) -> float:
    """Largest eigenvalue of S for summaries of these second moments (module docstring).

    ``heaviest`` is the squared norm of the features of one of the prompts, over its mean.
    """
    top = float(np.max(g))

    def excess(logarithm: float) -> float:
        return share * float(np.sum(g / (top * (1 + math.exp(logarithm)) - g)))

    def bound(logarithm: float) -> float:
        return top * (1 + math.exp(logarithm)) * (1 + excess(logarithm))

    edge = minimize_scalar(bound, bounds=_ABOVE, method="bounded")
    if (heaviest - 1) * excess(edge.x) <= 1:
        return float(edge.fun)
    outside = brentq(lambda place: (heaviest - 1) * excess(place) - 1, edge.x, _ABOVE[1])
    return bound(outside)


def followed_ridges(branch: Branch, ridge: float, g: np.ndarray, share: float) -> np.ndarray:
    """Effective ridges along a part of a contour."""
    start = branch.start + ridge
    # Below the spectrum the effective ridge of a real ridge is found from it itself.
    if start > 0:
        xis = [complex(real_ridge(start, g, share))]
    else:
        xis = [_continued(complex(start), complex(start), g, share)]
    for node in branch.z:
        xis.append(_continued(xis[-1], complex(node) + ridge, g, share))
    return np.array(xis[1:])


def _move(xi: Any, z: Any, share: float, first: Any, second: Any) -> Any:
    """Newton step of log xi, from the sums of g / (g + xi) and of g / (g + xi)^2."""
    residual = 1 - z / xi - share * first
    return -residual / (z / xi + share * xi * second)


def real_ridge(z: float, g: np.ndarray, share: float) -> float:
    """Effective ridge at a real ridge; 0 without one and with more prompts than features."""
    if z == 0 and share * len(g) <= 1:
        return 0.0
    host = numpy_namespace({})
    with host.quiet():
        upper = np.array([ridge_bracket(host, np.array(1 / (share * len(g))), g.mean(), z)])
    lower = np.array([max(z, 1e-12 * upper[0])])
    ridge = np.array([z])

    def step(xi: np.ndarray, index: np.ndarray) -> np.ndarray:  # noqa: ARG001
        m = 1 / (g + xi[..., None])
        return _move(xi, ridge, share, np.sum(g * m, axis=-1), np.sum(g * m**2, axis=-1))

    return float(find_roots(step, lower * (1 - 1e-12), upper * (1 + 1e-12), upper)[0])


def _continued(xi: complex, z: complex, g: np.ndarray, share: float) -> complex:
    """Effective ridge at a complex ridge, near that of a neighbouring one.

    Sums are complex numbers of Python, whose arithmetic is fast: a fit takes some 1e5 steps.
    """
    for _ in range(MOST_NEWTON_STEPS):
        shifted = g + xi
        shares = g / shifted
        move = _move(xi, z, share, complex(shares.sum()), complex((shares / shifted).sum()))
        xi = xi * cmath.exp(move)
        if abs(move) < CLOSE:
            return xi
    raise ArithmeticError(f"the effective ridge was not found in {MOST_NEWTON_STEPS} steps")
