"""
From memorisation to in-context learning
========================================

How much is lost on tasks not seen in pretraining, as tasks get more diverse.  Linear attention
stops memorising when the tasks outnumber the dimensions.  The Bayes estimator that knows the
pretraining tasks (dMMSE) keeps memorising, because its number of tasks has to grow exponentially
with the dimension before they look like a continuum.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit

d, alpha, rho, tau = 24, 4.0, 0.05, 8.0
tasks = np.array([6, 12, 18, 24, 36, 72, 144])

# %%
# Simulated gaps.  ICL and IDG error of one run share the attention matrix, so the error bar is
# that of their difference, run by run.


attention = [
    iclimit.simulate_errors(
        dim=d,
        context=int(alpha * d),
        tasks=int(k),
        prompts=int(tau * d**2),
        rho=rho,
        rng=3,
        repeats=10,
    )
    for k in tasks
]
memory = [
    iclimit.pretraining.simulate_estimator(
        "dmmse",
        dim=d,
        context=int(alpha * d),
        tasks=int(k),
        rho=rho,
        rng=4,
        repeats=10,
        test_prompts=20,
        task_law="sphere",
    )
    for k in tasks
]

# %%
# Theory: the limit, and the finite-size prediction at the simulated integers.

kappa = np.geomspace(0.2, 8, 200)
limit = iclimit.task_gap(tau=tau, alpha=alpha, kappa=kappa, rho=rho)
predicted = [
    iclimit.finite_size_errors(
        dim=d, context=int(alpha * d), tasks=int(k), prompts=int(tau * d**2), rho=rho, rng=5
    )
    for k in tasks
]

dmmse = iclimit.pretraining.dmmse_errors(kappa=kappa, alpha=alpha, rho=rho, dim=d)

figure, ax = plt.subplots(figsize=(6.4, 4.2))
ax.plot(kappa, dmmse.icl - dmmse.idg, color="#d55e00", label="dMMSE, theory at d = 24")
ax.plot(kappa, limit, color="#0072b2", label="linear attention, limit")
ax.plot(
    tasks / d,
    [p.icl.mean - p.idg.mean for p in predicted],
    "_",
    color="#0072b2",
    markersize=12,
    label="finite-size prediction",
)
for runs, colour, label in (
    (attention, "#0072b2", "linear attention, d = 24"),
    (memory, "#d55e00", "dMMSE, d = 24"),
):
    gaps = [run.gap for run in runs]
    mean = [gap.mean for gap in gaps]
    error = [gap.standard_error for gap in gaps]
    ax.errorbar(
        tasks / d, mean, error, fmt="o", markersize=4, capsize=2, color=colour, label=label
    )
ax.axvline(1, color="0.6", linewidth=0.8)
ax.set(
    xscale="log",
    yscale="log",
    xlabel=r"$\kappa = k/d$",
    ylim=(4e-3, 4),
    ylabel=r"$e_{\mathrm{ICL}} - e_{\mathrm{IDG}}$",
)
ax.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["0.25", "0.5", "1", "2", "4", "8"])
ax.minorticks_off()
ax.legend(loc="lower left")

# %%
# No estimator beats the Bayes estimator on all tasks:

print(f"Bayes error {iclimit.bayes_error(alpha=alpha, rho=rho):.4f}")
print(f"linear attention, many tasks {attention[-1].icl.mean:.4f}")

# %%
# dMMSE memorises as long as a context tells the pretraining tasks apart:

information = iclimit.pretraining.context_information(alpha=alpha, rho=rho)
print(f"a context identifies its task among up to exp({information:.2f} d) tasks")
