"""
Critical dampening is an extreme value
======================================

A layer trained for one step and applied again and again diverges on some test task unless its
update is dampened.  How much is needed is decided by the worst of the test tasks.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.descent import optimal_learning_rate, schedule_loss
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.simulate.descent import simulate_critical_dampening
from iclimit.simulate.descent.schedules import largest_eigenvalues, simulate_schedule

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
size = {"context": 10, "dim": 10}
rate = float(optimal_learning_rate(**size).rate)

# %%
# Left: the tail of the largest eigenvalue of :math:`X^\top X/N`, exact, against 20,000 simulated
# matrices.  The dotted line is where the spectrum of the limit ends.  Right: the law of the
# critical factor for T test tasks, :math:`1 - F(2/\eta^* z)^T`; points are quantiles read off
# 20,000 to 80,000 simulated matrices.

(_, left), (_, right) = plt.subplots(), plt.subplots()
x = np.linspace(1.6, 7.6, 61)
cdf = largest_eigenvalue_cdf(x, **size)
left.plot(x, 1 - cdf, color=BLUE, label="exact")
sample = largest_eigenvalues(**size, contexts=20_000, rng=0)
points = np.arange(2, 6.1, 0.5)
beyond = np.array([np.mean(sample > point) for point in points])
left.errorbar(
    points,
    beyond,
    np.sqrt(beyond * (1 - beyond) / len(sample)),
    fmt="o",
    color=ORANGE,
    markersize=4,
    capsize=2,
    label="simulated",
)
left.axvline(4, color="0.4", linestyle=":", linewidth=1)
left.set(yscale="log", xlim=(1.6, 6.6), ylim=(3e-5, 1.5), xlabel="x")
left.set(ylabel=r"P$(\lambda_{\max} > x)$", title="largest eigenvalue, N = d = 10")
left.legend()

few = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
for tasks, contexts, colour in (
    (100, 20_000, GREEN),
    (1000, 50_000, ORANGE),
    (10_000, 80_000, BLUE),
):
    right.plot(2 / (rate * x), 1 - cdf**tasks, color=colour, label=f"T = {tasks:,}")
    probabilities = few if tasks < 10_000 else few[2:]
    found = simulate_critical_dampening(
        probabilities, rate=rate, test_tasks=tasks, rng=1, contexts=contexts, **size
    )
    right.errorbar(
        [quantile.mean for quantile in found.quantiles],
        probabilities,
        xerr=[quantile.standard_error for quantile in found.quantiles],
        fmt="o",
        color=colour,
        markersize=4,
        capsize=2,
    )
right.set(xlabel=r"critical dampening $\delta_c$", ylabel="probability of less")
right.set(xlim=(0.53, 1.02), ylim=(0, 1), title="over T test tasks")
right.legend()

# %%
# `iclimit.asymptotics.descent.critical_dampening` inverts these curves.  The factors of the
# literature, 0.75 and 0.70, were found for uniform inputs, N = d = 10 and T = 10,000.  Simulation
# puts the critical factor there between 0.68 and 0.78 in nine of ten test sets, with the median at
# 0.74:
# both are typical draws.  (That takes a million matrices; here is a tenth of the tasks.)

uniform = {**size, "input_law": "uniform"}
found = simulate_critical_dampening(
    [0.1, 0.5, 0.9],
    rate=float(optimal_learning_rate(**uniform).rate),
    test_tasks=1000,
    contexts=50_000,
    rng=2,
    **uniform,
)
for probability, quantile in zip((0.1, 0.5, 0.9), found.quantiles, strict=True):
    print(f"uniform inputs, T = 1000, quantile {probability}: {quantile}")

# %%
# What it means for a recurrent layer.  Lines: exact mean over all contexts, which diverges for
# *every* factor in the end, for 0.5 beyond the picture.  Points: mean over 5000 test tasks with
# bars of one standard error; what they miss are contexts too rare to be drawn.  Dashes: median,
# which keeps falling.

figure, ax = plt.subplots(figsize=(6.4, 4.2))
steps = np.arange(1, 21)
for factor, colour in ((1.0, ORANGE), (0.75, GREEN), (0.5, BLUE)):
    # A rate of zero does nothing: one row for every number of repetitions.
    rates = factor * rate * (np.arange(20) < steps[:, None])
    run = simulate_schedule(rates, **size, rng=2, contexts=5000)
    exact = schedule_loss(rates, **size)
    ax.plot(steps, exact, color=colour, linewidth=1.2, label=rf"$\delta = {factor:g}$")
    ax.plot(steps, run.medians, color=colour, linestyle="--", linewidth=1.2)
    means = np.array([loss.mean for loss in run.losses])
    errors = np.array([loss.standard_error for loss in run.losses])
    lower = np.minimum(errors, 0.99 * means)
    ax.errorbar(
        steps[::2],
        means[::2],
        [lower[::2], errors[::2]],
        fmt="o",
        color=colour,
        markersize=3.5,
        capsize=2,
        linewidth=1,
    )
ax.plot([], [], "--", color="0.4", label="median")
ax.set(
    yscale="log",
    ylim=(0.1, 30),
    xticks=range(0, 21, 4),
    xlabel="repetitions of the layer",
    ylabel=r"loss $\mathcal{L}$",
    title="N = d = 10: mean and median loss",
)
ax.legend()
