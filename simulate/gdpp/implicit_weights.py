r"""The linear model that every layer of a linear transformer maintains.

After layer l the token of the pair :math:`(x_i, y_i)` is

.. math:: x_i^l = M^l x_i + y_i u^l, \qquad y_i^l = a^l y_i - \langle w^l, x_i\rangle,

with quantities common to the context and the query, for which y is 0 (Vladymyrov, von Oswald,
Sandler and Ge, arXiv:2402.14180, Theorem 4.1).  They start from M = I, u = 0, a = 1, w = 0, and
the prediction is :math:`\langle w^L, x_q\rangle`.  Three recursions lead to them:

* :func:`implicit_weights`, Lemma 4.3, for all transformers;
* :func:`diagonal_recursion`, Lemma 4.4 (Lemma A.1), in which the context enters through
  :math:`\Sigma = X^\top X`, the least squares weights and the squares of their residuals;
* :func:`gdpp_recursion`, a few numbers for every eigenvector of :math:`\Sigma`.
"""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.results import Result
from iclimit.simulate.arrays import Array
from iclimit.simulate.gdpp.contexts import gram_matrices
from iclimit.simulate.models.linear_transformer import LinearTransformer
from iclimit.simulate.prompts import Prompts


@dataclass(frozen=True, eq=False, repr=False)
class ImplicitWeights(Result):
    """Quantities of Theorem 4.1 before the first layer and after each of L layers.

    Attributes
    ----------
    matrix : array (L + 1, n, d, d)
        M.
    shift : array (L + 1, n, d)
        u.
    scale : array (L + 1, n)
        a.
    weights : array (L + 1, n, d)
        w; the last ones make the prediction.
    """

    matrix: Array
    shift: Array
    scale: Array
    weights: Array

    def labels(self, samples: Prompts) -> Array:
        """Labels in the context, shape (L + 1, n, context)."""
        return (
            self.scale[:, :, None] * samples.labels
            - (samples.inputs @ self.weights[..., None])[..., 0]
        )


def implicit_weights(samples: Prompts, model: LinearTransformer) -> ImplicitWeights:
    r"""Implicit weights of any linear transformer, by Lemma 4.3.

    With :math:`\begin{pmatrix} A & b \\ c^\top & \delta \end{pmatrix}
    = \sum_h P_h \bigl(\sum_j e_j^l e_j^{l\top}\bigr) Q_h`, D x D numbers whatever the context,

    .. math:: M' &= (I + A) M - b w^\top, & u' &= (I + A) u + a b, \\
       w' &= (1 + \delta) w - M^\top c, & a' &= (1 + \delta) a + \langle c, u\rangle.

    Parameters
    ----------
    samples : Prompts
        n prompts, with inputs of the transformer's dimension d.
    model : LinearTransformer
        Of any kind, with any number of heads.

    Raises
    ------
    ValueError
        If the dimensions differ.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, Theorem 4.1 and Lemma 4.3.

    Examples
    --------
    >>> import iclimit
    >>> import numpy as np
    >>> from iclimit.simulate.gdpp import gdpp_transformer, implicit_weights
    >>> problem = iclimit.Problem(dim=3, context=20, scale=1)
    >>> drawn = iclimit.sample_prompts(problem, 1, rng=0)
    >>> model = gdpp_transformer([0.8, 0.9, 1.0], [0.2, 0.2], context=20, dim=3)
    >>> weights = implicit_weights(drawn, model).weights
    >>> bool(np.all(np.diff(np.linalg.norm(weights[:, 0] - drawn.tasks[0], axis=1)) < 0))
    True
    """
    xp, dim = _checked(samples, model)
    gram = gram_matrices(samples.inputs, samples.labels)
    states = [_start(samples)]
    for depth in range(model.depth):
        M, u, a, w = states[-1]
        top = xp.concat([M, u[:, :, None]], axis=2)
        bottom = xp.concat([-w, a[:, None]], axis=1)[:, None, :]
        tokens = xp.concat([top, bottom], axis=1)
        moments = tokens @ gram @ xp.matrix_transpose(tokens)
        heads = model.projection[depth, :, None, :, :] @ moments
        change = xp.sum(heads @ model.lookup[depth, :, None, :, :], axis=0)
        A = change[:, :dim, :dim]
        b = change[:, :dim, dim]
        c = change[:, dim, :dim]
        delta = change[:, dim, dim]
        states.append(
            (
                M + A @ M - _outer(b, w),
                u + times(A, u) + a[:, None] * b,
                (1 + delta) * a + xp.vecdot(c, u),
                (1 + delta)[:, None] * w - times(xp.matrix_transpose(M), c),
            )
        )
    return _stacked(states)


def diagonal_recursion(samples: Prompts, model: LinearTransformer) -> ImplicitWeights:
    r"""Implicit weights of a diagonal transformer, by Lemma 4.4.

    With the least squares weights :math:`w_*` (of least norm in short contexts), the sum
    :math:`\rho` of their squared residuals and :math:`K = M + u w_*^\top`, the moments of the
    layer's tokens are

    .. math:: \Sigma^l = K \Sigma K^\top + \rho\, u u^\top, \quad
       \alpha^l = K \Sigma (a w_* - w) + a \rho\, u, \quad
       \lambda^l = (a w_* - w)^\top \Sigma (a w_* - w) + a^2 \rho,

    and :math:`u' = (I - \Lambda) u + \Gamma \Sigma (a w_* - w)`,
    :math:`w' = (1 + s) w - \Pi \Sigma (a w_* - w) - \Phi` with
    :math:`\Lambda = -\omega_{xy} a^2 \rho - \omega_{xx} \Sigma^l`,
    :math:`\Gamma = a \omega_{xy} K`, :math:`s = \omega_{yy} \lambda^l`,
    :math:`\Pi = \omega_{yx} M^\top K` and :math:`\Phi = a \rho\, \omega_{yx} M^\top u`.

    Parameters
    ----------
    samples : Prompts
        n prompts, with inputs of the transformer's dimension.
    model : LinearTransformer
        Of kind "diag" or "gd++".

    Raises
    ------
    ValueError
        If the transformer is of kind "full" or the dimensions differ.

    Notes
    -----
    The published proof has :math:`M + a u w_*^\top` for K.  This is right only where u = 0 or
    a = 1, and in general wrong from the second layer on.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, Lemma 4.4 and Lemma A.1.
    """
    xp, _ = _checked(samples, model)
    transposed = xp.matrix_transpose(samples.inputs)
    sigma = transposed @ samples.inputs
    solved = times(xp.linalg.pinv(samples.inputs), samples.labels)
    rho = xp.sum((samples.labels - times(samples.inputs, solved)) ** 2, axis=1)
    states = [_start(samples)]
    for (xx, xy), (yx, yy) in model.omegas.tolist():
        M, u, a, w = states[-1]
        K = M + _outer(u, solved)
        lag = a[:, None] * solved - w
        descent = times(sigma, lag)
        moved = K @ sigma @ xp.matrix_transpose(K) + rho[:, None, None] * _outer(u, u)
        mixed = times(K, descent) + (a * rho)[:, None] * u
        s = yy * (xp.vecdot(lag, descent) + a**2 * rho)
        growth = (xy * a**2 * rho)[:, None] * u + xx * times(moved, u)  # -Lambda u
        states.append(
            (
                M + xx * (moved @ M) - xy * _outer(mixed, w),
                u + growth + (xy * a)[:, None] * times(K, descent),
                (1 + s) * a + yx * xp.vecdot(mixed, u),
                (1 + s)[:, None] * w - yx * times(xp.matrix_transpose(M), mixed),  # Pi and Phi
            )
        )
    return _stacked(states)


def _checked(samples: Prompts, model: LinearTransformer) -> tuple[Any, int]:
    """Namespace and dimension."""
    if model.dim != samples.inputs.shape[2]:
        raise ValueError(f"model must be of dimension {samples.inputs.shape[2]}, got {model.dim}")
    return array_namespace(samples.inputs), model.dim


def _start(samples: Prompts) -> tuple[Array, ...]:
    """M, u, a and w before the first layer."""
    xp = array_namespace(samples.inputs)
    zero = xp.zeros_like(samples.query)
    eye = xp.eye(samples.inputs.shape[2], dtype=samples.inputs.dtype)
    return zero[:, :, None] + eye, zero, zero[:, 0] + 1, zero


def _stacked(states: list[tuple[Array, ...]]) -> ImplicitWeights:
    xp = array_namespace(states[0][0])
    return ImplicitWeights(*(xp.stack(column) for column in zip(*states, strict=True)))


def times(matrices: Array, vectors: Array) -> Array:
    """Products of n matrices and n vectors."""
    return (matrices @ vectors[:, :, None])[:, :, 0]


def _outer(left: Array, right: Array) -> Array:
    """Outer products of n pairs of vectors."""
    return left[:, :, None] * right[:, None, :]


def alignment_cosine(samples: Prompts, model: LinearTransformer) -> Array:
    r"""Cosine of the labels after each layer with the squares of the first input coordinate.

    Theorem 4.2 says that a linear transformer cannot produce this quadratic label: the labels
    remain in the span of the inputs and the given labels.  :func:`alignment_bound` bounds the
    cosine for any transformer.

    Parameters
    ----------
    samples : Prompts
        n prompts, with inputs of the transformer's dimension.
    model : LinearTransformer
        Of any kind.

    Returns
    -------
    array (L + 1, n)
        Cosines of :math:`(y_i^l)_i` with :math:`(x_{i1}^2)_i`; 0 where the labels vanish.

    Raises
    ------
    ValueError
        If the dimensions differ.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, Theorem 4.2.
    """
    labels = implicit_weights(samples, model).labels(samples)
    xp = array_namespace(labels)
    target = samples.inputs[:, :, 0] ** 2
    product = xp.sum(labels * target, axis=-1)
    norms = xp.sqrt(xp.sum(labels**2, axis=-1) * xp.sum(target**2, axis=-1))
    return product / xp.where(norms > 0, norms, xp.ones_like(norms))


def alignment_bound(samples: Prompts) -> Array:
    r"""Largest absolute value of the alignment cosine over all linear transformers, shape (n,).

    The norm of the projection of the target :math:`(x_{i1}^2)_i` onto the span of the inputs and
    the labels, over its own.  For noiseless labels and standard normal inputs its mean square is
    :math:`(d + 4)/N` in leading order for :math:`N \gg d`: the 0.1 of Theorem 4.2 takes N well
    above 100 (d + 4).
    """
    xp = array_namespace(samples.inputs)
    target = samples.inputs[:, :, 0] ** 2
    tokens = xp.concat([samples.inputs, samples.labels[:, :, None]], axis=2)
    projected = times(tokens, times(xp.linalg.pinv(tokens), target))
    return xp.sqrt(xp.sum(projected**2, axis=1) / xp.sum(target**2, axis=1))
