"""Summaries of correlated tokens from their law, against those of the tokens."""

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts.summaries import SummaryLaw

DIM, CONTEXT, COUNT = 3, 5, 40_000
GATES = np.array([0.2, 0.9, 0.5, 0.7, 1.0])
# Correlations by distance, 0 from the fourth token on.
KERNEL = [1.0, 0.5, 0.1, -0.15]
# In standard errors, of 66 products each.
LARGEST = 4.2


def products(sampler, seed, gates, setting, tasks):
    """Products of all entries of (query, summary, query label), and squares of the labels."""
    problem = Problem(DIM, CONTEXT, noise_variance=0.3, **setting)
    law = SummaryLaw(get_backend("numpy"), problem, sampler, gates)
    x, h, y = law.draw(np.random.default_rng(seed), COUNT, tasks)
    assert (x.shape, h.shape, y.shape) == ((COUNT, DIM), (COUNT, DIM + 1), (COUNT,))
    every = np.column_stack([x, h, y])
    first, second = np.triu_indices(every.shape[1])
    mixed = x[:, :, None] * h[:, None, :]
    squares = mixed.reshape(COUNT, -1) ** 2
    return np.hstack(
        [every[:, first] * every[:, second], squares, mixed.reshape(COUNT, -1) * y[:, None]]
    )


def test_same_moments_as_of_tokens():
    for setting, gates, tasks in (
        ({"correlation": 0.7, "correlated_query": True}, GATES, np.diag([1.0, 2.0, 0.0])),
        ({"correlation": -0.5, "task_law": "sphere"}, None, None),
        ({"correlation": KERNEL, "correlated_query": True}, GATES, np.diag([1.0, 2.0, 0.0])),
        ({"correlation": KERNEL}, None, None),
        (
            {"correlation": 0.6, "correlated_query": True, "input_covariance": [2.0, 0.5, 0.5]},
            None,
            None,
        ),
        ({"input_covariance": [2.0, 0.5, 0.5]}, GATES, None),
    ):
        fast, slow = (
            products(sampler, seed, gates, setting, tasks)
            for seed, sampler in enumerate(("summaries", "tokens"))
        )
        error = np.sqrt((fast.var(axis=0) + slow.var(axis=0)) / COUNT)
        z = (fast.mean(axis=0) - slow.mean(axis=0)) / np.maximum(error, 1e-12)
        assert np.max(np.abs(z)) < LARGEST


@pytest.mark.parametrize("tasks", [None, np.array([[1.0, 1.0, 1.0], [1.5, 0.5, -(0.5**0.5)]])])
@pytest.mark.parametrize("correlated_query", [True, False])
@pytest.mark.parametrize("correlation", [0.7, KERNEL])
def test_error_of_a_matrix_is_exact(tasks, correlated_query, correlation):
    setting = {"correlation": correlation, "correlated_query": correlated_query}
    setting |= {"task_law": "sphere"}
    problem = Problem(DIM, CONTEXT, noise_variance=0.3, **setting)
    law = SummaryLaw(get_backend("numpy"), problem, "tokens", GATES)
    rng = np.random.default_rng(4)
    gamma = 0.4 * rng.standard_normal((DIM, DIM + 1)) + 0.5 * np.eye(DIM, DIM + 1)
    x, h, y = law.draw(rng, COUNT, tasks)
    errors = (y - np.sum((x @ gamma) * h, axis=1)) ** 2
    exact = law.test_error(rng, gamma, 1, tasks)
    assert abs(errors.mean() - exact) < 4 * errors.std() / COUNT**0.5
    assert errors.std() / COUNT**0.5 < 0.03 * exact
