r"""The ridge that minimises the asymptotic ICL or IDG error.

The effective ridge :math:`\xi` parametrises the ridge explicitly,
:math:`\lambda = \eta\xi` with
 :math:`\eta = 1 - (1 - \xi M_\kappa(q + \xi))/\tau`, so the error along the path of ridges
needs no root finding.  The path is scanned from the ridgeless point on, and the best bracket is
minimised; the error may have several local minima in the ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import check_choice, checked
from iclimit.asymptotics.numbers import Number
from iclimit.asymptotics.pretraining.effective_ridge import context_noise, ridgeless_point
from iclimit.asymptotics.pretraining.icl import errors_at, icl_error, idg_error
from iclimit.asymptotics.spectra import wishart_resolvent
from iclimit.asymptotics.spectra.resolvent import excess

_SCAN = np.linspace(np.log(1e-14), np.log(1e16), 181)
"""Scanned values of log(xi - xi_ridgeless), in units of 1 + q; the optimum can be as large as
(1 + rho)(1 + q)/tau."""

_BETTER = 1 - 1e-13
"""A positive ridge must gain more than rounding, or noise would pass for an optimum."""


@dataclass(frozen=True)
class OptimalRidge:
    """Optimal ridge and the error reached with it."""

    ridge: Any
    error: Any


def optimal_ridge(
    *, tau: Number, alpha: Number, kappa: Number, rho: Number, objective: str = "icl"
) -> OptimalRidge:
    """Find the ridge with the least asymptotic error.

    Parameters
    ----------
    tau, alpha, kappa, rho : number or array
        As in `icl_error`.
    objective : {"icl", "idg"}
        Error to minimise: on fresh tasks or on the pretraining tasks.

    Returns
    -------
    OptimalRidge
        With fields ``ridge`` (0 where no positive ridge is better) and ``error``, NumPy floats or
        arrays.  The error is accurate to 1e-12 relative.  The ridge is accurate to about 1e-6
        only, since the error is flat at its minimum.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import optimal_ridge
    >>> best = optimal_ridge(tau=1.0, alpha=1.0, kappa=0.5, rho=0.1)
    >>> round(float(best.ridge), 3), round(float(best.error), 3)
    (4.205, 0.997)
    """
    check_choice("objective", objective, ("icl", "idg"))
    math_, values = checked(systems="numpy", tau=tau, alpha=alpha, kappa=kappa, rho=rho)
    arrays = np.broadcast_arrays(*values)
    shape = arrays[0].shape
    tau, alpha, kappa, rho = (array.ravel() for array in arrays)
    with math_.quiet():
        q = np.asarray(context_noise(math_, alpha, rho))
        start = np.asarray(ridgeless_point(math_, tau < 1, tau, q, kappa)[0])

        def point(step: Any, tau: Any, q: Any, kappa: Any, start: Any) -> tuple[Any, Any]:
            xi = start + (1 + q) * np.exp(step)
            eta = excess(math_, tau, 1) + xi * wishart_resolvent(q + xi, kappa) / tau
            # Rounding can put the first scanned points below the ridgeless point, where eta = 0.
            return xi, np.maximum(eta, 0.0)

        def error(step: Any, tau: Any, q: Any, kappa: Any, start: Any, rho: Any) -> Any:
            pair = errors_at(math_, tau, kappa, rho, q, *point(step, tau, q, kappa, start))
            return pair[0 if objective == "icl" else 1]

        arguments = (tau, q, kappa, start, rho)
        scanned = np.stack([error(step, *arguments) for step in _SCAN])
        best = np.clip(np.argmin(scanned, axis=0), 1, len(_SCAN) - 2)
        bracket = tuple(_SCAN[best + shift] for shift in (-1, 0, 1))
        inside = np.take_along_axis(scanned, best[None], 0)[0] <= np.minimum(
            *(np.take_along_axis(scanned, best[None] + shift, 0)[0] for shift in (-1, 1))
        )
        ridgeless = {"icl": icl_error, "idg": idg_error}[objective](
            tau=tau, alpha=alpha, kappa=kappa, rho=rho
        )
        value = np.asarray(ridgeless).copy()
        # At the upper end of the scan the error is constant up to rounding: no refinement.
        last = np.argmin(scanned, axis=0) == len(_SCAN) - 1
        last &= scanned[-1] < value * _BETTER
        xi, eta = point(_SCAN[-1], *arguments[:4])
        ridge = np.where(last, xi * eta, 0.0)
        value[last] = scanned[-1][last]
        chosen = tuple(v[inside] for v in arguments)
        found = elementwise.find_minimum(error, tuple(v[inside] for v in bracket), args=chosen)
        xi, eta = point(found.x, *chosen[:4])
        better = found.f_x < value[inside] * _BETTER
        ridge[inside] = np.where(better, xi * eta, ridge[inside])
        value[inside] = np.where(better, found.f_x, value[inside])
    return OptimalRidge(ridge.reshape(shape)[()], value.reshape(shape)[()])
