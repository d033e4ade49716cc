r"""
Tasks of low rank
=================

Tasks that share a structure, here a space of fewer dimensions than the inputs have, are learnt
from fewer examples.  What a model learnt about this space does not help outside it.

Takanami, Takahashi and Kabashima (`arXiv:2510.04548 <https://arxiv.org/abs/2510.04548>`__) study
linear attention that is trained on tasks of low rank, and find a sharp transition.  It is
contained in the theory of :doc:`structured data </theory/pretraining/structured-data>`: the
covariance of the tasks has rank r and the trace d.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors

# %%
# With data and contexts without end all that remains inside the space, besides the label noise, is
# the part of it that no training task points to: the error falls on a straight line to the noise,
# and has a kink where there are as many tasks as dimensions, :math:`\kappa = r/d`.

d, rho = 24, 0.09
ranks, colors = (6, 12, 18), ("#0072b2", "#009e73", "#d55e00")
kappa = np.linspace(0.02, 1.5, 200)


def covariance(rank):
    """Variances of the tasks along their axes."""
    return np.where(np.arange(d) < rank, d / rank, 0.0)


figure, ax = plt.subplots(figsize=(6.4, 3.6))
for rank, color in zip(ranks, colors, strict=True):
    spectrum = JointSpectrum.of_matrices(covariance(rank))
    endless = structured_errors(tau=np.inf, alpha=np.inf, kappa=kappa, rho=rho, spectrum=spectrum)
    ax.plot(kappa, endless.icl, color=color, label=f"{rank}/{d}")
    ax.axvline(rank / d, color=color, lw=0.8, ls=":")
ax.axhline(rho, color="0.7", lw=0.8, zorder=0)
ax.set(xlabel=r"$\kappa$", ylabel="error on new tasks of the space", ylim=(0, None))
ax.legend(title="rank / d")

# %%
# Data that are limited smooth the kink.  Lines are the limit, dashes the prediction at the
# integers of a run, points the mean of four runs at d = 24.  Thick lines are new tasks of the
# space, thin ones the training tasks: where they meet, nothing is memorised any more.

context, prompts, ridge = 4 * d, 3 * d**2, 0.02
setting = {"tau": prompts / d**2, "alpha": context / d, "rho": rho, "ridge": ridge}
counts = np.array([3, 4, 6, 9, 12, 18, 24, 36])

figure, ax = plt.subplots(figsize=(6.4, 4.2))
for rank, color in zip(ranks, colors, strict=True):
    spectrum = JointSpectrum.of_matrices(covariance(rank))
    errors = structured_errors(**setting, kappa=kappa, spectrum=spectrum)
    ax.plot(kappa, errors.icl, color=color, label=f"{rank}/{d}")
    ax.plot(kappa, errors.idg, color=color, lw=0.8)
    predicted = []
    for tasks in counts.tolist():
        run = {"dim": d, "context": context, "tasks": tasks, "prompts": prompts, "rho": rho}
        run |= {"ridge": ridge, "task_covariance": covariance(rank), "rng": 0}
        predicted.append(iclimit.finite_size_errors(**run, draws=10).icl.mean)
        simulated = iclimit.simulate_errors(**run, repeats=4)
        for each, marker in ((simulated.icl, "o"), (simulated.idg, ".")):
            ax.errorbar(tasks / d, each.mean, each.standard_error, fmt=marker, ms=4, color=color)
    ax.plot(counts / d, predicted, "--", lw=0.8, color=color)
ax.axhline(1 + rho, color="0.7", lw=0.8, zorder=0)
ax.set(xlabel=r"$\kappa$", ylabel="error", ylim=(0, None))
ax.legend(title="rank / d")

# %%
# Outside the space more tasks make it worse: the model becomes sure of a space that the tests do
# not lie in.  Predicting zero has the error 1.09.

print("rank/d   kappa   inside  outside")
for rank in ranks:
    outside = covariance(d - rank)[::-1]
    for tasks in (0.25, 1.0, 10.0):
        inside, other = (
            structured_errors(
                **setting,
                kappa=tasks,
                spectrum=JointSpectrum.of_matrices(covariance(rank), test_covariance=test),
            ).icl
            for test in (None, outside)
        )
        print(f"{rank / d:6.2f}{tasks:8.2f}{inside:9.3f}{other:9.3f}")
