r"""One layer of attention with several heads, with the way back of derivatives.

Head h adds :math:`\sum_j p_{ij} V_h e_j`, taken through the output map, to token i.  The weights
are :math:`p_{ij} = s_{ij}` (linear attention) or the softmax over j of :math:`s_{ij}/\sqrt k`,
with :math:`s_{ij} = \langle Q_h e_i, K_h e_j\rangle` for keys with k entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, softmax
from iclimit.simulate.models.dense import dense
from iclimit.simulate.models.network import Weights

ATTENTION = ("softmax", "linear")


def attend(
    asking: Array, source: Array, weights: Mapping[str, Array], heads: int, kind: str
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Weights]]]:
    """What tokens (n, a, width) get from others (n, s, width).

    The function returned with it takes derivatives back to both and to the weights.
    """
    xp = array_namespace(asking)
    maps = [
        dense(each, weights, name)
        for each, name in ((asking, "query"), (source, "key"), (source, "value"))
    ]
    queries, keys, values = (_split(each, heads) for each, _ in maps)
    scores = queries @ xp.matrix_transpose(keys)
    factor = 1 / math.sqrt(keys.shape[-1]) if kind == "softmax" else 1.0
    if kind == "softmax":
        scores = softmax(scores, factor)
    made, back_out = dense(_join(scores @ values), weights, "output")

    def back(by_made: Array) -> tuple[Array, Array, Weights]:
        by_joined, collected = back_out(by_made)
        by_mixed = _split(by_joined, heads)
        by_values = xp.matrix_transpose(scores) @ by_mixed
        by_scores = by_mixed @ xp.matrix_transpose(values)
        if kind == "softmax":
            along = xp.sum(scores * by_scores, axis=-1, keepdims=True)
            by_scores = factor * scores * (by_scores - along)
        by_queries, by_keys = by_scores @ keys, xp.matrix_transpose(by_scores) @ queries
        parts = [
            back_in(_join(by_each))
            for (_, back_in), by_each in zip(maps, (by_queries, by_keys, by_values), strict=True)
        ]
        for _, gradients in parts:
            collected |= gradients
        return parts[0][0], parts[1][0] + parts[2][0], collected

    return made, back


def _split(tokens: Array, heads: int) -> Array:
    """From (n, tokens, heads * k) to (n, heads, tokens, k)."""
    xp = array_namespace(tokens)
    return xp.permute_dims(xp.reshape(tokens, (*tokens.shape[:2], heads, -1)), (0, 2, 1, 3))


def _join(parts: Array) -> Array:
    """The inverse of `_split`."""
    xp = array_namespace(parts)
    n, _, tokens, _ = parts.shape
    return xp.reshape(xp.permute_dims(parts, (0, 2, 1, 3)), (n, tokens, -1))
