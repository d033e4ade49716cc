r"""
What do my results say about the parameters?
============================================

The label noise of an experiment is often not what its configuration says, and a trained model may
use fewer prompts than it was given.  Effective parameters are fitted to a table of results, with
intervals, and with what cannot be told apart.
"""

# sphinx_gallery_thumbnail_number = 1
import iclimit

# %%
# Two single runs at each of eight settings, in which the noise is not what the table will say.

table = []
for alpha in (1, 3):
    for tau in (0.6, 1.5, 2.5, 4):
        setting = {"dim": 20, "context": 20 * alpha, "tasks": 20, "prompts": round(400 * tau)}
        run = iclimit.simulate_errors(**setting, rho=0.15, ridge=0.05, rng=0, repeats=2)
        for icl, idg in zip(run.icl.samples, run.idg.samples, strict=True):
            table.append({**setting, "rho": 0.1, "ridge": 0.05, "icl": icl, "idg": idg})

# %%
# The scatter of single runs is predicted, so the table needs no error bars.  ``tau`` differs from
# row to row: a common factor of it is fitted.

fit = iclimit.fit_runs(table, free=["rho", "tau"])
print(fit)

# %%
# Profiles of chi-square on the diagonal, joint regions of 68 and 95 % below, the deviations of the
# rows above.

fit.plot()

# %%
# The fitted parameters predict another setting, with their error.

print(fit.predict({"dim": [40], "context": [80], "tasks": [40], "prompts": [3200]}).rows()[0])

# %%
# With the length of the contexts free, too, the noise is known less well: contexts that are short
# look like noise.

print(iclimit.fit_runs(table, free=["rho", "alpha"]))

# %%
# A training curve says with which learning rate it was made: the durations of drops do not depend
# on the initial weights.  Here the rate was 0.05.

problem = iclimit.Problem(dim=3, context=20, input_covariance=[0.6, 0.3, 0.1], scale=1)
run = iclimit.dynamics.simulate_gradient_descent(
    problem,
    heads=4,
    init_scale=1e-4,
    learning_rate=0.05,
    steps=1600,
    record=4,
    rng=3,
    training_set=float("inf"),
)
stated = {"eigenvalues": [0.6, 0.3, 0.1], "context": 20, "heads": 4, "init_scale": 1e-4}
print(iclimit.fit_curve(run, ["learning_rate", "init_scale"], **stated, learning_rate=0.02))
