"""
When more steps at test time do harm
====================================

Linear attention that was pretrained on finitely many contexts is applied again and again to what
its own estimate leaves of the labels.  More steps find the task, saturate, or end in growing
errors: *overthinking*.  Which of these happens is known exactly.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.depth import (
    best_test_time_steps,
    final_test_time_error,
    overthinking_threshold,
    simulate_test_time,
    test_time_errors,
)

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"

# %%
# Left: errors after each step, in contexts of 4d pairs.  Below the threshold
# :math:`\tau^* = 1.58` the noise in the learned matrix feeds on itself.  Steps that are dampened
# to 80 % do not overthink yet.  Points are medians over nine pretrainings and their contexts at
# d = 150.  Right: with noise in the labels stopping early is best, unless pretraining is so short
# (1.6) that every step still helps.

steps = np.arange(17)
(_, left), (_, right) = plt.subplots(), plt.subplots()
for tau, dampening, colour, label in (
    (1.4, 1.0, ORANGE, r"$\tau = 1.4$"),
    (1.4, 0.8, PINK, r"$\tau = 1.4$, dampened"),
    (3.0, 1.0, BLUE, r"$\tau = 3$"),
):
    errors = test_time_errors(alpha=4, tau=tau, dampening=dampening, steps=16)
    left.plot(steps, errors, color=colour, label=label)
    size = {"dim": 150, "context": 600, "prompts": round(150 * tau), "target": "weights"}
    run = simulate_test_time(**size, dampening=dampening, steps=16, rng=0, repeats=9, contexts=3)
    left.plot(steps, np.median(run.errors, axis=(0, 1)), "o", color=colour, markersize=3)
left.set(yscale="log", xlabel="steps $k$", ylabel=r"$|w - w_k|^2/d$", title="no noise")
left.legend()

for tau, colour in ((1.6, ORANGE), (2.0, GREEN), (4.0, BLUE)):
    setting = {"alpha": 4, "tau": tau, "noise_variance": 0.4}
    right.plot(
        steps, test_time_errors(**setting, steps=16), color=colour, label=rf"$\tau = {tau}$"
    )
    best = best_test_time_steps(**setting)
    right.plot(best.steps, best.error, "D", color=colour)
    right.axhline(final_test_time_error(**setting), color="0.6", linestyle=":", linewidth=1)
right.set(yscale="log", xlabel="steps $k$", ylabel=r"$|w - w_k|^2/d$")
right.set(title=r"$\sigma^2 = 0.4$; diamonds: best $k$")
right.set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
right.set_yticks([], minor=True)
right.legend()

print(f"threshold {overthinking_threshold(alpha=4.0):.4f},", end=" ")
print(f"dampened {overthinking_threshold(alpha=4.0, dampening=0.8):.4f}")

# %%
# The limit of many steps over pretraining and context length.  In contexts longer than d, to the
# right of the upper line, errors go to 0 exponentially.  Shorter contexts do not show all
# directions: errors saturate.  Between the lines they grow without bound.

diagram = iclimit.phase_diagram(
    "final_test_time_error",
    x="tau",
    y="alpha",
    tau=np.geomspace(1.02, 12, 150),
    alpha=np.geomspace(0.1, 20, 150),
)
_, ax = plt.subplots()
diagram.plot(ax)

# %%
# Steps of 90 % need much less pretraining near :math:`\alpha = 1`.  What dampening cannot help
# against is noise along directions that a context hardly shows: the floor
# :math:`\tau > 1 + \min(1, \alpha)/\alpha`.

alpha = np.geomspace(0.1, 20, 300)
_, ax = plt.subplots()
for dampening, colour in ((1.0, ORANGE), (0.95, GREEN), (0.9, PINK), (0.0, BLUE)):
    label = f"{dampening:.0%}" if dampening else "floor"
    threshold = overthinking_threshold(alpha=alpha, dampening=dampening)
    ax.plot(alpha, threshold, color=colour, label=label)
ax.set(xscale="log", yscale="log", ylim=(1, 20), xlabel=r"$\alpha = \ell/d$", ylabel=r"$\tau^*$")
ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
ax.set_yticks([], minor=True)
ax.legend(title="steps")
