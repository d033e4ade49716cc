r"""Algorithms that answer at every position of a prompt, from the pairs before it.

A prompt of N pairs and a query has N + 1 positions; position i has i pairs before it.  An
algorithm has the parameters that are best for each number of pairs: at each position it is the one
of `iclimit.validation.yours.models.baselines` for prompts of this length.  A layer of a
transformer cannot do that, since its weights are the same at all positions; the best that one
layer of causal linear attention can do is "fixed_step".  GD++, whose best parameters take a search
for every number of pairs, and estimates of a varying noise level are left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from iclimit.simulate.pretraining.covariances import covariance_root
from iclimit.simulate.probing.predictors import (
    Predictor,
    descent_weights,
    in_blocks,
    linear_predictor,
)
from iclimit.simulate.probing.prefixes import by_prefix, prefix_dmmse, prefix_regression
from iclimit.simulate.probing.problem import DrawnPrompts, Problem
from iclimit.validation.yours.models.baselines import (
    CACHED,
    Baseline,
    one_step_baselines,
    regression_baselines,
    simple_baselines,
    step_baselines,
)
from iclimit.validation.yours.models.fitted_layers import context_moments
from iclimit.validation.yours.models.problem_units import ProblemUnits

STEPS = (2, 5)
"""Numbers of steps of gradient descent beside one."""

SLOW = ("adaptive_ridge", "bayes")
"""Algorithms that take a decomposition of every prefix, and are left out."""

FITTED_CONTEXTS = 500
"""Contexts of each length to which rates are fitted where no theory gives them."""


@dataclass(frozen=True, eq=False)
class PositionBaseline:
    """An algorithm that answers at every position of a prompt.

    Attributes
    ----------
    name, description : str
        As of a `Baseline`; the description has the parameters of the last position.
    predict : callable
        Predictions (n, N + 1) for prompts of N pairs and a query, which is the last position.
    losses : array (N + 1,)
        Exact mean squared errors on noisy labels of fresh tasks; NaN where they are not known.
    """

    name: str
    description: str
    predict: Predictor
    losses: np.ndarray


def position_baselines(
    problem: Problem, names: Collection[str] | None = None
) -> list[PositionBaseline]:
    """Algorithms at every position, with the parameters that are best for each number of pairs.

    Parameters
    ----------
    problem : Problem
        Law of the prompts, whose context is what the last position has before it.
    names : collection of str, optional
        Only those of these names.

    Returns
    -------
    list of PositionBaseline
        "null", "averaging", "nearest_neighbours", "one_step", "fixed_step", "preconditioner"
        (where there is a covariance), "steps_2", "steps_5", "least_squares", "ridge" (where it is
        not least squares), "oracle_ridge" (where the noise level varies), "dmmse" (where tasks
        are given).

    Examples
    --------
    >>> from iclimit.simulate.probing.problem import Problem
    >>> from iclimit.validation.yours.models.position_baselines import position_baselines
    >>> for each in position_baselines(Problem(context=40, dim=20))[3:5]:
    ...     print(each.name, each.losses[[0, 10, 20, 40]].round(2))
    one_step [20.   13.55 10.24  6.89]
    fixed_step [20.   14.36 10.45  7.85]
    """
    lengths = [
        ProblemUnits(replace(problem, context=count)) for count in range(1, problem.context + 1)
    ]
    at = [{each.name: each for each in _at_one_length(units, names)} for units in lengths]
    passes, found = _one_pass(problem), []
    for name in dict.fromkeys(name for there in at for name in there):
        chosen = [there[name] for there in at if name in there]
        predict = passes[name] if name in passes else _at_each_length(chosen)
        losses = [there[name].loss if name in there else None for there in at]
        found.append(_position_baseline(lengths, chosen[-1], predict, losses))
        if name == "one_step":
            found.append(_fixed_step(lengths))
    return [each for each in found if names is None or each.name in names]


def _at_one_length(units: ProblemUnits, names: Collection[str] | None) -> Iterator[Baseline]:
    """Algorithms with the parameters for one number of pairs."""
    steps = [count for count in STEPS if names is None or f"steps_{count}" in names]
    fitted = steps and not units.solved
    moments = context_moments(units, max(STEPS), FITTED_CONTEXTS) if fitted else None
    yield from simple_baselines(units)
    yield from one_step_baselines(units)
    yield from step_baselines(units, steps, moments)
    yield from (each for each in regression_baselines(units) if each.name not in SLOW)


def _at_each_length(chosen: Sequence[Baseline]) -> Predictor:
    """Predictor at all positions from those for each number of pairs, from 1 on."""
    return by_prefix(lambda count: chosen[count - 1].predict)


def _one_pass(problem: Problem) -> dict[str, Predictor]:
    """Predictors that take all prefixes at once."""
    a2, covariance = problem.task_variance, problem.task_covariance
    root = None if covariance is None else covariance_root(covariance)
    penalty = problem.mean_noise_variance / a2

    def told(prompts: DrawnPrompts) -> np.ndarray:
        return prefix_regression(prompts, prompts.noise_variance / a2, task_root=root)

    numbers = (problem.context + 1) * problem.dim + problem.dim**2
    passes = {
        "least_squares": in_blocks(prefix_regression, numbers),
        "ridge": in_blocks(partial(prefix_regression, penalty=penalty, task_root=root), numbers),
        "oracle_ridge": in_blocks(told, numbers),
    }
    if problem.tasks is not None:
        posterior = partial(prefix_dmmse, tasks=problem.tasks)
        numbers = CACHED * (problem.context + 1) * len(problem.tasks)
        passes["dmmse"] = in_blocks(posterior, numbers)
    return passes


def _fixed_step(lengths: Sequence[ProblemUnits]) -> PositionBaseline:
    """A step of one rate of the sum over the pairs, best for the mean error over positions."""
    last = lengths[-1]
    eye, unit = np.eye(last.problem.dim), 1 / (last.problem.context * last.input_variance)

    def losses(rate: float) -> list[float]:
        return [each.step_loss(rate * each.problem.context * eye) for each in lengths]

    # The mean loss is a quadratic function of the rate.
    lower, middle, upper = (math.fsum(losses(rate * unit)) for rate in (-1, 0, 1))
    rate = (lower - upper) / (lower + upper - 2 * middle) / 2 * unit
    text = f"a step of one rate of the sum over the pairs, {rate:.4g}, best for all positions"

    def predictor(count: int) -> Predictor:
        return linear_predictor(partial(descent_weights, rates=[rate * count]))

    step = Baseline("fixed_step", text, predictor(last.problem.context))
    return _position_baseline(lengths, step, by_prefix(predictor), losses(rate))


def _position_baseline(
    lengths: Sequence[ProblemUnits],
    last: Baseline,
    predict: Predictor,
    losses: Sequence[float | None],
) -> PositionBaseline:
    """Baseline from that for the last position; without pairs the error is that of zero."""
    zero = lengths[0].step_loss(0 * np.eye(lengths[0].problem.dim))
    known = [math.nan if loss is None else loss for loss in losses]
    # Without pairs dMMSE predicts with the mean of its tasks.
    first = math.nan if last.name == "dmmse" else zero
    return PositionBaseline(last.name, last.description, predict, np.array([first, *known]))
