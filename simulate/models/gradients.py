r"""Losses of linear attention stacks and their gradients, from tokens or from moments.

The gradients are derived by hand.  A layer adds :math:`Z C` to the token rows Z,

.. math:: C = \sum_h M_h^\top G\, U_h^\top, \qquad M_h = K_h^\top Q_h, \quad U_h = P_h V_h,

and the last one is needed in one entry only, :math:`-\hat y = q_D + \sum_h r_h^\top G M_h q` with
the query's token q and the last row :math:`r_h` of :math:`U_h`: this takes products of the tokens
with vectors, and no G.

A single layer is moreover linear in the features :math:`G_{ij} q_k`, with coefficients
:math:`\sum_h r_{hi} M_{hjk}`.  Its loss knows a set of prompts through the first two moments of
these features only (:class:`FeatureMoments`), at a cost that forgets the number of prompts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.models.transformer import Layer


def loss_and_gradients(
    tokens: Array, labels: Array, layers: Sequence[Layer], *, include_query: bool = False
) -> tuple[Any, list[Layer]]:
    """Mean squared error on the query labels and its gradients.

    Parameters
    ----------
    tokens : array (n, T, D)
        Prompts as rows of tokens, the query last.
    labels : array (n,)
        Query labels; the prediction is minus the last entry of the query's final token.
    layers : sequence of Layer
        The stack; a recurrent layer is repeated in it.
    include_query : bool
        Whether the query's token is among the keys and values.

    Returns
    -------
    loss : scalar array
    gradients : list of Layer
        Derivatives by the weights at each place of the stack, in the shape of those weights: for
        a recurrent layer their sum is the gradient.
    """
    xp = array_namespace(tokens)
    stack = StackPass(tokens, layers, include_query)
    residual = labels - stack.prediction
    gradients, _ = stack.backward(-2 / tokens.shape[0] * residual)
    return xp.mean(residual**2), gradients


def query_gradients(
    tokens: Array, layers: Sequence[Layer], *, include_query: bool = False
) -> Array:
    """Derivatives of the predictions by the query inputs, shape (n, D - 1).

    The label slot of the query's token is held fixed.  Arguments as in
    :func:`loss_and_gradients`.
    """
    stack = StackPass(tokens, layers, include_query)
    _, change = stack.backward(array_namespace(tokens).ones_like(stack.prediction), inputs=True)
    return change[:, -1, :-1]


class StackPass:
    """Forward pass of a stack, with what the way back needs."""

    def __init__(self, tokens: Array, layers: Sequence[Layer], include_query: bool) -> None:
        if len(layers) == 0:
            raise ValueError("layers must hold at least one Layer, got none")
        xp = array_namespace(tokens)
        self.layers = layers
        self.sources = slice(None) if include_query else slice(None, -1)
        self.inner = []
        for layer in layers[:-1]:
            source = tokens[:, self.sources, :]
            gram = xp.matrix_transpose(source) @ source
            looked_up = xp.tensordot(gram, layer.lookup, axes=([1], [1]))
            change = xp.tensordot(looked_up, layer.output, axes=([1, 2], [2, 0]))
            self.inner.append((tokens, gram, looked_up, change))
            tokens = tokens + tokens @ change
        self.tokens = tokens
        self.lookup, self.row = layers[-1].lookup, layers[-1].output[:, -1, :]
        self.looked_up = xp.tensordot(tokens[:, -1, :], self.lookup, axes=([1], [2]))
        self.values = xp.tensordot(tokens, self.row, axes=([2], [1]))[:, self.sources, :]
        self.mixed = xp.matrix_transpose(self.values) @ tokens[:, self.sources, :]
        self.prediction = -tokens[:, -1, -1] - xp.sum(self.looked_up * self.mixed, axis=(1, 2))

    def backward(self, seed: Array, *, inputs: bool = False) -> tuple[list[Layer], Array]:
        """Gradients by the weights, and by the tokens on request, for gradients by predictions."""
        xp = array_namespace(seed)
        source = self.tokens[:, self.sources, :]
        looked_up = -seed[:, None, None] * self.looked_up
        mixed = -seed[:, None, None] * self.mixed
        scores = source @ xp.matrix_transpose(looked_up)
        by_row = xp.sum(xp.matrix_transpose(scores) @ source, axis=0)
        by_lookup = xp.tensordot(mixed, self.tokens[:, -1, :], axes=([0], [0]))
        gradients = [_readout_gradients(self.layers[-1], by_row, by_lookup)]
        if not self.inner and not inputs:
            return gradients, None
        change = xp.zeros_like(self.tokens)
        change[:, self.sources, :] = self.values @ looked_up + xp.tensordot(
            scores, self.row, axes=1
        )
        change[:, -1, :] += xp.tensordot(mixed, self.lookup, axes=([1, 2], [0, 1]))
        change[:, -1, -1] -= seed
        for depth in reversed(range(len(self.inner))):
            layer, (tokens, gram, looked_up, factor) = self.layers[depth], self.inner[depth]
            by_factor = xp.matrix_transpose(tokens) @ change
            put_out = xp.tensordot(gram, layer.output, axes=([2], [2]))
            by_lookup = xp.tensordot(put_out, by_factor, axes=([0, 3], [0, 2]))
            by_output = xp.tensordot(looked_up, by_factor, axes=([0, 3], [0, 1]))
            gradients.append(
                _weight_gradients(
                    layer,
                    xp.permute_dims(by_lookup, (1, 0, 2)),
                    xp.permute_dims(by_output, (1, 2, 0)),
                )
            )
            if depth == 0 and not inputs:
                break
            back = xp.tensordot(by_factor, layer.output, axes=([2], [1]))
            by_gram = xp.tensordot(back, layer.lookup, axes=([1, 2], [2, 0]))
            change = change + change @ xp.matrix_transpose(factor)
            source = tokens[:, self.sources, :]
            change[:, self.sources, :] += source @ (by_gram + xp.matrix_transpose(by_gram))
        return gradients[::-1], change


def _weight_gradients(layer: Layer, by_lookup: Array, by_output: Array) -> Layer:
    """Gradients by key, query, value and projection from those by their products."""
    transpose = array_namespace(by_lookup).matrix_transpose
    return Layer(
        key=layer.query @ transpose(by_lookup),
        query=layer.key @ by_lookup,
        value=transpose(layer.projection) @ by_output,
        projection=by_output @ transpose(layer.value),
    )


def _readout_gradients(layer: Layer, by_row: Array, by_lookup: Array) -> Layer:
    """Gradients of a last layer, of whose output matrices the last rows alone matter."""
    xp = array_namespace(by_row)
    by_output = xp.zeros_like(layer.value)
    by_output[:, -1, :] = by_row
    return _weight_gradients(layer, by_lookup, by_output)


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    r"""What the loss of a single layer knows of a set of prompts.

    The features are :math:`f = G_{ij} q_k` with :math:`i \le j`, the residual of a layer that
    does nothing is :math:`t = y + q_D`.

    Attributes
    ----------
    label : scalar array
        Mean of t^2.
    cross : array (F,)
        Mean of t f, F = D^2 (D + 1) / 2, or less if some features are zero.
    second : array (F, F)
        Mean of f f^T.
    """

    label: Any
    cross: Array
    second: Array


def readout_moments(
    blocks: Iterable[tuple[Array, Array]], *, include_query: bool = False
) -> FeatureMoments:
    """Moments of prompts that come in blocks (tokens, labels), as in loss_and_gradients."""
    total, count = [0.0, 0.0, 0.0], 0
    for tokens, labels in blocks:
        xp = array_namespace(tokens)
        n, _, size = tokens.shape
        source = tokens if include_query else tokens[:, :-1, :]
        gram = xp.reshape(xp.matrix_transpose(source) @ source, (n, size**2))
        gram = xp.take(gram, xp.asarray(_upper(size)), axis=1)
        features = xp.reshape(gram[:, :, None] * tokens[:, None, -1, :], (n, -1))
        target = labels + tokens[:, -1, -1]
        parts = (xp.sum(target**2), target @ features, features.T @ features)
        total = [old + new for old, new in zip(total, parts, strict=True)]
        count += n
    return FeatureMoments(*(value / count for value in total))


def moment_loss_and_gradients(moments: FeatureMoments, layer: Layer) -> tuple[Any, Layer]:
    """Loss and gradients of one layer, equal to those of loss_and_gradients on the prompts."""
    xp = array_namespace(moments.cross)
    size = layer.key.shape[-1]
    row, lookup = layer.output[:, -1, :], layer.lookup
    full = xp.tensordot(row, lookup, axes=([0], [0]))
    full = xp.reshape(full + xp.permute_dims(full, (1, 0, 2)), (size**2, size))
    once = xp.reshape(1 - 0.5 * xp.eye(size), (size**2, 1))
    weight = xp.reshape(xp.take(full * once, xp.asarray(_upper(size)), axis=0), (-1,))
    half = moments.cross + moments.second @ weight
    loss = moments.label + xp.sum((moments.cross + half) * weight)
    place = {index: entry for entry, index in enumerate(_upper(size))}
    spread = [place[min(i, j) * size + max(i, j)] for i in range(size) for j in range(size)]
    change = xp.take(xp.reshape(2 * half, (-1, size)), xp.asarray(spread), axis=0)
    change = xp.reshape(change, (size, size, size))
    by_row = xp.tensordot(lookup, change, axes=([1, 2], [1, 2]))
    return loss, _readout_gradients(layer, by_row, xp.tensordot(row, change, axes=([1], [0])))


def _upper(size: int) -> list[int]:
    """Flat indices of the upper triangle of a matrix."""
    return [i * size + j for i in range(size) for j in range(i, size)]
