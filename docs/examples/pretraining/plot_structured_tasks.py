r"""
Tests unlike training
=====================

Tasks of real problems vary more in some directions than in others, and tests need not vary as
training did.  Training tasks have eigenvalues that fall as a power law; tests vary in the same
directions, in the opposite ones, equally in all, or in one only.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors

# %%
# Lines are the limit for these eigenvalues, dashes the prediction at the integers of a run, points
# runs with d = 20, eight each.  All tests have the same trace, and so the same variance of labels:
# predicting zero has the error 1.01.

d, context, prompts, rho, ridge = 20, 40, 1600, 0.01, 0.05
training = np.arange(1, d + 1) ** -0.9
training *= d / training.sum()
tests = {
    "as in training": training,
    "isotropic": np.ones(d),
    "opposite order": training[::-1],
    "first direction": d * np.eye(d)[0],
}
setting = {"tau": prompts / d**2, "alpha": context / d, "rho": rho, "ridge": ridge}
kappa = np.geomspace(0.15, 10, 120)
counts = np.array([4, 10, 30, 100])
colors = ("#0072b2", "#009e73", "#d55e00", "#cc79a7")

figure, ax = plt.subplots(figsize=(6.8, 4.2))
for (name, test), color in zip(tests.items(), colors, strict=True):
    spectrum = JointSpectrum.of_matrices(training, test_covariance=test)
    errors = structured_errors(**setting, kappa=kappa, spectrum=spectrum)
    ax.plot(kappa, errors.icl, color=color, label=name)
    predicted = []
    for tasks in counts.tolist():
        run = {
            "dim": d,
            "context": context,
            "tasks": tasks,
            "prompts": prompts,
            "rho": rho,
            "ridge": ridge,
            "task_covariance": training,
            "test_covariance": test,
            "rng": 0,
        }
        predicted.append(iclimit.finite_size_errors(**run, draws=20).icl.mean)
        found = iclimit.simulate_errors(**run, repeats=8).icl
        ax.errorbar(tasks / d, found.mean, found.standard_error, fmt="o", ms=4, color=color)
    ax.plot(counts / d, predicted, "--", lw=0.8, color=color)
ax.axhline(1 + rho, color="0.7", lw=0.8, zorder=0)
ax.set(xscale="log", xlabel=r"$\kappa$", ylabel="ICL error", ylim=(0, None))
ax.legend(title="tests vary")

# %%
# More tasks help all tests, those along well-trained directions first.  The error is linear in the
# variances of the tests: each direction has its price, which falls with the variance of the
# training tasks along it.  Above 1 predicting zero is better.

figure, ax = plt.subplots(figsize=(6.8, 3.6))
spectrum = JointSpectrum.of_matrices(training)
for tasks, shade in ((0.3, "0.7"), (1.0, "0.4"), (10.0, "0.0")):
    slopes = iclimit.asymptotics.pretraining.direction_slopes(
        **setting, kappa=tasks, spectrum=spectrum
    )
    ax.plot(spectrum.task, slopes, "o-", ms=4, color=shade, label=rf"$\kappa = {tasks:g}$")
ax.axhline(1, color="0.7", lw=0.8, zorder=0)
ax.set(xscale="log", xlabel="variance of training tasks along a direction", ylim=(0, None))
ax.set(ylabel="error per variance of tests", xticks=[0.5, 1, 2, 4], xticklabels=["0.5", 1, 2, 4])
ax.minorticks_off()
ax.legend()

# %%
# Of the measures of alignment the one that comes from the theory orders the tests as their errors
# do; the others come near.

print("tests vary        error  misalignment  resolvent  trace ratio    CKA")
for name, test in tests.items():
    spectrum = JointSpectrum.of_matrices(training, test_covariance=test)
    errors = structured_errors(**setting, kappa=1.0, spectrum=spectrum)
    resolvent = iclimit.asymptotics.pretraining.resolvent_alignment(
        **setting, kappa=1.0, spectrum=spectrum
    )
    ratio = iclimit.asymptotics.pretraining.trace_ratio(spectrum)
    cka = iclimit.asymptotics.pretraining.cka(spectrum)
    print(
        f"{name:16}{errors.icl:7.3f}{errors.misalignment:14.3f}{resolvent:11.3f}"
        f"{ratio:13.3f}{cka:7.3f}"
    )
