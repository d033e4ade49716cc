"""Bayes estimators: limits, direct formulas, and their simulated errors."""

import math
import re

import numpy as np
import pytest
from sampled_means import ALLOWANCE
from scipy.special import logsumexp

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import estimators, simulate_estimator
from iclimit.simulate.pretraining.estimators import dmmse_estimate, ridge_weights
from iclimit.simulate.prompts import draw_prompts
from iclimit.simulate.prompts.sampling import draw_fresh_tasks

BACKEND = get_backend("numpy")
SMALL = {"dim": 4, "context": 6, "tasks": 3, "rho": 0.3, "rng": 1}


def draw(d, context, tasks, rho, n=20):
    """Prompts, the task of each, and the task set they come from."""
    generator = np.random.default_rng([d, context, tasks])
    task_set = draw_fresh_tasks(Problem(d, 1, task_law="gaussian"), BACKEND, generator, tasks)
    truth = task_set[generator.integers(0, tasks, size=n)]
    return (
        draw_prompts(
            Problem(truth.shape[1], context, noise_variance=rho), BACKEND, generator, tasks=truth
        ),
        truth,
        task_set,
    )


def test_one_task_is_returned():
    prompts, truth, task_set = draw(4, 3, 1, 0.2)
    found = dmmse_estimate(prompts.inputs, prompts.labels, task_set, 0.2)
    np.testing.assert_array_equal(found, truth)


def test_little_noise_gives_the_true_task():
    """Log weights reach -1e9: nothing may overflow or become NaN."""
    prompts, truth, task_set = draw(4, 8, 6, 1e-8)
    found = dmmse_estimate(prompts.inputs, prompts.labels, task_set, 1e-8)
    np.testing.assert_allclose(found, truth, rtol=1e-12)


@pytest.mark.parametrize(("context", "rho"), [(1, 0.5), (7, 0.1), (40, 1e-3)])
def test_dmmse_equals_a_direct_loop(context, rho):
    prompts, _, task_set = draw(3, context, 5, rho)
    found = dmmse_estimate(prompts.inputs, prompts.labels, task_set, rho)
    assert found.shape == (20, 3)
    for x, y, estimate in zip(prompts.inputs, prompts.labels, found, strict=True):
        log_weight = np.array(
            [-sum((y[i] - x[i] @ w) ** 2 for i in range(context)) / (2 * rho) for w in task_set]
        )
        weight = np.exp(log_weight - logsumexp(log_weight))
        expected = sum(p * w for p, w in zip(weight, task_set, strict=True))
        np.testing.assert_allclose(estimate, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator", estimators.ESTIMATORS)
def test_error_is_the_conditional_expectation_of_squared_errors(estimator):
    """rho + |w_hat - w|^2/d averages to the squared error on noisy query labels."""
    d = 4
    context = 6
    rho = 0.3
    generator = np.random.default_rng(3)
    task_set = draw_fresh_tasks(Problem(d, 1, task_law="gaussian"), BACKEND, generator, 3)
    setting = {"dim": d, "context": context, "tasks": task_set}
    found = simulate_estimator(estimator, **setting, rho=rho, rng=4, repeats=20, test_prompts=500)
    fresh = draw_fresh_tasks(Problem(d, 1, task_law="gaussian"), BACKEND, generator, 40_000)
    chosen = task_set[generator.integers(0, 3, size=40_000)]
    for truth, mean, error in (
        (fresh, found.icl.mean, found.icl.standard_error),
        (chosen, found.idg.mean, found.idg.standard_error),
    ):
        prompts = draw_prompts(
            Problem(truth.shape[1], context, noise_variance=rho), BACKEND, generator, tasks=truth
        )
        if estimator == "dmmse":
            estimate = dmmse_estimate(prompts.inputs, prompts.labels, task_set, rho)
        else:
            estimate = ridge_weights(prompts.inputs, prompts.labels, rho)
        squared = (prompts.query_label - np.sum(prompts.query * estimate, axis=1)) ** 2
        total = math.hypot(error, np.std(squared) / math.sqrt(len(squared)))
        assert abs(np.mean(squared) - mean) < ALLOWANCE * total


@pytest.mark.parametrize("estimator", estimators.ESTIMATORS)
def test_blocks_do_not_matter(estimator, monkeypatch):
    """The mean over blocks of prompts is the mean over all of them."""
    blocks = []

    def record(*args, tasks):
        prompts = draw_prompts(*args, tasks=tasks)
        blocks.append((prompts, tasks))
        return prompts

    monkeypatch.setattr(estimators, "draw_prompts", record)
    monkeypatch.setattr(estimators, "BLOCK_NUMBERS", 7 * 6 * 4)  # seven prompts a block
    tasks = draw_fresh_tasks(
        Problem(4, 1, task_law="gaussian"), BACKEND, np.random.default_rng(5), 3
    )
    found = simulate_estimator(
        estimator, dim=4, context=6, tasks=tasks, rho=0.3, rng=6, test_prompts=30
    )
    sizes = [len(prompts.labels) for prompts, _ in blocks]
    assert sizes == [7, 7, 7, 7, 2] * 2  # fresh tasks, then pretraining tasks
    for half, error in ((slice(0, 5), found.icl.mean), (slice(5, 10), found.idg.mean)):
        x = np.concatenate([prompts.inputs for prompts, _ in blocks[half]])
        y = np.concatenate([prompts.labels for prompts, _ in blocks[half]])
        truth = np.concatenate([target for _, target in blocks[half]])
        if estimator == "dmmse":
            whole = dmmse_estimate(x, y, tasks, 0.3)
        else:
            whole = ridge_weights(x, y, 0.3)
        expected = 0.3 + float(np.mean(np.sum((whole - truth) ** 2, axis=1))) / 4
        assert error == pytest.approx(expected, rel=1e-12)


def test_dmmse_is_best_on_its_tasks_and_ridge_on_gaussian_ones():
    """Each posterior mean is the best estimator under its own prior."""
    runs = {
        name: simulate_estimator(name, **SMALL, repeats=200, test_prompts=50)
        for name in estimators.ESTIMATORS
    }
    assert runs["dmmse"].idg.mean < runs["ridge"].idg.mean
    assert runs["ridge"].icl.mean < runs["dmmse"].icl.mean
    assert np.all(runs["dmmse"].idg.samples > 0.3)


@pytest.mark.machine
def test_seeds_and_parameters():
    few = simulate_estimator("dmmse", **SMALL, repeats=2)
    many = simulate_estimator("dmmse", **SMALL, repeats=4)
    np.testing.assert_array_equal(many.icl.samples[:2], few.icl.samples)
    np.testing.assert_array_equal(many.idg.samples[:2], few.idg.samples)
    rest = simulate_estimator("dmmse", **SMALL, repeats=2, first_repeat=2)
    np.testing.assert_array_equal(many.icl.samples, few.concatenate(rest).icl.samples)
    assert few.parameters == {
        "dim": 4,
        "context": 6,
        "tasks": 3,
        "alpha": 1.5,
        "kappa": 0.75,
        "rho": 0.3,
        "estimator": "dmmse",
        "test_prompts": 100,
        "task_law": "gaussian",
        "backend": "numpy",
    }
    array = simulate_estimator("dmmse", **(SMALL | {"tasks": np.ones((7, 4)).tolist()}))
    assert array.parameters["tasks"] == 7


def test_arguments_are_checked():
    for changes, message in (
        ({"tasks": np.ones((2, 3))}, "tasks must have shape (any, 4), got (2, 3)"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            simulate_estimator(**({"estimator": "dmmse"} | SMALL | changes))
