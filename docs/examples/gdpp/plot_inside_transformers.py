"""
Inside a linear transformer
===========================

Linear transformers built by hand: one performs GD++, one is ridge regression at two noise levels.
What a layer believes the task to be can be read off, prompt by prompt.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.gdpp import (
    gdpp_transformer,
    held_out_losses,
    implicit_weights,
    layer_spectra,
    optimal_gdpp,
    steps_needed,
    two_level_ridge_transformer,
)
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import draw_prompts

size = {"context": 20, "dim": 5}
best = optimal_gdpp(4, **size)
model = gdpp_transformer(best.rates, best.gammas, **size)

# %%
# The implicit weights of the layers approach the task.  Thin lines are prompts.

problem = Problem(**size, noise_law="fixed:0", scale=1)
drawn = draw_prompts(problem, get_backend("numpy"), np.random.default_rng(0), 30)
weights = implicit_weights(drawn, model).weights
distance = np.linalg.norm(weights - drawn.tasks, axis=-1) / np.linalg.norm(drawn.tasks, axis=-1)
figure, ax = plt.subplots()
layers = np.arange(len(distance))
ax.plot(layers, distance, color="0.7", linewidth=0.7)
ax.plot(layers, np.median(distance, axis=1), "o-", color="#0072b2", label="median")
ax.set(yscale="log", xticks=layers, xlabel="layer", ylabel="distance to the task, relative")
ax.legend()

# %%
# The reason: preconditioning squeezes the spectrum of the inputs of a prompt.

inputs = drawn.inputs[:1]
for layer, values in enumerate(layer_spectra(inputs, best.gammas)):
    print(f"before layer {layer + 1}: eigenvalues", np.ravel(values).round(3))
print("layers to a condition number of 1 + 1e-10 from 1e4:", steps_needed(1e4, tol=1e-10))

# %%
# Two layers that become ridge regression for either of two noise levels, as contexts get longer.

contexts = (20, 40, 80, 160, 320)
losses = []
for context in contexts:
    two = two_level_ridge_transformer([0.5, 2.0], context=context, dim=5)
    law = Problem(dim=5, context=context, noise_law="categorical:0.5,2", scale=1)
    losses.append(held_out_losses(two, law, contexts=2000, rng=1).loss)
figure, ax = plt.subplots()
means, bars = [each.mean for each in losses], [each.standard_error for each in losses]
ax.errorbar(contexts, means, bars, fmt="o-", color="#d55e00", capsize=2)
ax.set(xscale="log", yscale="log", xlabel="context N", ylabel="loss above that of the oracle")
ax.set_xticks(contexts, [str(each) for each in contexts])
ax.minorticks_off()
