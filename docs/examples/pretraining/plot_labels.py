r"""
Does linear attention learn nonlinear tasks?
============================================

Labels that are a function of the linear label z are linear labels with noise: what is
not linear in z is noise.  Classes can be learned, and the accuracy says how well.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.pretraining import accurate_ridge, pretrained_accuracy

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
tau = np.geomspace(0.2, 20, 60)
point = {"alpha": 2, "kappa": 2, "ridge": 0.1}
dim = 16
for number, link in enumerate(("identity", "sign", "relu", ("sin", 2.0))):
    labels = iclimit.pretraining.effective_labels(link)
    # Errors over the mean square of the labels, which is that of predicting 0.
    square = labels.factor * (1 + labels.rho)
    error = iclimit.icl_error(tau=tau, rho=0, link=link, **point) / square
    name = link if isinstance(link, str) else "sin 2z"
    axes[0].loglog(tau, error, f"C{number}", label=name)
    for at in (0.5, 1, 2, 4, 8):
        run = iclimit.Point(tau=at, link=link, **point).at(dim)
        runs = iclimit.sample(run, rng=0, repeats=10)
        mean = runs.icl.mean / square
        bar = runs.icl.standard_error / square
        axes[0].errorbar(at, mean, bar, fmt=f"C{number}o", ms=4)
axes[0].set(xlabel=r"prompts over $d^2$, $\tau$", ylabel="error over that of predicting 0")
axes[0].legend(frameon=False, fontsize=8)

# %%
# Classes of which some are wrong, in the context and in training: accuracy against the context, at
# the ridge that is best for it.  Points are runs at d = 16, whose corrections are of order 1/d.
alpha = np.geomspace(0.3, 30, 50)
for number, flips in enumerate((0.0, 0.1, 0.25)):
    best = accurate_ridge(tau=4, alpha=alpha, kappa=2, flips=flips)
    axes[1].semilogx(alpha, best.accuracy, f"C{number}", label=f"{flips:.0%} flipped")
    for at in (0.5, 2, 8):
        # the best ridge may be infinite
        ridge = min(accurate_ridge(tau=4, alpha=at, kappa=2, flips=flips).ridge, 1000.0)
        run = iclimit.Point(tau=4, alpha=at, kappa=2, ridge=ridge, link="sign", flips=flips)
        runs = iclimit.sample(run.at(dim), rng=0, repeats=6, accuracies=True)
        bar = runs["accuracy"].standard_error
        axes[1].errorbar(at, runs["accuracy"].mean, bar, fmt=f"C{number}o", ms=4)
axes[1].set(xlabel=r"context over dimension, $\alpha$", ylabel="accuracy on fresh tasks")
axes[1].legend(frameon=False, fontsize=8)

# %%
# How many prompts, and of which length?  The accuracy over both, with runs at d = 12.
diagram = iclimit.phase_diagram(
    "pretrained_accuracy",
    x="tau",
    y="alpha",
    tau=np.geomspace(0.5, 20, 40),
    alpha=np.geomspace(0.5, 10, 40),
    kappa=np.inf,
    ridge=1.0,
    flips=0.1,
    simulation={"dim": dim - 4, "points": 4, "repeats": 4},
)
diagram.plot()

# %%
# An error above that of predicting 0 may still be right more often than not.
few = {"tau": 1.5, "alpha": 1, "kappa": np.inf}
error = iclimit.icl_error(rho=0, link="sign", **few)
print(f"error {error:.2f}, accuracy {pretrained_accuracy(**few).icl:.3f}")
