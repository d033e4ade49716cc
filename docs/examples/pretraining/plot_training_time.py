"""
When should pretraining stop?
=============================

Errors against the time of gradient flow on n prompts, and the best time to stop.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import optimal_ridge, optimal_stopping, training_errors

point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
time = np.geomspace(1e-2, 1e2, 200)
errors = training_errors(time=time, **point)
_, axes = plt.subplots()
for name, colour in (("icl", "#0072b2"), ("idg", "#d55e00"), ("training", "0.5")):
    axes.plot(time, getattr(errors, name), color=colour, label=name)
for objective, colour in (("icl", "#0072b2"), ("idg", "#d55e00")):
    best = optimal_stopping(objective=objective, **point)
    axes.plot(best.time, best.error, "o", color=colour)
    axes.axhline(optimal_ridge(objective=objective, **point).error, color=colour, linestyle=":")
for t in (0.1, 0.5, 3.0):
    run = iclimit.Point(time=t, **point).at(dim=24)
    runs = iclimit.sample(run, rng=0, repeats=20)
    axes.plot(t, runs.icl.mean, "s", color="#0072b2", fillstyle="none")
    axes.plot(t, runs.idg.mean, "s", color="#d55e00", fillstyle="none")
axes.set(xscale="log", xlabel="$t$", ylabel="error")
axes.set_title("dotted: best ridge; squares: runs at d = 24")
axes.legend()

# %%
# The ICL error turns up while the IDG error still falls.  How much longer it falls depends on the
# number of tasks:

for kappa in (0.3, 0.5, 1.0, 4.0):
    setting = point | {"kappa": kappa}
    fresh = optimal_stopping(**setting)
    known = optimal_stopping(objective="idg", **setting)
    print(f"kappa = {kappa}: best times {fresh.time:.3f} and {known.time:.3f}")

# %%
# Below :math:`\tau = 1` the end of training depends on where it starts.

_, axes = plt.subplots()
for tau, colour in ((0.5, "#0072b2"), (2.0, "#d55e00")):
    for start_variance, line in ((0.0, "-"), (0.5, "--")):
        setting = point | {"tau": tau, "start_variance": start_variance}
        curve = training_errors(time=time, **setting).icl
        axes.plot(time, curve, line, color=colour, label=rf"$\tau = {tau}$, {start_variance}")
axes.set(xscale="log", xlabel="$t$", ylabel=r"$e_{\mathrm{ICL}}$")
axes.legend(title="start variance")
