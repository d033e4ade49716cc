r"""Bayes estimators: on all tasks (ridge regression) and on the pretraining tasks (dMMSE).

The setting and the limit are those of `iclimit.asymptotics.pretraining.icl`: contexts of length
:math:`\alpha d` with label noise :math:`\rho`.  Let :math:`x = \rho/\alpha`,
:math:`M = M_\alpha(x)` and :math:`w = 1 + M/\alpha`.  The spectrum of the context's Gram matrix is
Marchenko-Pastur of ratio :math:`1/\alpha`.

*All tasks*, :math:`w \sim N(0, I_d)`: the Bayes estimator is ridge regression on the context at
its optimal ridge and has error :math:`\rho + xM`.

*Pretraining tasks*: the posterior mean over :math:`k = e^{\theta d}` tasks, "discrete minimum
mean squared error" (Raventos, Paul, Chen, Ganguli, NeurIPS 2023).  Given a context the energies of
the tasks are those of a random-energy model, and its physics gives the limit (heuristic; checked
against simulation in `iclimit.validation`; derivation in the documentation).  Let

.. formula: seen_tasks

.. math:: D(b) = \tfrac12\Bigl[V(x_b) - (x_b - x)\frac{M_b}{1 + x_b w_b^2}\Bigr],
   \qquad V(x) = \int \log(1 + \lambda/x)\, d\mu, \qquad x_b = b/\alpha,

index b meaning "at :math:`x_b`": a fraction :math:`e^{-d D(b)}` of all tasks fits the context as
if the noise were :math:`b \ge \rho`.  :math:`D(\rho) = I` is the information of a context.

* :math:`\theta > I`: the tasks look like a continuum and dMMSE equals ridge regression.
* :math:`\theta < I`: the posterior is frozen.  On pretraining tasks it finds the true one and the
  error is :math:`\rho`.  On fresh tasks it is spread over the few tasks nearest to the truth, with
  :math:`D(b) = \theta` and :math:`E \sum_j p_j^2 = 1 - \rho/b`, and

  .. formula: fresh_tasks

  .. math:: e_{ICL} = \rho + x_b M_b - x_b (x_b - x) M_b',

  which joins ridge regression continuously at :math:`\theta = I`.

At finite d the number of near tasks has a Gaussian prefactor, which shifts the condition to
:math:`\theta = D(b) + \frac{1}{2d}\log(2\pi d\sigma_b^2)` with the variance per dimension of the
energy, :math:`\sigma_b^2 = \frac12 (1 - 2 x_b M_b - x_b^2 M_b') + x_b [M_b - (x - 2 x_b) M_b'
+ \frac12 x_b (x_b - x) M_b'']`.  This correction of order :math:`\log d/d` is large.

A fixed ratio :math:`\kappa = k/d` is the corner :math:`\theta \to 0`, where
:math:`e_{ICL} \to 2 + \rho`, worse than the null predictor.

.. page: pretraining/bayes: Bayes estimators

.. symbols:
   x: ρ/α
   b: noise level that a task of lowest energy seems to have
   D: share of the tasks that fit a context as if the noise were b: exp(−dD)
   V: logarithmic moment of the spectrum
   M: resolvent of the context's covariance; the index b means at x = b/α, a dash the derivative
   w: 1 + M/α
   \lambda: eigenvalue of the context's covariance
   \mu: their law, of Marchenko and Pastur
"""

from __future__ import annotations

import numpy as np

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.losses import TaskErrors
from iclimit.asymptotics.numbers import Number, Value, numpy_namespace
from iclimit.asymptotics.searches import find_root_above
from iclimit.asymptotics.spectra import MarchenkoPastur, wishart_resolvent

# Noise over context beyond which pairs tell nothing together that they do not tell alone: then the
# information of a context is alpha log(1 + 1/rho)/2, up to the square of its inverse.
_WEAK = 1e50


def bayes_error(*, alpha: Number, rho: Number) -> Value:
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
    >>> from iclimit.asymptotics.pretraining import bayes_error
    >>> round(float(bayes_error(alpha=1.0, rho=0.25)), 4)
    0.6404
    """
    math_, values = checked(alpha=alpha, rho=rho)
    alpha = values.alpha
    rho = values.rho
    with math_.quiet():
        unseen = math_.where(alpha < 1, lambda: 1 - alpha, lambda: 0)
        x = rho / alpha
        missed = math_.where(
            x > math_.tiny, lambda: x * wishart_resolvent(x, kappa=alpha), lambda: unseen
        )
        return math_.finish(rho + missed)


def dmmse_errors(
    *,
    theta: Number | None = None,
    kappa: Number | None = None,
    alpha: Number,
    rho: Number,
    dim: Number = np.inf,
) -> TaskErrors:
    r"""Asymptotic errors of the Bayes estimator on the pretraining tasks (dMMSE).

    Parameters
    ----------
    theta : number or array, theta >= 0, optional
        Logarithm of the number of pretraining tasks over the dimension, :math:`\log k/d`.
    kappa : number or array, 1/dim <= kappa < inf, optional
        Number of pretraining tasks over the dimension, :math:`k/d`, instead of theta.
    alpha : number or array, 0 < alpha < inf
        Context length over dimension.
    rho : number or array, rho > 0
        Variance of the label noise.
    dim : number or array, dim >= 1
        Dimension, for the largest finite-size correction to the ICL error; ``inf`` is the limit.

    Returns
    -------
    TaskErrors
        With fields ``icl`` and ``idg``, NumPy floats or arrays.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    A heuristic (random-energy) limit.  With its correction the ICL error agrees with simulations
    at d = 40 and 64 within 2 %, without it within 3 to 10 %.  The jump of the IDG error at the
    information of a context is smeared at finite d.

    References
    ----------
    Estimator: Raventos et al., NeurIPS 2023 (arXiv:2306.15063).  Limit: module
    `iclimit.asymptotics.pretraining.bayes`; random-energy model: Derrida, Phys. Rev. B 24 (1981)
    2613.

    Examples
    --------
    >>> from math import log
    >>> from iclimit.asymptotics.pretraining import dmmse_errors
    >>> errors = dmmse_errors(theta=log(64) / 64, alpha=1.0, rho=0.3, dim=64)
    >>> round(float(errors.icl), 3), float(errors.idg)  # simulated: 1.795(3)
    (1.815, 0.3)
    """
    if (theta is None) == (kappa is None):
        raise ValueError(f"give either theta or kappa, got theta={theta}, kappa={kappa}")
    math_, values = checked(
        systems="numpy",
        ranges={"alpha": "(0, inf)", "rho": "(0, inf)", "dim": "[1, inf]"},
        optional=("theta", "kappa"),
        theta=theta,
        kappa=kappa,
        alpha=alpha,
        rho=rho,
        dim=dim,
    )
    if values.kappa is not None:
        tasks = values.kappa * values.dim
        if math_.violates(tasks, lambda k: (k >= 1) & np.isfinite(k)) is not None:
            raise ValueError(f"kappa must be >= 1/dim and finite, got {values.kappa}, dim = {dim}")
        log_tasks = np.log(tasks) / values.dim
    else:
        log_tasks = values.theta
    theta, alpha, rho, dim = np.broadcast_arrays(log_tasks, values.alpha, values.rho, values.dim)
    continuum = math_.convert(bayes_error(alpha=alpha, rho=rho))
    icl = np.where(theta == 0, 2 + rho, continuum)
    with math_.quiet():
        weak = rho / alpha > _WEAK
        # Any numbers do where contexts are weak.
        known_alpha = np.where(weak, 1.0, alpha)
        known_rho = np.where(weak, 1.0, rho)
        at_noise = np.log(known_rho / known_alpha)
        needed = _log_tasks_needed(at_noise, known_alpha, known_rho, dim)
        information = _log_tasks_needed(at_noise, known_alpha, known_rho, np.inf)
        information = np.where(weak, alpha * np.log1p(1 / rho) / 2, information)
    frozen = (needed > theta) & (theta > 0) & ~weak
    icl[frozen] = _frozen_error(theta[frozen], alpha[frozen], rho[frozen], dim[frozen])
    idg = np.where(theta < information, rho, continuum)
    return TaskErrors(icl[()], idg[()])


def _log_tasks_needed(log_x: Value, alpha: Value, rho: Value, dim: Value) -> Value:
    """Theta at which the nearest task fits as if the noise were b = alpha x."""
    x = np.exp(log_x)
    x_true = rho / alpha
    M = wishart_resolvent(x, kappa=alpha)
    slope = wishart_resolvent(x, kappa=alpha, derivative=1)
    curvature = wishart_resolvent(x, kappa=alpha, derivative=2)
    reach = M / (1 + x * (1 + M / alpha) ** 2)
    entropy = MarchenkoPastur(1 / alpha).shannon_transform(1 / x)
    prior = (1 - 2 * x * M - x**2 * slope) / 2
    noise = x * (M - (x_true - 2 * x) * slope + x * (x - x_true) * curvature / 2)
    # The prefactor counts levels only where it exceeds one.
    finite = np.where(np.isinf(dim), 1.0, dim)
    count = np.where(np.isinf(dim), 1.0, np.maximum(2 * np.pi * finite * (prior + noise), 1.0))
    return (entropy - (x - x_true) * reach + np.log(count) / dim) / 2


def _frozen_error(theta: Value, alpha: Value, rho: Value, dim: Value) -> np.ndarray:
    """ICL error in the frozen phase, flat arrays."""

    def residual(log_x: Value, theta: Value, alpha: Value, rho: Value, dim: Value) -> Value:
        return _log_tasks_needed(log_x, alpha, rho, dim) - theta

    math_ = numpy_namespace({"theta": theta, "alpha": alpha})
    setting = {"theta": theta, "alpha": alpha, "rho": rho, "dim": dim}
    start = np.log(rho / alpha)
    log_x = find_root_above(math_, residual, start, setting, "dMMSE fixed point")
    x = np.exp(log_x)
    M = wishart_resolvent(x, kappa=alpha)
    slope = wishart_resolvent(x, kappa=alpha, derivative=1)
    return rho + x * M - x * (x - rho / alpha) * slope
