r"""Law of the context summary for labels that are not linear, at a finite size.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from iclimit.asymptotics.pretraining.labels import LabelMoments, label_moments, link_function
from iclimit.asymptotics.pretraining.summary_nodes import Nodes
from iclimit.asymptotics.pretraining.timed_contexts import Rule, TimedMoments
from iclimit.links import Link

# Contexts that are drawn, and labels in all of them: at most; contexts: at least.
_DRAWS = 16_000
_NUMBERS = 2_000_000
_LEAST_DRAWS = 2000

# Groups of contexts by the mean square of their labels.
_GROUPS = 16


@dataclass(frozen=True)
class LinkedContexts:
    """Contexts of labels that are not linear; it has what `TimedContexts` has for others.

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
    correlated_query : bool
        Always False: the query is independent of the context.
    """

    dim: int
    context: int
    rho: float
    link: Link
    flips: float
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
    def labels(self) -> LabelMoments:
        """Moments of a label."""
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
            square=1 + (labels.along - 1 - v) / length,
            drifted=0.0,
            noise=(self.dim * v / length, 0.0),
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
        signal, eta, weight = _drawn_nodes(self)
        axes = (-1, *(1,) * norms.ndim)
        eta = eta.reshape(axes) * np.ones_like(norms)
        return Nodes(
            signal=signal.reshape(axes) * np.ones_like(norms),
            noise=self.dim / self.context * eta,
            along=eta / self.context,
            drifted=np.zeros_like(eta),
            tail=self.labels.slope * eta,
            weight=weight,
        )


@lru_cache(maxsize=64)
def _drawn_nodes(contexts: LinkedContexts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of a and of eta, with weights."""
    labels = contexts.labels
    length = contexts.context
    generator = np.random.default_rng(0)
    draws = int(np.clip(_NUMBERS // length, _LEAST_DRAWS, _DRAWS))
    signal = np.empty(draws)
    eta = np.empty(draws)
    g = link_function(contexts.link)
    block = max(1, _NUMBERS // length)
    for start in range(0, draws, block):
        rows = slice(start, min(start + block, draws))
        z = generator.standard_normal((len(signal[rows]), length))
        y = np.asarray(g(z), dtype=float)
        y = np.where(generator.random(z.shape) < contexts.flips, -y, y)
        y = (y + np.sqrt(contexts.rho) * generator.standard_normal(z.shape)) / labels.slope
        signal[rows] = np.mean(y * z, axis=1)
        eta[rows] = np.mean(y**2, axis=1)
    order = np.argsort(eta, kind="stable")
    eta = eta[order] * (labels.square / np.mean(eta))
    signal = signal[order] + (1 - np.mean(signal))
    numbers = [_of_group(signal[part], eta[part]) for part in _groups(eta)]
    nodes = np.concatenate([group[0] for group in numbers])
    squares = np.concatenate([group[1] for group in numbers])
    weights = np.concatenate([group[2] for group in numbers])
    return nodes, squares, weights / draws


def _groups(eta: np.ndarray) -> list[slice]:
    """Groups of sorted contexts, smaller ones towards both ends."""
    spread = (eta - np.mean(eta)) ** 2
    variance = np.mean(spread)
    share = np.ones_like(eta) if variance < 1e-20 else (1 + spread / variance) / 2
    reached = np.cumsum(share) / np.sum(share)
    ends = np.sin(np.linspace(0, np.pi / 2, _GROUPS + 1)) ** 2
    places = np.unique([0, *np.searchsorted(reached, ends[1:-1]), len(eta)])
    return [slice(int(low), int(high)) for low, high in pairwise(places)]


def _of_group(signal: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two nodes of a group of contexts: a, eta and the number of contexts."""
    signs = np.array([-1.0, 1.0])
    nodes = np.mean(signal) + np.std(signal) * signs
    return nodes, np.full(2, np.mean(eta)), np.full(2, len(eta) / 2)
