"""Bayes estimators against numerical integration over the Marchenko-Pastur law."""

import math
from collections.abc import Callable
from typing import Any

import array_api_strict
import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from scipy.optimize import brentq

from iclimit.asymptotics import bayes_error, dmmse_errors

# quad is asked for 1e-12; measured worst 1.5e-11 (alpha = 1, where the edge is hard).
INTEGRATION = 1e-9


def average(f: Callable[[float], float], alpha: float) -> float:
    """Average of f(s) over s = alpha * eigenvalue, from the density as defined."""
    c = 1 / alpha
    lower, upper = (1 - math.sqrt(c)) ** 2, (1 + math.sqrt(c)) ** 2

    def integrand(angle: float) -> float:
        x = (lower + upper) / 2 + (upper - lower) / 2 * math.cos(angle)
        density = math.sqrt(max((upper - x) * (x - lower), 0.0)) / (2 * math.pi * c * x)
        return f(alpha * x) * density * (upper - lower) / 2 * math.sin(angle)

    continuous = quad(integrand, 0, math.pi, epsabs=1e-12, epsrel=1e-12, limit=200)[0]
    return float(continuous + max(0.0, 1 - alpha) * f(0.0))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("rho", [1e-3, 0.3, 5.0])
def test_ridge_regression_error_is_the_posterior_variance(alpha: float, rho: float) -> None:
    expected = rho + average(lambda s: rho / (s + rho), alpha)
    assert bayes_error(alpha=alpha, rho=rho) == pytest.approx(expected, rel=INTEGRATION)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("number", [float, mpmath.mpf])
def test_without_noise_only_unseen_directions_cost(alpha: float, number: Any) -> None:
    error = bayes_error(alpha=number(alpha), rho=number(0))
    assert error == pytest.approx(max(0.0, 1 - alpha), abs=1e-15)
    if alpha < math.inf:  # as sqrt(rho) at alpha = 1
        assert bayes_error(alpha=alpha, rho=1e-14) == pytest.approx(float(error), abs=2e-7)


def test_infinite_context_leaves_the_noise() -> None:
    assert bayes_error(alpha=math.inf, rho=0.25) == 0.25


def test_bayes_error_in_every_number_system() -> None:
    alpha = np.array([0.5, 2.0])
    strict = bayes_error(alpha=array_api_strict.asarray(alpha), rho=0.25)
    assert np.array_equal(np.asarray(strict), bayes_error(alpha=alpha, rho=0.25))
    # alpha = 1: e - rho solves m^2 + rho m = rho.
    exact = bayes_error(alpha=sympy.Integer(1), rho=sympy.Rational(1, 4))
    assert sympy.simplify(exact - (1 + sympy.sqrt(17)) / 8) == 0
    with mpmath.workdps(50):
        value = bayes_error(alpha=mpmath.mpf(1), rho=mpmath.mpf(1) / 4)
        assert abs(value - (1 + mpmath.sqrt(17)) / 8) < mpmath.mpf(10) ** -49


def information(alpha: float, rho: float) -> float:
    return average(lambda s: math.log1p(s / rho), alpha) / 2


def frozen_error(theta: float, alpha: float, rho: float) -> float:
    """Integral form: find the apparent noise b with these many tasks, then the error."""

    def exponent(b: float) -> float:
        return average(
            lambda s: b / (s + b) - 1 + s * (s + rho) / (s + b) ** 2 + math.log1p(s / b), alpha
        )

    log_b = brentq(lambda u: exponent(math.exp(u)) / 2 - theta, math.log(rho), 40.0, xtol=1e-14)
    b = math.exp(log_b)
    return rho + average(lambda s: (b**2 + rho * s) / (s + b) ** 2 + b / (s + b), alpha)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("rho", [0.05, 0.5])
@pytest.mark.parametrize("fraction", [0.02, 0.5, 0.98])
def test_frozen_phase_equals_the_integral_form(alpha: float, rho: float, fraction: float) -> None:
    theta = fraction * information(alpha, rho)
    errors = dmmse_errors(theta=theta, alpha=alpha, rho=rho)
    assert errors.icl == pytest.approx(frozen_error(theta, alpha, rho), rel=INTEGRATION)
    assert errors.idg == rho


@pytest.mark.parametrize("alpha", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_jump_at_the_information_of_a_context(alpha: float, rho: float) -> None:
    """From twice the excess error of ridge regression to the excess error itself."""
    edge = information(alpha, rho)
    ridge = bayes_error(alpha=alpha, rho=rho)
    below, above = dmmse_errors(
        theta=np.array([1 - 1e-9, 1 + 1e-9]) * edge, alpha=alpha, rho=rho
    ).icl
    assert above == ridge
    assert below - rho == pytest.approx(2 * (ridge - rho), rel=1e-6)
    assert dmmse_errors(theta=edge * (1 + 1e-9), alpha=alpha, rho=rho).idg == ridge


def test_few_tasks_are_worse_than_predicting_zero() -> None:
    """theta -> 0: 2 + rho, approached as sqrt(theta)."""
    assert dmmse_errors(theta=0, alpha=1, rho=0.3).icl == 2.3
    theta = np.array([1e-4, 1e-6, 1e-8])
    missing = 2.3 - dmmse_errors(theta=theta, alpha=1.0, rho=0.3).icl
    assert missing[:-1] / missing[1:] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize(
    ("kappa", "d", "expected"),
    [(1, 40, 1.685), (1, 100, 1.846), (1, 200, 1.947), (10, 100, 1.757)],
)
def test_table_of_the_theory_page(kappa: int, d: int, expected: float) -> None:
    errors = dmmse_errors(theta=math.log(kappa * d) / d, alpha=1.0, rho=0.3)
    assert errors.icl == pytest.approx(expected, abs=6e-4)  # three printed decimals


def test_dmmse_broadcasts() -> None:
    theta, alpha = np.array([[0.0], [0.05], [3.0]]), np.array([0.5, 2.0])
    errors = dmmse_errors(theta=theta, alpha=alpha, rho=0.2)
    assert errors.icl.shape == errors.idg.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        single = dmmse_errors(theta=theta[i, 0], alpha=alpha[j], rho=0.2)
        assert errors.icl[i, j] == pytest.approx(single.icl, rel=1e-12)
        assert errors.idg[i, j] == single.idg
