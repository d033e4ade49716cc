r"""Quadratic forms of context summaries, given the numbers that fluctuate with the context.

Given the labels of a context, the summary of a task w is Gaussian,

.. math:: h = (c\, w + S^{1/2} g,\ \eta), \qquad S = Q - e\, w w^\top + V B ,

with a noise g that is independent of the numbers c, Q, e, V and :math:`\eta`: the joint law of
these, as a quadrature rule, is all that averages over contexts need.  B is the covariance of what
drift adds to the task.  Contexts of independent pairs of one task have one number, the label norm
:math:`\chi`:

.. math:: c = \chi, \qquad Q = \frac{d v}\ell \chi, \qquad e = \frac\chi\ell, \qquad V = 0, \qquad
   \eta = v \chi ,

(module `iclimit.asymptotics.pretraining.deterministic_equivalent`); for others see
`iclimit.asymptotics.pretraining.timed_contexts`.

With :math:`m = (c w, \eta)`, the first d entries y of :math:`M m` and the block H of the first d
entries of M, the form :math:`q = h^\top M h` has

.. math:: E q = m^\top M m + \operatorname{tr} S H, \qquad
   \operatorname{Var} q = 4\, y^\top S y + 2 \operatorname{tr} S H S H .
"""

from typing import NamedTuple

import numpy as np


class Nodes(NamedTuple):
    r"""Quadrature rule over contexts.

    Attributes
    ----------
    signal, noise, along, drifted, tail : ndarray (nodes, ...)
        Numbers c, Q, e, V and :math:`\eta`; the other axes are those of the tasks.
    weight : ndarray (nodes,)
        Weights, of sum 1.
    """

    signal: np.ndarray
    noise: np.ndarray
    along: np.ndarray
    drifted: np.ndarray
    tail: np.ndarray
    weight: np.ndarray


def label_nodes(
    chi: np.ndarray, weight: np.ndarray, labels: np.ndarray, *, dim: int, context: int
) -> Nodes:
    """Nodes of contexts of independent pairs of one task, from those of the label norm.

    ``labels`` are the variances v of labels, by task.
    """
    chi = chi.reshape(-1, *(1,) * labels.ndim)
    noise = chi * (dim / context * labels)
    return Nodes(chi, noise, chi / context, np.zeros_like(chi), chi * labels, weight)


class Form(NamedTuple):
    r"""Quadratic form given the numbers of a context, and the vectors that it is made of.

    Attributes
    ----------
    mean, variance : ndarray (nodes, ..., k)
        At the nodes, for each task.
    pushed, tail : ndarray (..., k, d) and (..., 1, d)
        First d entries of :math:`M (w, 0)` and of :math:`M (0, 1)`.
    once : ndarray (..., k)
        :math:`w^\top M w`.
    across : ndarray (..., k)
        :math:`w^\top M (0, 1)`.
    """

    mean: np.ndarray
    variance: np.ndarray
    pushed: np.ndarray
    tail: np.ndarray
    once: np.ndarray
    across: np.ndarray


def quadratic_form(
    tasks: np.ndarray, nodes: Nodes, M: np.ndarray, innovations: np.ndarray | None = None
) -> Form:
    """Form of symmetric M (..., d + 1, d + 1) for tasks (..., k, d).

    ``innovations`` is the covariance B (d, d); without it V counts for nothing.
    """
    d = tasks.shape[-1]
    c = nodes.signal
    noise = nodes.noise
    along = nodes.along
    eta = nodes.tail
    head = M[..., :d, :d]
    tail = M[..., d:, :d]
    pushed = tasks @ head
    once = dot(tasks, pushed)
    across = dot(tasks, tail)
    trace = np.einsum("...ii->...", head)[..., None]
    mean = (c**2 - along) * once + 2 * c * eta * across + eta**2 * M[..., d:, d] + noise * trace
    length = (
        c**2 * dot(pushed, pushed) + 2 * c * eta * dot(pushed, tail) + eta**2 * dot(tail, tail)
    )
    linear = noise * length - along * (c * once + eta * across) ** 2
    square = np.sum(head**2, axis=(-2, -1))[..., None]
    squares = noise**2 * square - 2 * noise * along * dot(pushed, pushed) + (along * once) ** 2
    if innovations is not None:
        drifted = _drift_terms(pushed, tail, nodes, head, innovations)
        mean = mean + drifted.mean
        linear = linear + drifted.linear
        squares = squares + drifted.squares
    return Form(mean, 4 * linear + 2 * squares, pushed, tail, once, across)


class _Terms(NamedTuple):
    """Terms of a form: of its mean, of y'Sy, and of tr SHSH."""

    mean: np.ndarray
    linear: np.ndarray
    squares: np.ndarray


def _drift_terms(
    pushed: np.ndarray, tail: np.ndarray, nodes: Nodes, head: np.ndarray, innovations: np.ndarray
) -> _Terms:
    """What the noise V B of drift adds to a form."""
    V = nodes.drifted
    HB = head @ innovations
    B_pushed = pushed @ innovations
    B_tail = tail @ innovations
    own = nodes.signal**2 * dot(pushed, B_pushed) + nodes.tail**2 * dot(tail, B_tail)
    own = own + 2 * nodes.signal * nodes.tail * dot(pushed, B_tail)
    crossed = nodes.noise * np.sum(HB * head, axis=(-2, -1))[..., None]
    crossed = crossed - nodes.along * dot(pushed, B_pushed)
    return _Terms(
        mean=V * np.einsum("...ii->...", HB)[..., None],
        linear=V * own,
        squares=2 * V * crossed + V**2 * np.einsum("...ij,...ji->...", HB, HB)[..., None],
    )


def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Scalar products along the last axis."""
    return np.einsum("...i,...i->...", x, y)
