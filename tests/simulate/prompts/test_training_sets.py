"""Standardised training sets, with the tasks recovered from them."""

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts.training_sets import draw_training_set

NUMPY = get_backend("numpy")
SHARED = np.array([0.8, -1.1])


def problem(fresh_fraction=1.0, **law):
    shared = {} if fresh_fraction == 1 else {"shared_task": SHARED}
    covariance = [[1.0, 0.3], [0.3, 0.5]]
    settings = {"input_covariance": covariance, "scale": 1, "fresh_fraction": fresh_fraction}
    return Problem(2, 5, **settings, **shared, **law)


def recovered_tasks(prompts):
    """Tasks of prompts without label noise, from the context alone."""
    pairs = zip(prompts.inputs, prompts.labels, strict=True)
    return np.stack([np.linalg.lstsq(x, y)[0] for x, y in pairs])


def test_a_training_set_is_standardised():
    found = draw_training_set(problem(), NUMPY, np.random.default_rng(2), 50)
    np.testing.assert_allclose(np.mean(found.inputs, axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(np.mean(found.query, axis=0), 0, atol=1e-14)
    tasks = recovered_tasks(found)
    np.testing.assert_allclose(tasks, found.tasks, atol=1e-9)
    np.testing.assert_allclose(np.mean(tasks, axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(tasks.T), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(found.query_label, np.sum(found.query * tasks, axis=1), atol=1e-9)


def test_a_mixed_training_set_is_centred_only():
    found = draw_training_set(problem(0.4), NUMPY, np.random.default_rng(3), 10)
    np.testing.assert_allclose(np.mean(found.inputs, axis=0), 0, atol=1e-14)
    tasks = recovered_tasks(found)
    np.testing.assert_allclose(tasks[4:], np.tile(SHARED, (6, 1)), atol=1e-9)
    assert np.abs(np.mean(tasks[:4], axis=0)).max() > 1e-3


def test_too_few_sequences():
    for fresh_fraction, count, message in (
        (1.0, 2, "training_set must be > 2 to be standardised, got 2"),
        (0.0, 1, "training_set must be > 1 to be standardised, got 1"),
        (0.1, 4, r"large enough for both kinds of tasks, got 4 with fresh_fraction = 0\.1"),
        (0.9, 4, r"large enough for both kinds of tasks, got 4 with fresh_fraction = 0\.9"),
    ):
        law = problem(fresh_fraction)
        with pytest.raises(ValueError, match=message):
            draw_training_set(law, NUMPY, np.random.default_rng(0), count)
        draw_training_set(law, NUMPY, np.random.default_rng(0), count + 3)
