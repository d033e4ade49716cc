"""
Any matrix has an exact error
=============================

A layer of linear attention is one matrix.  Its errors are exact at every size, whichever way it
was found: chosen, fitted to prompts, or the best one.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.pretraining import (
    errors_of_gamma,
    estimate_cost,
    expected_gamma,
    largest_dimension,
    optimal_gamma,
)

D = 10
setting = {"context": 20, "rho": 0.1}

# %%
# One step of gradient descent is a multiple of the identity.  The best matrix is one of them, as
# all directions are alike; ridge regression on n prompts finds on average a smaller one.

rates = np.linspace(0, 1.2, 121)
best = optimal_gamma(dim=D, **setting)
figure, ax = plt.subplots()
ax.plot(rates, errors_of_gamma(rates[:, None, None] * np.eye(D), **setting).icl, color="#0072b2")
ax.plot(best.gamma[0, 0], best.error, "*", color="#d55e00", markersize=13, label="best matrix")
for prompts, colour in ((150, "#009e73"), (600, "#cc79a7")):
    mean = expected_gamma(dim=D, prompts=prompts, ridge=0.1, **setting)
    error = errors_of_gamma(mean, **setting).icl
    ax.plot(mean[0, 0], error, "o", color=colour, label=f"mean of ridge regression, n = {prompts}")
ax.set(xlabel=r"$\eta$, for $\Gamma = \eta\, I$", ylabel=r"$e_{\mathrm{ICL}}$", ylim=(0.3, 1.15))
ax.legend()

# %%
# A layer that knows its tasks does better on them than on fresh ones:

tasks = np.random.default_rng(0).standard_normal((4, D))
memory = optimal_gamma(tasks=tasks, **setting)
errors = errors_of_gamma(memory.gamma, tasks=tasks, **setting)
print(f"4 known tasks: error {errors.idg:.3f} on them, {errors.icl:.3f} on fresh ones")

# %%
# What a simulation of such a layer will cost, before it is started:

for dim in (32, 64, 128):
    run = {"dim": dim, "context": dim, "tasks": dim, "prompts": 2 * dim**2, "rho": 0.1}
    cost = estimate_cost(**run)
    print(f"d = {dim}: {cost.method}, {cost.memory_bytes / 2**20:.0f} MiB")
print("largest d in 8 GiB:", largest_dimension(tau=2.0, memory=8 * 2**30))
