"""Derivations give what the numerical functions compute, and LaTeX."""

import math

import mpmath
import pytest
import sympy
from scipy import stats

from iclimit.asymptotics.softmax import (
    derive_long_context,
    derive_sine_optimum,
    derive_softmax_head,
    heads_efficiency,
    long_context_softmax,
    optimal_softmax,
    sine_optimum,
    softmax_loss,
)

DIGITS = 1e-18
"""Differences of steps and functions with 40 digits; numerical slopes have half of them."""


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_in_the_limit(heads):
    derivation = derive_softmax_head(heads)
    numbers = {"c": 0.7, "v": 0.2}
    result = derivation.result
    found = float(result.subs({s: numbers[s.name] for s in result.free_symbols}))
    assert found == pytest.approx(optimal_softmax(ratio=0.7, noise_ratio=0.2, heads=heads).loss)
    efficiency = derivation.steps[2][1].rhs
    (t,) = efficiency.free_symbols
    temperatures = [0.6] if heads == 1 else [-0.6, 0.6]
    assert float(efficiency.subs(t, 0.6)) == pytest.approx(heads_efficiency(temperatures))
    assert r"\mathcal{L}^*" in derivation.latex()


def test_long_contexts():
    derivation = derive_long_context()
    for d, noise in ((1, 0.0), (7, 2.5)):
        best = long_context_softmax(dim=d, noise_variance=noise)
        numbers = {"d": d, "s": noise}
        root = derivation.result
        b = float(root.subs({s: numbers[s.name] for s in root.free_symbols}))
        assert math.sqrt(b) == pytest.approx(best.inverse_temperature, rel=1e-12)
        loss = derivation.steps[2][1].rhs
        numbers["b"] = b
        found = float(loss.subs({s: numbers[s.name] for s in loss.free_symbols}))
        assert found == pytest.approx(best.loss, rel=1e-12)
        stationary = derivation.steps[3][1].lhs
        assert abs(stationary.subs({s: numbers[s.name] for s in stationary.free_symbols})) < 1e-12


def test_means_over_queries_of_long_contexts():
    """Both sides of the equations, the left one by quadrature over the chi-square law of r^2."""
    b, d, r = sympy.symbols("b d r", positive=True)
    for _, equation in derive_long_context().steps[:2]:
        mean = sympy.lambdify((b, r), equation.lhs.args[0])
        found = stats.chi2(3).expect(lambda square, mean=mean: mean(-0.3, math.sqrt(square)))
        assert found == pytest.approx(float(equation.rhs.subs({b: -0.3, d: 3})), rel=1e-7)


def test_sines():
    derivation = derive_sine_optimum()
    result = derivation.result.subs({eq.lhs: eq.rhs for _, eq in derivation.steps[1:3]})
    for N in (3, 10):
        numbers = {"N": N, "X": 5, "kappa": (0.5**3 - 0.1**3) / 2.4}
        found = float(result.subs({s: numbers[s.name] for s in result.free_symbols}))
        assert found == pytest.approx(sine_optimum(context=N).loss, rel=1e-9)
    covariance = derivation.steps[0][1].rhs
    x, z, kappa = sorted(covariance.free_symbols, key=lambda s: (s.name == "kappa", len(s.name)))
    assert sympy.simplify(covariance - kappa * sympy.cos(x - z)) == 0
    with pytest.raises(ValueError, match="heads must be 1 or 2, got 3"):
        derive_softmax_head(3)


@pytest.mark.parametrize(
    "numbers", [{"c": 0.7, "v": 0.2, "t": 0.5}, {"c": 1.9, "v": 0.9, "t": 0.8}]
)
def test_every_step_of_one_head(numbers):
    """Slopes are differences of the functions of numbers, with many digits."""
    steps = [equation for _, equation in derive_softmax_head().steps]
    loss, value, shortened, since, rising, temperature, result = steps
    with mpmath.workdps(40):
        at = {name: mpmath.mpf(number) for name, number in numbers.items()}
        setting = {"ratio": at["c"], "noise_ratio": at["v"], "heads": 1}
        t = at["t"]
        best = optimal_softmax(**setting)
        efficiency = heads_efficiency([t])
        least = (at["c"] + at["v"]) / (efficiency + at["c"] + at["v"])
        u = evaluated(value.rhs, at)
        slope = mpmath.diff(lambda u: softmax_loss(t, value=u, **setting), u)
        assert abs(slope) < DIGITS
        assert abs(evaluated(loss.rhs, at | {"u": u}) - least) < DIGITS
        assert abs(evaluated(shortened.rhs, at) - efficiency) < DIGITS
        by_efficiency = since.rhs.subs(shortened.lhs, sympy.Symbol("e"))
        assert abs(evaluated(by_efficiency, at | {"e": efficiency}) - least) < DIGITS
        slope = mpmath.diff(lambda t: heads_efficiency([t]), t)
        assert abs(evaluated(rising.lhs, at) - slope) < DIGITS
        assert abs(evaluated(temperature.rhs, at) - best.inverse_temperature) < DIGITS
        assert abs(evaluated(result.rhs, at) - best.loss) < DIGITS


def evaluated(expression, values):
    """Value of an expression at numbers of its symbols, with the digits of mpmath."""
    symbols = sorted(expression.free_symbols, key=str)
    return sympy.lambdify(symbols, expression, "mpmath")(*(values[str(s)] for s in symbols))
