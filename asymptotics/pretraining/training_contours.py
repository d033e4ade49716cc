r"""Contours on which gradient flow and gradient descent are mixtures of ridge regressions.

Gradient descent of step :math:`\eta` with momentum :math:`\beta` has taken
:math:`r = y - \langle\Gamma, \phi\rangle` in a direction of the features of eigenvalue s to
:math:`r_k(s)\, r`, with the polynomials

.. math:: r_{k+1} = (1 + \beta - \eta s)\, r_k - \beta\, r_{k-1}, \qquad
   r_0 = 1, \quad r_1 = 1 - \eta s .

With :math:`z = -s = \frac{(w - 1)(w - \beta)}{\eta w}` the recursion is solved by :math:`w^k` and
:math:`(\beta/w)^k`, and in

.. math:: \Gamma(k) = \frac1{2\pi i}\oint \frac{r_k(-z)}z\, \Gamma_z\, dz
   = \frac1{2\pi i}\oint \frac{w^k}{w - 1}\, \Gamma_{z(w)}\, dw

the second solution drops out: it is analytic outside of the contour, which goes around 1 and all
w of the spectrum.  These are in the unit circle where :math:`\eta s < 2(1 + \beta)`, which is the
range of stable steps, and without momentum w is :math:`1 - \eta s`.

**Rules.**  Until the memory :math:`\beta^{k/2}` is below rounding, the contour is a circle of
radius :math:`e^{7/k}`.  Its trapezoidal rule of some 4 k nodes is accurate to :math:`e^{-21}`.
Later only the neighbourhoods of 1 and -1 count, where :math:`|w|^k` is not small: there
:math:`\ln w^k` and :math:`\ln (-w)^k` are on the parabola of
`iclimit.asymptotics.pretraining.training_time`, on which a flow is integrated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ellipj, ellipk, ellipkm1

from iclimit.asymptotics.pretraining.training_time import PARABOLA, parabola

# Logarithm of the largest size of w^k on a circle.  Errors have its square: rounding is to 1e-10.
GROWTH = 7.0

# Nodes of a circle for each step, and more: neglected terms are exp(-4 * 7 + 7) of the sum.
NODES_A_STEP = 4
MORE_NODES = 8

# Steps from which parabolas around 1 and -1 do not meet.
LEAST_STEPS = 12

# Logarithm of the size of w^k from which on it does not count.
NEGLIGIBLE = 25.0

# Most nodes of a circle; all pairs of half of them take 1 s with 100 eigenvalues.
MOST_NODES = 2400

# Nodes of half a closed contour, its distance from the spectrum in units of the largest one, and
# where it may cross the real axis, in units of 1 / time.
HALF = 64
ASIDE = 0.25
RIGHT = 3.0


@dataclass(frozen=True)
class Branch:
    r"""Part of a contour above or below the real axis, with its mirror image.

    Attributes
    ----------
    start : float
        Real ridge next to the first node, outside of the spectrum.
    z : ndarray (nodes,)
        Ridges; each is near the one before.
    weights : ndarray (nodes,)
        Twice the real part of the sum of weights times :math:`\Gamma_z` is :math:`\Gamma`.
    """

    start: float
    z: np.ndarray
    weights: np.ndarray


def flow_contour(time: float) -> list[Branch]:
    """Contour of a flow of a positive finite time."""
    nodes, weights = parabola()
    return [Branch(PARABOLA / time, nodes / time, weights)]


def descent_contour(steps: int, step: float, momentum: float) -> list[Branch]:
    r"""Contour of steps of gradient descent of the length :math:`\eta`, with momentum.

    Raises
    ------
    ValueError
        If momentum is so large that the contour has too many nodes.
    """
    forgotten = 2 * NEGLIGIBLE / math.log(1 / momentum) if momentum > 0 else 0.0
    if steps <= max(LEAST_STEPS, forgotten):
        return [_circle(steps, step, momentum)]
    return [_parabola(sign, steps, step, momentum) for sign in (1.0, -1.0)]


def _ridges(w: np.ndarray, step: float, momentum: float) -> np.ndarray:
    """Ridges z at values of w."""
    return (w - 1) * (w - momentum) / (step * w)


def _circle(steps: int, step: float, momentum: float) -> Branch:
    """Upper half of a circle, from the right."""
    half = math.ceil((NODES_A_STEP * steps + MORE_NODES) / 2)
    if 2 * half > MOST_NODES:
        longest = (MOST_NODES - MORE_NODES) // NODES_A_STEP
        least = math.ceil(2 * NEGLIGIBLE / math.log(1 / momentum))
        raise ValueError(
            f"momentum must be smaller for {steps} steps to be predicted, got {momentum!r}: with "
            f"it, steps are at most {longest} or more than {least}"
        )
    radius = math.exp(GROWTH / steps)
    w = radius * np.exp(1j * math.pi * (np.arange(half) + 0.5) / half)
    start = float(_ridges(np.array(radius), step, momentum))
    return Branch(start, _ridges(w, step, momentum), w ** (steps + 1) / (w - 1) / (2 * half))


def _parabola(sign: float, steps: int, step: float, momentum: float) -> Branch:
    """Half of the neighbourhood of 1 or, with the other sign, of -1."""
    nodes, weights = parabola()
    logarithm = nodes / steps
    w = sign * np.exp(logarithm)
    start = float(_ridges(np.array(sign * math.exp(PARABOLA / steps)), step, momentum))
    # On the parabola weights are for an integral over d log / log.
    z = _ridges(w, step, momentum)
    return Branch(start, z, sign**steps * weights * logarithm * w / (w - 1))


def closed_contour(largest: float, time: float) -> Branch:
    r"""Contour around a spectrum in [-largest, 0], for functions like exp(z t) with t <= time.

    Twice the real part of the sum of weights times F(z) is :math:`\frac1{2\pi i}\oint F\,dz` for
    functions that are real on the real axis.  In elliptic functions (Hale, Higham and Trefethen,
    SIAM J. Numer. Anal. 46, 2505 (2008)), whose rule converges as fast as the logarithm of
    largest * time allows: with 64 nodes to 1e-10 where that product is 1e4, and to 1e-8 at 1e6.
    """
    # One for longer times is one for short ones, too, and nodes should not be far off.
    inner = RIGHT / max(time, 1 / largest)
    outer = inner + largest
    # The nodes surround [inner, outer] at x = inner - z.
    root = math.sqrt(outer / inner)
    modulus = (root - 1) / (root + 1)
    complement = 4 * root / (root + 1) ** 2
    quarter = float(ellipkm1(complement))
    real = ellipj(quarter * ((2 * np.arange(HALF) + 1) / HALF - 1), modulus**2)
    imaginary = ellipj(ASIDE * float(ellipk(complement)), complement)
    sn, slope = _sine_amplitude(real[:3], imaginary[:3], modulus**2)
    scale = math.sqrt(inner * outer)
    x = scale * (1 / modulus + sn) / (1 / modulus - sn)
    velocity = scale * 2 / modulus * slope / (1 / modulus - sn) ** 2
    # From the right to the left below the real axis is clockwise, and dz = -dx.
    return Branch(inner, inner - x, velocity * 2 * quarter / HALF / (2j * math.pi))


def _sine_amplitude(
    real: Sequence[np.ndarray], imaginary: Sequence[float], parameter: float
) -> tuple[np.ndarray, np.ndarray]:
    """Jacobi's sn at complex arguments, and its derivative cn dn, from sn, cn, dn of both parts.

    Those of the imaginary part are of the complementary parameter.
    """
    s, c, d = real
    s1, c1, d1 = imaginary
    common = 1 - d**2 * s1**2
    sn = (s * d1 + 1j * c * d * s1 * c1) / common
    cn = (c * c1 - 1j * s * d * s1 * d1) / common
    dn = (d * c1 * d1 - 1j * parameter * s * c * s1) / common
    return sn, cn * dn
