"""Gradient flow against other integrations, gradient descent with small steps, and invariances."""

import math

import numpy as np
import pytest
from refusals import type_error, value_error
from scipy.integrate import solve_ivp
from scipy.optimize import OptimizeResult

from iclimit.problem import Problem
from iclimit.simulate.dynamics import AttentionModel, gradient_flow, initial_weights
from iclimit.simulate.dynamics.gradient_descent import simulate_gradient_descent
from iclimit.simulate.dynamics.gradient_flow import FlowCurve, simulate_gradient_flow

PROBLEM = Problem(dim=2, context=6, input_covariance=[0.7, 0.3], noise_variance=0.05, scale=1)
INTERPOLATED = 1e-6  # of the initial loss; 2e-7 measured between steps at the tolerance of 1e-9
MODELS = [
    {"model": "merged", "heads": 3, "init_scale": 0.05, "duration": 60},
    {"model": "cubic", "heads": 3, "init_scale": 0.05, "duration": 60},
    {"model": "separate", "heads": 2, "init_scale": 0.3, "duration": 150},
    {"model": "separate", "heads": 2, "rank": 2, "init_scale": 0.3, "duration": 150},
]
NAMES = ["merged", "cubic", "separate", "rank 2"]


def start_of(settings, rng):
    model = AttentionModel(settings["model"], 2, settings["heads"], settings.get("rank", 1))
    return model.random_weights(np.random.default_rng(rng), settings["init_scale"])


@pytest.mark.parametrize("settings", MODELS, ids=NAMES)
def test_gradient_descent_with_small_steps_is_the_flow(settings):
    flow = simulate_gradient_flow(PROBLEM, rtol=1e-11, rng=1, **settings)
    same = {key: value for key, value in settings.items() if key != "duration"}
    errors = []
    for steps in (700, 1400, 2800):
        rate = settings["duration"] / 2 / steps
        run = simulate_gradient_descent(
            PROBLEM,
            training_set=math.inf,
            learning_rate=rate,
            steps=steps,
            record=steps // 100,
            rng=1,
            **same,
        )
        errors.append(run.losses[0] - flow.at(np.minimum(run.times, settings["duration"])))
    assert flow.losses[-1] < 0.75 * flow.losses[0]
    first, second, third = (np.max(np.abs(each)) for each in errors)
    assert third < 0.02 * flow.losses[0]
    assert first / second == pytest.approx(2, abs=0.2)
    assert second / third == pytest.approx(2, abs=0.1)
    # Two rounds of Richardson extrapolation leave a thousandth of the error.
    once = 2 * errors[1] - errors[0], 2 * errors[2] - errors[1]
    assert np.max(np.abs((4 * once[1] - once[0]) / 3)) < 0.01 * third


@pytest.mark.parametrize("settings", MODELS[2:], ids=NAMES[2:])
def test_separate_attention_with_normalization_sum(settings):
    # Weights smaller by N^(1/3) give the same predictions, N^(2/3) times as fast.
    start = start_of(settings, 2)
    unit = 6 ** (1 / 3)
    mean = simulate_gradient_flow(PROBLEM, initial=start, **settings)
    total = simulate_gradient_flow(
        PROBLEM,
        initial=[each / unit for each in start],
        normalization="sum",
        **settings | {"duration": 150 / unit**2},
    )
    times = np.linspace(0, 149.9, 50)
    assert mean.losses[-1] < 0.75 * mean.losses[0]
    found = total.at(times / unit**2)
    np.testing.assert_allclose(found, mean.at(times), rtol=0, atol=INTERPOLATED * mean.losses[0])
    for weight, other in zip(mean.weights, total.weights, strict=True):
        np.testing.assert_allclose(unit * other, weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", MODELS, ids=NAMES)
def test_conservation(settings):
    start = start_of(settings, 3)
    run = simulate_gradient_flow(PROBLEM, initial=start, **settings)
    assert run.drift < 1e-7
    for before, after in zip(start, run.weights, strict=True):
        assert before.shape == after.shape
        assert np.max(np.abs(after - before)) > 0.1

    def squares(weights):
        """By hand: of each head, and for two factors of each pair of heads."""
        if settings["model"] == "separate":
            value, key, query = weights
            return [
                np.sum(value**2, axis=1) - np.sum(key**2, axis=(1, 2)),
                np.sum(key**2, axis=2) - np.sum(query**2, axis=2),
            ]
        value, lookup = weights
        return [np.einsum("gi,hi->gh", value, value) - np.einsum("gij,hij->gh", lookup, lookup)]

    for before, after in zip(squares(start), squares(run.weights), strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-7)


def test_a_rough_integration_says_so():
    rough = simulate_gradient_flow(PROBLEM, rtol=1e-3, rng=4, **MODELS[0])
    fine = simulate_gradient_flow(PROBLEM, rtol=1e-11, rng=4, **MODELS[0])
    assert fine.drift < 1e-9
    assert rough.drift > 1e-6
    assert np.max(np.abs(rough.weights[1] - fine.weights[1])) > 1e-6


@pytest.mark.parametrize("settings", MODELS, ids=NAMES)
def test_rotated_inputs_and_weights(settings):
    angle = 0.7
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    wide = np.eye(3)
    wide[:2, :2] = rotation
    turned = Problem(
        dim=2,
        context=6,
        input_covariance=rotation @ PROBLEM.covariance_of_inputs @ rotation.T,
        noise_variance=0.05,
        scale=1,
    )
    value, *lookup = start_of(settings, 6)
    if settings["model"] == "separate":
        moved = [value @ wide.T, lookup[0] @ wide.T, lookup[1] @ rotation.T]
    elif settings["model"] == "merged":
        moved = [value @ wide.T, wide @ lookup[0] @ rotation.T]
    else:
        moved = [value, rotation @ lookup[0] @ rotation.T]
    plain = simulate_gradient_flow(PROBLEM, initial=[value, *lookup], **settings)
    other = simulate_gradient_flow(turned, initial=moved, **settings)
    times = np.linspace(0, settings["duration"], 200)
    gap = INTERPOLATED * plain.losses[0]
    np.testing.assert_allclose(other.at(times), plain.at(times), rtol=0, atol=gap)


def test_one_variable_against_another_integration_with_events():
    variance = 0.8
    context = 5
    start = 0.02
    problem = Problem(dim=len([variance]), context=context, input_covariance=[variance], scale=1)
    run = simulate_gradient_flow(
        problem, model="cubic", heads=1, initial=[[[start]], [[[2 * start]]]], duration=40
    )
    # By hand, with products u of the weights: z = (1/N) sum_n w x_n^2 x_q.
    signal = variance**2
    second = variance**3 * (1 + 2 / context)

    def loss(u):
        return variance - 2 * signal * u + second * u * u

    def derivative(_, weights):
        pull = signal - second * weights[0] * weights[1]
        return [weights[1] * pull, weights[0] * pull]

    levels = variance * np.array([0.99, 0.9, 0.6, 0.35])
    events = [lambda _, y, level=level: loss(y[0] * y[1]) - level for level in levels]
    times = np.linspace(0, 40, 301)
    setting = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-15, "events": events}
    direct = solve_ivp(derivative, (0, 40), [start, 2 * start], **setting, t_eval=times)
    exact = loss(direct.y[0] * direct.y[1])
    np.testing.assert_allclose(run.at(times), exact, rtol=0, atol=INTERPOLATED * variance)
    expected = np.concatenate(direct.t_events)
    assert len(expected) == 4
    found = run.crossing_times(levels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(run.at(found), levels, rtol=1e-12)
    assert run.crossing_times(levels.reshape(2, 2)).shape == (2, 2)
    assert run.crossing_times(levels[1]) == found[1]
    assert run.losses[-1] == pytest.approx(variance - signal**2 / second, rel=1e-9)
    np.testing.assert_array_equal(run.crossing_times([0.0, run.losses[-1] - 1e-9]), math.inf)
    assert np.isfinite(run.crossing_times(run.losses[-1]))


def test_speeds_are_slopes():
    for settings in MODELS:
        run = simulate_gradient_flow(PROBLEM, rng=7, **settings)
        assert run.times[0] == 0
        assert run.times[-1] == settings["duration"]
        assert np.all(run.speeds > 0)
        # The trapezoidal rule is good to a percent on these steps.
        fallen = np.sum((run.speeds[1:] + run.speeds[:-1]) / 2 * np.diff(run.times))
        assert fallen == pytest.approx(run.losses[0] - run.losses[-1], rel=1e-2)
        assert np.all(np.diff(run.losses) < 1e-12)


def test_staircase():
    # One head learns one eigenvector, the larger ones first; between two drops the loss is that
    # of regression along the first ones.
    eigenvalues = np.array([1.0, 0.6, 0.3])
    context = 20
    trace = 1.9
    steps = eigenvalues / (1 + (1 + trace / eigenvalues) / context)
    plateaus = trace - np.array([0, steps[0], steps[0] + steps[1]])
    end = trace - np.sum(steps)
    small = 3e-3
    value = np.zeros((3, 4))
    key = np.zeros((3, 1, 4))
    query = np.zeros((3, 1, 3))
    for head in range(3):
        value[head, -1] = key[head, 0, head] = query[head, 0, head] = small
    run = simulate_gradient_flow(
        Problem(dim=len(eigenvalues), context=context, input_covariance=eigenvalues, scale=1),
        model="separate",
        heads=3,
        initial=[value, key, query],
        duration=8000,
    )
    found = run.plateaus()
    assert run.losses[-1] == pytest.approx(end, rel=1e-6)
    np.testing.assert_allclose(found.losses, plateaus[1:], rtol=1e-3)
    assert np.all(found.contrasts < 1e-3)
    assert np.all(
        (found.times > run.crossing_times(plateaus - 0.02)[:2])
        & (found.times < run.crossing_times(plateaus - 0.02)[1:])
    )
    assert len(run.plateaus(0.0).losses) == 0


def made(times, speeds, losses):
    return FlowCurve(np.array(times), np.array(losses), np.array(speeds), [], 0.0, {})


def test_plateaus_of_made_curves():
    times = np.arange(8.0)
    losses = np.array([10.0, 9, 7, 6.5, 6, 3, 2, 2])
    shoulder = made(times, [1.0, 5, 2, 3, 4, 2, 0, 0], losses)
    found = shoulder.plateaus()
    np.testing.assert_array_equal(found.times, [2])
    np.testing.assert_array_equal(found.losses, [7])
    np.testing.assert_array_equal(found.contrasts, [0.5])
    assert len(shoulder.plateaus(0.49).times) == 0
    # Small changes of the speed near the start and the end are neither plateaus nor drops.
    losses = np.array([10, 10 - 1e-7, 10 - 2e-7, 9, 5, 2, 2, 2])
    still = made(times, [2e-8, 1e-8, 2e-8, 1.0, 2.0, 0, 1e-9, 0], losses)
    assert len(still.plateaus(1.0).times) == 0


def test_the_end_may_stand_still():
    # In one dimension the speed at the end is exactly zero, or rounding.
    run = simulate_gradient_flow(
        Problem(dim=1, context=4, input_covariance=[1.0], scale=1),
        model="cubic",
        heads=1,
        initial=[[[0.5]], [[[0.5]]]],
        duration=1000,
    )
    assert len(run.plateaus(1.0).times) == 0


def test_mixtures():
    setting = {"dim": 2, "context": 6, "input_covariance": [0.7, 0.3]}
    shared = Problem(**setting, fresh_fraction=0.3, shared_task=[1.0, 1.0], scale=1)
    settings = {"heads": 3, "init_scale": 0.05, "duration": 60, "rng": 8}
    run = simulate_gradient_flow(shared, **settings)
    assert run.losses[0] == pytest.approx(1.0, rel=0.01)  # tr = w^T Lambda w = 1
    random = simulate_gradient_flow(
        Problem(dim=2, context=6, input_covariance=[0.7, 0.3], scale=1), **settings
    )
    assert run.losses[-1] < 0.9 * random.losses[-1]


def test_weights_are_those_of_gradient_descent():
    settings = {"model": "separate", "heads": 2, "rank": 2, "rng": 9}
    flow = simulate_gradient_flow(PROBLEM, init_scale=0.2, duration=1e-9, **settings)
    run = simulate_gradient_descent(
        PROBLEM,
        init_scale=0.2,
        training_set=10,
        learning_rate=1e-12,
        steps=1,
        record=1,
        repeats=2,
        **settings,
    )
    start = initial_weights(AttentionModel("separate", 2, 2, 2), 0.2, rng=9)
    for weight, other, given in zip(flow.weights, run.weights, start, strict=True):
        np.testing.assert_allclose(weight, given, rtol=0, atol=1e-9)
        np.testing.assert_allclose(weight, other[0], rtol=0, atol=1e-9)


GOOD = {"heads": 2, "duration": 1.0, "rng": 0}


def test_wrong_arguments():
    for changes, message in (
        ({"rank": 2}, "rank must be 1 for model 'merged', got 2"),
        ({"model": "separate", "rank": 3}, "rank must be at most the dimension 2, got 3"),
        ({"initial": [np.ones((2, 3))]}, "initial must hold 2 arrays for model 'merged', got 1"),
        (
            {"initial": [np.ones((2, 3)), np.ones((2, 2, 3))]},
            r"initial\[1\] must have shape \(2, 3, 2\), got \(2, 2, 3\)",
        ),
        (
            {"initial": [np.zeros((2, 3)), np.zeros((2, 3, 2))]},
            "initial must not all be zero, where the flow stands still",
        ),
    ):
        value_error(message, simulate_gradient_flow, PROBLEM, **GOOD | changes)


def test_wrong_kinds():
    type_error("problem must be a Problem, got 'x'", simulate_gradient_flow, "x", duration=1.0)
    with pytest.raises(TypeError, match="rng must be an int, SeedSequence or Generator, got None"):
        simulate_gradient_flow(PROBLEM, duration=1.0)
    with pytest.raises(TypeError, match="initial must be a sequence of arrays, got 3"):
        simulate_gradient_flow(PROBLEM, initial=3, duration=1.0)


def test_wrong_times_and_levels():
    run = simulate_gradient_flow(PROBLEM, **GOOD)
    for times in (-0.1, 1.1, [0.5, math.nan]):
        value_error(r"times must lie between 0 and 1\.0, got", run.at, times)
    for levels in (run.losses[0], 5.0, [0.1, math.nan]):
        value_error("levels must be below the initial loss", run.crossing_times, levels)
    for contrast in (-0.1, 1.1, math.nan):
        value_error(f"contrast must be from 0 to 1, got {contrast}", run.plateaus, contrast)


def test_a_failing_integrator(monkeypatch):
    failed = OptimizeResult(success=False, t=np.array([0.0, 0.5]), message="no step")
    monkeypatch.setattr(gradient_flow, "solve_ivp", lambda *_, **__: failed)
    with pytest.raises(ArithmeticError, match=r"the integrator stopped at t = 0\.5: no step"):
        simulate_gradient_flow(PROBLEM, **GOOD)


def test_the_least_tolerance():
    run = simulate_gradient_flow(PROBLEM, rtol=1e-12, rng=10, **MODELS[3])
    assert run.drift < 1e-10
