r"""
Does my simulation follow the theory?
=====================================

A table of your own results is compared with the prediction at exactly its integers.  Here the
results come from a script that shares nothing with this library: tokens, features, one linear
system.  Then two mistakes are made on purpose, and found.
"""

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import numpy as np

import iclimit

# %%
# The script: pretraining on n prompts from k tasks, with a ridge; errors on fresh tasks and on
# the pretraining tasks, from 2000 prompts each.  Test prompts are sampled, so single runs scatter.


def prompts(rng, tasks, context, rho):
    """Query, context summary and label of one prompt for each row of tasks."""
    n, d = tasks.shape
    x = rng.standard_normal((n, context + 1, d)) / np.sqrt(d)
    y = np.einsum("nld,nd->nl", x, tasks) + np.sqrt(rho) * rng.standard_normal((n, context + 1))
    products = d / context * np.einsum("nl,nld->nd", y[:, :-1], x[:, :-1])
    squares = np.mean(y[:, :-1] ** 2, axis=1, keepdims=True)
    h = np.concatenate([products, squares], axis=1)
    return np.einsum("ni,nj->nij", x[:, -1], h).reshape(n, -1), y[:, -1]


def sphere(rng, count, d):
    w = rng.standard_normal((count, d))
    return np.sqrt(d) * w / np.linalg.norm(w, axis=1, keepdims=True)


def pretrain(rng, d, context, tasks, n, rho, ridge):
    """ICL and IDG error of one run."""
    pool = sphere(rng, tasks, d)
    features, labels = prompts(rng, pool[rng.integers(tasks, size=n)], context, rho)
    penalty = n / d * ridge * np.eye(features.shape[1])
    gamma = np.linalg.solve(features.T @ features + penalty, features.T @ labels)
    errors = []
    for test in (sphere(rng, 2000, d), pool[rng.integers(tasks, size=2000)]):
        features, labels = prompts(rng, test, context, rho)
        errors.append(float(np.mean((features @ gamma - labels) ** 2)))
    return errors


rng = np.random.default_rng(0)
d, context, rho, ridge = 10, 30, 0.1, 0.1
table = []
for tasks in (5, 20):
    for n in (100, 400):
        for _ in range(10):
            icl, idg = pretrain(rng, d, context, tasks, n, rho, ridge)
            table.append({"d": d, "l": context, "k": tasks, "n": n, "icl": icl, "idg": idg})

# %%
# Every row is a run.  Rows of one setting are taken together; their scatter gives the error bars,
# also of the difference of the two errors, which are correlated.

columns = {"dim": "d", "context": "l", "tasks": "k", "prompts": "n"}
check = iclimit.check_runs(table, columns=columns, parameters={"rho": rho, "ridge": ridge})
print(check)

# %%
# Left: the errors, and the prediction at these integers as lines.  Right: the deviation of each
# error in standard errors; dashes mark what is accepted.

check.plot()

# %%
# The limit of large dimension is far off at d = 10: it is no reason to doubt a simulation.

figure, ax = plt.subplots()
for name in ("icl", "idg"):
    ratios = [row[f"{name}_limit"] / row[f"{name}_prediction"] for row in check.rows()]
    ax.plot(ratios, "o", label=name.upper())
ax.axhline(1, color="0.4")
ax.set(xlabel="setting", ylabel="limit / prediction")
ax.legend()

# %%
# Now the losses are halved, as in many training scripts.  The check contradicts, and lists all
# explanations with which the table would agree.

halved = [row | {"icl": row["icl"] / 2, "idg": row["idg"] / 2} for row in table]
check = iclimit.check_runs(halved, columns=columns, parameters={"rho": rho, "ridge": ridge})
print("\n".join(check.conclusions))

# %%
# A ridge that belongs to the mean loss, without the factor d, is found as well.

other = {"rho": rho, "ridge": ridge / d}
check = iclimit.check_runs(table, columns=columns, parameters=other)
print("\n".join(check.conclusions))
