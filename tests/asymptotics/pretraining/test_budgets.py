"""Best splits of a budget against minima of the errors, found in other ways."""

import math

import mpmath
import numpy as np
import pytest
from refusals import value_error
from scipy.optimize import minimize, minimize_scalar
from stationary import assert_least

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    compute_optimal_pretraining,
    critical_budget,
    icl_error,
    structured_errors,
)

MANY = 1e12  # tasks over dimension
# A minimum of numbers with 16 digits is found to half of them, its value to all.
VALUE, PLACE = 1e-11, 1e-5


def unbeaten(error, best):
    """Assert that no split and ridge nearby, and none that Nelder and Mead find, are better."""
    start = [math.log(best.tau)] + [math.log(r) for r in [best.ridge] if r]
    for shift in (0.6, -0.6):
        found = minimize(
            lambda x: error(*np.exp(x)),
            np.array(start) + shift,
            method="Nelder-Mead",
            options={"xatol": 1e-8, "fatol": 1e-14, "maxfev": 300},
        )
        assert best.error <= found.fun * (1 + VALUE)
    expected = best.error
    assert error(best.tau, *[best.ridge] * bool(best.ridge)) == pytest.approx(expected, rel=VALUE)


@pytest.mark.parametrize(("budget", "rho"), [(0.3, 0.0), (7.0, 0.2), (60.0, 1.5), (1e4, 0.01)])
def test_joint_minimum_over_split_and_ridge(budget, rho):
    best = compute_optimal_pretraining(budget=budget, rho=rho)

    def error(tau, ridge):
        return icl_error(tau=tau, alpha=budget / tau, kappa=MANY, rho=rho, ridge=ridge)

    unbeaten(error, best)


@pytest.mark.parametrize(
    ("budget", "rho"), [(0.5, 0.0), (3.2, 0.1), (3.4, 0.1), (40.0, 0.7), (30, 2)]
)
def test_ridgeless_minimum_on_both_sides(budget, rho):
    best = compute_optimal_pretraining(budget=budget, rho=rho, ridge=0)

    def error(log_tau):
        tau = math.exp(log_tau)
        return icl_error(tau=tau, alpha=budget / tau, kappa=math.inf, rho=rho)

    sides = [(-20, -1e-6), (1e-6, 20)]
    least = [
        minimize_scalar(error, bounds=side, method="bounded", options={"xatol": 1e-9})
        for side in sides
    ]
    assert best.error == pytest.approx(min(each.fun for each in least), rel=VALUE)
    side = np.argmin([each.fun for each in least])
    assert best.tau == pytest.approx(math.exp(least[side].x), rel=PLACE)
    assert best.alpha * best.tau == pytest.approx(budget, rel=1e-14)


def test_known_values():
    # Without noise: 4/(B + 4) with and 4 B/(B + 1)^2 without a ridge.
    B = np.array([5.0, 20.0, 1e8])
    with_ridge = compute_optimal_pretraining(budget=B, rho=0.0)
    np.testing.assert_allclose(with_ridge.error, 4 / (B + 4), rtol=1e-14)
    np.testing.assert_allclose(with_ridge.tau, 2 * B / (B + 2), rtol=1e-14)
    without = compute_optimal_pretraining(budget=B, rho=0.0, ridge=0)
    np.testing.assert_allclose(without.error, 4 * B / (B + 1) ** 2, rtol=1e-14)
    # A referee's numbers.
    best = compute_optimal_pretraining(budget=[7.0, 60.0], rho=[0.2, 1.5])
    np.testing.assert_allclose(best.error, [0.69108823, 1.92857143], rtol=0, atol=2e-7)
    np.testing.assert_allclose(best.tau, [1.898509, 6.545455], rtol=1e-6)
    low = compute_optimal_pretraining(budget=3.0, rho=0.0, ridge=0)
    assert (round(low.error, 4), round(low.tau, 3)) == (0.7135, 0.481)


def test_the_jump():
    rho = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    critical = critical_budget(rho)
    known = [3.569, 3.401, 3.322, 3.281, 3.311, 3.460, 3.661, 3.884]
    np.testing.assert_allclose(critical, known, rtol=0, atol=6e-4)
    below, above = (
        compute_optimal_pretraining(budget=critical * factor, rho=rho, ridge=0)
        for factor in (1 - 1e-9, 1 + 1e-9)
    )
    assert np.all(below.tau < 1)
    assert np.all(above.tau > 1)
    np.testing.assert_allclose(below.error, above.error, rtol=1e-8)


def test_no_pretraining_beats_zero_without_a_ridge_for_much_noise():
    nothing = compute_optimal_pretraining(budget=[3.9, 8.9], rho=[1.0, 2.0], ridge=0)
    np.testing.assert_array_equal(nothing.tau, 0)
    np.testing.assert_array_equal(nothing.alpha, math.inf)
    np.testing.assert_array_equal(nothing.error, [2.0, 3.0])
    assert compute_optimal_pretraining(budget=9.1, rho=2.0, ridge=0).error < 3


@pytest.mark.parametrize("ridge", ["optimal", 0])
@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.5, 1.0, 30.0])
def test_fifty_digits_and_the_exponent(rho, ridge):
    for budget in (1e-3, 3.0, 12.0, 1e10):
        best = compute_optimal_pretraining(budget=budget, rho=rho, ridge=ridge)
        with mpmath.workdps(50):
            B = mpmath.mpf(budget)
            noise = mpmath.mpf(rho)
            exact = compute_optimal_pretraining(budget=B, rho=noise, ridge=ridge)
            step = mpmath.mpf("1e-15")
            pair = [
                compute_optimal_pretraining(budget=B * (1 + s), rho=noise, ridge=ridge).error
                for s in (step, -step)
            ]
            slope = (mpmath.log(pair[1] - noise) - mpmath.log(pair[0] - noise)) / (2 * step)
        for name in ("error", "tau", "alpha", "ridge", "exponent"):
            assert getattr(best, name) == pytest.approx(float(getattr(exact, name)), rel=1e-13)
        assert float(exact.exponent) == pytest.approx(float(slope), rel=1e-12, abs=1e-25)


def test_exponents_of_large_budgets():
    quiet, noisy = (compute_optimal_pretraining(budget=1e12, rho=rho) for rho in (0.0, 0.3))
    assert quiet.exponent == pytest.approx(1, abs=1e-5)
    assert noisy.exponent == pytest.approx(0.5, abs=1e-5)
    assert noisy.tau == pytest.approx(math.sqrt(0.3e12 / 1.3), rel=1e-5)


@pytest.mark.parametrize("ridge", ["optimal", 0.0, 0.05])
def test_few_tasks(ridge):
    at = {"rho": 0.1, "kappa": 2.0}
    best = compute_optimal_pretraining(budget=20.0, **at, ridge=ridge)
    free = ridge == "optimal"

    def error(tau, own=0.0 if free else ridge):
        return icl_error(tau=tau, alpha=20 / tau, **at, ridge=own)

    if free:
        unbeaten(error, best)
    taus = np.geomspace(1e-3, 1e5, 20_001)
    assert best.error <= error(taus).min() * (1 + VALUE)
    # Budgets nearby, searched on their own.
    low, high = (
        compute_optimal_pretraining(budget=20 * b, **at, ridge=ridge) for b in (0.99, 1.01)
    )
    slope = math.log((low.error - 0.1) / (high.error - 0.1)) / math.log(1.01 / 0.99)
    assert best.exponent == pytest.approx(slope, rel=1e-3)


def test_search_is_the_closed_form_for_many_tasks():
    budget, rho = np.meshgrid([0.7, 3.0, 50.0], [0.0, 0.4])
    for ridge in ("optimal", 0.0):
        exact = compute_optimal_pretraining(budget=budget, rho=rho, ridge=ridge)
        search = compute_optimal_pretraining(budget=budget, rho=rho, ridge=ridge, kappa=MANY)
        np.testing.assert_allclose(search.error, exact.error, rtol=VALUE)
        np.testing.assert_allclose(search.tau, exact.tau, rtol=PLACE)
        np.testing.assert_allclose(search.ridge, exact.ridge, rtol=PLACE)
        np.testing.assert_allclose(search.exponent, exact.exponent, atol=1e-6)


def test_structured_data_and_fixed_tests():
    spectrum = JointSpectrum.of_matrices(np.linspace(0.1, 1.9, 7))
    for test_alpha in (2.0, 9.0):  # best without and with a ridge
        at = {"rho": 0.3, "kappa": 3.0, "test_alpha": test_alpha, "spectrum": spectrum}
        best = compute_optimal_pretraining(budget=20.0, **at)

        def error(tau, ridge=0.0, at=at):
            return structured_errors(tau=tau, alpha=20 / tau, **at, ridge=ridge).icl

        unbeaten(error, best)
        assert best.error <= error(best.tau, np.geomspace(1e-6, 1, 200)).min() * (1 + VALUE)


def test_other_costs():
    def cost(tau, alpha):
        return tau * alpha**2 + tau

    best = compute_optimal_pretraining(budget=20.0, rho=0.1, cost_law=cost)
    assert cost(best.tau, best.alpha) == pytest.approx(20, rel=1e-9)
    same = compute_optimal_pretraining(
        budget=20.0, rho=0.1, cost_law=lambda tau, alpha: tau * alpha
    )
    plain = compute_optimal_pretraining(budget=20.0, rho=0.1)
    assert same.error == pytest.approx(plain.error, rel=1e-9)

    def error(tau, ridge):
        alpha = math.sqrt(max(20 / tau - 1, 1e-9))
        return icl_error(tau=tau, alpha=alpha, kappa=MANY, rho=0.1, ridge=ridge)

    unbeaten(error, best)


def test_refusals():
    value_error("ridge must be", compute_optimal_pretraining, budget=1.0, rho=0.1, ridge="best")
    value_error("budget must be > 0", compute_optimal_pretraining, budget=0.0, rho=0.1)
    with pytest.raises(ValueError, match="budget must pay for some prompts, got 5"):
        compute_optimal_pretraining(
            budget=5.0, rho=0.1, cost_law=lambda tau, alpha: tau + alpha + 9
        )


@pytest.mark.parametrize(("budget", "power"), [(8.0, 1.2), (40.0, 1.5)])
def test_split_of_structured_data_with_another_cost_is_stationary(budget, power):
    spectrum = JointSpectrum(
        task=np.array([1.5, 0.5, 0.9]),
        test=np.array([0.4, 1.2, 0.8]),
        inputs=np.ones(3),
        weight=np.array([0.3, 0.5, 0.2]),
    )
    law = {"rho": 0.3, "kappa": 1.5, "ridge": 0.2, "test_alpha": 3.0, "spectrum": spectrum}
    best = compute_optimal_pretraining(
        budget=budget, **law, cost_law=lambda tau, alpha: tau**power * alpha
    )
    assert_least(
        lambda tau: structured_errors(tau=tau, alpha=budget / tau**power, **law).icl,
        [best.tau],
        best.error,
    )
