"""Ratios, cosines and weights over prompts, against their values over many samples."""

import math

import numpy as np
import pytest

from iclimit.validation.instruments.ratios import (
    best_factor,
    best_weights,
    cosine,
    quantile,
    ratio,
)

COUNT, SAMPLES = 400, 1500
TOLERANCE = 4 / math.sqrt(SAMPLES)
"""Four standard errors of a mean of standard normal numbers."""


def test_standard_errors_are_those_of_many_samples():
    """The z of true values have mean 0 and width 1, where residuals depend on the columns."""
    rng = np.random.default_rng(0)
    z = []
    for _ in range(SAMPLES):
        x = rng.standard_normal((COUNT, 3))
        noise = x[:, 0] * rng.standard_normal(COUNT)
        y = 0.9 * x[:, 0] + noise
        found = ratio(y**2, x[:, 0] ** 2 + x[:, 1] ** 2)
        angle = cosine(y, x[:, 0])
        factor = best_factor(y, x[:, 0])
        weights, covariance = best_weights(y, x)
        exact = (0.9**2 + 1) / 2, 0.9 / math.sqrt(0.9**2 + 1), 0.9
        estimates = zip((found, angle, factor), exact, strict=True)
        row = [(each.mean - true) / each.standard_error for each, true in estimates]
        z.append([*row, weights[1] / math.sqrt(covariance[1, 1])])
    # Ratios of squares are biased by 1/n, and large residuals make errors of factors too small.
    assert np.all(np.abs(np.mean(z, axis=0)) < TOLERANCE + 0.15)
    assert np.all(np.abs(np.std(z, axis=0) - 1) < TOLERANCE + 0.05)


@pytest.mark.machine
def test_cosine_of_gradients_is_that_of_the_whole_vectors():
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((2, 50, 4))
    whole = np.sum(first * second) / np.linalg.norm(first) / np.linalg.norm(second)
    assert cosine(first, second).mean == pytest.approx(whole)
    assert cosine(first, 3 * first).mean == 1
    assert math.isnan(cosine(first, 0 * first).mean)


@pytest.mark.machine
def test_equal_answers_have_ratios_without_rounding():
    x = np.random.default_rng(2).standard_normal(100)
    assert (best_factor(1.5 * x, x).mean, best_factor(1.5 * x, x).standard_error) == (1.5, 0)
    assert ratio(0 * x, x**2).mean == 0
    assert ratio(0 * x, 0 * x).mean == 0
    assert ratio(x**2, 0 * x).mean == math.inf


def test_limits_hold_together():
    rng = np.random.default_rng(3)
    largest = np.max(rng.standard_normal((20_000, 7)), axis=1)
    assert np.mean(largest > quantile(7)) == pytest.approx(0.05, abs=0.006)
