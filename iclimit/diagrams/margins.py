"""Margins of the boundaries: signed functions of the parameters of a quantity, zero on a boundary.

Each is named as its boundary in the table ``boundaries.csv``, takes the parameters as keyword
arguments, broadcasts, and is NaN where there is no such boundary.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics import depth, descent, dynamics, pretraining
from iclimit.asymptotics.pretraining.phase_margins import (
    context_information,
    context_slope,
    ridge_slope,
)


def interpolation(*, tau: Any, ridge: Any = 0.0, **_: Any) -> Any:
    """Tau above the threshold, without a ridge."""
    return np.where(np.equal(ridge, 0), tau - 1, np.nan)


def memorisation(*, kappa: Any, **_: Any) -> Any:
    """Kappa above one."""
    return kappa - 1


def icl_context(**setting: Any) -> Any:
    """Slope of the ICL error in the context length."""
    return context_slope(**setting)


def idg_context(**setting: Any) -> Any:
    """Slope of the IDG error in the context length."""
    return context_slope(**setting, objective="idg")


def icl_ridge(ridge: Any = 0.0, **setting: Any) -> Any:
    """Slope of the ICL error in the ridge at ridge 0."""
    return np.where(np.equal(ridge, 0), ridge_slope(**setting), np.nan)


def idg_ridge(ridge: Any = 0.0, **setting: Any) -> Any:
    """Slope of the IDG error in the ridge at ridge 0."""
    return np.where(np.equal(ridge, 0), ridge_slope(**setting, objective="idg"), np.nan)


def fixed_dmmse(rho: Any, **setting: Any) -> Any:
    """Error below that of dMMSE, as a difference of reciprocals, finite throughout."""
    return 1 / pretraining.icl_error(rho=rho, **setting) - 1 / (2 + rho)


def null(rho: Any, **setting: Any) -> Any:
    """Error below that of predicting 0, in the same way."""
    return 1 / pretraining.icl_error(rho=rho, **setting) - 1 / (1 + rho)


def gap(**setting: Any) -> Any:
    """IDG error below the ICL error, in the same way; where both diverge so does the gap."""
    icl, idg = pretraining.icl_error(**setting), pretraining.idg_error(**setting)
    return np.where(np.isinf(icl) & np.isinf(idg), np.nan, 1 / idg - 1 / icl)


def identified(*, theta: Any, alpha: Any, rho: Any, dim: Any = np.inf, **_: Any) -> Any:
    """Theta above the information of a context; at finite d the transition is smeared."""
    information = context_information(alpha=alpha, rho=rho)
    return np.where(np.isinf(dim), theta - information, np.nan)


def attention(
    *, theta: Any, alpha: Any, rho: Any, tau: Any = np.inf, ridge: Any = 0.0, dim: Any = np.inf
) -> Any:
    """Error of linear attention below that of dMMSE."""
    dmmse = pretraining.dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=dim).icl
    linear = pretraining.icl_error(tau=tau, alpha=alpha, kappa=np.inf, rho=rho, ridge=ridge)
    return 1 / linear - 1 / dmmse


def best_rate(rate: Any, **setting: Any) -> Any:
    """Rate over the best one, minus one."""
    return rate / descent.optimal_learning_rate(**setting).rate - 1


def useless_rate(rate: Any, **setting: Any) -> Any:
    """Rate over the best one, minus two."""
    return best_rate(rate, **setting) - 1


def divergence(rate: Any, ratio: Any, **_: Any) -> Any:
    """Rate above that at which many steps diverge."""
    return rate - descent.divergence_rate(ratio)


def dampened_divergence(dampening: Any, ratio: Any, noise_ratio: Any = 0.0, **_: Any) -> Any:
    """The same for a multiple of the best rate of one step."""
    return divergence(dampening / (1 + ratio + noise_ratio), ratio)


def oracle(penalty: Any, noise_variance: Any, **_: Any) -> Any:
    """Penalty above the noise variance."""
    return penalty - noise_variance


def overthinking(*, alpha: Any, tau: Any, steps: Any = None, **setting: Any) -> Any:  # noqa: ARG001
    """Pretraining above the threshold, as a difference of reciprocals: it may be infinite."""
    return 1 / depth.overthinking_threshold(alpha=alpha, **setting) - 1 / tau


def growing_errors(**setting: Any) -> Any:
    """Ratio below one, as a difference of reciprocals: it may be infinite."""
    return 1 / depth.overthinking_ratio(**setting) - 1


def unseen(*, alpha: Any, **_: Any) -> Any:
    """Alpha above one."""
    return alpha - 1


def half_drop(
    *, t: Any, dim: Any, input_variance: Any = 1.0, noise_variance: Any = 0.0, **start: Any
) -> Any:
    """Loss at t above the mean of the losses at zero weights and at the end."""
    setting = {"dim": dim, "input_variance": input_variance, "noise_variance": noise_variance}
    now, end = (dynamics.merged_attention_loss(s, **setting, **start) for s in (t, np.inf))
    return now - (end + dim * input_variance + noise_variance) / 2
