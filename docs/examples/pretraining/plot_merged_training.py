"""
How long is the plateau on few prompts?
=======================================

Merged attention, a value times a key-query matrix, waits on a plateau before it learns.  On few
prompts of few tasks it waits for less time, and overfits afterwards.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import merged_training_errors, plateau_end, simulate_descent

many = {"tau": np.inf, "alpha": 1.0, "kappa": np.inf, "rho": 0.1}
few = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
scale = 0.05
time = np.linspace(0, 10, 101)
_, axes = plt.subplots()
for point, colour, name in ((many, "0.5", "infinitely many prompts"), (few, "#0072b2", "few")):
    errors = merged_training_errors(time=time, init_scale=scale, **point)
    axes.plot(time, errors.icl, color=colour, label=f"ICL, {name}")
    axes.axvline(plateau_end(init_scale=scale, **point), color=colour, linestyle=":")
axes.plot(time, errors.idg, color="#d55e00", label="IDG, few")

# %%
# Runs at d = 16.  A step of rate :math:`\eta` lasts :math:`2\eta/\sqrt d`.
training = iclimit.Descent(steps=1000, learning_rate=0.01 * np.sqrt(16) / 2)
run = iclimit.Point(**few).at(dim=16).with_(training=training)
curves = simulate_descent(run, model="merged", init_scale=scale, record=100, rng=0, repeats=20)
for name, colour in (("icl", "#0072b2"), ("idg", "#d55e00")):
    axes.plot(curves.times, curves.measures[name].mean(axis=0), "o", color=colour, ms=4)
axes.set(xlabel="training time", ylabel="error")
axes.set_title("dotted: end of the plateau; points: runs at d = 16")
axes.legend(fontsize=8)

# %%
# The plateau is the longer the more prompts and tasks there are:

for tau in (0.5, 2.0, 8.0, np.inf):
    ends = [
        float(plateau_end(tau=tau, alpha=1.0, kappa=kappa, rho=0.1, init_scale=scale))
        for kappa in (0.5, 2.0, np.inf)
    ]
    print(f"tau = {tau}: {np.round(ends, 2)} for kappa = 0.5, 2, inf")
