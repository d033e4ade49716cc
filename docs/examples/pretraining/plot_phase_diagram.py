"""
Phase diagram
=============

A quantity over two parameters, with its boundaries.  With more tasks than dimensions the model
learns in context, with fewer it memorises, and the boundary sharpens as contexts grow.

All quantities and boundaries: :doc:`/phase-diagrams`.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclimit

diagram = iclimit.phase_diagram(
    "icl_error",
    x="alpha",
    y="kappa",
    alpha=np.geomspace(0.1, 100, 120),
    kappa=np.geomspace(0.1, 10, 100),
    tau=4,
    rho=0.1,
)
figure, ax = plt.subplots(figsize=(6.2, 4.4))
diagram.plot(ax)

# %%
# Boundaries are part of the result: lines whose vertices are roots, whatever the grid.

for label, lines in diagram.boundaries.items():
    print(label.split(":")[-1].strip(), [len(line) for line in lines])

# %%
# For fewer tasks than dimensions the ICL error has a minimum in the context length: longer
# contexts make the model worse on fresh tasks.  Where the minimum lies:

row = diagram.values[np.searchsorted(diagram.y_grid, 0.5)]
print(f"kappa = 0.5: least error at alpha = {diagram.x_grid[np.argmin(row)]:.2f}")

# %%
# There the slope of the error in the context length changes its sign:

slope = iclimit.pretraining.context_slope(tau=4, alpha=diagram.x_grid, kappa=0.5, rho=0.1)
print(f"longer contexts hurt beyond alpha = {diagram.x_grid[np.argmax(slope > 0)]:.2f}")
