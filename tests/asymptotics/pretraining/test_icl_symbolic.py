"""The closed forms equal the published ones exactly, and SymPy can work with them.

The square root of the resolvent disappears in a rational parametrisation: choosing the value M of
the resolvent instead of kappa makes every formula rational, so that equality is decidable.
"""

import itertools

import pytest
import sympy

from iclimit.asymptotics.numbers import SymPyMath
from iclimit.asymptotics.pretraining import icl, icl_error, idg_error, task_gap

# Rational functions over the rationals: equality is exact, and fast.
_, tau, q, rho, M, xi, mu = sympy.field("tau, q, rho, M, xi, mu", sympy.QQ)


class FieldMath(SymPyMath):
    """What the library needs of a number system, for elements of that field."""

    def isinf(self, value):  # noqa: ARG002
        return False


def slope(value, at, kappa):
    """M' by implicit differentiation of (x/kappa) M^2 + (x + 1 - 1/kappa) M = 1."""
    return -(value**2 / kappa + value) / (2 * at * value / kappa + at + 1 - 1 / kappa)


def trace_form(tau, q, rho, kappa, xi, value):
    """ICL and IDG error as traces of resolvents, before any simplification."""
    nu = q + xi
    D = slope(value, nu, kappa)
    bias = 1 - 2 * nu * value - nu**2 * D
    Q = (rho + nu - nu**2 * value - xi * bias) / (tau - (1 - 2 * xi * value - xi**2 * D))
    icl_ = (1 + q) * (bias + Q * (value + xi * D)) - 2 * (1 - nu * value) + 1 + rho
    return icl_, tau * Q


def library_form(monkeypatch, kappa, at_xi, eta, value):
    """The library's errors with its resolvent replaced by a root of the same equation."""

    def resolvent(_, argument, ratio, offset):
        assert argument / ratio * value**2 + (argument + offset) * value == 1
        return value

    monkeypatch.setattr(icl, "resolvent", resolvent)
    return icl.errors_at(FieldMath(), tau, kappa, rho, q, at_xi, eta)


def test_many_prompts_ridgeless_equals_the_published_form(monkeypatch):
    kappa = M * (1 - q * M) / ((q + 1) * M - 1)
    D = slope(M, q, kappa)
    noise = rho + q * (1 - q * M)
    expected_icl = (
        rho + q * (1 - 2 * q * M - q**2 * D) - q**2 * D + (1 + q) * M * noise / (tau - 1)
    )
    expected = (expected_icl, tau / (tau - 1) * noise)
    assert library_form(monkeypatch, kappa, 0 * q, 1 - 1 / tau, M) == expected


def test_few_prompts_ridgeless_equals_the_published_form(monkeypatch):
    """With mu = q M_{kappa/tau}(q)."""
    kappa = tau * mu * (1 - mu) / ((q + 1) * mu - q)
    at_xi = (1 - tau) * q / (tau * mu)
    value = (1 - tau * (1 - mu)) / (q + at_xi)
    bracket = 1 - tau * (1 - mu) ** 2 - (q - rho) * mu / q
    expected_icl = tau * (1 + q) / (1 - tau) * bracket - 2 * tau * (1 - mu) + 1 + rho
    expected = (expected_icl, trace_form(tau, q, rho, kappa, at_xi, value)[1])
    assert library_form(monkeypatch, kappa, at_xi, 0 * q, value) == expected


def test_any_ridge_equals_the_trace_form(monkeypatch):
    """With eta = ridge/xi eliminated by the fixed point; xi and M stay free."""
    nu = q + xi
    kappa = M * (1 - nu * M) / ((nu + 1) * M - 1)
    values = library_form(monkeypatch, kappa, xi, 1 - (1 - xi * M) / tau, M)
    assert values == trace_form(tau, q, rho, kappa, xi, M)


RATIONAL_POINTS = list(
    itertools.product(
        [sympy.Rational(1, 3), sympy.Integer(2)],  # q
        [sympy.Rational(4, 5), sympy.Rational(11, 13)],  # where q M lies in its range
        [sympy.Rational(1, 4), sympy.Rational(3, 2)],  # tau
        [sympy.Integer(0), sympy.Rational(1, 10)],  # rho
    )
)


@pytest.mark.parametrize(("q_", "share", "tau_", "rho_"), RATIONAL_POINTS)
def test_public_functions_are_exact_at_rational_points(q_, share, tau_, rho_):
    """Where the root is rational, the public functions return the exact rational number."""
    q_M = (q_ + share) / (q_ + 1)  # lies between q/(1 + q) and 1
    scale = tau_ if tau_ < 1 else sympy.Integer(1)
    kappa = scale * q_M * (1 - q_M) / ((q_ + 1) * q_M - q_)
    at_xi = (1 - tau_) * q_ / (tau_ * q_M) if tau_ < 1 else sympy.Integer(0)
    value = (1 - scale * (1 - q_M)) / (q_ + at_xi)
    expected = trace_form(tau_, q_, rho_, kappa, at_xi, value)
    point = {"tau": tau_, "alpha": (1 + rho_) / q_, "kappa": kappa, "rho": rho_}
    assert icl_error(**point) == expected[0]
    assert idg_error(**point) == expected[1]
    assert task_gap(**point) == expected[0] - expected[1]


POSITIVE = {name: sympy.Symbol(name, positive=True) for name in ("tau", "alpha", "kappa", "rho")}


@pytest.mark.parametrize("function", [icl_error, idg_error])
def test_symbolic_tau_gives_both_cases_and_latex(function):
    expression = function(**POSITIVE)
    assert isinstance(expression, sympy.Piecewise)
    assert expression.free_symbols == set(POSITIVE.values())
    latex = sympy.latex(expression)
    assert r"\begin{cases}" in latex
    for symbol in (r"\tau", r"\alpha", r"\kappa", r"\rho"):
        assert symbol in latex


@pytest.mark.parametrize("tau_value", [0.3, 1.6])
def test_substituting_numbers_equals_calling_with_numbers(tau_value):
    point = {"tau": tau_value, "alpha": 2.0, "kappa": 0.7, "rho": 0.2}
    substituted = icl_error(**POSITIVE).subs({POSITIVE[n]: v for n, v in point.items()})
    # One rounding per operation of the printed form.
    assert float(substituted) == pytest.approx(icl_error(**point), rel=1e-12)


def test_series_in_the_inverse_number_of_tasks():
    """Expansion at kappa = inf, tau > 1: section "1/kappa series" of the theory page."""
    x = sympy.Symbol("x", positive=True)
    t = sympy.Integer(2)
    r = sympy.Rational(1, 4)
    a = sympy.Rational(5, 6)
    y = (1 + r) / a
    value = icl_error(tau=t, alpha=a, kappa=1 / x, rho=r)
    series = sympy.series(value, x, 0, 2).removeO()
    constant = t * (y * r + y + r) / ((1 + y) * (t - 1))
    linear = (y**2 * t - 2 * y**2 + y * r + y + r) / ((1 + y) ** 3 * (t - 1))
    assert sympy.simplify(series - constant - linear * x) == 0


def test_residue_at_the_interpolation_threshold():
    """(tau - 1) e_ICL tends to (1 + q) M (rho + q - q^2 M) from above."""
    step = sympy.Symbol("step", positive=True)
    value = icl_error(tau=1 + step, alpha=1, kappa=sympy.Rational(3, 2), rho=1)
    m = (sympy.sqrt(97) - 7) / 8  # q = 2: root of (4/3) m^2 + (7/3) m = 1
    residue = sympy.limit(step * value, step, 0, "+")
    assert sympy.simplify(residue - 3 * m * (3 - 4 * m)) == 0


def test_exact_divergence_at_infinite_context():
    """Both errors diverge at kappa = tau < 1, as for floats."""
    half = sympy.Rational(1, 2)
    point = {"tau": half, "alpha": sympy.oo, "kappa": half, "rho": half}
    assert icl_error(**point) == idg_error(**point) == task_gap(**point) == sympy.oo
