"""Exact error of a given Gamma against token-level test prompts."""

import math

import numpy as np
import pytest
from sampled_means import assert_mean

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import context_summary, draw_prompts
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.simulate.prompts.summary_moments import (
    exact_error,
    fresh_task_moments,
    squared_errors,
    task_set_moments,
)

TEST_PROMPTS = 100_000
BACKEND = get_backend("numpy")
# (d, context, rho): one pair, no noise, one dimension, a long context.
SIZES = [(3, 1, 0.4), (4, 6, 0.0), (1, 5, 0.2), (6, 30, 0.1)]


def random_gamma(d, seed):
    """The gamma of one gradient step, (I, 0), plus noise of order one."""
    generator = np.random.default_rng(seed)
    return np.eye(d, d + 1) + generator.standard_normal((d, d + 1)) / math.sqrt(d)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("d", "context", "rho"), SIZES)
def test_error_on_training_tasks(d, context, rho, count):
    generator = np.random.default_rng([d, context, 3])
    gamma = random_gamma(d, 4)
    task_set = draw_fresh_tasks(Problem(d, 1, task_law="gaussian"), BACKEND, generator, count)
    tasks = task_set[generator.integers(0, count, size=TEST_PROMPTS)]
    prompts = draw_prompts(
        Problem(tasks.shape[1], context, noise_variance=rho), BACKEND, generator, tasks=tasks
    )
    samples = squared_errors(gamma, prompts.query, context_summary(prompts), prompts.query_label)
    moments = task_set_moments(BACKEND, task_set, context, rho)
    assert_mean(samples, float(exact_error(gamma, moments)))


def test_zero_gamma_has_the_variance_of_the_label():
    gamma = np.zeros((4, 5))
    tasks = draw_fresh_tasks(
        Problem(4, 1, task_law="gaussian"), BACKEND, np.random.default_rng(7), 3
    )
    assert float(exact_error(gamma, fresh_task_moments(BACKEND, 4, 2, 0.3, "sphere"))) == 1.3
    variance = np.mean(np.sum(tasks**2, axis=1)) / 4 + 0.3
    error = exact_error(gamma, task_set_moments(BACKEND, tasks, 2, 0.3))
    assert float(error) == pytest.approx(float(variance), rel=1e-14)


def test_error_has_its_minimum_where_the_moments_say():
    """E h h^T Gamma^T = E h w^T at the best gamma; any other is worse by a quadratic form."""
    tasks = draw_fresh_tasks(
        Problem(4, 1, task_law="sphere"), BACKEND, np.random.default_rng(8), 3
    )
    moments = task_set_moments(BACKEND, tasks, 6, 0.3)
    best = np.linalg.solve(moments.second, moments.cross).T
    least = float(exact_error(best, moments))
    assert 0.3 < least < 1.3  # between the noise and the error of predicting zero
    step = random_gamma(4, 9)
    excess = float(np.trace(step @ moments.second @ step.T)) / 4
    for scale in (-1.0, 1e-3, 2.0):
        error = float(exact_error(best + scale * step, moments))
        assert error - least == pytest.approx(scale**2 * excess, rel=1e-8)


def test_squared_errors_equal_loops():
    generator = np.random.default_rng(10)
    x = generator.standard_normal((5, 3))
    h = generator.standard_normal((5, 4))
    y = generator.standard_normal(5)
    gamma = generator.standard_normal((3, 4))
    found = squared_errors(gamma, x, h, y)
    for i in range(5):
        predicted = sum(x[i, a] * gamma[a, b] * h[i, b] for a in range(3) for b in range(4))
        assert found[i] == pytest.approx((y[i] - predicted) ** 2, rel=1e-12)
