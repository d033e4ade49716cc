"""Contexts against moments, the oracle against joint Gaussians."""

import math

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp.contexts import draw_contexts, gram_matrices
from iclimit.simulate.pretraining.estimators import ridge_weights

NUMPY = get_backend("numpy")
Z_MAX = 4.0  # about 80 comparisons: one beyond in 200 seeds
ROUNDING = 1e-12  # relative; the same sums in another order
SQUARED_CONDITION = 1e-7  # square systems without ridge: X^T X has squared conditions up to 1e8
COUNT = 20_000
LAWS = ("fixed:0", "fixed:1.5", "uniform:3", "categorical:1,3")
SQUARE_AND_FOURTH = {  # of the noise level
    "fixed:0": (0, 0),
    "fixed:1.5": (2.25, 5.0625),
    "uniform:3": (3, 16.2),
    "categorical:1,3": (5, 41),
}


def assert_mean(values, expected):
    """Sample mean within so many standard errors; constant samples exactly."""
    error = np.std(values) / math.sqrt(values.size)
    assert abs(np.mean(values) - expected) <= Z_MAX * error + ROUNDING * abs(expected)


@pytest.mark.parametrize("spec", LAWS)
@pytest.mark.parametrize(("context", "dim"), [(4, 2), (2, 3), (20, 10)])
def test_weighted_contexts_have_the_plain_means(spec, context, dim):
    found = draw_contexts(
        Problem(dim=dim, context=context, noise_law=spec, scale=1),
        NUMPY,
        np.random.default_rng(3),
        COUNT,
        rare=True,
    )
    square, fourth = SQUARE_AND_FOURTH[spec]
    gram = found.gram
    weights = found.weights
    assert (gram.shape, found.oracle.shape) == ((COUNT, dim + 1, dim + 1), (COUNT, dim))
    assert np.all(weights > 0)
    assert np.max(weights) <= 5 / 3 * (1 + ROUNDING)  # the plain part has a share of 6/10
    assert_mean(weights, 1)
    assert_mean(weights * found.levels**4, fourth)
    labels = gram[:, -1, -1]
    assert_mean(weights * labels, context * (dim + square))
    assert_mean(weights * gram[:, 0, 0] ** 2, context * (context + 2))
    assert_mean(weights * gram[:, 0, 0] * gram[:, 1, 1], context**2)
    assert_mean(weights * gram[:, 0, 1] ** 2, context)
    moment = context * dim * (context + dim + 1 + square)  # E tr S^2 = N d (N + d + 1)
    assert_mean(weights * np.sum(gram[:, -1, :-1] ** 2, axis=1), moment)


def test_contexts_of_the_law_itself():
    """Weights of one, and the contexts of the mixture's plain part."""
    problem = Problem(dim=3, context=4, noise_law="uniform:2", scale=1)
    plain, mixed = (
        draw_contexts(problem, NUMPY, np.random.default_rng(15), 200, rare=rare)
        for rare in (False, True)
    )
    np.testing.assert_array_equal(plain.weights, np.ones(200))
    np.testing.assert_array_equal(plain.levels, mixed.levels)
    same = np.all(plain.gram == mixed.gram, axis=(1, 2))
    assert abs(np.mean(same) - 0.6) < Z_MAX * math.sqrt(0.24 / 200)
    found = draw_contexts(problem, NUMPY, np.random.default_rng(16), COUNT).gram[:, -1, -1]
    assert_mean(found, 4 * (3 + 4 / 3))


def test_weights_cut_the_error_of_rare_contexts():
    """Eighth power of the sum of squares of 20 inputs, whose moments are known."""
    moment, square = (math.prod(20 + 2 * k for k in range(power)) for power in (8, 16))
    plain = math.sqrt(square / moment**2 - 1)
    found = draw_contexts(
        Problem(dim=1, context=20, noise_law="fixed:1", scale=1),
        NUMPY,
        np.random.default_rng(4),
        COUNT,
        rare=True,
    )
    heavy = found.weights * found.gram[:, 0, 0] ** 8 / moment
    assert_mean(heavy, 1)
    assert np.std(heavy) < 0.5 * plain  # plain sampling does not even see its standard deviation


def test_weights_of_thousands_of_numbers():
    """Densities beyond the largest float: weight 0, no warning."""
    found = draw_contexts(
        Problem(dim=1, context=8000, noise_law="fixed:1", scale=1),
        NUMPY,
        np.random.default_rng(6),
        60,
        rare=True,
    )
    assert np.all(np.isfinite(found.weights))
    assert np.all(found.weights >= 0)
    assert np.max(found.weights) == pytest.approx(5 / 3, rel=ROUNDING)
    assert_mean(found.weights, 1)


def test_gram_matrices_are_sums_over_tokens():
    generator = np.random.default_rng(7)
    x = generator.standard_normal((3, 4, 2))
    y = generator.standard_normal((3, 4))
    found = gram_matrices(x, y)
    for m in range(3):
        tokens = [np.append(x[m, i], y[m, i]) for i in range(4)]
        expected = sum(np.outer(token, token) for token in tokens)
        np.testing.assert_allclose(found[m], expected, rtol=ROUNDING, atol=ROUNDING)


SHAPES = [(1, 1), (1, 4), (3, 5), (4, 4), (5, 4), (9, 2)]


@pytest.mark.parametrize(("context", "dim"), SHAPES)
def test_oracle_is_the_posterior_mean(context, dim):
    generator = np.random.default_rng([context, dim])
    x = generator.standard_normal((6, context, dim))
    y = generator.standard_normal((6, context))
    sigma = np.array([1e-3, 0.1, 1.0, 3.0, 30.0, 1e6])
    found = ridge_weights(x, y, sigma**2)
    for m in range(6):
        # Joint covariance of task and labels, both linear in independent normals.
        to_labels = np.hstack([x[m], sigma[m] * np.eye(context)])
        to_task = np.hstack([np.eye(dim), np.zeros((dim, context))])
        gain = to_task @ to_labels.T @ np.linalg.inv(to_labels @ to_labels.T)
        np.testing.assert_allclose(
            found[m], gain @ y[m], rtol=SQUARED_CONDITION, atol=1e-9 * np.max(np.abs(gain @ y[m]))
        )
        # Ridge regression as plain least squares on extended data: no squared conditions.
        data = np.vstack([x[m], sigma[m] * np.eye(dim)])
        extended = np.linalg.lstsq(data, np.append(y[m], np.zeros(dim)))[0]
        np.testing.assert_allclose(found[m], extended, rtol=SQUARED_CONDITION, atol=1e-30)


@pytest.mark.parametrize(("context", "dim"), SHAPES)
def test_oracle_without_noise_is_the_least_norm_fit(context, dim):
    generator = np.random.default_rng([1, context, dim])
    x = generator.standard_normal((20, context, dim))
    y = generator.standard_normal((20, context))
    expected = np.stack([np.linalg.pinv(x[m]) @ y[m] for m in range(20)])
    found = ridge_weights(x, y, np.zeros(20))
    np.testing.assert_allclose(found, expected, rtol=SQUARED_CONDITION, atol=1e-9)
