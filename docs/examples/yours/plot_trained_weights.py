"""
Reading the weights of a trained layer
======================================

A layer of linear attention is trained in plain NumPy, as anybody would do it.  Then its weights
are read: what they compute, how far it is from the best, and what no test set could tell.
"""

import matplotlib.pyplot as plt
import numpy as np

# %%
# Training, without this library
# ------------------------------
#
# Tokens are columns (x, y), the query's is :math:`(x_q, 0)`, and its last entry is the prediction
# after :math:`E + W_V E\, (W_K E)^\top (W_Q E)/\ell`.  All three matrices are trained from small
# random numbers by Adam.  Inputs and tasks have coordinates of variance 1.

DIM, CONTEXT, NOISE = 6, 24, 0.6  # noise variance; noiseless labels have variance 6
EVERY = 50  # steps between snapshots


def draw(generator, tasks, count):
    """Token matrices (count, d + 1, l + 1) and query labels, tasks fresh or from a set."""
    if tasks is None:
        w = generator.standard_normal((count, DIM))
    else:
        w = tasks[generator.integers(0, len(tasks), count)]
    x = generator.standard_normal((count, CONTEXT + 1, DIM))
    y = np.einsum("nid,nd->ni", x, w) + np.sqrt(NOISE) * generator.standard_normal(
        (count, CONTEXT + 1)
    )
    E = np.concatenate([x, y[:, :, None]], axis=2).transpose(0, 2, 1)
    label = E[:, -1, -1].copy()
    E[:, -1, -1] = 0.0
    return E, label


def gradients(weights, E, label):
    """Loss and its gradients; only the last row of W_V is ever used."""
    W_K, W_Q, W_V = weights
    G = E @ E.transpose(0, 2, 1) / CONTEXT
    query = E[:, :, -1]
    looked_up = query @ (W_K.T @ W_Q).T
    mixed = np.einsum("nab,nb->na", G, looked_up)
    residual = mixed @ W_V[-1] - label
    by_product = np.einsum("n,na,nb->ab", residual, G @ W_V[-1], query) / len(label)
    by_value = np.zeros_like(W_V)
    by_value[-1] = residual @ mixed / len(label)
    return np.mean(residual**2), (W_Q @ by_product.T, W_K @ by_product, by_value)


def train(tasks, steps=2000, batch=256, rate=0.01):
    """Adam; returns copies of the weights on the way."""
    generator = np.random.default_rng(1)
    weights = [0.15 * generator.standard_normal((DIM + 1, DIM + 1)) for _ in range(3)]
    mean, square = ([np.zeros_like(w) for w in weights] for _ in range(2))
    kept = [[w.copy() for w in weights]]
    for step in range(1, steps + 1):
        _, found = gradients(weights, *draw(generator, tasks, batch))
        now = rate * min(1.0, 3 * (1 - step / (steps + 1)))
        for w, g, m, s in zip(weights, found, mean, square, strict=True):
            m += 0.1 * (g - m)
            s += 0.01 * (g**2 - s)
            w -= now * m / (1 - 0.9**step) / (np.sqrt(s / (1 - 0.99**step)) + 1e-8)
        if step % EVERY == 0:
            kept.append([w.copy() for w in weights])
    return kept


few = np.random.default_rng(5).standard_normal((4, DIM))
histories = {"fresh tasks": train(None), "4 tasks": train(few)}

# %%
# Reading
# -------
#
# The matrices have the names and the layout of Zhang, Frei and Bartlett, with factors instead of
# products.  What they compute is a reduced matrix :math:`\Gamma`, from the context summary to the
# query, and a part that sees no label.

import iclimit

layout = iclimit.validation.get_layout("zhang2024", task_law="gaussian")
setting = {"layout": layout, "context": CONTEXT, "noise_variance": NOISE}


def read(weights):
    return iclimit.reduced_gamma(dict(zip(("W_K", "W_Q", "W_V"), weights, strict=True)), **setting)


read_off = {name: [read(each) for each in kept] for name, kept in histories.items()}
print(read_off["fresh tasks"][-1])

# %%
# The layer that has seen four tasks only is good on these and poor on others.  More than half of
# its prediction sees no label at all: it has learnt the mean of its tasks, and multiplies the
# query with it.  :math:`\Gamma` cannot express that; ``errors(whole=True)`` counts it.

seen = read_off["4 tasks"][-1]
print(seen)
print(f"on its own tasks: {seen.errors(tasks=few, whole=True).idg:.4f}")
print(f"without that part: {seen.errors(tasks=few).idg:.4f}")

# %%
# The errors along the training are exact, too: only the training is noisy.

(_, left), (_, right) = plt.subplots(), plt.subplots()
steps = EVERY * np.arange(len(histories["4 tasks"]))
colours = {"fresh tasks": "#0072b2", "4 tasks": "#d55e00"}
for name, found in read_off.items():
    errors = [each.errors(tasks=few, whole=True) for each in found]
    left.plot(steps, [e.icl for e in errors], color=colours[name], label=f"{name}, fresh tests")
    if name != "fresh tasks":
        own = [e.idg for e in errors]
        left.plot(steps, own, "--", color=colours[name], label=f"{name}, tests on them")
    right.semilogy(steps, [each.ignored for each in found], color=colours[name], label=name)
best = read_off["fresh tasks"][-1].optimum
left.axhline(best.error, color="0.3", linewidth=1, linestyle=":")
left.set(xlabel="steps", ylabel="exact error", title="dotted: best matrix for fresh tasks")
left.legend(fontsize=8)
right.set(xlabel="steps", title="share of the prediction without labels")
right.legend(fontsize=8)

# %%
# The spectrum of :math:`\Gamma` tells the two apart.  With fresh tasks all eigenvalues go to the
# best one.  With four tasks one direction is learnt that well and some less; at least two of six
# directions have no task in them, and stay near 0.

figure, ax = plt.subplots()
for name, found in read_off.items():
    spectrum = np.array([each.eigenvalues for each in found])
    ax.plot(steps, spectrum[:, 0], color=colours[name], label=name)
    ax.plot(steps, spectrum[:, 1:], color=colours[name])
ax.axhline(best.gamma[0, 0], color="0.3", linewidth=1, linestyle=":")
ax.set(xlabel="steps", title=r"eigenvalues of $\Gamma$")
ax.legend(fontsize=8)

# %%
# A test set says how good the layer is.  The matrix also says what it does elsewhere, exactly:
# with other noise, other covariances, and contexts of other lengths.

layer = read_off["fresh tasks"][-1]
for length in (6, 12, 24, 48, 96):
    error = layer.errors(test_context=length, whole=True).icl
    least = iclimit.pretraining.optimal_gamma(
        dim=DIM, context=length, rho=layer.rho, task_law="gaussian"
    ).error
    print(f"context {length:>3}: error {error:.4f}, best layer for this length {least:.4f}")

# %%
# A wrong layout is noticed.  Read as matrices on rows (z W), a seventh of the prediction would see
# no label, and the error would be far from the best:

arrays = dict(zip(("W_K", "W_Q", "W_V"), histories["fresh tasks"][-1], strict=True))
rows = iclimit.validation.get_layout(layout, orientation="rows")
print(iclimit.reduced_gamma(arrays, **setting | {"layout": rows}))

# %%
# A stack of layers
# -----------------
#
# Two layers, trained by this library without any theory in the loop.  They are read as GD++: two
# learning rates and the preconditioning of the inputs between them.  Stars, moved to the right,
# are the best GD++ there is at this size, which nothing in the training knows about.

problem = iclimit.Problem(dim=4, context=20, scale=1)
run = iclimit.train_attention(problem, layers=2, steps=4000, batch=512, learning_rate=0.01, rng=1)
stack = iclimit.validation.reduced_stack(
    run.layers, layout="versatile2024", context=20, noise_variance=0.0
)
print(stack)

best = iclimit.optimal_gdpp(2, context=20, dim=4)
print("best GD++: rates", best.rates.round(3), "gamma", best.gammas.round(3), "loss", best.loss)
figure, ax = plt.subplots()
stack.plot(ax)
for values, colour, label in (
    (best.rates, "#0072b2", "best GD++"),
    (best.gammas, "#d55e00", None),
):
    ax.plot(0.06 + np.arange(1, len(values) + 1), values, "*", color=colour, ms=11, label=label)
ax.legend(loc="upper left")
