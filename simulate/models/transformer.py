r"""Linear self-attention layers with any weights and several heads, stacked.

A layer adds to every token :math:`z` (a row of the prompt, as a column here)

.. math:: \sum_h P_h V_h \sum_s e_s\, (K_h e_s)^\top Q_h z
   = \sum_h P_h V_h\, G\, K_h^\top Q_h z, \qquad G = \sum_s e_s e_s^\top,

where s runs over the context, with the query or without.  There is no 1/N: normalisation is part
of the weights.  Linear attention knows its tokens through G only, so a layer costs
:math:`O(N D^2)` per prompt whatever the number of heads.  The softmax variant, for the copying
layer, weighs the tokens by :math:`\mathrm{softmax}_s (K_h e_s)^\top Q_h z` instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array


@dataclass(frozen=True)
class Layer:
    """Weights of a self-attention layer with H heads on tokens of D numbers.

    Attributes
    ----------
    key, query, value, projection : array (H, D, D)
        K_h, Q_h, V_h and P_h.
    """

    key: Array
    query: Array
    value: Array
    projection: Array

    @property
    def lookup(self) -> Array:
        """Products K_h^T Q_h, (H, D, D)."""
        return array_namespace(self.key).matrix_transpose(self.key) @ self.query

    @property
    def output(self) -> Array:
        """Products P_h V_h, (H, D, D)."""
        return self.projection @ self.value


def apply_layer(
    tokens: Array,
    layer: Layer,
    *,
    include_query: bool = False,
    dampening: float = 1.0,
    softmax: bool = False,
) -> Array:
    """Tokens after one layer.

    Parameters
    ----------
    tokens : array (n, T, D)
        Prompts as rows of tokens, the query last.
    layer : Layer
    include_query : bool
        Whether the query's token is among the keys and values.
    dampening : float
        Factor of the update.
    softmax : bool
        Softmax instead of linear attention.

    Returns
    -------
    array (n, T, D)
    """
    xp = array_namespace(tokens)
    source = tokens if include_query else tokens[:, :-1, :]
    transposed = xp.matrix_transpose(source)
    update = xp.zeros_like(tokens)
    lookup = layer.lookup
    output = layer.output
    for head in range(lookup.shape[0]):
        looked_up = tokens @ lookup[head, :, :].T
        if softmax:
            score = looked_up @ transposed
            weight = xp.exp(score - xp.max(score, axis=-1, keepdims=True))
            mixed = weight @ source / xp.sum(weight, axis=-1, keepdims=True)
        else:
            mixed = looked_up @ (transposed @ source)
        update = update + mixed @ output[head, :, :].T
    return tokens + dampening * update


def forward(tokens: Array, layers: Sequence[Layer], **options: Any) -> Array:
    """Tokens after a stack of layers; a recurrent layer is repeated in the sequence.

    The options are those of `apply_layer`.
    """
    for layer in layers:
        tokens = apply_layer(tokens, layer, **options)
    return tokens


def prediction(tokens: Array, layers: Sequence[Layer], **options: Any) -> Array:
    """Predicted query labels, shape (n,): minus the last entry of the query's token."""
    return -forward(tokens, layers, **options)[:, -1, -1]
