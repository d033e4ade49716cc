"""Predictions at all positions against LAPACK and single prompts of each length."""

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.probing.predictors import delta_rule_weights, dmmse_weights, linear_predictor
from iclimit.simulate.probing.prefixes import (
    by_prefix,
    first_pairs,
    prefix_delta_rule,
    prefix_dmmse,
    prefix_regression,
)
from iclimit.simulate.prompts import Prompts, sample_prompts

ROOT = np.array([[1.2, 0.4, 0.0], [0.4, 0.9, 0.2], [0.0, 0.2, 0.5]])


def least_squares(prompts, penalty, root=None):
    """Predictions (n, N + 1) by a decomposition of every prefix."""
    dim = prompts.query.shape[1]
    root = np.eye(dim) if root is None else root
    found = np.zeros((len(prompts), prompts.labels.shape[1] + 1))
    for index, strength in enumerate(penalty):
        for count in range(1, found.shape[1]):
            cut = first_pairs(prompts, count)
            rows = cut.inputs[index] @ root
            if strength:
                rows = np.concatenate([rows, np.sqrt(strength) * np.eye(dim)])
            labels = np.append(cut.labels[index], np.zeros(len(rows) - count))
            found[index, count] = cut.query[index] @ root @ np.linalg.lstsq(rows, labels)[0]
    return found


@pytest.mark.parametrize("penalty", [0.0, 0.3, 1e-9])
def test_regression_is_that_of_every_prefix(penalty):
    drawn = sample_prompts(
        Problem(dim=3, context=9, noise_law="categorical:0,1", scale=1), 6, rng=0
    )
    for root in (None, ROOT):
        found = prefix_regression(drawn, penalty, task_root=root)
        expected = least_squares(drawn, np.full(6, penalty), root)
        assert np.allclose(found, expected, rtol=1e-7, atol=1e-7)
    several = prefix_regression(drawn, drawn.noise_variance)
    assert np.allclose(several, least_squares(drawn, drawn.noise_variance), rtol=1e-9, atol=1e-9)


@pytest.mark.machine
def test_repeated_inputs_add_no_direction():
    drawn = sample_prompts(
        Problem(dim=4, context=12, input_law="rademacher", noise_variance=0.5, scale=1), 40, rng=0
    )
    repeated = np.linalg.matrix_rank(drawn.inputs[:, :4]) < 4
    assert np.any(repeated)
    found = prefix_regression(drawn, 0.0)
    assert np.allclose(found, least_squares(drawn, np.zeros(40)), rtol=1e-9, atol=1e-9)


def test_rounding_grows_with_the_condition_number_and_not_its_square():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((8, 9, 4)) * [1, 1, 1, 1e-7]
    task = np.array([1.0, -2.0, 0.5, 3e6])
    query = rng.standard_normal((8, 4))
    drawn = Prompts(inputs, inputs @ task, query, np.tile(task, (8, 1)), np.zeros(8))
    # 1e7 is the condition number; with its square nothing would be left of 16 digits.
    assert np.allclose(prefix_regression(drawn, 0.0)[:, -1], query @ task, rtol=1e-7)


def test_dmmse_is_that_of_every_prefix():
    tasks = np.random.default_rng(1).standard_normal((5, 3))
    drawn = sample_prompts(
        Problem(dim=3, context=6, noise_law="uniform:2", tasks=tasks, scale=1), 7, rng=0
    )
    found = prefix_dmmse(drawn, tasks)
    assert np.allclose(found[:, 0], drawn.inputs[:, 0] @ np.mean(tasks, axis=0))
    for count in range(1, 7):
        cut = first_pairs(drawn, count)
        assert np.allclose(found[:, count], np.sum(dmmse_weights(cut, tasks) * cut.query, axis=1))


def test_predictors_get_the_pairs_before_a_position():
    drawn = sample_prompts(Problem(dim=3, context=4, scale=1), 5, rng=0)
    found = by_prefix(lambda count: linear_predictor(lambda cut: descend(cut, [1.0 * count])))(
        drawn
    )
    x = np.concatenate([drawn.inputs, drawn.query[:, None]], axis=1)
    for position in range(5):
        weights = np.einsum("nl,nld->nd", drawn.labels[:, :position], drawn.inputs[:, :position])
        assert np.allclose(found[:, position], np.sum(weights * x[:, position], axis=1))


def test_dmmse_after_the_whole_context_is_dmmse():
    tasks = np.random.default_rng(2).standard_normal((5, 4))
    drawn = sample_prompts(Problem(dim=4, context=10, noise_variance=0.5, scale=1), 200, rng=0)
    expected = np.sum(dmmse_weights(drawn, tasks) * drawn.query, axis=1)
    np.testing.assert_allclose(prefix_dmmse(drawn, tasks)[:, -1], expected, rtol=0, atol=1e-10)


def test_delta_rule_is_that_of_every_prefix():
    drawn = sample_prompts(Problem(dim=3, context=6, noise_variance=0.2, scale=1), 5, rng=0)
    steps = np.linspace(0.2, 0.05, 6)
    answers = prefix_delta_rule(drawn, steps)
    assert np.array_equal(answers[:, 0], np.zeros(5))
    for count in range(1, 7):
        cut = first_pairs(drawn, count)
        expected = np.sum(delta_rule_weights(cut, steps[:count]) * cut.query, axis=1)
        np.testing.assert_allclose(answers[:, count], expected, rtol=1e-10)
