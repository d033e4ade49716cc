"""Functions of the table of quantities that are no public function of the theory as they stand.

Each is named as the quantity, takes its parameters as keyword arguments and broadcasts, except
over the parameters that the table marks as single.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics import depth, descent, gdpp, pretraining, spectra
from iclimit.asymptotics.depth import untied_depth
from iclimit.asymptotics.numbers import numpy_namespace
from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.pretraining.structure import Structure

_NEAR = 1 + 1e-6
"""Factor from a tau at which errors diverge to a tau next to it."""

_EVEN = 1e-9
"""Relative difference of weights that are equal up to rounding."""

_DEEPEST = 1024
"""Untied layers of a picture."""

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


def depth_loss(structure: Structure | None = None, **setting: Any) -> np.ndarray:
    """Loss of tied layers of linear attention at their best, relative to predicting 0."""
    data, scale = _deep_data(structure)
    return np.asarray(depth.depth_loss(**data, **setting).loss) / scale


def depth_flow_loss(t: Any, structure: Structure | None = None, **setting: Any) -> np.ndarray:
    """The same during training by gradient flow."""
    data, scale = _deep_data(structure)
    return np.asarray(depth.tied_flow(times=t, **data, **setting).loss) / scale


def untied_loss(
    depth: Any, alpha: float, width_ratio: float = np.inf, structure: Structure | None = None
) -> np.ndarray:
    """Loss of the best untied layers, relative to predicting 0."""
    joint = (structure or Structure("isotropic")).joint
    if np.ptp(joint.weight) > _EVEN * joint.weight[0]:
        raise ValueError(
            "task_spectrum and input_spectrum must be lists of eigenvalues for untied_loss, as "
            f"powerlaw:1.2,400 or a file, got {structure.described if structure else None}"
        )
    layers = np.asarray(depth)
    wrong = layers[(layers < 1) | (layers != np.floor(layers)) | (layers > _DEEPEST)]
    if wrong.size:
        raise ValueError(f"depth must be an integer in [1, {_DEEPEST}], got {wrong.flat[0]:g}")
    labels, deepest = joint.inputs * joint.task, int(layers.max())
    sizes = {"alpha": alpha, "width_ratio": width_ratio}
    best = untied_depth(joint.inputs, labels, depth=deepest, **sizes)
    return best.losses[layers.astype(int) - 1]


def _deep_data(structure: Structure | None) -> tuple[dict[str, Any], float]:
    """Arguments of the data of deep linear attention, and their variance of labels."""
    if structure is None:
        return {"setting": "iso"}, 1.0
    for name, measure in structure.measures.items():
        if measure.support[-1][1] == np.inf:
            raise ValueError(
                f"{name} must be bounded, got {measure}; for a power law give the number of "
                "eigenvalues too, as powerlaw:1.2,400"
            )
    if structure.task_spectrum == "isotropic":
        inputs = structure.measures["input_spectrum"]
        return {"spectrum": inputs}, inputs.moment(1)
    joint = structure.joint
    return {"spectrum": joint}, float(joint.weight @ (joint.inputs * joint.task))


def test_time_error(steps: int, **setting: Any) -> np.ndarray:
    """Error after this number of steps at test time."""
    return depth.test_time_errors(steps=steps, **setting)[..., -1]


def iterated_icl_error(steps: int, **setting: Any) -> float:
    """Error of linear attention applied this number of times."""
    return float(depth.iterated_icl_errors(steps=steps, **setting)[-1])
