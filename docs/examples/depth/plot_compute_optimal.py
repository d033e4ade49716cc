"""
The shape that spends compute best
==================================

How many layers, how wide, on how long a context and for how long?  The sum of four power laws has
a closed answer.  The exact loss is below the sum, wants fewer layers, and shows what they risk.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.depth import compute_optimal, depth_loss, scaling_exponents, tied_flow, untied_depth

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "0.5"
NU, BETA, D = 2.0, 0.7, 200

k = np.arange(1.0, D + 1)
lam, tasks = k**-NU, k ** (NU - NU * BETA - 1)
law = {"spectrum": lam, "task_spectrum": tasks}


def exact(compute, layers, width, context):
    """Loss with time, depth, width and context all finite, and the room below divergence."""
    time = compute / (layers * width**2 * context**2)
    size = {"alpha": context / D, "width_ratio": width / D}
    # Losses are means over modes, and a projection has the mean size N/d.
    flow = tied_flow(times=time * D * (D / width) ** 2, depth=layers, **size, **law)
    room = depth_loss(depth=layers, gamma=float(flow.gamma), **size, **law).headroom
    return float(flow.loss) * D, float(room)


# %%
# Training costs :math:`C = t P^2 N^2 L`.  At each compute take width and context of the best sum,
# vary the depth, and let time have what depth leaves.  The exact loss is a quarter below the sum.
# It is least with 0.6 of the layers, and rises steeply with fewer: layers cap the gain that
# training can reach.
#
# Right: by how much the largest eigenvalue of a context may grow until the steps diverge on it.
# At the best depth it is 10 to 30 %, while the largest eigenvalue of 14 to 20 tokens fluctuates by
# a third: there rare contexts carry the mean loss.  The layers that the sum adds keep training
# stable.

(_, left), (_, right) = plt.subplots(), plt.subplots()
for compute, colour in ((1e8, BLUE), (1e10, ORANGE)):
    best = compute_optimal(compute=compute, nu=NU, beta=BETA)
    parts = np.array([0.35, 0.45, 0.55, 0.65, 0.8, 1.0, 1.4])
    layers = np.unique(np.round(parts * float(best.depth))).astype(int)
    found = [exact(compute, each, float(best.width), float(best.context)) for each in layers]
    loss, room = np.transpose(found)
    share = layers / best.depth
    label = f"$C = 10^{{{np.log10(compute):.0f}}}$"
    left.plot(share, loss / best.loss, ".-", color=colour, label=label)
    right.plot(share, room, ".-", color=colour, label=label)
    print(f"C = {compute:.0e}: sum {best.loss:.3f} with {best.depth:.1f} layers;", end=" ")
    print(f"exact {loss.min():.3f} with {layers[loss.argmin()]} layers")
for ax in (left, right):
    ax.axvline(1, color="0.7", linewidth=0.8)
    ax.set(xlabel="layers / layers of the best sum")
left.set(ylabel="exact loss / sum", title="time has what depth leaves")
left.legend()
right.set(ylabel="headroom", ylim=(0, 2), title="until the steps diverge")

# %%
# How depth should grow with width is another question, here for models that are trained to the end
# on long contexts.  The sum gives :math:`L \sim N^\nu` for tied layers and
# :math:`L \sim N^{\nu/(2 + \nu)}` for untied ones, which hit the largest eigenvalues one by one.
# Below are the exact best depths at a given :math:`C = N^2 L`.  At these sizes neither law is
# reached.  A narrow stream blurs the eigenvalues, so that untied layers follow a steeper law, at
# most :math:`N^{\nu/2}`.

figure, ax = plt.subplots(figsize=(6, 4))


def tied_loss(layers, width):
    return float(depth_loss(depth=layers, width_ratio=width / D, **law).loss)


def untied_loss(layers, width):
    return untied_depth(lam, weights=lam * tasks, depth=layers, width_ratio=width / D).loss


for name, loss, most, colour in (
    ("tied", tied_loss, 64, BLUE),
    ("untied", untied_loss, 20, ORANGE),
):
    shapes = []
    for compute in np.geomspace(60, 1.5e4, 5):
        least = np.inf
        for layers in np.unique(np.geomspace(2, most, 16).round().astype(int)):
            width = np.sqrt(compute / layers)
            value = loss(int(layers), width)
            if value > least:  # along a compute the loss has one minimum
                break
            least = value
            best = (width, layers)
        shapes.append(best)
    ax.plot(*np.transpose(shapes), "o-", color=colour, label=f"{name}, exact")
for setting, colour in (("rrs", BLUE), ("untied", ORANGE), ("untied_blurred", GREEN)):
    power = float(scaling_exponents(nu=NU, beta=BETA, setting=setting).depth_of_width)
    x = np.array([5, 30])
    ax.plot(x, 5 * (x / 5) ** power, "--", color=colour, linewidth=0.9)
    ax.text(31, 5 * 6**power, f"$N^{{{power:g}}}$", color=colour, va="center")
ax.set(xscale="log", yscale="log", xlabel="width $N$", ylabel="best depth $L$", xlim=(3, 50))
ax.set_xticks([4, 8, 16, 32], ["4", "8", "16", "32"])
ax.set_xticks([], minor=True)
ax.legend()
