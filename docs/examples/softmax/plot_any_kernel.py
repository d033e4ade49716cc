"""
Any kernel, any inputs, any functions
=====================================

The least loss of a head is known beyond softmax on white inputs: other weights, inputs that vary
more in some directions, bounded inputs, and functions that are not linear.
"""

import matplotlib.pyplot as plt
import numpy as np
import sympy

from iclimit.softmax import (
    derive_long_context,
    derive_sine_optimum,
    derive_softmax_head,
    finite_rank_loss,
    long_context_softmax,
    optimal_kernel,
    optimal_softmax,
    optimal_softmax_matrix,
    softmax_loss,
    uniform_softmax,
    uniform_softmax_loss,
    whole_token_optimum,
)

# %%
# Weights f(score) that are not normalised, on N = 20 pairs in d = 10 dimensions.

t = np.geomspace(0.1, 1.5, 6)
figure, ax = plt.subplots()
for kernel, colour, label in (
    (lambda s: 1 / (1 + np.exp(-s)), "#009e73", "sigmoid"),
    (np.sin, "#cc79a7", "sine"),
):
    losses = [
        optimal_kernel(kernel, inverse_temperature=b / np.sqrt(10), context=20, dim=10).loss / 10
        for b in t
    ]
    ax.plot(t, losses, "o-", color=colour, label=label)
for kernel, colour, label in (  # at any temperature alike
    (lambda s: np.maximum(s, 0), "#d55e00", "ReLU"),
    (lambda s: s, "#0072b2", "linear"),
):
    loss = optimal_kernel(kernel, inverse_temperature=0.1, context=20, dim=10).loss / 10
    ax.axhline(loss, color=colour, label=label)
ax.set(xscale="log", xlabel=r"inverse temperature $\beta\sqrt{d}$", ylabel="least loss / d")
ax.legend()

# %%
# A head that was tuned for 20 pairs, used with more; and the best head for each length.

best = optimal_softmax(context=20, dim=10)
N = np.unique(np.geomspace(10, 2000, 30).round())
figure, ax = plt.subplots()
kept = softmax_loss(best.inverse_temperature, value=best.value, context=N, dim=10) / 10
ax.plot(N, kept, color="#d55e00", label="head for 20 pairs")
ax.plot(N, optimal_softmax(context=N, dim=10).loss / 10, color="#0072b2", label="best head")
ax.plot(N, long_context_softmax(dim=10).loss / N / 10, ":", color="0.3", label="long contexts")
ax.set(xscale="log", yscale="log", xlabel="context N", ylabel="loss / d", ylim=(None, 2))
ax.legend()

# %%
# Inputs that vary more in some directions, and inputs from a cube:

spread = np.diag(np.geomspace(1, 9, 100))
print(f"loss / d, spread inputs: {optimal_softmax_matrix(spread, context=200).loss / 100:.4f}")
cube = uniform_softmax(context=10, dim=2, heads=2)
again = uniform_softmax_loss(
    cube.inverse_temperature, value=cube.value, context=10, dim=2, heads=2
)
print(f"two heads on the square: {cube.loss:.4f}, evaluated again {again:.4f}")

# %%
# Functions of finitely many features: straight lines through zero, whose slope one pair tells if a
# layer embeds whole tokens, and hardly if it embeds inputs only.

slopes = np.linspace(-1, 1, 2001)[None]
whole = whole_token_optimum(
    features=lambda x: x[None], coefficients=slopes, inputs=(0.5, 1), context=1
)
g, length = sympy.symbols("g N", positive=True)
rank_one = finite_rank_loss(
    task_covariance=sympy.Matrix([[1]]),
    feature_moments=sympy.Matrix([[1]]),
    scaled_moments=sympy.Matrix([[g]]),
    context=length,
)
print(f"whole tokens: {whole.loss:.0e}; inputs only: {rank_one}")

# %%
# The derivations, as SymPy expressions:

print("one head in the limit:", derive_softmax_head().result)
print("two opposite heads:", derive_softmax_head(2).result)
print("sines:", derive_sine_optimum().result)
print("long contexts:", derive_long_context().steps[-2][1].lhs)
