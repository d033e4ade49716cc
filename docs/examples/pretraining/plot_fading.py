r"""
Why does in-context learning fade?
==================================

With few pretraining tasks the error on fresh tasks rises again while that on the pretraining tasks
still falls.  In linear attention no second circuit is behind it: both errors have a best time, and
in-context learning fades in the window between them.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import optimal_stopping, training_errors

point = {"tau": 2.0, "alpha": 1.0, "rho": 0.1}
time = np.geomspace(0.02, 20, 150)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
errors = training_errors(time=time, kappa=0.5, **point)
axes[0].plot(time, errors.icl, "C0", label="fresh tasks (ICL)")
axes[0].plot(time, errors.idg, "C1", label="pretraining tasks (IDG)")
window = [
    float(optimal_stopping(kappa=0.5, objective=name, **point).time) for name in ("icl", "idg")
]
axes[0].axvspan(*window, color="0.9", label="ICL fades")
axes[0].set(xscale="log", xlabel="training time $t$", ylabel="error", title=r"$\kappa = 0.5$")

# %%
# Runs at d = 16 rise at the same time.
for t in (0.1, 0.4, 1.6):
    run = iclimit.Point(time=t, kappa=0.5, **point).at(dim=16)
    runs = iclimit.sample(run, rng=0, repeats=10)
    axes[0].errorbar(t, runs.icl.mean, runs.icl.standard_error, fmt="oC0", ms=4)
    axes[0].errorbar(t, runs.idg.mean, runs.idg.standard_error, fmt="oC1", ms=4)
axes[0].legend()

# %%
# The window over the number of tasks: it closes where tasks are many.  Then the pretraining tasks
# are like fresh ones, and both errors have the same best time.
kappa = np.geomspace(0.2, 20, 25)
best = {
    name: optimal_stopping(kappa=kappa, objective=name, **point).time for name in ("icl", "idg")
}
axes[1].loglog(kappa, best["icl"], "C0", label="best for fresh tasks")
axes[1].loglog(kappa, best["idg"], "C1", label="best for pretraining tasks")
axes[1].fill_between(kappa, best["icl"], best["idg"], color="0.9")
axes[1].set(xlabel=r"tasks over dimension $\kappa$", ylabel="best time $t$")
axes[1].legend()

# %%
# **Beside it, full transformers.**  Three layers trained by Adam on fresh prompts of k fixed tasks
# (d = 8 and 16, context d, noise .01) do the same on another scale.  At :math:`\kappa = 4` their
# ICL error rises from .44 after 2,000 steps to .65 after 29,000 (d = 8), and from .46 to .88
# (d = 16), while the IDG error still falls.  The number of tasks from which they learn in context
# grows with training: the ICL error is twice the IDG error at :math:`\kappa` = 2.1, 3.5, 4.7,
# 6.4, 7.9, 10.0 and 11.0 after 500, 2,000, 3,500, 6,000, 10,000, 17,000 and 29,000 steps (d = 8).
# There the end is another one: with few tasks the network becomes dMMSE, the Bayes estimator on
# its tasks, which linear attention cannot be.  A theory of that drift is not known.  Transience in
# transformers: Singh et al., `arXiv:2311.08360 <https://arxiv.org/abs/2311.08360>`__.
