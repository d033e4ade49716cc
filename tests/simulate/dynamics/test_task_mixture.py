"""Sequences against the law that they are drawn from, and the tasks recovered from them."""

import math
from typing import Any

import numpy as np
import pytest

from iclimit.simulate.arrays import Backend, get_backend
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.simulate.dynamics.task_mixture import TaskMixture
from iclimit.simulate.pretraining.prompts import Prompts

NUMPY = get_backend("numpy")
COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])
SHARED = np.array([0.8, -1.1])
Z_MAX = 4.5


def recovered_tasks(prompts: Prompts) -> np.ndarray:
    """Tasks of sequences without label noise, from the context alone."""
    return np.stack([np.linalg.lstsq(x, y)[0] for x, y in zip(prompts.x, prompts.y, strict=True)])


def test_moments_of_inputs_and_labels() -> None:
    problem = TaskMixture(
        COVARIANCE, 3, noise_variance=0.4, fresh_fraction=0.0, shared_task=SHARED
    )
    found = problem.sample(NUMPY, np.random.default_rng(0), 40_000)
    x = np.concatenate([found.x, found.x_query[:, None, :]], axis=1)
    y = np.concatenate([found.y, found.y_query[:, None]], axis=1)
    noise = (y - x @ SHARED).reshape(-1)
    x = x.reshape(-1, 2)
    for values, expected in (
        (x[:, 0], 0.0),
        (x[:, 1], 0.0),
        (x[:, 0] ** 2, 1.0),
        (x[:, 0] * x[:, 1], 0.3),
        (x[:, 1] ** 2, 0.5),
        (noise, 0.0),
        (noise**2, 0.4),
        (noise * x[:, 0], 0.0),
    ):
        error = np.std(values) / math.sqrt(len(values))
        assert abs(np.mean(values) - expected) < Z_MAX * error


@pytest.mark.parametrize(
    ("fresh_fraction", "own"), [(0.0, 0), (0.29, 29), (0.5, 50), (0.999, 100)]
)
def test_the_first_sequences_have_their_own_tasks(fresh_fraction: float, own: int) -> None:
    problem = TaskMixture([1.0, 0.5], 4, fresh_fraction=fresh_fraction, shared_task=SHARED)
    tasks = recovered_tasks(problem.sample(NUMPY, np.random.default_rng(1), 100))
    shared = np.all(np.isclose(tasks, SHARED, atol=1e-8), axis=1)
    np.testing.assert_array_equal(shared, np.arange(100) >= own)


def test_a_training_set_is_standardised() -> None:
    problem = TaskMixture(COVARIANCE, 5)
    found = problem.training_set(NUMPY, np.random.default_rng(2), 50)
    np.testing.assert_allclose(np.mean(found.x, axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(np.mean(found.x_query, axis=0), 0, atol=1e-14)
    tasks = recovered_tasks(found)
    np.testing.assert_allclose(np.mean(tasks, axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(tasks.T), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(found.y_query, np.sum(found.x_query * tasks, axis=1), atol=1e-9)


def test_a_mixed_training_set_is_centred_only() -> None:
    problem = TaskMixture(COVARIANCE, 5, fresh_fraction=0.4, shared_task=SHARED)
    found = problem.training_set(NUMPY, np.random.default_rng(3), 10)
    np.testing.assert_allclose(np.mean(found.x, axis=0), 0, atol=1e-14)
    tasks = recovered_tasks(found)
    np.testing.assert_allclose(tasks[4:], np.tile(SHARED, (6, 1)), atol=1e-9)
    assert np.abs(np.mean(tasks[:4], axis=0)).max() > 1e-3


def test_covariances_and_eigenvalues() -> None:
    np.testing.assert_array_equal(
        TaskMixture([2, 1], 3).input_covariance, TaskMixture([[2, 0], [0, 1]], 3).input_covariance
    )
    given, task = COVARIANCE.copy(), SHARED.copy()
    problem = TaskMixture(given, 3, fresh_fraction=0.5, shared_task=task)
    given[:], task[:] = 7, 7
    np.testing.assert_array_equal(problem.input_covariance, COVARIANCE)
    np.testing.assert_array_equal(problem.shared_task, SHARED)
    assert problem.dim == 2
    rounded = COVARIANCE + np.array([[0, 1e-15], [0, 0]])
    kept = TaskMixture(rounded, 3).input_covariance
    np.testing.assert_array_equal(kept, kept.T)


@pytest.mark.parametrize("fresh_fraction", [0.0, 0.3, 1.0])
def test_mean_square_of_labels(fresh_fraction: float) -> None:
    problem = TaskMixture(
        COVARIANCE, 3, 0.4, fresh_fraction, None if fresh_fraction == 1 else SHARED
    )
    found = problem.label_square
    assert isinstance(found, float)
    assert found == pytest.approx(float(population_moments(problem).label), rel=1e-13)
    squares = problem.sample(NUMPY, np.random.default_rng(5), 40_000).y_query ** 2
    assert abs(np.mean(squares) - found) < Z_MAX * np.std(squares) / math.sqrt(len(squares))


@pytest.mark.parametrize("fresh_fraction", [1.0, 0.5])
def test_strict_arrays(fresh_fraction: float, strict_backend: Backend) -> None:
    problem = TaskMixture(
        COVARIANCE, 3, 0.1, fresh_fraction, None if fresh_fraction == 1 else SHARED
    )
    seed = np.random.SeedSequence(4)
    for name in ("sample", "training_set"):
        expected = getattr(problem, name)(NUMPY, NUMPY.generator(seed), 8)
        found = getattr(problem, name)(strict_backend, strict_backend.generator(seed), 8)
        for key, value in vars(found).items():
            there = getattr(expected, key)
            np.testing.assert_allclose(np.from_dlpack(value), there, rtol=0, atol=1e-12)


GOOD: dict[str, Any] = {"input_covariance": COVARIANCE, "context": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"context": 0}, "context must be an integer >= 1, got 0"),
        ({"context": 2.0}, "context must be an integer >= 1, got 2.0"),
        ({"noise_variance": -0.1}, "noise_variance must be >= 0 and finite, got -0.1"),
        ({"noise_variance": math.nan}, "noise_variance must be >= 0 and finite, got nan"),
        ({"fresh_fraction": -0.1}, "fresh_fraction must be from 0 to 1, got -0.1"),
        ({"fresh_fraction": math.nan}, "fresh_fraction must be from 0 to 1, got nan"),
        ({"fresh_fraction": 1.5}, "fresh_fraction must be from 0 to 1, got 1.5"),
        (
            {"fresh_fraction": 0.5},
            "shared_task must be given for fresh_fraction below 1, and only then, got None",
        ),
        ({"shared_task": SHARED}, r"and only then, got array.* with fresh_fraction = 1.0"),
        (
            {"fresh_fraction": 0, "shared_task": [1.0]},
            r"shared_task must have shape \(2,\), got \(1,\)",
        ),
        ({"fresh_fraction": 0, "shared_task": [1.0, math.nan]}, "shared_task must be finite"),
        (
            {"fresh_fraction": 0, "shared_task": [0, 0]},
            "shared_task must have labels other than zero",
        ),
        ({"input_covariance": 1.0}, r"input_covariance must have shape .* got \(\)"),
        ({"input_covariance": []}, r"input_covariance must have shape .* got \(0,\)"),
        (
            {"input_covariance": np.ones((1, 2, 2))},
            r"input_covariance must have shape .* got \(1, 2, 2\)",
        ),
        ({"input_covariance": np.ones((2, 3))}, r"or \(2, 2\), got \(2, 3\)"),
        ({"input_covariance": [[1, 0.1], [0, 1]]}, "input_covariance must be symmetric"),
        ({"input_covariance": [[1e-12, 1e-13], [0, 1e-12]]}, "input_covariance must be symmetric"),
        (
            {"input_covariance": [[1, 2], [2, 1]]},
            "input_covariance must have eigenvalues >= 0, got -1",
        ),
        ({"input_covariance": [1, -1]}, "input_covariance must have eigenvalues >= 0, got -1"),
        ({"input_covariance": [0, 0]}, "input_covariance must not be zero, got zeros only"),
        ({"input_covariance": [1, math.nan]}, "input_covariance must be finite, got NaN or inf"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TaskMixture(**GOOD | changes)


@pytest.mark.parametrize(
    ("fresh_fraction", "count", "message"),
    [
        (1.0, 2, "training_set must be > 2 to be standardised, got 2"),
        (0.0, 1, "training_set must be > 1 to be standardised, got 1"),
        (0.1, 4, r"large enough for both kinds of tasks, got 4 with fresh_fraction = 0\.1"),
        (0.9, 4, r"large enough for both kinds of tasks, got 4 with fresh_fraction = 0\.9"),
    ],
)
def test_too_few_sequences(fresh_fraction: float, count: int, message: str) -> None:
    problem = TaskMixture(
        COVARIANCE,
        3,
        fresh_fraction=fresh_fraction,
        shared_task=None if fresh_fraction == 1 else SHARED,
    )
    with pytest.raises(ValueError, match=message):
        problem.training_set(NUMPY, np.random.default_rng(0), count)
    problem.training_set(NUMPY, np.random.default_rng(0), count + 3)
