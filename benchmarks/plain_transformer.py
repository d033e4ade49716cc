"""Training of a diagonal linear transformer as one writes it down: attention over all tokens.

The scores of all pairs of tokens are formed in every layer, and the gradient goes back through
them.  Settings of Vladymyrov et al. (arXiv:2402.14180): Adam at 1e-4 on fresh batches of 2048
prompts for 200,000 steps; N = 20, d = 10, noise level uniform on [0, 5].
"""

import numpy as np

STEPS, BATCH, RATE, DECAY = 200_000, 2048, 1e-4, (0.9, 0.999)
CONTEXT, DIM, LARGEST = 20, 10, 5.0


def train(layers: int, steps: int, seed: int, rate: float = RATE) -> list[float]:
    """Train for so many steps; return the losses: half squared errors on noiseless queries."""
    rng = np.random.default_rng(seed)
    weights = 0.05 * rng.standard_normal((layers, 4)) * [1, 1, 1, 0.05]
    first = np.zeros_like(weights)
    second = np.zeros_like(weights)
    losses = []
    for step in range(1, steps + 1):
        x = rng.standard_normal((BATCH, CONTEXT + 1, DIM))
        y = np.einsum("ntd,nd->nt", x, rng.standard_normal((BATCH, DIM)))
        target = y[:, -1].copy()
        level = LARGEST * rng.random((BATCH, 1))
        y += level * rng.standard_normal(y.shape)
        tokens = np.concatenate([x, y[:, :, None]], axis=2)
        tokens[:, -1, -1] = 0.0
        loss, gradient = _loss_and_gradient(tokens, target, weights)
        losses.append(loss)
        first = DECAY[0] * first + (1 - DECAY[0]) * gradient
        second = DECAY[1] * second + (1 - DECAY[1]) * gradient**2
        scale = rate * np.sqrt(1 - DECAY[1] ** step) / (1 - DECAY[0] ** step)
        weights = weights - scale * first / (np.sqrt(second) + 1e-12)
    return losses


def _loss_and_gradient(
    tokens: np.ndarray, target: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    kept = []
    for p_x, p_y, q_x, q_y in weights:
        p = np.append(np.full(DIM, p_x), p_y)
        q = np.append(np.full(DIM, q_x), q_y)
        source = tokens[:, :-1, :]
        scores = (tokens * q) @ source.transpose(0, 2, 1)
        mixed = scores @ source
        kept.append((tokens, scores, mixed, p, q))
        tokens = tokens + mixed * p
    error = -tokens[:, -1, -1] - target
    back = np.zeros_like(tokens)
    back[:, -1, -1] = -error / len(target)
    gradient = np.empty_like(weights)
    for layer in reversed(range(len(weights))):
        tokens, scores, mixed, p, q = kept[layer]
        source = tokens[:, :-1, :]
        by_p = np.sum(back * mixed, axis=(0, 1))
        by_mixed = back * p
        by_scores = by_mixed @ source.transpose(0, 2, 1)
        by_looked_up = by_scores @ source
        by_q = np.sum(by_looked_up * tokens, axis=(0, 1))
        gradient[layer] = by_p[:-1].sum(), by_p[-1], by_q[:-1].sum(), by_q[-1]
        back = back + by_looked_up * q
        back[:, :-1, :] += scores.transpose(0, 2, 1) @ by_mixed
        back[:, :-1, :] += by_scores.transpose(0, 2, 1) @ (tokens * q)
    return float(np.mean(error**2) / 2), gradient
