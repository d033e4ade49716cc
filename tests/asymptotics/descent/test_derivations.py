"""Every displayed equation of the derivations holds, and the last one is the result."""

import re

import pytest
import sympy

from iclimit.asymptotics.descent import (
    derive_learning_rate,
    derive_schedule,
    derive_wishart_moment,
    learning_rate_loss,
    optimal_learning_rate,
    optimal_schedule,
)
from iclimit.asymptotics.descent.learning_rate import MOMENTS
from iclimit.asymptotics.spectra import Wishart, wishart_moment

N, d, eta, a, sigma, c, x = sympy.symbols("N d eta a sigma c lambda", positive=True)


def same(first, second):
    """Whether rational functions agree exactly, at rational points for every symbol."""
    difference = sympy.sympify(first) - second
    symbols = sorted(difference.free_symbols, key=str)
    return all(
        difference.subs({s: sympy.Rational(k + 7 * i, 3 + i) for i, s in enumerate(symbols)}) == 0
        for k in (2, 5, 11, 23)
    )


LOSS, LEAST = sympy.symbols(r"\mathcal{L} \mathcal{L}^*")


def check_text(derivation):
    latex = derivation.latex()
    assert latex.count(r"\[") == latex.count(r"\]") == len(derivation.steps)
    assert latex.count("{") == latex.count("}")
    for text, equation in derivation.steps:
        assert text in latex
        assert sympy.latex(equation.rhs) in latex
        assert text[-1] == ":" or text in ("that is,", "It is least at")
    assert derivation.result == derivation.steps[-1][1].rhs


@pytest.mark.parametrize("normalization", ["mean", "sum"])
@pytest.mark.parametrize("law", [None, *MOMENTS])
def test_learning_rate(law, normalization):
    derivation = derive_learning_rate(law, normalization=normalization)
    check_text(derivation)
    loss, slope, rate, least = (equation for _, equation in derivation.steps)
    moments = sympy.symbols("m_2 m_4", positive=True) if law is None else law
    setting = {"context": N, "dim": d, "input_law": moments, "noise_variance": sigma**2}
    setting |= {"task_variance": a**2, "normalization": normalization}
    assert same(loss.rhs, learning_rate_loss(eta, **setting))
    assert same(slope.lhs, sympy.diff(loss.rhs, eta))
    assert (slope.rhs, rate.lhs, least.lhs) == (0, eta, LEAST)
    assert loss.lhs == sympy.Function(LOSS.name)(eta)
    assert same(slope.lhs.subs(eta, rate.rhs), 0)
    assert same(least.rhs, loss.rhs.subs(eta, rate.rhs))
    best = optimal_learning_rate(**setting)
    assert same(rate.rhs, best.rate)
    assert same(derivation.result, best.loss)


def test_published_uniform_rate():
    rate = derive_learning_rate("uniform", normalization="sum").steps[2][1].rhs
    assert sympy.simplify(rate - 15 / (5 * (N + d) - 1 + 15 * sigma**2 / a**2)) == 0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_wishart_moment(order):
    """Each equation becomes true when the means are replaced by exact integers."""
    derivation = derive_wishart_moment(order)
    check_text(derivation)
    for context, dim in ((1, 1), (1, 5), (3, 2), (8, 1), (8, 5)):
        sizes = {N: context, d: dim}
        for _, equation in derivation.steps:
            values = dict(sizes)
            for symbol in equation.free_symbols - {N, d}:
                powers = [int(k) for k in re.findall(r"p_\{(\d+)\}", symbol.name)]
                assert powers
                values[symbol] = wishart_moment(powers, context=context, dim=dim)
            assert equation.subs(values) == True  # noqa: E712
        exact = Wishart(context=context, dim=dim).moment(order) * dim * context**order
        assert derivation.result.subs(sizes) == exact
    # What a step uses has been derived before it.
    known = set()
    for _, equation in derivation.steps:
        assert equation.rhs.free_symbols - {N, d} <= known
        known.add(equation.lhs)


@pytest.mark.parametrize("steps", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_schedule_in_the_limit(steps):
    derivation = derive_schedule(steps)
    check_text(derivation)
    residual = sympy.Function("R")(x)
    assert [step.lhs for _, step in derivation.steps] == [LOSS, residual, residual, LEAST]
    loss, residual, product, least = (equation for _, equation in derivation.steps)
    assert sympy.cancel(least.rhs - 1 / sum(c**-k for k in range(steps + 1))) == 0
    unknown = sympy.symbols(f"r_1:{steps + 1}")
    assert loss.rhs.free_symbols == {c, *unknown}
    for value in (sympy.Rational(1, 3), sympy.Integer(1), sympy.Rational(7, 2)):
        polynomial = sympy.Poly(sympy.cancel(residual.rhs.subs(c, value)), x)
        coefficients = polynomial.all_coeffs()[::-1]
        assert coefficients[0] == 1
        at = {c: value, **dict(zip(unknown, coefficients[1:], strict=True))}
        assert loss.rhs.subs(at) == least.rhs.subs(c, value)
        for r in unknown:
            assert sympy.diff(loss.rhs, r).subs(at) == 0
    # The zeros, numerically at an irrational point (nested radicals do not simplify).
    point = {c: sympy.sqrt(2) / 3, x: sympy.pi}
    difference = (product.rhs - residual.rhs).subs(point).evalf(40)
    assert abs(difference) < sympy.Float("1e-30")


@pytest.mark.parametrize(("context", "dim"), [(20, 10), (3, 7), (1, 1)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_schedule_at_finite_size(steps, context, dim):
    derivation = derive_schedule(steps, context=context, dim=dim)
    check_text(derivation)
    found = sympy.Rational(Wishart(context=context, dim=dim).christoffel(steps))
    assert derivation.result == found
    loss, residual = (equation.rhs for _, equation in derivation.steps[:2])
    coefficients = sympy.Poly(residual, x).all_coeffs()[-2::-1]
    at = dict(zip(sympy.symbols(f"r_1:{steps + 1}"), coefficients, strict=True))
    assert loss.subs(at) == derivation.result
    assert [step.lhs for _, step in derivation.steps] == [LOSS, sympy.Function("R")(x), LEAST]
    best = optimal_schedule(steps=steps, context=context, dim=dim)
    for rate in best.rates:  # float zeros; measured residual 2e-14
        assert abs(residual.subs(x, 1 / sympy.Float(rate))) < 1e-10


@pytest.mark.slow
def test_schedule_at_symbolic_size():
    assert sympy.simplify(derive_schedule(1, context=N, dim=d).result - (d + 1) / (N + d + 1)) == 0
    two = derive_schedule(2, context=N, dim=d)
    check_text(two)
    assert sympy.cancel(two.result - Wishart(context=N, dim=d).christoffel(2)) == 0
