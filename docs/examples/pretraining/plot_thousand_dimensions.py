r"""
d = 1000: the limit, seen
=========================

Simulated errors of linear attention at d up to 1000 come down to the limit as 1/d.

One run at d = 1000 has two million prompts and solves for a million unknowns.  It took 7 seconds
on a GPU (one NVIDIA H200), whose record is drawn here.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.validation.reference import read_reference

rows = [
    row for row in read_reference("gpu_h200.csv") if (row["tau"], row["ridge"]) == ("2", "0.01")
]
point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.01, "ridge": 0.01}
limits = {"icl": float(iclimit.icl_error(**point)), "idg": float(iclimit.idg_error(**point))}
dims = np.array([int(row["dim"]) for row in rows])

# %%
# Error minus limit, times d: a constant would be the first term of an expansion in 1/d.  Single
# runs have no error bar; theirs is about that of the runs at d = 400, times 400/d and the root of
# their number.

figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6))
for ax, (name, limit) in zip(axes, limits.items(), strict=True):
    values = np.array([float(row[name]) for row in rows])
    known = next(row for row in rows if row["dim"] == "400")
    spread = float(known[f"{name}_se"]) * np.sqrt(float(known["runs"])) * 400
    runs = np.array([int(row["runs"]) for row in rows])
    errors = spread / dims / np.sqrt(runs)
    ax.errorbar(dims, values, errors, fmt="o", markersize=4, capsize=2, color="#0072b2")
    ax.axhline(limit, color="0.4", linewidth=1)
    ax.set(xscale="log", xlabel="d", ylabel=f"{name.upper()} error")
    ax.set_xticks([100, 200, 400, 1000], ["100", "200", "400", "1000"])
    ax.minorticks_off()
    print(f"{name.upper()}: {values[-1]:.4f} at d = 1000, {limit:.4f} in the limit")
    print(f"    (error - limit) d: {np.round((values - limit) * dims, 2)}")

# %%
# At d = 400 the mean of four runs is 1.21982(99).  The prediction at this size is 1.21949, from
# `iclimit.finite_size_errors`.
#
# The same at a smaller d on any machine, and on a GPU:
#
# .. code-block:: sh
#
#    iclimit curve icl_error --tau 2 --alpha 1 --kappa 0.5 --rho 0.01 --ridge 0.01 \
#        --simulate dim=100:200:400,repeats=4 --backend cupy
