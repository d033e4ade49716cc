"""Plain runs of ridge regression on sequences: dense features, exact errors of a matrix."""

import numpy as np


def on_sphere(rng, count, dim):
    tasks = rng.standard_normal((count, dim))
    return tasks * np.sqrt(dim) / np.linalg.norm(tasks, axis=1, keepdims=True)


def draw_tasks(rng, dim, prompts, tasks, balanced):
    """Task set, and the task of every sequence."""
    if np.isinf(tasks):
        task_set = on_sphere(rng, prompts, dim)
        return task_set, task_set
    task_set = on_sphere(rng, int(tasks), dim)
    if balanced:
        return task_set, task_set[np.arange(prompts) % int(tasks)]
    return task_set, task_set[rng.integers(int(tasks), size=prompts)]


def features_of(x, y, seen, normalization):
    """Features x h of every sequence and position, (n, positions, d (d + 1)), and their labels."""
    count, _, dim = x.shape
    divisor = seen if normalization == "mean" else np.full(seen.size, seen[-1])
    sums = np.cumsum(y[..., None] * x, axis=1)[:, seen - 1]
    squares = np.cumsum(y**2, axis=1)[:, seen - 1]
    h = np.concatenate([dim * sums, squares[..., None]], axis=-1) / divisor[:, None]
    products = x[:, seen][..., :, None] * h[..., None, :]
    return products.reshape(count, seen.size, dim * (dim + 1)), y[:, seen]


def exact_errors(gamma, task_set, seen, rho, length=None):
    """ICL and IDG error of a matrix at a number of examples seen."""
    dim = len(gamma)
    factor = 1.0 if length is None else seen / length
    head = factor * gamma[:, :dim]
    last = factor * gamma[:, dim]
    v = 1 + rho
    squares = v**2 * (1 + 2 / seen) * last @ last
    icl = dim * (1 + rho) - 2 * np.trace(head) + squares
    icl += (1 + (v * dim + 1) / seen) * np.sum(head**2)
    covariance = task_set.T @ task_set / len(task_set)
    mean = task_set.mean(axis=0)
    second = (1 + 1 / seen) * covariance + v * dim / seen * np.eye(dim)
    idg = dim * (1 + rho) - 2 * np.trace(head @ covariance) - 2 * v * last @ mean + squares
    idg += np.trace(head @ second @ head.T) + 2 * v * (1 + 2 / seen) * last @ head @ mean
    return icl / dim, idg / dim


def sequence_run(rng, *, dim, positions, prompts, tasks, rho, ridge, normalization, balanced=True):
    """Errors (ICL, IDG) at every position, (positions, 2), and the training error, of one run."""
    seen = np.array(positions)
    task_set, used = draw_tasks(rng, dim, prompts, tasks, balanced)
    x = rng.standard_normal((prompts, seen[-1] + 1, dim)) / np.sqrt(dim)
    y = np.einsum("nld,nd->nl", x, used) + np.sqrt(rho) * rng.standard_normal(x.shape[:2])
    features, labels = features_of(x, y, seen, normalization)
    rows = features.reshape(-1, features.shape[-1])
    gram = rows.T @ rows / len(rows) + ridge / dim * np.eye(rows.shape[1])
    gamma = np.linalg.solve(gram, rows.T @ labels.ravel() / len(rows))
    training = np.mean((rows @ gamma - labels.ravel()) ** 2)
    length = None if normalization == "mean" else seen[-1]
    matrix = gamma.reshape(dim, dim + 1)
    errors = [exact_errors(matrix, task_set, number, rho, length) for number in seen]
    return np.array(errors), training


def mean_of_runs(seed, repeats, **setting):
    """Means and standard errors of the errors of runs at every position, and of the training."""
    runs = [sequence_run(np.random.default_rng((seed, k)), **setting) for k in range(repeats)]
    errors = np.array([errors for errors, _ in runs])
    training = np.array([training for _, training in runs])
    root = np.sqrt(repeats - 1)
    return (errors.mean(axis=0), errors.std(axis=0) / root, training.mean(), training.std() / root)
