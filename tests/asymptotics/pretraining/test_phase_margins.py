"""Slopes of the errors against multiprecision differences of the errors."""

import mpmath as mp
import numpy as np
import pytest

from iclimit import asymptotics
from iclimit.asymptotics.pretraining import context_slope, ridge_slope

SETTINGS = [
    (tau, alpha, kappa, rho)
    for tau, kappa in ((0.4, 0.2), (0.4, 3.0), (2.5, 0.5), (8.0, 1.5), (5.0, np.inf))
    for alpha, rho in ((0.7, 0.0), (20.0, 0.3))
]
"""Below and above both thresholds, with and without noise."""


def exact(**setting):
    return {name: mp.mpf(value) for name, value in setting.items()}


@pytest.mark.parametrize("ridge", [0.0, 0.05])
@pytest.mark.parametrize("objective", ["icl", "idg"])
def test_context_slope_is_proportional_to_the_derivative(objective, ridge):
    """The factor is positive, and the same for both errors."""
    factors = []
    for tau, alpha, kappa, rho in SETTINGS:
        with mp.workdps(30):
            setting = exact(tau=tau, kappa=kappa, rho=rho, ridge=ridge)
            both = []
            for name in (objective, "idg"):
                error = getattr(asymptotics.pretraining, f"{name}_error")
                derivative = alpha * mp.diff(lambda a, e=error, s=setting: e(alpha=a, **s), alpha)
                slope = context_slope(
                    tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge, objective=name
                )
                both.append(float(slope / derivative))
            factors.append(both)
    assert np.all(np.array(factors) > 0)
    ours, other = np.transpose(factors)
    np.testing.assert_allclose(ours, other, rtol=1e-11)


@pytest.mark.parametrize("objective", ["icl", "idg"])
def test_ridge_slope_is_proportional_to_the_derivative(objective):
    factors = []
    for tau, alpha, kappa, rho in SETTINGS:
        with mp.workdps(40):
            setting = exact(tau=tau, alpha=alpha, kappa=kappa, rho=rho)
            small = mp.mpf(10) ** -25
            both = []
            for name in (objective, "idg"):
                error = getattr(asymptotics.pretraining, f"{name}_error")
                derivative = (error(**setting, ridge=small) - error(**setting)) / small
                slope = ridge_slope(tau=tau, alpha=alpha, kappa=kappa, rho=rho, objective=name)
                both.append(float(slope / derivative))
            factors.append(both)
    assert np.all(np.array(factors) > 0)
    ours, other = np.transpose(factors)
    np.testing.assert_allclose(ours, other, rtol=1e-11)


@pytest.mark.parametrize("objective", ["icl", "idg"])
def test_slopes_are_continuous_at_the_interpolation_threshold(objective):
    tau = np.array([1 - 1e-9, 1, 1 + 1e-9])
    setting = {"alpha": 3.0, "kappa": 0.5, "rho": 0.1, "objective": objective}
    for slope in (context_slope(tau=tau, **setting), ridge_slope(tau=tau, **setting)):
        np.testing.assert_allclose(slope, slope[1], rtol=1e-7)
    # There a ridge always helps.
    assert np.all(ridge_slope(tau=1.0, **setting) < 0)


def test_slopes_take_multiprecision_numbers():
    setting = {"tau": 2.0, "alpha": 3.0, "kappa": 0.5, "rho": 0.1}
    for slope in (context_slope, ridge_slope):
        with mp.workdps(40):
            assert abs(slope(**exact(**setting)) / slope(**setting) - 1) < 1e-13


@pytest.mark.parametrize("objective", ["icl", "idg"])
@pytest.mark.parametrize(("tau", "alpha", "kappa", "rho"), [row for row in SETTINGS if row[0] > 1])
def test_powers_of_the_denominator_beyond_the_threshold(tau, alpha, kappa, rho, objective):
    """The slopes are derivatives times the power of 1 - 1/tau that the docstrings state."""
    error = getattr(asymptotics.pretraining, f"{objective}_error")
    setting = {"tau": tau, "kappa": kappa, "rho": rho}
    left = 1 - 1 / tau
    with mp.workdps(40):
        numbers = exact(**setting)
        by_context = mp.diff(lambda a: error(alpha=a, **numbers), alpha)
        numbers = exact(**setting, alpha=alpha)
        by_ridge = mp.diff(lambda r: error(ridge=r, **numbers), 0, direction=1)
    slope = context_slope(**setting, alpha=alpha, objective=objective)
    assert slope == pytest.approx(float(left * alpha * by_context), rel=1e-10)
    slope = ridge_slope(**setting, alpha=alpha, objective=objective)
    assert slope == pytest.approx(float(left**3 * by_ridge), rel=1e-9)
