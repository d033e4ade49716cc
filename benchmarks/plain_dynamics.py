"""Gradient descent on a fixed training set as one writes it down: attention over all tokens.

The scores of all pairs of tokens are formed in every head for every sequence, and the gradient
goes back through them.  Model of Zhang, Singh, Latham and Saxe (arXiv:2501.16265) as in their
public script: scores are not divided by the context length, the query's token attends to itself
with the label 0, and of the output only the row of the labels is read, so that the value weights
of a head are one vector.
"""

import numpy as np

# Sequences whose scores are held at a time; more are slower.
CHUNK = 50


def descend(
    tokens: np.ndarray, target: np.ndarray, weights: list[np.ndarray], rate: float, steps: int
) -> list[float]:
    """Take so many full-batch steps; return the losses before each of them.

    Tokens have the shape (P, N + 1, D + 1), the query last.  Weights are values (H, D + 1) and
    the merged weights (H, D + 1, D) that look up, or values, keys (H, R, D + 1) and queries
    (H, R, D).
    """
    losses = []
    for _ in range(steps):
        loss = 0.0
        gradient = [np.zeros_like(each) for each in weights]
        for start in range(0, len(target), CHUNK):
            part = slice(start, start + CHUNK)
            squares, parts = _squares_and_gradient(tokens[part], target[part], weights)
            loss += squares / len(target)
            gradient = [a + b / len(target) for a, b in zip(gradient, parts, strict=True)]
        losses.append(loss)
        weights = [a - rate * b for a, b in zip(weights, gradient, strict=True)]
    return losses


def _squares_and_gradient(
    tokens: np.ndarray, target: np.ndarray, weights: list[np.ndarray]
) -> tuple[float, list[np.ndarray]]:
    """Sum of squared errors and its gradient; arrays of heads are (P, H, N + 1, ...)."""
    value, *key, query = weights
    source = tokens[:, None]
    inputs = source[..., :-1]
    keys = source @ key[0].transpose(0, 2, 1) if key else source
    queries = inputs @ query.transpose(0, 2, 1)
    values = source @ value[:, :, None]
    scores = queries @ keys.transpose(0, 1, 3, 2)
    mixed = scores @ values
    error = np.sum(mixed[:, :, -1, 0], axis=1) - target
    back = np.zeros_like(mixed)
    back[:, :, -1, 0] = 2 * error[:, None]
    d_scores = back * values.transpose(0, 1, 3, 2)
    d_values = scores.transpose(0, 1, 3, 2) @ back
    d_queries = d_scores @ keys
    gradient = [_sum_of_products(d_values, source)[:, 0]]
    if key:
        gradient.append(_sum_of_products(d_scores.transpose(0, 1, 3, 2) @ queries, source))
    gradient.append(_sum_of_products(d_queries, inputs))
    return float(np.sum(error**2)), gradient


def _sum_of_products(back: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Gradient by the weights (H, R, D) of a layer from that by its outputs."""
    return np.einsum("phtr,ptd->hrd", back, source[:, 0], optimize=True)
