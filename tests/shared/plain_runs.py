"""Pretrained linear attention token by token, in plain NumPy: ridge regression on its features."""

import math

import numpy as np


def _inputs(rng, shape, law):
    """Inputs with coordinates of variance 1/d."""
    if law == "uniform":
        end = math.sqrt(3 / shape[-1])
        return rng.uniform(-end, end, shape)
    return rng.normal(size=shape) / math.sqrt(shape[-1])


def _summaries(rng, tasks, context, rho, law):
    """Summaries (m, d + 1) of one context of each task (m, d)."""
    count, dim = tasks.shape
    inputs = _inputs(rng, (count, context, dim), law)
    labels = np.einsum("mld,md->ml", inputs, tasks)
    labels += math.sqrt(rho) * rng.normal(size=labels.shape)
    products = dim / context * np.einsum("ml,mld->md", labels, inputs)
    return np.concatenate([products, np.mean(labels**2, axis=1)[:, None]], axis=1)


def plain_errors(rng, *, dim, context, tasks, prompts, rho, ridge, law, tests=400):
    """ICL and IDG error of one run with Gaussian tasks, of which ``tasks`` are trained on."""
    known = rng.normal(size=(tasks, dim))
    drawn = known[rng.integers(tasks, size=prompts)]
    summaries = _summaries(rng, drawn, context, rho, law)
    queries = _inputs(rng, (prompts, dim), law)
    labels = np.sum(drawn * queries, axis=1) + math.sqrt(rho) * rng.normal(size=prompts)
    features = (queries[:, :, None] * summaries[:, None, :]).reshape(prompts, -1)
    penalty = ridge * prompts / dim * np.eye(prompts)
    weights = features.T @ np.linalg.solve(features @ features.T + penalty, labels)
    gamma = weights.reshape(dim, dim + 1)
    errors = []
    for tested in (rng.normal(size=(tests, dim)), known[rng.integers(tasks, size=tests)]):
        answers = _summaries(rng, tested, context, rho, law) @ gamma.T
        errors.append(rho + float(np.mean(np.sum((tested - answers) ** 2, axis=1))) / dim)
    return errors
