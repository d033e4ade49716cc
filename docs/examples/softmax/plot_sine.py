r"""
Sines: what an embedding makes of linear attention
==================================================

Linear attention on raw inputs cannot learn sines.  On an embedding of the inputs it can, and the
best embedding is known without training one.

It is the prediction
:math:`\hat y = \sum_i K(x_q, x_i)\, y_i` with the best kernel K of all
(`iclimit.softmax.functional_optimum`).
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.networks import EmbeddedDescent, SineTask, train_network
from iclimit.simulate.arrays import get_backend
from iclimit.softmax import functional_optimum, sine_optimum

N = 10
SQUARE = (0.5**3 - 0.1**3) / (3 * 0.4)  # mean of a^2 for a from U(.1, .5)

# %%
# A prompt is a function :math:`y = a \sin(x + \phi)` of random amplitude and phase, at inputs from
# U(-5, 5).  The covariance of such functions is
# :math:`C(x, x') = \frac12 E[a^2] \cos(x - x')`.


def covariance(x, z):
    return 0.5 * SQUARE * np.cos(x - z)


best = functional_optimum(covariance=covariance, inputs=(-5, 5), context=N)
print(f"{best.loss:.6f} for the best kernel, {sine_optimum(context=N).loss:.6f} in closed form")

# %%
# Gradient descent on an embedding that is trained comes within some percent of it in seconds.

task = SineTask(context=N)
run = train_network(
    EmbeddedDescent(dim=1, width=4, mlp=24),
    task,
    steps=2000,
    batch=128,
    learning_rate=0.02,
    patience=2000,
    rng=0,
)
print(f"{run.held_out} trained, {run.null_loss:.4f} for predicting zero")

# %%
# Two predictions: the label of the query against its input, with ten pairs known.  A prompt is
# asked at many queries.

prompts = task.draw(get_backend("numpy"), np.random.default_rng(4), 2)
grid = np.linspace(-5, 5, 200)
known = [np.argmin(abs(best.inputs - x)) for x in prompts.inputs.ravel()]
kernel = best.kernel[:, known].reshape(len(best.inputs), 2, N)

for k in range(2):
    figure, ax = plt.subplots()
    inputs = prompts.inputs[k]
    labels = prompts.labels[k]
    asked = [np.repeat(each[None], len(grid), axis=0) for each in (inputs, labels)]
    ax.plot(inputs[:, 0], labels, "ko", label="context")
    ax.plot(grid, run(*asked, grid[:, None]), label="trained embedding")
    ax.plot(best.inputs, kernel[:, k] @ labels, "--", label="best kernel")
    ax.set(xlabel="$x$", ylabel="$y$")
    ax.legend()

# %%
# The loss in training.  The dashed optimum is that of networks which embed whole tokens (x, y), as
# the transformer of the published experiment does: they are not linear in the labels, and can do
# better.

figure, ax = plt.subplots()
steps = np.arange(len(run.losses))
smooth = np.convolve(run.losses, np.ones(50) / 50, "valid")
ax.loglog(steps[25 : 25 + len(smooth)], smooth, label="training loss")
for tokens, label in {False: "best of inputs", True: "best of whole tokens"}.items():
    value = sine_optimum(context=N, whole_tokens=tokens).loss
    ax.axhline(value, ls="--" if tokens else "-", color="black", label=f"{label}: {value:.5f}")
ax.set(xlabel="training steps", ylabel="loss")
ax.legend()
