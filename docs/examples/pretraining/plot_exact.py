"""
Formulas and fifty digits
=========================

The functions compute with what they are given: floats and arrays, mpmath numbers, SymPy
expressions.  So the number in a plot, its check to fifty digits and the formula in a paper come
from the same code.
"""

import matplotlib.pyplot as plt
import mpmath
import sympy

import iclimit

# %%
# The ridgeless ICL error for more prompts than parameters, as an expression.  A symbol that
# stands for the excess :math:`\tau - 1 > 0` decides the case.

excess, q, kappa, rho = sympy.symbols("s q kappa rho", positive=True)
error = iclimit.icl_error(tau=1 + excess, alpha=(1 + rho) / q, kappa=kappa, rho=rho)
limit = sympy.limit(error, kappa, sympy.oo)
print(sympy.factor(sympy.simplify(limit)))

# %%
# LaTeX of the simplest case: a fresh task in every prompt, :math:`\kappa = \infty`.

tau = 1 + excess
fresh = iclimit.icl_error(tau=tau, alpha=(1 + rho) / q, kappa=sympy.oo, rho=rho)
latex = sympy.latex(sympy.factor(sympy.simplify(fresh).subs(excess, sympy.Symbol("tau") - 1)))
print(latex)
figure = plt.figure(figsize=(4, 2))
figure.text(0.5, 0.5, rf"$e_{{\mathrm{{ICL}}}} = {latex}$", ha="center", va="center", fontsize=18)

# %%
# Fifty digits, with a ridge.  The fixed point is solved at mpmath's working precision.

with mpmath.workdps(50):
    value = iclimit.icl_error(
        tau=mpmath.mpf("1.5"),
        alpha=2,
        kappa=mpmath.mpf("0.5"),
        rho=mpmath.mpf("0.1"),
        ridge=mpmath.mpf("0.01"),
    )
    print(value)
double = iclimit.icl_error(tau=1.5, alpha=2, kappa=0.5, rho=0.1, ridge=0.01)
print(f"{double:.17g}, off by {float(abs(value - double) / value):.0e} relative")
