r"""
How many runs do I need?
========================

Before anything is trained, the theory says what a run will show and how much it will scatter.
From both follows which sizes, and how many runs, answer a question for the least cost.
"""

# sphinx_gallery_thumbnail_number = 1
import numpy as np

import iclimit

# %%
# **Where does task diversity switch on?**  With few pretraining tasks the error on fresh tasks is
# large, with many it is small.  The runs should notice at five standard errors if the curve is
# shifted along the number of tasks by a fifth.  The cost is your own: here the operations of one
# solve.


def cost(dim, _context, _tasks, prompts):
    return 1e-9 * prompts * dim**2


setting = {"tau": 4, "alpha": 2, "rho": 0.1, "ridge": 0.05, "cost": cost, "unit": "GFLOP"}
kappa = np.geomspace(0.25, 4, 6)
sizes = {"dim": [16, 24, 32]}
plan = iclimit.plan_runs("transition", **setting, **sizes, kappa=kappa, effect=0.2)
plan.plot()

# %%
# Left: probability of success against cost of each size, with the runs that are proposed as
# points and the cheapest as a star.  Right: the errors that are expected, with their error bars,
# and the shifted curve that is to be told from them.  The table has one row for each size.

print(plan)

# %%
# **Is it linear attention or the Bayes estimator on the pretraining tasks?**  A single run tells.

which = iclimit.plan_runs("theories", **setting, **sizes, kappa=1, against="dmmse")
which.plot()

# %%
# The runs of the best size as a table.  With your errors in place of the expected ones,
# `iclimit.check_runs` judges it.

print(which.runs())
