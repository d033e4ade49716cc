"""
Extrapolation to infinite size
==============================

The limit is approached as 1/d with a large constant.  A fit in powers of 1/d to a few sizes
reaches it with an error bar; `iclimit.validation.extrapolate` keeps the correlation of the two
errors and chooses the order by goodness of fit.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.validation import extrapolate

point = {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05}
sizes = {12: 240, 16: 120, 20: 60, 24: 40, 32: 20}

# %%
# Sizes are chosen so that all integers come out exact.  The error bars shrink as 1/d at a fixed
# number of runs, so the larger sizes need fewer of them.

runs = [
    iclimit.simulate_errors(
        dim=d,
        context=round(point["alpha"] * d),
        tasks=round(point["kappa"] * d),
        prompts=round(point["tau"] * d**2),
        rho=point["rho"],
        ridge=point["ridge"],
        rng=7,
        repeats=repeats,
    )
    for d, repeats in sizes.items()
]
means = np.array([[run.icl.mean, run.idg.mean] for run in runs])
covariances = np.array([np.cov(run.icl.samples, run.idg.samples) / run.repeats for run in runs])
fit = extrapolate(list(sizes), means, covariances)
theory = [iclimit.icl_error(**point), iclimit.idg_error(**point)]
for name, value, error, limit in zip(
    ("ICL", "IDG"), fit.value, fit.standard_error, theory, strict=True
):
    print(f"{name}: extrapolated {value:.4f} +- {error:.4f}, limit {limit:.4f}")
print(f"order {fit.order}, chi-square {fit.chi_square:.1f} for {fit.degrees} degrees of freedom")

# %%
# Points: runs.  Lines: the fit.  Stars: the formula.

figure, ax = plt.subplots(figsize=(6, 4))
fine = np.geomspace(11, 1e5, 200)
for column, (name, colour) in enumerate((("ICL", "#0072b2"), ("IDG", "#d55e00"))):
    errors = np.sqrt(covariances[:, column, column])
    ax.errorbar(
        1 / np.array(list(sizes)),
        means[:, column],
        errors,
        fmt="o",
        color=colour,
        markersize=4,
        capsize=2,
        label=f"{name}, simulated",
    )
    ax.plot(1 / fine, fit.curve(fine)[:, column], color=colour, linewidth=1)
    ax.errorbar(
        0, fit.value[column], fit.standard_error[column], color=colour, capsize=3, clip_on=False
    )
    ax.plot(
        0,
        theory[column],
        "*",
        color=colour,
        markersize=11,
        clip_on=False,
        zorder=5,
        label=f"{name}, limit",
    )
ax.set(xlabel="1/d", ylabel="test error", xlim=(0, None))
ax.legend()
