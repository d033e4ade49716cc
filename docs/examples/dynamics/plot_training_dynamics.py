"""
Training dynamics: a staircase and a sigmoid
============================================

Trained from small weights, linear attention with separate key and query weights learns one
direction after the other; with merged key and query it learns all at once.  When it does so is
written in the initial weights.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_loss,
    merged_drop_time,
    plateau_losses,
    separate_attention_staircase,
)
from iclimit.problem import Problem
from iclimit.simulate.dynamics import simulate_gradient_flow

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "0.75"
N, D, H = 31, 4, 4

# %%
# Separate key and query.  The layer has values for D + 1 entries of a token and keys for as many;
# what reaches the prediction are the value of the label and the keys and queries of the inputs.
# Dashed: the prediction from the initial weights alone.  It is the better, the smaller they
# are: the two starts differ by a factor of ten.  Horizontal lines are the plateaus, losses of
# regression in context on the first principal components.

lam = np.array([4, 3, 2, 1]) / 10
rng = np.random.default_rng(2)
shape = (H, 1, D + 1), (H, 1, D)
value, key, query = rng.standard_normal(H), *(rng.standard_normal(each) for each in shape)
key[..., -1] = 0  # the key of the label


def layer_weights(scale):
    """Weights of all entries of a token: values of the inputs are zero."""
    values = np.zeros((H, D + 1))
    values[:, -1] = value
    return [scale * values, scale * key, scale * query]


figure, ax = plt.subplots()
for level in plateau_losses(lam, context=N):
    ax.axhline(level, color=GREY, linewidth=0.8)
for scale, colour in ((0.02, ORANGE), (0.002, BLUE)):
    steps = separate_attention_staircase(
        scale * value, key=scale * key[..., :D], query=scale * query, eigenvalues=lam, context=N
    )
    end = 2 * steps.times[-1]
    run = simulate_gradient_flow(
        Problem(D, N, input_covariance=lam, scale=1),
        model="separate",
        heads=H,
        rank=1,
        duration=end,
        initial=layer_weights(scale),
    )
    ax.plot(run.times, run.losses, color=colour, label=f"flow, scale {scale:g}")
    t = np.geomspace(steps.times[0] / 3, end, 2000)
    ax.plot(t, steps.loss(t), "--", color="0.1", linewidth=1)
    middles = (steps.losses[1:] + steps.losses[:-1]) / 2
    print(f"scale {scale}: heads {steps.heads}")
    print("   half drops, predicted:", steps.drop_times.round(1))
    print("                    flow:", run.crossing_times(middles).round(1))
ax.plot([], [], "--", color="0.1", linewidth=1, label="predicted")
ax.set(xscale="log", xlabel=r"time $t/\tau$", ylabel="loss", title="separate, rank one")
ax.set(xlim=(100, None), ylim=(0, 1.4))
ax.legend(loc="upper right")

# %%
# Merged key and query, white inputs, as the network on cubic features.  Dots are the flow
# from five seeds.  The sigmoid of each starts from the effective scale of its weights: half the
# norm of the sum, a vector over heads, of values and of traces of the merged weights over
# :math:`\sqrt D`.

white = Problem(D, N, scale=1)
drops = []
t = np.linspace(0, 5, 300)
figure, ax = plt.subplots()
for seed, colour in enumerate(plt.colormaps["viridis"](np.linspace(0, 0.85, 5))):
    rng = np.random.default_rng(seed)
    merged = 1e-3 * rng.standard_normal(H), 1e-3 * rng.standard_normal((H, D, D))
    run = simulate_gradient_flow(
        white, model="cubic", heads=H, duration=5, initial=[merged[0][:, None], merged[1]]
    )
    scale = float(effective_init_scale(merged[0], key_query=merged[1], eigenvalues=np.ones(D)))
    size = {"dim": D, "context": N, "init_scale": scale}
    ax.plot(run.times[::3], run.losses[::3], ".", color=colour)
    ax.plot(t, merged_attention_loss(t, **size), color=colour, label=f"{1000 * scale:.2f}")
    drops.append(float(merged_drop_time(**size)))
ax.set(xlabel=r"time $t/\tau$", ylabel="loss", title="merged, white inputs")
ax.legend(title=r"$1000\,w_0$")

# %%
# Drop times over seeds spread by a number that does not depend on the scale:

print("half-drop times:", np.round(drops, 3))
spread = effective_init_scale_moments(H).std / np.sqrt(D)
print(f"standard deviation over all seeds: {float(spread):.3f}")
