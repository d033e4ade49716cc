"""
Deep attention at finite size
=============================

Contexts are finite, training sees every prompt once, and a matrix learned from few tasks is used
more than once.  What is left of the gain of depth, step by step.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.depth import (
    depth_loss,
    depth_schedule_loss,
    iterated_icl_errors,
    online_sgd_errors,
    overthinking_ratio,
    scaling_terms,
    simulate_depth_loss,
    simulate_overthinking_ratio,
    untied_depth,
    untied_power_law_loss,
    untied_power_law_steps,
)

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"

# %%
# Loss against depth at contexts of once and four times the dimension.  Lines are the limit, points
# sampled contexts in 60 dimensions with the same steps.

depths = np.array([1, 2, 4, 8, 16])
figure, ax = plt.subplots()
for alpha, colour in ((1.0, ORANGE), (4.0, BLUE)):
    best = depth_loss(depth=depths, alpha=alpha, setting="iso")
    ax.plot(depths, best.loss, color=colour, label=rf"$\alpha$ = {alpha:g}")
    for depth, gamma in zip(depths, best.gamma, strict=True):
        run = simulate_depth_loss(
            eigenvalues=np.ones(60),
            rates=[float(gamma) / depth] * int(depth),
            context=int(60 * alpha),
            rng=0,
            repeats=60,
        ).loss
        ax.errorbar(depth, run.mean, run.standard_error, fmt="o", color=colour, markersize=4)
ax.set(xscale="log", yscale="log", xlabel="layers L", ylabel="loss")
ax.set_xticks(depths, [str(each) for each in depths])
ax.minorticks_off()
ax.legend()

# %%
# Other steps, for eigenvalues 1/k and contexts of twice the dimension: those of the best tied
# layers, of the best untied ones, and of those that would be best for contexts of infinite length.
# The latter diverge.

k = np.arange(1.0, 61.0)
law = {"spectrum": 1 / k, "alpha": 2.0}
tied = [float(depth_loss(depth=8, **law).gamma) / 8] * 8
best = untied_depth(1 / k, weights=1 / k, depth=8, alpha=2.0).real_steps
careless = untied_depth(1 / k, weights=1 / k, depth=8).steps
for name, rates in (("tied", tied), ("best", best), ("best at infinite context", careless)):
    print(f"{name}: {depth_schedule_loss(rates, **law).loss / np.mean(1 / k):.3g}")

# %%
# Online SGD from zero: a larger rate is faster, and ends higher.

figure, ax = plt.subplots()
times = np.arange(0, 121)
for rate, colour in ((0.03, GREEN), (0.06, BLUE), (0.12, ORANGE)):
    setting = {"alpha": 1.0, "batch_ratio": 1.0, "query_ratio": 1.0, "learning_rate": rate}
    losses = [online_sgd_errors(steps=int(t), **setting).loss for t in times]
    ax.plot(times, losses, color=colour, label=f"rate {rate:g}")
ax.set(xlabel="steps", ylabel="loss", ylim=(0.4, 1.1))
ax.legend()

# %%
# Linear attention that was pretrained on labels, applied again and again.  Above a ratio of one,
# errors feed on themselves.

for tau in (1.5, 3.0):
    point = {"tau": tau, "alpha": 4.0, "noise_variance": 0.1}
    errors = iterated_icl_errors(**point, kappa=1.5, ridge=0.2, steps=5)
    ratio = overthinking_ratio(**point, ridge=0.2)
    print(f"tau = {tau}: errors {errors.round(3)}, ratio {ratio:.3f}")
run = simulate_overthinking_ratio(
    dim=32, context=128, prompts=96, noise_variance=0.3, target="weights", rng=0
)
print(f"simulated, for a matrix learned from the tasks themselves: {run.estimate}")

# %%
# Power laws: the constants of width and depth, and the best untied layers, whose steps differ.

terms = scaling_terms(nu=2.0, beta=0.5)
print(f"constants: {terms.depth:.3f} of depth, {terms.width:.3f} of width")
print("least loss of four untied layers:", untied_power_law_loss([0.5, 1.0], depth=4).round(4))
print("steps of two untied layers:", untied_power_law_steps(1.0, depth=2).round(4))
