r"""Law of the context summary where the order of the pairs matters: gates, drift, correlation.

The summary :math:`h = (\frac d\ell \sum_i g_i y_i x_i, \frac1\ell \sum_i g_i y_i^2)` weighs pair
i by :math:`g_i`; inputs have :math:`E\, x_i x_j^\top = K_{ij} I/d`, such as
:math:`K_{ij} = r^{|i - j|}`.
The task of pair i is :math:`w_i = m_i w + \zeta_i` with the query's task w, :math:`|w|^2 = d`, and
Gaussian :math:`\zeta`, where :math:`m_i = e^{-\vartheta (\ell + 1 - i)/d}` and
:math:`c_{ij} = e^{-\vartheta |i - j|/d}` is the correlation of two tasks.

**Moments.**  Given all tasks, inputs and labels are jointly Gaussian with
:math:`E\, y_i x_j = K_{ij} w_i/d` and
:math:`E\, y_i y_j = K_{ij} \langle w_i, w_j\rangle/d + \rho\, \delta_{ij}`.  Isserlis' theorem
gives the fourth moments of these, and averages over :math:`\zeta` with :math:`c_{ii} = 1` then

.. math::

   E h &= (a w, b_1), \qquad b_1 = \frac{1 + \rho}\ell \sum_i g_i, \\
   E h_x h_x^\top &= a_2 w w^\top + b I, \qquad
   E h_x h_\eta = e_1 w, \qquad E h_\eta^2 = e_2, \\
   a_2 &= \sum p_{ij} (1 + K_{ij}^2), \\
   e_1 &= \sum \Bigl[(1 + \rho) m_i + \frac2d z_{ij} m_j + 2 K_{ij}^2 \Bigl(c_{ij} m_j
   + \frac{m_i (1 - m_j^2) + m_j z_{ij}}d\Bigr) + 2 \rho\, \delta_{ij} m_j\Bigr], \\
   e_2 &= \sum \Bigl[(1 + \rho)^2 + \frac2d (c_{ij}^2 - p_{ij}^2)
   + 2 K_{ij}^2 \Bigl(c_{ij}^2 + \frac{1 - 2 p_{ij}^2 + c_{ij}^2}d\Bigr)
   + 2 (2 \rho + \rho^2)\, \delta_{ij}\Bigr],

with :math:`p_{ij} = m_i m_j` and :math:`z = c - p`; a and b are those of
`iclimit.asymptotics.recurrent.gates`.  Sums run over i and j and carry :math:`g_i g_j/\ell^2`.

**Fluctuations.**  The three numbers of `iclimit.asymptotics.pretraining.summary_nodes` have no
known closed law, but they are cheap to draw, once for all tasks.  Without drift labels depend on
the inputs along w only, and
:math:`Q = \frac d{\ell^2} (gy)^\top K\, (gy)\, \chi^2_{d-1}/(d - 1)`; with drift contexts are
drawn.  The draws are ordered by Q and divided into groups.  Each group gets two nodes, one
standard deviation of :math:`\chi` from its mean along the regressions on :math:`\chi`.  The nodes
are then scaled to the exact moments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from iclimit.asymptotics.pretraining.summary_nodes import Nodes
from iclimit.asymptotics.recurrent.gates import GatedContext, gated_context

# Draws up to this dimension; above it there are fewer, as 1/d, because fluctuations matter as 1/d.
# With drift a context costs so much that this many numbers are drawn of each kind.
_DRAWS, _LEAST_DRAWS, _ALL_UP_TO, _NUMBERS = 16_000, 1600, 32, 2**23


@dataclass(frozen=True)
class TimedContexts:
    r"""Contexts in which the order of the pairs matters, of tasks with :math:`|w|^2 = d`.

    Attributes
    ----------
    dim : int
        Dimension d of the inputs.
    rho : float
        Noise variance.
    gates : tuple of float
        Weights of the pairs, from the first to the last.
    drift : float
        Rate at which tasks change.
    correlation : float or tuple of float
        Correlation of neighbouring inputs, or the correlations at distances 0, 1, ...
    correlated_query : bool
        Whether the query continues the sequence; the law of summaries is the same.
    """

    dim: int
    rho: float
    gates: tuple[float, ...]
    drift: float
    correlation: float | tuple[float, ...]
    correlated_query: bool = False

    @property
    def kernel(self) -> np.ndarray:
        """Correlations of inputs at distances 0, 1, ... up to the context length."""
        tokens = len(self.gates) + 1
        if isinstance(self.correlation, tuple):
            return np.array((self.correlation + tokens * (0.0,))[:tokens])
        return np.asarray(float(self.correlation) ** np.arange(tokens))

    @cached_property
    def moments(self) -> TimedMoments:
        """Coefficients of the moments of the summary."""
        return _moments(replace(self, correlated_query=False))

    @cached_property
    def left(self) -> GatedContext:
        """What gates, drift and correlation leave of the context."""
        times = {"drift": self.drift, "rho": self.rho}
        return gated_context(self.gates, dim=self.dim, correlation=self.correlation, **times)

    def nodes(self, groups: int) -> Nodes:
        """Quadrature over contexts, (nodes, 1), with two nodes for each group of draws."""
        return _nodes(replace(self, correlated_query=False), groups)


@dataclass(frozen=True)
class TimedMoments:
    """Coefficients a, a_2, b, e_1, b_1 and e_2 of the moments of the summary (head, tail).

    Attributes
    ----------
    signal : float
        E head is so many times w.
    square, noise : float
        E head head^T is so many times w w^T, and the identity.
    mixed : float
        E head tail is so many times w.
    tail, tail_square : float
        Mean and mean square of the tail.
    """

    signal: float
    square: float
    noise: float
    mixed: float
    tail: float
    tail_square: float

    def second(self, scatter: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """E h h^T of tasks with E w w^T (..., d, d) and E w (..., d)."""
        d = scatter.shape[-1]
        G = np.empty((*scatter.shape[:-2], d + 1, d + 1))
        G[..., :d, :d] = self.square * scatter + self.noise * np.eye(d)
        G[..., :d, d] = G[..., d, :d] = self.mixed * mean
        G[..., d, d] = self.tail_square
        return G


@lru_cache(maxsize=64)
def _moments(contexts: TimedContexts) -> TimedMoments:
    d, rho, g = contexts.dim, contexts.rho, np.array(contexts.gates)
    ages = np.arange(len(g), 0, -1)
    apart = np.abs(ages[:, None] - ages)
    K2 = contexts.kernel[apart] ** 2
    own = np.eye(len(g))
    m, c = np.exp(-contexts.drift / d * ages), np.exp(-contexts.drift / d * apart)
    first, second = m[:, None], m[None, :]
    p, label = first * second, 1 + rho
    z = c - p
    around = c * second + (first * (1 - second**2) + second * z) / d
    mixed = label * first + 2 / d * z * second + 2 * K2 * around + 2 * rho * own * second
    product = c**2 + (1 - 2 * p**2 + c**2) / d
    squares = label**2 + 2 / d * (c**2 - p**2) + 2 * K2 * product
    summands = p * (1 + K2), mixed, squares + 2 * rho * (2 + rho) * own
    square, mixed, squares = (float(g @ x @ g) / len(g) ** 2 for x in summands)
    tail = label * float(np.mean(g))
    left = contexts.left
    return TimedMoments(left.signal, square, left.noise, mixed, tail, squares)


@lru_cache(maxsize=64)
def _nodes(contexts: TimedContexts, count: int) -> Nodes:
    numbers = _draws(contexts)
    numbers = numbers[:, np.argsort(numbers[1])]
    # Smaller groups at the ends, where Q varies most.
    edges = (1 - np.cos(np.linspace(0, math.pi, count + 1))) / 2
    edges = np.unique(np.round(numbers.shape[1] * edges).astype(int))
    weight = np.diff(edges) / edges[-1]
    centre, slopes = np.empty((2, 3, len(weight)))
    for i, (start, end) in enumerate(itertools.pairwise(edges)):
        group = numbers[:, start:end]
        centre[:, i] = group.mean(axis=1)
        chi = group[0] - centre[0, i]
        deviation = math.sqrt(np.mean(chi**2))
        slopes[:, i] = group @ chi / (len(chi) * deviation) if deviation else 0.0
    chi, Q, eta = np.concatenate([centre + slopes, centre - slopes], axis=1)
    weight = np.concatenate([weight, weight]) / 2
    moments = contexts.moments
    spread = moments.square + moments.noise / contexts.dim - moments.signal**2
    chi = chi - weight @ chi
    chi = moments.signal + chi * math.sqrt(max(spread, 0.0) / (weight @ chi**2))
    Q, eta = Q * (moments.noise / (weight @ Q)), eta * (moments.tail / (weight @ eta))
    return Nodes(chi[:, None], Q[:, None], eta[:, None], weight, on_sphere=True)


@lru_cache(maxsize=4)
def _draws(contexts: TimedContexts) -> np.ndarray:
    """Draws (3, n) of chi, Q and eta."""
    numbers = _drifting if contexts.drift else _steady
    return np.array(numbers(contexts, np.random.default_rng(0)))


def _steady(
    contexts: TimedContexts, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw chi, Q and eta of contexts without drift, backwards in time."""
    d, context, r = contexts.dim, len(contexts.gates), contexts.correlation
    count = max(_DRAWS * _ALL_UP_TO // max(d, _ALL_UP_TO), _LEAST_DRAWS)
    chi, eta, square, kept = np.zeros((4, count))
    labels = []
    inputs = _inputs(contexts, (count,), rng)
    for gate in reversed(contexts.gates):
        along = next(inputs)
        y = along + math.sqrt(contexts.rho) * rng.standard_normal(count)
        chi += gate * y * along / context
        eta += gate * y**2 / context
        if isinstance(r, tuple):
            labels.append(gate * y)
            continue
        kept = r * kept + gate * y  # sum of K_ij (gy)_j over the pairs seen
        square += gate * y * (2 * kept - gate * y)
    next(inputs)
    if isinstance(r, tuple):
        square = np.sum((_root(contexts).T @ labels) ** 2, axis=0)
    across = rng.chisquare(d - 1, count) / (d - 1) if d > 1 else 1.0
    return chi, d / context**2 * square * across, eta


def _drifting(
    contexts: TimedContexts, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw chi, Q and eta of contexts with drift, token by token and backwards in time."""
    d, context = contexts.dim, len(contexts.gates)
    count = min(max(_LEAST_DRAWS, _NUMBERS // (d * context)), _DRAWS)
    kept = math.exp(-contexts.drift / d)
    task = np.zeros((count, d))
    task[:, 0] = math.sqrt(d)
    head, eta = np.zeros((count, d)), np.zeros(count)
    inputs = _inputs(contexts, (count, d), rng)
    for gate in reversed(contexts.gates):
        x = next(inputs)
        task = kept * task + math.sqrt(1 - kept**2) * rng.standard_normal((count, d))
        y = np.sum(x * task, axis=1) / math.sqrt(d)
        y += math.sqrt(contexts.rho) * rng.standard_normal(count)
        head += (gate * math.sqrt(d) / context * y)[:, None] * x
        eta += gate * y**2 / context
    across = np.sum(head[:, 1:] ** 2, axis=1) / max(d - 1, 1)
    return head[:, 0] / math.sqrt(d), across, eta


def _inputs(
    contexts: TimedContexts, shape: tuple[int, ...], rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draw the inputs of one token after the other, times sqrt(d), and one beyond them."""
    r = contexts.correlation
    if isinstance(r, tuple):
        root = _root(contexts)
        drawn = np.empty((len(root), *shape))
        for token, row in enumerate(root):
            drawn[token] = rng.standard_normal(shape)
            yield np.tensordot(row[: token + 1], drawn[: token + 1], 1)
        yield rng.standard_normal(shape)
        return
    x = rng.standard_normal(shape)
    while True:
        yield x
        x = r * x + math.sqrt(1 - r**2) * rng.standard_normal(shape)


def _root(contexts: TimedContexts) -> np.ndarray:
    """Lower triangular root of the correlations of the inputs, which may be singular."""
    times = np.arange(len(contexts.gates))
    values, basis = np.linalg.eigh(contexts.kernel[np.abs(times[:, None] - times)])
    _, upper = np.linalg.qr((basis * np.sqrt(np.maximum(values, 0.0))) @ basis.T)
    return np.asarray((upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T)
