"""
Layers that precondition: GD++
==============================

A layer of GD++ squeezes the eigenvalues of the context.  How fast the condition number falls, and
what L layers can reach if each also takes a step.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.asymptotics.descent import optimal_schedule
from iclimit.asymptotics.gdpp import (
    condition_number_schedule,
    eigenvalues_after,
    gdpp_loss,
    interval_after,
    optimal_gdpp,
    worst_case_residual,
)
from iclimit.simulate.gdpp import simulate_gdpp

BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"

# %%
# A layer maps an eigenvalue to :math:`\lambda (1 - \gamma\lambda)^2`.
# Left: what four layers make of the eigenvalues of an interval with :math:`\kappa = 100`.  The
# optimal layers fold it, so that both ends go to the same value.  Right: condition number minus
# one.  For large :math:`\kappa` a layer divides it by 27/4 or 9/4; near 1 it is squared.

(_, left), (_, right) = plt.subplots(), plt.subplots()
x = np.geomspace(0.01, 1, 500)
best = condition_number_schedule(100, steps=4)
shades = plt.colormaps["viridis"](np.linspace(0, 0.9, 5))
for layer, (values, colour) in enumerate(
    zip(eigenvalues_after(x, gammas=best.gammas), shades, strict=True)
):
    left.plot(x, values / best.top[layer], color=colour, label=f"{layer} layers")
left.set(
    xscale="log",
    yscale="log",
    xlabel=r"eigenvalue $\lambda$ at the start",
    ylabel="after the layers, over the largest",
)
left.legend()

for kappa, colour in ((10, GREEN), (100, BLUE), (10_000, ORANGE)):
    for method, style in (("optimal", "o-"), ("monotone", "s--")):
        excess = condition_number_schedule(kappa, tol=1e-10, method=method).excess
        right.plot(
            excess,
            style,
            color=colour,
            markersize=3,
            linewidth=1,
            label=rf"$\kappa = {kappa:,}$" if method == "optimal" else None,
        )
right.set(yscale="log", ylim=(1e-10, 3e4), xticks=range(0, 17, 2), xlabel="layers")
right.set(ylabel=r"$\kappa - 1$")
right.plot([], [], "s--", color="0.4", markersize=3, linewidth=1, label="monotone")
right.legend(loc="lower left")

# %%
# The price is sensitivity to the largest eigenvalue.  Four layers are made for
# :math:`\kappa = 10^4`; then the true largest eigenvalue turns out to be above 1.

true = 1 + np.linspace(0, 0.03, 121)
settings = {"no safeguard": {}, "cap = 100": {"cap": 100}, "margin = 0.02": {"margin": 0.02}}
figure, ax = plt.subplots(figsize=(6.4, 3.6))
for (name, setting), colour in zip(settings.items(), (ORANGE, BLUE, GREEN), strict=True):
    gamma = condition_number_schedule(1e4, steps=4, **setting).gammas
    found = [interval_after(gamma, lower=1e-4, upper=top).condition_number[-1] for top in true]
    ax.plot(true - 1, found, color=colour, label=name)
ax.set(
    yscale="log",
    ylim=(4, 1e4),
    xlabel="largest eigenvalue, minus 1",
    ylabel=r"$\kappa$ after four layers",
)
ax.legend()

# %%
# Now every layer takes a step.  The residual P of L layers has degree :math:`(3^L - 1)/2`.  Left:
# the best worst case found for two and three layers.  Of its extrema 2L have
# the same height; a Chebyshev polynomial has them all.  The dashed lines are the bound for any
# polynomial of that degree.
#
# Right: mean loss.  Crosses are the best plain steps, the dotted lines the bound.

(_, left), (_, right) = plt.subplots(), plt.subplots()
for layers, colour in ((2, ORANGE), (3, BLUE)):
    best = optimal_gdpp(layers, condition_number=100)
    spectra = eigenvalues_after(x, gammas=[*best.gammas, 0.0])[:-1]
    P = np.prod(1 - best.rates[:, None] * spectra, axis=0)
    left.plot(x, P, color=colour, label=f"L = {layers}: {best.loss:.3f}")
    for sign in (-1, 1):
        left.axhline(sign * best.lower_bound, color=colour, linestyle="--", linewidth=0.8)
    worst = worst_case_residual(best.rates, gammas=best.gammas, condition_number=100)
    print(f"L = {layers}: largest residual {worst}")
left.set(xscale="log", xlabel=r"$\lambda$", ylabel=r"$P(\lambda)$", title=r"$\kappa = 100$")
left.legend()

depths = [1, 2, 3]
for noise, colour in ((0.05, GREEN), (0.0, BLUE)):
    found = [optimal_gdpp(depth, ratio=0.5, noise_ratio=noise) for depth in depths]
    right.plot(depths, [each.loss for each in found], "o-", color=colour, label=f"v = {noise:g}")
    right.plot(depths, [each.lower_bound for each in found], ":", color=colour)
    plain = [optimal_schedule(steps=depth, ratio=0.5, noise_ratio=noise).loss for depth in depths]
    right.plot(depths, plain, "x", color=colour)
right.set(
    yscale="log",
    xticks=depths,
    xlabel="layers L",
    ylabel=r"loss $\mathcal{L}$",
    title="limit, c = 1/2",
)
right.legend()

# %%
# At finite size two kinds of rates look good and are not: those of the limit, and those chosen on
# a sample of contexts.  The latter, here for two million eigenvalues, have a mean loss that no
# sample shows.

size = {"context": 20, "dim": 10}
best, limit = optimal_gdpp(3, **size), found[-1]  # the limit without noise, from above
sampled = [0.34267221, 2.32815509, 13.40880879], [0.3236043, 1.76155491]
schedules = {
    "best mean": (best.rates, best.gammas),
    "best on a sample": sampled,
    "best in the limit": (limit.rates, limit.gammas),
}
for name, (rates, gammas) in schedules.items():
    run = simulate_gdpp(rates, gammas, **size, rng=0, contexts=5000)
    exact = gdpp_loss(rates, gammas=gammas, **size)
    print(
        f"three layers, {name}: exact mean {exact:.4g}, simulated {run.loss}, "
        f"median {run.medians[0]:.4g}"
    )
