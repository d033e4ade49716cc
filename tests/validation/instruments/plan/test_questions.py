"""Power, repeats and significance of a contrast: known values, inversions and random numbers."""

import math

import numpy as np
import pytest

from iclimit.validation.instruments.plan.questions import Contrast, scatter

SIMULATED = 200_000
"""Random contrasts: a power of 0.9 has a standard error of 0.0007."""


def test_five_sigma_with_power_95_per_cent_takes_44_variances():
    contrast = Contrast(1.0, 0.0, scatter((1.0, 1.0)))
    assert contrast.least_repeats(5.0, 0.95) == math.ceil((5 + 1.6448536) ** 2)
    halved = Contrast(1.5, 1.0, scatter((1.0, 1.0)))  # the doubt is subtracted
    assert halved.least_repeats(5.0, 0.95) == math.ceil(4 * (5 + 1.6448536) ** 2)


def test_precision_is_a_confidence_interval():
    contrast = Contrast(0.1, 0.0, scatter((1.0, 1.0)), interval=True)
    assert contrast.least_repeats(0.0, 0.95) == math.ceil((1.959964 / 0.1) ** 2)
    assert contrast.power(100, 0.0) == pytest.approx(0.6826895, abs=1e-7)


@pytest.mark.parametrize("interval", [False, True])
@pytest.mark.parametrize("variances", [(1.0, 1.0), (0.3, 2.0), (2.0, 0.3)])
def test_repeats_and_power_are_inverse(variances, interval):
    contrast = Contrast(0.2, 0.05, scatter(variances, 1e-4), interval)
    for significance, power in ((2.0, 0.8), (5.0, 0.99)):
        repeats = contrast.least_repeats(significance, power)
        assert contrast.power(repeats, significance) >= power
        assert contrast.power(repeats - 1, significance) < power


def test_significance_and_power_are_inverse():
    contrast = Contrast(0.2, 0.05, scatter((0.3, 2.0), 1e-4))
    for repeats in (3, 40, 900):
        for power in (0.1, 0.5, 0.95):
            found = contrast.power(repeats, contrast.significance(repeats, power))
            assert found == pytest.approx(power, abs=1e-9)


def test_no_repeats_suffice_within_the_doubt_or_the_error_of_the_prediction():
    assert Contrast(0.2, 0.2, scatter((1.0, 1.0))).least_repeats(1.0, 0.9) is None
    assert Contrast(0.2, 0.0, scatter((1.0, 1.0), 0.1**2)).least_repeats(1.0, 0.9) is None


def test_power_is_that_of_simulated_decisions():
    """Either theory is true and off by the doubt, the worst case; the other one is to be excluded.

    The smaller of the two shares is the power.
    """
    generator = np.random.default_rng(0)
    change = 0.5
    doubt = 0.1
    variances = (1.0, 3.0)
    floor = 0.005
    repeats = 40
    z = 1.2
    shares = []
    for true, other in ((0, 1), (1, 0)):
        errors = [math.sqrt(variances[which] / repeats + floor) for which in (true, other)]
        sign = 1 - 2 * true
        measured = sign * change + errors[0] * generator.standard_normal(SIMULATED)
        excluded = np.abs(measured) > z * errors[1] + doubt
        shares.append(np.mean(excluded))
    power = Contrast(change, doubt, scatter(variances, floor)).power(repeats, z)
    assert power == pytest.approx(min(shares), abs=0.004)
