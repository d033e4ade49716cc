"""The obvious way to simulate a cell: tokens, an explicit feature matrix, dense normal equations.

Written as one would write it in a paper's notebook, with the vectorisation that NumPy offers, and
without anything from this package.
"""

import numpy as np

# Prompts whose tokens are drawn at a time; all of them at once would need n l d numbers.
TOKEN_BLOCK = 1000
# Added to the diagonal of the normal equations, which the features scale to order n.
RIDGE = 1e-8
TEST_PROMPTS = 1000


def draw(
    generator: np.random.Generator, tasks: np.ndarray, context: int, rho: float
) -> tuple[np.ndarray, np.ndarray]:
    """Feature matrix (n, d (d + 1)) and query labels of one prompt for each row of tasks."""
    n, d = tasks.shape
    features = np.empty((n, d * (d + 1)))
    labels = np.empty(n)
    for start in range(0, n, TOKEN_BLOCK):
        w = tasks[start : start + TOKEN_BLOCK]
        x = generator.standard_normal((len(w), context + 1, d)) / np.sqrt(d)
        noise = np.sqrt(rho) * generator.standard_normal((len(w), context + 1))
        y = np.einsum("nld,nd->nl", x, w) + noise
        first = d / context * np.einsum("nl,nld->nd", y[:, :-1], x[:, :-1])
        last = np.mean(y[:, :-1] ** 2, axis=1)
        h = np.concatenate([first, last[:, None]], axis=1)
        rows = slice(start, start + len(w))
        features[rows] = (x[:, -1, :, None] * h[:, None, :]).reshape(len(w), -1)
        labels[rows] = y[:, -1]
    return features, labels


def sphere(generator: np.random.Generator, count: int, d: int) -> np.ndarray:
    """Uniform task vectors of squared norm d."""
    tasks = generator.standard_normal((count, d))
    return tasks * np.sqrt(d) / np.linalg.norm(tasks, axis=1, keepdims=True)


def dense_errors(
    *, dim: int, context: int, tasks: int, prompts: int, rho: float, seed: int
) -> tuple[float, float]:
    """ICL and IDG error of one ridgeless run, n > d (d + 1)."""
    generator = np.random.default_rng(seed)
    task_set = sphere(generator, tasks, dim)
    features, labels = draw(
        generator, task_set[generator.integers(0, tasks, size=prompts)], context, rho
    )
    normal = features.T @ features
    normal[np.diag_indices_from(normal)] += RIDGE
    gamma = np.linalg.solve(normal, features.T @ labels)
    del features, normal
    errors = []
    for test in (
        sphere(generator, TEST_PROMPTS, dim),
        task_set[generator.integers(0, tasks, size=TEST_PROMPTS)],
    ):
        features, labels = draw(generator, test, context, rho)
        errors.append(float(np.mean((labels - features @ gamma) ** 2)))
    return errors[0], errors[1]
