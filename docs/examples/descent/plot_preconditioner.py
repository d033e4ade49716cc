"""
The best preconditioner, and what data say
==========================================

On inputs that vary more in some directions a layer does better than any learning rate: it has a
matrix.  How much better, where plain descent diverges, and the same from data alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.descent import (
    derive_schedule,
    derive_wishart_moment,
    divergence_rate,
    estimate_learning_rate,
    optimal_dampening,
    optimal_preconditioner,
    preconditioner_loss,
)

# %%
# The loss of one step over the loss of predicting zero, as the spread of the variances grows.

spread = np.geomspace(1, 100, 60)
figure, ax = plt.subplots()
matrix, rate = [], []
for each in spread:
    covariance = np.diag(np.geomspace(1, each, 5))
    covariance *= 5 / np.trace(covariance)
    best = optimal_preconditioner(covariance, context=20)
    matrix.append(best.loss / 5)
    rates = np.linspace(0.05, 1, 96)
    losses = [
        preconditioner_loss(eta * np.eye(5), input_covariance=covariance, context=20)
        for eta in rates
    ]
    rate.append(min(losses) / 5)
ax.plot(spread, rate, color="#d55e00", label="best learning rate")
ax.plot(spread, matrix, color="#0072b2", label="best matrix")
ax.set(xscale="log", xlabel="largest over smallest variance", ylabel="loss / loss of predicting 0")
ax.set_ylim(0, None)
ax.legend()

# %%
# A constant rate diverges beyond a bound, and a layer that is repeated needs a dampening that
# falls with the number of repetitions.

print("d/N = 1/2: diverges beyond the rate", round(float(divergence_rate(0.5)), 4))
steps = np.arange(1, 9)
figure, ax = plt.subplots()
for dim, colour in ((5, "#009e73"), (10, "#0072b2")):
    best = [optimal_dampening(steps=int(k), context=10, dim=dim) for k in steps]
    ax.plot(steps, best, "o-", color=colour, label=f"N = 10, d = {dim}")
ax.set(xlabel="repetitions", ylabel="best dampening", ylim=(0, 1.05))
ax.legend()

# %%
# The best rate needs no law: batches of prompts will do.

problem = iclimit.Problem(dim=10, context=10, input_law="uniform", scale=1)
prompts = iclimit.sample_prompts(problem, 10_000, rng=0)
print("rate from 10,000 prompts:", estimate_learning_rate(prompts).rate)

# %%
# And it can be derived: the least loss of two steps, and the moment of a Wishart matrix it uses.

print(derive_schedule(2).result)
print(derive_wishart_moment(3).result)
