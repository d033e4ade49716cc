"""
Which tests are easiest, and what to train on
=============================================

The ICL error is linear in the covariance of the tests, so the easiest test at a given trace is one
direction.  The best *training* covariance is not that of the tests.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.pretraining import (
    JointSpectrum,
    best_test_covariance,
    best_training_covariance,
    diversity_slope,
    structured_errors,
    worst_test_covariance,
)

variances = np.array([1.8, 1.3, 0.9, 0.6, 0.4])
point = {"tau": 2.0, "alpha": 2.0, "kappa": 2.0, "rho": 0.1}

# %%
# Training tasks with these variances: a test along the direction of largest variance has the least
# error, and one along that of least variance the largest.

aligned = JointSpectrum.of_matrices(variances, test_covariance=variances)
easiest = best_test_covariance(**point, spectrum=aligned)
print("tests as in training:", structured_errors(**point, spectrum=aligned).icl)
print("easiest test:", easiest.icl, "with variances", easiest.spectrum.test)
hardest = worst_test_covariance(**point, spectrum=aligned)
print("hardest test:", hardest.icl, "with variances", hardest.spectrum.test)

# %%
# Tests with these variances: with few tasks it is best to train on the leading directions alone,
# and with many on tasks almost like the tests.

figure, ax = plt.subplots()
order = np.arange(1, len(variances) + 1)
ax.plot(order, variances, "o-", color="0.3", label="tests")
for kappa, colour in ((0.5, "#d55e00"), (2.0, "#0072b2"), (10.0, "#009e73")):
    best = best_training_covariance(**{**point, "kappa": kappa}, spectrum=aligned)
    values = np.sort(best.spectrum.task)[::-1]
    ax.plot(order, values, "o--", color=colour, label=rf"best training, $\kappa = {kappa:g}$")
ax.set(xlabel="direction", ylabel="variance", xticks=order, ylim=(0, None))
ax.legend()

# %%
# More training tasks can hurt tests that are unlike them.  The sign of the slope says where.

flat = JointSpectrum.of_matrices([1.9, 0.1], test_covariance=[1.0, 1.0])
kappa = np.geomspace(0.05, 5, 120)
where = {"alpha": 3.0, "rho": 0.01, "spectrum": flat}
figure, ax = plt.subplots()
for tau, colour in ((1.1, "#d55e00"), (2.0, "#0072b2")):
    slope = diversity_slope(tau=tau, kappa=kappa, **where)
    ax.plot(kappa, kappa * slope, color=colour, label=rf"$\tau = {tau:g}$")
ax.axhline(0, color="0.6", linewidth=0.8)
ax.set(
    xscale="log",
    xlabel=r"$\kappa = k/d$",
    ylabel=r"$\kappa\, \partial e_{\mathrm{ICL}}/\partial\kappa$",
)
ax.legend()
