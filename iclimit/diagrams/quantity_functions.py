"""Functions of the table of quantities that are no public function of the theory as they stand.

Each is named as the quantity, takes its parameters as keyword arguments and broadcasts, except
over the parameters that the table marks as single.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics import depth, descent, gdpp, pretraining, spectra
from iclimit.asymptotics.numbers import numpy_namespace
from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.pretraining.structure import Structure

_NEAR = 1 + 1e-6
"""Factor from a tau at which errors diverge to a tau next to it."""

_ISOTROPIC = Structure("isotropic").joint


def structured_value(part: str, spectrum: JointSpectrum, **setting: Any) -> np.ndarray:
    """Error of structured data, one of its parts, or the gap of the two errors."""
    errors = pretraining.structured_errors(**setting, spectrum=spectrum)
    if part != "gap":
        return getattr(errors, part)
    both = np.isinf(errors.icl) & np.isinf(errors.idg)
    if not np.any(both):
        return errors.icl - errors.idg
    # Where both errors are infinite so is the gap; its sign is that at a tau next to it.
    tau = np.where(both, setting["tau"] * _NEAR, setting["tau"])
    near = pretraining.structured_errors(**setting | {"tau": tau}, spectrum=spectrum)
    sign = np.where(near.icl >= near.idg, np.inf, -np.inf)
    return np.where(both, sign, np.where(both, 0, errors.icl) - np.where(both, 0, errors.idg))


def misalignment_error(**setting: Any) -> np.ndarray:
    """Misalignment part of the ICL error of isotropic data."""
    return structured_value("misalignment", _ISOTROPIC, **setting)


def scalar_error(**setting: Any) -> np.ndarray:
    """Scalar part of the ICL error of isotropic data."""
    return structured_value("scalar", _ISOTROPIC, **setting)


def optimal_idg_ridge(**setting: Any) -> np.ndarray:
    """Ridge with the least IDG error."""
    return pretraining.optimal_ridge(**setting, objective="idg").ridge


def optimal_idg_error(**setting: Any) -> np.ndarray:
    """Least IDG error over the ridge."""
    return pretraining.optimal_ridge(**setting, objective="idg").error


def sized_dmmse_icl_error(**setting: Any) -> np.ndarray:
    """ICL error of dMMSE at a finite dimension."""
    return _sized_dmmse_errors(**setting).icl


def sized_dmmse_idg_error(**setting: Any) -> np.ndarray:
    """IDG error of dMMSE at a finite dimension."""
    return _sized_dmmse_errors(**setting).idg


def _sized_dmmse_errors(*, kappa: Any, dim: Any, **setting: Any) -> pretraining.DMMSEErrors:
    """Errors of dMMSE for k = kappa d tasks."""
    tasks = np.multiply(kappa, dim)
    math_ = numpy_namespace(tasks=tasks)
    if math_.violates(tasks, lambda k: (k >= 1) & np.isfinite(k)) is not None:
        raise ValueError(f"kappa must be >= 1/dim and finite for dMMSE, got {kappa}, dim = {dim}")
    return pretraining.dmmse_errors(theta=np.log(tasks) / dim, dim=dim, **setting)


def attention_over_dmmse(
    *, theta: Any, alpha: Any, rho: Any, tau: Any = np.inf, ridge: Any = 0.0, dim: Any = np.inf
) -> np.ndarray:
    """ICL error of linear attention over that of dMMSE."""
    attention = pretraining.icl_error(tau=tau, alpha=alpha, kappa=np.inf, rho=rho, ridge=ridge)
    return attention / pretraining.dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=dim).icl


def constant_rate_loss(rate: Any, steps: int, **setting: Any) -> np.ndarray:
    """Loss of steps at one rate."""
    rates = np.stack([rate] * steps, axis=-1)
    return descent.schedule_loss(rates, **setting)


def dampened_loss(dampening: Any, ratio: Any, steps: int, noise_ratio: Any = 0.0) -> np.ndarray:
    """Loss of steps at a multiple of the best rate for one step."""
    rate = dampening / (1 + ratio + noise_ratio)
    return constant_rate_loss(rate, steps, ratio=ratio, noise_ratio=noise_ratio)


def condition_number_excess(**setting: Any) -> np.ndarray:
    """Excess of the condition number after the last layer."""
    return gdpp.condition_number_schedule(**setting).excess[..., -1]


def oracle_risk(highest_noise: float, **size: Any) -> float:
    """Risk with the best penalty at every noise level."""
    return gdpp.oracle_risk(f"uniform:{highest_noise!r}", **size)


def constant_ridge_loss(highest_noise: float, **setting: Any) -> float:
    """Loss with one penalty."""
    return gdpp.constant_ridge_loss(f"uniform:{highest_noise!r}", **setting)


def adaptive_ridge_loss(highest_noise: float, **setting: Any) -> float:
    """Loss with a penalty that follows the estimated noise variance."""
    return gdpp.adaptive_ridge_loss(f"uniform:{highest_noise!r}", **setting)


def wishart_density(eigenvalue: Any, **size: Any) -> np.ndarray:
    """Density of the eigenvalues of a context's covariance."""
    return spectra.wishart_density(eigenvalue, **size)


def largest_eigenvalue_cdf(eigenvalue: Any, **size: Any) -> np.ndarray:
    """Distribution function of the largest of them."""
    return spectra.largest_eigenvalue_cdf(eigenvalue, **size)


def depth_loss(**setting: Any) -> np.ndarray:
    """Loss of tied layers of linear attention at their best, on isotropic data."""
    return np.asarray(depth.depth_loss(setting="iso", **setting).loss)


def test_time_error(steps: int, **setting: Any) -> np.ndarray:
    """Error after this number of steps at test time."""
    return depth.test_time_errors(steps=steps, **setting)[..., -1]


def iterated_icl_error(steps: int, **setting: Any) -> float:
    """Error of linear attention applied this number of times."""
    return float(depth.iterated_icl_errors(steps=steps, **setting)[-1])
