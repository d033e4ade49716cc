r"""Law of the context summary for labels or inputs that are not Gaussian, at a finite size.

Labels y of a task w of squared norm d are a function of :math:`z = \langle w, x\rangle` and of
noise and flips (module `iclimit.asymptotics.pretraining.labels`).  They are divided by their
linear part c, so that :math:`E\,z y = 1` and :math:`E\,y^2 = v`; so is the summary.  Inputs are
:math:`x = z w/d` plus a transverse part, which does not see the labels.  Hence with

.. math:: a = \frac1\ell \sum_i y_i z_i, \qquad \eta = \frac1\ell \sum_i y_i^2

the summary is that of `iclimit.asymptotics.pretraining.summary_nodes` with

.. math:: h = \Bigl(a\,w + \sqrt{\tfrac{d \eta}\ell}\; P^{1/2} g,\ c\,\eta\Bigr), \qquad
   P = I - \frac{w w^\top}d ,

and its moments need those of one label only:

.. math:: E\,a^2 = 1 + \frac{E\,y^2 z^2 - 1}\ell, \qquad
   E\,a\eta = v + \frac{E\,y^3 z - v}\ell, \qquad E\,\eta^2 = v^2 + \frac{E\,y^4 - v^2}\ell .

Linear labels have :math:`\eta/v` chi-square and a that is nearly in proportion to it; labels of a
large kurtosis have contexts of very different :math:`\eta`, by which errors are larger than in the
limit, and classes have contexts that are all alike.  For averages contexts are drawn once, from a
fixed seed, and grouped by :math:`\eta`; each group has two nodes, one standard deviation of a from
its mean.

**The rest of the query's label.**  The variance of :math:`r = y - z` given the query depends on z,
and with it on the norm of the query: it is taken as the line

.. math:: E[r^2 \mid x_q] = E\,r^2 \Bigl[1 + s\,(|x_q|^2 - 1)\Bigr], \qquad
   s = \frac{E\,r^2 (z^2 - 1)}{2\,E\,r^2} .

What the best matrix misses of linear labels has s = 1, noise has s = 0.  Both vary together: with
the part :math:`\gamma = E\,z f` of linear labels that predictions f have,

.. math:: 2\,E[r\,(z - f) \mid x_q] = (1 - \gamma)\,(E\,y z^3 - 3)\,(|x_q|^2 - 1),

which matters where contexts are short: it is 0 on average, but prompts with a large query count
less.  Without it errors of classes were 3 to 6 % too small for contexts below half the dimension.

**Elliptical inputs** :math:`x = \sqrt u\, N(0, I/d)`
(`iclimit.asymptotics.pretraining.elliptical`) have linear labels, :math:`z = \sqrt u\, N(0, 1)`,
and a summary whose transverse part has :math:`\frac1\ell \sum_i u_i y_i^2` in the place of
:math:`\eta`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from iclimit.asymptotics.pretraining.elliptical import ScaleNodes
from iclimit.asymptotics.pretraining.labels import (
    LabelMoments,
    label_moments,
    link_function,
    scaled_label_moments,
)
from iclimit.asymptotics.pretraining.summary_nodes import Nodes
from iclimit.asymptotics.pretraining.timed_contexts import Rule
from iclimit.asymptotics.pretraining.timed_moments import TimedMoments
from iclimit.links import Link
from iclimit.scale_laws import ScaleLaw

# Contexts that are drawn, and labels in all of them: at most; contexts: at least.
_DRAWS = 16_000
_NUMBERS = 2_000_000
_LEAST_DRAWS = 2000

# Contexts of elliptical inputs, whose scales take longer to draw: 2 % of a correction of O(1/d).
_SCALED_DRAWS = 4000

# Groups of contexts by the mean square of their labels.
_GROUPS = 16


@dataclass(frozen=True)
class LinkedContexts:
    """Contexts of such labels or inputs; it has what `TimedContexts` has for others.

    Attributes
    ----------
    dim, context : int
        Dimension, and pairs of a context.
    rho : float
        Noise that is added to the values of the link.
    link : Link
        A name or a function.
    flips : float
        Probability of the other sign.
    scale_law : ScaleLaw, optional
        Law of the scale of elliptical inputs, whose labels are linear.
    alike : bool
        Whether contexts count as alike in their scales, where leverages have one law.
    correlated_query : bool
        Always False: the query is independent of the context.
    """

    dim: int
    context: int
    rho: float
    link: Link
    flips: float
    scale_law: ScaleLaw | None = None
    alike: bool = False
    correlated_query: bool = False

    # The order of the pairs does not matter, and tasks do not drift.
    drift = 0.0
    innovation = 0.0
    drifted_share = 0.0

    @property
    def gates(self) -> np.ndarray:
        """Weights of the pairs, all 1."""
        return np.ones(self.context)

    @cached_property
    def scales(self) -> ScaleNodes | None:
        """Nodes of the law of the scale of an input, where there is one."""
        return None if self.scale_law is None else ScaleNodes.of(self.scale_law)

    def scale_rule(self) -> ScaleRule:
        """Law over contexts of what scales do to the size of summaries."""
        if self.scales is None or self.alike:
            return ScaleRule(np.ones(1), np.ones(1), np.ones(1))
        return _scale_rule(self)

    @cached_property
    def labels(self) -> LabelMoments:
        """Moments of a label."""
        if self.scales is not None:
            return scaled_label_moments(self.scales.square, self.rho)
        return label_moments(self.link, self.rho, self.flips)

    @cached_property
    def moments(self) -> TimedMoments:
        """Coefficients of the moments of the summary, for tasks of squared norm d."""
        labels = self.labels
        v = labels.square
        length = self.context
        mixed = v + (labels.third - v) / length
        tail_square = v**2 + (labels.fourth - v**2) / length
        return TimedMoments(
            signal=1.0,
            square=1 + (labels.along - 1 - labels.across) / length,
            drifted=0.0,
            noise=(self.dim * labels.across / length, 0.0),
            mixed=(labels.slope * mixed, 0.0),
            mixed_drifted=0.0,
            tail=(labels.slope * v, 0.0),
            tail_square=(labels.slope**2 * tail_square, 0.0, 0.0),
            tail_along=0.0,
            tail_drifted=0.0,
        )

    def nodes(
        self,
        norms: np.ndarray,
        rule: Rule,  # noqa: ARG002
        *,
        isotropic: bool = True,  # noqa: ARG002
    ) -> Nodes:
        """Quadrature over contexts, (nodes, ...), for tasks of squared norm d.

        Parameters
        ----------
        norms : ndarray
            Squared norms of the tasks over d, all 1: their axes are those of the nodes.
        rule, isotropic
            As for `TimedContexts`; not used.
        """
        drawn = _drawn_nodes(self)
        eta = _beside(drawn.eta, norms)
        across = _beside(drawn.across, norms)
        return Nodes(
            signal=_beside(drawn.signal, norms),
            noise=self.dim / self.context * across,
            along=across / self.context,
            drifted=np.zeros_like(eta),
            tail=self.labels.slope * eta,
            weight=drawn.weight,
        )


class ScaleRule(NamedTuple):
    """Contexts by their scales u: arrays of one length.

    Attributes
    ----------
    size : array
        Means of u^2 over a context, of mean 1.
    crowding : array
        By how much fewer pairs count, the number of pairs times the sum of u^4 over the square of
        that of u^2.
    weight : array
        Their probabilities.
    """

    size: np.ndarray
    crowding: np.ndarray
    weight: np.ndarray


class _Drawn(NamedTuple):
    """Means over a context of y z, y^2 and u y^2, and weights: arrays of one length."""

    signal: np.ndarray
    eta: np.ndarray
    across: np.ndarray
    weight: np.ndarray


def _beside(numbers: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Numbers of nodes on a first axis, before those of the norms."""
    return numbers.reshape(-1, *(1,) * norms.ndim) * np.ones_like(norms)


@lru_cache(maxsize=64)
def _drawn_nodes(contexts: LinkedContexts) -> _Drawn:
    """Nodes of contexts, with weights."""
    labels = contexts.labels
    drawn = _contexts(contexts)
    order = np.argsort(drawn.across, kind="stable")
    eta = drawn.eta[order] * (labels.square / np.mean(drawn.eta))
    across = drawn.across[order] * (labels.across / np.mean(drawn.across))
    signal = drawn.signal[order] + (1 - np.mean(drawn.signal))
    groups = [_of_group(signal[part], eta[part], across[part]) for part in _groups(across)]
    whole = _Drawn(*map(np.concatenate, zip(*groups, strict=True)))
    return whole._replace(weight=whole.weight / len(eta))


def _contexts(contexts: LinkedContexts) -> _Drawn:
    """Contexts that are drawn from a fixed seed."""
    length = contexts.context
    generator = np.random.default_rng(0)
    most = _DRAWS if contexts.scales is None else _SCALED_DRAWS
    draws = int(np.clip(_NUMBERS // length, _LEAST_DRAWS, most))
    signal = np.empty(draws)
    eta = np.empty(draws)
    across = np.empty(draws)
    g = link_function(contexts.link)
    block = max(1, _NUMBERS // length)
    for start in range(0, draws, block):
        rows = slice(start, min(start + block, draws))
        z = generator.standard_normal((len(signal[rows]), length))
        u = np.ones_like(z)
        if contexts.scales is not None:
            u = generator.choice(contexts.scales.u, size=z.shape, p=contexts.scales.weight)
            z *= np.sqrt(u)
        y = np.asarray(g(z), dtype=float)
        y = np.where(generator.random(z.shape) < contexts.flips, -y, y)
        noise = np.sqrt(contexts.rho) * generator.standard_normal(z.shape)
        y = (y + noise) / contexts.labels.slope
        signal[rows] = np.mean(y * z, axis=1)
        eta[rows] = np.mean(y**2, axis=1)
        across[rows] = np.mean(u * y**2, axis=1)
    return _Drawn(signal, eta, across, np.ones(draws))


@lru_cache(maxsize=64)
def _scale_rule(contexts: LinkedContexts) -> ScaleRule:
    """The law, from contexts that are drawn from a fixed seed, in groups by their size."""
    scales = contexts.scales
    assert scales is not None  # else there is one value
    shape = (_SCALED_DRAWS, contexts.context)
    drawn = np.random.default_rng(0).choice(scales.u, size=shape, p=scales.weight)
    drawn = drawn[np.argsort(np.mean(drawn**2, axis=1), kind="stable")]
    squares = np.mean(drawn**2, axis=1)
    crowding = np.mean(drawn**4, axis=1) / squares**2
    parts = _groups(squares)
    size = np.array([np.mean(squares[part]) for part in parts])
    weight = np.array([len(squares[part]) for part in parts]) / len(squares)
    fewer = np.array([np.mean(crowding[part]) for part in parts])
    return ScaleRule(size / (weight @ size), fewer, weight)


def _groups(across: np.ndarray) -> list[slice]:
    """Groups of sorted contexts, smaller ones towards both ends."""
    spread = (across - np.mean(across)) ** 2
    variance = np.mean(spread)
    share = np.ones_like(across) if variance < 1e-20 else (1 + spread / variance) / 2
    reached = np.cumsum(share) / np.sum(share)
    ends = np.sin(np.linspace(0, np.pi / 2, _GROUPS + 1)) ** 2
    places = np.unique([0, *np.searchsorted(reached, ends[1:-1]), len(across)])
    return [slice(int(low), int(high)) for low, high in pairwise(places)]


def _of_group(signal: np.ndarray, eta: np.ndarray, across: np.ndarray) -> _Drawn:
    """Two nodes of a group of contexts, whose weights are the numbers of contexts."""
    signs = np.array([-1.0, 1.0])
    nodes = np.mean(signal) + np.std(signal) * signs
    return _Drawn(
        nodes, np.full(2, np.mean(eta)), np.full(2, np.mean(across)), np.full(2, len(eta) / 2)
    )
