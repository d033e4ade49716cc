r"""Context summaries drawn from their exact law, in O(d) per prompt.

For Gaussian inputs the summary
:math:`h = (\frac d\ell\sum_i y_i x_i, \frac1\ell\sum_i y_i^2)` needs no tokens.  With
:math:`x_i = z_i/\sqrt d` split :math:`z_i` along the task,
:math:`a_i = \langle z_i, w\rangle/|w|`, and across.  The labels depend on :math:`a` and the noise
:math:`\epsilon = \sqrt\rho\, b` only, and given the labels the transverse part of
:math:`\sum_i y_i z_i` is Gaussian with variance :math:`|y|^2`.  All that is needed of
:math:`(a, b) \in R^{\ell \times 2}` is its Gram matrix, a :math:`2 \times 2` Wishart matrix with
:math:`\ell` degrees of freedom (Bartlett decomposition).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.blocks import row_blocks


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
