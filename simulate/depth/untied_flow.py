r"""Gradient flow of the gains of untied layers at infinite context and width.

With a covariance that is rotated at random in each context, L layers of linear attention reduce to
a gain :math:`\gamma_l` each.  Directions of eigenvalue :math:`\lambda_k` with the share
:math:`m_k` of the label variance have the loss

.. math:: \mathcal L = \sum_k m_k \prod_l (1 - \gamma_l \lambda_k/L)^2, \qquad
   \dot\gamma_l = -L\, \frac{\partial \mathcal L}{\partial \gamma_l}
   = 2 \sum_k m_k \lambda_k\, (1 - \gamma_l \lambda_k/L)
   \prod_{j \ne l} (1 - \gamma_j \lambda_k/L)^2 .

Gains that start equal stay equal.  They are one variable of the integration here: as several they
would differ by rounding, which depends on the processor and grows along the unstable direction of
a saddle.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from iclimit.checks import parse_array
from iclimit.results import Result
from iclimit.simulate.depth.draws import parse_spectrum
from iclimit.simulate.depth.matrix_flow import integrate_flow


@dataclass(frozen=True, repr=False)
class UntiedFlow(Result):
    """Training of untied layers.

    Attributes
    ----------
    times : ndarray (n,)
        Times.
    gains : ndarray (n, L)
        Gains of the layers; those of a step are these over L.
    losses : ndarray (n,)
        Losses, relative to the null predictor.
    """

    times: np.ndarray = field(repr=False)
    gains: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)


def simulate_untied_flow(
    *, eigenvalues: ArrayLike, weights: ArrayLike, initial: ArrayLike, times: ArrayLike
) -> UntiedFlow:
    r"""Follow gradient flow of the gains of untied layers.

    Parameters
    ----------
    eigenvalues : array (n,)
        Eigenvalues of the covariance of the inputs, >= 0.
    weights : array (n,)
        Shares of the label variance, >= 0, of any positive sum.
    initial : array (L,)
        Gains at time 0.
    times : array (m,)
        Times >= 0 in increasing order, in units of
        :math:`\dot\gamma_l = -L\, \partial \mathcal L/\partial \gamma_l`.

    Returns
    -------
    UntiedFlow
        With ``times``, ``gains`` and ``losses``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    ArithmeticError
        If the integrator fails.

    Notes
    -----
    Errors of the gains are some 1e-11 where the flow contracts.  Along the unstable direction of a
    saddle they grow with the asymmetry of the layers.

    References
    ----------
    Bordelon, Letey, Pehlevan, arXiv:2510.01098.

    Examples
    --------
    >>> from iclimit.simulate.depth import simulate_untied_flow
    >>> flow = simulate_untied_flow(
    ...     eigenvalues=[1.0, 0.5, 0.2], weights=[3, 2, 1], initial=[0.0, 1e-3], times=[10, 2000]
    ... )
    >>> flow.gains.round(3)
    array([[2.06 , 2.063],
           [2.021, 5.027]])
    """
    lam = parse_spectrum("eigenvalues", eigenvalues)
    mass = parse_spectrum("weights", weights, lam.shape)
    start = parse_array("initial", initial, (None,))
    if not mass.sum() > 0:
        raise ValueError("weights must have a positive sum")
    mass = mass / mass.sum()
    depth = start.size
    firsts, variable = _distinct(start)
    others = np.array([[j for j in range(depth) if j != layer] for layer in firsts], int)

    def slope(values: np.ndarray) -> np.ndarray:
        factors = 1 - values[variable, None] * lam / depth
        rest = np.prod(factors[others], axis=1)
        return 2 * np.sum(mass * lam * factors[firsts] * rest**2, axis=1)

    when, values = integrate_flow(slope, start[firsts], times)
    gains = values[:, variable]
    losses = np.prod(1 - gains[:, :, None] * lam / depth, axis=1) ** 2 @ mass
    return UntiedFlow(when, gains, losses)


def _distinct(start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First layer with each initial gain, and for each layer the number of its gain."""
    _, firsts, inverse = np.unique(start, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    return firsts[order], np.argsort(order)[inverse]
