r"""
How many wrong labels does a context bear?
==========================================

A model that reads labelled examples of two classes, some of them with the wrong label, has to
average over the wrong ones.  The memory of linear attention, the sum of inputs times labels, does
it well, and how well is known exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr

from iclimit.recurrent import classification_accuracy, simulate_classification

# %%
# The means of the classes are 4 standard deviations apart, in 20 dimensions.  Lines are exact,
# points are simulated contexts.  Dots are the limit of many dimensions
# :math:`\Phi\bigl((1 - 2p)R^2/\sqrt{(1 - 2p)^2R^2 + 1/\alpha}\bigr)`: short contexts, or many
# wrong labels, are worse than it says.

d, separation = 20, 2.0
flips, points = np.linspace(0, 0.5, 101), np.linspace(0, 0.5, 6)
colors = {10: "#0072b2", 40: "#009e73", 160: "#d55e00"}

figure, ax = plt.subplots(figsize=(6.4, 4))
for context, color in colors.items():
    setting = {"dim": d, "context": context, "separation": separation}
    ax.plot(flips, classification_accuracy(**setting, flips=flips), color=color, label=context)
    signal = (1 - 2 * flips) * separation
    limit = ndtr(separation * signal / np.sqrt(signal**2 + d / context))
    ax.plot(flips, limit, ":", lw=1, color=color)
    for each in points.tolist():
        found = simulate_classification(**setting, flips=each, rng=0, contexts=400)
        ax.errorbar(each, found.mean, found.standard_error, fmt="o", ms=4, color=color)
ax.axhline(ndtr(separation), color="0.7", lw=0.8, zorder=0)
ax.set(xlabel="share of wrong labels p", ylabel="accuracy")
ax.legend(title="context")

# %%
# A context with wrong labels is worth a shorter one without, in the limit by the factor
# :math:`(1 - 2p)^2`.  With a fifth of the labels wrong, 35 examples do as well as 10 clean ones,
# and not the 28 of the limit.

clean = classification_accuracy(dim=d, context=10, separation=separation)
context = np.arange(10, 60)
accuracy = classification_accuracy(dim=d, context=context, separation=separation, flips=0.2)
print(f"clean: 10 examples, accuracy {clean:.4f}")
print(f"a fifth wrong: {context[np.argmax(accuracy >= clean)]} examples; limit {10 / 0.6**2:.0f}")
