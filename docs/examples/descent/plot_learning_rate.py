"""
The learning rate of one step
=============================

Loss against learning rate for four laws of the inputs, and the rate that data prefer.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.descent import (
    derive_learning_rate,
    learning_rate_loss,
    optimal_learning_rate,
)
from iclimit.simulate.descent import simulate_learning_rate

COLOURS = {
    "gaussian": "#0072b2",
    "uniform": "#d55e00",
    "rademacher": "#009e73",
    "laplace": "#cc79a7",
}
VARIANCE = {"gaussian": 1, "uniform": 1 / 3, "rademacher": 1, "laplace": 2}

# %%
# The loss is a quadratic in the rate, and of the law only the second and fourth moments enter.  In
# units of the variance :math:`m_2` what remains is kurtosis: heavy tails ask for smaller steps and
# make them less useful.  Points are means over 20,000 simulated tasks, the same tasks for all
# points of a curve.

setting = {"context": 10, "dim": 5, "noise_variance": 0.2}
figure, ax = plt.subplots()
scaled = np.linspace(0, 1.15, 200)
for law, colour in COLOURS.items():
    m2 = VARIANCE[law]
    noise = {"noise_variance": 0.2 * m2}
    where = {**setting, **noise, "input_law": law}
    null = 5 * m2 + noise["noise_variance"]
    ax.plot(scaled, learning_rate_loss(scaled / m2, **where) / null, color=colour, label=law)
    best = optimal_learning_rate(**where)
    ax.plot(best.rate * m2, best.loss / null, "*", color=colour, markersize=10, zorder=5)
    data = simulate_learning_rate(contexts=20_000, rng=1, **where)
    for x in np.linspace(0.1, 1.1, 11):
        loss = data.loss(x / m2)
        ax.errorbar(
            x,
            loss.mean / null,
            loss.standard_error / null,
            fmt="o",
            color=colour,
            markersize=3.5,
            capsize=2,
        )
ax.set(xlabel=r"$m_2\,\eta$", ylabel="loss / loss of predicting 0", ylim=(0.28, 1.25))
ax.set_title("N = 10, d = 5; stars: optimum")
ax.legend(loc="upper center")

# %%
# The data-based rate scatters about its limit as one over the square root of the number of tasks.
# Bars are its own standard error.

tasks = np.geomspace(30, 100_000, 8).astype(int)
figure, ax = plt.subplots()
for law in ("gaussian", "uniform"):
    where = {"context": 10, "dim": 10, "input_law": law}
    target = float(optimal_learning_rate(**where).rate)
    runs = [simulate_learning_rate(contexts=int(n), rng=3, **where) for n in tasks]
    ratio = np.array([run.rate.mean for run in runs]) / target
    error = np.array([run.rate.standard_error for run in runs]) / target
    shift = 1.06 if law == "uniform" else 1 / 1.06
    ax.errorbar(
        tasks * shift,
        ratio,
        error,
        fmt="o",
        color=COLOURS[law],
        markersize=4,
        capsize=2,
        label=law,
    )
ax.axhline(1, color="0.3", linewidth=1)
ax.set(xscale="log", xlabel="tasks", ylabel=r"$\hat\eta\,/\,\eta^*$")
ax.set_title("rate from data, N = d = 10")
ax.legend()

# %%
# The same formula symbolically, with moments that stay symbols:

for text, equation in derive_learning_rate().steps[2:]:
    print(text, equation.rhs)
