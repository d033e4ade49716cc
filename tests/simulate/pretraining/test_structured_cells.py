"""Cells of structured data: covariances of inputs and tasks, tests unlike training."""

import math
import re

import numpy as np
import pytest
from sampled_means import ALLOWANCE, P_VALUE, assert_same_mean
from scipy import stats

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import simulate_errors
from iclimit.simulate.prompts.covariances import covariance_rank, covariance_root
from iclimit.simulate.prompts.sampling import draw_inputs
from iclimit.simulate.prompts.summary_moments import (
    exact_error,
    fresh_task_moments,
    task_set_moments,
    whitened_gamma,
)

ROUNDING = 1e-12
SOLVED = 1e-4  # relative; the solves stop at a residual of 1e-6
BACKEND = get_backend("numpy")
D = 4
REPEATS = 80
SMALL = {"dim": D, "context": 5, "tasks": 3, "prompts": 60, "rho": 0.2, "ridge": 0.1, "rng": 1}

SPECTRUM = np.array([3.0, 1.0, 0.5, 0.1])
MATRIX = np.array(
    [[2.0, 0.6, -0.3, 0.2], [0.6, 1.0, 0.2, 0.0], [-0.3, 0.2, 0.5, 0.1], [0.2, 0.0, 0.1, 0.7]]
)
SPIKE = np.outer([1.0, -1.0, 0.5, 2.0], [1.0, -1.0, 0.5, 2.0])  # of rank one
GIVEN = np.array([[2.0, 0.0, 1.0, -1.0], [0.0, 0.5, 0.0, 0.0]])

CASES = {
    "tasks": {"task_covariance": SPECTRUM},
    "tasks of a matrix": {"task_covariance": MATRIX},
    "tasks of rank one": {"task_covariance": SPIKE},
    "fresh tasks": {"tasks": math.inf, "task_covariance": MATRIX, "task_law": "gaussian"},
    "test": {"test_covariance": SPIKE, "test_context": 2, "test_rho": 0.7},
    "test without noise": {"task_covariance": SPECTRUM, "test_context": 9, "test_rho": 0.0},
    "test of given tasks": {"tasks": GIVEN, "test_covariance": MATRIX},
    "inputs": {"input_covariance": SPECTRUM},
    "inputs of a matrix": {"input_covariance": MATRIX, "task_law": "gaussian"},
    "inputs of given tasks": {"input_covariance": MATRIX, "tasks": GIVEN},
    "inputs of rank one": {"input_covariance": SPIKE, "tasks": math.inf},
    "all": {
        "input_covariance": MATRIX,
        "task_covariance": SPIKE,
        "test_covariance": SPECTRUM,
        "test_context": 8,
        "test_rho": 0.4,
    },
    "all of fresh tasks": {
        "input_covariance": SPECTRUM,
        "tasks": math.inf,
        "task_covariance": MATRIX,
        "test_covariance": SPIKE,
    },
}


def run(**changes):
    """The small cell with changes."""
    return simulate_errors(**(SMALL | changes))


def matrix_of(covariance):
    """Covariance as a matrix; the identity for None."""
    if covariance is None:
        return np.eye(D)
    covariance = np.asarray(covariance)
    return np.diag(covariance) if covariance.ndim == 1 else covariance


def root_of(covariance):
    """Symmetric square root by singular values."""
    left, values, right = np.linalg.svd(matrix_of(covariance))
    return np.asarray((left * np.sqrt(values)) @ right)


def definition(seed, cell, test_prompts=400):
    """The definition: Gaussian tokens by NumPy, explicit features, dense ridge, test prompts."""
    generator = np.random.default_rng([seed, 99])
    law = cell.get("task_law", "sphere")

    def fresh_tasks(count, covariance):
        if covariance is not None:
            normal = generator.multivariate_normal
            return np.asarray(normal(np.zeros(D), matrix_of(covariance), count, method="eigh"))
        tasks = generator.standard_normal((count, D))
        norms = np.linalg.norm(tasks, axis=1, keepdims=True)
        return tasks if law == "gaussian" else tasks * math.sqrt(D) / norms

    def draw(tasks, context, rho):
        shape = (len(tasks), context + 1)
        if "input_law" in cell:
            x = generator.uniform(-math.sqrt(3 / D), math.sqrt(3 / D), (*shape, D))
        else:
            covariance = matrix_of(cell.get("input_covariance")) / D
            x = generator.multivariate_normal(np.zeros(D), covariance, shape, method="eigh")
        y = np.einsum("nld,nd->nl", x, tasks) + math.sqrt(rho) * generator.standard_normal(shape)
        context_x = x[:, :-1]
        context_y = y[:, :-1]
        head = D / context * np.einsum("nl,nld->nd", context_y, context_x)
        summary = np.column_stack([head, np.mean(context_y**2, axis=1)])
        return np.einsum("na,nb->nab", x[:, -1], summary).reshape(len(tasks), -1), y[:, -1]

    training = cell.get("task_covariance")
    if np.ndim(cell["tasks"]):
        task_set = np.asarray(cell["tasks"])
    elif cell["tasks"] != math.inf:
        task_set = fresh_tasks(cell["tasks"], training)

    def training_tasks(count):
        if np.ndim(cell["tasks"]) == 0 and cell["tasks"] == math.inf:
            return fresh_tasks(count, training)
        return np.asarray(task_set[generator.integers(0, len(task_set), size=count)])

    n = cell["prompts"]
    sizes = (cell["context"], cell["rho"])
    features, y = draw(training_tasks(n), *sizes)
    penalty = n / D * cell["ridge"] * np.eye(D * (D + 1))
    gamma = np.linalg.solve(features.T @ features + penalty, features.T @ y)
    target = fresh_tasks(test_prompts, cell.get("test_covariance", training))
    context = cell.get("test_context", sizes[0])
    rho = cell.get("test_rho", sizes[1])
    tests = (draw(target, context, rho), draw(training_tasks(test_prompts), *sizes))
    icl, idg = (float(np.mean((labels - test @ gamma) ** 2)) for test, labels in tests)
    return icl, idg


@pytest.mark.parametrize(
    "changes",
    [*CASES.values(), {"input_law": "uniform", "test_covariance": MATRIX, "test_context": 3}],
    ids=[*CASES, "uniform inputs"],
)
def test_errors_agree_with_the_definition(changes):
    found = run(**changes, repeats=REPEATS, test_prompts=400)
    cell = SMALL | changes
    expected = np.array([definition(seed, cell) for seed in range(REPEATS)])
    # Logarithms, because errors of few tasks have heavy tails.
    for errors, column in zip((found.icl.samples, found.idg.samples), expected.T, strict=True):
        assert_same_mean(np.log(errors), np.log(column))


def test_samplers_agree():
    """Summaries from their exact law and from tokens give errors of one distribution."""
    for case in ("test of given tasks", "inputs of a matrix", "all"):
        changes = CASES[case]
        fast = run(**changes, repeats=REPEATS)
        slow = run(**changes, repeats=REPEATS, sampler="tokens", rng=2)
        assert fast.parameters["sampler"] == "summaries"
        for first, second in (
            (fast.icl.samples, slow.icl.samples),
            (fast.idg.samples, slow.idg.samples),
        ):
            assert_same_mean(first, second)
            assert stats.ks_2samp(first, second).pvalue > P_VALUE


# Exact errors of a given Gamma.


@pytest.mark.parametrize("law", ["sphere", "gaussian", "set"])
@pytest.mark.parametrize("inputs", [SPECTRUM, MATRIX, SPIKE], ids=["spectrum", "matrix", "spike"])
def test_exact_error_by_monte_carlo(inputs, law):
    n = 100_000
    context = 3
    rho = 0.3
    generator = np.random.default_rng(3)
    gamma = np.eye(D, D + 1) + generator.standard_normal((D, D + 1)) / 2
    root = root_of(inputs)
    if law == "set":
        tasks = GIVEN[generator.integers(0, 2, size=n)]
        moments = task_set_moments(BACKEND, GIVEN @ root, context, rho)
    else:
        mixing = generator.standard_normal((D, D))
        tasks = generator.standard_normal((n, D))
        if law == "sphere":
            tasks *= math.sqrt(D) / np.linalg.norm(tasks, axis=1, keepdims=True)
        tasks = tasks @ mixing
        covariance = root @ mixing.T @ mixing @ root
        moments = fresh_task_moments(BACKEND, D, context, rho, law, covariance=covariance)
    x = generator.standard_normal((n, context + 1, D)) @ root / math.sqrt(D)
    y = np.einsum("nld,nd->nl", x, tasks)
    y += math.sqrt(rho) * generator.standard_normal(y.shape)
    head = D / context * np.einsum("nl,nld->nd", y[:, :-1], x[:, :-1])
    summary = np.column_stack([head, np.mean(y[:, :-1] ** 2, axis=1)])
    samples = (y[:, -1] - np.einsum("na,ab,nb->n", x[:, -1], gamma, summary)) ** 2
    exact = float(exact_error(whitened_gamma(gamma, covariance_root(inputs)), moments))
    error = np.std(samples) / math.sqrt(n)
    assert abs(np.mean(samples) - exact) < ALLOWANCE * error, (np.mean(samples), error, exact)


@pytest.mark.parametrize("sampler", ["summaries", "tokens"])
def test_largest_ridge_leaves_the_variance_of_the_labels(sampler):
    setting = {"input_covariance": MATRIX, "task_covariance": SPECTRUM, "test_covariance": SPIKE}
    found = run(**setting, test_rho=0.9, ridge=1e9, tasks=math.inf, sampler=sampler)
    assert found.icl.mean == pytest.approx(np.trace(MATRIX @ SPIKE) / D + 0.9, rel=1e-6)
    expected = np.trace(MATRIX @ np.diag(SPECTRUM)) / D + 0.2
    assert found.idg.mean == pytest.approx(expected, rel=1e-6)


# Identities.


@pytest.mark.parametrize("tasks", [3, math.inf])
def test_identities_are_isotropic(tasks):
    plain = run(tasks=tasks, task_law="gaussian", repeats=3)
    identity = {
        "input_covariance": np.eye(D),
        "task_covariance": np.ones(D),
        "test_covariance": np.eye(D),
    }
    found = run(tasks=tasks, **identity, test_context=5, test_rho=0.2, repeats=3)
    np.testing.assert_allclose(found.icl.samples, plain.icl.samples, rtol=SOLVED)
    np.testing.assert_allclose(found.idg.samples, plain.idg.samples, rtol=SOLVED)


def test_eigenvalues_are_a_diagonal_matrix():
    names = ("input_covariance", "task_covariance", "test_covariance")
    spectra = {name: np.roll(SPECTRUM, i) for i, name in enumerate(names)}
    first = run(**spectra, repeats=3)
    second = run(**{name: np.diag(value) for name, value in spectra.items()}, repeats=3)
    np.testing.assert_allclose(first.icl.samples, second.icl.samples, rtol=SOLVED)
    np.testing.assert_allclose(first.idg.samples, second.idg.samples, rtol=SOLVED)


@pytest.mark.parametrize("inputs", [SPECTRUM, MATRIX], ids=["spectrum", "matrix"])
def test_least_squares_see_whitened_inputs_and_their_tasks(inputs):
    """Without a ridge and with tau > 1: inputs x and tasks w are S^(-1/2) x and S^(1/2) w."""
    root = root_of(inputs)
    cell = {"ridge": 0.0, "prompts": 100, "repeats": 3}
    found = run(**cell, tasks=GIVEN, input_covariance=inputs, test_covariance=MATRIX)
    white = run(**cell, tasks=GIVEN @ root, test_covariance=root @ MATRIX @ root)
    np.testing.assert_allclose(found.icl.samples, white.icl.samples, rtol=SOLVED)
    np.testing.assert_allclose(found.idg.samples, white.idg.samples, rtol=SOLVED)


@pytest.mark.machine
def test_few_prompts_determine_inputs_of_low_rank():
    """Of rank two they have 2 * 3 features: fewer prompts than 4 * 5 suffice for least squares."""
    found = run(input_covariance=[1.0, 1.0, 0.0, 0.0], prompts=15, ridge=0.0, repeats=3)
    assert found.residual < SOLVED
    near = run(input_covariance=[1.0, 1.0, 0.0, 0.0], prompts=15, ridge=1e-9, repeats=3)
    np.testing.assert_allclose(found.icl.samples, near.icl.samples, rtol=1e-3)


def test_inputs_that_are_zero_leave_the_noise():
    found = run(input_covariance=np.zeros(D))
    assert (found.icl.mean, found.idg.mean) == pytest.approx((0.2, 0.2))


def test_tests_do_not_touch_training():
    plain = run(repeats=3)
    found = run(test_covariance=SPIKE, test_context=2, test_rho=0.9, repeats=3)
    np.testing.assert_array_equal(found.idg.samples, plain.idg.samples)
    assert np.all(found.icl.samples != plain.icl.samples)


# Roots and inputs.


@pytest.mark.machine
def test_roots_and_ranks():
    for covariance in (MATRIX, SPIKE, np.zeros((D, D))):
        root = covariance_root(covariance)
        np.testing.assert_allclose(root, root.T, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(root @ root, covariance, rtol=0, atol=ROUNDING)
        assert covariance_rank(covariance, D) == np.sum(np.linalg.svd(covariance)[1] > 1e-10)


def test_inputs_of_low_rank_stay_in_their_subspace():
    x = draw_inputs(
        Problem(D, 1, input_covariance=SPIKE), BACKEND, np.random.default_rng(5), (50,)
    )
    np.testing.assert_allclose(x, np.outer(x[:, 0], [1.0, -1.0, 0.5, 2.0]), atol=1e-7)


# Records and arguments.


def test_parameters_tell_structured_runs_apart():
    runs = [run(**changes) for changes in ({}, *CASES.values())]
    for i, first in enumerate(runs):
        for second in runs[:i]:
            assert first.parameters != second.parameters
    found = run(**CASES["all"])
    assert found.parameters["test_context"] == 8
    assert found.parameters["test_rho"] == 0.4
    assert found.parameters["task_law"] == "gaussian"
    value = run(task_covariance=SPECTRUM.tolist()).parameters
    assert run(task_covariance=SPECTRUM).parameters == value


def test_other_arguments_are_checked():
    for changes, message in (
        (
            {"tasks": GIVEN, "task_covariance": SPECTRUM},
            "task_covariance must be None where the task vectors are given",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            run(**changes)
