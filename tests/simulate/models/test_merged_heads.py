"""Merged heads: a second implementation by autograd, complex steps, and what training returns."""

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.probing.predictors import softmax_heads
from iclimit.simulate.prompts import sample_prompts
from iclimit.simulate.softmax import MergedHeads, simulate_softmax, train_softmax

HEADS = MergedHeads(dim=3, heads=2, init_scale=0.5)
PROMPTS = sample_prompts(Problem(dim=3, context=5, noise_variance=0.2, scale=1), 7, rng=0)
ROUNDING = 1e-13  # relative to the largest entry; the largest seen is 1e-15


def assert_equal(found, expected):
    atol = ROUNDING * float(np.max(np.abs(expected)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_isotropic_heads_are_a_known_predictor():
    weights = HEADS.isotropic([0.7, -0.7], [1.2, -1.2])
    expected = softmax_heads(PROMPTS, 0.7, 1.2, opposite=True)
    assert_equal(HEADS.forward(weights, PROMPTS)[0], expected)
    with pytest.raises(ValueError, match=r"value must have shape \(\) or \(2,\), got \(3,\)"):
        HEADS.isotropic(0.7, [1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def trained():
    problem = Problem(dim=2, context=6, scale=1)
    return train_softmax(problem, heads=2, batch=512, learning_rate=0.01, rng=0)


def test_training_finds_isotropic_heads(trained):
    # Heads of the temperatures and values that are read off have the loss of the trained ones.
    read = trained.network.nearest_isotropic(trained.weights)
    beta = read.inverse_temperature
    v = read.value
    assert beta[0] * beta[1] < 0 < beta[0] * v[0]
    np.testing.assert_allclose(np.sum(v), 0, atol=0.05)
    assert np.all(read.lookup_rest < 0.03 * np.abs(beta))
    assert np.all(read.value_rest < 0.03 * np.abs(v))
    heads = simulate_softmax(beta, context=6, dim=2, contexts=100_000, rng=1)
    found = heads.loss(v)
    error = np.hypot(found.standard_error, trained.held_out.standard_error)
    assert abs(found.mean - trained.held_out.mean) < 4 * error
    # Training leaves less than 1 % of what the best values at these temperatures have.
    assert found.mean < 1.01 * heads.loss(heads.best_value).mean


def test_training_has_the_heads_and_the_dimension_asked_for():
    few = {"steps": 1, "batch": 4, "held_out": 10, "rng": 0}
    run = train_softmax(Problem(dim=3, context=4, scale=1), heads=2, **few)
    assert (run.network.dim, run.network.heads) == (3, 2)


def test_what_is_read_off_is_what_was_put_in():
    heads = MergedHeads(dim=2, heads=2)
    weights = heads.isotropic([2.0, -1.0], [0.5, 0.25])
    weights["lookup"][0, 0, 1] = 3.0
    weights["value"][1, 0] = 2.0
    read = heads.nearest_isotropic(weights)
    np.testing.assert_array_equal(read.inverse_temperature, [2.0, -1.0])
    np.testing.assert_array_equal(read.value, [0.5, 0.25])
    np.testing.assert_allclose(read.lookup_rest, [3 / np.sqrt(6), 0])
    np.testing.assert_allclose(read.value_rest, [0, np.sqrt(2)])
