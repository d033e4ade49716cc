"""
Two heads
=========

Two softmax heads with opposite keys and values subtract what one of them wastes.  Warm, they are
linear attention that has lost one context pair.  At their best temperature they gain a little, and
on bounded inputs and long contexts they beat the best linear layer.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.descent import optimal_learning_rate
from iclimit.softmax import optimal_softmax, simulate_softmax, train_softmax, uniform_softmax

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "0.5"
N = 10
D = 10

# %%
# Left: the loss of the best values at each temperature, for one head and for two, from one
# simulation each, beside linear attention on N and on N - 1 pairs.  Right: two heads trained from
# random weights.  Their values have opposite signs, and so have their key-query matrices.

t = np.geomspace(0.05, 3, 16)
one, two = [], []
for each in t / np.sqrt(D):
    heads = simulate_softmax([each, -each], context=N, dim=D, contexts=10_000, rng=0)
    signal = heads.signal.mean(axis=0)
    power = heads.power.mean(axis=0)
    one.append((heads.null.mean() - signal[0] ** 2 / power[0, 0]) / D)
    two.append(heads.loss(heads.best_value).mean / D)
(_, left), (_, right) = plt.subplots(), plt.subplots()
left.plot(t, one, "o-", color=BLUE, markersize=3, label="one head")
left.plot(t, two, "o-", color=GREEN, markersize=3, label="two heads")
for pairs, style in ((N, "--"), (N - 1, ":")):
    value = optimal_learning_rate(context=pairs, dim=D).loss / D
    left.axhline(value, color=ORANGE, linestyle=style, label=f"linear attention, {pairs} pairs")
left.set(xscale="log", ylim=(0.5, 1), title="N = d = 10")
left.set(xlabel=r"inverse temperature $\beta \sqrt{d}$", ylabel="loss / d")
left.legend()

run = train_softmax(iclimit.Problem(dim=D, context=N, scale=1), heads=2, batch=512, rng=0)
window = np.convolve(run.losses, np.ones(20) / 20, "valid") / D
right.plot(window, color=GREEN, label="two heads in training")
right.axhline(optimal_softmax(context=N, dim=D).loss / D, color=BLUE, label="best head, exact")
right.axhline(
    optimal_softmax(context=N, dim=D, heads=2).loss / D, color=GREY, label="best two, exact"
)
right.set(xlabel="training step", ylabel="loss / d", ylim=(0.5, 1.05))
right.legend()
pair = run.network.nearest_isotropic(run.weights)
print("inverse temperatures", pair.inverse_temperature.round(2), "values", pair.value.round(2))

# %%
# Training first finds one head, and then splits it.  The loss hardly depends on the temperature;
# the trained pair is colder than the best one.
#
# On inputs uniform on a cube the exponential bends the right way.  With long contexts, two heads
# have a smaller loss than the best linear layer: both are exact, and the points are paired
# simulations.

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
size = {"dim": 5, "input_law": "uniform"}
for context in (10, 20, 40, 80):
    best = uniform_softmax(context=context, dim=5, heads=2)
    linear = optimal_learning_rate(context=context, **size)
    ax.plot(context, best.loss / linear.loss, "_", color=GREEN, markersize=18)
    setting = {"context": context, "contexts": 8_000, "rng": 1, **size}
    beta = best.inverse_temperature
    v = best.value
    pair = simulate_softmax([beta, -beta], **setting).loss([v, -v])
    step = simulate_softmax(1.0, score_function=lambda s: s, **setting)
    ratio = 1 + (pair.samples - step.loss(linear.rate / context).samples) / linear.loss
    error = ratio.std() / np.sqrt(len(ratio))
    ax.errorbar(context, ratio.mean(), error, fmt="o", color=GREEN, markersize=4, capsize=2)
ax.axhline(1, color=ORANGE, label="best linear layer")
ax.plot([], [], "_", color=GREEN, markersize=14, label="best two heads, exact")
ax.plot([], [], "o", color=GREEN, markersize=4, label="simulated")
ax.set(xscale="log", xlabel="context length $N$", ylabel="loss over that of the linear layer")
ax.set_xticks([10, 20, 40, 80], ["10", "20", "40", "80"])
ax.set_xticks([], minor=True)
ax.set_title("uniform inputs, d = 5")
ax.legend()
