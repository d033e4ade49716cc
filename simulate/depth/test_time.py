r"""Linear attention that is pretrained once and applied again and again at test time.

Pretraining, the module `iclimit.simulate.depth.pretrained`, finds the reduced matrix
:math:`\Gamma`, either by ridge regression of query labels on the features :math:`x_q h^\top`, or
by least squares of the task itself on the summary h.  At test time the layer acts on what its own
estimate leaves of the labels,

.. math:: r^{(j)} = y - X w_j, \qquad w_{j+1} = w_j + s\,\Gamma\, h(X, r^{(j)}), \qquad w_0 = 0 .

Without the entry of the squared labels, which tends to 0, this is linear in the task and the
noise.  Given :math:`\Gamma` and the covariance S of a context, with :math:`P = I - s\Gamma S`, the
mean error over tasks and noise is then exact,

.. math:: \frac1d \operatorname{tr} P^j P^{j\top}
   + \frac{\sigma^2}\ell \operatorname{tr} q_j S q_j^\top, \qquad q_0 = 0, \quad
   q_{j+1} = P q_j + s\,\Gamma .

Its scatter between contexts is 1/d of its size, that of sampled tasks is
:math:`1/\sqrt d`.  Sampling whole tokens is the reference.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.checks import by_name, check_arguments, check_choice
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Generator, Seed, get_backend, row_blocks, to_host
from iclimit.simulate.depth.pretrained import (
    learned_matrix,
    parse_pretraining,
    prompt_law,
    sample_factors,
)
from iclimit.simulate.prompts import draw_prompts
from iclimit.simulate.prompts.summaries import SummaryLaw

SAMPLERS = ("covariances", "tokens")

# Matrices of a context that are held at once.
_MATRICES = 5


@dataclass(frozen=True, repr=False)
class SimulatedSteps(Result):
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
    steps: int,
    noise_variance: float = 0.0,
    tasks: int | float = math.inf,
    ridge: float = 0.0,
    dampening: float = 1.0,
    target: str = "labels",
    sampler: str = "covariances",
    rng: Seed,
    repeats: int = 8,
    contexts: int = 16,
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
    steps : int >= 1
        Largest number of steps.
    noise_variance : float >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    tasks : int >= 1 or inf
        Number of pretraining tasks; ``inf`` for a fresh task in every prompt.
    ridge : float >= 0
        Ridge of pretraining from labels.
    dampening : float
        Factor s of the steps.
    target : {"labels", "weights"}
        What pretraining predicts: query labels, by ridge regression as in `simulate_errors`, or
        the tasks, by least squares.
    sampler : {"covariances", "tokens"}
        What is drawn of a test context: its covariance, given which the error is averaged over
        tasks and noise exactly, or all its tokens with one task.  The covariance leaves the mean
        square of the labels out of the summary; it does not matter in the limit.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent pretrainings.
    contexts : int >= 1
        Test contexts of each.
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
    ...     dim=20, context=80, prompts=80, steps=4, target="weights", rng=0
    ... )
    >>> run.errors.shape, run.medians[0].mean
    ((8, 16, 5), 1.0)
    >>> 0.25 < run.medians[1].mean < 0.3
    True
    """
    check_arguments(
        dim=dim,
        context=context,
        prompts=prompts,
        noise_variance=noise_variance,
        steps=steps,
        ridge=ridge,
        dampening=dampening,
        repeats=repeats,
        contexts=contexts,
    )
    count = parse_pretraining(target, dim, prompts, tasks, ridge)
    check_choice("sampler", sampler, SAMPLERS)
    device = get_backend(backend)
    law = prompt_law(device, dim, context, noise_variance)
    whole = sampler == "tokens"
    pretraining = {"target": target, "tasks": count, "ridge": ridge, "whole": whole}
    errors = np.empty((repeats, contexts, steps + 1))
    for run, generator in zip(errors, device.generators(rng, repeats), strict=True):
        gamma = dampening * learned_matrix(law, generator, prompts, **pretraining)
        size = 8 * dim * (context + 1 if whole else _MATRICES * dim)
        for rows in row_blocks(device.xp, contexts, size):
            sample = _sampled_errors if whole else _mean_errors
            drawn = sample(law, generator, gamma, rows.stop - rows.start, steps)
            run[rows] = to_host(drawn)
    # What exceeds float64 becomes inf - inf.
    errors[np.isnan(errors)] = math.inf
    parameters = by_name(
        dim=dim,
        context=context,
        prompts=prompts,
        steps=steps,
        noise_variance=noise_variance,
        tasks=tasks,
        ridge=ridge,
        dampening=dampening,
        target=target,
        sampler=sampler,
        backend=backend,
    )
    return SimulatedSteps(errors, parameters)


def _mean_errors(
    law: SummaryLaw, generator: Generator, gamma: Array, count: int, steps: int
) -> Array:
    """Errors (count, steps + 1) on fresh contexts, averaged over tasks and noise."""
    xp = law.backend.xp
    d = law.problem.dim
    rho = law.problem.noise_variance
    T = sample_factors(law.backend, generator, d, law.problem.context, count)
    remaining = xp.broadcast_to(xp.eye(d), (count, d, d))
    noise = xp.zeros_like(T)
    through = gamma @ T
    errors = []
    step = through @ xp.matrix_transpose(T)
    with np.errstate(over="ignore", invalid="ignore"):
        for number in range(steps + 1):
            error = xp.sum(remaining**2, axis=(1, 2)) / d
            if rho:
                error = error + rho / law.problem.context * xp.sum(noise**2, axis=(1, 2))
            errors.append(error)
            if number == steps:
                break
            remaining = remaining - step @ remaining
            if rho:
                noise = noise - step @ noise + through
        return xp.stack(errors, axis=1)


def _sampled_errors(
    law: SummaryLaw, generator: Generator, gamma: Array, count: int, steps: int
) -> Array:
    """Errors (count, steps + 1) on the tokens of fresh contexts with fresh tasks."""
    xp = law.backend.xp
    d = law.problem.dim
    truth = law.fresh_tasks(generator, count)
    prompts = draw_prompts(law.problem, law.backend, generator, tasks=truth)
    estimate = xp.zeros_like(truth)
    errors = []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(steps + 1):
            errors.append(xp.mean((truth - estimate) ** 2, axis=1))
            if step == steps:
                break
            residual = prompts.labels - (prompts.inputs @ estimate[:, :, None])[:, :, 0]
            mean = d / law.problem.context * (residual[:, None, :] @ prompts.inputs)[:, 0, :]
            square = xp.mean(residual**2, axis=1)[:, None]
            estimate = estimate + mean @ gamma[:, :d].T + square * gamma[:, d][None, :]
        return xp.stack(errors, axis=1)
