r"""Linear attention that is pretrained once and applied again and again at test time.

The prompts are those of `iclimit.simulate.pretraining`: inputs :math:`x \sim N(0, I_d/d)`, tasks
on the sphere :math:`|w|^2 = d`, labels with noise of variance :math:`\rho`, and the summary
:math:`h = (\frac d\ell \sum_i y_i x_i, \frac1\ell \sum_i y_i^2)`.  Pretraining finds the reduced
matrix :math:`\Gamma`, either by ridge regression of query labels on the features
:math:`x_q h^\top`, or by least squares of the task itself on the first d entries of h.

At test time the layer acts on what its own estimate leaves of the labels,

.. math:: r^{(j)} = y - X w_j, \qquad w_{j+1} = w_j + s\,\Gamma\, h(X, r^{(j)}), \qquad w_0 = 0 .

Tokens of test contexts are drawn in full.  Summaries of pretraining come from their exact law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.arrays import Array, Backend, get_backend, row_blocks, to_host
from iclimit.simulate.checks import check_arguments, check_choice, parse_tasks
from iclimit.simulate.pretraining.prompts import sample_prompts
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.pretraining.summaries import PromptLaw, sample_summaries

TARGETS = ("labels", "weights")

NOT_SETTINGS = ("rng", "repeats", "contexts")
"""Arguments of `simulate_test_time` that the parameters of a result leave out."""


@dataclass(frozen=True)
class SimulatedSteps:
    """Errors after each step at test time.

    Attributes
    ----------
    errors : ndarray (repeats, contexts, steps + 1)
        Mean squared error of the task after 0, 1, ... steps, :math:`|w - w_j|^2/d`, for each
        pretraining and each of its test contexts; ``inf`` beyond the largest float.
    parameters : dict
        What was simulated.
    """

    errors: np.ndarray = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)

    @property
    def medians(self) -> tuple[Estimate, ...]:
        """For each number of steps the median over contexts: its mean over pretrainings.

        Rare contexts, which carry the means near the threshold of growing errors, do not affect
        it.  In the limit of large d all contexts have the same error.
        """
        return tuple(map(Estimate.of, np.median(self.errors, axis=1).T))

    @property
    def means(self) -> tuple[Estimate, ...]:
        """For each number of steps the mean over contexts and over pretrainings."""
        return tuple(map(Estimate.of, np.mean(self.errors, axis=1).T))


def simulate_test_time(
    *,
    dim: int,
    context: int,
    prompts: int,
    rho: float,
    steps: int,
    tasks: int | float = math.inf,
    ridge: float = 0.0,
    dampening: float = 1.0,
    target: str = "labels",
    rng: Any,
    repeats: int = 8,
    contexts: int = 64,
    backend: str = "numpy",
) -> SimulatedSteps:
    r"""Pretrain linear attention, apply it repeatedly to fresh contexts and measure the errors.

    Parameters
    ----------
    dim : int >= 1
        Dimension d of the inputs.
    context : int >= 1
        Context length, of pretraining and test.
    prompts : int >= 1
        Number of pretraining prompts.  For ``target="weights"`` each tells its whole task, and
        there must be as many as dimensions.
    rho : float >= 0
        Variance of the label noise.
    steps : int >= 1
        Largest number of steps.
    tasks : int >= 1 or inf
        Number of pretraining tasks; ``inf`` for a fresh task in every prompt.
    ridge : float >= 0
        Ridge of pretraining from labels.
    dampening : float
        Factor of the steps.
    target : {"labels", "weights"}
        What pretraining predicts: query labels, by ridge regression as in `simulate_errors`, or
        the tasks, by least squares.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent pretrainings.
    contexts : int >= 1
        Test contexts of each, with fresh tasks.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    SimulatedSteps
        With ``errors``, their ``medians`` and ``means``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or ridge or tasks are given for weights.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a solve did not converge.

    Examples
    --------
    >>> from iclimit.simulate.depth import simulate_test_time
    >>> run = simulate_test_time(
    ...     dim=20, context=80, prompts=80, rho=0.0, steps=4, target="weights", rng=0
    ... )
    >>> run.errors.shape, run.medians[0].mean
    ((8, 64, 5), 1.0)
    >>> 0.2 < run.medians[1].mean < 0.35
    True
    """
    parameters = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    check_arguments(dim=dim, context=context, prompts=prompts, rho=rho, steps=steps, ridge=ridge)
    check_arguments(repeats=repeats, contexts=contexts, dampening=dampening)
    check_choice("target", target, TARGETS)
    count, given_tasks = parse_tasks(tasks, dim)
    if given_tasks is not None:
        raise ValueError("tasks must be a number of tasks or inf")
    if target == "weights" and (count != math.inf or ridge != 0):
        raise ValueError(f"tasks must be inf and ridge 0 for weights, got {tasks} and {ridge}")
    if target == "weights" and prompts < dim:
        raise ValueError(f"prompts must be >= dim for weights, got {prompts} and {dim}")
    device = get_backend(backend)
    law = PromptLaw(device, dim, context, rho, "sphere", None, "gaussian", None, "summaries")
    errors = np.empty((repeats, contexts, steps + 1))
    for run, generator in zip(errors, device.generators(rng, repeats), strict=True):
        if target == "weights":
            gamma = _least_squares(law, generator, prompts)
        else:
            task_set = None if count == math.inf else law.fresh_tasks(generator, int(count))
            gamma = solve_ridge(*law.draw(generator, prompts, task_set), ridge).gamma
        truth = law.fresh_tasks(generator, contexts)
        for rows in row_blocks(device.xp, contexts, 8 * dim * (context + 1)):
            found = _iterate(device, generator, law, dampening * gamma, truth[rows, :], steps)
            run[rows] = to_host(found)
    # What exceeds float64 becomes inf - inf.
    errors[np.isnan(errors)] = math.inf
    return SimulatedSteps(errors, parameters)


def _least_squares(law: PromptLaw, generator: Any, prompts: int) -> Array:
    """Matrix (d, d + 1) that predicts tasks from the first d entries of the summary."""
    xp = law.backend.xp
    tasks = law.fresh_tasks(generator, prompts)
    h = sample_summaries(law.backend, generator, tasks, law.context, law.rho)[:, : law.dim]
    gamma = xp.zeros((law.dim, law.dim + 1))
    gamma[:, : law.dim] = xp.linalg.solve(h.T @ h, h.T @ tasks).T
    return gamma


def _iterate(
    device: Backend, generator: Any, law: PromptLaw, gamma: Array, truth: Array, steps: int
) -> Array:
    """Errors (contexts, steps + 1) on fresh contexts of these tasks."""
    xp, d = device.xp, law.dim
    prompts = sample_prompts(device, generator, truth, law.context, law.rho)
    estimate, errors = xp.zeros_like(truth), []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(steps + 1):
            errors.append(xp.mean((truth - estimate) ** 2, axis=1))
            if step == steps:
                break
            left = prompts.y - (prompts.x @ estimate[:, :, None])[:, :, 0]
            mean = d / law.context * (left[:, None, :] @ prompts.x)[:, 0, :]
            square = xp.mean(left**2, axis=1)[:, None]
            estimate = estimate + mean @ gamma[:, :d].T + square * gamma[:, d][None, :]
        return xp.stack(errors, axis=1)
