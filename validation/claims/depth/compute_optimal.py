r"""The shape that spends compute best: the sum of power laws, and the exact numbers.

Simulated: stacks whose layers, width, context and training time are all finite, at the best shape
of the sum of four power laws.  Their losses, extrapolated to infinitely many copies of each of 32
eigenvalues, equal the exact number.  The notes have the exact number for all eigenvalues, which is
below the sum and least with fewer layers.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Result 8 and Figure 5;
constants, closed form and exact numbers derived in the documentation.
"""

from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.depth import compute_optimal, tied_flow
from iclimit.drawing import COLOURS, Axes, Figure, finish, panels
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.depth.power_law import PowerLaw, context_losses
from iclimit.validation.rows import Limit, Rows, call, drawing, limit, note, run
from iclimit.validation.standard_figure import draw_quantity

NU, BETA = 2.0, 0.7
DRAWN = PowerLaw.of(NU, BETA, single=32)
COPIES = (2, 3, 4, 6)
# Computes, with layers, width and context of the best shape of the sum, rounded, and the gain that
# gradient flow reaches in the time that the compute leaves.  It is a number here, so that the
# simulation does not change with the theory.
POINTS = {1e6: (4, 14, 9, 4.344369), 1e8: (9, 20, 14, 6.853974)}

# Contexts of the quick preset times copies.
CONTEXTS = 400

# Computes at which the depth is varied, and depths relative to that of the best sum.
COMPUTES = (1e8, 1e10, 1e12)
PARTS = (0.35, 0.5, 0.6, 0.8, 1.0, 1.4)


@dataclass(frozen=True)
class DepthCurve:
    """Exact losses against depth at a compute, with width and context of the best sum.

    Attributes
    ----------
    depths, losses : ndarray (n,)
        Numbers of layers, and exact losses with the time that the compute leaves.
    depth, sum : float
        Depth and loss of the best sum.
    """

    depths: np.ndarray
    losses: np.ndarray
    depth: float
    sum: float

    @property
    def at_the_sum(self) -> float:
        """Exact loss at the depth of the sum."""
        return float(self.losses[self.depths == round(self.depth)][0])

    def describe(self, compute: float) -> str:
        """What the sum misses, in words."""
        best = np.argmin(self.losses)
        return (
            f"Theory at compute {compute:.0e}: the sum is {self.sum:.4f} with {self.depth:.1f} "
            f"layers. The exact number is {self.at_the_sum:.4f} there, and "
            f"{self.losses[best]:.4f} with {self.depths[best]} layers, where the steps nearly "
            "diverge."
        )


def exact(law: PowerLaw, compute: float, depth: int, width: float, context: float) -> float:
    """Exact number at a compute and a shape, whose time is what the compute leaves."""
    time = compute / (depth * width**2 * context**2)
    narrow = width / law.number
    flow = tied_flow(
        times=time * law.number / narrow**2,
        depth=depth,
        spectrum=law.joint,
        alpha=context / law.number,
        width_ratio=narrow,
    )
    return float(flow.loss) * law.number


def endless() -> PowerLaw:
    """The power law up to modes that no shape here reaches."""
    return PowerLaw.of(NU, BETA, single=30, last=1e4, nodes=24)


def depth_curve(compute: float) -> DepthCurve:
    """Exact numbers at some depths around that of the sum, at its width and context."""
    law, best = endless(), compute_optimal(compute=compute, nu=NU, beta=BETA)
    width, context = float(best.width), float(best.context)
    depths = np.unique([max(1, round(part * float(best.depth))) for part in PARTS])
    losses = [exact(law, compute, depth, width, context) for depth in depths.tolist()]
    return DepthCurve(depths, np.array(losses), float(best.depth), float(best.loss))


def simulated_loss(compute: float) -> float:
    """Mean over the drawn eigenvalues of the exact loss at the shape that is simulated."""
    *shape, _ = POINTS[compute]
    return exact(DRAWN, compute, *shape) / DRAWN.number


def rows(effort: Effort) -> Rows:
    """Simulations against exact numbers."""
    limits = []
    for compute, (depth, width, context, gain) in POINTS.items():
        runs = {
            copies: run(
                context_losses,
                eigenvalues=np.repeat(DRAWN.eigenvalues, copies),
                task_spectrum=np.repeat(DRAWN.tasks, copies),
                rates=[gain / depth] * depth,
                width=width * copies,
                context=context * copies,
                repeats=effort(CONTEXTS // copies),
            )
            for copies in COPIES
        }
        row = limit(
            {f"loss at compute {compute:.0e}, all finite": call(simulated_loss, compute)},
            runs,
            of=["tied_flow.loss"],
            draws=f"compute {compute:g}",
            fit_label=f"chi-square, C = {compute:.0e}",
        )
        limits.append(row)
        yield row
    curves = {compute: call(depth_curve, compute) for compute in COMPUTES}
    for compute, curve in curves.items():
        yield note(call(DepthCurve.describe, curve, compute))
    yield drawing(draw, curves, limits)


def draw(figure: Figure, curves: dict[float, DepthCurve], limits: list[Limit]) -> None:
    """Draw loss against compute, the extrapolations, and loss against depth."""
    first, second, third = panels(figure, 3, width=11.0, height=3.6)
    draw_losses(first, curves)
    for compute, row, colour in zip(POINTS, limits, COLOURS, strict=False):
        draw_quantity(second, row, 0, colour, f"$C = 10^{{{np.log10(compute):.0f}}}$")
    title = f"simulated, {len(DRAWN.ranks)} eigenvalues"
    finish(second, "1 / copies of each", "loss", title=title, legend="")
    draw_depths(third, curves)


def draw_losses(ax: Axes, curves: dict[float, DepthCurve]) -> None:
    """Loss against compute: the sum, the exact number at its shape, and at the best depth."""
    computes = list(curves)
    ax.plot(computes, [curve.sum for curve in curves.values()], "--", color="0.4", label="sum")
    at_the_sum = [curve.at_the_sum for curve in curves.values()]
    ax.plot(computes, at_the_sum, "o-", color=COLOURS[0], label="exact, shape of the sum")
    least = [curve.losses.min() for curve in curves.values()]
    ax.plot(computes, least, "*", color=COLOURS[1], markersize=10, label="exact, best depth")
    finish(ax, "compute", "loss", title="all modes", log="xy", legend="")


def draw_depths(ax: Axes, curves: dict[float, DepthCurve]) -> None:
    """Exact loss against depth, in units of those that the sum has."""
    for (compute, curve), colour in zip(curves.items(), COLOURS, strict=False):
        label = f"$C = 10^{{{np.log10(compute):.0f}}}$"
        ax.plot(
            curve.depths / curve.depth, curve.losses / curve.sum, "o-", color=colour, label=label
        )
    ax.axvline(1, color="0.6", linewidth=0.8)
    x, y = "layers / layers of the sum", "exact loss / sum"
    finish(ax, x, y, title="time takes what depth leaves", legend="")


claim = Claim.of("compute-optimal", __doc__, rows)
