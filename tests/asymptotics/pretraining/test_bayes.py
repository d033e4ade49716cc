"""Bayes estimators against numerical integration over the Marchenko-Pastur law."""

import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import bayes_error, dmmse_errors

# quad is asked for 1e-12; measured worst 1.5e-11 (alpha = 1, where the edge is hard).
INTEGRATION = 1e-9


def average(f, alpha):
    """Average of f(s) over s = alpha * eigenvalue, from the density as defined."""
    c = 1 / alpha
    lower = (1 - math.sqrt(c)) ** 2
    upper = (1 + math.sqrt(c)) ** 2

    def integrand(angle):
        x = (lower + upper) / 2 + (upper - lower) / 2 * math.cos(angle)
        density = math.sqrt(max((upper - x) * (x - lower), 0.0)) / (2 * math.pi * c * x)
        return f(alpha * x) * density * (upper - lower) / 2 * math.sin(angle)

    continuous = quad(integrand, 0, math.pi, epsabs=1e-12, epsrel=1e-12, limit=200)[0]
    return float(continuous + max(0.0, 1 - alpha) * f(0.0))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("rho", [1e-3, 0.3, 5.0])
def test_ridge_regression_error_is_the_posterior_variance(alpha, rho):
    expected = rho + average(lambda s: rho / (s + rho), alpha)
    assert bayes_error(alpha=alpha, rho=rho) == pytest.approx(expected, rel=INTEGRATION)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("number", [float, mpmath.mpf])
def test_without_noise_only_unseen_directions_cost(alpha, number):
    error = bayes_error(alpha=number(alpha), rho=number(0))
    assert error == pytest.approx(max(0.0, 1 - alpha), abs=1e-15)
    if alpha < math.inf:  # as sqrt(rho) at alpha = 1
        assert bayes_error(alpha=alpha, rho=1e-14) == pytest.approx(float(error), abs=2e-7)


def test_infinite_context_leaves_the_noise():
    assert bayes_error(alpha=math.inf, rho=0.25) == 0.25


def test_bayes_error_is_exact():
    # alpha = 1: e - rho solves m^2 + rho m = rho.
    exact = bayes_error(alpha=sympy.Integer(1), rho=sympy.Rational(1, 4))
    assert sympy.simplify(exact - (1 + sympy.sqrt(17)) / 8) == 0
    with mpmath.workdps(50):
        value = bayes_error(alpha=mpmath.mpf(1), rho=mpmath.mpf(1) / 4)
        assert abs(value - (1 + mpmath.sqrt(17)) / 8) < mpmath.mpf(10) ** -49


def information(alpha, rho):
    return average(lambda s: math.log1p(s / rho), alpha) / 2


def frozen_error(theta, alpha, rho, d=math.inf):
    """Integral form: find the apparent noise b with these many tasks, then the error."""

    def needed(b):
        cost = average(
            lambda s: b / (s + b) - 1 + s * (s + rho) / (s + b) ** 2 + math.log1p(s / b), alpha
        )
        if math.isinf(d):
            return cost / 2
        variance = average(
            lambda s: (s / (s + b)) ** 2 / 2 + b * s * (s + rho) / (s + b) ** 3, alpha
        )
        return (cost + math.log(max(2 * math.pi * d * variance, 1.0)) / d) / 2

    log_b = brentq(lambda u: needed(math.exp(u)) - theta, math.log(rho), 40.0, xtol=1e-14)
    b = math.exp(log_b)
    # The posterior weights p have E sum p^2 = 1 - rho/b: they share the variance b/(s + b).
    return rho + average(
        lambda s: (b**2 + rho * s) / (s + b) ** 2 + (1 - rho / b) * b / (s + b), alpha
    )


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("rho", [0.05, 0.5])
@pytest.mark.parametrize("fraction", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("d", [30.0, math.inf])
def test_frozen_phase_equals_the_integral_form(alpha, rho, fraction, d):
    theta = fraction * information(alpha, rho)
    errors = dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=d)
    assert errors.icl == pytest.approx(frozen_error(theta, alpha, rho, d), rel=INTEGRATION)
    assert errors.idg == rho


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_freezing_is_continuous_for_fresh_tasks_only(alpha, rho):
    edge = information(alpha, rho)
    ridge = bayes_error(alpha=alpha, rho=rho)
    around = dmmse_errors(theta=np.array([1 - 1e-9, 1 + 1e-9]) * edge, alpha=alpha, rho=rho)
    assert around.icl[1] == ridge
    assert around.icl[0] == pytest.approx(ridge, rel=1e-6)
    assert list(around.idg) == [rho, ridge]
    # The finite size corrects the ICL error only.
    sized = dmmse_errors(theta=np.array([0.99, 1.01]) * edge, alpha=alpha, rho=rho, dim=30)
    assert list(sized.idg) == [rho, ridge]
    assert sized.icl[1] > ridge


FEW_TASK_SIMULATIONS = [
    (40, 40, 1.705, 0.022),
    (100, 100, 1.842, 0.017),
    (200, 200, 1.973, 0.013),
    (100, 1000, 1.771, 0.026),
]
"""d, k, simulated dMMSE ICL error and its standard error, alpha = 1, rho = 0.3."""
CORRECTION_LEFT = 0.02
"""What the leading correction leaves at these sizes; measured 0.5 to 1.7 %."""


def test_corrected_limit_meets_simulations():
    for d, k, error, se in FEW_TASK_SIMULATIONS:
        theory = dmmse_errors(theta=math.log(k) / d, alpha=1.0, rho=0.3, dim=d).icl
        assert abs(theory - error) < 3 * se + CORRECTION_LEFT * error


def test_few_tasks_are_worse_than_predicting_zero():
    """theta -> 0: 2 + rho, approached as sqrt(theta)."""
    assert dmmse_errors(theta=0, alpha=1, rho=0.3).icl == 2.3
    theta = np.array([1e-4, 1e-6, 1e-8])
    missing = 2.3 - dmmse_errors(theta=theta, alpha=1.0, rho=0.3).icl
    assert missing[:-1] / missing[1:] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("setting", [{"alpha": 1e-300, "rho": 0.1}, {"alpha": 2, "rho": 1e300}])
def test_contexts_that_tell_nothing(setting):
    """The error is that of predicting zero, 1 + rho, and twice the labels for few tasks."""
    none = 1 + setting["rho"]
    errors = dmmse_errors(theta=[0.0, 0.1], **setting)
    assert errors.icl == pytest.approx([2 + setting["rho"], none])
    assert errors.idg == pytest.approx([setting["rho"], none])
    near = dmmse_errors(theta=[0.0, 0.1], **setting, dim=20)
    assert near.icl[1] == pytest.approx(none)


def test_information_of_weak_contexts_joins_that_of_others():
    """alpha log(1 + 1/rho)/2 on both sides of the size where the formula changes."""
    for alpha in (1e-52, 1e-48):
        known = alpha * np.log1p(1 / 0.1) / 2
        idg = dmmse_errors(
            theta=[known * (1 - 1e-6), known * (1 + 1e-6)], alpha=alpha, rho=0.1
        ).idg
        assert idg == pytest.approx([0.1, 1.1])


@pytest.mark.parametrize("kappa", [0.6, 2.4])
def test_tasks_over_dimension_or_their_logarithm(kappa):
    point = {"alpha": 1.3, "rho": 0.3, "dim": 40}
    by_tasks = dmmse_errors(kappa=kappa, **point).icl
    by_theta = dmmse_errors(theta=math.log(kappa * 40) / 40, **point).icl
    assert by_tasks == pytest.approx(by_theta, rel=1e-11)
