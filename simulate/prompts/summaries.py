r"""Context summaries, from their exact law or from tokens.

For Gaussian inputs the summary
:math:`h = (\frac d\ell\sum_i y_i x_i, \frac1\ell\sum_i y_i^2)` needs no tokens: it is drawn in
O(d).  (With gates or correlated tokens in :math:`O(\ell + d)`: module
`iclimit.simulate.prompts.correlated_summaries`.)
With :math:`x_i = z_i/\sqrt d` split :math:`z_i` along the task,
:math:`a_i = \langle z_i, w\rangle/|w|`, and across.  The labels depend on :math:`a` and the noise
:math:`\epsilon = \sqrt\rho\, b` only, and given the labels the transverse part of
:math:`\sum_i y_i z_i` is Gaussian with variance :math:`|y|^2`.  All that is needed of
:math:`(a, b) \in R^{\ell \times 2}` is its Gram matrix, a :math:`2 \times 2` Wishart matrix with
:math:`\ell` degrees of freedom (Bartlett decomposition).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from iclimit.problem import Problem
from iclimit.simulate.arrays import Array, Backend, Generator, row_blocks, to_host
from iclimit.simulate.prompts.correlated_summaries import sample_correlated_summaries
from iclimit.simulate.prompts.covariances import times_root
from iclimit.simulate.prompts.links import (
    LinkMoments,
    flipped_labels,
    link_moments,
    linked_labels,
    scaled_moments,
)
from iclimit.simulate.prompts.query_errors import ContextMeans, correlated_query_error
from iclimit.simulate.prompts.sampling import (
    context_summary,
    draw_fresh_tasks,
    draw_prompts,
    draw_scales,
    input_root,
    task_root,
)
from iclimit.simulate.prompts.summary_moments import (
    SummaryMoments,
    exact_error,
    fresh_task_moments,
    squared_errors,
    task_set_moments,
    whitened_gamma,
)
from iclimit.simulate.prompts.timed_moments import TimedMoments, timed_moments


def sample_summaries(
    backend: Backend,
    generator: Generator,
    tasks: Array,
    context: int,
    rho: float,
    *,
    chosen: Array | None = None,
) -> Array:
    """Draw one summary for each row of tasks, shape (n, d) -> (n, d + 1).

    With ``chosen``, integers of shape (n,), prompt i has the task in that row of tasks.
    """
    d = tasks.shape[1]
    norm = _norms(tasks, chosen)
    signal = norm / math.sqrt(d)
    noise = math.sqrt(rho)
    aa, ab, bb = _noise_sums(backend, generator, context, norm.shape[0])
    label_square = signal**2 * aa + 2 * signal * noise * ab + noise**2 * bb
    aligned = signal * aa + noise * ab
    sums = _LabelSums(norm, aligned, label_square, label_square)
    return _around(generator, tasks, context, sums, chosen)


def sample_linked_summaries(
    problem: Problem,
    backend: Backend,
    generator: Generator,
    tasks: Array,
    *,
    chosen: Array | None = None,
) -> Array:
    """Draw summaries as `sample_summaries`, with links or scales of inputs, in O(d + context)."""
    norm = _norms(tasks, chosen)
    n = norm.shape[0]
    signal = norm[:, None] / math.sqrt(tasks.shape[1])
    a = generator.standard_normal((n, problem.context))
    scales = None
    if problem.scale_law is not None:
        scales = draw_scales(problem.scale_law, backend, generator, a.shape)
        a *= backend.xp.sqrt(scales)
    y = flipped_labels(problem, generator, linked_labels(problem, signal * a))
    if problem.noise_variance:
        y = y + math.sqrt(problem.noise_variance) * generator.standard_normal(y.shape)
    xp = backend.xp
    square = xp.vecdot(y, y)
    across = square if scales is None else xp.vecdot(y * scales, y)
    sums = _LabelSums(norm, xp.vecdot(y, a), square, across)
    return _around(generator, tasks, problem.context, sums, chosen)


def _norms(tasks: Array, chosen: Array | None) -> Array:
    """Norms of the tasks of prompts."""
    xp = array_namespace(tasks)
    norm = xp.sqrt(xp.vecdot(tasks, tasks))
    return norm if chosen is None else xp.take(norm, chosen)


class _LabelSums(NamedTuple):
    """Norms |w| of the tasks of prompts, and sums over contexts of y a, y^2 and u y^2, each (n,).

    The last one has the scales u of the inputs, 1 where these have none.
    """

    norm: Array
    aligned: Array
    square: Array
    across: Array


def _around(
    generator: Generator, tasks: Array, context: int, sums: _LabelSums, chosen: Array | None
) -> Array:
    """Summaries (n, d + 1) given the sums over labels, with their Gaussian transverse part."""
    xp = array_namespace(tasks)
    d = tasks.shape[1]
    n = sums.norm.shape[0]
    length = xp.where(sums.norm > 0, sums.norm, xp.ones_like(sums.norm))  # zero has no direction
    scale = math.sqrt(d) / context
    along = (scale * sums.aligned / length)[:, None]
    spread = (scale * xp.sqrt(sums.across))[:, None]
    inverse_square = length**-2
    summaries = xp.empty((n, d + 1))
    for rows in row_blocks(xp, n, 8 * d):
        task = tasks_of(tasks, chosen, rows)
        across = generator.standard_normal(task.shape)
        overlap = (xp.vecdot(across, task) * inverse_square[rows])[:, None]
        across *= spread[rows, :]
        across += (along[rows, :] - overlap * spread[rows, :]) * task
        summaries[rows, :d] = across
        summaries[rows, d] = sums.square[rows] / context
    return summaries


def _noise_sums(
    backend: Backend, generator: Generator, context: int, count: int
) -> tuple[Array, Array, Array]:
    """Sums over a context of squares and products of two normal variables, by Bartlett's law."""
    diagonal = backend.xp.sqrt(2 * generator.standard_gamma(context / 2, count))
    below = generator.standard_normal(count)
    corner = 2 * generator.standard_gamma((context - 1) / 2, count)
    return diagonal**2, diagonal * below, below**2 + corner


def tasks_of(tasks: Array, chosen: Array | None, rows: slice) -> Array:
    """Task vectors of those prompts, see `sample_summaries`."""
    if chosen is None:
        return tasks[rows, :]
    return array_namespace(tasks).take(tasks, chosen[rows], axis=0)


# Queries (n, d), context summaries (n, d + 1) and noisy query labels (n,).
Drawn: TypeAlias = tuple[Array, Array, Array]

# Most input numbers that token-level sampling holds at a time (32 MiB).
TOKEN_BLOCK = 2**22


def is_timed(problem: Problem, gates: Array | None) -> bool:
    """Whether the order of the pairs matters."""
    return bool(problem.drift or problem.is_correlated or gates is not None)


def has_known_moments(problem: Problem, gates: Array | None) -> bool:
    """Whether the moments of features, and with them test errors, are known exactly."""
    isotropic = problem.input_covariance is None and problem.task_covariance is None
    unit_tasks = problem.task_law == "sphere" and problem.task_set is None and isotropic
    known = unit_tasks or not is_timed(problem, gates)
    if problem.is_correlated and problem.correlated_query:
        known = unit_tasks and not problem.drift
    if problem.scale_law is not None:
        return unit_tasks and not is_timed(problem, gates)
    if not problem.has_linear_labels:
        # Jumps of a user's function may be anywhere.
        known = unit_tasks and not is_timed(problem, gates) and not callable(problem.link)
    return problem.input_law == "gaussian" and known


@dataclass(frozen=True)
class SummaryLaw:
    """Summaries of the prompts of a problem, and test errors on them.

    In all methods ``task_set`` is an array (k, d) of tasks to choose from, or None for a fresh
    task in every prompt: the tasks of the problem do not count.

    Attributes
    ----------
    backend : Backend
    problem : Problem
        In the units of this library.
    sampler : {"summaries", "tokens"}
        Whether summaries come from their exact law, for Gaussian inputs, or from tokens.
    gates : array (context,), optional
        Weights of the pairs in the summary.
    """

    backend: Backend
    problem: Problem
    sampler: str = "summaries"
    gates: Array | None = None

    def of_context(self, length: int) -> SummaryLaw:
        """The same law with another context length."""
        if length == self.problem.context:
            return self
        if length not in self._of_contexts:
            self._of_contexts[length] = replace(self.problem, context=length)
        return replace(self, problem=self._of_contexts[length])

    @cached_property
    def _of_contexts(self) -> dict[int, Problem]:
        """Problems of other context lengths, which each repeat of a run asks for again.

        Their moments are not kept: those of a thousand positions would not fit into memory.
        """
        return {}

    @cached_property
    def input_root(self) -> Array | None:
        """Root of the covariance of the inputs."""
        return input_root(self.problem, self.backend)

    def fresh_tasks(self, generator: Generator, count: int) -> Array:
        """Draw task vectors, shape (count, d)."""
        return draw_fresh_tasks(self.problem, self.backend, generator, count)

    def draw(self, generator: Generator, count: int, task_set: Array | None) -> Drawn:
        """Draw (query, summary, query_label) of prompts."""
        whole = self.sampler == "summaries"
        context = self.problem.context
        numbers = self.problem.dim * (1 if whole else context + 1)
        if np.ndim(self.problem.correlation):  # all tokens are drawn at once
            numbers += context
        block = max(1, TOKEN_BLOCK // numbers)
        sample = self._from_tokens
        if whole and is_timed(self.problem, self.gates):
            sample = self._from_correlated_law
        elif whole:
            sample = self._from_law
            block = count
        parts = []
        for start in range(0, count, block):
            size = min(block, count - start)
            if task_set is None:
                parts.append(sample(generator, self.fresh_tasks(generator, size), None))
            else:
                chosen = generator.integers(0, task_set.shape[0], size=size)
                parts.append(sample(generator, task_set, chosen))
        if len(parts) == 1:
            return parts[0]
        xp = self.backend.xp
        return (
            xp.concat([x for x, _, _ in parts]),
            xp.concat([h for _, h, _ in parts]),
            xp.concat([y for _, _, y in parts]),
        )

    def test_error(
        self, generator: Generator, gamma: Array, test_prompts: int, task_set: Array | None
    ) -> float:
        """Test error of a reduced matrix Gamma: exact for Gaussian inputs, else sampled."""
        if has_known_moments(self.problem, self.gates):
            if self.problem.is_correlated and self.problem.correlated_query:
                rho = self.problem.noise_variance
                return correlated_query_error(gamma, self.query_moments, rho, task_set)
            whitened = whitened_gamma(gamma, self.input_root)
            moments = self.fresh_moments if task_set is None else self.moments(task_set)
            return float(exact_error(whitened, moments))
        errors = squared_errors(gamma, *self.draw(generator, test_prompts, task_set))
        return float(self.backend.xp.mean(errors))

    def accuracy(
        self, generator: Generator, gamma: Array, test_prompts: int, task_set: Array | None
    ) -> float:
        """Share of queries whose predictions have the sign of <w, x>.

        Given context and task the share of queries is an angle; it is averaged over prompts.
        """
        xp = self.backend.xp
        if task_set is None:
            tasks = self.fresh_tasks(generator, test_prompts)
        else:
            chosen = generator.integers(0, task_set.shape[0], size=test_prompts)
            tasks = xp.take(task_set, chosen, axis=0)
        summary = sample_linked_summaries(self.problem, self.backend, generator, tasks)
        answer = summary @ gamma.T
        size = xp.sqrt(xp.vecdot(answer, answer) * xp.vecdot(tasks, tasks))
        cosine = xp.vecdot(answer, tasks) / xp.where(size > 0, size, xp.ones_like(size))
        angle = xp.acos(xp.clip(cosine, -1.0, 1.0))
        return float(1 - xp.mean(angle) / math.pi)

    @cached_property
    def query_moments(self) -> ContextMeans:
        """Moments of contexts that the query continues."""
        return ContextMeans.of(self.problem, self.gates)

    @cached_property
    def timed_moments(self) -> TimedMoments:
        """Coefficients of moments where the order of the pairs matters."""
        return timed_moments(self.problem, None if self.gates is None else to_host(self.gates))

    @cached_property
    def label_moments(self) -> LinkMoments:
        """Moments of labels that are not linear, or of inputs with scales."""
        if self.problem.scale_law is not None:
            return scaled_moments(self.problem)
        return link_moments(self.problem)

    @cached_property
    def fresh_moments(self) -> SummaryMoments:
        """Moments for fresh tasks."""
        return self.moments(None)

    def moments(self, task_set: Array | None) -> SummaryMoments:
        """Moments of the summaries of Gaussian inputs, as inputs of covariance I/d see them."""
        device = self.backend
        problem = self.problem
        sizes = problem.context, problem.noise_variance
        if is_timed(problem, self.gates):
            return self._timed_moments(task_set)
        if not problem.has_linear_labels or problem.scale_law is not None:
            return self._linked_moments(task_set)
        if task_set is not None:
            return task_set_moments(device, times_root(task_set, self.input_root), *sizes)
        root = task_root(problem, device)
        factor = times_root(times_root(device.xp.eye(problem.dim), root), self.input_root)
        scatter = factor.T @ factor
        return fresh_task_moments(
            device, problem.dim, *sizes, problem.task_law, covariance=scatter
        )

    def _linked_moments(self, task_set: Array | None) -> SummaryMoments:
        """Moments with links or scales of inputs, for tasks of squared norm d."""
        xp = self.backend.xp
        d = self.problem.dim
        length = self.problem.context
        own = self.label_moments
        scatter = xp.eye(d)
        side = xp.zeros(d)
        if task_set is not None:
            scatter = task_set.T @ task_set / task_set.shape[0]
            side = xp.mean(task_set, axis=0)
        second = xp.zeros((d + 1, d + 1))
        along = own.slope**2 + (own.along - own.slope**2 - own.across) / length
        second[:d, :d] = along * scatter + d / length * own.across * xp.eye(d)
        mean = own.slope * own.square
        border = (mean + (own.third - mean) / length) * side
        second[d, :d] = border
        second[:d, d] = border
        second[d, d] = own.square**2 + (own.fourth - own.square**2) / length
        cross = xp.concat([own.slope * scatter, own.square * side[None, :]], axis=0)
        return SummaryMoments(second, own.slope * cross, own.square)

    def _timed_moments(self, task_set: Array | None) -> SummaryMoments:
        """Moments where the order of the pairs matters, of tasks of squared norm d."""
        xp = self.backend.xp
        d = self.problem.dim
        known = self.timed_moments
        scatter = xp.eye(d)
        side = xp.zeros(d)
        if task_set is not None:
            scatter = task_set.T @ task_set / task_set.shape[0]
            side = xp.mean(task_set, axis=0)
        second = xp.zeros((d + 1, d + 1))
        second[:d, :d] = known.square * scatter + known.noise * xp.eye(d)
        border = known.mixed * side
        second[d, :d] = border
        second[:d, d] = border
        second[d, d] = known.tail_square
        cross = xp.concat([known.signal * scatter, known.tail * side[None, :]], axis=0)
        return SummaryMoments(second, cross, 1 + self.problem.noise_variance)

    def _from_law(self, generator: Generator, tasks: Array, chosen: Array | None) -> Drawn:
        """Draw whitened summaries and queries from their exact law, then apply the root.

        Prompt i has the task in row ``chosen[i]`` of tasks, or in row i.
        """
        device = self.backend
        xp = self.backend.xp
        root = self.input_root
        dim = self.problem.dim
        context = self.problem.context
        rho = self.problem.noise_variance
        seen = times_root(tasks, root)
        if self.problem.has_linear_labels and self.problem.scale_law is None:
            summary = sample_summaries(device, generator, seen, context, rho, chosen=chosen)
        else:
            summary = sample_linked_summaries(self.problem, device, generator, seen, chosen=chosen)
        n = summary.shape[0]
        x = generator.standard_normal((n, dim))
        if self.problem.scale_law is not None:
            x *= xp.sqrt(draw_scales(self.problem.scale_law, device, generator, (n, 1)))
        y = xp.empty(n)
        for rows in row_blocks(xp, n, 8 * dim):
            x[rows, :] /= math.sqrt(dim)
            y[rows] = xp.vecdot(x[rows, :], tasks_of(seen, chosen, rows))
            if root is not None:
                x[rows, :] = times_root(x[rows, :], root)
                summary[rows, :dim] = times_root(summary[rows, :dim], root)
        if not self.problem.has_linear_labels:
            y = linked_labels(self.problem, y)
            y = flipped_labels(self.problem, generator, y)
        y += math.sqrt(rho) * generator.standard_normal(n)
        return x, summary, y

    def _from_correlated_law(
        self, generator: Generator, tasks: Array, chosen: Array | None
    ) -> Drawn:
        root = self.input_root
        seen = times_root(tasks_of(tasks, chosen, slice(None)), root)
        drawn = sample_correlated_summaries(
            self.problem, self.backend, generator, seen, self.gates
        )
        query, summary, label = drawn
        summary[:, :-1] = times_root(summary[:, :-1], root)
        return times_root(query, root), summary, label

    def _from_tokens(self, generator: Generator, tasks: Array, chosen: Array | None) -> Drawn:
        own = tasks_of(tasks, chosen, slice(None))
        prompts = draw_prompts(self.problem, self.backend, generator, tasks=own)
        return prompts.query, context_summary(prompts, self.gates), prompts.query_label
