"""
Exponents are limits
====================

Loss against training time, depth, width or context length is a power law only far out.  The local
slope of the exact loss says how far, and which published exponent it tends to.
"""

import matplotlib.pyplot as plt
import numpy as np

from iclimit.depth import depth_loss, scaling_exponents, simulate_matrix_flow, tied_flow

BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"


def modes(number, nu, beta):
    """Eigenvalues of a power law, and those of the tasks."""
    k = np.arange(1.0, number + 1)
    return {"spectrum": k**-nu, "task_spectrum": k ** (nu - nu * beta - 1)}


def slopes(loss, size):
    """Local exponents, and where they belong."""
    return np.sqrt(size[1:] * size[:-1]), -np.diff(np.log(loss)) / np.diff(np.log(size))


# %%
# Four resources, one finite at a time.  Eigenvalues are :math:`k^{-\nu}` and the k-th mode holds
# :math:`k^{-\nu\beta-1}` of the label variance, here with :math:`\nu = 2` and
# :math:`\beta = 0.7`, in a basis that is rotated in each context.  Depth is slowest: at eight
# layers the slope is still 0.77, for an exponent of 0.7.

NU, BETA, D = 2.0, 0.7, 2000
law = modes(D, NU, BETA)
exponents = scaling_exponents(nu=NU, beta=BETA)
sizes = 2.0 ** np.arange(1, 8)
times, depths = 4.0 ** np.arange(1, 11), 2.0 ** np.arange(0, 11)
loss = {
    "time": (times, tied_flow(times=times * D, depth=np.inf, **law).loss),
    "depth": (depths, depth_loss(depth=depths, **law).loss),
    "width": (sizes, depth_loss(depth=np.inf, width_ratio=sizes / D, **law).loss),
    "context": (sizes, depth_loss(depth=np.inf, alpha=sizes / D, **law).loss),
}
(_, left), (_, right) = plt.subplots(), plt.subplots()
for (name, (size, values)), colour in zip(loss.items(), (PINK, BLUE, GREEN, ORANGE), strict=True):
    left.plot(size, D * values, ".-", color=colour, label=name)
    right.plot(*slopes(values, size), color=colour, label=name)
    exponent = float(getattr(exponents, name))
    right.axhline(exponent, color=colour, linestyle="--", linewidth=0.9)
left.set(xscale="log", yscale="log", xlabel="time, layers, width or tokens", ylabel="loss")
left.set_title("one resource finite")
right.set(xscale="log", xlabel="time, layers, width or tokens", ylabel="local exponent")
right.set_title("dashed: exponents")
left.legend()

# %%
# If the covariance is the same in all contexts, depth is not needed: gradient flow gives each mode
# a gain of its own.  The exponent of time is then :math:`\nu\beta/(\nu\beta + 2\nu + 1)`.
# Version 1 of `arXiv:2510.01098 <https://arxiv.org/abs/2510.01098>`_ prints
# :math:`\beta/(\nu + \nu\beta + 1)`.  The two agree at :math:`\nu \approx 1.37` for
# :math:`\beta = 1`, so that one pair of exponents may not show which is right.  Points are
# gradient flow of the full matrix of four layers with ten modes.  These soon run out: the slope
# leaves its exponent when the last of them is learned.

figure, ax = plt.subplots(figsize=(6, 4))
times = 2.0 ** np.arange(1, 27)
for nu, beta, colour in ((2.0, 0.5, BLUE), (1.0, 1.0, ORANGE)):
    few = modes(10, nu, beta)
    many = modes(4000, nu, beta)
    for law, style in ((few, "-"), (many, "--")):
        flow = tied_flow(times=times, depth=4, setting="fs", **law).loss
        label = f"$\\nu = {nu:g}$, $\\beta = {beta:g}$, {len(law['spectrum'])} modes"
        ax.plot(*slopes(flow, times), style, color=colour, label=label)
    at = 4.0 ** np.arange(1, 8)
    run = simulate_matrix_flow(
        depth=4,
        eigenvalues=few["spectrum"],
        task_spectrum=few["task_spectrum"],
        shared=True,
        times=at,
    )
    ax.plot(*slopes(run.losses, at), "o", color=colour, markersize=4)
    exponent = scaling_exponents(nu=nu, beta=beta, setting="fs").time
    ax.plot(times[-1], exponent, "<", color=colour, clip_on=False)
    ax.plot(times[-1], beta / (nu + nu * beta + 1), "x", color=colour, clip_on=False)
ax.set(xscale="log", xlabel="time", ylabel="local exponent", ylim=(0.1, 0.45))
ax.set_title("fixed covariances; triangles: exponents, crosses: printed")
ax.legend(fontsize=8)

# %%
# Width and context have the exponent :math:`\nu\beta` only while tasks are hard.  For
# :math:`\beta > 1` the error of random directions falls as :math:`N^{-\nu}`, whatever the tasks;
# for :math:`\beta > 2` that of a context falls as :math:`P^{-2\nu}`.

figure, ax = plt.subplots(figsize=(6, 4))
beta = np.linspace(0.1, 3, 200)
tied = scaling_exponents(nu=NU, beta=beta)
ax.plot(beta, NU * beta, ":", color="0.5", label=r"$\nu\beta$")
ax.plot(beta, tied.width, color=GREEN, label="width")
ax.plot(beta, tied.context, color=ORANGE, label="context")
sizes = np.array([40.0, 80.0])
for each in (0.5, 0.75, 1.5, 2.5):
    law = modes(1000, NU, each)
    for name, colour in (("width_ratio", GREEN), ("alpha", ORANGE)):
        values = depth_loss(depth=np.inf, **{name: sizes / 1000}, **law).loss
        ax.plot(each, slopes(values, sizes)[1], "o", color=colour, markersize=5)
ax.set(xlabel=r"$\beta$", ylabel="exponent", title=r"$\nu = 2$; points: slope from 40 to 80")
ax.legend()
