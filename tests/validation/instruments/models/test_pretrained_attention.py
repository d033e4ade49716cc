"""Linear attention as a baseline: its training against least squares, its error against theory."""

import numpy as np
import pytest
from sampled_means import ALLOWANCE

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.baselines import baselines
from iclimit.validation.instruments.models.linear_attention import (
    answer_with,
    exact_error,
    expected_errors,
    pretrain_attention,
)

TASKS = np.random.default_rng(0).standard_normal((30, 10))


def test_training_is_ridge_regression_on_features():
    problem = Problem(
        dim=2, context=6, scale=0.5, task_variance=4.0, noise_variance=0.3, tasks=3 * TASKS[:3, :2]
    )
    ridge = 0.2
    count = 50
    drawn = sample_prompts(problem, count, rng=seed_sequences(7, 1)[0])
    # Inputs of variance 1/d and labels of variance 1.
    x_unit = np.sqrt(2) * 0.5
    y_unit = np.sqrt(2) * 0.5 * 2
    x = drawn.inputs / x_unit
    y = drawn.labels / y_unit
    query = drawn.query / x_unit
    summary = np.column_stack([2 / 6 * np.einsum("nl,nld->nd", y, x), np.mean(y**2, axis=1)])
    features = (query[:, :, None] * summary[:, None, :]).reshape(count, 6)
    rows = np.concatenate([features, np.sqrt(count / 2 * ridge) * np.eye(6)])
    labels = np.append(drawn.query_label / y_unit, np.zeros(6))
    expected = np.linalg.lstsq(rows, labels)[0]
    gamma = pretrain_attention(problem, prompts=count, ridge=ridge, rng=7)
    assert np.allclose(gamma.ravel(), expected)
    assert np.allclose(answer_with(gamma, problem, drawn), y_unit * features @ expected)


@pytest.mark.parametrize(
    "laws",
    [
        {"tasks": np.sqrt(2) * TASKS, "task_law": "sphere", "task_variance": 2.0, "scale": 0.3},
        {"input_covariance": np.linspace(0.5, 1.5, 10)},
    ],
    ids=["tasks", "covariance"],
)
def test_theory_expects_the_mean_error_of_trainings(laws):
    problem = Problem(10, 20, **{"scale": 1} | laws, noise_variance=0.25)
    training = {"prompts": 800, "ridge": 0.05}
    errors = [
        exact_error(pretrain_attention(problem, rng=seed, **training), problem)
        for seed in range(20)
    ]
    expected = expected_errors(problem, **training)
    found = Estimate.of(errors)
    # The prediction is good to 0.8/d from mean moments, and to 1 % task by task.
    share = 0.02 if "tasks" in laws else 0.04
    value = ALLOWANCE + share * found.mean / (found.standard_error)
    assert abs(found.z(expected["at this size"])) < value
    assert ("in the limit" in expected) == ("tasks" in laws)


def test_baseline_states_its_own_error_and_the_expected_one(monkeypatch):
    for name in ("gdpp_2", "gdpp_3"):
        monkeypatch.delitem(ALGORITHMS, name)
    problem = Problem(dim=5, context=12, noise_variance=0.25, scale=1)
    baseline = baselines(problem, prompts=300, ridge=0.1, rng=1)[-1]
    assert baseline.name == "linear_attention"
    assert "on 300 prompts with ridge 0.1, for which theory expects" in baseline.description
    drawn = sample_prompts(problem, 5000, rng=0)
    errors = Estimate.of((baseline.predict(drawn) - drawn.target) ** 2 + 0.25)
    assert baseline.loss is not None
    assert abs(errors.z(baseline.loss)) < ALLOWANCE


def test_other_laws_have_no_theory():
    assert (
        expected_errors(
            Problem(dim=5, context=12, input_law="uniform", scale=1), prompts=9, ridge=0.1
        )
        == {}
    )
    with pytest.raises(ValueError, match="prompts must be an integer >= 1, got 0"):
        pretrain_attention(Problem(dim=5, context=12, scale=1), prompts=0)
