"""
Optimal ridge
=============

The ridge that minimises the ICL error, and what it gains.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit

tau = np.geomspace(0.1, 30, 160)
(_, left), (_, right) = plt.subplots(), plt.subplots()
for kappa, colour in ((0.5, "#0072b2"), (1.0, "#d55e00"), (4.0, "#009e73")):
    point = {"alpha": 2.0, "kappa": kappa, "rho": 0.1}
    best = iclimit.optimal_ridge(tau=tau, **point)
    left.plot(tau, best.ridge, color=colour, label=rf"$\kappa = {kappa:g}$")
    right.plot(tau, best.error, color=colour)
    ridgeless = iclimit.icl_error(tau=tau, **point)
    right.plot(tau, ridgeless, color=colour, linestyle=":", linewidth=1)
left.set(xscale="log", yscale="log", xlabel=r"$\tau = n/d^2$", ylabel=r"optimal $\lambda$")
left.legend()
right.set(xscale="log", xlabel=r"$\tau = n/d^2$", ylabel=r"$e_{\mathrm{ICL}}$", ylim=(0, 2))
right.set_title("solid: optimal ridge; dotted: ridgeless")
right.axhline(iclimit.bayes_error(alpha=2.0, rho=0.1), color="0.5", linewidth=0.8)
right.text(0.11, iclimit.bayes_error(alpha=2.0, rho=0.1) + 0.02, "Bayes", color="0.4", fontsize=8)

# %%
# The optimal ridge removes the peak at :math:`\tau = 1`.  It depends on which error it serves:

for objective in ("icl", "idg"):
    best = iclimit.optimal_ridge(tau=1.5, alpha=2.0, kappa=0.5, rho=0.1, objective=objective)
    print(f"{objective}: ridge {best.ridge:.4f}, error {best.error:.4f}")

# %%
# A small ridge helps where the slope of the error at ridge 0 is negative.  With little noise, many
# tasks and many prompts it can hurt:

for rho, slope in zip(
    (0.0, 0.5),
    iclimit.pretraining.ridge_slope(tau=10, alpha=10, kappa=5, rho=[0, 0.5]),
    strict=True,
):
    print(f"rho = {rho}: a small ridge {'raises' if slope > 0 else 'lowers'} the error")
