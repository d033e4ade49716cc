"""
Formulas step by step
=====================

The derivations of the theory are executable: each gives its steps as equations, and its result as
an expression to expand, to evaluate, or to print as LaTeX.
"""

import matplotlib.pyplot as plt
import numpy as np
import sympy

from iclimit.pretraining import (
    derive_effective_ridge,
    derive_error_limits,
    derive_icl_error,
    derive_idg_error,
    derive_many_tasks,
    derive_resolvent,
    derive_threshold,
    icl_error,
)

# %%
# The ICL error in the compact form of the theory page, and the IDG error that it contains.

print(derive_icl_error().result)
print(derive_idg_error().result)

# %%
# Many tasks: an expansion in 1/kappa.  Dashed lines are its first terms, evaluated.

expansions = [derive_many_tasks(order=order).result for order in (0, 1, 2)]
tau, alpha, rho = 2.0, 4.0, 0.1
kappa = np.geomspace(0.6, 20, 200)
figure, ax = plt.subplots()
ax.plot(kappa, icl_error(tau=tau, alpha=alpha, kappa=kappa, rho=rho), color="0.1", label="exact")
for order, expression in enumerate(expansions):
    known = {"tau": tau, "rho": rho, "q": (1 + rho) / alpha, "kappa": sympy.Symbol("kappa")}
    names = {str(symbol): symbol for symbol in expression.free_symbols}
    value = expression.subs({names[name]: known[name] for name in names})
    curve = sympy.lambdify(sympy.Symbol("kappa"), value)(kappa)
    ax.plot(kappa, np.broadcast_to(curve, kappa.shape), "--", label=f"order {order}")
ax.set(xscale="log", xlabel=r"$\kappa = k/d$", ylabel=r"$e_{\mathrm{ICL}}$", ylim=(0.4, 1.2))
ax.legend()

# %%
# What happens at the interpolation threshold, and in other limits:

for text, equation in [*derive_threshold().steps[:2], *derive_error_limits().steps[:3]]:
    print(f"{text}: {equation.lhs} = {equation.rhs}")

# %%
# With a ridge the error hangs on the root of a polynomial, and the spectrum of tasks on another.

xi = sympy.Symbol("xi", positive=True)
print("degree in the effective ridge:", sympy.degree(derive_effective_ridge().result, xi))
print(
    "where eigenvalues lie at kappa = 4:", sympy.factor(derive_resolvent().result.subs("kappa", 4))
)
