"""Residual blocks: what attention or a perceptron makes of tokens is added to them."""

from __future__ import annotations

from collections.abc import Mapping

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.models.attention import attend
from iclimit.simulate.models.dense import Back, perceptron
from iclimit.simulate.models.network import Weights
from iclimit.simulate.models.normalization import normalize


def add_attention(
    state: Array,
    weights: Mapping[str, Array],
    asking: int,
    source: int,
    heads: int,
    kind: str,
    layer_norm: bool,
) -> tuple[Array, Back]:
    """The last ``asking`` tokens, with what attention to the first ``source`` ones adds."""
    seen, back_norm = _seen(state, weights, "attention", layer_norm)
    start = state.shape[1] - asking
    change, back_attention = attend(seen[:, start:, :], seen[:, :source, :], weights, heads, kind)

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_asking, by_source, collected = back_attention(by_made)
        by_state = array_namespace(state).zeros_like(state)
        by_state[:, :source, :] = by_source
        by_state[:, start:, :] += by_asking
        by_state, gradients = back_norm(by_state)
        by_state[:, start:, :] += by_made
        return by_state, collected | gradients

    return state[:, start:, :] + change, back


def add_perceptron(
    state: Array, weights: Mapping[str, Array], name: str, layer_norm: bool
) -> tuple[Array, Back]:
    """Tokens, with what a perceptron adds."""
    seen, back_norm = _seen(state, weights, name, layer_norm)
    change, back_perceptron = perceptron(seen, weights, name)

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_seen, collected = back_perceptron(by_made)
        by_seen, gradients = back_norm(by_seen)
        return by_made + by_seen, collected | gradients

    return state + change, back


def _seen(
    state: Array, weights: Mapping[str, Array], name: str, layer_norm: bool
) -> tuple[Array, Back]:
    """What a block sees of tokens."""
    if layer_norm:
        return normalize(state, weights, name)
    return state, lambda by_seen: (by_seen, {})
