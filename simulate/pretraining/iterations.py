r"""Expected number of conjugate gradient iterations of the ridge solve.

It follows from the edges of the spectrum of the system: Marchenko-Pastur, deformed by the
spectrum of the context summaries.

Edges of the support of :math:`\sum_a t_a u_a u_a^\top` are critical values of
:math:`z(m) = -1/m + \frac1n\sum_a t_a/(1 + t_a m)` (times n; Silverstein and Choi, J. Multivariate
Anal. 54, 295, 1995).
"""

from __future__ import annotations

import math

import numpy as np

from iclimit.simulate.pretraining.cells import TOLERANCE
from iclimit.simulate.pretraining.covariances import covariance_rank, covariance_root, times_root
from iclimit.simulate.pretraining.ridge import choose_method

MANY_TASKS = 100
"""Number of tasks over d from which their second moments are those of their law."""


def solver_iterations(
    *,
    dim: int,
    context: int,
    tasks: float,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    input_covariance: np.ndarray | None = None,
    task_covariance: np.ndarray | None = None,
) -> int:
    """Expected conjugate gradient iterations of one solve; 0 if it is direct."""
    rank = covariance_rank(input_covariance, dim)
    method = choose_method(prompts, rank)
    if method == "dual-dense" or rank == 0:
        return 0
    if input_covariance is None and task_covariance is None:
        features = _summary_spectrum(dim, context / dim, tasks / dim, rho)
    else:
        features = _structured_spectrum(
            dim, context / dim, tasks, rho, input_covariance, task_covariance
        )
    edges = _primal_edges if method == "primal-cg" else _dual_edges
    low, high = edges(features, prompts, ridge)
    root = math.sqrt(high / low) if low > 0 else math.inf
    rate = (root - 1) / (root + 1) if root < math.inf else 1.0
    bound = math.log(TOLERANCE) / math.log(rate) if 0 < rate < 1 else math.inf
    # Near the threshold rounding takes more iterations than there are eigenvalues; measured at
    # tau = 1.1, d = 16: 400 to 730 with 272.
    return math.ceil(max(1.0, min(bound, 2 * prompts, 2 * dim * (dim + 1))))


def _summary_spectrum(dim: int, alpha: float, kappa: float, rho: float) -> np.ndarray:
    """Eigenvalues of E h h^T for random tasks, in the limit: nodes of a quadrature in d + 1."""
    isotropic = (1 + rho) / alpha
    if kappa == math.inf:
        return np.full(dim, 1 + isotropic)
    occupied = min(1.0, kappa)
    angles = np.pi * (np.arange(16) + 0.5) / 16
    middle, half = 1 + 1 / kappa, 2 / math.sqrt(kappa)
    nodes = middle + half * np.cos(angles)
    weights = np.sin(angles) ** 2 / nodes
    steps = np.cumsum(weights) / np.sum(weights) * occupied * dim
    tasks = np.zeros(dim)
    filled = np.arange(dim) < round(occupied * dim)
    places = np.minimum(np.searchsorted(steps, np.arange(dim) + 0.5), 15)
    tasks[filled] = nodes[places[filled]]
    return tasks + isotropic


def _structured_spectrum(
    dim: int,
    alpha: float,
    tasks: float,
    rho: float,
    input_covariance: np.ndarray | None,
    task_covariance: np.ndarray | None,
) -> np.ndarray:
    """Variances of the features of a query and a summary, as means over d quantiles."""
    input_root, task_root = (
        None if each is None else covariance_root(each)
        for each in (input_covariance, task_covariance)
    )
    factor = times_root(times_root(np.eye(dim), task_root), input_root)
    variance = float(np.sum(factor**2)) / dim + rho
    if tasks > MANY_TASKS * dim:
        scatter = factor.T @ factor
    else:
        drawn = np.random.default_rng(0).standard_normal((int(tasks), dim)) @ factor
        scatter = drawn.T @ drawn / tasks
    second = times_root(scatter + variance / alpha * np.eye(dim), input_root)
    summaries = np.linalg.eigvalsh(times_root(second.T, input_root))
    queries = np.linalg.eigvalsh(times_root(times_root(np.eye(dim), input_root).T, input_root))
    products = np.maximum(np.multiply.outer(queries, summaries), 0)
    return np.asarray(np.mean(np.reshape(np.sort(products, axis=None), (dim, dim)), axis=1))


def _primal_edges(summaries: np.ndarray, prompts: int, ridge: float) -> tuple[float, float]:
    """Edges of the whitened normal operator.

    A direction of the summaries of variance s has its share s/(s + ridge) of the fluctuations;
    the others are at 1.
    """
    dim = len(summaries)
    present = summaries[summaries > 0]
    share = present / (present + ridge)
    ratio = math.sqrt((dim + 1) * float(np.sum(share)) / prompts)
    weight = float(np.sum(share**2) / np.sum(share))
    below, above = (1 - ratio) ** 2 - 1, (1 + ratio) ** 2 - 1
    return max(0.0, 1 + weight * below), 1 + weight * above


def _dual_edges(summaries: np.ndarray, prompts: int, ridge: float) -> tuple[float, float]:
    """Edges of the Gram matrix of the features plus the penalty, times d/n."""
    dim, largest = len(summaries), float(np.max(summaries))
    ratio = (dim + 1) / prompts

    def position(m: np.ndarray) -> np.ndarray:
        return -1 / m + ratio * np.sum(summaries / (1 + np.multiply.outer(m, summaries)), axis=-1)

    right = -(1 - np.geomspace(1e-6, 1 - 1e-6, 400)) / largest
    left = np.geomspace(1e-6, 1e8, 2000) / largest
    return max(0.0, float(np.max(position(left)))) + ridge, float(np.min(position(right))) + ridge
