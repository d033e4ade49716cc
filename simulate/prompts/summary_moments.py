r"""Moments of context summaries, and the test error that follows from them.

The test error of a reduced matrix Gamma follows from the moments of the summary, exactly at
finite context length: with query inputs of covariance I/d it is
:math:`E y^2 - \frac2d \operatorname{tr}\Gamma\, E[h w^\top]
+ \frac1d\operatorname{tr}\Gamma\, E[h h^\top]\, \Gamma^\top`.
Monte Carlo over prompts is its check, and the only way for inputs that are not Gaussian.

Inputs of covariance :math:`\Sigma/d` are :math:`\Sigma^{1/2} x` with x of covariance I/d.  Their
labels for a task w are those of x for the task :math:`\Sigma^{1/2} w`, so that the error is that
of :math:`\Sigma^{1/2}\, \Gamma\, \mathrm{diag}(\Sigma^{1/2}, 1)` on x and those tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.prompts.covariances import times_root


@dataclass(frozen=True)
class SummaryMoments:
    """Exact moments of summaries over Gaussian contexts and a law of tasks.

    Attributes
    ----------
    second : array (d + 1, d + 1)
        E h h^T.
    cross : array (d + 1, d)
        E h w^T.
    label : float
        E y^2 of a noisy query label.
    """

    second: Array
    cross: Array
    label: Array


def task_set_moments(backend: Backend, tasks: Array, context: int, rho: float) -> SummaryMoments:
    """Moments for a task drawn uniformly from the rows of tasks, shape (k, d)."""
    xp = backend.xp
    k, d = tasks.shape
    variance = xp.sum(tasks**2, axis=1) / d + rho
    scatter = tasks.T @ tasks / k
    side = variance[None, :] @ tasks / k
    return _moments(xp, scatter, side, xp.mean(variance), xp.mean(variance**2), context)


def fresh_task_moments(
    backend: Backend,
    d: int,
    context: int,
    rho: float,
    task_law: str,
    *,
    covariance: Array | None = None,
) -> SummaryMoments:
    """Moments for fresh tasks from the sphere of squared norm d, or from N(0, I).

    With a covariance, shape (d, d), for such tasks times any square root of it.
    """
    xp = backend.xp
    scatter = xp.eye(d) if covariance is None else covariance
    trace = xp.linalg.trace(scatter)
    square = xp.sum(scatter**2)
    label = trace / d + rho
    # Fourth moments of the sphere are d/(d + 2) times those of a normal vector.
    spread = 2 * square if task_law == "gaussian" else 2 * (d * square - trace**2) / (d + 2)
    return _moments(xp, scatter, xp.zeros((1, d)), label, label**2 + spread / d**2, context)


def _moments(
    xp: ModuleType, scatter: Array, side: Array, label: Array, label_square: Array, context: int
) -> SummaryMoments:
    """Moments from E w w^T, E v w^T as a row, E v and E v^2, where v is the label variance."""
    d = scatter.shape[0]
    corner = 1 + 2 / context
    second = xp.zeros((d + 1, d + 1))
    second[:d, :d] = (1 + 1 / context) * scatter + d / context * label * xp.eye(d)
    border = corner * side[0, :]
    second[d, :d] = border
    second[:d, d] = border
    second[d, d] = corner * label_square
    return SummaryMoments(second, xp.concat([scatter, side], axis=0), label)


def exact_error(gamma: Array, moments: SummaryMoments) -> Any:
    """Mean squared error on noisy query labels, Gaussian inputs of covariance I/d."""
    xp = array_namespace(gamma)
    d = gamma.shape[0]
    linear = xp.sum(gamma.T * moments.cross)
    quadratic = xp.sum((gamma @ moments.second) * gamma)
    return moments.label + (quadratic - 2 * linear) / d


def whitened_gamma(gamma: Array, root: Array | None) -> Array:
    """Gamma on inputs of covariance I/d that equals gamma on those times the root."""
    if root is None:
        return gamma
    d = gamma.shape[0]
    scaled = times_root(gamma.T, root).T
    return array_namespace(gamma).concat([times_root(scaled[:, :d], root), scaled[:, d:]], axis=1)


def squared_errors(gamma: Array, query: Array, summary: Array, query_label: Array) -> Array:
    """Squared error of each prompt, shape (n,)."""
    xp = array_namespace(gamma)
    return (query_label - xp.sum((query @ gamma) * summary, axis=1)) ** 2
