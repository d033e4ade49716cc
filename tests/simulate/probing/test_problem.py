"""Laws of prompts, against their moments and against longer runs."""

from typing import Any

import numpy as np
import pytest
from sampled_means import assert_mean

from iclimit.simulate.probing.problem import Problem

COUNT = 20_000
ROTATED = np.array([[1.2, 0.3], [0.3, 0.6]])


@pytest.mark.parametrize(
    ("law", "variance"), [("gaussian", 1), ("uniform", 1 / 3), ("rademacher", 1), ("laplace", 2)]
)
def test_inputs_have_the_stated_covariance(law: str, variance: float) -> None:
    problem = Problem(2, 2, input_law=law, scale=0.5, input_covariance=ROTATED)
    assert problem.input_variance == pytest.approx(variance / 4)
    query = problem.sample(COUNT, rng=0).query
    assert_mean(query[:, :, None] * query[:, None, :], variance / 4 * ROTATED)


def test_tasks_and_noise_have_the_stated_variances() -> None:
    problem = Problem(3, 2, task_variance=4, task_covariance=[0.5, 1.5], noise_law="uniform:3")
    drawn = problem.sample(COUNT, rng=0)
    assert_mean(drawn.tasks**2, [2, 6])
    noise = drawn.labels - np.einsum("nlk,nk->nl", drawn.inputs, drawn.tasks)
    assert_mean(noise**2, problem.mean_noise_variance)
    assert_mean(noise[:, 0] ** 2 - drawn.noise_variance, 0)
    assert np.allclose(drawn.target, np.sum(drawn.query * drawn.tasks, axis=1))


def test_spherical_tasks_have_one_norm() -> None:
    tasks = Problem(1, 5, task_law="sphere", task_variance=3).sample(10, rng=0).tasks
    assert np.allclose(np.sum(tasks**2, axis=1), 15)


def test_pretraining_tasks_are_drawn_equally_often() -> None:
    given = np.arange(6.0).reshape(3, 2)
    drawn = Problem(1, 2, tasks=given).sample(COUNT, rng=0, tasks="pretraining").tasks
    assert_mean(np.all(drawn[:, None, :] == given, axis=2), 1 / 3)


def test_a_longer_run_extends_a_shorter_one() -> None:
    problem = Problem(20, 10, noise_variance=0.1)
    short, long = problem.sample(100, rng=5), problem.sample(6000, rng=5)
    assert len(list(problem.blocks(6000, rng=5))) > 1
    for name, values in vars(short).items():
        assert np.array_equal(values, getattr(long, name)[:100])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"context": 0}, "context must be an integer >= 1"),
        ({"task_law": "cube"}, "task_law must be one of sphere, gaussian"),
        ({"tasks": np.ones((3, 4))}, r"tasks must have shape \(any, 2\)"),
        ({"noise_law": "often"}, "noise_law must be fixed:SIGMA"),
        ({"noise_law": "fixed:1", "noise_variance": 1.0}, "noise_law must be None where"),
        ({"input_covariance": [1.0, -1.0]}, "input_covariance must have eigenvalues >= 0"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Problem(**{"context": 3, "dim": 2} | wrong)
    with pytest.raises(ValueError, match="tasks must be 'fresh' where"):
        Problem(3, 2).sample(1, rng=0, tasks="pretraining")
