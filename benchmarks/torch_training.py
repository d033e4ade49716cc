"""Training of one linear attention layer as one writes it in PyTorch, which must be installed.

The layer, the prompts and the steps of Adam are those of `plain_training`; automatic
differentiation takes the gradients, in single precision and one thread.
"""

import torch

from benchmarks.plain_training import BATCH, DECAY, RATE


def train(context: int, dim: int, steps: int, seed: int) -> float:
    """Train for so many steps; return the last loss."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    size = dim + 1
    weights = torch.nn.Parameter(0.1 * torch.randn(4, size, size))
    optimizer = torch.optim.Adam([weights], lr=RATE, betas=DECAY)
    for _ in range(steps):
        x = 2 * torch.rand(BATCH, context + 1, dim) - 1
        y = torch.einsum("ntd,nd->nt", x, torch.randn(BATCH, dim))
        tokens = torch.cat([x, y[:, :, None]], dim=2)
        target = tokens[:, -1, -1].clone()
        tokens[:, -1, -1] = 0
        key, query, value, projection = weights
        keys = tokens[:, :-1] @ key.T
        values = tokens[:, :-1] @ value.T
        mixed = (tokens @ query.T @ keys.transpose(1, 2)) @ values
        output = tokens + mixed @ projection.T
        loss = torch.mean((output[:, -1, -1] + target) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
