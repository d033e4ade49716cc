"""
Is my transformer doing gradient descent?
=========================================

A probe asks a trained model about prompts, asks algorithms the same, and compares the answers.
It needs the model as a function of arrays only.  Here three models learn linear regression in
context: one layer of linear attention, one of softmax attention, and two of linear attention.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

import iclimit
from iclimit.problem import Problem

D, N, SIGMA2 = 5, 20, 0.1
problem = iclimit.Problem(dim=D, context=N, noise_variance=SIGMA2, scale=1)

# %%
# The first two layers are written and trained here, in plain NumPy.  Both weigh the labels of the
# context by the scores :math:`x_q^\top A x_i`, one as they are and one after a softmax.  The
# matrix A and the output weight v start at small random values and are trained by Adam on fresh
# prompts.


def weigh(scores, kind):
    if kind == "linear":
        return scores / scores.shape[1]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def answer(weights, inputs, labels, query, kind):
    A, v = weights
    scores = (inputs @ (query @ A)[:, :, None])[:, :, 0]
    return v * np.sum(weigh(scores, kind) * labels, axis=1)


def gradients(weights, inputs, labels, query, target, kind):
    """Gradients of half the mean squared error by A and v."""
    A, v = weights
    scores = (inputs @ (query @ A)[:, :, None])[:, :, 0]
    shares = weigh(scores, kind)
    mean = np.sum(shares * labels, axis=1)
    miss = v * mean - target
    by_scores = labels / N if kind == "linear" else shares * (labels - mean[:, None])
    by_vector = np.sum(by_scores[:, :, None] * inputs, axis=1)
    return (miss * v * query.T) @ by_vector / len(miss), np.mean(miss * mean)


def train(kind, steps=1500, batch=256, rate=0.02):
    rng = np.random.default_rng(0)
    weights = [0.1 * rng.standard_normal((D, D)), 0.5]
    moments = [[0.0, 0.0], [0.0, 0.0]]
    for step in range(1, steps + 1):
        inputs = rng.standard_normal((batch, N + 1, D))
        tasks = rng.standard_normal((batch, D, 1))
        labels = (inputs @ tasks)[:, :, 0]
        noisy = labels + np.sqrt(SIGMA2) * rng.standard_normal(labels.shape)
        prompts = inputs[:, :N], noisy[:, :N], inputs[:, N], labels[:, N]
        decay = min(1.0, 2 * (1 - step / steps))
        for i, gradient in enumerate(gradients(weights, *prompts, kind)):
            first = moments[i][0] = 0.9 * moments[i][0] + 0.1 * gradient
            second = moments[i][1] = 0.99 * moments[i][1] + 0.01 * gradient**2
            unit = np.sqrt(second / (1 - 0.99**step)) + 1e-8
            weights[i] = weights[i] - rate * decay * first / (1 - 0.9**step) / unit
    return weights


linear, softmax = train("linear"), train("softmax")

# %%
# The layer of linear attention does what the theory says: one step of gradient descent.  The
# fitted rate, and the factor of the best step, show how far training has brought it, and the
# eigenvalues of Gamma how far from a multiple of the identity its matrix is.


def one_layer(inputs, labels, query):
    return answer(linear, inputs, labels, query, "linear")


report = iclimit.probe(one_layer, problem, test_prompts=2000, rng=2)
print(report)

# %%
# The layer of softmax attention has found the softmax head that theory says is best: a weighted
# mean of the labels near the query (`iclimit.softmax.optimal_softmax`).  It is linear in the
# labels, as linear attention is, but linear attention explains only part of its answers.


def smoothing(inputs, labels, query):
    return answer(softmax, inputs, labels, query, "softmax")


smoother = iclimit.probe(smoothing, problem, test_prompts=2000, rng=2)
print(smoother.verdict)
print(f"nonlinear in the labels: {smoother.diagnosis['nonlinearity'].mean:.1g}")
print(f"linear attention explains {smoother.linear.explained}")

# %%
# Two layers of linear attention, trained by the library on the same problem.

trained = iclimit.train_attention(
    Problem(dim=D, context=N, noise_variance=SIGMA2, scale=1),
    layers=2,
    steps=1500,
    batch=1000,
    rng=0,
)

deeper = iclimit.probe(trained, problem, test_prompts=2000, rng=2)
print(deeper.verdict)

# %%
# The ladders of all three.  The line is the model; the points are the algorithms, and the marks
# beside them their exact errors.

models = {"linear attention": report, "softmax attention": smoother, "two linear layers": deeper}
figure, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
for ax, (name, found) in zip(axes, models.items(), strict=True):
    found.plot(ax)
    ax.set_title(name)
    if ax is not axes[0]:
        ax.get_legend().remove()

# %%
# Models that answer at every position show how their error falls with the number of examples.
# Here the softmax layer looks at the pairs before each position.


def at_every_position(inputs, labels):
    answers = np.zeros(labels.shape)
    for end in range(1, labels.shape[1]):
        before = inputs[:, :end], labels[:, :end], inputs[:, end]
        answers[:, end] = answer(softmax, *before, "softmax")
    return answers


names = ["null", "one_step", "nearest_neighbours", "least_squares", "ridge"]
form = {"form": "positions", "baselines": names}
positions = iclimit.probe(at_every_position, problem, test_prompts=2000, rng=3, **form)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
positions.plot(ax, figure="positions")
