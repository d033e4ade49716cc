r"""
Long sequences or many?
=======================

A number of tokens, B d^2 in all, is spent on many short sequences or on few long ones.  Few
sequences hold few tasks, and a long one tunes the single rate of linear attention to long
contexts.  For tests after d examples, lengths of a few d are best.  Lines are the limit, points
are runs.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import all_position_errors

length = np.geomspace(0.25, 8, 11)
setting = {"rho": 0.1, "ridge": 0.2, "normalization": "length"}

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
for number, budget in enumerate((2, 8, 32)):
    errors = all_position_errors(
        sequence_ratio=budget / length, alpha=length, test_alpha=1, **setting
    )
    left.plot(length, errors.icl, f"C{number}", label=f"B = {budget}")
    right.plot(length, errors.mean_icl, f"C{number}", label=f"B = {budget}")

# %%
# Runs at d = 16 with the same tokens, tested after 16 examples.
dim = 16
for context in (8, 16, 32, 64):
    run = iclimit.Experiment.of(
        dim=dim,
        context=context,
        tasks=np.inf,
        prompts=8 * dim**2 // context,
        rho=0.1,
        ridge=0.2,
        first_position=1,
        normalization="length",
        test_context=dim,
    )
    runs = iclimit.sample(run, rng=0, repeats=8)
    left.errorbar(context / dim, runs.icl.mean, runs.icl.standard_error, fmt="C1o")
left.set_ylabel("error after d examples")
right.set_ylabel("mean error over the positions")
for axis in (left, right):
    axis.set_xscale("log", base=2)
    axis.set_xlabel(r"length of a sequence over d, $\alpha$")
left.set_yscale("log", base=2)
left.legend(frameon=False, title="tokens over $d^2$")
