r"""Bayes estimators of the task from a context, as simulated baselines.

Given a context (X, y) with noise variance :math:`\rho`:

* ridge regression, the posterior mean when tasks are :math:`N(0, I_d)`;
* dMMSE, the posterior mean when tasks are uniform on the k pretraining tasks:
  :math:`\hat w = \sum_j p_j w_j` with :math:`p_j \propto \exp(-|y - X w_j|^2 / 2\rho)`.

The error is taken as :math:`\rho + |\hat w - w|^2/d`, the conditional expectation over query and
label noise: it needs 60 to 170 times fewer prompts than single squared errors.
"""

import math

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_choice
from iclimit.problem import Problem
from iclimit.samples import Samples
from iclimit.simulate.arrays import Array, Backend, Generator, Seed, get_backend
from iclimit.simulate.pretraining.cells import NAMES
from iclimit.simulate.prompts import draw_prompts
from iclimit.simulate.prompts.sampling import draw_fresh_tasks, draw_task_set
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_by_dim

ESTIMATORS = ("dmmse", "ridge")
# Most inputs or residuals held at a time (32 MiB each).
BLOCK_NUMBERS = 2**22
# Smallest noise variance by which misfits can be divided.
LEAST_NOISE = 1e-200


def dmmse_estimate(x: Array, y: Array, tasks: Array, rho: Array | float) -> Array:
    """Posterior mean over the rows of tasks: contexts (n, l, d), (n, l) -> (n, d).

    The noise variance is a number or one for each context, (n,); without noise only the tasks that
    fit best count.
    """
    xp = array_namespace(x)
    # One product of matrices: up to 100 times faster than a stack of them.
    predicted = xp.reshape(xp.reshape(x, (-1, x.shape[2])) @ tasks.T, (*y.shape, -1))
    predicted -= y[:, :, None]
    predicted *= predicted
    misfit = xp.sum(predicted, axis=1)
    excess = misfit - xp.min(misfit, axis=1, keepdims=True)
    variance = xp.reshape(xp.asarray(rho, dtype=x.dtype), (-1, 1))
    weight = xp.exp(-excess / (2 * xp.clip(variance, LEAST_NOISE, None)))
    return weight @ tasks / xp.sum(weight, axis=1, keepdims=True)


def ridge_weights(x: Array, y: Array, penalty: Array | float) -> Array:
    """Ridge regression weights (X^T X + penalty)^-1 X^T y, shape (n, d).

    With the penalty rho it is the posterior mean for tasks from N(0, I).

    Parameters
    ----------
    x, y : array (n, l, d) and (n, l)
    penalty : float or array (n,), >= 0
        At 0 the least squares solution of least norm.
    """
    xp = array_namespace(x)
    transposed = xp.matrix_transpose(x)
    labels = y[:, :, None]
    ridge = xp.reshape(xp.asarray(penalty, dtype=x.dtype), (-1, 1, 1))
    if x.shape[1] < x.shape[2]:
        gram = x @ transposed + ridge * xp.eye(x.shape[1], dtype=x.dtype)
        return (transposed @ xp.linalg.solve(gram, labels))[:, :, 0]
    gram = transposed @ x + ridge * xp.eye(x.shape[2], dtype=x.dtype)
    return xp.linalg.solve(gram, transposed @ labels)[:, :, 0]


@named_cell("simulate_estimator")
@blas_threads_by_dim
def simulate_estimator(
    estimator: str,
    *,
    dim: int,
    context: int,
    tasks: int | float | Array,
    rho: float,
    rng: Seed,
    repeats: int = 1,
    first_repeat: int = 0,
    test_prompts: int = 100,
    backend: str = "numpy",
    task_law: str = "gaussian",
) -> Samples:
    """Simulate the errors of a Bayes estimator on fresh and on pretraining tasks.

    Parameters
    ----------
    estimator : {"dmmse", "ridge"}
        Posterior mean over the pretraining tasks, or over all tasks.
    dim, context, rho, backend, task_law
        As in `simulate_errors`; rho > 0.
    tasks : int >= 1 or array of shape (k, d)
        Pretraining tasks.
    rng : int, SeedSequence or Generator
        Root seed; repeat r depends on (root, r) only.
    repeats : int
        Number of task sets: one set alone would hide their variance.
    first_repeat : int >= 0
        Number of the first of them, to continue an earlier run.
    test_prompts : int
        Prompts per task set and error.

    Returns
    -------
    Samples
        One entry per task set, averaged over its prompts.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    References
    ----------
    Raventos, Paul, Chen, Ganguli, NeurIPS 2023, arXiv:2306.15063.

    Examples
    --------
    >>> from iclimit.simulate.pretraining import simulate_estimator
    >>> run = simulate_estimator("dmmse", dim=20, context=20, tasks=20, rho=0.3, rng=0, repeats=10)
    >>> run.idg.mean < run.icl.mean
    True
    """
    check_choice("estimator", estimator, ESTIMATORS)
    numbers = {"dim": dim, "context": context, "rho": rho, "test_prompts": test_prompts}
    check_arguments(**numbers, repeats=repeats, first_repeat=first_repeat)
    if rho == 0:
        raise ValueError(f"rho must be > 0, got {rho!r}")
    problem = Problem(dim, context, tasks=tasks, noise_variance=rho, task_law=task_law)
    if (count := problem.task_count) == math.inf:
        raise ValueError("tasks must be an integer >= 1 or an array, got inf")
    arrays = get_backend(backend)
    runs = []
    for generator in arrays.generators(rng, repeats, first_repeat):
        task_set = draw_task_set(problem, arrays, generator)
        fresh = draw_fresh_tasks(problem, arrays, generator, test_prompts)
        chosen = generator.integers(0, task_set.shape[0], size=test_prompts)
        drawn = arrays.xp.take(task_set, chosen, axis=0)
        runs.append(
            [
                _mean_error(estimator, problem, arrays, generator, truth, task_set)
                for truth in (fresh, drawn)
            ]
        )
    ratios = {"tasks": count, "alpha": context / dim, "kappa": count / dim}
    laws = {"estimator": estimator, "task_law": task_law, "backend": backend}
    parameters = {**numbers, **ratios, **laws}
    return Samples(NAMES, np.array(runs), parameters)


def _mean_error(
    estimator: str,
    problem: Problem,
    arrays: Backend,
    generator: Generator,
    truth: Array,
    task_set: Array,
) -> float:
    """Mean over prompts of these tasks of rho + |w_hat - w|^2/d, in blocks of bounded memory."""
    count = truth.shape[0]
    dim = problem.dim
    rho = problem.noise_variance
    block = max(1, BLOCK_NUMBERS // (problem.context * max(dim, task_set.shape[0])))
    total = 0.0
    for start in range(0, count, block):
        target = truth[start : min(start + block, count), :]
        prompts = draw_prompts(problem, arrays, generator, tasks=target)
        if estimator == "dmmse":
            estimate = dmmse_estimate(prompts.inputs, prompts.labels, task_set, rho)
        else:
            # Inputs have variance 1/d and task coordinates variance 1: the ridge is rho.
            estimate = ridge_weights(prompts.inputs, prompts.labels, rho)
        total += float(arrays.xp.sum((estimate - target) ** 2)) / dim
    return rho + total / count
