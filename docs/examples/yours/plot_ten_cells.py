r"""
Your runs on the theory in ten cells
====================================

A notebook to copy: put your errors into the second cell and run the others.  They say whether the
errors agree with the theory, draw them on its curves, find a mistake, fit what is not known, and
plan the next runs.  At the end of this page it can be downloaded.
"""

# sphinx_gallery_thumbnail_number = 2
import numpy as np

import iclimit

# %%
# **2.  Your errors.**  Here: means of eight pretrainings with 24 tasks in 24 dimensions, contexts
# of 48 pairs and :math:`n = \tau d^2` prompts, on new tasks (icl) and pretraining tasks (idg).

table = {
    "dim": [24, 24, 24, 24],
    "tau": [0.5, 1, 2, 4],
    "icl": [1.511, 2.114, 1.312, 0.978],
    "icl_se": [0.025, 0.032, 0.018, 0.009],
    "idg": [1.245, 1.561, 0.890, 0.643],
    "idg_se": [0.018, 0.034, 0.009, 0.004],
}
setting = {"alpha": 2, "kappa": 1, "rho": 0.2, "ridge": 0.05}  # what all rows share

# %%
# **3.  Do they agree with the theory?**  Every row is compared with the prediction at exactly its
# integers; z is the deviation in standard errors.

check = iclimit.check_runs(table, parameters=setting)
print(check)

# %%
# **4.  Where do they deviate?**

check.plot()

# %%
# **5.  The errors on the curve of the limit.**  Finite runs lie above it: that is no mistake.

curve = iclimit.curve("icl_error", tau=np.geomspace(0.25, 8, 100), **setting)
points = {name: table[name] for name in ("tau", "icl", "icl_se")}
curve.plot(points=points, ylabel="error on new tasks")

# %%
# **6.  A mistake made on purpose.**  Losses with a factor 1/2, as many training scripts have them:

halved = {name: np.divide(table[name], 2) for name in ("icl", "icl_se", "idg", "idg_se")}
print("\n".join(iclimit.check_runs(table | halved, parameters=setting).conclusions))

# %%
# **7.  What is not known is fitted.**  The label noise, say:

known = {"alpha": 2, "kappa": 1, "ridge": 0.05}
fit = iclimit.fit_runs(table, free="rho", parameters=known)
print(fit)

# %%
# **8.  How well is it known?**

fit.plot()

# %%
# **9.  What will other runs show?**  At the size of the next experiment, with their scatter:

point = iclimit.Point(tau=3, **setting)
print(iclimit.predict(point.at(dim=32), rng=0, spread=True))

# %%
# **10.  How many runs does it take** to tell 24 tasks from infinitely many?

other = {"kappa": float("inf")}
plan = iclimit.plan_runs("theories", tau=3, **setting, against=other, dim=[24, 32])
print(plan)
