"""Training tasks that are drawn, their shares of the prompts, and the laws of their contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammainccinv

from iclimit.asymptotics.pretraining.deterministic_equivalent import gamma_rule, law_moments
from iclimit.asymptotics.pretraining.linked_contexts import LinkedContexts
from iclimit.asymptotics.pretraining.summary_moments import task_set_moments
from iclimit.asymptotics.pretraining.summary_nodes import Nodes, label_nodes
from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts

# Nodes of the Gauss rules for the label and query norms.  With `_LEVELS` of
# `iclimit.asymptotics.pretraining.task_self_energy` they change the errors by less than 2e-4 at
# d = 16 and a context of 16 against 12 nodes and 16 levels.
NODES = 4

# Contexts up to which the label norm has a rule of its own, its nodes, and the share of norms
# beyond it.  Twice the nodes change errors by less than 1e-5 for contexts from 3 to 8.
_SHORT = 16
_SHORT_NODES = 24
_TAIL = 1e-12

# Relative variance of Q below which contexts count as being all alike.
_LEAST_FLUCTUATION = 1e-12


@lru_cache
def label_norms(context: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Quadrature for the label norm, :math:`\ell\chi` chi-square: nodes and weights.

    Averages contain :math:`1/\chi`, which a Gauss rule of few nodes misses for short contexts:
    there :math:`\chi = c z^4`, with a Gauss-Legendre rule in z.
    """
    if context > _SHORT:
        return gamma_rule(2 / context, NODES, tilt=2)
    shape = context / 2
    z, weight = np.polynomial.legendre.leggauss(_SHORT_NODES)
    z = (z + 1) / 2
    chi = gammainccinv(shape, _TAIL) / shape * z**4
    weight = weight * z**3 * chi ** (shape - 1) * np.exp(-shape * chi)
    return chi, weight / weight.sum()


@dataclass(frozen=True)
class TaskDraws:
    """Training tasks of b draws with their shares of the prompts.

    Where every prompt has a fresh task, the tasks are representatives, and averages are also taken
    over the signs of tasks, or over their directions where their law is isotropic.

    Attributes
    ----------
    tasks : ndarray (b, k, d)
        Task vectors.
    shares : ndarray (b, k)
        Shares of the prompts, :math:`p_t = n_t/n`.
    context, prompts : int
        Context length and number of prompts.
    rho, ridge : float
        Noise variance and ridge.
    fresh : bool
        Whether every prompt has a task of its own.
    isotropic : bool
        Whether fresh tasks are of an isotropic law.
    timed : TimedContexts or LinkedContexts, optional
        Contexts in which the order of the pairs matters, or of labels that are not linear.
    innovations : ndarray (d, d), optional
        Covariance of what drift adds to the tasks; None for a multiple of the identity.
    spread : float
        Variance of :math:`|x_q|^2` in the leverage, over that of isotropic inputs.
    """

    tasks: np.ndarray
    shares: np.ndarray
    context: int
    prompts: int
    rho: float
    ridge: float
    fresh: bool = False
    isotropic: bool = True
    timed: TimedContexts | LinkedContexts | None = None
    innovations: np.ndarray | None = None
    spread: float = 1.0

    def averaged(self, block: np.ndarray) -> np.ndarray:
        """Average of a block (b, i, j) over what leaves the law of fresh tasks as it is."""
        if not self.fresh:
            return block
        d = self.dim
        mean = np.zeros_like(block)
        mean[:, :d, :d] = block[:, :d, :d]
        if self.isotropic:
            own = np.mean(np.diagonal(block[:, :d, :d], axis1=1, axis2=2), axis=1)
            mean[:, :d, :d] = own[:, None, None] * np.eye(d)
        mean[:, d:, d:] = block[:, d:, d:]
        return mean

    @property
    def dim(self) -> int:
        return self.tasks.shape[-1]

    def batches(self, rows: int) -> list[TaskDraws]:
        """Parts of at most so many tasks, of one draw at least."""
        size = max(1, rows // self.tasks.shape[1])
        return [self.chosen(slice(i, i + size)) for i in range(0, len(self.tasks), size)]

    def head(self, rows: int) -> TaskDraws:
        """First draws with at most so many tasks, one draw at least."""
        return self.chosen(slice(0, max(1, rows // self.tasks.shape[1])))

    def thinned(self, rows: int) -> TaskDraws:
        """At most so many of the representatives of fresh tasks; all tasks of a run."""
        count = self.tasks.shape[1]
        if not self.fresh or count <= rows:
            return self
        step = math.ceil(count / rows)
        shares = self.shares[:, ::step]
        shares = shares / np.sum(shares, axis=1, keepdims=True)
        return replace(self, tasks=self.tasks[:, ::step], shares=shares)

    def chosen(self, part: slice | np.ndarray) -> TaskDraws:
        """Some of the draws."""
        return replace(self, tasks=self.tasks[part], shares=self.shares[part])

    @cached_property
    def norms(self) -> np.ndarray:
        r"""Squared norms of the tasks over d, :math:`\omega`, (b, k)."""
        return np.sum(self.tasks**2, axis=-1) / self.dim

    @cached_property
    def nodes(self) -> Nodes:
        """Quadrature over contexts, (nodes, b, k)."""
        if self.timed:
            isotropic = self.innovations is None
            return self.timed.nodes(self.norms, label_norms, isotropic=isotropic)
        rule = label_norms(self.context)
        return label_nodes(*rule, self.norms + self.rho, dim=self.dim, context=self.context)

    @cached_property
    def means(self) -> np.ndarray:
        """Mean summaries c, (b, k, d + 1)."""
        signal = 1.0
        tail = self.norms + self.rho
        if self.timed:
            moments = self.timed.moments
            signal = moments.signal
            tail = moments.tail[0] + moments.tail[1] * self.norms
        return np.concatenate([signal * self.tasks, tail[..., None]], axis=-1)

    @cached_property
    def noise(self) -> np.ndarray:
        """Mean variance a of a summary in all directions but that of the task, (b, k)."""
        mean = np.tensordot(self.nodes.weight, self.nodes.noise, 1)
        if self.timed and self.innovations is not None:
            drifted = np.tensordot(self.nodes.weight, self.nodes.drifted, 1)
            mean = mean + self.timed.innovation * drifted
        return np.asarray(mean)

    @cached_property
    def units(self) -> np.ndarray:
        """Directions u that the noise of a summary lacks, (b, k, d)."""
        along = np.tensordot(self.nodes.weight, self.nodes.along, 1)
        return self.tasks * np.sqrt(along / self.noise)[..., None]

    @property
    def effective_context(self) -> float:
        """Number of independent pairs whose noise Q fluctuates as much."""
        weight = self.nodes.weight
        noise = self.nodes.noise[..., :1, :1]
        mean = np.tensordot(weight, noise, 1)
        square = np.tensordot(weight, noise**2, 1)
        return float(2 / max(float(np.squeeze(square / mean**2 - 1)), _LEAST_FLUCTUATION))

    @property
    def drifted_spread(self) -> float:
        """Part of drift in the tasks, times the variance of its squared norm beyond isotropic one.

        The nodes do not know that pairs with a longer task say more of the directions in which
        tasks are long.
        """
        if self.timed is None or self.innovations is None:
            return 0.0
        trace = np.trace(self.innovations)
        beyond = 2 * (np.sum(self.innovations**2) / trace**2 - 1 / self.dim)
        return float(self.timed.drifted_share * beyond)

    @cached_property
    def second_moment(self) -> np.ndarray:
        """Mean of h h^T over the prompts, (b, d + 1, d + 1)."""
        law = self.context, self.rho, self.timed, self.innovations
        moments = [
            law_moments(task_set_moments(tasks, None, self.rho, shares), *law)[0]
            for tasks, shares in zip(self.tasks, self.shares, strict=True)
        ]
        return self.averaged(np.stack(moments))

    @property
    def scales(self) -> tuple[float, float]:
        """The 1 of 1 + Sigma and the ridge, in units that keep both finite without a ridge."""
        few = self.prompts < self.dim * (self.dim + 1)
        return (1.0, self.ridge) if few else (self.ridge, 1.0)
