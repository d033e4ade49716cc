"""A linear transformer cannot produce quadratic labels: how close its labels come to them."""

from __future__ import annotations

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.gdpp.implicit_weights import implicit_weights, times
from iclimit.simulate.gdpp.linear_transformer import LinearTransformer
from iclimit.simulate.pretraining.prompts import Prompts


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
    xp, target = array_namespace(labels), samples.x[:, :, 0] ** 2
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
    xp, target = array_namespace(samples.x), samples.x[:, :, 0] ** 2
    tokens = xp.concat([samples.x, samples.y[:, :, None]], axis=2)
    projected = times(tokens, times(xp.linalg.pinv(tokens), target))
    return xp.sqrt(xp.sum(projected**2, axis=1) / xp.sum(target**2, axis=1))
