"""Functions of the registry that are no public function of the theory, or field of its result.

They put such functions together, fix one of their arguments, or take a part of their result.  Each
is named in ``registry.csv`` or ``boundaries.csv``, takes its parameters as keyword arguments and
broadcasts, except over the parameters that the registry marks as single.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics import depth as theory_of_depth
from iclimit.asymptotics import descent, dynamics, gdpp, pretraining, spectra
from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.dynamics.staircase import loss_at_shares
from iclimit.asymptotics.pretraining import errors_at_size as corrected
from iclimit.asymptotics.pretraining.exact_positions import one_rate_errors
from iclimit.asymptotics.pretraining.icl import context_noise, solve_fixed_point
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.asymptotics.spectra import MarchenkoPastur
from iclimit.links import LinkLike

# Numbers that a parameter has at the points of a curve or a diagram.
Values: TypeAlias = float | np.ndarray

# Relative difference of weights that are equal up to rounding.
_EVEN = 1e-9

# Untied layers of a picture.
_DEEPEST = 1024


def attention_over_dmmse(
    *,
    theta: Values,
    alpha: Values,
    rho: Values,
    tau: Values = np.inf,
    ridge: Values = 0.0,
    dim: Values = np.inf,
) -> Any:
    """ICL error of linear attention over that of dMMSE."""
    attention = pretraining.icl_error(tau=tau, alpha=alpha, kappa=np.inf, rho=rho, ridge=ridge)
    return attention / pretraining.dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=dim).icl


def labels_by_link(
    function: Callable[..., Any],
    *,
    link: LinkLike = "identity",
    rho: Values,
    flips: Values = 0.0,
    ridge: Values | None = None,
    time: Values | None = None,
    **others: Values,
) -> Any:
    """Error or loss of labels by a link, from a function of linear ones.

    A ridge and a time of training are those of the effective labels, whose features are larger by
    the root of the factor.
    """
    labels = pretraining.effective_labels(link, rho, flips=flips)
    training = {}
    if ridge is not None:
        training["ridge"] = labels.ridge_factor * ridge
    if time is not None:
        training["time"] = labels.factor * time
    return labels.factor * function(rho=labels.rho, **training, **others)


def null_error(
    *,
    rho: Values,
    test_rho: Values | None = None,
    labels: float = 1.0,
    tau: Values | None = None,  # noqa: ARG001 - what is learned, and how, does not matter
    alpha: Values | None = None,  # noqa: ARG001
    kappa: Values | None = None,  # noqa: ARG001
    ridge: Values | None = None,  # noqa: ARG001
    test_alpha: Values | None = None,  # noqa: ARG001
) -> Any:
    """Error of predicting 0, from the variance of the labels of the tests without noise."""
    values = checked(systems="numpy", rho=rho if test_rho is None else test_rho)[1]
    return labels + values.rho


def optimal_idg_ridge(**setting: Values) -> Any:
    """Ridge with the least error on the pretraining tasks."""
    return pretraining.optimal_ridge(objective="idg", **setting).ridge


def optimal_idg_error(**setting: Values) -> Any:
    """Error on the pretraining tasks at the ridge that is best for them."""
    return pretraining.optimal_ridge(objective="idg", **setting).error


def one_pass_price(*, tau: Values, alpha: Values, rho: Values) -> Any:
    """Error after one pass of SGD over that of the best ridge on the same prompts."""
    best = pretraining.optimal_ridge(tau=tau, alpha=alpha, kappa=np.inf, rho=rho).error
    return pretraining.one_pass_error(tau=tau, alpha=alpha, rho=rho) / best


def fixed_length_icl(**setting: Any) -> Any:
    """Error on fresh tasks after training on all positions, over summaries of a fixed length."""
    return pretraining.all_position_errors(normalization="length", **setting).icl


def fixed_length_mean(**setting: Any) -> Any:
    """Mean of this error over the positions."""
    return pretraining.all_position_errors(normalization="length", **setting).mean_icl


def fixed_length_ridge(**setting: Any) -> Any:
    """Ridge with the least of these means."""
    return pretraining.optimal_sequence_ridge(normalization="length", **setting).ridge


def ridgeless_budget_icl_error(budget: Values, rho: Values) -> Any:
    """Least error on fresh tasks for a budget of label pairs without a ridge."""
    return pretraining.compute_optimal_pretraining(budget=budget, rho=rho, ridge=0).error


def ridgeless_budget_tau(budget: Values, rho: Values) -> Any:
    """Prompts over squared dimension of the best split of a budget without a ridge."""
    return pretraining.compute_optimal_pretraining(budget=budget, rho=rho, ridge=0).tau


# Slope of the error on the pretraining tasks in the context length.
idg_context_slope = partial(pretraining.context_slope, objective="idg")

# Slope of the error on the pretraining tasks in the ridge, at ridge 0.
idg_ridge_slope = partial(pretraining.ridge_slope, objective="idg")


def fixed_tasks_dmmse_error(rho: Values) -> Any:
    """Error on fresh tasks of dMMSE that knows a number of tasks of the order of the dimension."""
    return 2 + rho


def memorisation_width(
    *, tau: Values, alpha: Values, kappa: Values, rho: Values, ridge: Values = 0.0
) -> Any:
    """Range of log kappa around 0 in which memorisation gives way to in-context learning.

    The resolvent of k tasks at the effective noise nu bends at kappa = 1 over 2 sqrt(nu).
    """
    math_, values = checked(
        systems="numpy", tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge
    )
    q = context_noise(math_, values.alpha, values.rho)
    xi, _ = solve_fixed_point(math_, values.tau < 1, values.tau, q, values.kappa, values.ridge)
    return 2 * np.sqrt(q + xi)


def errors_at_size(**setting: Values) -> Any:
    """ICL and IDG error of a run of finite size: the limit with its largest corrections."""
    return np.stack(corrected.errors_at_size(**setting), axis=-1)


def mean_rate_errors(**setting: Any) -> Any:
    """Error at a position of a step of one rate over means.

    Behind it are the least error of a step at the position, and the effective context.
    """
    return np.stack(np.broadcast_arrays(*one_rate_errors(**setting)), axis=-1)


def fixed_length_rate_errors(**setting: Any) -> Any:
    """Error at a position of a step of one rate over sums divided by a fixed length.

    Behind it are the same numbers as those of `mean_rate_errors`.
    """
    found = one_rate_errors(normalization="length", **setting)
    return np.stack(np.broadcast_arrays(*found), axis=-1)


def useless_rate(
    context: Values, dim: Values, noise_variance: Values = 0.0, task_variance: Values = 1.0
) -> Any:
    """Rate of one step at which it is no better than predicting 0."""
    variances: dict[str, Any] = {"noise_variance": noise_variance}
    variances["task_variance"] = task_variance
    return 2 * descent.optimal_learning_rate(context=context, dim=dim, **variances).rate


def diverging_dampening(ratio: Values, noise_ratio: Values = 0.0) -> Any:
    """Rate beyond which many steps diverge, over the best rate for one step."""
    return descent.divergence_rate(ratio) * (1 + ratio + noise_ratio)


def constant_rate_loss(rate: Values, steps: int, **setting: Any) -> Any:
    """Loss of steps at one rate."""
    return descent.schedule_loss(np.stack([rate] * steps, axis=-1), **setting)


def dampened_loss(dampening: Values, ratio: Values, steps: int, noise_ratio: Values = 0.0) -> Any:
    """Loss of steps at a multiple of the best rate for one step."""
    rate = dampening / (1 + ratio + noise_ratio)
    return constant_rate_loss(rate, steps, ratio=ratio, noise_ratio=noise_ratio)


def dampening_of_recurrent_layer(steps: int, ratio: Values, noise_ratio: Values = 0.0) -> Any:
    """Best factor of the update of a recurrent layer, in the limit."""
    rate = best_constant_rate(ratio, steps, noise_ratio)
    return rate * (1 + ratio + noise_ratio)


def best_constant_rate(ratio: Values, steps: int, noise_ratio: Values = 0.0) -> Any:
    """Rate of the best steps at one rate."""
    best = descent.constant_schedule(steps=steps, ratio=ratio, noise_ratio=noise_ratio)
    return best.rates[..., 0]


def uniform_step_loss(**size: Any) -> Any:
    """Loss of the best single step with uniform inputs."""
    return descent.optimal_learning_rate(input_law="uniform", **size).loss


def uniform_step_rate(**size: Any) -> Any:
    """Rate of the best single step with uniform inputs."""
    return descent.optimal_learning_rate(input_law="uniform", **size).rate


def optimal_rates(ratio: Values, steps: int) -> Any:
    """Best rates without noise: reciprocal nodes of the Gauss-Radau rule, the smallest first."""
    nodes, _ = MarchenkoPastur(ratio).quadrature(steps)
    return 1 / nodes[..., 1:]


def optimal_residual(eigenvalue: Values, ratio: Values, steps: int) -> Any:
    """Residual polynomial of the best rates without noise."""
    return _residual(eigenvalue, optimal_rates(ratio, steps))


def chebyshev_residual(eigenvalue: Values, ratio: Values, steps: int) -> Any:
    """Residual polynomial of the Chebyshev rates."""
    return _residual(eigenvalue, descent.chebyshev_schedule(steps=steps, ratio=ratio).rates)


def constant_residual(eigenvalue: Values, rate: Values, steps: int) -> Any:
    """Residual polynomial of one rate."""
    with np.errstate(over="ignore"):
        return (1 - rate * eigenvalue) ** steps


def _residual(eigenvalue: Values, rates: Values) -> Any:
    """Product of 1 - rate * eigenvalue; infinite where it exceeds float64."""
    with np.errstate(over="ignore"):
        return np.prod(1 - rates * np.expand_dims(eigenvalue, -1), axis=-1)


def gdpp_eigenvalue(eigenvalue: Values, gamma: Values) -> Any:
    """Image of an eigenvalue under a layer of GD++."""
    return gdpp.eigenvalues_after(eigenvalue, gammas=np.stack([gamma], axis=-1))[-1]


def condition_number_excess(condition_number: Values, steps: int) -> Any:
    """Condition number after the best layers of GD++, minus one."""
    schedule = gdpp.condition_number_schedule(condition_number=condition_number, steps=steps)
    return schedule.excess[..., -1]


def oracle_risk(highest_noise: float, **size: Any) -> Any:
    """Risk of ridge regression that knows the noise level, which is uniform."""
    return gdpp.oracle_risk(noise_law=f"uniform:{highest_noise}", **size)


def constant_ridge_loss(highest_noise: float, **setting: Any) -> Any:
    """Adjusted loss of one penalty for all noise levels, which are uniform."""
    return gdpp.constant_ridge_loss(noise_law=f"uniform:{highest_noise}", **setting)


def adaptive_ridge_loss(highest_noise: float, **setting: Any) -> Any:
    """Adjusted loss of a penalty that follows the estimated noise, which is uniform."""
    return gdpp.adaptive_ridge_loss(noise_law=f"uniform:{highest_noise}", **setting)


def staircase_loss(t: Values, context: Values, noise_variance: Values, **heads: Values) -> Any:
    """Loss of separate attention with a balanced head of its own for each of four directions.

    ``eigenvalue_1`` to ``eigenvalue_4`` descend; ``value_1`` to ``value_4`` are the initial values
    of the heads.
    """
    eigenvalues = np.stack([heads[f"eigenvalue_{k}"] for k in range(1, 5)], axis=-1)
    values = np.stack([heads[f"value_{k}"] for k in range(1, 5)], axis=-1)
    numbers = {"context": context, "noise_variance": noise_variance}
    losses = dynamics.plateau_losses(eigenvalues, **numbers)
    final = dynamics.plateau_head_values(eigenvalues, **numbers)
    since = np.expand_dims(t, -1) - dynamics.escape_time(values, eigenvalue=eigenvalues)
    size = {name: np.expand_dims(value, -1) for name, value in numbers.items()}
    trace = np.sum(eigenvalues, axis=-1, keepdims=True)
    grown = dynamics.head_growth(since, eigenvalue=eigenvalues, trace=trace, **size)
    return loss_at_shares(losses, (grown / final) ** 3)


def half_drop_loss(
    dim: Values,
    context: Values,
    init_scale: Values,
    input_variance: Values = 1.0,
    noise_variance: Values = 0.0,
) -> Any:
    """Mean of the losses of merged attention at zero weights and at the end."""
    variances = {"input_variance": input_variance, "noise_variance": noise_variance}
    end = dynamics.merged_attention_loss(
        np.inf, dim=dim, context=context, init_scale=init_scale, **variances
    )
    return (end + dim * input_variance + noise_variance) / 2


def test_time_error(**setting: Any) -> Any:
    """Error after several steps at test time with a matrix learned from weight prediction."""
    return theory_of_depth.test_time_errors(**setting)[..., -1]


def iterated_icl_error(**setting: Any) -> Any:
    """Error after several steps at test time with a matrix learned from label prediction."""
    return theory_of_depth.iterated_icl_errors(**setting)[..., -1]


def tied_depth_loss(depth: int, alpha: Values, noise_variance: Values = 0.0) -> Any:
    """Loss of tied layers on isotropic data at infinite width: steps at their best rate."""
    noise_ratio = noise_variance / alpha
    return descent.constant_schedule(steps=depth, ratio=1 / alpha, noise_ratio=noise_ratio).loss


def tied_loss(structure: Structure | None = None, **setting: Any) -> Any:
    """Loss of tied layers of linear attention at their best, relative to predicting 0."""
    data, scale = _deep_data(structure)
    return np.asarray(theory_of_depth.depth_loss(**data, **setting).loss) / scale


def tied_flow_loss(t: Values, structure: Structure | None = None, **setting: Any) -> Any:
    """The same during training by gradient flow."""
    data, scale = _deep_data(structure)
    return np.asarray(theory_of_depth.tied_flow(times=t, **data, **setting).loss) / scale


def untied_loss(
    depth: Values, alpha: float, width_ratio: float = np.inf, structure: Structure | None = None
) -> Any:
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
    labels = joint.inputs * joint.task
    deepest = int(layers.max())
    sizes = {"alpha": alpha, "width_ratio": width_ratio}
    best = theory_of_depth.untied_depth(joint.inputs, weights=labels, depth=deepest, **sizes)
    return best.losses[layers.astype(int) - 1]


def wishart_density(eigenvalue: Values, **size: Any) -> Any:
    """Mean density of the eigenvalues of a Wishart matrix."""
    return spectra.wishart_density(eigenvalue, **size)


def largest_eigenvalue_cdf(eigenvalue: Values, **size: Any) -> Any:
    """Probability that the largest eigenvalue of a Wishart matrix is smaller."""
    return spectra.largest_eigenvalue_cdf(eigenvalue, **size)


def marchenko_pastur_density(x: Values, ratio: Values) -> Any:
    """Density of the continuous part of the Marchenko-Pastur law."""
    return MarchenkoPastur(ratio).density(x)


def marchenko_pastur_cdf(x: Values, ratio: Values) -> Any:
    """Distribution function of the Marchenko-Pastur law."""
    return MarchenkoPastur(ratio).cdf(x)


def marchenko_pastur_edges(ratio: Values) -> Any:
    """Lower and upper edge of the Marchenko-Pastur law, on a last axis."""
    return np.stack(MarchenkoPastur(ratio).edges, axis=-1)


def marchenko_pastur_atom(ratio: Values) -> Any:
    """Mass of the Marchenko-Pastur law at 0."""
    return MarchenkoPastur(ratio).atom


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
