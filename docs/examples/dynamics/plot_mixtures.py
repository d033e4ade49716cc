"""
In-context against in-weight learning
=====================================

Prompts of one task that never changes are best answered from the weights, prompts of fresh tasks
from the context.  A mixture of both has a best layer, and training finds it at a rate that is
known.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.dynamics import (
    AttentionModel,
    initial_weights,
    mixture_growth_rate,
    mixture_predictor,
    simulate_gradient_descent,
)
from iclimit.problem import Problem

law = {"input_covariance": np.eye(2) / 2, "shared_task": [2.0, 0.0], "context": 20}
fresh = np.linspace(0, 1, 101)

# %%
# The best layer for each share of fresh tasks: its loss in training, and on fresh tasks alone.

best = mixture_predictor(fresh, **law)
figure, ax = plt.subplots()
ax.plot(fresh, best.train_loss, color="#0072b2", label="on the mixture")
ax.plot(fresh, best.icl_loss, color="#d55e00", label="on fresh tasks")
ax.set(xlabel="share of fresh tasks", ylabel="loss of the best layer", ylim=(0, None))
ax.legend()

# %%
# How fast training leaves its start: the shared task is larger, and is learned faster.

figure, ax = plt.subplots()
ax.plot(fresh, mixture_growth_rate(fresh, **law), color="#009e73")
ax.set(xlabel="share of fresh tasks", ylabel="rate of the first growth", ylim=(0, None))

# %%
# Gradient descent on fresh tasks only, from three seeds, and a check of these curves against the
# theory of their training: `iclimit.check_curve` reads a table of times and losses.

problem = Problem(dim=2, context=20, input_covariance=[0.5, 0.5], scale=1)
run = simulate_gradient_descent(
    problem, training_set=4000, learning_rate=0.02, steps=1500, init_scale=0.01, repeats=3, rng=0
)
figure, ax = plt.subplots()
ax.plot(run.times, run.losses.T, color="#0072b2")
ax.set(xlabel=r"time $t/\tau$", ylabel="training loss", ylim=(0, None))

start = initial_weights(AttentionModel("merged", dim=2, heads=8), 0.01, rng=0)
print("shapes of the first weights:", [weights.shape for weights in start])

clean = iclimit.dynamics.merged_attention_curve(
    run.times, eigenvalues=[0.5, 0.5], context=20, init_scale=1e-4
)
check = iclimit.check_curve(
    {"time": run.times, "loss": clean / 2},
    model="merged",
    heads=8,
    init_scale=7e-5,
    eigenvalues=[0.5, 0.5],
    context=20,
)
print(check.verdict.sentence, check.fits)
