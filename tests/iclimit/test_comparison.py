"""Comparisons made from numbers and estimates."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from refusals import value_error

from iclimit.comparison import compare, compare_errors, compare_limits, compare_p_value, difference
from iclimit.results import Estimate
from iclimit.statistics import extrapolate, extrapolate_runs

RNG = np.random.default_rng(0)


@dataclass
class Errors:
    icl: float | Estimate
    idg: float | Estimate


def test_numbers_make_a_deterministic_comparison():
    row = compare("x", 2.0, 2.1, relative=0.06)
    assert (row.standard_error, row.degrees, row.z) == (0, math.inf, 0)
    assert compare("x", 2.0, 2.1, relative=0.04).z == math.inf
    assert compare("x", -2.0, -2.1, relative=0.04, allowance=0.03).z == 0
    assert compare("x", 2.0, 1.0, upper_bound=True).z == 0


def test_standard_errors_add_in_quadrature():
    theory = Estimate(1.0, 0.3, 5)
    estimate = Estimate(2.0, 0.4, 9)
    row = compare("x", theory, estimate, allowance=0.1, relative=0.2)
    assert row.standard_error == pytest.approx(0.5)
    assert row.allowance == pytest.approx(0.3)
    assert row.degrees == 8
    assert compare("x", 1.0, estimate, degrees=math.inf).z == pytest.approx(2.5)
    assert compare("x", theory, 2.0).degrees == math.inf


def test_errors_of_any_two_results():
    rows = compare_errors("d=8", Errors(1.0, 2.0), Errors(Estimate(1.0, 0.1, 3), 2.5))
    assert [row.label for row in rows] == ["ICL d=8", "IDG d=8"]
    assert [row.z for row in rows] == [0, math.inf]


def test_small_p_values_contradict():
    assert compare_p_value("fit", 0.5).z == 0
    assert compare_p_value("fit", 0.9).z == pytest.approx(-1.2816, abs=1e-4)
    assert compare_p_value("fit", 0.0013499).z == pytest.approx(3, abs=1e-3)
    assert compare_p_value("fit", 0.0).z == math.inf


def test_differences_on_the_same_draws_keep_their_correlation():
    common = RNG.standard_normal(400)
    first, second = (Estimate.of(common + 0.01 * RNG.standard_normal(400)) for _ in range(2))
    gap = difference(first, second)
    assert gap.mean == pytest.approx(first.mean - second.mean)
    assert gap.standard_error == pytest.approx(0.01 * math.sqrt(2 / 400), rel=0.2)
    assert first.standard_error > 10 * gap.standard_error


def test_limits_in_the_order_of_the_fit():
    d = [16, 24, 32, 48]
    samples = [
        np.stack([3 + 2 / dim + z, 1 - 1 / dim + 2 * z])
        for dim in d
        for z in [0.1 * RNG.standard_normal(500)]
    ]
    # Nothing but noise tells the two apart, which a singular covariance would not survive.
    samples = [each + 1e-3 * RNG.standard_normal(each.shape) for each in samples]
    fit = extrapolate_runs(d, samples, order=1)
    means = np.array([each.mean(axis=1) for each in samples])
    covariances = np.array([np.cov(each) / 500 for each in samples])
    same = extrapolate(d, means, covariances, repeats=[500] * 4, order=1)
    assert fit.value == pytest.approx(same.value)
    assert fit.covariance == pytest.approx(same.covariance)
    assert fit.deviations @ fit.deviations.T == pytest.approx(same.covariance)
    assert fit.error_degrees == pytest.approx(same.error_degrees)
    assert 500 < fit.error_degrees < 2000
    of_estimates = extrapolate_runs(d, [tuple(map(Estimate.of, each)) for each in samples])
    assert of_estimates.order == 2
    rows = compare_limits({"a": 3.0, "b": Estimate(1.0, 0.2, 4)}, fit)
    assert [row.label for row in rows] == ["a", "b"]
    assert rows[0].standard_error == pytest.approx(fit.standard_error[0])
    assert rows[1].standard_error == pytest.approx(math.hypot(fit.standard_error[1], 0.2))
    assert all(abs(row.z) < 4 for row in rows)
    value_error("zip", compare_limits, {"a": 3.0}, fit)


def test_a_single_estimate_at_each_size():
    d = [10, 20, 40]
    fit = extrapolate_runs(d, [Estimate(2 + 3 / dim, 0.01, 7) for dim in d], order=1)
    assert fit.value == pytest.approx([2])
    assert fit.summary.startswith("order 1 in 1/d, chi-square 0.0 for 1 degrees of freedom")


def test_what_cannot_be_compared_is_refused():
    value_error(r"p_value must be in \[0, 1\], got nan", compare_p_value, "fit", math.nan)
    with pytest.raises(ValueError, match=r"equally many samples, got \[2, 3\]"):
        difference(Estimate.of([1.0, 2.0]), Estimate.of([1.0, 2.0, 3.0]))
