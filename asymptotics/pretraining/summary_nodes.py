r"""Quadratic forms of context summaries, given the three numbers that fluctuate with the context.

Rotations about the task w leave the law of contexts as it is.  So the summary is

.. math:: h = (\chi w + \sqrt Q\, P^{1/2} g,\ \eta), \qquad P = 1 - u u^\top, \qquad u \propto w,

with a noise g that is independent of the three numbers :math:`\chi, Q, \eta`: the joint law of
these, as a quadrature rule, is all that averages over contexts need.  Contexts of independent
pairs of one task have one number, :math:`Q = \chi\, dv/\ell` and :math:`\eta = \chi v`, with
:math:`|u|^2 = |w|^2/(dv)` and Gaussian g (module
`iclimit.asymptotics.pretraining.deterministic_equivalent`).  Otherwise \|u\| = 1, and g is uniform
on the sphere of squared norm d - 1 orthogonal to w: Q then has the fluctuations of the norm.

With :math:`m = (\chi w, \eta)`, the form :math:`q = h^\top M h` has

.. math:: E q = m^\top M m + Q \operatorname{tr} P M, \qquad
   \operatorname{Var} q = 4 Q\, m^\top M P M m + 2 s Q^2 \bigl[\operatorname{tr} (PM)^2
   - t\, (\operatorname{tr} PM)^2\bigr] ,

s = 1 and t = 0 for Gaussian noise, s = (d - 1)/(d + 1) and t = 1/(d - 1) on the sphere.
"""

from typing import NamedTuple

import numpy as np


class Nodes(NamedTuple):
    r"""Quadrature rule over contexts.

    Attributes
    ----------
    signal, noise, tail : ndarray (nodes, ...)
        Numbers :math:`\chi`, Q and :math:`\eta`; the other axes are those of the tasks.
    weight : ndarray (nodes,)
        Weights, of sum 1.
    on_sphere : bool
        Whether the noise is uniform on a sphere; otherwise it is Gaussian.
    """

    signal: np.ndarray
    noise: np.ndarray
    tail: np.ndarray
    weight: np.ndarray
    on_sphere: bool = False

    def shape(self, dim: int) -> tuple[float, float]:
        """Numbers s and t of the module docstring."""
        return ((dim - 1) / (dim + 1), 1 / (dim - 1)) if self.on_sphere and dim > 1 else (1.0, 0.0)


def label_nodes(
    chi: np.ndarray, weight: np.ndarray, labels: np.ndarray, noise: np.ndarray
) -> Nodes:
    """Nodes of contexts of independent pairs, from those of the label norm.

    ``labels`` and ``noise`` are the variances v of labels and dv/context of summaries, by task.
    """
    chi = chi.reshape(-1, *(1,) * labels.ndim)
    return Nodes(chi, chi * noise, chi * labels, weight)


class Form(NamedTuple):
    r"""Quadratic form given the numbers of a context, and the vectors that it is made of.

    Attributes
    ----------
    mean, variance : ndarray (nodes, ..., k)
        At the nodes, for each task.
    pushed, tail : ndarray (..., k, d) and (..., 1, d)
        First d entries of :math:`M (w, 0)` and of :math:`M (0, 1)`.
    side, tail_side : ndarray (..., k, d)
        P times these.
    once, trace : ndarray (..., k)
        :math:`u^\top M u` and :math:`\operatorname{tr} PM`.
    """

    mean: np.ndarray
    variance: np.ndarray
    pushed: np.ndarray
    tail: np.ndarray
    side: np.ndarray
    tail_side: np.ndarray
    once: np.ndarray
    trace: np.ndarray


def quadratic_form(tasks: np.ndarray, units: np.ndarray, nodes: Nodes, M: np.ndarray) -> Form:
    """Form of symmetric M (..., d + 1, d + 1) for tasks and their vectors u, (..., k, d)."""
    d = tasks.shape[-1]
    chi, noise, eta = nodes.signal, nodes.noise, nodes.tail
    head, tail = M[..., :d, :d], M[..., d:, :d]
    pushed = tasks @ head
    Mu = units @ head
    side = pushed - dot(units, pushed)[..., None] * units
    tail_side = tail - dot(units, tail)[..., None] * units
    once = dot(units, Mu)
    trace = np.einsum("...ii->...", head)[..., None] - once
    square = np.einsum("...ij,...ij->...", head, head)[..., None]
    squares = square - 2 * dot(Mu, Mu) + once**2
    mean = chi**2 * dot(tasks, pushed) + 2 * chi * eta * dot(tasks, tail)
    mean = mean + eta**2 * M[..., d:, d] + noise * trace
    scale, loss = nodes.shape(d)
    variance = chi**2 * dot(pushed, side) + 2 * chi * eta * dot(tail, side)
    variance = 4 * noise * (variance + eta**2 * dot(tail, tail_side))
    variance = variance + 2 * scale * noise**2 * (squares - loss * trace**2)
    return Form(mean, variance, pushed, tail, side, tail_side, once, trace)


def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Scalar products along the last axis."""
    return np.einsum("...i,...i->...", x, y)
