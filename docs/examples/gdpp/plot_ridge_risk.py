"""
Ridge regression that does not know its noise
=============================================

The risk of ridge regression at every pair of parameter and noise, averaged over a law of noise
levels: one parameter for all prompts, one from an estimate of the noise, and an oracle.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.gdpp import (
    adaptive_ridge_loss,
    constant_ridge_loss,
    oracle_risk,
    ridge_baselines,
    ridge_risk,
    simulate_ridge_baselines,
)
from iclimit.problem import NoiseLaw, Problem

size = {"context": 20, "dim": 10}

# %%
# Risk against the parameter.  Each curve has its minimum where parameter and noise variance agree.

penalty = np.geomspace(0.03, 30, 200)
figure, ax = plt.subplots()
for sigma, colour in ((0.5, "#0072b2"), (1.0, "#009e73"), (2.0, "#d55e00")):
    ax.plot(
        penalty,
        ridge_risk(penalty, noise_variance=sigma**2, **size),
        color=colour,
        label=rf"$\sigma$ = {sigma:g}",
    )
    ax.plot(sigma**2, ridge_risk(sigma**2, noise_variance=sigma**2, **size), "o", color=colour)
ax.set(xscale="log", yscale="log", xlabel=r"ridge parameter $\lambda$", ylabel="risk")
ax.set_yticks([0.2, 0.5, 1, 2], ["0.2", "0.5", "1", "2"])
ax.set_yticks([], minor=True)
ax.legend()

# %%
# One parameter for all prompts costs more, the wider the law; an estimate of the noise costs
# little.

top = np.linspace(0.5, 7, 14)
laws = [f"uniform:{each:g}" for each in top]
figure, ax = plt.subplots()
ax.plot(
    top, [constant_ridge_loss(law, **size) for law in laws], color="#0072b2", label="one parameter"
)
ax.plot(
    top,
    [adaptive_ridge_loss(law, **size) for law in laws],
    color="#d55e00",
    label="estimated noise",
)
ax.set(xlabel=r"$\sigma_{\max}$", ylabel="loss above that of the oracle", ylim=(0, None))
ax.legend()
print(f"oracle, {NoiseLaw.parse('uniform:5')}: {oracle_risk('uniform:5', **size):.4f}")

# %%
# The best parameters of a law of noise levels, and the losses of the same ridges on drawn prompts:

best = ridge_baselines("uniform:3", **size)
print(f"parameter {best.penalty:.2f}, factor on the noise estimate {best.multiplier:.2f}")
tuned = {"penalty": best.penalty, "multiplier": best.multiplier, "threshold": best.threshold}
problem = Problem(**size, noise_law="uniform:3", scale=1)
print(simulate_ridge_baselines(problem, contexts=8192, rng=0, **tuned).losses["TunedRR"])
