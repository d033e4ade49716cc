"""Means and medians with their standard errors."""

import itertools
import math

import numpy as np
import pytest

from iclimit.results import Estimate


def test_error_of_the_median_is_that_of_all_samples_with_replacement() -> None:
    drawn = [0.3, 1.0, 1.7, 4.0, 9.0]
    medians = [np.median(each) for each in itertools.product(drawn, repeat=5)]
    found = Estimate.of_median(drawn[::-1])
    assert found.mean == 1.7
    assert found.standard_error == pytest.approx(np.std(medians), rel=1e-13)


def test_median_does_not_notice_rare_infinite_samples() -> None:
    """For n normal samples the error is (pi / 2n)^(1/2)."""
    drawn = np.random.default_rng(0).standard_normal(4000)
    finite = Estimate.of_median(drawn)
    assert abs(finite.z(0.0)) < 4
    assert finite.standard_error == pytest.approx(math.sqrt(math.pi / 8000), rel=0.2)
    wild = Estimate.of_median(np.where(drawn > 1.5, math.inf, drawn))
    assert wild.mean == finite.mean
    assert wild.standard_error == pytest.approx(finite.standard_error, rel=1e-9)
    mostly = Estimate.of_median([1.0, math.inf, math.inf])
    assert mostly.mean == mostly.standard_error == math.inf
    assert Estimate.of_median([1.0, 2.0]) == Estimate.of([1.0, 2.0])
