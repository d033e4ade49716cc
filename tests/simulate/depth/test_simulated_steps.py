"""Simulated steps at test time against plain loops, exact errors and whole tokens."""

import math

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate import depth as simulated
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.depth.feedback import _sums
from iclimit.simulate.depth.pretrained import prompt_law, sample_factors
from iclimit.simulate.depth.test_time import _mean_errors, _sampled_errors
from iclimit.simulate.pretraining import simulate_errors
from iclimit.simulate.prompts import draw_prompts

WEIGHTS = {
    "dim": 12,
    "context": 24,
    "prompts": 36,
    "noise_variance": 0.2,
    "steps": 3,
    "target": "weights",
}


def test_sampled_steps_are_those_of_one_context_at_a_time():
    law = prompt_law(get_backend("numpy"), 5, 8, 0.3)
    rng = np.random.default_rng(1)
    gamma = rng.standard_normal((5, 6))
    found = _sampled_errors(law, np.random.default_rng(2), gamma, 4, 3)
    again = np.random.default_rng(2)
    truth = law.fresh_tasks(again, 4)
    prompts = draw_prompts(
        Problem(truth.shape[1], 8, noise_variance=0.3), law.backend, again, tasks=truth
    )
    for x, y, w, errors in zip(prompts.inputs, prompts.labels, truth, found, strict=True):
        estimate = np.zeros(5)
        for error in errors:
            assert error == pytest.approx(np.mean((w - estimate) ** 2), rel=1e-12)
            left = y - x @ estimate
            summary = np.append(5 / 8 * left @ x, np.mean(left**2))
            estimate = estimate + gamma @ summary


@pytest.mark.parametrize("context", [9, 4])
def test_mean_errors_are_those_of_many_tasks_on_one_context(context):
    """Tasks and noise that are sums over an orthogonal basis have the exact second moments."""
    d = 6
    steps = 4
    noise = 0.3
    law = prompt_law(get_backend("numpy"), d, context, noise)
    rng = np.random.default_rng(1)
    gamma = rng.standard_normal((d, d)) / 3
    found = _mean_errors(law, np.random.default_rng(2), gamma, 3, steps)
    factors = sample_factors(law.backend, np.random.default_rng(2), d, context, 3)
    for T, errors in zip(factors, found, strict=True):
        # Any inputs of this covariance, S = d X^T X / context.
        X = np.linalg.qr(rng.standard_normal((context, T.shape[1])))[0] @ T.T
        X *= math.sqrt(context / d)
        total = np.zeros(steps + 1)
        for direction in np.eye(d):
            total += plain_errors(X, gamma, direction, 0 * X[:, 0], steps)
        for shock in np.eye(context):
            total += noise * plain_errors(X, gamma, np.zeros(d), shock, steps)
        assert errors == pytest.approx(total / d, rel=1e-12)


def plain_errors(X, gamma, w, shock, steps):
    """Squared errors of the steps on labels X w + shock."""
    estimate = np.zeros_like(w)
    errors = []
    for _ in range(steps + 1):
        errors.append(np.sum((w - estimate) ** 2))
        left = X @ (w - estimate) + shock
        estimate = estimate + gamma @ (X.T @ left) * len(w) / len(X)
    return np.array(errors)


@pytest.mark.parametrize("context", [9, 4])
def test_factors_have_the_law_of_covariances(context):
    """Means of the first two powers of a Wishart matrix, and its rank."""
    d = 6
    count = 20_000
    T = sample_factors(get_backend("numpy"), np.random.default_rng(3), d, context, count)
    S = T @ T.mT
    assert T.shape == (count, d, min(d, context))
    first = np.trace(S, axis1=1, axis2=2) / d
    second = np.sum(S**2, axis=(1, 2)) / d
    for values, expected in ((first, 1.0), (second, 1 + (d + 1) / context)):
        assert abs(values.mean() - expected) < 4 * values.std() / math.sqrt(count)
    spread = S[:, 0, 0]  # chi-square over its degrees
    assert spread.var() == pytest.approx(2 / context, rel=0.06)
    assert S[:, 1, 2].var() == pytest.approx(1 / context, rel=0.06)


def test_one_step_from_labels_has_the_exact_icl_error():
    """The same law of pretraining as `simulate_errors`, whose test errors are exact."""
    setting = {"dim": 8, "context": 16, "prompts": 192, "tasks": 12, "ridge": 0.2}
    run = {"noise_variance": 0.1, "steps": 1, "rng": 3, "repeats": 100, "contexts": 100}
    steps = simulated.simulate_test_time(**setting | run, sampler="tokens")
    exact = simulate_errors(**setting, rho=0.1, rng=4, repeats=300)
    difference = steps.means[1].mean + 0.1 - exact.icl.mean
    error = math.hypot(steps.means[1].standard_error, exact.icl.standard_error)
    assert abs(difference) < 4 * error
    assert error < 0.03 * exact.icl.mean


@pytest.mark.machine
def test_repeats_extend_and_dampening_scales():
    few = simulated.simulate_test_time(**WEIGHTS, rng=7, repeats=2, contexts=5)
    more = simulated.simulate_test_time(**WEIGHTS, rng=7, repeats=3, contexts=5)
    np.testing.assert_array_equal(few.errors, more.errors[:2])
    assert few.errors.shape == (2, 5, 4)
    none = simulated.simulate_test_time(**WEIGHTS, dampening=0.0, rng=7, repeats=1, contexts=5)
    assert np.ptp(none.errors, axis=-1).max() == 0
    assert few.parameters["target"] == "weights"
    assert "rng" not in few.parameters
    wild = simulated.simulate_test_time(
        **WEIGHTS | {"steps": 400}, dampening=50.0, rng=7, repeats=1, contexts=3
    )
    assert np.all(wild.errors[..., -1] == np.inf)


def test_refuses():
    calls = [
        ({"target": "tokens"}, "target must be one of labels, weights"),
        ({"sampler": "summaries"}, "sampler must be one of covariances, tokens"),
        ({"tasks": 4}, "tasks must be inf and ridge 0 for weights"),
        ({"ridge": 0.1}, "tasks must be inf and ridge 0 for weights"),
        ({"prompts": 11}, "prompts must be >= dim for weights"),
        ({"steps": 0}, "steps must be an integer >= 1"),
        ({"contexts": 0}, "contexts must be an integer >= 1"),
    ]
    for change, message in calls:
        with pytest.raises(ValueError, match=message):
            simulated.simulate_test_time(**WEIGHTS | change, rng=0)


def test_feedback_by_series_of_pushes():
    """The answer to pushes that last long, summed step by step."""
    law = prompt_law(get_backend("numpy"), 5, 40, 0.0)
    rng = np.random.default_rng(4)
    gamma = 0.5 * np.eye(5) + 0.05 * rng.standard_normal((5, 5))
    T = sample_factors(law.backend, rng, 5, 40, 1)
    found = _sums(np, gamma, T)
    S = T[0] @ T[0].T
    mean = np.trace(gamma) / 5 * np.eye(5)
    for row, matrix in ((1, gamma), (2, mean)):
        for column, sign in enumerate((1, -1)):
            answer = np.eye(5)
            total = np.zeros((5, 5))
            for step in range(400):
                total += sign**step * answer
                answer = answer @ (np.eye(5) - matrix @ S)
            assert found[row, column] == pytest.approx(5 / np.sum((S @ total) ** 2), rel=1e-10)
            if row == 2:
                back = np.sum(((gamma - mean) @ S @ total) ** 2) / 5
                assert found[0, column] == pytest.approx(back, rel=1e-10)


@pytest.mark.machine
def test_feedback_repeats_and_refuses():
    setting = {name: value for name, value in WEIGHTS.items() if name != "steps"}
    few = simulated.simulate_overthinking_ratio(**setting, rng=7, repeats=2)
    more = simulated.simulate_overthinking_ratio(**setting, rng=7, repeats=3)
    np.testing.assert_array_equal(few.returned, more.returned[:2])
    np.testing.assert_array_equal(few.resummed, more.resummed[:2])
    assert more.estimate.mean == pytest.approx(more.returned.mean(axis=0).max())
    with pytest.raises(ValueError, match="prompts must be >= dim for weights"):
        simulated.simulate_overthinking_ratio(**setting | {"prompts": 5}, rng=0)
    with pytest.raises(ValueError, match="ridge must be >= 0"):
        simulated.simulate_overthinking_ratio(**setting | {"ridge": -1.0}, rng=0)
