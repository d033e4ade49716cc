r"""Residual blocks: attention and perceptrons add to tokens what they make of them.

Each function takes tokens (n, tokens, width) and returns what it makes of them and a function:
from derivatives by the result to those by the tokens and by the weights, under their names.
Tokens and weights of several networks have one more axis, the first, and each network answers its
own tokens.

Head h of attention adds :math:`\sum_j p_{ij} V_h e_j`, taken through the output map, to token i.
Here :math:`p_{ij} = s_{ij}` (linear attention) or the softmax over j of :math:`s_{ij}/\sqrt k`,
with :math:`s_{ij} = \langle Q_h e_i, K_h e_j\rangle` for keys with k entries.
"""

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, softmax
from iclimit.simulate.models.network import Weights

ATTENTION = ("softmax", "linear")

# From derivatives by a result to those by its tokens and by weights.
Back: TypeAlias = Callable[[Array], tuple[Array, Weights]]

# Constants of the approximation of x P(Z < x) by a hyperbolic tangent.
GELU = math.sqrt(2 / math.pi), 0.044715

# Added to the variance of a token, as Haiku, PyTorch and Flax do by default.
TINY = 1e-5


def dense(tokens: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Back]:
    """Multiply tokens by the matrix of that name, and add its bias if there is one."""
    xp = array_namespace(tokens)
    matrix = weights[name]
    bias = weights.get(f"{name}_bias")
    # One product of a tall matrix is faster than many of small ones.
    flat = xp.reshape(tokens, (*matrix.shape[:-2], -1, tokens.shape[-1]))
    made = flat @ matrix if bias is None else flat @ matrix + bias[..., None, :]

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_flat = xp.reshape(by_made, made.shape)
        gradients = {name: xp.matrix_transpose(flat) @ by_flat}
        if bias is not None:
            gradients[f"{name}_bias"] = xp.sum(by_flat, axis=-2)
        by_tokens = by_flat @ xp.matrix_transpose(matrix)
        return xp.reshape(by_tokens, tokens.shape), gradients

    return xp.reshape(made, (*tokens.shape[:-1], matrix.shape[-1])), back


def normalize(tokens: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Back]:
    """Give every token mean 0 and variance 1, then scale and shift its entries.

    Without a scale of that name among the weights the tokens are left as they are.
    """
    if f"{name}_scale" not in weights:
        return tokens, lambda by_made: (by_made, {})
    xp = array_namespace(tokens)
    scale = weights[f"{name}_scale"][..., None, None, :]
    offset = weights[f"{name}_offset"][..., None, None, :]
    centred = tokens - xp.mean(tokens, axis=-1, keepdims=True)
    size = xp.sqrt(xp.mean(centred**2, axis=-1, keepdims=True) + TINY)
    unit = centred / size

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_scale = xp.sum(by_made * unit, axis=(-3, -2))
        by_offset = xp.sum(by_made, axis=(-3, -2))
        by_unit = by_made * scale
        along = xp.mean(by_unit * unit, axis=-1, keepdims=True)
        by_tokens = (by_unit - xp.mean(by_unit, axis=-1, keepdims=True) - along * unit) / size
        return by_tokens, {f"{name}_scale": by_scale, f"{name}_offset": by_offset}

    return unit * scale + offset, back


def add_attention(
    state: Array,
    weights: Mapping[str, Array],
    asking: int,
    source: int,
    heads: int,
    kind: str,
    *,
    causal: bool = False,
) -> tuple[Array, Back]:
    """The last ``asking`` tokens, with what attention to the first ``source`` ones adds.

    A causal token attends to itself and to those before it, of these ones.
    """
    xp = array_namespace(state)
    start = state.shape[-2] - asking
    seen, back_norm = normalize(state, weights, "attention")
    queried = seen[..., start:, :]
    read = seen[..., :source, :]
    queries, back_queries = dense(queried, weights, "query")
    keys, back_keys = dense(read, weights, "key")
    values, back_values = dense(read, weights, "value")
    seen_by = _before(start, asking, source) if causal else None
    mixed, back_mixed = _mix(
        _split(queries, heads), _split(keys, heads), _split(values, heads), kind, seen_by
    )
    change, back_out = dense(_join(mixed), weights, "output")

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_joined, of_output = back_out(by_made)
        by_queries, by_keys, by_values = back_mixed(_split(by_joined, heads))
        by_asked, of_query = back_queries(_join(by_queries))
        by_read_keys, of_key = back_keys(_join(by_keys))
        by_read_values, of_value = back_values(_join(by_values))
        by_state = xp.zeros_like(state)
        by_state[..., :source, :] = by_read_keys + by_read_values
        by_state[..., start:, :] += by_asked
        by_state, of_norm = back_norm(by_state)
        by_state[..., start:, :] += by_made
        return by_state, of_output | of_query | of_key | of_value | of_norm

    return state[..., start:, :] + change, back


def _before(start: int, asking: int, source: int) -> np.ndarray:
    """Which of the first ``source`` tokens each asking one sees, (asking, source)."""
    return np.arange(source) <= np.arange(start, start + asking)[:, None]


def _mix(
    queries: Array, keys: Array, values: Array, kind: str, seen_by: np.ndarray | None
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """Sums of the values, weighed by scores, and how derivatives go back to all three.

    ``seen_by`` (asking, source) says which keys a query sees; None: all of them.
    """
    xp = array_namespace(queries)
    scores = queries @ xp.matrix_transpose(keys)
    factor = 1 / math.sqrt(keys.shape[-1]) if kind == "softmax" else 1.0
    linear_mask = None
    if seen_by is not None and kind == "softmax":
        scores = scores + xp.asarray(np.where(seen_by, 0.0, -math.inf), dtype=scores.dtype)
    if seen_by is not None and kind == "linear":
        linear_mask = xp.asarray(seen_by, dtype=scores.dtype)
        scores = scores * linear_mask
    if kind == "softmax":
        scores = softmax(scores, factor)

    def back(by_mixed: Array) -> tuple[Array, Array, Array]:
        by_scores = by_mixed @ xp.matrix_transpose(values)
        if kind == "softmax":
            along = xp.sum(scores * by_scores, axis=-1, keepdims=True)
            by_scores = factor * scores * (by_scores - along)
        if linear_mask is not None:
            by_scores = by_scores * linear_mask
        by_keys = xp.matrix_transpose(by_scores) @ queries
        return by_scores @ keys, by_keys, xp.matrix_transpose(scores) @ by_mixed

    return scores @ values, back


def add_perceptron(state: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Back]:
    """Tokens, with what two dense maps with a GELU in between add."""
    seen, back_norm = normalize(state, weights, name)
    inner, back_in = dense(seen, weights, f"{name}_in")
    slope, cubic = GELU
    bent = array_namespace(state).tanh(slope * inner * (1 + cubic * inner**2))
    change, back_out = dense(0.5 * inner * (1 + bent), weights, f"{name}_out")

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_unit, of_out = back_out(by_made)
        by_bent = slope * (1 + 3 * cubic * inner**2) * (1 - bent**2)
        by_seen, of_in = back_in(0.5 * by_unit * (1 + bent + inner * by_bent))
        by_seen, of_norm = back_norm(by_seen)
        return by_made + by_seen, of_out | of_in | of_norm

    return state + change, back


def perceptron_shapes(name: str, size: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights of `add_perceptron`."""
    return {
        f"{name}_in": (size, hidden),
        f"{name}_in_bias": (hidden,),
        f"{name}_out": (hidden, size),
        f"{name}_out_bias": (size,),
    }


def _split(tokens: Array, heads: int) -> Array:
    """From (..., tokens, heads * k) to (..., heads, tokens, k)."""
    xp = array_namespace(tokens)
    return xp.moveaxis(xp.reshape(tokens, (*tokens.shape[:-1], heads, -1)), -2, -3)


def _join(parts: Array) -> Array:
    """The inverse of `_split`."""
    xp = array_namespace(parts)
    joined = xp.moveaxis(parts, -2, -3)
    return xp.reshape(joined, (*joined.shape[:-2], -1))
