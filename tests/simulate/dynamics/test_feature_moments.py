"""Moments of features against exact product quadrature, Monte Carlo and plain loops."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import value_error

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics import feature_moments
from iclimit.simulate.dynamics.feature_moments import (
    feature_count,
    gaussian_moments,
    population_moments,
    sequence_moments,
)
from iclimit.simulate.prompts import Prompts, draw_prompts

NUMPY = get_backend("numpy")
ROUNDING = 1e-12  # relative to the largest moment; sums of up to 10^5 terms
Z_MAX = 5.0  # of some thousand correlated moments
COVARIANCES = {1: np.array([[0.7]]), 2: np.array([[1.0, 0.3], [0.3, 0.5]])}
SHARED = {1: np.array([-1.3]), 2: np.array([0.8, -1.1])}


def features_of(prompts, scale):
    """Features of every sequence, in plain loops over their entries."""
    count, _, dim = prompts.inputs.shape
    tokens = np.zeros((count, prompts.inputs.shape[1] + 1, dim + 1))
    tokens[:, :-1, :-1] = prompts.inputs
    tokens[:, :-1, -1] = prompts.labels
    tokens[:, -1, :-1] = prompts.query
    return np.stack(
        [
            np.sum(tokens[:, :, i] * tokens[:, :, j], axis=1) / scale * prompts.query[:, k]
            for i in range(dim + 1)
            for j in range(i, dim + 1)
            for k in range(dim)
        ],
        axis=1,
    )


def averages(prompts, weights, scale):
    features = features_of(prompts, scale)
    label = prompts.query_label
    return (
        weights @ label**2,
        (weights * label) @ features,
        (weights[:, None] * features).T @ features,
    )


def exact_law(problem, task, noise_labels):
    """Points and weights of a Gauss-Hermite product rule, exact for all the moments.

    Tasks, context inputs and noise appear to the fourth power at most, the query to the sixth.
    """
    dim = problem.dim
    context = problem.context
    orders = [3] * (dim * (task is None) + context * (dim + 1)) + [4] * dim + [2]
    rules = [np.polynomial.hermite_e.hermegauss(order) for order in orders]
    points = np.stack([g.reshape(-1) for g in np.meshgrid(*(r[0] for r in rules), indexing="ij")])
    weights = np.ones(1)
    for _, factor in rules:
        weights = np.multiply.outer(weights, factor / np.sum(factor)).reshape(-1)
    values = iter(points)
    w = np.stack([next(values) for _ in range(dim)]).T if task is None else task[None, :]
    root = np.linalg.cholesky(problem.input_covariance)
    noise = math.sqrt(problem.noise_variance)
    x = []
    y = []
    for _ in range(context):
        x.append(np.stack([next(values) for _ in range(dim)]).T @ root.T)
        drawn = next(values)
        y.append(drawn if noise_labels else np.sum(x[-1] * w, axis=1) + noise * drawn)
    query = np.stack([next(values) for _ in range(dim)]).T @ root.T
    label = np.sum(query * w, axis=1) + noise * next(values)
    return Prompts(np.stack(x, axis=1), np.stack(y, axis=1), query, label), weights


def assert_equal(found, expected):
    scale = max(float(np.max(np.abs(wanted))) for wanted in expected)
    for value, wanted in zip((found.label, found.cross, found.second), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=ROUNDING * scale)


@pytest.mark.parametrize("normalization", ["mean", "sum"])
@pytest.mark.parametrize("noise_labels", [False, True])
@pytest.mark.parametrize(("dim", "context"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)])
def test_population_moments_are_exact(dim, context, noise_labels, normalization):
    problem = Problem(
        dim=len(COVARIANCES[dim]),
        context=context,
        input_covariance=COVARIANCES[dim],
        noise_variance=0.3,
        fresh_fraction=0.6,
        shared_task=SHARED[dim],
        scale=1,
    )
    scale = context if normalization == "mean" else 1
    random, shared = (
        averages(*exact_law(problem, task, noise_labels), scale) for task in (None, SHARED[dim])
    )
    expected = tuple(0.6 * a + 0.4 * b for a, b in zip(random, shared, strict=True))
    options = {"normalization": normalization, "noise_labels": noise_labels}
    assert_equal(population_moments(problem, **options), expected)
    assert_equal(population_moments(replace(problem, fresh_fraction=0.0), **options), shared)
    everyone = replace(problem, fresh_fraction=1.0, shared_task=None)
    assert_equal(population_moments(everyone, **options), random)


@pytest.mark.parametrize("noise_labels", [False, True])
@pytest.mark.parametrize("fresh_fraction", [1.0, 0.5])
def test_population_moments_against_sampling(fresh_fraction, noise_labels):
    mixing = np.random.default_rng(0).standard_normal((3, 3))
    shared = None if fresh_fraction == 1 else np.array([1.0, -0.5, 0.3])
    problem = Problem(
        dim=len(mixing @ mixing.T / 3),
        context=6,
        input_covariance=mixing @ mixing.T / 3,
        noise_variance=0.2,
        fresh_fraction=fresh_fraction,
        shared_task=shared,
        scale=1,
    )
    count = 30_000
    generator = np.random.default_rng(1)
    prompts = draw_prompts(problem, NUMPY, generator, count)
    if noise_labels:
        prompts = replace(prompts, labels=generator.standard_normal((count, 6)))
    exact = population_moments(problem, noise_labels=noise_labels)
    features = features_of(prompts, 6)
    labelled = np.concatenate([prompts.query_label[:, None], features], axis=1)
    expected = np.block(
        [
            [np.reshape(exact.label, (1, 1)), exact.cross[None, :]],
            [exact.cross[:, None], exact.second],
        ]
    )
    mean = labelled.T @ labelled / count
    spread = np.sqrt((labelled**2).T @ labelled**2 / count - mean**2)
    z = (mean - expected) / (spread / math.sqrt(count))
    assert np.max(np.abs(z)) < Z_MAX
    assert np.max(spread / math.sqrt(count) / np.sqrt(np.outer(*[np.diag(expected)] * 2))) < 0.1


@pytest.mark.machine
def test_gaussian_moments_of_dependent_variables():
    for order in (2, 4, 6):
        root = np.array([[1.0, 0.0], [0.4, 0.8], [-0.3, 0.2]])  # a singular covariance
        points, weights = np.polynomial.hermite_e.hermegauss(4)
        values = np.array(list(itertools.product(points, repeat=2))) @ root.T
        masses = np.outer(weights, weights).reshape(-1) / (2 * math.pi)
        found = gaussian_moments(root @ root.T, order)
        for index in np.ndindex(found.shape):
            expected = masses @ np.prod(values[:, index], axis=1)
            assert found[index] == pytest.approx(expected, abs=1e-13)


def test_the_rule_of_the_tasks_has_degree_five():
    for dim in range(1, 9):
        weights, tasks = feature_moments._task_rule(
            Problem(dim=len(np.ones(dim)), context=1, input_covariance=np.ones(dim), scale=1)
        )
        for degree in range(6):
            for factors in itertools.combinations_with_replacement(range(dim), degree):
                powers = [factors.count(k) for k in set(factors)]
                even = all(power % 2 == 0 for power in powers)
                exact = math.prod(math.prod(range(1, p, 2)) for p in powers) if even else 0
                found = weights @ np.prod(tasks[:, factors], axis=1)
                assert found == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("normalization", ["mean", "sum"])
@pytest.mark.parametrize("dim", [1, 3])
def test_moments_of_a_set(dim, normalization, monkeypatch):
    problem = Problem(
        dim=len(np.arange(1.0, dim + 1)),
        context=4,
        input_covariance=np.arange(1.0, dim + 1),
        noise_variance=0.2,
        scale=1,
    )
    prompts = draw_prompts(problem, NUMPY, np.random.default_rng(2), 23)
    expected = averages(prompts, np.full(23, 1 / 23), 4 if normalization == "mean" else 1)
    assert len(expected[1]) == feature_count(dim)
    assert_equal(sequence_moments(prompts, normalization=normalization), expected)
    monkeypatch.setattr(feature_moments, "BLOCK", 5 * feature_count(dim))
    assert_equal(sequence_moments(prompts, normalization=normalization), expected)
    monkeypatch.setattr(feature_moments, "BLOCK", 1)
    assert_equal(sequence_moments(prompts, normalization=normalization), expected)


def test_wrong_arguments():
    problem = Problem(dim=1, context=2, input_covariance=[1.0], scale=1)
    message = "normalization must be one of mean, sum, got 'none'"
    value_error(message, population_moments, problem, normalization="none")
    prompts = draw_prompts(problem, NUMPY, np.random.default_rng(0), 2)
    value_error(message, sequence_moments, prompts, normalization="none")
