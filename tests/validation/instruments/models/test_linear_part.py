"""The linear attention in a predictor, against predictors that are linear attention or none."""

import numpy as np
import pytest

from iclimit.asymptotics.descent import optimal_preconditioner
from iclimit.problem import Problem
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.instruments.models.baselines import baselines
from iclimit.validation.instruments.models.linear_attention import (
    attention_features,
    best_eigenvalues,
    linear_part,
)

SCALED = Problem(
    dim=4, context=12, input_law="uniform", scale=3, task_variance=2, noise_variance=0.5
)
TILTED = Problem(
    dim=3,
    context=12,
    input_covariance=[0.5, 1.0, 2.0],
    task_covariance=[2.0, 1.0, 0.3],
    noise_variance=0.2,
    scale=1,
)


def part_of(name, problem, count=2000):
    drawn = sample_prompts(problem, count, rng=0)
    (baseline,) = baselines(problem, names=[name])
    found = linear_part(*attention_features(drawn, problem), baseline.predict(drawn), problem)
    assert found is not None
    return found


def test_one_step_is_linear_attention_in_the_units_of_the_theory():
    found = part_of("one_step", SCALED)
    assert found.explained.mean == 1
    assert found.theory is not None
    expected = np.column_stack([found.theory[0] * np.eye(4), np.zeros(4)])
    assert found.gamma == pytest.approx(expected, abs=1e-8)
    assert (found.z, found.rest.mean) == (0, pytest.approx(0, abs=1e-8))


def test_best_preconditioner_has_the_best_eigenvalues_and_its_exact_error():
    found = part_of("preconditioner", TILTED)
    setting = {"task_covariance": TILTED.task_covariance, "context": 12}
    best = optimal_preconditioner(TILTED.input_covariance, **setting, noise_variance=0.2)
    assert found.theory == pytest.approx(np.linalg.eigvalsh(best.matrix))
    assert [each.mean for each in found.eigenvalues] == pytest.approx(found.theory)
    assert found.error == pytest.approx(float(best.loss))


def test_bayes_has_the_best_gamma_as_its_linear_part():
    """The projection of the posterior mean is that of the labels: it has the least error."""
    problem = Problem(dim=4, context=12, noise_variance=0.5, scale=1)
    found = part_of("ridge", problem, 20_000)
    assert found.z is not None
    assert abs(found.z) < 4
    assert 0 < found.explained.mean < 0.99
    (step,) = baselines(problem, names=["one_step"])
    assert step.loss == pytest.approx(found.error, rel=5e-3)


def test_noise_spreads_eigenvalues_by_the_stated_radius():
    """Answers of one step with noise: its eigenvalues are equal, those of the fit are not."""
    problem = Problem(scale=1, dim=12, context=40)
    drawn = sample_prompts(problem, 4000, rng=0)
    (step,) = baselines(problem, names=["one_step"])
    noise = np.random.default_rng(0).standard_normal(4000)
    features = attention_features(drawn, problem)
    found = linear_part(*features, step.predict(drawn) + noise, problem)
    assert found is not None
    assert found.theory is not None
    values = np.array([each.mean for each in found.eigenvalues])
    # The largest of a matrix of 12 rows is within a quarter of the radius of its edge.
    largest = np.max(np.abs(values - found.theory))
    assert 0.75 < largest / found.sampling_radius < 1.25


def test_share_is_held_out():
    """Noise is explained by nothing: the fit would explain d (d + 1)/n of it."""
    problem = Problem(dim=4, context=5, scale=1)
    drawn = sample_prompts(problem, 210, rng=0)
    noise = np.random.default_rng(0).standard_normal(210)
    found = linear_part(*attention_features(drawn, problem), noise, problem)
    assert found is not None
    assert found.explained.mean < 0.1
    few = [each[:190] for each in attention_features(drawn, problem)]
    assert linear_part(few[0], few[1], noise[:190], problem) is None


def test_theory_of_inputs_with_a_covariance_that_are_not_gaussian_is_not_known():
    assert (
        best_eigenvalues(
            Problem(dim=2, context=5, input_law="uniform", input_covariance=[1, 2], scale=1)
        )
        is None
    )
