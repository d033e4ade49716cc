"""
How should I spend my tokens?
=============================

A budget of label pairs buys many prompts with short contexts or few prompts with long ones.  The
best split, and what it reaches.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import compute_optimal_pretraining, critical_budget

budget = np.geomspace(0.5, 1e4, 300)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for rho, colour in ((0.0, "#0072b2"), (0.1, "#d55e00"), (0.5, "#009e73")):
    best = compute_optimal_pretraining(budget=budget, rho=rho)
    left.plot(budget, best.error - rho, color=colour, label=rf"$\rho = {rho:g}$")
    right.plot(budget, best.tau, color=colour)
    right.plot(budget, best.alpha, color=colour, linestyle="--")
left.set(xscale="log", yscale="log", xlabel=r"$B = n\ell/d^3$")
left.set_ylabel(r"$e_{\mathrm{ICL}} - \rho$ of the best split")
left.legend()
right.set(xscale="log", yscale="log", xlabel=r"$B = n\ell/d^3$")
right.set_title(r"solid: prompts $\tau$; dashed: context $\alpha$")

# %%
# With noise the error falls as the square root of the budget, which is shared between prompts and
# contexts.  Without noise it falls as the budget, all of which belongs into longer contexts once
# there are two prompts per squared dimension.

for rho in (0.0, 0.1):
    best = compute_optimal_pretraining(budget=1e8, rho=rho)
    print(f"rho = {rho}: error falls as budget^-{best.exponent:.3f}, tau = {best.tau:.4g}")

# %%
# Without a ridge the best number of prompts jumps at a critical budget: below it there are fewer
# prompts than parameters, above it more.

iclimit.phase_diagram(
    "ridgeless_budget_tau",
    x="budget",
    y="rho",
    budget=np.linspace(1, 20, 160),
    rho=np.linspace(0, 1, 120),
).plot()
print("critical budget without noise:", critical_budget(0.0).round(3))

# %%
# In integers: three million label pairs at d = 50, with 100 pretraining tasks.

dim, pairs = 50, 3e6
best = compute_optimal_pretraining(budget=pairs / dim**3, rho=0.1, kappa=100 / dim)
print(f"{best.tau * dim**2:.0f} prompts of {best.alpha * dim:.0f} pairs, ridge {best.ridge:.3f}")

# %%
# A prompt may cost more than its pairs, here as much as 50 pairs more:

dearer = compute_optimal_pretraining(
    budget=pairs / dim**3, rho=0.1, kappa=2.0, cost_law=lambda tau, alpha: tau * (alpha + 50 / dim)
)
print(f"{dearer.tau * dim**2:.0f} prompts of {dearer.alpha * dim:.0f} pairs")
