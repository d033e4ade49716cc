"""
How much context does a gate leave?
===================================

A gate makes a layer forget.  For linear attention this costs context: it is worth a shorter one
without a gate.  If tasks change along the context, forgetting is worth more than it costs.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.recurrent import (
    gated_context,
    gated_pretraining_errors,
    memory_weights,
    optimal_forgetting,
    optimal_gates,
)

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"

# %%
# Left: the effective context of 4d pairs against the rate of forgetting.  Diamonds: the best
# gate of endless contexts.  Right: the effective context against the length of the prompt, each at
# the gate that is best for endless ones.  Where tasks change, longer prompts are worth nothing.

forgetting, alpha = np.geomspace(0.02, 10, 200), np.geomspace(0.1, 100, 200)
(_, left), (_, right) = plt.subplots(), plt.subplots()
for drift, colour in ((0.0, BLUE), (0.1, GREEN), (0.5, ORANGE)):
    label = rf"$\vartheta = {drift:g}$"
    setting = {"rho": 0.25, "drift": drift}
    curves = iclimit.curve("effective_context", alpha=4, forgetting=forgetting, **setting)
    left.plot(forgetting, curves.values[0], color=colour, label=label)
    rate = 0.0
    if drift:
        best = optimal_forgetting(**setting)
        rate = float(best.forgetting)
        left.plot(best.forgetting, best.alpha, "D", color=colour)
    curves = iclimit.curve("effective_context", alpha=alpha, forgetting=rate, **setting)
    right.plot(alpha, curves.values[0], color=colour, label=label)
left.set(xscale="log", xlabel=r"forgetting $\omega$", ylabel=r"$\alpha_{\mathrm{eff}}$")
right.set(
    xscale="log", yscale="log", xlabel=r"$\alpha = \ell/d$", ylabel=r"$\alpha_{\mathrm{eff}}$"
)
left.legend()

# %%
# The best gates of a prompt of 60 tokens at d = 20, and the best constant one.  The first tokens
# have no others before them, and count for a little more.

ages = np.arange(59, -1, -1)
setting = {"dim": 20, "rho": 0.25, "drift": 0.3}
rates = np.linspace(0.1, 2, 400)
worth = [gated_context(np.exp(-rate / 20 * ages), **setting).alpha for rate in rates]
best = optimal_gates(context=60, **setting)
_, ax = plt.subplots()
ax.plot(best.gates, color=ORANGE, label=f"best: {20 * best.alpha:.2f} pairs")
constant = np.exp(-rates[np.argmax(worth)] / 20 * ages)
ax.plot(constant, color=BLUE, label=f"constant: {20 * max(worth):.2f} pairs")
ax.set(xlabel="token", ylabel="gate $g_i$")
ax.legend()

# %%
# Which pairs of 60 a memory uses, over the weight of the last one.  A gate forgets older ones.  A
# delta rule corrects itself with every pair: it loses a little of the older ones, and with many
# pairs of one task it needs them less.

_, ax = plt.subplots()
for label, colour, layer in (
    ("gate 0.95", BLUE, {"gates": 0.95}),
    (r"delta rule, $\beta = 0.6$", GREEN, {"step_sizes": 0.6}),
    ("both", ORANGE, {"gates": 0.95, "step_sizes": 0.6}),
):
    weights = memory_weights(context=60, dim=20, rho=0.25, **layer)
    ax.plot(np.arange(1, 61), weights / weights[-1], color=colour, label=label)
ax.set(xlabel="position of the pair", ylabel="weight in the memory", ylim=(0, 1.05))
ax.legend()

# %%
# A layer that is pretrained on contexts of 2d pairs, in contexts of other lengths.  The state of a
# recurrent layer is a sum over the pairs.  Without a gate it grows with the context, and with it
# the predictions: at 2.5 times the length of training the layer is worse than predicting 0.  A
# gate bounds the sum, and one that forgets fast makes long contexts harmless.

test_alpha = np.geomspace(0.2, 20, 100)
_, ax = plt.subplots()
for rate, colour in ((0.0, BLUE), (0.3, GREEN), (1.0, ORANGE)):
    layer = {"tau": 20, "alpha": 2, "kappa": 8, "rho": 0.1, "forgetting": rate}
    errors = gated_pretraining_errors(**layer, test_alpha=test_alpha, running_sum=True)
    ax.plot(test_alpha, errors.icl, color=colour, label=rf"$\omega = {rate:g}$")
ax.axhline(1.1, color="0.6", linestyle=":", label="predicting 0")
ax.axvline(2, color="0.6", linewidth=1)
ax.set(xscale="log", ylim=(0, 2), xlabel=r"test length $\ell'/d$", ylabel=r"$e_{\mathrm{ICL}}$")
ax.legend()
