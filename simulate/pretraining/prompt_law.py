"""Law of tasks and of their prompts, drawn token by token or through the context summaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from iclimit.simulate.arrays import Array, Backend, row_blocks
from iclimit.simulate.pretraining.attention import context_summary
from iclimit.simulate.pretraining.covariances import times_root
from iclimit.simulate.pretraining.prompts import sample_prompts, sample_tasks
from iclimit.simulate.pretraining.summaries import (
    SummaryMoments,
    exact_error,
    fresh_task_moments,
    sample_summaries,
    squared_errors,
    task_set_moments,
    tasks_of,
    whitened_gamma,
)

Drawn: TypeAlias = tuple[Array, Array, Array]
"""Queries (n, d), context summaries (n, d + 1) and noisy query labels (n,)."""

TOKEN_BLOCK = 2**22
"""Most input numbers that token-level sampling holds at a time (32 MiB)."""


@dataclass(frozen=True)
class PromptLaw:
    """Law of tasks and of their prompts.

    In all methods ``task_set`` is an array (k, d) of tasks to choose from, or None for a fresh
    task in every prompt.
    """

    backend: Backend
    dim: int
    context: int
    rho: float
    task_law: str
    task_root: Array | None
    input_law: str
    input_root: Array | None
    sampler: str

    def fresh_tasks(self, generator: Any, count: int) -> Array:
        """Draw task vectors, shape (count, d)."""
        law, root = self.task_law, self.task_root
        return sample_tasks(self.backend, generator, count, self.dim, law, root=root)

    def draw(self, generator: Any, count: int, task_set: Array | None) -> Drawn:
        """Draw (x_query, summary, y_query) of prompts."""
        whole = self.sampler == "summaries"
        block = count if whole else max(1, TOKEN_BLOCK // (self.dim * (self.context + 1)))
        sample = self._from_law if whole else self._from_tokens
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
        x, h, y = (self.backend.xp.concat(column) for column in zip(*parts, strict=True))
        return x, h, y

    def test_error(
        self, generator: Any, gamma: Array, test_prompts: int, task_set: Array | None
    ) -> float:
        """Test error of a reduced matrix Gamma: exact for Gaussian inputs, else sampled."""
        if self.input_law == "gaussian":
            whitened = whitened_gamma(gamma, self.input_root)
            return float(exact_error(whitened, self.moments(task_set)))
        errors = squared_errors(gamma, *self.draw(generator, test_prompts, task_set))
        return float(self.backend.xp.mean(errors))

    def moments(self, task_set: Array | None) -> SummaryMoments:
        """Moments of the summaries of Gaussian inputs, as inputs of covariance I/d see them."""
        there, sizes = self.backend, (self.context, self.rho)
        if task_set is not None:
            return task_set_moments(there, times_root(task_set, self.input_root), *sizes)
        factor = times_root(times_root(there.xp.eye(self.dim), self.task_root), self.input_root)
        scatter = factor.T @ factor
        return fresh_task_moments(there, self.dim, *sizes, self.task_law, covariance=scatter)

    def _from_law(self, generator: Any, tasks: Array, chosen: Array | None) -> Drawn:
        """Draw whitened summaries and queries from their exact law, then apply the root.

        Prompt i has the task in row ``chosen[i]`` of tasks, or in row i.
        """
        there, xp, root = self.backend, self.backend.xp, self.input_root
        seen = times_root(tasks, root)
        summary = sample_summaries(there, generator, seen, self.context, self.rho, chosen=chosen)
        n = summary.shape[0]
        x, y = generator.standard_normal((n, self.dim)), xp.empty(n)
        for rows in row_blocks(xp, n, 8 * self.dim):
            x[rows, :] /= math.sqrt(self.dim)
            y[rows] = xp.vecdot(x[rows, :], tasks_of(seen, chosen, rows))
            if root is not None:
                x[rows, :] = times_root(x[rows, :], root)
                summary[rows, : self.dim] = times_root(summary[rows, : self.dim], root)
        y += math.sqrt(self.rho) * generator.standard_normal(n)
        return x, summary, y

    def _from_tokens(self, generator: Any, tasks: Array, chosen: Array | None) -> Drawn:
        own, law, root = tasks_of(tasks, chosen, slice(None)), self.input_law, self.input_root
        prompts = sample_prompts(
            self.backend, generator, own, self.context, self.rho, law, input_root=root
        )
        return prompts.x_query, context_summary(prompts), prompts.y_query
