r"""Bayes estimators: on all tasks (ridge regression) and on the pretraining tasks (dMMSE).

Same setting and limit as `iclimit.asymptotics.icl`: contexts of length :math:`\alpha d` with
label noise :math:`\rho`.  Let :math:`x = \rho/\alpha`, :math:`M = M_\alpha(x)` and
:math:`w = 1 + M/\alpha`; the spectrum of the context's Gram matrix is Marchenko-Pastur of ratio
:math:`1/\alpha`.

*All tasks*, :math:`w \sim N(0, I_d)`: the Bayes estimator is ridge regression on the context at
its optimal ridge and has error :math:`\rho + xM`.

*Pretraining tasks*: the posterior mean over :math:`k = e^{\theta d}` tasks, "discrete minimum mean
squared error" (Raventos, Paul, Chen, Ganguli, NeurIPS 2023).  Its limit is derived by the
random-energy argument (heuristic; checked against simulation in `iclimit.validation`): let
:math:`I = \frac12 \int \log(1 + \alpha\lambda/\rho)\, d\mu` be the information of a context.

* :math:`\theta > I`: the tasks look like a continuum and dMMSE equals ridge regression;
* :math:`\theta < I`: one task dominates the posterior.  On pretraining tasks it is the true one
  and the error is :math:`\rho`.  On fresh tasks it is the nearest one, as if the noise were
  :math:`b \ge \rho` with

  .. math:: \theta = \tfrac12\Bigl[V(x_b) - (x_b - x)\frac{M_b}{1 + x_b w_b^2}\Bigr],
     \qquad e_{ICL} = \rho + x_b M_b + x M_b + x_b (x_b - x) D_b,

  at :math:`x_b = b/\alpha`, where :math:`V(x) = \int \log(1 + \lambda/x)\, d\mu`,
  :math:`D = -M'`, and the index b means "at :math:`x_b`".

A fixed ratio :math:`\kappa = k/d` is the corner :math:`\theta \to 0`, where
:math:`e_{ICL} \to 2 + \rho`, worse than the null predictor; the approach is as slow as
:math:`\sqrt{\log k/d}`, so use :math:`\theta = \log k/d` of the run at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.icl import check_parameters
from iclimit.asymptotics.numbers import ArrayMath, Number, convert, namespace, require
from iclimit.asymptotics.spectra import MarchenkoPastur, wishart_resolvent


def bayes_error(*, alpha: Number, rho: Number) -> Any:
    r"""Error of the Bayes estimator on all tasks: optimally tuned ridge regression on the context.

    Parameters
    ----------
    alpha : number or array, alpha > 0
        Context length over dimension.
    rho : number or array, rho >= 0
        Variance of the label noise.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label, for tasks from N(0, I_d).  A lower bound on the
        ICL error of any model.  NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    References
    ----------
    Lu et al., arXiv:2405.11751, section on the Bayes-optimal ridge estimator; for the
    Marchenko-Pastur integral: Dobriban and Wager, Annals of Statistics 46 (2018) 247.

    Examples
    --------
    >>> from iclimit.asymptotics import bayes_error
    >>> round(float(bayes_error(alpha=1.0, rho=0.25)), 4)
    0.6404
    """
    math_ = namespace(alpha=alpha, rho=rho)
    alpha, rho = check_parameters(math_, alpha=alpha, rho=rho)
    with math_.quiet():
        unseen = math_.where(alpha < 1, lambda: 1 - alpha, lambda: 0)
        x = rho / alpha
        missed = math_.where(rho > 0, lambda: x * wishart_resolvent(x, alpha), lambda: unseen)
        return math_.finish(rho + missed)


@dataclass(frozen=True)
class DMMSEErrors:
    """Errors of the dMMSE estimator on fresh (icl) and on pretraining tasks (idg)."""

    icl: Any
    idg: Any


def dmmse_errors(*, theta: Number, alpha: Number, rho: Number) -> DMMSEErrors:
    r"""Asymptotic errors of the Bayes estimator on the pretraining tasks (dMMSE).

    Parameters
    ----------
    theta : number or array, theta >= 0
        Logarithm of the number of pretraining tasks over the dimension, :math:`\log k/d`.
    alpha : number or array, 0 < alpha < inf
        Context length over dimension.
    rho : number or array, rho > 0
        Variance of the label noise.

    Returns
    -------
    DMMSEErrors
        With fields ``icl`` and ``idg``, NumPy floats or arrays.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    A heuristic (random-energy) limit, and asymptotic in d: both errors jump at theta = I, and at
    d of order 10 simulations show no trace of the jump.  Away from it simulations at d = 40 to
    200 agree within 2 % (`iclimit validate dmmse`).

    References
    ----------
    Estimator: Raventos et al., NeurIPS 2023 (arXiv:2306.15063).  Limit: module
    `iclimit.asymptotics.bayes`.

    Examples
    --------
    >>> from math import log
    >>> from iclimit.asymptotics import dmmse_errors
    >>> errors = dmmse_errors(theta=log(100) / 100, alpha=1.0, rho=0.3)
    >>> round(float(errors.icl), 3), float(errors.idg)
    (1.846, 0.3)
    """
    math_ = ArrayMath(np)
    theta = convert(math_, "theta", theta)
    alpha, rho = check_parameters(math_, alpha=alpha, rho=rho)
    require(math_, "theta", theta, lambda v: (v >= 0) & (v < np.inf), ">= 0 and finite")
    require(math_, "rho", rho, lambda v: v > 0, "> 0")
    require(math_, "alpha", alpha, lambda v: v < np.inf, "finite")
    theta, alpha, rho = np.broadcast_arrays(theta, alpha, rho)
    information = MarchenkoPastur(1 / alpha).shannon_transform(alpha / rho) / 2
    continuum = np.asarray(bayes_error(alpha=alpha, rho=rho))
    icl = continuum.copy()
    frozen = (theta < information) & (theta > 0)
    icl[frozen] = _nearest_task_error(theta[frozen], alpha[frozen], rho[frozen])
    icl[theta == 0] = 2 + rho[theta == 0]
    idg = np.where(theta < information, rho, continuum)
    return DMMSEErrors(icl[()], idg[()])


def _nearest_task_error(theta: np.ndarray, alpha: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """ICL error in the frozen phase 0 < theta < I, flat arrays."""

    def residual(log_x: Any, theta: Any, alpha: Any, rho: Any) -> Any:
        x = np.exp(log_x)
        M = wishart_resolvent(x, alpha)
        slope = M / (1 + x * (1 + M / alpha) ** 2)
        entropy = MarchenkoPastur(1 / alpha).shannon_transform(1 / x)
        return (entropy - (x - rho / alpha) * slope) / 2 - theta

    start = np.log(rho / alpha)
    bracket = elementwise.bracket_root(
        residual, start, start + 1.0, xmin=start, args=(theta, alpha, rho)
    )
    root = elementwise.find_root(residual, bracket.bracket, args=(theta, alpha, rho))
    if not np.all(root.success):
        worst = int(np.argmin(root.success))
        raise ArithmeticError(
            "the dMMSE fixed point was not solved at "
            f"theta={theta[worst]}, alpha={alpha[worst]}, rho={rho[worst]}"
        )
    x, x_true = np.exp(root.x), rho / alpha
    M, slope = wishart_resolvent(x, alpha), wishart_resolvent(x, alpha, derivative=1)
    return rho + (x + x_true) * M - x * (x - x_true) * slope
