r"""The saddle at equal layers: untied layers that start alike learn like tied ones for a while.

The loss of untied layers is :math:`\int \prod_l (1 - \gamma_l x/L)^2 d\sigma`
(`iclimit.asymptotics.depth.untied`).
At a balanced point, :math:`\gamma_l = \gamma` for all l, one layer raised by
:math:`\epsilon` and another lowered by it change the loss by :math:`-2\epsilon^2 I_2/L^2`,

.. math:: I_2 = \int x^2 (1 - \gamma x/L)^{2L - 2}\, d\sigma > 0 .

So for L >= 2 every balanced point is a saddle or worse.  In the time of
:math:`\dot\gamma_l = -L\,\partial\mathcal L/\partial\gamma_l` small asymmetries grow at the rate
:math:`2 I_2/L`.  At the balanced optimum for the power law this rate tends to
:math:`2\beta\,\Gamma(\beta + 1)/(4^{\beta + 1} L^{\beta + 2})`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from iclimit.asymptotics.checks import check_integers, real_array
from iclimit.asymptotics.depth.untied import parse_label_spectrum
from iclimit.asymptotics.numbers import Number, Value
from iclimit.results import Result


@dataclass(frozen=True, repr=False)
class BalancedSaddle(Result):
    r"""The best balanced point of untied layers: a saddle for two layers or more.

    Attributes
    ----------
    gamma : float
        Gain :math:`\gamma` that all layers have; each step is :math:`\gamma/L`.
    loss : float
        Loss there, that of the best tied layers.
    curvature : float
        Second derivative of the loss in :math:`\epsilon` as one gain rises and another falls by
        :math:`\epsilon`: negative.
    growth_rate : float
        Rate at which small differences of gains grow, in the time of
        :math:`\dot\gamma_l = -L\, \partial \mathcal L/\partial \gamma_l`.
    """

    gamma: float
    loss: float
    curvature: float
    growth_rate: float

    def escape_time(self, asymmetry: Number) -> Value:
        """Time in which a small difference of gains grows to order one.

        Parameters
        ----------
        asymmetry : number or array in (0, 1)
            Difference of gains at the balanced point.

        Returns
        -------
        number or array
            The logarithm of 1/asymmetry over the growth rate; ``inf`` for one layer.

        Raises
        ------
        ValueError
            If asymmetry is outside its range.
        """
        start = real_array("asymmetry", asymmetry)
        if self.growth_rate == 0:
            return np.full(start.shape, math.inf)[()]
        return (-np.log(start) / self.growth_rate)[()]


def balanced_saddle(eigenvalues: ArrayLike, *, weights: Number, depth: int) -> BalancedSaddle:
    r"""The best balanced point of untied layers, and how fast its symmetry breaks.

    Parameters
    ----------
    eigenvalues, weights, depth
        As in `untied_depth`, with an eigenvalue above 0.

    Returns
    -------
    BalancedSaddle
        With fields ``gamma``, ``loss``, ``curvature``, ``growth_rate`` and the method
        ``escape_time``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    TypeError
        If an argument is not a number.

    Notes
    -----
    Gradient flow from exactly equal layers stays at equal layers.  The saddle matters for every
    other start and for stochastic gradients: then the layers reach the balanced loss first, and
    leave it after the escape time.  For the power law both times grow as
    :math:`L^{\beta + 2}`; escape takes longer by the factor :math:`\ln(1/\epsilon)` and a
    constant.

    References
    ----------
    Balanced flow: arXiv:2510.01098.  Curvature and rate: module
    `iclimit.asymptotics.depth.saddle`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.depth import balanced_saddle
    >>> k = np.arange(1.0, 1001.0)
    >>> saddle = balanced_saddle(1 / k, weights=1 / k**2, depth=3)
    >>> round(saddle.loss, 4), round(float(saddle.escape_time(1e-3)))
    (0.0639, 527)
    """
    x, mass = parse_label_spectrum(eigenvalues, weights)
    check_integers(depth=depth)
    if x[-1] == 0:
        raise ValueError("eigenvalues must have one > 0, got zeros only")
    share = mass / mass.sum()
    relative = x / x[-1]

    def slope(step: float) -> float:
        return float(np.sum(share * relative * (1 - step * relative) ** (2 * depth - 1)))

    # At 0 the slope is positive.  At 2 the largest eigenvalue contributes its bare weight with a
    # minus sign and no other outweighs its own start; beyond, the slope falls to minus infinity.
    high = 2.0
    while slope(high) > 0:
        high *= 2
    step = float(brentq(slope, 0.0, high, xtol=1e-15, rtol=1e-15))
    factor = 1 - step * relative
    curved = float(np.sum(share * x**2 * factor ** (2 * depth - 2)))
    rate = 2 * curved / depth if depth > 1 else 0.0
    curvature = -4 * curved / depth**2 if depth > 1 else 0.0
    loss = float(np.sum(share * factor ** (2 * depth)))
    return BalancedSaddle(step * depth / float(x[-1]), loss, curvature, rate)
