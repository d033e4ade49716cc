"""
Why softmax is worse than linear
================================

On linear regression one layer of softmax attention with one head ends at a larger loss than one of
linear attention, and longer training does not help.  The least loss of a head is known exactly:
the head must spend its values on weights that are positive.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.descent import optimal_learning_rate
from iclimit.softmax import (
    attention_loss,
    heads_efficiency,
    kernel_efficiency,
    optimal_softmax,
    simulate_softmax,
    train_softmax,
)

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
D = 6

# %%
# Left: the exact least loss of a softmax head against the context length, and of linear attention.
# Points are the best heads on simulated prompts.  The diamond is a head trained from random
# weights, with all entries of its key-query matrix free.  Right: the limit of large dimension.
# A softmax head needs e = 2.718 times the context of linear attention.

(_, left), (_, right) = plt.subplots(), plt.subplots()
N = np.unique(np.geomspace(3, 60, 16).round())
left.plot(N, optimal_softmax(context=N, dim=D).loss / D, color=BLUE, label="one softmax head")
linear = optimal_learning_rate(context=N, dim=D).loss / D
left.plot(N, linear, color=ORANGE, label="linear attention")
for context in (5, 15, 45):
    best = optimal_softmax(context=context, dim=D)
    heads = simulate_softmax(
        best.inverse_temperature, context=context, dim=D, contexts=20_000, rng=0
    )
    found = heads.loss(best.value)
    left.errorbar(
        context, found.mean / D, found.standard_error / D, fmt="o", color=BLUE, markersize=4
    )
run = train_softmax(iclimit.Problem(dim=D, context=8, scale=1), batch=512, rng=1)
left.plot(8, run.held_out.mean / D, "D", color=GREEN, label="trained head")
left.set(xscale="log", xlabel="context length $N$", ylabel="loss / d", title=f"d = {D}")
left.set_xticks([3, 6, 12, 24, 48], ["3", "6", "12", "24", "48"])
left.set_xticks([], minor=True)
left.legend()

per = np.geomspace(0.2, 20, 100)  # N/d
right.plot(per, optimal_softmax(ratio=1 / per).loss, color=BLUE, label="one softmax head")
right.plot(per, attention_loss(1.0, ratio=1 / per), color=ORANGE, label="linear attention")
right.annotate(
    "", (1, 0.5), (np.e, 0.5), arrowprops={"arrowstyle": "<->", "color": "0.3", "shrinkA": 0}
)
right.text(np.sqrt(np.e), 0.52, "e", ha="center")
right.set(xscale="log", xlabel="$N/d$", ylabel="loss / d", title="limit")
right.set_xticks([0.2, 1, 5, 20], ["0.2", "1", "5", "20"])
right.legend()

trained = run.network.nearest_isotropic(run.weights)
print(f"trained: inverse temperature {abs(trained.inverse_temperature[0]):.3f},", end=" ")
print(f"best {optimal_softmax(context=8, dim=D).inverse_temperature:.3f}")

# %%
# What counts in the limit is how much of the weights is linear in the score, the *efficiency*: 1/e
# for softmax at its best temperature and 1/2 for ReLU.  Only a linear kernel has 1.  Several heads
# combine their exponentials, and come close.

t = np.linspace(0.05, 2.5, 100)
figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.plot(t, t**2 * np.exp(-(t**2)), color=BLUE, label="one softmax head")
ax.plot(
    t, [heads_efficiency([-each, each]) for each in t], color=GREEN, label="two opposite heads"
)
ax.plot(
    t,
    [heads_efficiency([each / 2, each]) for each in t],
    color=PINK,
    label="two, one half as cold",
)
ax.axhline(kernel_efficiency(lambda s: max(s, 0)), color="0.5", linestyle="--", label="ReLU")
ax.axhline(1, color=ORANGE, label="linear")
ax.axhline(1 / np.e, color="0.7", linestyle=":", label="1/e")
ax.set(xlabel=r"inverse temperature $\beta \sqrt{d}$", ylabel="efficiency", ylim=(0, 1.05))
ax.legend(loc="upper right", bbox_to_anchor=(1, 0.95))
