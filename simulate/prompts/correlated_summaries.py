r"""Context summaries of correlated tokens with gates, from their law, without the tokens.

Gaussian inputs have :math:`E\, x_i x_j^\top = K_{ij} I/d`, such as :math:`K_{ij} = r^{|i - j|}`,
and the query is independent or continues the sequence, :math:`E\, x_i x_q^\top = k_i I/d`.  With
a task w that does not drift, the labels :math:`y_i = \langle w, x_i\rangle + \epsilon_i` depend on
the components of the inputs along w only.  Across w the summary
:math:`\frac d\ell \sum_i g_i y_i x_i` and the query are jointly Gaussian given the labels:
coordinates of :math:`\sum_i g_i y_i x_i` have the variance :math:`(gy)^\top K (gy)/d` and the
covariance :math:`(gy)^\top k/d` with those of the query.  A prompt takes :math:`O(\ell + d)`
numbers instead of :math:`O(\ell d)`, and as much time where :math:`K_{ij} = r^{|i - j|}` makes
both sums recursive.
"""

import math

import numpy as np

from iclimit.problem import Problem
from iclimit.simulate.arrays import Array, Backend, Generator
from iclimit.simulate.prompts.covariances import kernel_root


def sample_correlated_summaries(
    problem: Problem, backend: Backend, generator: Generator, tasks: Array, gates: Array | None
) -> tuple[Array, Array, Array]:
    """Draw (query, summary, query_label) of one prompt for each row of tasks, (n, d).

    Inputs have the covariance I/d; correlation, context and noise are those of the problem, which
    has no drift.
    """
    xp = backend.xp
    context = problem.context
    n, d = tasks.shape
    deviation = math.sqrt(problem.noise_variance)
    norm = xp.sqrt(xp.vecdot(tasks, tasks))
    length = xp.where(norm > 0, norm, xp.ones_like(norm))  # a zero task has no direction
    signal = norm / math.sqrt(d)
    sums_of = _sums_of_kernel if np.ndim(problem.correlation) else _sums_of_autoregression
    along, square, variance, component, shared = sums_of(
        problem, backend, generator, signal, gates
    )
    if not problem.correlated_query:
        component = generator.standard_normal(n)
        shared = xp.zeros(n)
    query_label = signal * component + deviation * generator.standard_normal(n)
    unit = tasks / length[:, None]

    def across() -> Array:
        drawn = generator.standard_normal((n, d))
        return drawn - xp.vecdot(drawn, unit)[:, None] * unit

    query = across()
    own = xp.sqrt(xp.maximum(variance - shared**2, xp.zeros(n)))
    head = shared[:, None] * query + own[:, None] * across() + along[:, None] * unit
    query = (query + component[:, None] * unit) / math.sqrt(d)
    summary = xp.concat([math.sqrt(d) / context * head, square[:, None] / context], axis=1)
    return query, summary, query_label


def _sums_of_autoregression(
    problem: Problem, backend: Backend, generator: Generator, signal: Array, gates: Array | None
) -> tuple[Array, ...]:
    """Draw sums over the tokens, token by token, for labels with these standard deviations.

    Along the task and of squares; the variance across the task; the component of the next input
    along the task, times sqrt(d), and its covariance with the sum across.
    """
    xp = backend.xp
    r = problem.correlation
    n = signal.shape[0]
    fresh = math.sqrt(1 - r**2)
    deviation = math.sqrt(problem.noise_variance)
    component = generator.standard_normal(n)
    along = xp.zeros(n)
    square = xp.zeros(n)
    variance = xp.zeros(n)
    seen = xp.zeros(n)
    for token in range(problem.context):
        y = signal * component + deviation * generator.standard_normal(n)
        weighted = y if gates is None else gates[token] * y
        along += weighted * component
        square += weighted * y
        seen = r * seen + weighted  # sum of K_ij (gy)_j
        variance += weighted * (2 * seen - weighted)
        if token + 1 < problem.context or problem.correlated_query:
            component = r * component + fresh * generator.standard_normal(n)
    return along, square, variance, component, r * seen


def _sums_of_kernel(
    problem: Problem, backend: Backend, generator: Generator, signal: Array, gates: Array | None
) -> tuple[Array, ...]:
    """Draw the same sums for any correlations, all tokens at once."""
    xp = backend.xp
    context = problem.context
    kernel = problem.kernel
    root = backend.asarray(kernel_root(kernel))
    # In the order of an autoregression: inputs and noise of one token after the other.
    drawn = generator.standard_normal((context + len(kernel), signal.shape[0]))
    components = root @ drawn[::2, :]
    inputs = components[:context, :]
    component = components[-1, :]
    y = signal * inputs + math.sqrt(problem.noise_variance) * drawn[1::2, :]
    weighted = y if gates is None else gates[:, None] * y
    shared = xp.zeros_like(component)
    if problem.correlated_query:
        shared = backend.asarray(kernel[:0:-1].copy()) @ weighted
    spread = root[:context, :context].T @ weighted
    along = xp.sum(weighted * inputs, axis=0)
    square = xp.sum(weighted * y, axis=0)
    return along, square, xp.sum(spread**2, axis=0), component, shared
