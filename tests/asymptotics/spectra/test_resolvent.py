"""The Wishart resolvent against high precision, its equation, and actual Wishart matrices."""

import math

import mpmath
import numpy as np
import pytest
import sympy

from iclimit.asymptotics.spectra import wishart_resolvent

QS = [1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 0.5, 1.0, 7.3, 1e3, 1e8]
KAPPAS = [1e-3, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 1.6, 1e4, math.inf]
DIGITS = 120
"""Of the reference: the naive root loses up to 20 digits, and differentiation a third of them."""

# Documented: 1e-14. Measured worst over the grid: 3e-16 (value), 8e-16 and 1.3e-15 (derivatives).
FLOAT64 = 1e-14
# 50 digits are asked for; measured worst 2.6e-51.
FIFTY_DIGITS = mpmath.mpf(10) ** -48


def naive(q, kappa):
    """Textbook root of the quadratic, full of cancellations, which precision pays for."""
    if mpmath.isinf(kappa):
        return 1 / (1 + q)
    b = q + 1 - 1 / kappa
    return (-b + mpmath.sqrt(b**2 + 4 * q / kappa)) / (2 * q / kappa)


def reference(q, kappa, derivative):
    with mpmath.workdps(DIGITS):
        point = mpmath.mpf(q)
        ratio = mpmath.mpf(kappa)
        step = min(point, mpmath.mpf(1)) * mpmath.mpf(10) ** -30
        if derivative == 0:
            return naive(point, ratio)
        return mpmath.diff(lambda x: naive(x, ratio), point, derivative, h=step)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_float64_against_high_precision(kappa, derivative):
    values = wishart_resolvent(np.array(QS), kappa=kappa, derivative=derivative)
    for q, value in zip(QS, values, strict=True):
        exact = reference(q, kappa, derivative)
        assert abs(mpmath.mpf(float(value)) / exact - 1) < FLOAT64, q


def test_mpmath_has_the_digits_it_is_asked_for():
    for kappa in KAPPAS:
        for q in QS:
            with mpmath.workdps(50):
                value = wishart_resolvent(mpmath.mpf(q), kappa=mpmath.mpf(kappa))
            with mpmath.workdps(DIGITS):
                assert abs(value / reference(q, kappa, 0) - 1) < FIFTY_DIGITS, q


@pytest.mark.parametrize("derivative", [0, 1, 2])
def test_quadratic_equation_and_its_derivatives_exactly(derivative):
    """Differentiating the equation m times and inserting the library's expressions gives 0."""
    q, kappa = sympy.symbols("q kappa", positive=True)
    M = sympy.Function("M")(q)
    equation = (q / kappa * M**2 + (q + 1 - 1 / kappa) * M - 1).diff(q, derivative)
    for order in (2, 1, 0):
        equation = equation.subs(
            M.diff(q, order), wishart_resolvent(q, kappa=kappa, derivative=order)
        )
    # A polynomial in the only square root s, which vanishes by what s^2 is.
    (root,) = {power for power in equation.atoms(sympy.Pow) if power.exp == sympy.Rational(1, 2)}
    s = sympy.Symbol("s")
    numerator = sympy.together(equation.subs(root, s)).as_numer_denom()[0]
    remainder = sympy.rem(sympy.expand(numerator), s**2 - root.base, s)
    assert sympy.expand(sympy.together(remainder).as_numer_denom()[0]) == 0


@pytest.mark.parametrize(
    ("kappa", "derivative", "expected"),
    [
        (0.5, 0, math.inf),
        (1.0, 0, math.inf),
        (2.0, 0, 2.0),  # 1/(1 - 1/kappa)
        (math.inf, 0, 1.0),
        (0.5, 1, -math.inf),
        (1.0, 1, -math.inf),
        (2.0, 1, -8.0),  # minus the second inverse moment, (1 - 1/kappa)^-3
        (math.inf, 1, -1.0),
        (0.5, 2, math.inf),
        (1.0, 2, math.inf),
        (2.0, 2, 96.0),  # twice the third inverse moment, (1 + 1/kappa)(1 - 1/kappa)^-5
        (math.inf, 2, 2.0),
    ],
)
@pytest.mark.parametrize("number", [float, mpmath.mpf, sympy.nsimplify])
def test_zero_argument(kappa, derivative, expected, number):
    infinite = sympy.oo if number is sympy.nsimplify else number(math.inf)
    kappa_ = infinite if kappa == math.inf else number(kappa)
    assert float(wishart_resolvent(number(0), kappa=kappa_, derivative=derivative)) == expected


def test_infinite_argument_vanishes():
    assert np.all(wishart_resolvent(math.inf, kappa=np.array(KAPPAS)) == 0)


# Relative fluctuations of a normalised trace are O(1/d); measured worst 4.9/d (M'', kappa = 3).
TRACE_ALLOWANCE = 10.0


def test_trace_of_an_actual_wishart_resolvent():
    for kappa in (0.5, 1.0, 3.0):
        d = 400
        q = 0.3
        tasks = np.random.default_rng(7).standard_normal((int(kappa * d), d))
        inverse = np.linalg.inv(tasks.T @ tasks / len(tasks) + q * np.eye(d))
        for derivative, trace in enumerate(
            [np.trace(inverse), -np.sum(inverse**2), 2 * np.sum((inverse @ inverse) * inverse)]
        ):
            expected = wishart_resolvent(q, kappa=kappa, derivative=derivative)
            assert trace / d == pytest.approx(expected, rel=TRACE_ALLOWANCE / d)
