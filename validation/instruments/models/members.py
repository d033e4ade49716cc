r"""Answers of algorithms with given parameters, and the weights of pairs that theory expects.

Most algorithms of linear regression are filters: with the covariance :math:`H = X^\top X/N` of the
inputs of a context and :math:`b = X^\top y/N` their weights are :math:`w = \varphi(H)\, b`, for
example

* ridge regression, :math:`\varphi(h) = 1/(h + \lambda/N)`,
* L steps of gradient descent, :math:`\varphi(h) = [1 - (1 - \eta h)^L]/h`,
* gradient flow for a time t, :math:`\varphi(h) = (1 - e^{-th})/h`.

In the eigenbasis of H they are sums over the eigenvalues, so a context is decomposed once for all
filters and parameters.  The other algorithms run as they are.

The delta rule with the best steps (`iclimit.asymptotics.recurrent.delta_rule`) is the best of all
recurrences with as many numbers in memory.  In a gated delta rule the weights decay before each
pair is read.  Where they decay after it, the answers have one factor of the decay more.  DeltaNets
divide keys, and most of them queries, by their norms; the step then has no unit, and the scale of
the values is a factor of the answers.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from iclimit.asymptotics.recurrent import memory_weights, recurrent_errors
from iclimit.asymptotics.recurrent.errors import mean_norm
from iclimit.simulate.probing.predictors import (
    delta_rule_weights,
    dmmse_weights,
    elu_features,
    feature_attention,
    regression_weights,
    softmax_heads,
)
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.links import link_values
from iclimit.validation.instruments.models.algorithm import Examples, filtered
from iclimit.validation.instruments.models.problem_units import ProblemUnits


def ridge_filter(h: np.ndarray, pairs: int, penalty: float) -> np.ndarray:
    """Filter of ridge regression."""
    return 1 / (h + penalty / pairs)


def descent_filter(h: np.ndarray, _: int, steps: int, rate: float) -> np.ndarray:
    """Filter of steps of gradient descent of one rate."""
    return _divided(1 - (1 - rate * h) ** steps, h, steps * rate)


def flow_filter(h: np.ndarray, _: int, time: float) -> np.ndarray:
    """Filter of gradient flow."""
    return _divided(-np.expm1(-time * h), h, time)


def gdpp_filter(h: np.ndarray, _: int, layers: int, rate: float, gamma: float) -> np.ndarray:
    """Filter of layers of GD++ with one rate and gamma."""
    residual = np.ones_like(h)
    moved = h
    for _layer in range(layers):
        residual = residual * (1 - rate * moved)
        moved = moved * (1 - gamma * moved) ** 2
    return _divided(1 - residual, h, layers * rate)


def _divided(part: np.ndarray, h: np.ndarray, limit: float) -> np.ndarray:
    """Part over h, with its limit at 0; loads at such eigenvalues vanish."""
    small = h < 1e-12 * np.max(h, initial=0.0)
    return np.where(small, limit, part / np.where(small, 1.0, h))


def recency_ridge(examples: Examples, penalty: float, decay: float) -> np.ndarray:
    """Ridge regression in which the last pairs count more."""
    prompts = examples.prompts
    roots = np.sqrt(_decaying(decay, examples.pairs))
    weighed = Prompts(prompts.inputs * roots[:, None], prompts.labels * roots, prompts.query)
    return np.vecdot(prompts.query, regression_weights(weighed, penalty))


def recency_step(examples: Examples, decay: float) -> np.ndarray:
    """A gradient step in which the last pairs count more."""
    return examples.products @ _decaying(decay, examples.pairs) / examples.pairs


def _decaying(decay: float, context: int) -> np.ndarray:
    """Weights of the pairs, 1 for the last one."""
    return np.asarray(decay ** np.arange(context)[::-1])


def last_ridge(examples: Examples, pairs: int, penalty: float) -> np.ndarray:
    """Ridge regression on the last pairs."""
    return filtered(examples.last(pairs), ridge_filter, penalty=penalty)


def prior_ridge(examples: Examples, penalty: float) -> np.ndarray:
    """Ridge regression that knows the covariance of the tasks."""
    return filtered(examples.whitened, ridge_filter, penalty=penalty)


def intercept_ridge(examples: Examples, penalty: float) -> np.ndarray:
    """Ridge regression with an intercept, which has no penalty."""
    mean = np.mean(examples.prompts.labels, axis=1)
    return mean + filtered(examples.centred, ridge_filter, penalty=penalty)


def mean_ridge(examples: Examples, penalty: float) -> np.ndarray:
    """Ridge regression towards the mean of the given tasks: Bayes for a prior with a mean."""
    mean = np.mean(np.asarray(examples.problem.task_set), axis=0)
    answers = filtered(examples.beside(mean), ridge_filter, penalty=penalty)
    return np.asarray(examples.prompts.query @ mean + answers)


def elu_attention(examples: Examples, normalised: int, feature_scale: float) -> np.ndarray:
    """Linear attention with features elu + 1."""
    return feature_attention(
        examples.prompts, lambda x: elu_features(feature_scale * x), normalised=bool(normalised)
    )


def relu_attention(examples: Examples, normalised: int) -> np.ndarray:
    """Linear attention with the positive parts of inputs and query as features."""
    features = partial(link_values, "relu")
    return feature_attention(examples.prompts, features, normalised=bool(normalised))


def logistic_readout(examples: Examples, penalty: float, slope: float) -> np.ndarray:
    """A logistic function, from -1 to 1, of ridge regression."""
    return np.tanh(slope * filtered(examples, ridge_filter, penalty=penalty))


def sign_readout(examples: Examples, regression: int) -> np.ndarray:
    """The sign of ridge regression with the best penalty, or of a gradient step."""
    if not regression:
        return np.sign(np.sum(examples.products, axis=1))
    return np.sign(filtered(examples, ridge_filter, penalty=examples.units.best_penalty))


def delta_rule(examples: Examples, step: float, decay: float = 1.0) -> np.ndarray:
    """The delta rule with one step, and perhaps a memory that decays."""
    return linear_answers(examples, delta_rule_weights(examples.prompts, steps=step, gate=decay))


def unit_delta_rule(examples: Examples, unit_queries: int, **memory: float) -> np.ndarray:
    """The same with keys of unit length, and queries of unit length or their own."""
    return delta_rule(examples.unit(bool(unit_queries)), **memory)


def best_delta_rule(examples: Examples, noise_variance: float) -> np.ndarray:
    """The delta rule with the best steps for a label noise."""
    units = examples.units
    dim = units.problem.dim
    best = recurrent_errors(
        "delta", context=examples.pairs, dim=dim, rho=noise_variance / units.signal
    )
    steps = best.step_size[1:] / (dim * units.input_variance)
    return linear_answers(examples, delta_rule_weights(examples.prompts, steps=steps))


def dmmse(examples: Examples, noise_variance: float) -> np.ndarray:
    """The posterior mean over the given tasks for a label noise."""
    prompts = replace(examples.prompts, noise_variance=np.full(len(examples), noise_variance))
    tasks = examples.problem.task_set
    return np.vecdot(prompts.query, dmmse_weights(prompts, tasks))


def linear_answers(examples: Examples, weights: np.ndarray) -> np.ndarray:
    """Answers (n,) of weights (n, d)."""
    return np.vecdot(examples.prompts.query, weights)


def softmax_head(
    examples: Examples, inverse_temperature: float, *, opposite: bool = False
) -> np.ndarray:
    """A softmax head of value 1, or two opposite ones."""
    return softmax_heads(examples.prompts, inverse_temperature, 1.0, opposite=opposite)


def recency_weights(units: ProblemUnits, rate: float, decay: float) -> np.ndarray:
    """Weights of the pairs in a gradient step in which the last ones count more."""
    return rate * np.asarray(memory_weights(**units.size, gates=decay))


def delta_weights(
    units: ProblemUnits, step: float, decay: float = 1.0, readout: float = 1.0
) -> np.ndarray:
    """Mean weights of the pairs in a delta rule."""
    norm = units.problem.dim * units.problem.input_variance
    return _memory_weights(units, step * norm, decay, readout, norm)


def best_delta_weights(units: ProblemUnits, noise_variance: float) -> np.ndarray:
    """The same for the best steps."""
    problem = units.problem
    best = recurrent_errors("delta", **units.size, rho=noise_variance / problem.label_unit)
    norm = problem.dim * problem.input_variance
    return _memory_weights(units, best.step_size[1:], 1.0, 1.0, norm)


def unit_delta_weights(
    units: ProblemUnits, step: float, unit_queries: float, decay: float = 1.0, readout: float = 1.0
) -> np.ndarray:
    """The same for keys of unit length."""
    norm = units.problem.dim * units.problem.input_variance
    # The memory is in units of the labels, and the query is in those of inputs or has none.
    unit = norm / mean_norm(units.problem.dim) if unit_queries else math.sqrt(norm)
    return _memory_weights(units, step, decay, readout, unit, unit_keys=True)


def _memory_weights(
    units: ProblemUnits,
    steps: float | np.ndarray,
    decay: float,
    readout: float,
    unit: float,
    *,
    unit_keys: bool = False,
) -> np.ndarray:
    """Weights of the pairs in a memory in such units, times a factor of the answers."""
    problem = units.problem
    weights = memory_weights(
        **units.size,
        rho=problem.mean_noise_variance / problem.label_unit,
        drift=problem.drift,
        gates=decay,
        step_sizes=steps,
        unit_keys=unit_keys,
    )
    return np.asarray(readout * problem.context / unit * weights)
