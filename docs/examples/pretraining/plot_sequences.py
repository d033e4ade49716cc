r"""
How many sequences does pretraining need?
=========================================

Most experiments sum the loss over all positions of a sequence.  Then n of the order of d sequences
are enough, where one query for each prompt takes of the order of :math:`d^2` prompts.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import all_position_errors, optimal_ridge

ratio = np.geomspace(0.5, 16, 25)
setting = {"alpha": 2, "rho": 0.1}
every = all_position_errors(sequence_ratio=ratio, alpha_min=0.5, ridge=0.3, **setting)

figure, axis = plt.subplots(figsize=(5.5, 3.5), layout="constrained")
axis.semilogx(ratio, every.icl, label="all positions, limit")

# %%
# Runs at d = 16 on all positions, and the best ridge for as many prompts with one query each.
dim = 16
law = iclimit.Problem(dim, 2 * dim, noise_variance=0.1, task_law="sphere")
loss = iclimit.AllPositions(first=dim // 2)
for number in (1, 2, 4, 8):
    run = iclimit.Experiment(law, prompts=number * dim, loss=loss, training=iclimit.Ridge(0.3))
    runs = iclimit.sample(run, rng=0, repeats=20)
    label = f"runs at d = {dim}" if number == 1 else None
    axis.errorbar(number, runs.icl.mean, runs.icl.standard_error, fmt="C0o", label=label)
single = optimal_ridge(tau=ratio / dim, kappa=np.inf, **setting).error
axis.semilogx(ratio, single, "k--", label=f"one query each, at d = {dim}")
axis.set(xlabel=r"sequences or prompts over d, $n/d$", ylabel="error on fresh tasks")
axis.legend(frameon=False)
