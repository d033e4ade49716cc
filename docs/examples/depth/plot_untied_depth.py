"""
Untied depth
============

Layers that start alike learn like tied ones: SGD first brings them to the loss of the best tied
layers.  That point is a saddle.  The noise of the gradient makes the layers differ, the difference
grows exponentially, and the loss falls to that of the best untied layers, for which depth is worth
far more.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.depth import (
    balanced_saddle,
    scaling_exponents,
    simulate_untied_flow,
    train_depth,
    untied_depth,
)

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "0.5"

# %%
# Two layers of linear attention are trained from zero on all entries of their matrices.  Each
# context has a covariance in a random basis.  Left: the loss of four trainings.  Right: the gains
# :math:`\operatorname{tr}\Gamma_l/d` of both layers in one of them, and those of the best layers.

lam = np.array([1.6, 0.8, 0.4, 0.2, 0.1])
shares = lam * lam
saddle, best = (
    balanced_saddle(lam, weights=shares, depth=2),
    untied_depth(lam, weights=shares, depth=2),
)
setting = {"eigenvalues": lam, "task_spectrum": lam, "batch": 16, "learning_rate": 0.3}
run = train_depth(depth=2, **setting, steps=1000, record=10, rng=0)
(_, left), (_, right) = plt.subplots(), plt.subplots()
left.plot(
    run.times[1:], run.measures["held_out"][:, 1:].T / shares.mean(), color=GREEN, linewidth=0.9
)
left.axhline(saddle.loss, color=BLUE, linestyle="--", label="best tied layers")
left.axhline(best.loss, color=ORANGE, linestyle="--", label="best untied layers")
left.set(xscale="log", yscale="log", xlabel="steps times learning rate", ylabel="loss / null")
left.set_yticks([0.01, 0.02, 0.05, 0.1], ["0.01", "0.02", "0.05", "0.1"])
left.set_yticks([], minor=True)
left.legend()
right.plot(run.times[1:], run.measures["traces"][0, 1:], color=GREEN)
right.axhline(saddle.gamma, color=BLUE, linestyle="--")
for step in best.steps:
    right.axhline(2 * step, color=ORANGE, linestyle="--")
right.set(xscale="log", xlabel="steps times learning rate", ylabel=r"$\mathrm{tr}\,\Gamma_l/d$")

# %%
# What is left above the dashed line is noise of SGD, in proportion to the learning rate.  Lower
# rates go on from the matrices that training has reached.

for rate in (0.3, 0.15, 0.075):
    lower = setting | {"learning_rate": rate, "initial": run.weights[0]}
    run = train_depth(depth=2, **lower, steps=round(100 / rate), record=50, rng=1)
    loss = run.measures["held_out"][:, 4:].mean() / shares.mean()
    print(f"learning rate {rate:5.3f}: {loss / best.loss - 1:6.2%} above the best untied layers")

# %%
# **Escape.**  For gradient flow without noise, the difference at the start decides how long the
# plateau lasts.  Every factor of 100 costs the same time, at the rate of the saddle (dotted).
#
# **What depth is worth.**  With eigenvalues 1/k the loss of tied layers falls as 1/L.  Untied
# layers can hit the largest eigenvalues one by one, and reach the exponent 3.

(_, left), (_, right) = plt.subplots(), plt.subplots()
times = np.linspace(0, 130, 500)
for start, colour in zip((1e-2, 1e-4, 1e-6), (ORANGE, GREEN, BLUE), strict=True):
    flow = simulate_untied_flow(eigenvalues=lam, weights=shares, initial=[0.0, start], times=times)
    spread = np.ptp(flow.gains, axis=1)
    left.plot(times, spread, color=colour, label=f"start {start:.0e}")
    line = spread[80] * np.exp(saddle.growth_rate * (times - times[80]))
    left.plot(times[line < 5], line[line < 5], ":", color=GREY)
left.set(yscale="log", xlabel="time", ylabel="difference of the gains")
left.legend()

k, edges = np.arange(1.0, 4001.0), np.geomspace(4000.5, 1e14, 201)  # groups beyond 4000
lam = np.append(1 / k, (1 / edges[1:] + 1 / edges[:-1]) / 2)
shares = np.append(k**-2, -np.diff(1 / edges))
depths = np.unique(np.geomspace(1, 128, 20).astype(int))
tied = [balanced_saddle(lam, weights=shares, depth=int(depth)).loss for depth in depths]
untied = untied_depth(lam, weights=shares, depth=128).losses[depths - 1]
for losses, setting_name, colour in ((tied, "rrs", BLUE), (untied, "untied", ORANGE)):
    exponent = scaling_exponents(nu=1.0, beta=1.0, setting=setting_name).depth
    label = {"rrs": "tied", "untied": "untied"}[setting_name]
    right.plot(depths, losses, "o-", color=colour, markersize=3, label=label)
    guide = 2 * losses[-1] * (depths / depths[-1]) ** -float(exponent)
    right.plot(depths[-7:], guide[-7:], ":", color=GREY)
right.set(xscale="log", yscale="log", xlabel="layers $L$", ylabel="loss / null")
right.legend()
