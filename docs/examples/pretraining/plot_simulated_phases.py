"""
Simulation in a phase diagram
=============================

A phase diagram whose theory is held against simulation, point by point.

What is simulated, where and how it is compared: :doc:`/phase-diagrams`.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit

# %%
# Sizes 8, 12 and 16 are extrapolated to infinite dimension.  The grid of 2 x 2 points is refined
# once, where a boundary passes or the gap changes most.  With ``store=`` the simulation would be
# kept, and go on from there with more points or repeats (:doc:`/runs`).

diagram = iclimit.phase_diagram(
    "task_gap",
    x="tau",
    y="kappa",
    tau=np.geomspace(0.25, 4, 121),
    kappa=np.geomspace(0.25, 4, 101),
    alpha=30,
    rho=0.1,
    ridge=0.005,
    simulation={"dim": (8, 12, 16), "points": (2, 2), "repeats": 5},
    refine=1,
    jobs=1,
)
(_, left), (_, right) = plt.subplots(), plt.subplots()
diagram.plot(left)
diagram.plot(right, errors=True)

# %%
# Left: the colours of the points are those of the simulation.  Right: its deviations from the
# theory in standard errors.  The title has the largest, and what is allowed for so many points by
# chance one time in a thousand.  Points in numbers:

for point in diagram.simulated[:6]:
    at = ", ".join(f"{name} = {point.parameters[name]:.3g}" for name in ("tau", "kappa"))
    print(f"{at}: {point.estimate}, theory {point.theory:.3f}, z = {point.z:.1f}")

# %%
# All of it as a labelled data set, as ``iclimit phase`` writes it beside a picture:

data = diagram.to_xarray()
print(dict(data.sizes))
print(float(data.task_gap.sel(tau=1, kappa=1, method="nearest")))
