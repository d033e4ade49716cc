"""Gradient flow and descent on structured features against the same with their covariance."""

import math

import array_api_strict
import numpy as np
import pytest
from scipy.linalg import expm

import iclimit
from iclimit import Descent, Experiment, Flow, Problem, Ridge
from iclimit.simulate.pretraining.flow import flow_at_times, follow_descent, follow_flow

# Relative error that the search of directions leaves.
ACCURACY = 1e-6


def drawn(prompts: int, dim: int = 4):
    rng = np.random.default_rng(prompts)
    x = rng.standard_normal((prompts, dim)) / math.sqrt(dim)
    return x, rng.standard_normal((prompts, dim + 1)), rng.standard_normal(prompts)


def integrated(x, h, y, start, time, ridge):
    """Gamma from the exponential of the whole linear system, with its constant term."""
    features = np.einsum("ni,nj->nij", x, h).reshape(len(y), -1)
    scale = x.shape[1] / len(y)
    size = features.shape[1]
    system = np.zeros((size + 1, size + 1))
    system[:size, :size] = -scale * features.T @ features - ridge * np.eye(size)
    system[:size, size] = scale * features.T @ y
    state = expm(system * time) @ np.append(start.ravel(), 1.0)
    return state[:size].reshape(start.shape)


@pytest.mark.parametrize("prompts", [7, 20, 60])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("time", [0.01, 1.0, 40.0])
def test_flow_is_the_exponential(prompts, ridge, time):
    x, h, y = drawn(prompts)
    start = np.random.default_rng(0).standard_normal((4, 5))
    found = follow_flow(x, h, y, start, time, ridge)
    expected = integrated(x, h, y, start, time, ridge)
    np.testing.assert_allclose(found.gamma, expected, atol=ACCURACY * np.max(np.abs(expected)))
    assert found.iterations <= min(prompts, 20) + 1


def test_several_times_of_a_flow_are_the_exponentials():
    x, h, y = drawn(20)
    start = np.random.default_rng(0).standard_normal((4, 5))
    times = [0.01, 1.0, 40.0]
    for time, gamma in zip(times, flow_at_times(x, h, y, start, times, 0.2), strict=True):
        expected = integrated(x, h, y, start, time, 0.2)
        np.testing.assert_allclose(gamma, expected, atol=ACCURACY * np.max(np.abs(expected)))


def test_end_keeps_of_the_start_what_prompts_do_not_see():
    x, h, y = drawn(7)
    start = np.random.default_rng(0).standard_normal((4, 5))
    end = follow_flow(x, h, y, start, math.inf, 0.0)
    late = follow_flow(x, h, y, start, 1e6, 0.0)
    np.testing.assert_allclose(end.gamma, late.gamma, atol=1e-5)
    np.testing.assert_allclose(np.sum(x @ end.gamma * h, axis=1), y, atol=1e-6)
    decayed = follow_flow(x, h, y, start, math.inf, 0.3)
    np.testing.assert_allclose(
        decayed.gamma, follow_flow(x, h, y, 0 * start, 200.0, 0.3).gamma, atol=1e-6
    )


def test_small_steps_are_the_flow():
    """A loop as users write it: rate eta on the mean squared error, time 2 eta/d a step."""
    x, h, y = drawn(30)
    gamma = np.zeros((4, 5))
    rate = 0.002
    for _ in range(2000):
        residual = y - np.sum(x @ gamma * h, axis=1)
        gradient = -2 * np.einsum("n,ni,nj->ij", residual, x, h) / len(y)
        gamma = gamma - rate * gradient
    time = Flow.of_steps(steps=2000, learning_rate=rate, dim=4).time
    flow = follow_flow(x, h, y, np.zeros((4, 5)), time, 0.0)
    # One step moves by 2 rate/d = 1e-3 times eigenvalues up to 4.
    np.testing.assert_allclose(flow.gamma, gamma, atol=2e-3 * np.max(np.abs(gamma)))


def descended(x, h, y, start, training):
    """A loop as users write it, with the momentum and the weight decay of PyTorch's SGD."""
    gamma = start.copy()
    velocity = np.zeros_like(gamma)
    for _ in range(training.steps):
        residual = y - np.sum(x @ gamma * h, axis=1)
        gradient = -2 * np.einsum("n,ni,nj->ij", residual, x, h) / len(y)
        gradient = gradient + 2 * training.ridge / x.shape[1] * gamma
        velocity = training.momentum * velocity + gradient
        gamma = gamma - training.learning_rate * velocity
    return gamma


@pytest.mark.parametrize("prompts", [7, 20, 60])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("momentum", [0.0, 0.6, 0.95])
@pytest.mark.parametrize("steps", [1, 2, 9, 300])
def test_descent_is_a_loop(prompts, ridge, momentum, steps):
    x, h, y = drawn(prompts)
    start = np.random.default_rng(0).standard_normal((4, 5))
    training = Descent(steps, 0.1, ridge=ridge, momentum=momentum)
    found = follow_descent(x, h, y, start, training)
    expected = descended(x, h, y, start, training)
    np.testing.assert_allclose(found.gamma, expected, atol=ACCURACY * np.max(np.abs(expected)))
    assert found.iterations <= min(steps, prompts, 20) + 1


def test_unstable_steps_are_followed_until_they_overflow():
    x, h, y = drawn(20)
    start = np.zeros((4, 5))
    some = Descent(30, 10.0)
    np.testing.assert_allclose(
        follow_descent(x, h, y, start, some).gamma, descended(x, h, y, start, some), rtol=1e-6
    )
    with pytest.raises(ArithmeticError, match="learning_rate is too large"):
        follow_descent(x, h, y, start, Descent(3000, 10.0))


def test_descents_are_sampled_as_flows_are():
    run = Experiment(Problem(6, 12, tasks=6, noise_variance=0.2), prompts=90)
    stepped = iclimit.sample(run.with_(training=Descent(4000, 0.01)), rng=0, repeats=3)
    flowed = iclimit.sample(run.with_(training=Flow(4000 * 0.01 / 3)), rng=0, repeats=3)
    for name in ("icl", "idg", "training"):
        np.testing.assert_allclose(stepped[name].samples, flowed[name].samples, rtol=5e-4)


def test_arrays_of_the_standard_are_taken():
    x, h, y = drawn(20)
    start = np.random.default_rng(0).standard_normal((4, 5))
    for time in (1.0, math.inf):
        strict = [array_api_strict.asarray(part) for part in (x, h, y, start)]
        found = follow_flow(*strict, time, 0.2)
        expected = follow_flow(x, h, y, start, time, 0.2).gamma
        np.testing.assert_allclose(np.asarray(found.gamma), expected, atol=1e-9)


def test_too_long_a_time_says_what_to_do(monkeypatch):
    monkeypatch.setattr("iclimit.simulate.pretraining.flow.MOST_STEPS", 8)
    x, h, y = drawn(60)
    with pytest.raises(ArithmeticError, match="take a shorter time, a ridge, or inf"):
        follow_flow(x, h, y, np.zeros((4, 5)), 1e3, 0.0)


def test_samples_have_the_training_loss_and_those_of_the_end_are_ridge_regression():
    problem = Problem(6, 12, tasks=6, noise_variance=0.2)
    run = Experiment(problem, prompts=90, training=Flow(math.inf, ridge=0.1))
    ended = iclimit.sample(run, rng=0, repeats=3)
    assert ended.names == ("icl", "idg", "training")
    solved = iclimit.sample(run.with_(training=Ridge(0.1)), rng=0, repeats=3)
    assert solved.names == ("icl", "idg")
    np.testing.assert_allclose(ended.icl.samples, solved.icl.samples)
    begun = iclimit.sample(run.with_(training=Flow(0.0)), rng=0, repeats=3)
    np.testing.assert_allclose(begun.icl.samples, 1.2)
    assert np.all(ended["training"].samples < begun["training"].samples)


def test_what_is_not_simulated_says_so():
    run = Experiment(Problem(6, 12, tasks=6), prompts=90, training=Flow(1.0))
    with pytest.raises(ValueError, match="training must be Ridge here, got Flow"):
        iclimit.cost(run)
