"""Functions that the explorer draws and that are no quantities of `iclimit.diagrams`.

They put public functions of the theory together; the formulas are there.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics import depth as theory_of_depth
from iclimit.asymptotics import descent, dynamics, gdpp, softmax
from iclimit.asymptotics.dynamics.staircase import loss_at_shares
from iclimit.asymptotics.pretraining.spectral_equivalent import spectral_errors
from iclimit.asymptotics.spectra import MarchenkoPastur


def finite_size_errors(eigenvalues: Any, mean_square: Any, **setting: Any) -> Any:
    """ICL and IDG error of a run of finite size, from mean moments of the context summaries."""
    return np.stack(spectral_errors(eigenvalues, mean_square, **setting), axis=-1)


def marchenko_pastur_density(x: Any, ratio: Any) -> Any:
    """Density of the continuous part of the Marchenko-Pastur law."""
    return MarchenkoPastur(ratio).density(x)


def marchenko_pastur_cdf(x: Any, ratio: Any) -> Any:
    """Distribution function of the Marchenko-Pastur law."""
    return MarchenkoPastur(ratio).cdf(x)


def marchenko_pastur_edges(ratio: Any) -> Any:
    """Ends of its continuous part."""
    return np.stack(MarchenkoPastur(ratio).edges, axis=-1)


def marchenko_pastur_atom(ratio: Any) -> Any:
    """Its mass at zero."""
    return MarchenkoPastur(ratio).atom


def optimal_rates(ratio: Any, steps: int) -> Any:
    """Best rates without noise: reciprocal nodes of the Gauss-Radau rule, the smallest first."""
    nodes, _ = MarchenkoPastur(ratio).quadrature(steps)
    return 1 / nodes[..., 1:]


def chebyshev_rates(ratio: Any, steps: int) -> Any:
    """Rates that are best in the worst case."""
    return descent.chebyshev_schedule(steps=steps, ratio=ratio).rates


def best_constant_rate(ratio: Any, steps: int, noise_ratio: Any = 0.0) -> Any:
    """Best constant rate."""
    best = descent.constant_schedule(steps=steps, ratio=ratio, noise_ratio=noise_ratio)
    return best.rates[..., 0]


def optimal_residual(eigenvalue: Any, ratio: Any, steps: int) -> Any:
    """Residual polynomial of the best rates without noise."""
    return residual(eigenvalue, optimal_rates(ratio, steps))


def chebyshev_residual(eigenvalue: Any, ratio: Any, steps: int) -> Any:
    """Residual polynomial of the Chebyshev rates."""
    return residual(eigenvalue, chebyshev_rates(ratio, steps))


def constant_residual(eigenvalue: Any, rate: Any, steps: int) -> Any:
    """Residual polynomial of one rate."""
    return residual(eigenvalue, np.stack([rate] * steps, axis=-1))


def residual(eigenvalue: Any, rates: Any) -> Any:
    """Product of 1 - rate * eigenvalue."""
    return np.prod(1 - rates * np.expand_dims(eigenvalue, -1), axis=-1)


def gdpp_gammas(condition_number: Any, steps: int) -> Any:
    """Preconditioning of the layers that bring the condition number down, for eigenvalues <= 1."""
    return gdpp.condition_number_schedule(condition_number, steps=steps).gammas


def gdpp_eigenvalue(eigenvalue: Any, gamma: Any) -> Any:
    """What becomes of an eigenvalue in a layer of GD++."""
    return gdpp.eigenvalues_after(eigenvalue, np.stack([gamma], axis=-1))[-1]


def tied_depth_loss(depth: int, alpha: Any, noise_variance: Any = 0.0) -> Any:
    """Loss of tied layers on isotropic data at infinite width: steps at their best rate."""
    best = descent.constant_schedule(
        steps=depth, ratio=1 / alpha, noise_ratio=noise_variance / alpha
    )
    return best.loss


def dampening_of_recurrent_layer(steps: int, ratio: Any, noise_ratio: Any = 0.0) -> Any:
    """Best factor of the update of a recurrent layer, in the limit."""
    return best_constant_rate(ratio, steps, noise_ratio) * (1 + ratio + noise_ratio)


def untied_power_law_loss(beta: Any, depth: int) -> Any:
    """Least loss of untied layers for a power law."""
    return theory_of_depth.untied_power_law_loss(beta, depth=depth)


def staircase_loss(t: Any, context: Any, noise_variance: Any, **heads: Any) -> Any:
    """Loss of separate attention with a balanced head of its own for each of four directions.

    ``eigenvalue_1`` to ``eigenvalue_4`` descend; ``value_1`` to ``value_4`` are the initial values
    of the heads.
    """
    eigenvalues, values = (
        np.stack([heads[f"{name}_{k}"] for k in range(1, 5)], axis=-1)
        for name in ("eigenvalue", "value")
    )
    numbers = {"context": context, "noise_variance": noise_variance}
    losses = dynamics.plateau_losses(eigenvalues, **numbers)
    final = dynamics.plateau_head_values(eigenvalues, **numbers)
    since = np.expand_dims(t, -1) - dynamics.escape_time(values, eigenvalue=eigenvalues)
    size = {name: np.expand_dims(value, -1) for name, value in numbers.items()}
    trace = np.sum(eigenvalues, axis=-1, keepdims=True)
    grown = dynamics.head_growth(since, eigenvalue=eigenvalues, trace=trace, **size)
    return loss_at_shares(losses, (grown / final) ** 3)


def uniform_step_loss(context: Any, dim: Any) -> Any:
    """Loss of one step at its best rate, inputs from U(-1, 1)."""
    return descent.optimal_learning_rate(context=context, dim=dim, input_law="uniform").loss


def uniform_step_rate(context: Any, dim: Any) -> Any:
    """Best rate of one step, inputs from U(-1, 1)."""
    return descent.optimal_learning_rate(context=context, dim=dim, input_law="uniform").rate


def softmax_head_loss(
    inverse_temperature: Any, value: Any, ratio: Any, heads: int, noise_ratio: Any = 0.0
) -> Any:
    """Loss of softmax heads in the limit, at given temperature and value."""
    return softmax.softmax_loss(
        inverse_temperature, value, ratio=ratio, noise_ratio=noise_ratio, heads=heads
    )
