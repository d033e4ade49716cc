"""Dense maps of tokens, and perceptrons of two, with the way back of derivatives.

A map takes tokens (..., width) and returns what it makes of them and a function: from derivatives
by the result to those by the tokens and by the weights, under their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.models.network import Weights

# From derivatives by a result to those by its tokens and by weights.
Back: TypeAlias = Callable[[Array], tuple[Array, Weights]]

# Constants of the approximation of x P(Z < x) by a hyperbolic tangent.
GELU = math.sqrt(2 / math.pi), 0.044715


def dense(tokens: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Back]:
    """Multiply tokens by the matrix of that name, and add its bias if there is one."""
    xp = array_namespace(tokens)
    matrix, bias = weights[name], weights.get(f"{name}_bias")
    # One product of a tall matrix is faster than many of small ones.
    flat = xp.reshape(tokens, (-1, tokens.shape[-1]))
    made = flat @ matrix if bias is None else flat @ matrix + bias

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_flat = xp.reshape(by_made, (-1, matrix.shape[1]))
        gradients = {name: flat.T @ by_flat}
        if bias is not None:
            gradients[f"{name}_bias"] = xp.sum(by_flat, axis=0)
        return xp.reshape(by_flat @ matrix.T, tokens.shape), gradients

    return xp.reshape(made, (*tokens.shape[:-1], matrix.shape[1])), back


def perceptron(tokens: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Back]:
    """Two dense maps with a GELU in between."""
    inner, back_in = dense(tokens, weights, f"{name}_in")
    xp = array_namespace(tokens)
    slope, cubic = GELU
    bent = xp.tanh(slope * inner * (1 + cubic * inner**2))
    made, back_out = dense(0.5 * inner * (1 + bent), weights, f"{name}_out")

    def back(by_made: Array) -> tuple[Array, Weights]:
        by_unit, gradients = back_out(by_made)
        by_bent = slope * (1 + 3 * cubic * inner**2) * (1 - bent**2)
        by_tokens, rest = back_in(0.5 * by_unit * (1 + bent + inner * by_bent))
        return by_tokens, gradients | rest

    return made, back
