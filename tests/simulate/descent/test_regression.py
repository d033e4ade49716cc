"""Regression prompts: layout of the tokens, moments of what is drawn, strict arrays."""

import math
from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest

from iclimit.simulate.arrays import Backend, get_backend
from iclimit.simulate.descent import Regression
from iclimit.simulate.descent.regression import regression_tokens
from iclimit.simulate.pretraining.prompts import INPUT_LAWS, Prompts

ROUNDING = 1e-12  # relative; predictions are of order one to ten
Z_LIMIT = 4.5  # a few hundred entries of moments, most of them independent
NUMPY = get_backend("numpy")
COUNT = 20_000
MOMENTS = {"gaussian": (1, 3), "uniform": (1 / 3, 1 / 5), "rademacher": (1, 1), "laplace": (2, 24)}
"""E z^2 and E z^4, from the densities."""
MIXING = np.array([[1.0, 0.5, 0.0], [-0.3, 0.8, 0.2], [0.0, 0.4, 1.5]])
ROOT = np.array([[0.7, 0.0, 0.0], [0.5, 1.2, 0.0], [-0.4, 0.1, 0.3]])


def sample(count: int = COUNT, seed: int = 0, **law: Any) -> tuple[Prompts, np.ndarray]:
    """Prompts with their tasks."""
    problem = Regression(**{"context": 4, "dim": 3, **law})
    generator = np.random.default_rng(seed)
    tasks = problem.sample_tasks(NUMPY, generator, count)
    return problem.prompts(NUMPY, generator, tasks), tasks


def all_inputs(prompts: Prompts) -> np.ndarray:
    return np.concat([prompts.x, prompts.x_query[:, None]], axis=1)


def all_labels(prompts: Prompts) -> np.ndarray:
    return np.concat([prompts.y, prompts.y_query[:, None]], axis=1)


def assert_means(values: np.ndarray, expected: np.ndarray) -> None:
    """Means over the first axis, within their standard errors."""
    error = np.std(values, axis=0, ddof=1) / math.sqrt(len(values))
    deviation = np.abs(np.mean(values, axis=0) - expected)
    assert np.all(deviation <= Z_LIMIT * error + 1e-12)


@pytest.mark.parametrize("law", INPUT_LAWS)
def test_inputs_have_the_moments_of_their_law(law: str) -> None:
    prompts, tasks = sample(input_law=law, scale=0.7)
    assert (prompts.x.shape, prompts.y.shape) == ((COUNT, 4, 3), (COUNT, 4))
    assert (prompts.x_query.shape, prompts.y_query.shape) == ((COUNT, 3), (COUNT,))
    assert tasks.shape == (COUNT, 3)
    x = all_inputs(prompts).reshape(COUNT, 15)  # pairs, query and coordinates are alike
    m2, m4 = MOMENTS[law][0] * 0.7**2, MOMENTS[law][1] * 0.7**4
    assert_means(x, np.zeros(15))
    assert_means(x[:, :, None] * x[:, None, :], m2 * np.eye(15))
    fourth = x[:, :, None] ** 2 * x[:, None, :] ** 2
    assert_means(fourth, m2**2 + (m4 - m2**2) * np.eye(15))
    if law == "uniform":
        assert np.max(np.abs(x)) <= 0.7
        assert np.max(np.abs(x)) > 0.699
    if law == "rademacher":
        assert set(np.unique(x)) == {-0.7, 0.7}


@pytest.mark.parametrize("law", INPUT_LAWS)
def test_mixed_inputs_have_the_covariance_of_the_mixing(law: str) -> None:
    prompts, _ = sample(input_law=law, mixing=MIXING, scale=0.5)
    x = all_inputs(prompts)
    expected = 0.5**2 * MOMENTS[law][0] * MIXING @ MIXING.T
    for place in range(5):
        assert_means(x[:, place, :, None] * x[:, place, None, :], expected)
    assert_means(x[:, 0, :, None] * x[:, 4, None, :], np.zeros((3, 3)))


@pytest.mark.parametrize("law", INPUT_LAWS)
def test_mixing_is_a_linear_map_of_the_same_draws(law: str) -> None:
    plain, tasks = sample(100, input_law=law, scale=0.5)
    mixed, same = sample(100, input_law=law, scale=0.5, mixing=MIXING)
    np.testing.assert_array_equal(same, tasks)
    for m in range(100):
        for i in range(5):
            np.testing.assert_allclose(
                all_inputs(mixed)[m, i], MIXING @ all_inputs(plain)[m, i], rtol=0, atol=ROUNDING
            )


def test_tasks_have_the_covariance_asked_for() -> None:
    for changes, expected in (
        ({}, np.eye(3)),
        ({"task_variance": 2.5}, 2.5 * np.eye(3)),
        ({"task_root": ROOT}, ROOT @ ROOT.T),
        ({"task_root": ROOT, "task_variance": 2.5}, 2.5 * ROOT @ ROOT.T),
    ):
        prompts, tasks = sample(**changes)
        assert_means(tasks, np.zeros(3))
        assert_means(tasks[:, :, None] * tasks[:, None, :], expected)
        # Gaussian: the fourth moments are those of the covariance (Isserlis).
        fourth = tasks[:, :, None] ** 2 * tasks[:, None, :] ** 2
        variance = np.diag(expected)
        assert_means(fourth, np.outer(variance, variance) + 2 * expected**2)
        assert_means(tasks[:, :, None] * prompts.x_query[:, None, :], np.zeros((3, 3)))


@pytest.mark.parametrize(
    "changes", [{}, {"mixing": MIXING, "task_root": ROOT, "input_law": "laplace"}]
)
def test_labels_are_products_without_noise(changes: dict[str, Any]) -> None:
    prompts, tasks = sample(50, **changes)
    for m in range(50):
        for i in range(5):
            expected = sum(all_inputs(prompts)[m, i, j] * tasks[m, j] for j in range(3))
            assert all_labels(prompts)[m, i] == pytest.approx(expected, abs=10 * ROUNDING)


def test_noise_is_independent_of_all_else_and_in_the_query_label_too() -> None:
    prompts, tasks = sample(noise_variance=0.6, input_law="uniform")
    noise = all_labels(prompts) - np.einsum("nid,nd->ni", all_inputs(prompts), tasks)
    assert_means(noise, np.zeros(5))
    assert_means(noise[:, :, None] * noise[:, None, :], 0.6 * np.eye(5))
    assert_means(noise**4, 3 * 0.6**2 * np.ones(5))
    assert_means(noise[:, :, None] * tasks[:, None, :], np.zeros((5, 3)))
    assert_means(noise[:, 0, None] * all_inputs(prompts)[:, 0], np.zeros(3))
    silent, _ = sample(noise_variance=0.0, input_law="uniform")
    np.testing.assert_array_equal(silent.x, prompts.x)


def test_sampling_draws_tasks_then_prompts() -> None:
    problem = Regression(4, 3, input_law="laplace", noise_variance=0.2)
    whole = problem.sample(NUMPY, np.random.default_rng(0), 7)
    parts, _ = sample(7, input_law="laplace", noise_variance=0.2)
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(value, getattr(parts, name))


def test_prompts_of_given_tasks() -> None:
    problem = Regression(2, 3, task_variance=100.0, task_root=ROOT)
    tasks = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    prompts = problem.prompts(NUMPY, np.random.default_rng(1), tasks)
    np.testing.assert_array_equal(prompts.y[0], prompts.x[0, :, 0])
    np.testing.assert_array_equal(all_labels(prompts)[1], 0)


@pytest.mark.parametrize("started", [False, True])
def test_tokens_entry_by_entry(started: bool) -> None:
    prompts, _ = sample(6, noise_variance=0.2)
    start = np.array([0.5, -1.0, 2.0]) if started else None
    tokens = regression_tokens(prompts, start)
    assert tokens.shape == (6, 5, 4)
    for m in range(6):
        for i in range(4):
            np.testing.assert_array_equal(tokens[m, i], [*prompts.x[m, i], prompts.y[m, i]])
        a, b, c = prompts.x_query[m]
        guess = -(0.5 * a - b + 2 * c) if started else 0.0
        np.testing.assert_allclose(tokens[m, 4], [a, b, c, guess], rtol=ROUNDING, atol=1e-15)


def test_tokens_hold_nothing_of_the_query_label_and_are_a_copy() -> None:
    prompts, _ = sample(6)
    tokens = regression_tokens(prompts)
    other = Prompts(prompts.x, prompts.y, prompts.x_query, prompts.y_query + 1)
    np.testing.assert_array_equal(regression_tokens(other), tokens)
    x = prompts.x.copy()
    tokens *= 2
    np.testing.assert_array_equal(prompts.x, x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Regression(0, 2), "context must be an integer >= 1, got 0"),
        (lambda: Regression(2, 1.0), "dim must be an integer >= 1, got 1.0"),  # type: ignore[arg-type]
        (
            lambda: Regression(2, 2, input_law="cauchy"),
            "input_law must be one of gaussian, .*, got 'cauchy'",
        ),
        (lambda: Regression(2, 2, scale=0), "scale must be > 0 and finite, got 0"),
        (lambda: Regression(2, 2, scale=math.inf), "scale must be > 0 and finite, got inf"),
        (
            lambda: Regression(2, 2, task_variance=-1.0),
            "task_variance must be > 0 and finite, got -1.0",
        ),
        (
            lambda: Regression(2, 2, noise_variance=-1e-9),
            "noise_variance must be >= 0 and finite, got -1e-09",
        ),
        (
            lambda: Regression(2, 2, noise_variance=math.nan),
            "noise_variance must be >= 0 and finite, got nan",
        ),
        (
            lambda: Regression(2, 2, mixing=np.eye(3)),
            r"mixing must have shape \(2, 2\), got \(3, 3\)",
        ),
        (
            lambda: Regression(2, 2, task_root=[1.0, 2.0]),
            r"task_root must have shape \(2, 2\), got \(2,\)",
        ),
        (lambda: Regression(2, 2, mixing=np.full((2, 2), math.nan)), "mixing must be finite"),
        (
            lambda: regression_tokens(sample(2)[0], np.ones(2)),
            r"initial must have shape \(3,\), got \(2,\)",
        ),
    ],
)
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("law", INPUT_LAWS)
def test_strict_arrays(law: str, strict_backend: Backend) -> None:
    problem = Regression(
        4,
        3,
        input_law=law,
        scale=0.6,
        noise_variance=0.3,
        task_variance=1.5,
        mixing=MIXING,
        task_root=ROOT.tolist(),
    )
    expected = problem.sample(NUMPY, np.random.default_rng(9), 8)
    seed: Any = 9
    found = problem.sample(strict_backend, strict_backend.generator(seed), 8)
    for name, value in vars(expected).items():
        np.testing.assert_allclose(
            np.from_dlpack(getattr(found, name)), value, rtol=0, atol=10 * ROUNDING
        )
    start = np.arange(3.0)
    np.testing.assert_allclose(
        np.from_dlpack(regression_tokens(found, array_api_strict.asarray(start))),
        regression_tokens(expected, start),
        rtol=0,
        atol=10 * ROUNDING,
    )
