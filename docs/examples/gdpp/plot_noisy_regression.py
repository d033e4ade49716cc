"""
Regression with a noise level of its own in every prompt
========================================================

Ridge regression needs to know the noise.  What is lost by one parameter for all prompts, what by
estimating the noise, and what linear transformers make of it.  Losses are those above an oracle
that is told the noise level; N = 20 pairs in d = 10 dimensions.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.gdpp import baseline_profiles, gdpp_minima, ridge_baselines
from iclimit.problem import Problem
from iclimit.simulate.gdpp import (
    held_out_losses,
    simulate_ridge_baselines,
    train_linear_transformer,
)
from iclimit.validation.reference.noise_levels import published_table

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
METHODS = {
    "ConstRR": ("constant", BLUE),
    "AdaRR": ("adaptive", ORANGE),
    "TunedRR": ("tuned", GREEN),
}
size = {"context": 20, "dim": 10}

# %%
# Left: noise levels uniform on :math:`[0, \sigma_{\max}]`.  Lines are integrals over the exact law
# of the eigenvalues and of the residuals, points 5000 simulated prompts, crosses the published
# values.  Right: by the noise level of the prompt, all tuned for :math:`\sigma_{\max} = 5`.  One
# parameter is right at one level only.

(_, left), (_, right) = plt.subplots(), plt.subplots()
maxima = np.array([1, 3, 5, 7])
theory = [ridge_baselines(f"uniform:{top}", **size) for top in maxima]
runs = [
    simulate_ridge_baselines(
        Problem(dim=10, context=20, noise_law=f"uniform:{top}", scale=1),
        contexts=5000,
        rng=int(top),
        multiplier=best.multiplier,
        threshold=best.threshold,
    )
    for top, best in zip(maxima, theory, strict=True)
]
sigma = np.linspace(0, 5, 101)
profile = baseline_profiles(sigma, noise_law="uniform:5", **size)
for name, (field, colour) in METHODS.items():
    left.plot(maxima, [getattr(best, field) for best in theory], color=colour, label=name)
    left.errorbar(
        maxima,
        [run.losses[name].mean for run in runs],
        [run.losses[name].standard_error for run in runs],
        fmt="o",
        color=colour,
        markersize=4,
        capsize=2,
    )
    table = [published_table()[name, 0, f"uniform:{top}"] for top in maxima]
    left.plot(maxima, table, "x", color="0.3", markersize=7)
    right.plot(sigma, getattr(profile, field), color=colour, label=name)
left.plot([], [], "x", color="0.3", label="published")
left.set(xlabel=r"$\sigma_{\max}$", ylabel="adjusted loss")
left.legend()
right.set(xlabel=r"noise level $\sigma$", ylim=(-0.02, 1), title=r"$\sigma_{\max} = 5$")
right.legend()

# %%
# GD++ is linear in the labels, and no such estimator is below ConstRR.  Diagonal transformers see
# the residuals and go below.  Bars: one standard error on 30,000 fresh contexts.  The published
# GD++ of three layers is below a bound for its mean.

problem, depths = Problem(dim=10, context=20, noise_law="uniform:5", scale=1), [1, 2, 3]
best = theory[2]
floor = [
    size["dim"] / 2 * gdpp_minima(depth, noise_ratio=best.penalty / 20, **size)[0].loss
    - best.oracle
    for depth in depths
]
figure, ax = plt.subplots(figsize=(6.4, 4.2))
ax.plot(depths, floor, "-", color=ORANGE, label="GD++, least mean loss found")
for kind, colour in (("gd++", ORANGE), ("diag", BLUE)):
    run = train_linear_transformer(problem, kind=kind, layers=2, starts=2, contexts=2**11, rng=2)
    fresh = held_out_losses(run.model, problem, contexts=30_000, rng=9)
    ax.errorbar(
        2,
        fresh.loss.mean,
        fresh.loss.standard_error,
        fmt="o",
        color=colour,
        capsize=2,
        label=f"{kind}, trained",
    )
    print(f"{kind}, 2 layers: {fresh.loss.mean:.4f} +- {fresh.loss.standard_error:.4f}")
for name, colour in (("GD++", ORANGE), ("Diag", BLUE)):
    published = [published_table()[name, depth, "uniform:5"] for depth in depths]
    ax.plot(depths, published, "x", color=colour, markersize=8, label=f"{name}, published")
for name, (field, _) in METHODS.items():
    ax.axhline(getattr(best, field), color="0.6", linestyle="--", linewidth=1)
    ax.text(3.05, getattr(best, field), name, va="bottom", fontsize=8, color="0.4")
ax.set(
    yscale="log",
    xlim=(0.85, 3.5),
    xticks=depths,
    xlabel="layers",
    ylabel="adjusted loss",
    title=r"$\sigma$ uniform on [0, 5]",
)
ax.legend()
