r"""
What does one pass of SGD cost?
===============================

Fresh prompts in every step: steps times batch are the prompts.  The best rate in every step has an
error in closed form; the best ridge on the same prompts says what they allow.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import one_pass_error, one_pass_errors, optimal_ridge

tau = np.geomspace(0.1, 30, 60)
settings = {"short, noisy contexts": (1, 0.1), "long, clean contexts": (10, 0.01)}

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for axis, (name, (alpha, rho)) in zip(axes, settings.items(), strict=True):
    axis.loglog(tau, one_pass_error(tau=tau, alpha=alpha, rho=rho), label="one pass, best rates")
    constant = one_pass_error(tau=tau, alpha=alpha, rho=rho, step_size=0.5)
    axis.loglog(tau, constant, label="one pass, constant rate")
    best = optimal_ridge(tau=tau, alpha=alpha, kappa=np.inf, rho=rho).error
    axis.loglog(tau, best, "k--", label="best ridge on the same prompts")
    axis.set(title=name, xlabel=r"prompts over $d^2$, $\tau$")

# %%
# Runs at d = 16 with the best rates of that dimension, on the exact curve.
dim = 16
for axis, (alpha, rho) in zip(axes, settings.values(), strict=True):
    sizes = {"dim": dim, "context": alpha * dim, "batch": dim, "rho": rho}
    steps = np.arange(1, 12 * dim + 1)
    theory = one_pass_errors(steps=steps, **sizes)
    axis.loglog(steps / dim, theory.icl, "C0:", label=f"at d = {dim}")
    law = iclimit.Problem(dim, alpha * dim, noise_variance=rho, task_law="sphere")
    training = iclimit.SGD(theory.learning_rate, batch=dim)
    run = iclimit.Experiment(law, prompts=dim * steps.size, training=training)
    runs = iclimit.pretraining.simulate_one_pass(run, record=2 * dim, rng=0, repeats=20)
    error = runs.icl.std(axis=0, ddof=1) / np.sqrt(20)
    axis.errorbar(runs.steps / dim, runs.icl.mean(axis=0), error, fmt="o", ms=4, label="runs")
axes[0].set_ylabel("error on fresh tasks")
axes[0].legend(frameon=False, fontsize=8)
