"""The closed forms equal the published ones exactly, and SymPy can work with them.

The square root of the resolvent disappears in a rational parametrisation: choosing the value M of
the resolvent instead of kappa makes every formula rational, so that equality is decidable.
"""

import itertools
from typing import Any

import mpmath
import pytest
import sympy

from iclimit.asymptotics import icl, icl_error, idg_error, task_gap
from iclimit.asymptotics.numbers import SymPyMath

tau, q, rho, M, xi = sympy.symbols("tau q rho M xi", positive=True)


def vanishes(rational: Any) -> bool:
    """Decide whether a rational function is zero."""
    return sympy.factor(rational) == 0


def slope(value: Any, at: Any, kappa: Any) -> Any:
    """M' by implicit differentiation of (x/kappa) M^2 + (x + 1 - 1/kappa) M = 1."""
    return -(value**2 / kappa + value) / (2 * at * value / kappa + at + 1 - 1 / kappa)


def published(kappa: Any, at_xi: Any, value: Any) -> tuple[Any, Any]:
    """Trace form of the errors; ridgeless above tau = 1 it is the paper's at at_xi = 0."""
    nu = q + at_xi
    D = slope(value, nu, kappa)
    bias = 1 - 2 * nu * value - nu**2 * D
    top = rho + nu - nu**2 * value - at_xi * bias
    Q = top / (tau - (1 - 2 * at_xi * value - at_xi**2 * D))
    icl_ = (1 + q) * (bias + Q * (value + at_xi * D)) - 2 * (1 - nu * value) + 1 + rho
    return icl_, tau * Q


def errors_at(
    monkeypatch: pytest.MonkeyPatch, kappa: Any, at_xi: Any, eta: Any, value: Any
) -> tuple[Any, Any]:
    """The library's errors with its resolvent replaced by a root of the same equation."""

    def resolvent(_: Any, argument: Any, ratio: Any, offset: Any) -> Any:
        equation = argument / ratio * value**2 + (argument + offset) * value - 1
        assert vanishes(equation)
        return value

    monkeypatch.setattr(icl, "resolvent", resolvent)
    return icl.errors_at(SymPyMath(), tau, kappa, rho, q, at_xi, eta)


def test_many_prompts_ridgeless_equals_the_published_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kappa = M * (1 - q * M) / ((q + 1) * M - 1)
    values = errors_at(monkeypatch, kappa, sympy.Integer(0), 1 - 1 / tau, M)
    D = slope(M, q, kappa)
    noise = rho + q * (1 - q * M)
    expected_icl = (
        rho + q * (1 - 2 * q * M - q**2 * D) - q**2 * D + (1 + q) * M * noise / (tau - 1)
    )
    assert vanishes(values[0] - expected_icl)
    assert vanishes(values[1] - tau / (tau - 1) * noise)


def test_few_prompts_ridgeless_equals_the_published_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mu = sympy.Symbol("mu", positive=True)  # q M_{kappa/tau}(q)
    kappa = tau * mu * (1 - mu) / ((q + 1) * mu - q)
    at_xi = (1 - tau) * q / (tau * mu)
    value = (1 - tau * (1 - mu)) / (q + at_xi)
    values = errors_at(monkeypatch, kappa, at_xi, sympy.Integer(0), value)
    bracket = 1 - tau * (1 - mu) ** 2 - (q - rho) * mu / q
    expected = tau * (1 + q) / (1 - tau) * bracket - 2 * tau * (1 - mu) + 1 + rho
    assert vanishes(values[0] - expected)
    assert vanishes(values[1] - published(kappa, at_xi, value)[1])


def test_any_ridge_equals_the_trace_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """With eta = ridge/xi eliminated by the fixed point; xi and M stay free."""
    nu = q + xi
    kappa = M * (1 - nu * M) / ((nu + 1) * M - 1)
    values = errors_at(monkeypatch, kappa, xi, 1 - (1 - xi * M) / tau, M)
    for value, expected in zip(values, published(kappa, xi, M), strict=True):
        assert vanishes(value - expected)


RATIONAL_POINTS = list(
    itertools.product(
        [sympy.Rational(1, 3), sympy.Integer(2)],  # q
        [sympy.Rational(4, 5), sympy.Rational(11, 13)],  # where mu lies in its range
        [sympy.Rational(1, 4), sympy.Rational(3, 2)],  # tau
        [sympy.Integer(0), sympy.Rational(1, 10)],  # rho
    )
)


@pytest.mark.parametrize(("q_", "share", "tau_", "rho_"), RATIONAL_POINTS)
def test_public_functions_are_exact_at_rational_points(
    q_: Any, share: Any, tau_: Any, rho_: Any
) -> None:
    """Where the root is rational, the public functions return the exact rational number."""
    mu = q_ / (q_ + 1) + share / (q_ + 1)  # q M lies between q/(1 + q) and 1
    scale = tau_ if tau_ < 1 else sympy.Integer(1)
    kappa = scale * mu * (1 - mu) / ((q_ + 1) * mu - q_)
    at_xi = (1 - tau_) * q_ / (tau_ * mu) if tau_ < 1 else sympy.Integer(0)
    value = (1 - scale * (1 - mu)) / (q_ + at_xi)
    expected = [e.subs({tau: tau_, q: q_, rho: rho_}) for e in published(kappa, at_xi, value)]
    point = {"tau": tau_, "alpha": (1 + rho_) / q_, "kappa": kappa, "rho": rho_}
    assert icl_error(**point) == expected[0]
    assert idg_error(**point) == expected[1]
    assert task_gap(**point) == expected[0] - expected[1]


POSITIVE = {name: sympy.Symbol(name, positive=True) for name in ("tau", "alpha", "kappa", "rho")}


@pytest.mark.parametrize("function", [icl_error, idg_error])
def test_symbolic_tau_gives_both_cases_and_latex(function: type) -> None:
    expression = function(**POSITIVE)
    assert isinstance(expression, sympy.Piecewise)
    assert expression.free_symbols == set(POSITIVE.values())
    latex = sympy.latex(expression)
    assert r"\begin{cases}" in latex
    for symbol in (r"\tau", r"\alpha", r"\kappa", r"\rho"):
        assert symbol in latex


@pytest.mark.parametrize("tau_value", [0.3, 1.6])
def test_substituting_numbers_equals_calling_with_numbers(tau_value: float) -> None:
    point = {"tau": tau_value, "alpha": 2.0, "kappa": 0.7, "rho": 0.2}
    substituted = icl_error(**POSITIVE).subs({POSITIVE[n]: v for n, v in point.items()})
    # One rounding per operation of the printed form.
    assert float(substituted) == pytest.approx(icl_error(**point), rel=1e-12)


def test_series_in_the_inverse_number_of_tasks() -> None:
    """Expansion at kappa = inf, tau > 1: section "1/kappa series" of the theory page."""
    x = sympy.Symbol("x", positive=True)
    t, r, a = sympy.Integer(2), sympy.Rational(1, 4), sympy.Rational(5, 6)
    y = (1 + r) / a
    value = icl_error(tau=t, alpha=a, kappa=1 / x, rho=r)
    series = sympy.series(value, x, 0, 2).removeO()
    constant = t * (y * r + y + r) / ((1 + y) * (t - 1))
    linear = (y**2 * t - 2 * y**2 + y * r + y + r) / ((1 + y) ** 3 * (t - 1))
    assert sympy.simplify(series - constant - linear * x) == 0


@pytest.mark.parametrize("side", [1, -1])
def test_residue_at_the_interpolation_threshold(side: int) -> None:
    """|tau - 1| e_ICL tends to (1 + q) M (rho + q - q^2 M) from both sides."""
    step = sympy.Symbol("step", positive=True)
    kappa, y = sympy.Rational(3, 2), sympy.Integer(2)
    m = (sympy.sqrt(201) - 7) / 8  # root of (4/3) m^2 + (7/3) m = 1
    value = icl_error(tau=1 + side * step, alpha=1, kappa=kappa, rho=1)
    if side < 0:  # both cases of a Piecewise; step > 0 decides
        value = value.subs(sympy.Lt(1 - step, 1), True)
    limit = sympy.limit(step * value, step, 0, "+")
    assert sympy.simplify(limit - (1 + y) * m * (1 + y - y**2 * m)) == 0


@pytest.mark.parametrize("ridge", [0.1, sympy.Symbol("ridge", positive=True)])
def test_positive_ridge_has_no_symbolic_form(ridge: Any) -> None:
    with pytest.raises(TypeError, match="ridge must be 0 for SymPy expressions"):
        icl_error(**POSITIVE, ridge=ridge)


def test_exact_divergence_at_infinite_context() -> None:
    """Both errors diverge at kappa = tau < 1, as for floats."""
    half = sympy.Rational(1, 2)
    point = {"tau": half, "alpha": sympy.oo, "kappa": half, "rho": half}
    assert icl_error(**point) == idg_error(**point) == task_gap(**point) == sympy.oo


def test_no_silent_nan() -> None:
    """At alpha = oo, kappa <= 1 SymPy cannot take the limit q -> 0 itself."""
    with pytest.raises(ArithmeticError, match="take sympy.limit, or pass numbers"):
        idg_error(tau=sympy.Integer(2), alpha=sympy.oo, kappa=sympy.Rational(1, 2), rho=0)


def test_mpmath_and_sympy_agree() -> None:
    half = sympy.Rational(1, 2)
    with mpmath.workdps(40):
        exact = icl_error(tau=sympy.Integer(2), alpha=half, kappa=half, rho=half).evalf(40)
        value = icl_error(tau=mpmath.mpf(2), alpha=0.5, kappa=0.5, rho=0.5)
        assert abs(value - mpmath.mpf(str(exact))) < mpmath.mpf("1e-37")
