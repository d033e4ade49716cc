"""Simulated steps at test time against plain loops, exact errors and gradient descent."""

import math
from typing import Any

import numpy as np
import pytest

from iclimit.simulate import depth as simulated
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.depth.test_time import _iterate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.simulate.pretraining.prompts import sample_prompts
from iclimit.simulate.pretraining.summaries import PromptLaw

WEIGHTS: dict[str, Any] = {
    "dim": 12,
    "context": 24,
    "prompts": 36,
    "rho": 0.2,
    "steps": 3,
    "target": "weights",
}


def test_steps_are_those_of_one_context_at_a_time() -> None:
    device, rng = get_backend("numpy"), np.random.default_rng(1)
    law = PromptLaw(device, 5, 8, 0.3, "sphere", None, "gaussian", None, "summaries")
    gamma, truth = rng.standard_normal((5, 6)), rng.standard_normal((4, 5))
    found = _iterate(device, np.random.default_rng(2), law, gamma, truth, 3)
    prompts = sample_prompts(device, np.random.default_rng(2), truth, 8, 0.3)
    for x, y, w, errors in zip(prompts.x, prompts.y, truth, found, strict=True):
        estimate = np.zeros(5)
        for error in errors:
            assert error == pytest.approx(np.mean((w - estimate) ** 2), rel=1e-12)
            left = y - x @ estimate
            summary = np.append(5 / 8 * left @ x, np.mean(left**2))
            estimate = estimate + gamma @ summary


def test_one_step_from_labels_has_the_exact_icl_error() -> None:
    """The same law of pretraining as `simulate_errors`, whose test errors are exact."""
    setting: dict[str, Any] = {
        "dim": 8,
        "context": 16,
        "prompts": 192,
        "tasks": 12,
        "rho": 0.1,
        "ridge": 0.2,
    }
    steps = simulated.simulate_test_time(**setting, steps=1, rng=3, repeats=100, contexts=100)
    exact = simulate_errors(**setting, rng=4, repeats=300)
    difference = steps.means[1].mean + 0.1 - exact.icl.mean
    error = math.hypot(steps.means[1].standard_error, exact.icl.standard_error)
    assert abs(difference) < 4 * error
    assert error < 0.03 * exact.icl.mean


def test_much_pretraining_on_weights_is_the_best_single_step() -> None:
    """With 2000 contexts a dimension Gamma is nearly 1/(1 + (1 + d + ...)/context) times I."""
    setting = WEIGHTS | {"prompts": 24_000, "steps": 1}
    run = simulated.simulate_test_time(**setting, rng=0, repeats=4, contexts=3000)
    # |w|^2 = d on the sphere: E h h' = 1 + 1/l + d (1 + rho)/l and the error 1 - 1/(E h h').
    second = 1 + 1 / 24 + 12 * 1.2 / 24
    assert abs(run.means[1].z(1 - 1 / second)) < 4
    assert run.means[1].standard_error < 0.01


def test_repeats_extend_and_dampening_scales() -> None:
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


def test_refuses() -> None:
    calls: list[tuple[dict[str, Any], str]] = [
        ({"target": "tokens"}, "target must be one of labels, weights"),
        ({"tasks": 4}, "tasks must be inf and ridge 0 for weights"),
        ({"ridge": 0.1}, "tasks must be inf and ridge 0 for weights"),
        ({"prompts": 11}, "prompts must be >= dim for weights"),
        ({"steps": 0}, "steps must be an integer >= 1"),
        ({"contexts": 0}, "contexts must be an integer >= 1"),
    ]
    for change, message in calls:
        with pytest.raises(ValueError, match=message):
            simulated.simulate_test_time(**WEIGHTS | change, rng=0)
