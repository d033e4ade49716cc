"""Prompts against the moments of their laws, entry by entry, and on strict arrays."""

import math

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of
from sampled_means import P_VALUE, assert_mean
from scipy import stats
from scipy.linalg import toeplitz
from token_attention import token_matrix

from iclimit.problem import COORDINATE_VARIANCE, Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import (
    Prompts,
    draw_prompts,
    prompt_blocks,
    regression_tokens,
    sample_prompts,
)
from iclimit.simulate.prompts.sampling import draw_fresh_tasks, draw_noise_levels, fix_tasks

COUNT = 20_000
NUMPY = get_backend("numpy")
ROUNDING = 1e-12  # relative; labels are of order one to ten
MOMENTS = {"gaussian": (1, 3), "uniform": (1 / 3, 1 / 5), "rademacher": (1, 1), "laplace": (2, 24)}
"""E z^2 and E z^4, from the densities."""
MIXING = np.array([[1.0, 0.5, 0.0], [-0.3, 0.8, 0.2], [0.0, 0.4, 1.5]])
COVARIANCE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
SHARED = np.array([0.8, -1.1, 0.4])


def drawn(count=COUNT, seed=0, **law):
    return draw_prompts(
        Problem(**{"dim": 3, "context": 4, "scale": 1} | law),
        NUMPY,
        np.random.default_rng(seed),
        count,
    )


def all_inputs(prompts):
    return np.concat([prompts.inputs, prompts.query[:, None]], axis=1)


def all_labels(prompts):
    return np.concat([prompts.labels, prompts.query_label[:, None]], axis=1)


def noise_of(prompts):
    return all_labels(prompts) - np.einsum("nid,nd->ni", all_inputs(prompts), prompts.tasks)


@pytest.mark.parametrize("law", COORDINATE_VARIANCE)
@pytest.mark.parametrize("scale", [0.7, None])
def test_inputs_have_the_moments_of_their_law(law, scale):
    prompts = drawn(input_law=law, scale=scale)
    assert (prompts.inputs.shape, prompts.labels.shape) == ((COUNT, 4, 3), (COUNT, 4))
    assert (prompts.query.shape, prompts.query_label.shape) == ((COUNT, 3), (COUNT,))
    x = all_inputs(prompts).reshape(COUNT, 15)  # pairs, query and coordinates are alike
    square = 0.7**2 if scale else 1 / (3 * MOMENTS[law][0])
    m2 = MOMENTS[law][0] * square
    m4 = MOMENTS[law][1] * square**2
    assert_mean(x, np.zeros(15))
    assert_mean(x**3, np.zeros(15))
    assert_mean(x[:, :, None] * x[:, None, :], m2 * np.eye(15))
    fourth = x[:, :, None] ** 2 * x[:, None, :] ** 2
    assert_mean(fourth, m2**2 + (m4 - m2**2) * np.eye(15))
    if law == "uniform":
        span = math.sqrt(square)
        assert stats.kstest(x[:, 0], stats.uniform(-span, 2 * span).cdf).pvalue > P_VALUE
    if law == "rademacher":
        np.testing.assert_allclose(np.abs(x), math.sqrt(square))


def test_inputs_have_the_covariance_asked_for():
    for law in COORDINATE_VARIANCE:
        expected = 0.5**2 * MOMENTS[law][0]
        for given, covariance in (
            ({"mixing": MIXING}, MIXING @ MIXING.T),
            ({"input_covariance": COVARIANCE}, COVARIANCE),
            ({"input_covariance": [2.0, 1.0, 0.5]}, np.diag([2.0, 1.0, 0.5])),
        ):
            x = all_inputs(drawn(input_law=law, scale=0.5, **given))
            assert_mean(x[:, :, :, None] * x[:, :, None, :], expected * covariance)
            assert_mean(x[:, 0, :, None] * x[:, 4, None, :], np.zeros((3, 3)))


def test_mixing_is_a_linear_map_of_the_same_coordinates():
    plain = drawn(100, input_law="laplace")
    mixed = drawn(100, input_law="laplace", mixing=MIXING)
    np.testing.assert_array_equal(plain.tasks, mixed.tasks)
    expected = np.einsum("ij,nlj->nli", MIXING, all_inputs(plain))
    np.testing.assert_allclose(all_inputs(mixed), expected, rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize("task_law", ["gaussian", "sphere"])
def test_tasks_that_drift(task_law):
    """Labels of the query's task, and of tasks that forget it, to each other."""
    law = {"drift": 1.2, "task_law": task_law, "noise_variance": 0.3}
    prompts = drawn(**law)
    kept = math.exp(-1.2 / 3)
    np.testing.assert_allclose(prompts.target, np.vecdot(prompts.query, prompts.tasks))
    x = prompts.inputs
    y = prompts.labels
    along = (y[:, :, None] * x)[:, :, :, None] * prompts.tasks[:, None, None, :]
    powers = kept ** np.arange(4, 0, -1)
    assert_mean(along, powers[:, None, None] * np.eye(3))
    pairs = (y[:, :, None] * x)[:, [0, 0, 1]] * (y[:, :, None] * x)[:, [1, 3, 2]]
    assert_mean(pairs, kept ** np.array([1, 3, 1])[:, None] * np.ones(3))
    noise = prompts.query_label - prompts.target
    assert_mean(noise**2, 0.3)


def test_tasks_that_drift_with_a_covariance_of_their_own():
    prompts = drawn(task_covariance=COVARIANCE, task_variance=2.0, drift=0.9)
    first = prompts.labels[:, 0, None] * prompts.inputs[:, 0]
    second = prompts.labels[:, 1, None] * prompts.inputs[:, 1]
    expected = 2 * math.exp(-0.3) * COVARIANCE
    assert_mean(first[:, :, None] * second[:, None, :], expected)


def test_inputs_of_neighbours_are_correlated():
    prompts = drawn(correlation=-0.6, mixing=MIXING)
    x = all_inputs(prompts)
    covariance = MIXING @ MIXING.T
    for i, j, power in ((0, 1, 1), (1, 3, 2), (2, 2, 0)):
        expected = (-0.6) ** power * covariance
        assert_mean(x[:, i, :, None] * x[:, j, None, :], expected)
    assert_mean(x[:, 3, :, None] * x[:, 4, None, :], np.zeros((3, 3)))
    x = all_inputs(drawn(correlation=-0.6, correlated_query=True, mixing=MIXING))
    assert_mean(x[:, 3, :, None] * x[:, 4, None, :], -0.6 * covariance)


@pytest.mark.parametrize("query", [True, False])
def test_inputs_have_the_correlations_of_their_distance(query):
    """Four pairs and a query; beyond the list there are none."""
    kernel = np.array([1.0, 0.5, 0.2])
    x = all_inputs(drawn(correlation=kernel, correlated_query=query))
    expected = toeplitz([*kernel, 0, 0])
    if not query:
        expected[4, :4] = expected[:4, 4] = 0
    assert_mean(np.sum(x[:, :, None] * x[:, None, :], axis=3), 3 * expected)


def test_gaussian_tasks_have_the_covariance_asked_for():
    for law, covariance in (
        ({}, np.eye(3)),
        ({"task_variance": 2.5, "task_covariance": COVARIANCE}, 2.5 * COVARIANCE),
        ({"task_covariance": [0.5, 1.5, 1.0]}, np.diag([0.5, 1.5, 1.0])),
    ):
        prompts = drawn(**law)
        tasks = prompts.tasks
        assert_mean(tasks, np.zeros(3))
        assert_mean(tasks[:, :, None] * tasks[:, None, :], covariance)
        # Gaussian: the fourth moments are those of the covariance (Isserlis).
        variance = np.diag(covariance)
        fourth = np.outer(variance, variance) + 2 * covariance**2
        assert_mean(tasks[:, :, None] ** 2 * tasks[:, None, :] ** 2, fourth)
        assert_mean(tasks[:, :, None] * prompts.query[:, None, :], np.zeros((3, 3)))


def test_spherical_tasks_are_uniform_and_of_one_norm():
    d = 5
    problem = Problem(d, 1, task_law="sphere", task_variance=3)
    tasks = draw_fresh_tasks(problem, NUMPY, np.random.default_rng(2), COUNT)
    np.testing.assert_allclose(np.sum(tasks**2, axis=1), 3 * d, rtol=1e-14)
    direction = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    projection = tasks @ direction / np.linalg.norm(direction) / math.sqrt(3 * d)
    # The squared projection of a uniform direction has a Beta(1/2, (d - 1)/2) law.
    assert stats.kstest(projection**2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > P_VALUE
    assert_mean(np.sign(projection), 0.0)


def test_tasks_of_a_set_are_drawn_equally_often():
    given = np.arange(9.0).reshape(3, 3)
    tasks = sample_prompts(Problem(3, 1, tasks=given), COUNT, rng=0).tasks
    assert_mean(np.all(tasks[:, None, :] == given, axis=2), 1 / 3)


def test_a_number_of_tasks_is_drawn_once():
    problem = Problem(3, 2, tasks=4, task_variance=4)
    fixed = fix_tasks(problem, 7)
    assert fixed.tasks.shape == (4, 3)
    np.testing.assert_array_equal(fix_tasks(problem, 7).tasks, fixed.tasks)
    assert not np.any(fix_tasks(problem, 8).tasks == fixed.tasks)
    assert fix_tasks(fixed, 9) is fixed
    seen = np.unique(sample_prompts(problem, 200, rng=7).tasks, axis=0)
    np.testing.assert_array_equal(seen, np.unique(fixed.tasks, axis=0))
    many = fix_tasks(Problem(2, 1, tasks=COUNT, task_variance=4), 1).tasks
    assert_mean(many**2, 4 * np.ones(2))
    with pytest.raises(ValueError, match="tasks must be drawn before prompts are, got 4 of them"):
        draw_prompts(problem, NUMPY, np.random.default_rng(0), 2)


def test_the_last_prompts_of_a_mixture_have_the_shared_task():
    for fraction, own in ((0.0, 0), (0.29, 29), (0.5, 50), (0.999, 100)):
        prompts = drawn(100, fresh_fraction=fraction, shared_task=SHARED)
        shared = np.all(prompts.tasks == SHARED, axis=1)
        np.testing.assert_array_equal(shared, np.arange(100) >= own)
        np.testing.assert_allclose(noise_of(prompts), 0, atol=10 * ROUNDING)


@pytest.mark.parametrize("law", [{}, {"mixing": MIXING, "input_law": "laplace", "scale": None}])
def test_labels_are_products_without_noise(law):
    prompts = drawn(50, **law)
    x = all_inputs(prompts)
    y = all_labels(prompts)
    for m in range(50):
        for i in range(5):
            expected = sum(x[m, i, j] * prompts.tasks[m, j] for j in range(3))
            assert y[m, i] == pytest.approx(expected, abs=10 * ROUNDING)
    np.testing.assert_allclose(prompts.target, y[:, 4], atol=10 * ROUNDING)
    np.testing.assert_array_equal(prompts.noise_variance, 0)


def test_noise_is_independent_of_all_else_and_in_the_query_label_too():
    prompts = drawn(noise_variance=0.6, input_law="uniform")
    noise = noise_of(prompts)
    assert stats.kstest(noise.ravel() / math.sqrt(0.6), "norm").pvalue > P_VALUE
    assert_mean(noise[:, :, None] * noise[:, None, :], 0.6 * np.eye(5))
    assert_mean(noise[:, :, None] * prompts.tasks[:, None, :], np.zeros((5, 3)))
    assert_mean(noise[:, 0, None] * all_inputs(prompts)[:, 0], np.zeros(3))
    np.testing.assert_array_equal(prompts.noise_variance, 0.6)
    silent = drawn(input_law="uniform")
    np.testing.assert_array_equal(silent.inputs, prompts.inputs)


SQUARE_AND_FOURTH = {  # of the noise level
    "fixed:0": (0, 0),
    "fixed:1.5": (2.25, 5.0625),
    "uniform:3": (3, 16.2),
    "categorical:1,3": (5, 41),
}


def test_noise_levels_have_their_law():
    for law in SQUARE_AND_FOURTH:
        problem = Problem(3, 4, noise_law=law)
        levels = draw_noise_levels(problem.noise_law, NUMPY, np.random.default_rng(1), COUNT)
        assert levels.shape == (COUNT,)
        square, fourth = SQUARE_AND_FOURTH[law]
        assert problem.mean_noise_variance == pytest.approx(square)
        assert_mean(levels**2, square)
        assert_mean(levels**4, fourth)
        if law == "uniform:3":
            assert stats.kstest(levels / 3, "uniform").pvalue > P_VALUE
        else:
            assert set(levels) == set(problem.noise_law.levels)
        prompts = drawn(noise_law=law)
        noise = noise_of(prompts)
        variance = prompts.noise_variance
        assert_mean(variance, square)
        np.testing.assert_allclose(noise[variance == 0], 0, atol=10 * ROUNDING)
        if square:
            scaled = noise / np.sqrt(variance)[:, None]
            assert stats.kstest(scaled.ravel(), "norm").pvalue > P_VALUE


def test_given_tasks_replace_drawn_ones():
    problem = Problem(3, 2, task_variance=100.0, scale=1)
    tasks = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    prompts = draw_prompts(problem, NUMPY, np.random.default_rng(1), tasks=tasks)
    np.testing.assert_array_equal(prompts.labels[0], prompts.inputs[0, :, 0])
    np.testing.assert_array_equal(all_labels(prompts)[1], 0)


@pytest.mark.machine
def test_a_longer_run_extends_a_shorter_one():
    problem = Problem(10, 20, noise_variance=0.1)
    short = sample_prompts(problem, 100, rng=5)
    long = sample_prompts(problem, 6000, rng=5)
    blocks = list(prompt_blocks(problem, 6000, rng=5))
    assert len(blocks) > 1
    assert sum(map(len, blocks)) == len(long) == 6000
    for name, values in arrays_of(short).items():
        np.testing.assert_array_equal(values, getattr(long, name)[:100])
        np.testing.assert_array_equal(values[[3, 1]], getattr(short[[3, 1]], name))
        np.testing.assert_array_equal(values[10:20], getattr(long[10:20], name))


@pytest.mark.parametrize("start", [None, [0.5, -1.0, 2.0]])
def test_tokens_entry_by_entry(start):
    prompts = drawn(6, noise_variance=0.2)
    initial = None if start is None else np.array(start)
    tokens = regression_tokens(prompts, initial)
    Z = token_matrix(prompts)
    assert (tokens.shape, Z.shape) == ((6, 5, 4), (6, 4, 5))
    for m in range(6):
        for i in range(4):
            pair = [*prompts.inputs[m, i], prompts.labels[m, i]]
            np.testing.assert_array_equal(tokens[m, i], pair)
            np.testing.assert_array_equal(Z[m, :, i], pair)
        a, b, c = prompts.query[m]
        guess = -(0.5 * a - b + 2 * c) if start else 0.0
        np.testing.assert_allclose(tokens[m, 4], [a, b, c, guess], rtol=ROUNDING, atol=1e-15)
        np.testing.assert_array_equal(Z[m, :, 4], [a, b, c, 0.0])


def test_tokens_hold_nothing_of_the_query_label_and_are_a_copy():
    prompts = drawn(6)
    tokens = regression_tokens(prompts)
    other = Prompts(prompts.inputs, prompts.labels, prompts.query, prompts.query_label + 1)
    np.testing.assert_array_equal(regression_tokens(other), tokens)
    np.testing.assert_array_equal(other.target, prompts.query_label + 1)
    assert other[:2].tasks is None
    x = prompts.inputs.copy()
    tokens *= 2
    np.testing.assert_array_equal(prompts.inputs, x)
    with pytest.raises(ValueError, match=r"initial must have shape \(3,\), got \(2,\)"):
        regression_tokens(prompts, np.ones(2))


LAWS = (
    *({"input_law": law, "noise_variance": 0.3, "mixing": MIXING} for law in COORDINATE_VARIANCE),
    {"task_law": "sphere", "task_covariance": COVARIANCE, "noise_law": "uniform:3"},
    {"tasks": np.arange(6.0).reshape(2, 3), "noise_law": "categorical:1,3"},
    {"fresh_fraction": 0.4, "shared_task": SHARED, "input_covariance": COVARIANCE},
)


@pytest.mark.parametrize("law", LAWS)
def test_strict_arrays(law, strict_backend):
    problem = Problem(3, 4, scale=0.6, task_variance=1.5, **law)
    seed = np.random.SeedSequence(9)
    expected = draw_prompts(problem, NUMPY, NUMPY.generator(seed), 8)
    found = draw_prompts(problem, strict_backend, strict_backend.generator(seed), 8)
    for name, value in arrays_of(expected).items():
        array = getattr(found, name)
        assert isinstance(array, type(array_api_strict.asarray(0.0)))
        np.testing.assert_allclose(np.from_dlpack(array), value, rtol=0, atol=10 * ROUNDING)
    start = array_api_strict.asarray([0.0, 1.0, 2.0])
    exact = regression_tokens(expected, np.arange(3.0))
    np.testing.assert_allclose(
        np.from_dlpack(regression_tokens(found, start)), exact, rtol=0, atol=10 * ROUNDING
    )
