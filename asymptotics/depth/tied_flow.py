r"""Gradient flow of linear attention with L tied layers.

The reduced matrix starts at 0 and follows :math:`\Gamma' = -\frac d2 \nabla_\Gamma \mathcal L` of
the loss :math:`\mathcal L` of `iclimit.asymptotics.depth.tied_loss`.

* For isotropic data and for covariances in a random basis the flow keeps
  :math:`\Gamma = \gamma I`, and :math:`\gamma' = -\frac12 \partial_\gamma \mathcal L`.  It ends at
  the first stationary point.
* For fixed commuting covariances it keeps :math:`\Gamma` diagonal in their basis.  At infinite
  context each eigenvalue moves on its own, :math:`g' = \omega \lambda^2 u^{2L-1}` with
  :math:`u = 1 - \lambda g/L`, so that

  .. math:: \mathcal L(t) = \Bigl\langle \omega \lambda \Bigl[1 + \Bigl(2 - \frac2L\Bigr)
     \omega \lambda^3 t\Bigr]^{-L/(L-1)} \Bigr\rangle,

  :math:`e^{-2 \omega \lambda^3 t}` for one layer and :math:`(1 + 2 \omega \lambda^3 t)^{-1}` for
  infinitely many.

With time, depth, width and context all finite this is the joint scaling law in numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from iclimit.asymptotics.checks import checked, real_array
from iclimit.asymptotics.depth.depth_loss import RANGES, check_depths
from iclimit.asymptotics.depth.population import Inputs, Population
from iclimit.asymptotics.depth.tied_loss import TiedLoss, largest_gamma
from iclimit.asymptotics.numbers import Number, Value
from iclimit.results import Result
from iclimit.threads import one_blas_thread

# Relative accuracy of the integration of gamma; errors of a flow to a minimum do not grow.
_ACCURACY = 1e-11

# Evaluations of the slope, of which a flow takes some thousand: more are spent on rounding.
_MOST_CALLS = 200_000


@dataclass(frozen=True, repr=False)
class TiedFlow(Result):
    r"""Training curve of tied layers.

    Attributes
    ----------
    loss : float or ndarray
        Mean squared error on a noiseless query label, shape of the times.
    gamma : float or ndarray
        :math:`\gamma` at these times; with fixed covariances the eigenvalues of :math:`\Gamma`,
        in ascending order of those of the inputs, along a last axis.
    """

    loss: Value
    gamma: Value


@one_blas_thread
def tied_flow(
    *,
    times: Number,
    depth: int | float,
    spectrum: Inputs | None = None,
    task_spectrum: ArrayLike | None = None,
    alpha: float = np.inf,
    width_ratio: float = np.inf,
    noise_variance: float = 0.0,
    setting: str = "rrs",
) -> TiedFlow:
    r"""Loss of L tied layers along gradient flow from zero.

    Parameters
    ----------
    times : array
        Times t >= 0 of :math:`\Gamma' = -\frac d2 \nabla_\Gamma \mathcal L`.
    depth : int >= 1, or inf
        Number L of layers.
    spectrum, task_spectrum, alpha, width_ratio, noise_variance, setting
        As in `depth_loss`, single numbers; with fixed covariances (``"fs"``) the context must be
        infinite.

    Returns
    -------
    TiedFlow
        Loss and reduced matrix at the times.

    Raises
    ------
    ValueError
        If an argument is outside its range or missing.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If float64 does not resolve the flow: at contexts below some hundredth of the dimension, or
        where an infinitely deep flow leaves its range.

    Notes
    -----
    The relative error of gamma is below 1e-9.  The flow of the paper has other time units: there
    losses are traces rather than means, and factors of 2 vary.  A projection of rank N < d has the
    mean size N/d: times are then longer by the square of d/N than for one that keeps the scale.

    References
    ----------
    Bordelon, Letey, Pehlevan, arXiv:2510.01098v1: settings, reduction and infinite depth.  The
    solution at finite depth, and finite context and width: module
    `iclimit.asymptotics.depth.tied_flow`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.depth import tied_flow
    >>> lam = np.arange(1, 201) ** -1.2
    >>> for alpha in (np.inf, 0.5):
    ...     flow = tied_flow(times=[0, 1e2, 1e4], depth=8, spectrum=lam, alpha=alpha)
    ...     print((flow.loss / lam.mean()).round(5))
    [1.      0.75482 0.35903]
    [1.      0.76037 0.39507]
    """
    _, values = checked(
        systems="numpy",
        single=True,
        ranges=RANGES,
        depth=depth,
        alpha=alpha,
        width_ratio=width_ratio,
        noise_variance=noise_variance,
    )
    L = values.depth
    aspect = values.alpha
    width = values.width_ratio
    noise = values.noise_variance
    check_depths(L)
    t = real_array("times", times, "[0, inf)")
    if not t.size:
        raise ValueError("times must have at least one number, got none")
    population = Population.parse(setting, spectrum, task_spectrum)
    if setting == "fs":
        if aspect < np.inf or width < 1:
            raise ValueError(
                "alpha and width_ratio must be inf for setting='fs', got "
                f"{float(aspect)} and {float(width)}"
            )
        return _fixed(population, t, L)
    population.check_noise(noise, aspect)
    law = population.law(float(aspect), float(width))
    most = np.minimum(largest_gamma(law, L), 2 * L / law.edges[1])
    loss = TiedLoss.reaching(law, population.tasks_at(law), np.atleast_1d(L), np.atleast_1d(most))
    gamma = _integrated(loss, t, L, noise, float(most))
    losses = loss.value(np.broadcast_to(L, t.shape), gamma, noise)
    return TiedFlow(np.asarray(losses)[()], gamma[()])


def _fixed(population: Population, t: np.ndarray, L: np.ndarray) -> TiedFlow:
    """The flow of each eigenvalue, in closed form."""
    law = population.law(np.inf, np.inf)
    lam = law.values
    omega = population.tasks_at(law)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = t[..., None] * omega * lam**3
        many = np.log1p((2 - 2 / L) * reach) / (2 - 2 / L)
        # Minus L times the logarithm of u.
        fall = reach if L == 1 else many
        size = fall if np.inf == L else -L * np.expm1(-fall / L)
        gamma = np.where(lam > 0, size / lam, 0.0)
    return TiedFlow((np.exp(-2 * fall) @ (law.weights * omega * lam))[()], gamma[()])


def _integrated(
    loss: TiedLoss, t: np.ndarray, L: np.ndarray, noise: np.ndarray, most: float
) -> np.ndarray:
    """Gamma at given times, in any order."""
    # In units of these nothing is small or large, however much noise there is.
    scale = float(np.minimum(loss.best_of_one_layer(noise), most))
    start = -float(loss.slope(L, 0.0, noise)) / 2
    wanted, where = np.unique(t * start / scale, return_inverse=True)
    if not wanted[-1]:
        return np.zeros(t.shape)

    calls = count()

    def speed(_: float, share: np.ndarray) -> np.ndarray:
        if next(calls) == _MOST_CALLS:
            raise ArithmeticError(
                f"float64 does not resolve the flow at alpha = {loss.law.alpha:g}, noise_variance "
                f"= {float(noise):g} and times up to {t.max():g}"
            )
        gamma = scale * share
        return -loss.slope(np.broadcast_to(L, gamma.shape), gamma, noise) / (2 * start)

    def leaves(_: float, share: np.ndarray) -> float:
        return float(scale * share[0] - most)

    leaves.terminal = True  # type: ignore[attr-defined]
    solution = solve_ivp(
        speed,
        (0.0, float(wanted[-1])),
        np.zeros(1),
        method="LSODA",
        t_eval=wanted,
        rtol=_ACCURACY,
        atol=_ACCURACY * 1e-6,
        events=leaves,
    )
    if solution.status != 0:
        raise ArithmeticError(
            f"the flow leaves gamma <= {most:g}, beyond which float64 does not resolve the loss, "
            f"before the last of the times, {t.max():g}"
        )
    return scale * solution.y[0][where].reshape(t.shape)
