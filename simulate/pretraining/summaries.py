r"""Context summaries drawn from their exact law, and the test error from their moments.

For Gaussian inputs the summary
:math:`h = (\frac d\ell\sum_i y_i x_i, \frac1\ell\sum_i y_i^2)` needs no tokens: it is drawn in
O(d).  With :math:`x_i = z_i/\sqrt d` split :math:`z_i` along the task,
:math:`a_i = \langle z_i, w\rangle/|w|`, and across.  The labels depend on :math:`a` and the noise
:math:`\epsilon = \sqrt\rho\, b` only, and given the labels the transverse part of
:math:`\sum_i y_i z_i` is Gaussian with variance :math:`|y|^2`.  All that is needed of
:math:`(a, b) \in R^{\ell \times 2}` is its Gram matrix, a :math:`2 \times 2` Wishart matrix with
:math:`\ell` degrees of freedom (Bartlett decomposition).

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

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend, row_blocks
from iclimit.simulate.pretraining.covariances import times_root


def sample_summaries(
    backend: Backend,
    generator: Any,
    tasks: Array,
    context: int,
    rho: float,
    *,
    chosen: Array | None = None,
) -> Array:
    """Draw one summary for each row of tasks, shape (n, d) -> (n, d + 1).

    With ``chosen``, integers of shape (n,), prompt i has the task in that row of tasks.
    """
    xp, d = backend.xp, tasks.shape[1]
    norm = xp.sqrt(xp.vecdot(tasks, tasks))
    if chosen is not None:
        norm = xp.take(norm, chosen)
    n = norm.shape[0]
    signal, noise = norm / math.sqrt(d), math.sqrt(rho)
    diagonal = xp.sqrt(2 * generator.standard_gamma(context / 2, n))
    below = generator.standard_normal(n)
    corner = 2 * generator.standard_gamma((context - 1) / 2, n)
    aa, ab, bb = diagonal**2, diagonal * below, below**2 + corner
    label_square = signal**2 * aa + 2 * signal * noise * ab + noise**2 * bb
    length = xp.where(norm > 0, norm, xp.ones_like(norm))  # a zero task has no direction
    scale = math.sqrt(d) / context
    along = (scale * (signal * aa + noise * ab) / length)[:, None]
    spread = (scale * xp.sqrt(label_square))[:, None]
    inverse_square = length**-2
    summaries = xp.empty((n, d + 1))
    for rows in row_blocks(xp, n, 8 * d):
        task = tasks_of(tasks, chosen, rows)
        across = generator.standard_normal(task.shape)
        overlap = (xp.vecdot(across, task) * inverse_square[rows])[:, None]
        across *= spread[rows, :]
        across += (along[rows, :] - overlap * spread[rows, :]) * task
        summaries[rows, :d] = across
        summaries[rows, d] = label_square[rows] / context
    return summaries


def tasks_of(tasks: Array, chosen: Array | None, rows: slice) -> Array:
    """Task vectors of those prompts, see `sample_summaries`."""
    if chosen is None:
        return tasks[rows, :]
    return array_namespace(tasks).take(tasks, chosen[rows], axis=0)


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
    label: Any


def task_set_moments(backend: Backend, tasks: Array, context: int, rho: float) -> SummaryMoments:
    """Moments for a task drawn uniformly from the rows of tasks, shape (k, d)."""
    xp = backend.xp
    k, d = tasks.shape
    variance = xp.sum(tasks**2, axis=1) / d + rho
    scatter, side = tasks.T @ tasks / k, variance[None, :] @ tasks / k
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
    trace, square = xp.linalg.trace(scatter), xp.sum(scatter**2)
    label = trace / d + rho
    # Fourth moments of the sphere are d/(d + 2) times those of a normal vector.
    spread = 2 * square if task_law == "gaussian" else 2 * (d * square - trace**2) / (d + 2)
    return _moments(xp, scatter, xp.zeros((1, d)), label, label**2 + spread / d**2, context)


def _moments(
    xp: Any, scatter: Array, side: Array, label: Any, label_square: Any, context: int
) -> SummaryMoments:
    """Moments from E w w^T, E v w^T as a row, E v and E v^2, where v is the label variance."""
    d, corner = scatter.shape[0], 1 + 2 / context
    second = xp.zeros((d + 1, d + 1))
    second[:d, :d] = (1 + 1 / context) * scatter + d / context * label * xp.eye(d)
    second[d, :d] = second[:d, d] = corner * side[0, :]
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
    left = times_root(gamma.T, root).T
    return array_namespace(gamma).concat([times_root(left[:, :d], root), left[:, d:]], axis=1)


def squared_errors(gamma: Array, x_query: Array, summary: Array, y_query: Array) -> Array:
    """Squared error of each prompt, shape (n,)."""
    xp = array_namespace(gamma)
    return (y_query - xp.sum((x_query @ gamma) * summary, axis=1)) ** 2
