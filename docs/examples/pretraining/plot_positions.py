r"""
What does one rate cost at every position?
==========================================

Trained at all positions of its sequences, linear attention is a step of one rate.  It is tuned to
an effective context: with a mean over the examples to the first few, with a fixed divisor to two
thirds of the sequence.  Lines are exact for infinitely many sequences, points are runs on 256.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import exact_position_errors, simulate_positions

sizes = {"dim": 16, "context": 32}
law = iclimit.Problem(**sizes, noise_variance=0.1, task_law="sphere")

figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
for number, normalization in enumerate(("mean", "length")):
    theory = exact_position_errors(**sizes, rho=0.1, normalization=normalization)
    axis.plot(theory.positions, theory.icl, f"C{number}", label=f"{normalization}, n infinite")
    axis.axvline(theory.effective_context, color=f"C{number}", ls=":")
    run = iclimit.Experiment(
        law,
        prompts=256,
        loss=iclimit.AllPositions(),
        training=iclimit.Ridge(0.05),
        model=iclimit.Reduced(normalization=normalization),
    )
    places = np.arange(4, 33, 4)
    runs = simulate_positions(run, positions=places, rng=0, repeats=8)
    label = f"{normalization}, 256 sequences"
    axis.plot(places, runs.icl.mean(axis=0), f"C{number}o", ms=4, label=label)
axis.plot(theory.positions, theory.best, "k--", label="best rate at each position")
axis.set(xlabel="examples seen", ylabel="error on fresh tasks", ylim=(0.3, 1.2))
axis.legend(frameon=False)
