"""
How one head escapes
====================

A head that learns one direction waits, grows, and settles at a value that is known.  The wait is
one over its first weights; the growth has the same shape whenever it happens.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.dynamics import (
    escape_time,
    fixed_point_losses,
    growth_time,
    head_growth,
    merged_attention_curve,
    merged_attention_drop,
    merged_curve_drop_time,
    plateau_head_values,
    time_from_pole,
)

eigenvalues, N = np.array([1.0, 0.7, 0.45, 0.25]), 31
law = {"eigenvalue": 1.0, "trace": eigenvalues.sum(), "context": N}

# %%
# The value weight of the head of the first direction, from three starts.  Dotted: where the
# leading formula sees it escape, and the value at which it settles.

figure, ax = plt.subplots()
for start, colour in ((0.2, "#009e73"), (0.1, "#0072b2"), (0.05, "#d55e00")):
    t = np.linspace(0, 30, 300)
    pole = -time_from_pole(start, **law)
    ax.plot(t, head_growth(t - pole, **law), color=colour, label=f"start {start:g}")
    ax.axvline(escape_time(start, eigenvalue=1.0), color=colour, linestyle=":", linewidth=1)
    print(f"start {start:g}: at 0.8 after {growth_time(0.8, initial_value=start, **law):.2f}")
settled = plateau_head_values(eigenvalues, context=N)
ax.axhline(settled[0], color="0.4", linestyle=":", linewidth=1)
ax.set(xlabel=r"time $t/\tau$", ylabel="value weight of the head", ylim=(0, 1.1))
ax.legend(loc="lower right")

# %%
# Between the escapes the loss rests at fixed points.  There is one for every set of directions,
# and training from small weights visits those that learn the largest first (filled).

points = fixed_point_losses(eigenvalues, context=N)
count = points.learned.sum(axis=1)
first = np.array([np.all(row[:n] == 1) for row, n in zip(points.learned, count, strict=True)])
figure, ax = plt.subplots()
ax.plot(count, points.losses, "o", color="#0072b2", fillstyle="none", label="other sets")
ax.plot(count[first], points.losses[first], "o-", color="#0072b2", label="largest first")
ax.set(
    xlabel="directions learned", ylabel="loss at the fixed point", xticks=range(5), ylim=(0, None)
)
ax.legend()

# %%
# Merged key and query have no such stops: all directions are learned in one drop.

run = {"eigenvalues": eigenvalues, "context": N, "init_scale": 1e-6}
half = merged_curve_drop_time(0.5, **run)
print(f"half of the drop at {half:.2f}, loss there {merged_attention_curve(half, **run):.3f}")

# %%
# Random initial weights move the drop in time, by an amount that does not depend on their size.

drop = merged_attention_drop(heads=8, **run)
print(f"with eight random heads at {drop.drop_times[0]:.2f} +- {drop.std_over_seeds:.2f}")
