"""Assertions on means of independent samples, shared by tests of samplers and simulations."""

import math

import numpy as np

ALLOWANCE = 4.5
"""Standard errors; exceeded by chance once in 1.5e5 comparisons."""

P_VALUE = 1e-5
"""About the same allowance for goodness-of-fit and two-sample tests."""

ROUNDING = 1e-12


def assert_mean(samples, expected):
    """Mean over the first axis within ALLOWANCE standard errors (plus rounding) of expected."""
    error = np.std(samples, axis=0, ddof=1) / math.sqrt(len(samples))
    deviation = np.abs(np.mean(samples, axis=0) - expected)
    assert np.all(deviation <= ALLOWANCE * error + ROUNDING), deviation / (error + 1e-300)


def assert_same_mean(first, second):
    """Means over the first axis agree within ALLOWANCE standard errors of their difference."""
    variance = sum(np.var(v, axis=0, ddof=1) / len(v) for v in (first, second))
    deviation = np.abs(np.mean(first, axis=0) - np.mean(second, axis=0))
    assert np.all(deviation <= ALLOWANCE * np.sqrt(variance) + ROUNDING), (deviation, variance)
