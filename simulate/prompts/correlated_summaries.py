r"""Context summaries of correlated tokens with gates, from their law, without the tokens.

Gaussian inputs of neighbouring tokens have the correlation r, so that :math:`E\, x_i x_j^\top =
K_{ij} I/d` with :math:`K_{ij} = r^{|i - j|}`, and the query is independent or continues the
sequence, :math:`E\, x_i x_q^\top = k_i I/d`.  With a task w that does not drift, the labels
:math:`y_i = \langle w, x_i\rangle + \epsilon_i` depend on the components of the inputs along w
only.  Across w the summary :math:`\frac d\ell \sum_i g_i y_i x_i` and the query are jointly
Gaussian given the labels: coordinates of :math:`\sum_i g_i y_i x_i` have the variance
:math:`(gy)^\top K (gy)/d` and the covariance :math:`(gy)^\top k/d` with those of the query.  Both
sums are found recursively.  A prompt takes :math:`O(\ell + d)` numbers instead of
:math:`O(\ell d)`.
"""

import math

from iclimit.problem import Problem
from iclimit.simulate.arrays import Array, Backend, Generator


def sample_correlated_summaries(
    problem: Problem, backend: Backend, generator: Generator, tasks: Array, gates: Array | None
) -> tuple[Array, Array, Array]:
    """Draw (query, summary, query_label) of one prompt for each row of tasks, (n, d).

    Inputs have the covariance I/d; correlation, context and noise are those of the problem, which
    has no drift.
    """
    xp, r, context = backend.xp, problem.correlation, problem.context
    n, d = tasks.shape
    fresh, deviation = math.sqrt(1 - r**2), math.sqrt(problem.noise_variance)
    norm = xp.sqrt(xp.vecdot(tasks, tasks))
    length = xp.where(norm > 0, norm, xp.ones_like(norm))  # a zero task has no direction
    signal = norm / math.sqrt(d)

    def label(component: Array) -> Array:
        return signal * component + deviation * generator.standard_normal(n)

    # Component of the inputs along the task, times sqrt(d), and sums over the tokens seen.
    component = generator.standard_normal(n)
    along, square, variance, seen = (xp.zeros(n) for _ in range(4))
    for token in range(context):
        y = label(component)
        weighted = y if gates is None else gates[token] * y
        along += weighted * component
        square += weighted * y
        seen = r * seen + weighted  # sum of K_ij (gy)_j
        variance += weighted * (2 * seen - weighted)
        if token + 1 < context or problem.correlated_query:
            component = r * component + fresh * generator.standard_normal(n)
    shared = r * seen  # covariance of the summary and the query
    if not problem.correlated_query:
        component, shared = generator.standard_normal(n), xp.zeros(n)
    query_label = label(component)
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
