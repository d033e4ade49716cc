"""A stack of softmax attention layers as one writes it down, with gradients by autograd."""

import math
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad


def loss_and_gradient(
    weights: dict[str, np.ndarray], tokens: Any, target: Any
) -> tuple[float, dict[str, np.ndarray]]:
    """Mean squared error of the prediction at the last token (n, T, entries), and its gradient."""

    def loss(weights: dict[str, Any]) -> Any:
        state = anp.dot(tokens, weights["embedding"]) + weights["embedding_bias"]
        for layer in range(weights["query"].shape[0]):

            def mapped(name: str, each: Any, layer: int = layer) -> Any:
                return anp.dot(each, weights[name][layer]) + weights[f"{name}_bias"][layer]

            context = state[:, :-1]
            queries, keys, values = map(
                mapped, ("query", "key", "value"), (state, context, context)
            )
            scores = anp.matmul(queries, anp.swapaxes(keys, 1, 2)) / math.sqrt(keys.shape[2])
            scores = anp.exp(scores - anp.max(scores, axis=2, keepdims=True))
            scores = scores / anp.sum(scores, axis=2, keepdims=True)
            state = state + mapped("output", anp.matmul(scores, values))
        predictions = anp.dot(state[:, -1], weights["readout"][:, 0]) + weights["readout_bias"]
        return anp.mean((predictions - target) ** 2)

    return value_and_grad(loss)(weights)
