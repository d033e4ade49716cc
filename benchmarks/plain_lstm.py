"""A stack of LSTM layers as one writes it down, with gradients by autograd."""

from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad


def loss_and_gradient(
    weights: dict[str, np.ndarray], layers: int, bidirectional: bool, tokens: Any, target: Any
) -> tuple[float, dict[str, np.ndarray]]:
    """Mean squared error of the prediction at the last token (n, T, width), and its gradient."""

    def loss(weights: dict[str, Any]) -> Any:
        states = [tokens[:, t] for t in range(tokens.shape[1])]
        for layer in range(layers):
            both = []
            for direction in range(1 + bidirectional):
                read = states[::-1] if direction else states
                own = (weights[f"{part}_{layer}"] for part in ("input", "recurrent", "bias"))
                found = _read(read, [each[direction] for each in own])
                both.append(found[::-1] if direction else found)
            states = [anp.hstack(each) for each in zip(*both, strict=True)]
        return anp.mean((anp.dot(states[-1], weights["readout"]) - target) ** 2)

    return value_and_grad(loss)(weights)


def _read(tokens: list[Any], weights: list[Any]) -> list[Any]:
    inputs, recurrent, bias = weights
    hidden = recurrent.shape[1]
    states = []
    h = np.zeros((len(tokens[0]), hidden))
    c = h
    for token in tokens:
        a = anp.dot(token, inputs.T) + anp.dot(h, recurrent.T) + bias
        i, f, o = (1 / (1 + anp.exp(-a[:, k * hidden : (k + 1) * hidden])) for k in range(3))
        c = f * c + i * anp.tanh(a[:, 3 * hidden :])
        h = o * anp.tanh(c)
        states.append(h)
    return states
