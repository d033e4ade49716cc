"""Extrapolation, z-scores and thresholds: are the error bars and probabilities right?"""

import math

import numpy as np
import pytest
from scipy import stats

from iclimit.statistics import extrapolate, z_score, z_threshold

SIZES = [16, 24, 32, 48, 64]
TRIALS = 400
Z_MEAN = 4.5 / math.sqrt(TRIALS)
"""Allowance on the mean of TRIALS z-scores: 4.5 of its standard errors."""


def power_series(d):
    return np.stack([2 + 5 / d - 30 / d**2, 1 - 3 / d + 12 / d**2], axis=1)


def noisy(rng):
    """Data at SIZES with strongly correlated errors that grow at small sizes."""
    d = np.array(SIZES, float)
    root = np.array([[0.02, 0.0], [0.015, 0.01]])
    covariances = np.stack([root @ root.T * 16 / size for size in SIZES])
    noise = np.stack([rng.multivariate_normal([0, 0], c) for c in covariances])
    return power_series(d) + noise, covariances


def test_exact_data_give_the_limit():
    d = np.array(SIZES, float)
    fit = extrapolate(SIZES, power_series(d), np.broadcast_to(np.eye(2), (5, 2, 2)), order=2)
    assert fit.value == pytest.approx([2, 1], abs=1e-10)
    assert fit.curve(np.array([100.0])) == pytest.approx(power_series(np.array([100.0])))


def test_error_bars_and_correlation_are_honest():
    rng = np.random.default_rng(1)
    pulls = []
    predicted = []
    for _ in range(TRIALS):
        fit = extrapolate(SIZES, *noisy(rng), order=2)
        pulls.append((fit.value - [2, 1]) / fit.standard_error)
        predicted.append(fit.covariance[0, 1] / np.prod(fit.standard_error))
    z = np.array(pulls)
    assert np.all(abs(z.mean(axis=0)) < Z_MEAN)
    # The variance of a sample variance of normals is 2/n.
    assert np.all(abs(z.var(axis=0) - 1) < 4.5 * math.sqrt(2 / TRIALS))
    correlation = np.corrcoef(z.T)[0, 1]
    assert abs(np.arctanh(correlation) - np.arctanh(predicted[0])) < Z_MEAN


def test_goodness_of_fit_is_uniform_when_the_order_is_right():
    rng = np.random.default_rng(2)
    p = [extrapolate(SIZES, *noisy(rng), order=2).p_value for _ in range(TRIALS)]
    assert stats.kstest(p, "uniform").pvalue > 1e-4


def test_order_grows_when_the_fit_is_rejected():
    d = np.array(SIZES, float)
    curved = (1 + 3 / d + 500 / d**3)[:, None]
    small = np.full((5, 1, 1), 1e-8)
    assert extrapolate(SIZES, curved, small).order == 3
    assert extrapolate(SIZES, (1 + 3 / d)[:, None], small, order=1).order == 1


def test_too_few_sizes():
    for sizes in ([16, 16, 32, 64], [16, 32, 64], []):
        with pytest.raises(ValueError, match="sizes must be at least 4 different ones"):
            extrapolate(sizes, np.ones((len(sizes), 1)), np.ones((len(sizes), 1, 1)), order=2)


def test_z_score():
    assert z_score(1.3, 1.0, 0.1) == pytest.approx(3)
    assert z_score(0.7, 1.0, 0.1, allowance=0.1) == pytest.approx(-2)
    assert z_score(1.05, 1.0, 0.1, allowance=0.1) == 0
    assert z_score(1.0, 1.0, 0.0) == 0
    assert z_score(1.0, 2.0, 0.0) == -math.inf
    assert math.isnan(z_score(math.nan, 1.0, 0.1))
    # Tails below the smallest float; from the incomplete beta function at 30 digits.
    assert z_score(300.0, 0.0, 1.0, degrees=1000) == pytest.approx(67.151637, rel=1e-6)
    assert z_score(60.0, 0.0, 1.0, degrees=1e5) == pytest.approx(59.470133, rel=1e-6)


def test_z_of_few_samples_has_the_probability_of_student_t():
    """Against brute force: how often does the mean of a small normal sample exceed z = 2?"""
    for degrees in (4, 11, 60):
        rng = np.random.default_rng(degrees)
        samples = rng.standard_normal((40_000, degrees + 1))
        errors = samples.std(axis=1, ddof=1) / math.sqrt(degrees + 1)
        threshold = next(t for t in np.linspace(2, 6, 4001) if z_score(t, 0, 1, 0, degrees) >= 2)
        exceed = np.mean(abs(samples.mean(axis=1) / errors) > threshold)
        expected = 2 * stats.norm.sf(2)
        assert abs(exceed - expected) < 4.5 * math.sqrt(expected / 40_000)


def test_threshold_gives_the_false_alarm_rate():
    for count in (1, 10, 200):
        pass_all = (1 - 2 * stats.norm.sf(z_threshold(count, 0.05))) ** count
        assert pass_all == pytest.approx(0.95, rel=1e-9)
