"""The decay that noise slows down: its equation, and its expressions in SymPy."""

import mpmath
import pytest
import sympy

from iclimit.asymptotics.noisy_decay import noisy_decay
from iclimit.asymptotics.numbers import MpMath, SymPyMath


@pytest.mark.parametrize(("time", "noise"), [("0.3", "0.7"), ("4", "0.01"), ("2", "0")])
def test_expressions_solve_the_equation(time, noise):
    """Y + u (exp(Y) - 1) = t for the value exp(-Y); without noise exp(-t)."""
    expression = noisy_decay(SymPyMath(), sympy.Rational(time), sympy.Rational(noise))
    with mpmath.workdps(30):
        value = mpmath.mpf(str(sympy.N(expression, 30)))
        y = -mpmath.log(value)
        left = y + mpmath.mpf(noise) * mpmath.expm1(y)
        assert abs(left - mpmath.mpf(time)) < mpmath.mpf("1e-25")
        number = noisy_decay(MpMath(), mpmath.mpf(time), mpmath.mpf(noise))
        assert abs(number - value) < mpmath.mpf("1e-25")
