"""Algorithms at the parameters that are best for a problem; None where they are not known.

At every position of a prompt they are those that are best for the number of pairs before it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_preconditioner, optimal_schedule
from iclimit.asymptotics.gdpp import optimal_gdpp
from iclimit.asymptotics.gdpp.ridge_losses import level_rule, level_step
from iclimit.asymptotics.recurrent import recurrent_errors
from iclimit.asymptotics.softmax import SoftmaxHead, optimal_softmax
from iclimit.links import parse_link
from iclimit.simulate.arrays import Seed
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.probing.predictors import (
    Predictor,
    adaptive_ridge_weights,
    dmmse_weights,
    gdpp_weights,
    in_blocks,
    linear_predictor,
    nearest_neighbours,
    noise_mixture_weights,
    regression_weights,
    softmax_heads,
)
from iclimit.simulate.probing.prefixes import (
    by_prefix,
    prefix_delta_rule,
    prefix_dmmse,
    prefix_regression,
)
from iclimit.simulate.prompts import Prompts
from iclimit.validation.instruments.models.algorithm import Algorithm, Baseline, Best
from iclimit.validation.instruments.models.fitted_layers import fit_layers
from iclimit.validation.instruments.models.labels import posterior_labels
from iclimit.validation.instruments.models.linear_attention import (
    answer_with,
    exact_error,
    expected_errors,
    pretrain_attention,
)
from iclimit.validation.instruments.models.problem_units import ProblemUnits

# Layers of GD++ that are fitted to contexts.  Rare contexts dominate the loss of three, of degree
# 26 in their eigenvalues: fitted to thousands of contexts it is far larger on others.
MOST_FITTED_LAYERS = 2

# Shortest contexts with so many softmax heads: pairs take seconds to optimise below.
SHORTEST = {1: 2, 2: 4}

# Factor by which blocks of dMMSE are smaller than those of other algorithms: half the time.
CACHED = 8

# Neighbours that are averaged over, as in Garg et al. (arXiv:2208.01066).
NEIGHBOURS = 3


def _null(prompts: Prompts) -> np.ndarray:
    return 0 * prompts.query[:, 0]


def best_null(units: ProblemUnits) -> Best:
    """Zero."""
    return Best("zero", _null, units.step_loss(0 * np.eye(units.problem.dim)))


def best_averaging(units: ProblemUnits) -> Best:
    """The mean of y x over the variance of the inputs."""
    rate = 1 / units.input_variance
    text = f"averaging: {rate:.4g} times the mean of y x"
    loss = units.step_loss(rate * np.eye(units.problem.dim))
    return _linear(units, text, partial(descend, rates=[rate]), loss)


def nearest_inputs(units: ProblemUnits) -> Best:
    """Mean label of few neighbours; the best number of them is not known."""
    nearest: Predictor = partial(nearest_neighbours, neighbours=NEIGHBOURS)
    text = f"mean label of the {NEIGHBOURS} nearest inputs"
    return Best(text, in_blocks(nearest, _prompt_numbers(units)))


def best_step(units: ProblemUnits) -> Best:
    """A step of gradient descent at the best rate."""
    eye = np.eye(units.problem.dim)
    rate = _least_place(lambda rate: units.step_loss(rate * eye), 1 / units.input_variance)
    text = f"a step of gradient descent at the best rate {rate:.4g}"
    return _linear(units, text, partial(descend, rates=[rate]), units.step_loss(rate * eye))


def _least_place(loss: Callable[[float], float], unit: float) -> float:
    """Where a quadratic function of a rate is least."""
    lower = loss(-unit)
    middle = loss(0.0)
    upper = loss(unit)
    return (lower - upper) / (lower + upper - 2 * middle) / 2 * unit


def best_preconditioner(units: ProblemUnits) -> Best | None:
    """A step with the best matrix; without a covariance that is one with the best rate."""
    if units.isotropic:
        return None
    best = optimal_preconditioner(**units.law)
    weights = partial(descend, rates=[1.0], preconditioner=best.matrix)
    text = "a step of gradient descent with the best preconditioner"
    return _linear(units, text, weights, float(best.loss))


def best_steps(count: int, units: ProblemUnits) -> Best:
    """Several steps of gradient descent."""
    best = optimal_schedule(steps=count, **units.size, noise_ratio=units.noise_ratio)
    rates, _ = _best_layers(units, best.rates, np.zeros(count - 1))
    text = f"{count} steps of gradient descent at the best rates {_listed(rates)}"
    return _linear(units, text, partial(descend, rates=rates), units.loss_of(best.loss))


def best_gdpp(count: int, units: ProblemUnits) -> Best | None:
    """Layers of GD++, where their search takes such numbers."""
    if not units.has_gdpp or (not units.solved and count > MOST_FITTED_LAYERS):
        return None
    best = searched_gdpp(count, noise_ratio=units.noise_ratio, **units.size)
    rates, gammas = _best_layers(units, best.rates, best.gammas)
    parameters = f"best rates {_listed(rates)} and gammas {_listed(gammas)}"
    text = f"{count} layers of GD++ with {parameters}"
    weights = partial(gdpp_weights, rates=rates.tolist(), gammas=gammas.tolist())
    return _linear(units, text, weights, units.loss_of(best.loss))


@lru_cache(maxsize=32)
def searched_gdpp(layers: int, *, context: int, dim: int, noise_ratio: float) -> Any:
    """GD++ of least loss, searched for once: three layers take a second."""
    return optimal_gdpp(layers, context=context, dim=dim, noise_ratio=noise_ratio)


def _best_layers(
    units: ProblemUnits, rates: np.ndarray, gammas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rates and gammas in units of the problem, fitted from these where no theory has them."""
    if not units.solved:
        rates, gammas = fit_layers(units.context_moments, rates, gammas)
    return rates / units.input_variance, gammas / units.input_variance


def best_softmax(heads: int, sign: int, units: ProblemUnits) -> Best | None:
    """A softmax head of this sign, or two opposite ones, where their theory is exact.

    A head is as good as its mirror image, with the other sign of temperature and value, and
    trainings end at either.
    """
    if not units.solved or units.problem.context < SHORTEST[heads]:
        return None
    noise = units.noise_variance * units.problem.dim / units.signal
    best = searched_heads(heads, noise_variance=noise, **units.size)
    temperature = sign * float(best.inverse_temperature) / units.input_variance
    value = sign * float(best.value)
    predict = partial(
        softmax_heads, inverse_temperature=temperature, value=value, opposite=heads == 2
    )
    which = "a softmax head" if heads == 1 else "two opposite softmax heads"
    text = f"{which} of inverse temperature {temperature:.4g} and value {value:.4g}"
    loss = units.loss_of(best.loss / units.problem.dim)
    return Best(text, in_blocks(predict, _prompt_numbers(units)), loss)


@lru_cache(maxsize=32)
def searched_heads(heads: int, *, context: int, dim: int, noise_variance: float) -> SoftmaxHead:
    """Softmax heads of least loss, found once: two take a second."""
    return optimal_softmax(context=context, dim=dim, noise_variance=noise_variance, heads=heads)


def best_least_squares(units: ProblemUnits) -> Best:
    """Least squares, which have no parameters."""
    weights = partial(regression_weights, penalty=0.0)
    return _linear(units, "least squares, of minimum norm", weights, units.ridge_loss(0.0))


def best_ridge(units: ProblemUnits) -> Best | None:
    """Ridge regression with the best penalty for all noise levels."""
    problem = units.problem
    root = units.task_root
    penalty = units.best_penalty
    # Without noise it is least squares, unless that leaves directions to the prior.
    if not penalty and (root is None or problem.context >= problem.dim):
        return None
    weights = partial(regression_weights, penalty=penalty, task_root=root)
    prior = "" if root is None else " under the covariance of the tasks"
    text = f"ridge regression with the best penalty {penalty:.4g}{prior}"
    return _linear(units, text, weights, units.ridge_loss(penalty))


def best_adaptive_ridge(units: ProblemUnits) -> Best | None:
    """Ridge regression with an estimated noise level, where that varies and can be estimated."""
    problem = units.problem
    if not units.noise_varies or problem.context <= problem.dim:
        return None
    weights = partial(adaptive_ridge_weights, **_prior(units))
    text = "ridge regression with the noise estimated from the residuals"
    return _linear(units, text, weights, units.informed_loss(True))


def best_bayes(units: ProblemUnits) -> Best | None:
    """Posterior mean of Gaussian tasks where the noise level varies."""
    if not units.noise_varies:
        return None
    problem = units.problem
    freedom = problem.context - problem.dim
    levels, chances = level_rule(units.noise_law, level_step(max(freedom, 1)))
    variances = levels**2 * units.signal / problem.dim
    weights = partial(
        noise_mixture_weights, noise_variances=variances, chances=chances, **_prior(units)
    )
    numbers = len(levels) * min(problem.context, problem.dim)
    return _linear(
        units, "posterior mean of Gaussian tasks at unknown noise", weights, None, numbers
    )


def best_oracle_ridge(units: ProblemUnits) -> Best | None:
    """Ridge regression that is told the noise, where that varies."""
    if not units.noise_varies:
        return None
    weights = partial(_told_ridge, **_prior(units))
    text = "ridge regression that is told the noise of the prompt"
    return _linear(units, text, weights, units.informed_loss(False))


def _told_ridge(
    prompts: Prompts, task_variance: float, task_root: np.ndarray | None
) -> np.ndarray:
    penalty = prompts.noise_variance / task_variance
    return regression_weights(prompts, penalty, task_root=task_root)


def _prior(units: ProblemUnits) -> dict[str, Any]:
    """Law of the tasks, as regressions take it."""
    return {"task_variance": units.problem.task_variance, "task_root": units.task_root}


def best_dmmse(units: ProblemUnits) -> Best | None:
    """Posterior mean over the given tasks."""
    problem = units.problem
    if problem.task_set is None:
        return None
    told = f"posterior mean over the {len(problem.task_set)} tasks, told the noise"
    # Small blocks: squares of residuals are sums over numbers in the cache.
    numbers = CACHED * problem.context * len(problem.task_set)
    if not units.exact:
        posterior = partial(posterior_labels, problem=units.stated)
        return Best(f"{told}, link and flips of the labels", in_blocks(posterior, numbers))
    weights = partial(dmmse_weights, tasks=problem.task_set)
    return _linear(units, f"{told} of the prompt", weights, None, numbers)


def sign_of_ridge(units: ProblemUnits) -> Best | None:
    """The sign of ridge regression with the best penalty, for classes."""
    problem = units.stated
    if parse_link(problem.link).name != "sign":
        return None
    weights = partial(regression_weights, penalty=units.best_penalty)
    value = math.sqrt(problem.label_unit)
    answers = in_blocks(linear_predictor(weights), _prompt_numbers(units))

    def signs(prompts: Prompts) -> np.ndarray:
        return value * np.sign(answers(prompts))

    return Best("the sign of ridge regression with the best penalty", signs)


def trained_attention(units: ProblemUnits, prompts: int, ridge: float, rng: Seed) -> Best:
    """Linear attention that is trained on so many prompts, with the error that theory expects."""
    problem = units.stated
    gamma = pretrain_attention(problem, prompts=prompts, ridge=ridge, rng=rng)
    expected = expected_errors(problem, prompts=prompts, ridge=ridge)
    text = f"linear attention trained on {prompts} prompts with ridge {ridge:.4g}"
    if expected:
        errors = " and ".join(f"{error:.4g} {where}" for where, error in expected.items())
        text += f", for which theory expects the error {errors}"
    answer = in_blocks(partial(answer_with, gamma, problem), _prompt_numbers(units))
    return Best(text, answer, exact_error(gamma, problem))


def _linear(
    units: ProblemUnits,
    description: str,
    weights: Callable[[Prompts], Any],
    loss: float | None,
    numbers: int = 0,
) -> Best:
    """What is linear in the query, with so many numbers per prompt in between."""
    predict = in_blocks(linear_predictor(weights), max(numbers, _prompt_numbers(units)))
    return Best(description, predict, loss)


def _prompt_numbers(units: ProblemUnits) -> int:
    """Numbers in the inputs of a context or in their covariance."""
    return units.problem.dim * max(units.problem.context, units.problem.dim)


def _listed(numbers: np.ndarray) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)


def at_each_length(
    algorithm: Algorithm,
    lengths: Sequence[ProblemUnits],
    *,
    one_pass: Callable[[ProblemUnits], Predictor] | None = None,
    knows_null: bool = True,
) -> Baseline | None:
    """An algorithm at every position, with the parameters that are best for each number of pairs.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    lengths : sequence of ProblemUnits
        The problem with 1 to N pairs.
    one_pass : callable, optional
        From the problem to a predictor that takes all prefixes at once.
    knows_null : bool
        Whether it predicts zero without pairs.
    """
    known = [algorithm.at_best(units) for units in lengths]
    chosen = [baseline for baseline in known if baseline is not None]
    if not chosen:
        return None
    # A pass takes labels as linear ones.
    if one_pass is None or not lengths[-1].exact:
        predict = by_prefix(lambda count: chosen[count - 1].predict)
    else:
        predict = one_pass(lengths[-1])
    losses = [_null_loss(lengths) if knows_null else math.nan]
    for baseline in known:
        loss = None if baseline is None else baseline.loss
        losses.append(math.nan if loss is None else loss)
    return replace(chosen[-1], predict=predict, loss=np.array(losses))


def _null_loss(lengths: Sequence[ProblemUnits]) -> float:
    """Error of zero."""
    return lengths[0].step_loss(0 * np.eye(lengths[0].problem.dim))


def least_squares_pass(units: ProblemUnits) -> Predictor:
    """Least squares at every position in one pass."""
    return in_blocks(prefix_regression, _pass_numbers(units))


def ridge_pass(units: ProblemUnits) -> Predictor:
    """Ridge regression at every position in one pass: the best penalty is that of all."""
    regression = partial(prefix_regression, penalty=units.best_penalty, task_root=units.task_root)
    return in_blocks(regression, _pass_numbers(units))


def oracle_pass(units: ProblemUnits) -> Predictor:
    """The same with the noise of the prompt."""

    def oracle(prompts: Prompts) -> np.ndarray:
        penalty = prompts.noise_variance / units.problem.task_variance
        return prefix_regression(prompts, penalty, task_root=units.task_root)

    return in_blocks(oracle, _pass_numbers(units))


def _pass_numbers(units: ProblemUnits) -> int:
    """Numbers of a prompt in a pass over all prefixes."""
    dim = units.problem.dim
    return (units.problem.context + 1) * dim + dim**2


def dmmse_pass(units: ProblemUnits) -> Predictor:
    """The posterior mean over the given tasks at every position in one pass."""
    problem = units.problem
    posterior = partial(prefix_dmmse, tasks=problem.task_set)
    return in_blocks(posterior, CACHED * (problem.context + 1) * int(problem.task_count))


def best_delta_positions(_: Algorithm, lengths: Sequence[ProblemUnits]) -> Baseline | None:
    """The best linear recurrence with a vector of memory: the delta rule with the best steps."""
    last = lengths[-1]
    if not last.solved:
        return None
    problem = last.problem
    best = recurrent_errors(
        "delta",
        context=problem.context,
        dim=problem.dim,
        rho=problem.mean_noise_variance,
        task_variances=problem.label_unit,
    )
    steps = best.step_size[1:] / (problem.dim * problem.input_variance)
    text = f"the delta rule with its best step at each pair, {steps[-1]:.4g} at the last"
    return Baseline("best_delta_rule", text, partial(prefix_delta_rule, steps=steps), best.error)


def fixed_step(_: Algorithm, lengths: Sequence[ProblemUnits]) -> Baseline:
    """A step of one rate of the sum over the pairs, best for the mean error over positions."""
    last = lengths[-1]
    eye = np.eye(last.problem.dim)
    unit = 1 / (last.problem.context * last.input_variance)

    def losses(rate: float) -> list[float]:
        return [units.step_loss(rate * units.problem.context * eye) for units in lengths]

    rate = _least_place(lambda rate: math.fsum(losses(rate)), unit)
    text = f"a step of one rate of the sum over the pairs, {rate:.4g}, best for all positions"

    def predictor(count: int) -> Predictor:
        return linear_predictor(partial(descend, rates=[rate * count]))

    exact = np.array([_null_loss(lengths), *losses(rate)])
    return Baseline("fixed_step", text, by_prefix(predictor), exact)
