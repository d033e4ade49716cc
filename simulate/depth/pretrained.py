r"""What test-time steps start from: a pretrained matrix, and the covariances of fresh contexts.

The prompts are those of `iclimit.simulate.pretraining`: inputs :math:`x \sim N(0, I_d/d)`, tasks
on the sphere :math:`|w|^2 = d`, labels with noise, and the summary
:math:`h = (\frac d\ell \sum_i y_i x_i, \frac1\ell \sum_i y_i^2)`.  Summaries come from their exact
law.  The covariance :math:`S = \frac d\ell \sum_i x_i x_i^\top` of a context is a Wishart matrix:
:math:`S = T T^\top` with a lower trapezoidal T of d rows and min(d, context) columns, whose
entries are independent (Bartlett decomposition).
"""

import math
from typing import Any

from iclimit.checks import check_choice, parse_tasks
from iclimit.problem import Problem
from iclimit.simulate.arrays import Array, Backend, Generator
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts.summaries import SummaryLaw, sample_summaries

TARGETS = ("labels", "weights")


def parse_pretraining(
    target: str, dim: int, prompts: int, tasks: int | float, ridge: float
) -> Any:
    """Return the number of tasks.

    Raises
    ------
    ValueError
        If the target is unknown, or does not go together with the rest.
    """
    check_choice("target", target, TARGETS)
    count, given_tasks = parse_tasks(tasks, dim)
    if given_tasks is not None:
        raise ValueError("tasks must be a number of tasks or inf")
    if target == "weights" and (count != math.inf or ridge != 0):
        raise ValueError(f"tasks must be inf and ridge 0 for weights, got {tasks} and {ridge}")
    if target == "weights" and prompts < dim:
        raise ValueError(f"prompts must be >= dim for weights, got {prompts} and {dim}")
    return count


def prompt_law(device: Backend, dim: int, context: int, noise_variance: float) -> SummaryLaw:
    """Isotropic Gaussian prompts with tasks on the sphere."""
    problem = Problem(dim, context, noise_variance=noise_variance, task_law="sphere")
    return SummaryLaw(device, problem)


def learned_matrix(
    law: SummaryLaw,
    generator: Generator,
    prompts: int,
    *,
    target: str,
    tasks: int | float = math.inf,
    ridge: float = 0.0,
    whole: bool = False,
) -> Array:
    """Matrix (d, d) of one pretraining; (d, d + 1) with the mean square label if it is whole."""
    problem = law.problem
    dim = law.problem.dim
    columns = dim + 1 if whole else dim
    if target == "labels":
        task_set = None if tasks == math.inf else law.fresh_tasks(generator, int(tasks))
        x, h, y = law.draw(generator, prompts, task_set)
        return solve_ridge(x, h[:, :columns], y, ridge).gamma
    xp = law.backend.xp
    truth = law.fresh_tasks(generator, prompts)
    sizes = problem.context, problem.noise_variance
    h = sample_summaries(law.backend, generator, truth, *sizes)[:, :dim]
    gamma = xp.zeros((dim, columns))
    gamma[:, :dim] = xp.linalg.solve(h.T @ h, h.T @ truth).T
    return gamma


def sample_factors(
    device: Backend, generator: Generator, dim: int, context: int, count: int
) -> Array:
    """Factors T, (count, dim, min(dim, context)), of the covariances of that many contexts."""
    xp = device.xp
    rank = min(dim, context)
    normal = generator.standard_normal((count, dim, rank))
    degrees = xp.arange(context, context - rank, -1, dtype=xp.float64)
    diagonal = xp.sqrt(2 * generator.standard_gamma(degrees / 2, size=(count, rank)))
    factors = xp.tril(normal, k=-1) + diagonal[:, None, :] * xp.eye(dim, rank)
    return factors / math.sqrt(context)
