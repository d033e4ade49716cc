r"""Law of the context summary where the order of the pairs matters: gates, drift, correlation.

The summary :math:`h = (\frac d\ell \sum_i g_i y_i x_i, \frac1\ell \sum_i g_i y_i^2)` weighs pair
i by :math:`g_i`; inputs have :math:`E\, x_i x_j^\top = K_{ij} I/d`, such as
:math:`K_{ij} = r^{|i - j|}`.
The task of pair i is :math:`w_i = m_i w + \zeta_i` with the query's task w and Gaussian
:math:`\zeta`, :math:`E\, \zeta_i \zeta_j^\top = z_{ij} B`, where
:math:`m_i = e^{-\vartheta (\ell + 1 - i)/d}`, :math:`z_{ij} = c_{ij} - m_i m_j` and
:math:`c_{ij} = e^{-\vartheta |i - j|/d}` is the correlation of two tasks.

**Moments** are those of `iclimit.asymptotics.pretraining.timed_moments`, where :math:`o_{ij}` is
defined.

**Fluctuations.**  Labels are Gaussian with the covariance
:math:`\Omega = K \circ o + \rho`, up to fluctuations of :math:`\langle w_i, w_j\rangle/d`, which
vanish without drift.  Given the labels y and all tasks the inputs are Gaussian, so that with
:math:`t = K (g \circ y)` the summary has the numbers of
`iclimit.asymptotics.pretraining.summary_nodes`

.. math::

   c &= \frac1\ell \sum_i m_i a_i, \qquad a_i = t_i (\Omega^{-1} y)_i, \qquad
   Q = \frac d{\ell^2}\, (g \circ y)^\top t, \qquad
   e = \frac1{\ell^2} \sum m_i t_i \Omega^{-1}_{ij} t_j m_j, \\
   V &= \frac1{\ell^2} \sum z_{ij} (a_i a_j - t_i t_j \Omega^{-1}_{ij}), \qquad
   \eta = \frac1\ell \sum_i g_i y_i^2 .

Now :math:`y = \sqrt{\ell \chi}\, \Omega^{1/2} u` with a unit vector u that is independent of
:math:`\ell\chi`, which is chi-square.  With drift labels are also scaled by the norms of the
tasks, which are drawn.  For :math:`\chi` there is a rule, that of independent pairs of one task,
where nothing depends on u.  All numbers, for every :math:`\chi` of the rule and many u, are
ordered by Q and divided into groups with the weights of the rule; each group gets two nodes, one
standard deviation of c from its mean along the regressions on c.  These are scaled to the exact
moments.  So contexts without gates, drift and correlation have the rule of the label norm itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri

from iclimit.asymptotics.pretraining.gates import GatedContext, gated_context
from iclimit.asymptotics.pretraining.summary_nodes import Nodes
from iclimit.asymptotics.pretraining.timed_moments import Pairs, TimedMoments, timed_moments

# Contexts that are drawn: at most, at least, and pairs in all of them.
_DRAWS = 16_000
_LEAST_DRAWS = 1000
_NUMBERS = 2_000_000

# Ratio of norms of tasks for which nodes are found.  Between these, polynomials through six of
# them are taken, of which as many are beside the nearest two.
_SCALE = math.sqrt(2)
_BESIDE = 2

# Norm over the largest one below which tasks count as if they had it.
_LEAST_NORM = 1e-3

# Nodes and weights for the label norm of a number of pairs.
Rule: TypeAlias = Callable[[int], tuple[np.ndarray, np.ndarray]]

# Entries of the directions that are spread evenly, not drawn.
_SPREAD = 6

# Contexts of small Q are drawn at the power of their rank that is 1 and this number times the
# relative variance of Q, up to 3.
_MOST_POWER = 8.0

# Groups that are added to those of the rule.
GROUPS = 32

# Share of the noise Q that is left at least where drift removes some of it.
_LEAST_NOISE = 1e-3

# Weight of a label norm below which it is left out.
_LEAST_WEIGHT = 1e-10

# Relative range of norms, and size of an eigenvalue, that count as rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class TimedContexts:
    r"""Contexts in which the order of the pairs matters.

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
    innovation : float
        Mean eigenvalue :math:`\beta` of the covariance B of what drift adds to the task.
    """

    dim: int
    rho: float
    gates: tuple[float, ...]
    drift: float
    correlation: float | tuple[float, ...]
    correlated_query: bool = False
    innovation: float = 1.0

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
        return _moments(self._of_summary)

    @cached_property
    def left(self) -> GatedContext:
        """What gates, drift and correlation leave of the context of tasks of squared norm d."""
        times = {"drift": self.drift, "rho": self.rho}
        return gated_context(self.gates, dim=self.dim, correlation=self.correlation, **times)

    @property
    def drifted_share(self) -> float:
        """Share of what drift added in the tasks of the pairs, weighted by squared gates."""
        gates = np.array(self.gates)
        tokens = np.arange(len(gates), 0, -1)
        return float(np.average(-np.expm1(-2 * self.drift * tokens / self.dim), weights=gates**2))

    def nodes(self, norms: np.ndarray, rule: Rule, *, isotropic: bool = True) -> Nodes:
        r"""Quadrature over contexts, (nodes, ...), with two nodes for each group and label norm.

        Parameters
        ----------
        norms : ndarray
            Squared norms :math:`\omega` of the tasks over d.
        rule : callable
            Nodes and weights of the rule for the label norm of a number of pairs.
        isotropic : bool
            Whether B is a multiple of the identity, which belongs to the noise Q then.
        """
        levels = _Levels.of(norms)
        law = self._of_summary
        by_norm = [_nodes(law, norm, levels.middle, rule, isotropic) for norm in levels.norms]

        def interpolated(name: str) -> np.ndarray:
            values = np.stack([getattr(nodes, name) for nodes in by_norm], axis=-1)
            return np.tensordot(values, levels.weights, 1)

        return Nodes(
            signal=interpolated("signal"),
            noise=interpolated("noise"),
            along=interpolated("along"),
            drifted=interpolated("drifted"),
            tail=interpolated("tail"),
            weight=by_norm[0].weight,
        )

    def drawn(
        self, norms: np.ndarray, chi: np.ndarray, chances: np.ndarray, *, isotropic: bool = True
    ) -> tuple[Numbers, np.ndarray]:
        r"""Numbers of contexts, (m,), and weights of what is drawn of them besides label norms.

        Contexts with a small Q are drawn more often where Q varies, and count less.

        Parameters
        ----------
        norms, chi : ndarray (m,)
            Squared norms of the tasks over d, and label norms.
        chances : ndarray (m,)
            Uniform random numbers.
        isotropic : bool
            As for `nodes`.
        """
        levels = _Levels.of(norms)
        noise = _drawn(self._of_summary, levels.middle).noise
        power = 1 + min(_MOST_POWER * float(np.var(noise)) / float(np.mean(noise)) ** 2, 2.0)
        place = np.argsort(noise, kind="stable")[(len(noise) * chances**power).astype(int)]
        units = [_drawn(self._of_summary, norm) for norm in levels.norms]
        chosen = _OfUnitNorm(
            *(
                np.sum(np.stack(values, axis=0)[:, place] * levels.weights, axis=0)
                for values in zip(*units, strict=True)
            )
        )
        numbers = chosen.at(chi, norms, self, isotropic=isotropic)
        return numbers, power * chances ** (power - 1)

    @property
    def _of_summary(self) -> TimedContexts:
        """The same law of summaries, whatever the query: one entry of a cache."""
        return replace(self, correlated_query=False)


@lru_cache(maxsize=64)
def _moments(contexts: TimedContexts) -> TimedMoments:
    return timed_moments(
        _pairs(contexts), dim=contexts.dim, rho=contexts.rho, innovation=contexts.innovation
    )


def _pairs(contexts: TimedContexts) -> Pairs:
    return Pairs.of(np.array(contexts.gates), contexts.kernel, contexts.drift / contexts.dim)


class Numbers(NamedTuple):
    """Numbers c, Q, e, V and eta of summaries, as those of `Nodes`."""

    signal: np.ndarray
    noise: np.ndarray
    along: np.ndarray
    drifted: np.ndarray
    tail: np.ndarray


class _OfUnitNorm(NamedTuple):
    """Numbers of summaries of label norm 1, (draws, ...).

    V is the square of the label norm times what drift adds, less the norm times what is removed.
    """

    signal: np.ndarray
    noise: np.ndarray
    along: np.ndarray
    tail: np.ndarray
    added: np.ndarray
    removed: np.ndarray

    def at(
        self, chi: np.ndarray, norm: ArrayLike, contexts: TimedContexts, *, isotropic: bool
    ) -> Numbers:
        """Numbers at label norms, of tasks of norms omega; isotropic drift belongs to Q."""
        drifted = chi**2 * self.added - chi * self.removed
        noise = chi * self.noise
        # What drift adds along the task is drawn as part of the signal.
        along = chi * self.along + contexts.innovation * drifted / (
            contexts.dim * np.asarray(norm)
        )
        if isotropic:
            noise = np.maximum(noise + contexts.innovation * drifted, _LEAST_NOISE * noise)
            drifted = np.zeros_like(drifted)
        return Numbers(chi * self.signal, noise, along, drifted, chi * self.tail)


class _Draws(NamedTuple):
    """What is drawn of each context.

    Attributes
    ----------
    directions : ndarray (tokens, draws)
        Unit vectors: directions of the labels, the entries that matter most for Q first.
    parallel, norms : ndarray (tokens, draws)
        For each pair the component of its task along that of the query, and its squared norm,
        both over d.
    """

    directions: np.ndarray
    parallel: np.ndarray
    norms: np.ndarray


def _evenly_spread(dimensions: int, count: int) -> np.ndarray:
    """Points (dimensions, count) that fill a cube evenly: Kronecker's sequence of M. Roberts."""
    root = brentq(lambda x: x ** (dimensions + 1) - x - 1, 1.0, 2.0)
    steps = root ** -np.arange(1.0, dimensions + 1)
    return (0.5 + np.outer(steps, np.arange(1, count + 1))) % 1.0


def _draws(contexts: TimedContexts, norm: float) -> _Draws:
    """Draw contexts of tasks of a norm."""
    rng = np.random.default_rng(0)
    d = contexts.dim
    gates = np.array(contexts.gates)
    tokens = int(np.count_nonzero(gates))
    count = min(max(_NUMBERS // tokens, _LEAST_DRAWS), _DRAWS)
    directions = rng.standard_normal((tokens, count))
    spread = min(tokens, _SPREAD)
    directions[:spread] = ndtri(_evenly_spread(spread, count))
    directions /= np.linalg.norm(directions, axis=0)
    if contexts.drift == 0:
        parallel = np.full_like(directions, math.sqrt(norm))
        return _Draws(directions, parallel, np.full_like(directions, norm))
    kept = math.exp(-contexts.drift / d)
    change = math.sqrt((1 - kept**2) * contexts.innovation / d)
    parallel, norms = np.empty((2, len(gates), count))
    along = np.full(count, math.sqrt(norm))
    across = np.zeros(count)
    for token in reversed(range(len(gates))):
        steps = rng.standard_normal((2, count))
        other = rng.chisquare(d - 2, count) if d > 2 else 0.0
        along = kept * along + change * steps[0]
        across = np.sqrt((kept * across + change * steps[1]) ** 2 + change**2 * other)
        parallel[token] = along
        norms[token] = along**2 + across**2
    return _Draws(directions, parallel[gates > 0], norms[gates > 0])


def _label_roots(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvectors of the covariance of labels, and columns of the roots and their inverses."""
    values, basis = np.linalg.eigh(covariance)
    roots = np.sqrt(np.maximum(values, 0.0))[:, None]
    regular = roots > math.sqrt(_ROUNDING) * roots[-1]
    return basis, roots, np.divide(1.0, roots, out=np.zeros_like(roots), where=regular)


def _of_unit_norm(contexts: TimedContexts, pairs: Pairs, norm: float) -> _OfUnitNorm:
    """Numbers of the summaries that are drawn, of tasks of a norm."""
    d = contexts.dim
    g = pairs.gates[:, None]
    m = pairs.kept[:, None]
    z = pairs.drifted
    drawn = _draws(contexts, norm)
    length = len(contexts.gates)
    expected = m * norm * m.T + contexts.innovation * z
    basis, roots, inverse = _label_roots(pairs.kernel * expected + contexts.rho * np.eye(len(z)))
    seen = roots * (basis.T @ (g * pairs.kernel * g.T) @ basis) * roots.T
    _, first = np.linalg.eigh(seen)
    turned = math.sqrt(len(z)) * first[:, ::-1] @ drawn.directions
    # Tasks of another norm than the expected one scale the labels.
    labels = np.diag(expected)[:, None] + contexts.rho
    larger = np.sqrt((drawn.norms + contexts.rho) / labels)
    y = larger * (basis @ (roots * turned))
    t = pairs.kernel @ (g * y)
    a = t * (basis @ (inverse * turned)) / larger
    scaled = t / larger
    added = np.zeros(y.shape[1])
    removed = added
    if contexts.drift:
        weighed = (basis * inverse.T**2) @ basis.T * z
        added = np.sum(a * (z @ a), axis=0) / length**2
        removed = np.sum(scaled * (weighed @ scaled), axis=0) / length**2
    return _OfUnitNorm(
        signal=np.sum(drawn.parallel * a, axis=0) / (length * math.sqrt(norm)),
        noise=d / length**2 * np.sum(g * y * t, axis=0),
        along=np.sum((inverse * (basis.T @ (m * scaled))) ** 2, axis=0) / length**2,
        tail=np.sum(g * y**2, axis=0) / length,
        added=added,
        removed=removed,
    )


@lru_cache(maxsize=32)
def _drawn(contexts: TimedContexts, norm: float) -> _OfUnitNorm:
    """Numbers (draws,) of label norm 1 of tasks of a norm."""
    return _of_unit_norm(contexts, _pairs(contexts), norm)


def _scaled(values: np.ndarray, weight: np.ndarray, mean: float | np.ndarray) -> np.ndarray:
    """Values (nodes, ...) times a number that gives them this mean."""
    return np.asarray(values * (mean / (weight @ values)))


def _stretched(
    values: np.ndarray, weight: np.ndarray, mean: float | np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Values (nodes, ...) of this mean, and of this variance unless they are all equal."""
    change = _scaled(values, weight, mean) - mean
    present = weight @ change**2
    varies = present > _ROUNDING * np.square(mean)
    ratio = np.divide(np.maximum(variance, 0.0), present, out=np.ones_like(present), where=varies)
    return np.asarray(mean + change * np.sqrt(ratio))


def _groups(order: np.ndarray, weight: np.ndarray, bounds: np.ndarray) -> scipy.sparse.csr_array:
    """Shares of samples in groups, (groups, samples), that end at bounds of the weight in order.

    Samples at the ends of groups are divided between them.
    """
    ends = np.cumsum(weight[order])
    edges = np.unique(np.concatenate([[0.0], ends, bounds]))
    middles = (edges[1:] + edges[:-1]) / 2
    sample = order[np.minimum(np.searchsorted(ends, middles), len(order) - 1)]
    group = np.minimum(np.searchsorted(bounds, middles), len(bounds) - 1)
    shape = len(bounds), len(order)
    return scipy.sparse.coo_array((np.diff(edges), (group, sample)), shape=shape).tocsr()


def _bounds(share: np.ndarray) -> np.ndarray:
    """Ends of groups on the scale of the weights: those of a rule, and those of `GROUPS` more.

    The latter are smaller at both ends, where Q varies most.
    """
    more = (1 - np.cos(math.pi * np.arange(1, GROUPS + 1) / GROUPS)) / 2
    bounds = np.sort(np.concatenate([np.cumsum(share), more]))
    apart = np.append(np.diff(bounds), 1.0)
    return np.asarray(bounds[apart > _LEAST_WEIGHT])


def _split(groups: scipy.sparse.csr_array, samples: Numbers) -> Numbers:
    """Two nodes a group, one deviation of the signal from its mean, with regressions on it."""
    means = Numbers(*(groups @ numbers for numbers in samples))
    variance = groups @ samples.signal**2 - means.signal**2
    varies = variance > _ROUNDING * means.signal**2
    deviation = np.sqrt(np.maximum(variance, 0.0))
    inverse = np.divide(1.0, deviation, out=np.zeros_like(variance), where=varies)
    slopes = [
        (groups @ (samples.signal * numbers) - means.signal * mean) * inverse
        for numbers, mean in zip(samples, means, strict=True)
    ]
    return Numbers(
        *(np.concatenate([mean + x, mean - x]) for mean, x in zip(means, slopes, strict=True))
    )


class _Grouping(NamedTuple):
    """Label norms of a rule with their weights, and averages over groups of contexts.

    ``average`` is (groups, label norms times draws), ``share`` are the weights of groups.
    """

    label_norms: np.ndarray
    average: scipy.sparse.csr_array
    share: np.ndarray

    def samples(self, contexts: TimedContexts, norm: float, *, isotropic: bool) -> Numbers:
        """Numbers of all contexts, for each label norm and what is drawn besides."""
        unit = _drawn(contexts, norm)
        chi = np.repeat(self.label_norms, len(unit.noise))
        tiled = _OfUnitNorm(*(np.tile(values, len(self.label_norms)) for values in unit))
        return tiled.at(chi, norm, contexts, isotropic=isotropic)


@lru_cache(maxsize=8)
def _grouping(contexts: TimedContexts, norm: float, rule: Rule, isotropic: bool) -> _Grouping:
    """Groups of contexts by Q, for tasks of a norm."""
    chi, share = rule(int(np.count_nonzero(contexts.gates)))
    counts = share > _LEAST_WEIGHT
    chi = chi[counts]
    share = share[counts] / np.sum(share[counts])
    start = _Grouping(chi, scipy.sparse.csr_array((0, 0)), share)
    noise = start.samples(contexts, norm, isotropic=isotropic).noise
    drawn = len(noise) // len(chi)
    weight = np.repeat(share, drawn) / drawn
    groups = _groups(np.argsort(noise, kind="stable"), weight, _bounds(share))
    of_groups = np.asarray(groups.sum(axis=1))
    return _Grouping(chi, scipy.sparse.diags_array(1 / of_groups) @ groups, of_groups)


@lru_cache(maxsize=128)
def _nodes(
    contexts: TimedContexts, norm: float, middle: float, rule: Rule, isotropic: bool
) -> Nodes:
    """Nodes (nodes,) for tasks of a norm, in the groups for tasks of a middle one."""
    grouping = _grouping(contexts, middle, rule, isotropic)
    numbers = _split(grouping.average, grouping.samples(contexts, norm, isotropic=isotropic))
    moments = contexts.moments
    nodes = np.concatenate([grouping.share, grouping.share]) / 2
    noise = moments.noise[0] + moments.noise[1] * norm
    drifted = numbers.drifted
    if isotropic:
        noise = noise + contexts.innovation * moments.drifted
    elif contexts.drift:
        drifted = _scaled(drifted, nodes, moments.drifted)
    spread = moments.square + nodes @ numbers.along - moments.signal**2
    tail = moments.tail[0] + moments.tail[1] * norm
    tail_square = moments.tail_mean_square(norm, contexts.dim, contexts.innovation)
    return Nodes(
        signal=_stretched(numbers.signal, nodes, moments.signal, spread),
        noise=_scaled(numbers.noise, nodes, noise),
        along=numbers.along,
        drifted=drifted,
        tail=_stretched(numbers.tail, nodes, tail, tail_square - tail**2),
        weight=nodes,
    )


class _Levels(NamedTuple):
    """Norms for which numbers are found, weights of their interpolation, and a middle norm."""

    norms: list[float]
    weights: np.ndarray
    middle: float

    @classmethod
    def of(cls, norms: np.ndarray) -> _Levels:
        """Levels of a fixed scale around norms; their own one where they are all equal."""
        upper = float(np.max(norms))
        lower = max(float(np.min(norms)), _LEAST_NORM * upper)
        if upper - lower <= _ROUNDING * upper:
            middle = (lower + upper) / 2
            return cls([middle], np.ones((1, *norms.shape)), middle)
        first = math.floor(math.log(lower) / math.log(_SCALE))
        last = math.floor(math.log(upper) / math.log(_SCALE))
        steps = np.arange(first - _BESIDE, last + _BESIDE + 2)
        levels = _SCALE**steps
        return cls(
            levels.tolist(),
            _interpolation(levels, np.maximum(norms, lower)),
            float(levels[len(levels) // 2]),
        )


def _interpolation(levels: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Weights (levels, ...) of Lagrange's interpolation between the nearest levels."""
    count = 2 * (_BESIDE + 1)
    start = np.searchsorted(levels, at, side="right") - 1 - _BESIDE
    start = np.clip(start, 0, len(levels) - count)
    weights = np.zeros((len(levels), *at.shape))
    for i in range(count):
        own = np.ones(at.shape)
        for other in range(count):
            if other != i:
                own *= (at - levels[start + other]) / (levels[start + i] - levels[start + other])
        np.put_along_axis(weights, (start + i)[None], own[None], axis=0)
    return weights
