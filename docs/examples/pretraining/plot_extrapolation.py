"""
Extrapolation to infinite size
==============================

The limit is approached as 1/d with a large constant.  A polynomial in 1/d through a few sizes
reaches it with an error bar, and with a far smaller one if the runs are first divided by the
prediction for their size.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.statistics import extrapolate_runs

point = {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05}
limits = {"ICL": iclimit.icl_error(**point), "IDG": iclimit.idg_error(**point)}

# %%
# Sizes are chosen so that all integers come out exact.  The error bars shrink as 1/d at a fixed
# number of runs, so the larger sizes need fewer of them.

errors, predictions, uncertainties = {}, {}, {}
for d, repeats in {16: 160, 24: 100, 32: 60, 48: 30}.items():
    run = {
        "dim": d,
        "context": round(point["alpha"] * d),
        "tasks": round(point["kappa"] * d),
        "prompts": round(point["tau"] * d**2),
        "rho": point["rho"],
        "ridge": point["ridge"],
    }
    found = iclimit.simulate_errors(**run, rng=7, repeats=repeats)
    expected = iclimit.finite_size_errors(**run, rng=1, draws=20)
    errors[d] = np.array([found.icl.samples, found.idg.samples])
    predictions[d] = np.array([[expected.icl.mean], [expected.idg.mean]])
    drawn = np.array([expected.icl.samples, expected.idg.samples]) / predictions[d]
    uncertainties[d] = np.cov(drawn) / len(drawn[0])

# %%
# The two errors come from the same runs: the fit keeps their correlation.  The prediction is a
# mean over drawn tasks, whose error bar counts too.

sizes = list(errors)
direct = extrapolate_runs(sizes, list(errors.values()), order=2)
ratios = [errors[d] / predictions[d] for d in sizes]
ratio = extrapolate_runs(sizes, ratios, order=1, extra=list(uncertainties.values()))
for row, (name, limit) in enumerate(limits.items()):
    print(f"{name} error: {direct.value[row]:.3f} +- {direct.standard_error[row]:.3f},", end=" ")
    print(f"limit {limit:.3f}; ratio {ratio.value[row]:.4f} +- {ratio.standard_error[row]:.4f}")

# %%
# Left: errors, with the limit as a star.  Right: their ratio to the prediction, which tends to
# one.  Lines are the fits, and the bars at 1/d = 0 what they extrapolate to.

fine = np.geomspace(15, 1e5, 200)
for fit, values, ends, label in (
    (direct, errors, list(limits.values()), "test error"),
    (ratio, dict(zip(sizes, ratios, strict=True)), [1, 1], "test error / prediction"),
):
    _, ax = plt.subplots()
    for row, (name, colour) in enumerate({"ICL": "#0072b2", "IDG": "#d55e00"}.items()):
        means = [values[d][row].mean() for d in sizes]
        bars = [values[d][row].std(ddof=1) / np.sqrt(len(values[d][row])) for d in sizes]
        style = {"color": colour, "fmt": "o", "markersize": 4, "capsize": 3, "clip_on": False}
        ax.errorbar(1 / np.array(sizes), means, bars, label=name, **style)
        ax.errorbar(0, fit.value[row], fit.standard_error[row], **style)
        ax.plot(1 / fine, fit.curve(fine)[:, row], color=colour, linewidth=1)
        ax.plot(0, ends[row], "*", color="0.2", markersize=11, clip_on=False, zorder=5)
    ax.set(xlabel="1/d", ylabel=label, xlim=(0, None))
    ax.legend()
