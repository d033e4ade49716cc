"""Smooth curves through estimates: held against the function that the estimates scatter about."""

import numpy as np

from iclimit.smooth_lines import smooth_line

AT = np.geomspace(0.25, 4, 25)
# Relative scatter of the estimates.
SCATTER = 0.02


def diverging(x):
    """Infinite at x = 1.05."""
    return 1 / abs(1.05 - x)


def truth(x):
    """Estimated function: a smooth factor times what diverges."""
    return diverging(x) * (2 + np.log(x))


def test_curve_follows_the_truth_and_not_the_scatter():
    rng = np.random.default_rng(0)
    scattered = truth(AT) * (1 + SCATTER * rng.standard_normal(AT.size))
    curve = smooth_line(AT, scattered, SCATTER * truth(AT), diverging, np.log)
    between = np.geomspace(0.26, 3.9, 400)
    relative = curve(between) / truth(between) - 1
    assert np.max(np.abs(relative)) < 1.5 * SCATTER
    # Turns of the ratio: that of the scattered points has about one at every other point.
    turns = np.diff(np.sign(np.diff(curve(between) / diverging(between))))
    assert np.count_nonzero(turns) <= 3


def test_infinite_estimates_leave_a_gap_and_one_point_is_no_curve():
    means = np.array([1.0, 2.0, np.inf, 2.0, 1.0, 1.0])
    errors = np.where(np.isfinite(means), 0.1, np.inf)
    at = np.arange(1.0, 7.0)
    curve = smooth_line(at, means, errors, np.ones_like, np.log)
    assert np.isfinite(curve(np.array([1.5, 4.5]))).all()
    assert np.isnan(curve(np.array([2.5, 3.5]))).all()
    assert smooth_line(at[1:3], means[1:3], errors[1:3], np.ones_like, np.log) is None
