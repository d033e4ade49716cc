"""Layer normalisation of tokens, with the way back of derivatives."""

from __future__ import annotations

from collections.abc import Mapping

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.models.dense import Back
from iclimit.simulate.models.network import Weights

# Added to the variance of a token, as Haiku, PyTorch and Flax do by default.
TINY = 1e-5


def normalize(tokens: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Back]:
    """Give every token mean 0 and variance 1, then scale and shift its entries."""
    xp = array_namespace(tokens)
    scale, offset = weights[f"{name}_scale"], weights[f"{name}_offset"]
    centred = tokens - xp.mean(tokens, axis=-1, keepdims=True)
    size = xp.sqrt(xp.mean(centred**2, axis=-1, keepdims=True) + TINY)
    unit = centred / size

    def back(by_made: Array) -> tuple[Array, Weights]:
        axes = tuple(range(by_made.ndim - 1))
        gradients = {
            f"{name}_scale": xp.sum(by_made * unit, axis=axes),
            f"{name}_offset": xp.sum(by_made, axis=axes),
        }
        by_unit = by_made * scale
        along = xp.mean(by_unit * unit, axis=-1, keepdims=True)
        by_tokens = (by_unit - xp.mean(by_unit, axis=-1, keepdims=True) - along * unit) / size
        return by_tokens, gradients

    return unit * scale + offset, back
