"""
Schedules of learning rates
===========================

The best rates for L steps of gradient descent, against the best constant rate and Chebyshev's;
the limit, and what becomes of it at N = 20 pairs in d = 10 dimensions.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.descent import (
    chebyshev_schedule,
    constant_schedule,
    given_schedule,
    optimal_schedule,
)
from iclimit.simulate.descent import simulate_schedule

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
METHODS = {
    "constant": (constant_schedule, ORANGE),
    "Chebyshev": (chebyshev_schedule, GREEN),
    "optimal": (optimal_schedule, BLUE),
}

# %%
# Left: the limit at c = 1/2.  Chebyshev's rates have the best worst case over the spectrum and
# lose a constant factor on average; a constant rate falls behind exponentially.  With noise all
# schedules end at the error of ridge regression.
#
# Right: the best schedules of the limit and of the finite size, both run at finite size.  Lines
# are exact means, points are 20,000 simulated contexts, the same for all, with bars of one
# standard error.  The schedule of the limit gets worse after three steps: its smallest rates are
# tuned to an edge of the spectrum that a finite matrix oversteps.

(_, left), (_, right) = plt.subplots(), plt.subplots()
steps = np.arange(1, 13)
for name, (schedule, colour) in METHODS.items():
    losses = [
        schedule(steps=int(L), ratio=0.5, noise_ratio=np.array([0, 0.02])).loss for L in steps
    ]
    quiet, noisy = np.transpose(losses)
    left.plot(steps, quiet, color=colour, marker=".", label=name)
    left.plot(steps, noisy, "--", color=colour, marker=".")
left.plot([], [], "--", color="0.4", label="with noise, v = 0.02")
left.set(yscale="log", xlabel="steps L", ylabel=r"loss $\mathcal{L}$")
left.set_title(r"limit, $c = d/N = 1/2$")
left.legend()

size, most = {"context": 20, "dim": 10}, 6
kinds = {
    "constant rate of the limit": (lambda L: constant_schedule(steps=L, ratio=0.5), ORANGE),
    "schedule of the limit": (lambda L: optimal_schedule(steps=L, ratio=0.5), PINK),
    "schedule of the finite size": (lambda L: optimal_schedule(steps=L, **size), BLUE),
}
runs = {}
for name, (schedule, colour) in kinds.items():
    # A rate of zero does nothing: one row for every number of steps.
    rates = np.zeros((most, most))
    for L in range(1, most + 1):
        rates[L - 1, :L] = schedule(L).rates
    exact = given_schedule(rates, **size).loss
    right.plot(range(1, most + 1), exact, color=colour, label=name)
    runs[name] = exact, simulate_schedule(rates, **size, rng=0, contexts=20_000)
    right.errorbar(
        range(1, 5),
        [loss.mean for loss in runs[name][1].losses[:4]],
        [loss.standard_error for loss in runs[name][1].losses[:4]],
        fmt="o",
        color=colour,
        markersize=4,
        capsize=2,
    )
limit = [float(optimal_schedule(steps=L, ratio=0.5).loss) for L in range(1, most + 1)]
right.plot(range(1, most + 1), limit, ":", color="0.4", label="optimum in the limit")
right.set(yscale="log", xlabel="steps L", title="N = 20, d = 10: mean loss")
right.legend()

# %%
# Points stop at four steps, because a simulated mean fails before the exact one does: contexts
# that are too rare to be drawn carry it.  With six steps of the finite-size schedule, 3 % of the
# mean comes from eigenvalues above 4.5, which one context in 50,000 has: a simulated mean is most
# likely too low, by more than its error bar.  The median is well behaved, and tells another story.

for name, (exact, run) in runs.items():
    print(
        f"{most} steps, {name}: exact mean {exact[-1]:.4f}, simulated "
        f"{run.losses[-1]}, median {run.medians[-1]:.4f}"
    )

# %%
# With noise the optimal rates are real up to a threshold that falls with the number of steps;
# beyond it pairs of rates merge.  The loss hardly suffers.

noise = np.linspace(0, 0.16, 81)
best = optimal_schedule(steps=4, ratio=0.5, noise_ratio=noise)
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(6.4, 4.6), sharex=True, gridspec_kw={"height_ratios": [2, 1]}
)
top.plot(noise, best.rates, color=BLUE)
top.set(ylabel=r"rates $\eta_l$", title="best real rates, L = 4, c = 1/2")
bottom.plot(noise, 1e3 * (best.loss - best.lower_bound), color=ORANGE)
bottom.set(xlabel=r"noise $v = \sigma^2/(N a^2)$", ylabel="excess loss\n" + r"$\times 10^3$")
