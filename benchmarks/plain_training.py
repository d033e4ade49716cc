"""Training of one linear attention layer as one writes it down: attention matrices, all tokens.

Key, query, value and projection are applied to every token, the scores of all pairs of tokens are
formed, and the gradient goes back through each of these arrays.  Settings of von Oswald et al.
(arXiv:2212.07677): Adam at 1e-3 on batches of 2048 prompts for 5000 steps.
"""

import numpy as np

STEPS, BATCH, RATE, DECAY = 5000, 2048, 1e-3, (0.9, 0.98)


def train(context: int, dim: int, steps: int, seed: int) -> float:
    """Train for so many steps; return the last loss."""
    rng = np.random.default_rng(seed)
    size = dim + 1
    weights = 0.1 * rng.standard_normal((4, size, size))
    first = np.zeros_like(weights)
    second = np.zeros_like(weights)
    for step in range(1, steps + 1):
        x = rng.uniform(-1, 1, (BATCH, context + 1, dim))
        y = np.einsum("ntd,nd->nt", x, rng.standard_normal((BATCH, dim)))
        tokens = np.concatenate([x, y[:, :, None]], axis=2)
        target = tokens[:, -1, -1].copy()
        tokens[:, -1, -1] = 0.0
        loss, gradient = _loss_and_gradient(tokens, target, *weights)
        first = DECAY[0] * first + (1 - DECAY[0]) * gradient
        second = DECAY[1] * second + (1 - DECAY[1]) * gradient**2
        scale = RATE * np.sqrt(1 - DECAY[1] ** step) / (1 - DECAY[0] ** step)
        weights = weights - scale * first / (np.sqrt(second) + 1e-12)
    return loss


def _loss_and_gradient(
    tokens: np.ndarray,
    target: np.ndarray,
    key: np.ndarray,
    query: np.ndarray,
    value: np.ndarray,
    projection: np.ndarray,
) -> tuple[float, np.ndarray]:
    source = tokens[:, :-1, :]
    keys = source @ key.T
    values = source @ value.T
    queries = tokens @ query.T
    scores = queries @ keys.transpose(0, 2, 1)
    mixed = scores @ values
    out = tokens + mixed @ projection.T
    error = -out[:, -1, -1] - target
    back = np.zeros_like(out)
    back[:, -1, -1] = -2 * error / len(target)
    d_projection = np.einsum("nti,ntj->ij", back, mixed)
    d_mixed = back @ projection
    d_scores = d_mixed @ values.transpose(0, 2, 1)
    d_values = scores.transpose(0, 2, 1) @ d_mixed
    d_queries = d_scores @ keys
    d_keys = d_scores.transpose(0, 2, 1) @ queries
    gradient = [
        np.einsum("nti,ntj->ij", a, b)
        for a, b in ((d_keys, source), (d_queries, tokens), (d_values, source))
    ]
    return float(np.mean(error**2)), np.stack([*gradient, d_projection])
