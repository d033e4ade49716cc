r"""Linear attention that is trained on prompts of a problem, as a baseline.

Training is ridge regression for the reduced matrix :math:`\Gamma`, in the units of Lu et al.
(arXiv:2405.11751): inputs of variance 1/d and labels of variance 1, see
`iclimit.validation.yours.models.linear_part`.  So the ridge and the predicted errors are those of
`iclimit.pretraining`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, icl_error
from iclimit.checks import check_arguments
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.probing.problem import DrawnPrompts, Problem
from iclimit.validation.yours.models.linear_part import attention_features, units


def train_attention(
    problem: Problem, *, prompts: int, ridge: float = 0.0, rng: Any = 0
) -> np.ndarray:
    """Reduced matrix (d, d + 1) of linear attention that is trained on prompts of a problem.

    The tasks of these prompts are the pretraining tasks of the problem, if it has any.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    prompts : int >= 1
        Number n of training prompts.
    ridge : float >= 0
        Ridge of the penalty n/d ridge times the square of Gamma.
    rng : int, SeedSequence or Generator
        Root seed of the training prompts.
    """
    check_arguments(prompts=prompts, ridge=ridge)
    drawn, noise = seed_sequences(rng, 2)
    generator = np.random.default_rng(noise)
    tasks = "fresh" if problem.tasks is None else "pretraining"
    columns: list[tuple[np.ndarray, ...]] = []
    for block in problem.blocks(prompts, rng=drawn, tasks=tasks):
        query_noise = np.sqrt(block.noise_variance) * generator.standard_normal(len(block))
        label = (block.target + query_noise) / units(problem)[1]
        columns.append((*attention_features(block, problem), label))
    query, summary, label = map(np.concatenate, zip(*columns, strict=True))
    return np.asarray(solve_ridge(query, summary, label, ridge).gamma)


def answer_with(gamma: np.ndarray, problem: Problem, prompts: DrawnPrompts) -> np.ndarray:
    """Predictions (n,) of linear attention with this matrix, in the units of a problem."""
    query, summary = attention_features(prompts, problem)
    return np.vecdot(query @ gamma, summary) * units(problem)[1]


def expected_errors(problem: Problem, *, prompts: int, ridge: float) -> dict[str, float]:
    """Errors on fresh tasks that theory expects of such a training, in the units of a problem.

    They are the predictions "at this size" and "in the limit" of large dimensions; what is not
    known for the laws of the problem is left out.

    Parameters
    ----------
    problem, prompts, ridge
        As in `train_attention`.
    """
    if problem.input_law != "gaussian" or problem.noise_law is not None:
        return {}
    unit, tasks = units(problem)[1] ** 2, problem.tasks
    rho = problem.noise_variance / unit
    size = finite_size_errors(
        dim=problem.dim,
        context=problem.context,
        tasks=math.inf if tasks is None else tasks / math.sqrt(problem.task_variance),
        prompts=prompts,
        rho=rho,
        ridge=ridge,
        rng=0,
        draws=1,
        task_law=problem.task_law,
        task_covariance=problem.task_covariance,
        input_covariance=problem.input_covariance,
    )
    expected = {"at this size": unit * size.icl.mean}
    if problem.input_covariance is None and problem.task_covariance is None:
        ratios: dict[str, float] = {
            "tau": prompts / problem.dim**2,
            "alpha": problem.context / problem.dim,
            "kappa": math.inf if tasks is None else len(tasks) / problem.dim,
        }
        expected["in the limit"] = unit * float(icl_error(**ratios, rho=rho, ridge=ridge))
    return expected
