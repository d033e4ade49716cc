r"""The test and training covariances of least ICL error.

The error is affine in the test covariance (`iclimit.asymptotics.pretraining.structured_slopes`).
So at fixed trace the best test covariance has rank one, on the eigenvector of least slope.  At a
fixed test spectrum the largest eigenvalue belongs to the least slope, and so on (rearrangement
inequality).  As a function of the training spectrum the error is not convex: its minimum is
searched for from several starts.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from iclimit.asymptotics.checks import check_choice
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum, coupled
from iclimit.asymptotics.pretraining.structured import errors_of
from iclimit.asymptotics.pretraining.structured_fixed_point import (
    Settings,
    check_settings,
    finite_context,
)
from iclimit.asymptotics.pretraining.structured_slopes import (
    require_point,
    slopes_at,
    task_gradient,
)


@dataclass(frozen=True)
class BestCovariance:
    """A covariance that minimises the ICL error, and the error.

    Attributes
    ----------
    spectrum : JointSpectrum
        Joint spectrum with the best test or training covariance.
    icl : float
        ICL error with it.
    """

    spectrum: JointSpectrum
    icl: float


def best_test_covariance(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    spectrum: JointSpectrum,
    test_alpha: float | None = None,
    test_rho: float | None = None,
    fixed: str = "trace",
) -> BestCovariance:
    """The test covariance of least ICL error for a given training covariance.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha, test_rho
        As in `structured_errors`, numbers only.
    fixed : {"trace", "spectrum"}
        What is kept of the test covariance: its trace (the best one is then concentrated on one
        atom), or its eigenvalues (the best one then pairs them with the slopes in opposite order).

    Returns
    -------
    BestCovariance
        A global minimum.

    Raises
    ------
    ValueError
        If an argument is outside its range, or fixed has another value.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, best_test_covariance
    >>> spectrum = JointSpectrum.of_matrices([1.6, 0.4], test_covariance=[1.0, 1.0])
    >>> best = best_test_covariance(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> best.spectrum.task, best.spectrum.test
    (array([0.4, 1.6]), array([0., 2.]))
    """
    check_choice("fixed", fixed, ("trace", "spectrum"))
    settings = check_settings(tau, finite_context(alpha), kappa, rho, ridge, test_alpha, test_rho)
    slopes = slopes_at(spectrum, settings)
    if not np.all(np.isfinite(slopes)):
        raise ArithmeticError("no test covariance is best: the error is infinite for all")
    if fixed == "trace":
        place = int(np.argmin(slopes))
        test = np.zeros_like(slopes)
        test[place] = spectrum.weight @ spectrum.test / spectrum.weight[place]
        best = dataclasses.replace(spectrum, test=test)
    else:
        order, falling = np.argsort(slopes), np.argsort(spectrum.test)[::-1]
        atoms = np.column_stack([spectrum.task, spectrum.inputs])[order]
        columns, weight = coupled(
            atoms, spectrum.weight[order], spectrum.test[falling], spectrum.weight[falling]
        )
        best = JointSpectrum(columns[:, 0], columns[:, 2], columns[:, 1], weight)
    return BestCovariance(best, _icl(best, settings))


def best_training_covariance(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    spectrum: JointSpectrum,
    test_alpha: float | None = None,
    test_rho: float | None = None,
) -> BestCovariance:
    """The training covariance of least ICL error for a given test covariance, at its trace.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha, test_rho
        As in `structured_errors`, numbers only.  The task eigenvalues give the trace that is kept
        and one of the starts.

    Returns
    -------
    BestCovariance
        The best local minimum found from four starts (the given spectrum, a flat one, that of the
        tests and its root), by sequential quadratic programming with exact gradients.  No proof
        that it is global.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    ArithmeticError
        If the error is infinite at every start.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, best_training_covariance
    >>> spectrum = JointSpectrum.of_matrices([1.0, 1.0], test_covariance=[1.6, 0.4])
    >>> best = best_training_covariance(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> bool(best.spectrum.task[1] > best.spectrum.task[0])  # more where tests vary more
    True
    """
    settings = check_settings(tau, alpha, kappa, rho, ridge, test_alpha, test_rho)
    require_point(settings)
    p = spectrum.weight
    trace = p @ spectrum.task

    def with_shares(shares: np.ndarray) -> JointSpectrum:
        shares = np.maximum(shares, 0.0)
        return dataclasses.replace(spectrum, task=trace * shares / (p * shares.sum()))

    def error(shares: np.ndarray) -> tuple[float, np.ndarray]:
        current = with_shares(shares)
        gradient = task_gradient(current, settings) * trace / p
        return _icl(current, settings), gradient - gradient @ shares / shares.sum()

    starts = [spectrum.task, np.ones_like(p), spectrum.test, np.sqrt(spectrum.test)]
    found = []
    for start in starts:
        if not np.any(start):
            continue
        shares = p * start / (p @ start)
        if not math.isfinite(_icl(with_shares(shares), settings)):
            continue
        result = minimize(
            error,
            shares,
            jac=True,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * len(p),
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-12, "maxiter": 300},
        )
        best = with_shares(result.x)
        found.append(BestCovariance(best, _icl(best, settings)))
    if not found:
        raise ArithmeticError("the ICL error is infinite whatever the training covariance")
    return min(found, key=lambda best: best.icl)


def _icl(spectrum: JointSpectrum, settings: Settings) -> float:
    return float(errors_of(spectrum, settings).icl)
