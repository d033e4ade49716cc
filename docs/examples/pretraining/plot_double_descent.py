"""
Double descent
==============

Without a ridge both errors peak where the number of prompts meets the number of parameters.  A
curve carries its own check: simulated runs with error bars, and what a run of that size is
predicted to show.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit

# %%
# The peak is at :math:`\tau = 1`.  The line is the limit of infinite dimension.  At d = 20
# the twelve simulated points are visibly above it, and the dashes,
# `iclimit.finite_size_errors` at the same integers, say by how much.

simulated = iclimit.curve(
    "icl_error",
    tau=np.geomspace(0.2, 6, 240),
    alpha=1,
    kappa=0.5,
    rho=0.05,
    simulation={"dim": 20, "repeats": 12},
    rng=1,
    jobs=1,
)
figure, ax = plt.subplots(figsize=(6.4, 4))
simulated.plot(ax, label="limit of large d")
ax.set_ylim(0.6, 30)
ax.set(
    xlabel=r"prompts over squared dimension, $\tau = n/d^2$",
    ylabel=r"error on new tasks, $e_{\mathrm{ICL}}$",
)

# %%
# The same numbers as a table in long form: ``simulated.rows()``.  The peak lies at
# :math:`n = d (d + 1)` prompts, a little to the right of :math:`\tau = 1`.  A ridge removes it.

figure, ax = plt.subplots(figsize=(6.4, 4))
iclimit.curve(
    "icl_error",
    tau=np.geomspace(0.2, 6, 240),
    alpha=1,
    kappa=0.5,
    rho=0.05,
    ridge=[0, 0.01, 0.1, 1],
).plot(ax)
ax.set_ylim(0.8, 30)
