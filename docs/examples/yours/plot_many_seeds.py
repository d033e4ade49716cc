"""
Many seeds, saved and looked into
=================================

Training is random: some seeds fail.  A network is trained from several, the failed ones are
counted, and one is saved and read again.  Another is asked which tokens it mixes.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.networks import (
    AttentionNetwork,
    load_model,
    save_model,
    token_sensitivities,
    train_network,
    train_repeats,
)
from iclimit.simulate.prompts import sample_prompts
from iclimit.softmax import MergedHeads

# %%
# A softmax head on regression in two dimensions, from four seeds.

problem = iclimit.Problem(dim=2, context=8, scale=1)
settings = {"steps": 1500, "batch": 128, "learning_rate": 0.02}
found = train_repeats(MergedHeads(dim=2), problem, repeats=4, rng=0, **settings)
print(found)

figure, ax = plt.subplots()
window = np.ones(25) / 25
for run in found.runs:
    ax.plot(np.convolve(run.losses, window, "valid"), linewidth=1)
least = iclimit.optimal_softmax(context=8, dim=2).loss
ax.axhline(least, color="0.1", linestyle="--", label="least loss of a head")
ax.set(xlabel="steps", ylabel="training loss, mean of 25 steps", ylim=(0.5, 2.2))
ax.legend()

# %%
# Saved and read again, it is the same network:

with tempfile.TemporaryDirectory() as folder:
    save_model(found.runs[0], f"{folder}/head.npz")
    again = load_model(f"{folder}/head.npz")
print(again.network, again.held_out == found.runs[0].held_out)

# %%
# Inputs and labels as separate tokens: does the first layer bring each label to its input?

network = AttentionNetwork(dim=2, tokens="separate", layers=2)
run = train_network(network, problem, steps=300, batch=64, learning_rate=0.01, rng=0)
print(token_sensitivities(network, run.weights, sample_prompts(problem, 50, rng=1)))
