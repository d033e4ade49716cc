"""Token-level prompts: task laws, input laws, labels and the layout of token matrices."""

import math

import numpy as np
import pytest
from sampled_means import P_VALUE, assert_mean
from scipy import stats

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.covariances import covariance_root
from iclimit.simulate.pretraining.prompts import (
    INPUT_LAWS,
    TASK_LAWS,
    Prompts,
    sample_inputs,
    sample_prompts,
    sample_tasks,
    token_matrix,
)

SAMPLES = 40_000
BACKEND = get_backend("numpy")
KURTOSIS = {"gaussian": 3.0, "uniform": 1.8, "rademacher": 1.0, "laplace": 6.0}


@pytest.mark.parametrize("d", [1, 2, 7])
def test_sphere_tasks_have_squared_norm_d(d: int) -> None:
    tasks = sample_tasks(BACKEND, np.random.default_rng(1), 1000, d, "sphere")
    assert tasks.shape == (1000, d)
    np.testing.assert_allclose(np.sum(tasks**2, axis=1), d, rtol=1e-14)


def test_sphere_tasks_are_uniform() -> None:
    d = 5
    tasks = sample_tasks(BACKEND, np.random.default_rng(2), SAMPLES, d, "sphere")
    direction = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    projection = tasks @ direction / np.linalg.norm(direction) / math.sqrt(d)
    # The squared projection of a uniform direction has a Beta(1/2, (d - 1)/2) law.
    assert stats.kstest(projection**2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > P_VALUE
    assert_mean(np.sign(projection), 0.0)


def test_gaussian_tasks_are_standard_normal() -> None:
    tasks = sample_tasks(BACKEND, np.random.default_rng(3), SAMPLES, 4, "gaussian")
    assert stats.kstest(tasks @ np.array([0.5, -0.5, 0.5, 0.5]), "norm").pvalue > P_VALUE
    assert_mean(tasks[:, :, None] * tasks[:, None, :], np.eye(4))


@pytest.mark.parametrize("law", INPUT_LAWS)
def test_input_law_moments(law: str) -> None:
    d = 3
    x = sample_inputs(BACKEND, np.random.default_rng(4), (SAMPLES, d), law)
    assert x.shape == (SAMPLES, d)
    assert_mean(x, 0.0)
    assert_mean(x[:, :, None] * x[:, None, :] * d, np.eye(d))
    assert_mean(x**3, 0.0)
    assert_mean((x * math.sqrt(d)) ** 4, KURTOSIS[law])
    # Coordinates are independent, not just uncorrelated.
    assert_mean((x[:, 0] * x[:, 1] * d) ** 2, 1.0)


def test_input_laws_have_their_support() -> None:
    d = 6
    uniform = sample_inputs(BACKEND, np.random.default_rng(5), (2000, d), "uniform")
    assert np.max(np.abs(uniform)) <= math.sqrt(3 / d)
    law = stats.uniform(-math.sqrt(3 / d), 2 * math.sqrt(3 / d))
    assert stats.kstest(uniform.ravel(), law.cdf).pvalue > P_VALUE
    signs = sample_inputs(BACKEND, np.random.default_rng(5), (2000, d), "rademacher")
    np.testing.assert_array_equal(np.unique(signs), [-1 / math.sqrt(d), 1 / math.sqrt(d)])


def test_inputs_keep_any_shape_and_divide_by_the_last_axis() -> None:
    x = sample_inputs(BACKEND, np.random.default_rng(6), (50, 40, 9), "gaussian")
    assert x.shape == (50, 40, 9)
    assert_mean(x.reshape(-1) ** 2, 1 / 9)


def test_user_covariance() -> None:
    covariance = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
    root = covariance_root(covariance)
    x = sample_inputs(BACKEND, np.random.default_rng(7), (SAMPLES, 3), "gaussian", root=root)
    assert_mean(x, 0.0)
    assert_mean(x[:, :, None] * x[:, None, :], covariance / 3)
    whitened = x @ np.linalg.inv(np.linalg.cholesky(covariance)).T * math.sqrt(3)
    for column in whitened.T:
        assert stats.kstest(column, "norm").pvalue > P_VALUE


@pytest.mark.parametrize(
    ("law", "root"), [*((law, None) for law in INPUT_LAWS), ("gaussian", np.diag([1.4, 1.0, 0.7]))]
)
def test_labels_are_task_times_input_plus_noise(law: str, root: np.ndarray | None) -> None:
    n, context, rho = 4000, 4, 0.3
    generator = np.random.default_rng(8)
    tasks = sample_tasks(BACKEND, generator, n, 3, "gaussian")
    prompts = sample_prompts(BACKEND, generator, tasks, context, rho, law, input_root=root)
    assert prompts.x.shape == (n, context, 3)
    assert prompts.y.shape == (n, context)
    assert prompts.x_query.shape == (n, 3)
    assert prompts.y_query.shape == (n,)
    x = np.concatenate([prompts.x, prompts.x_query[:, None, :]], axis=1)
    y = np.concatenate([prompts.y, prompts.y_query[:, None]], axis=1)
    noise = y - np.einsum("nld,nd->nl", x, tasks)
    assert stats.kstest(noise.ravel() / math.sqrt(rho), "norm").pvalue > P_VALUE
    assert_mean((noise[:, :, None] * x).reshape(-1, 3), 0.0)
    assert_mean(noise[:, :, None] * noise[:, None, :], rho * np.eye(context + 1))


def test_labels_without_noise_are_exact() -> None:
    generator = np.random.default_rng(9)
    tasks = sample_tasks(BACKEND, generator, 20, 5, "sphere")
    prompts = sample_prompts(BACKEND, generator, tasks, 3, 0.0)
    np.testing.assert_allclose(
        prompts.y, np.einsum("nld,nd->nl", prompts.x, tasks), rtol=0, atol=1e-14
    )
    np.testing.assert_allclose(
        prompts.y_query, np.sum(prompts.x_query * tasks, axis=1), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("law", TASK_LAWS)
def test_label_variance(law: str) -> None:
    generator = np.random.default_rng(10)
    tasks = sample_tasks(BACKEND, generator, SAMPLES, 4, law)
    prompts = sample_prompts(BACKEND, generator, tasks, 1, 0.25)
    assert_mean(prompts.y_query**2, 1.25)
    assert_mean(prompts.y[:, 0] ** 2, 1.25)
    assert_mean(prompts.y[:, 0] * prompts.y_query, 0.0)


def test_token_matrix_layout() -> None:
    generator = np.random.default_rng(11)
    n, context, d = 3, 4, 2
    prompts = Prompts(
        x=generator.standard_normal((n, context, d)),
        y=generator.standard_normal((n, context)),
        x_query=generator.standard_normal((n, d)),
        y_query=generator.standard_normal(n),
    )
    Z = token_matrix(prompts)
    assert Z.shape == (n, d + 1, context + 1)
    for m in range(n):
        for i in range(context):
            np.testing.assert_array_equal(Z[m, :, i], [*prompts.x[m, i], prompts.y[m, i]])
        np.testing.assert_array_equal(Z[m, :, context], [*prompts.x_query[m], 0.0])
