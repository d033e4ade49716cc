r"""The shape that spends compute best: the sum of power laws, and the exact numbers.

Simulated: stacks whose layers, width, context and training time are all finite, at the best shape
of the sum of four power laws.  Their losses, extrapolated to infinitely many copies of each of 32
eigenvalues, equal the exact number.  Theory against theory: the closed form of this best shape
against a search for the least sum, and its exponents against shapes at two computes.  The notes
have the exact number for all eigenvalues, which is below the sum and least with fewer layers.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Result 8 and Figure 5;
constants, closed form and exact numbers derived in the documentation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from iclimit.asymptotics.depth import compute_optimal, scaling_exponents, scaling_terms, tied_flow
from iclimit.drawing import COLOURS, Axes, Figure, draw_sizes, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.depth import simulate_depth_loss
from iclimit.statistics import Extrapolation, extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
)
from iclimit.validation.claims.depth.power_law import PowerLaw

NU, BETA = 2.0, 0.7
DRAWN = PowerLaw.of(NU, BETA, single=32)
COPIES = (2, 3, 4, 6)
POINTS = {1e6: (4, 14, 9, 4.344369), 1e8: (9, 20, 14, 6.853974)}
"""Computes, with layers, width and context of the best shape of the sum, rounded, and the gain
that gradient flow reaches in the time that the compute leaves.  It is a number here, so that the
simulation does not change with the theory."""

CONTEXTS = 400
"""Contexts of the quick preset times copies."""

MORE: dict[Preset, int] = {"quick": 1, "medium": 10, "full": 100}

RESOURCES = ("time", "depth", "width", "context")
COSTS = np.array([1, 1, 2, 2])
"""Exponents of the resources in the compute."""

SEARCHED = {"loss": 1e-11, "shape": 1e-5}
"""Relative errors of a searched minimum and its place (measured: 4e-15 and 2e-7)."""

COMPUTES = (1e8, 1e10, 1e12)
PARTS = (0.35, 0.5, 0.6, 0.8, 1.0, 1.4)
"""Computes at which the depth is varied, and depths relative to that of the best sum."""


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
    def there(self) -> float:
        """Exact loss at the depth of the sum."""
        return float(self.losses[self.depths == round(self.depth)][0])

    def describe(self, compute: float) -> str:
        """What the sum misses, in words."""
        best = np.argmin(self.losses)
        return (
            f"Theory at compute {compute:.0e}: the sum is {self.sum:.4f} with {self.depth:.1f} "
            f"layers. The exact number is {self.there:.4f} there, and {self.losses[best]:.4f} "
            f"with {self.depths[best]} layers, where the steps nearly diverge."
        )


def context_losses(**setting: Any) -> np.ndarray:
    """Losses of drawn contexts."""
    return simulate_depth_loss(**setting).losses


def cells(preset: Preset) -> dict[Any, Cell]:
    """Contexts by compute and copies."""
    return {
        (compute, copies): Cell.of(
            context_losses,
            eigenvalues=np.repeat(DRAWN.eigenvalues, copies),
            task_spectrum=np.repeat(DRAWN.tasks, copies),
            rates=[gain / depth] * depth,
            width=width * copies,
            context=context * copies,
            repeats=MORE[preset] * CONTEXTS // copies,
        )
        for compute, (depth, width, context, gain) in POINTS.items()
        for copies in COPIES
    }


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


def sum_of_terms(shape: np.ndarray) -> float:
    """The sum of four power laws, as published, with the constants of the theory."""
    terms, powers = scaling_terms(nu=NU, beta=BETA), scaling_exponents(nu=NU, beta=BETA)
    parts = [
        float(getattr(terms, name)) * size ** -float(getattr(powers, name))
        for name, size in zip(RESOURCES, shape, strict=True)
    ]
    return float(sum(parts))


def search_sum(compute: float) -> tuple[float, np.ndarray]:
    """Least sum at a compute and its shape, by a search over depth, width and context."""

    def shape(logs: np.ndarray) -> np.ndarray:
        return np.exp(np.append(np.log(compute) - COSTS[1:] @ logs, logs))

    start = np.full(3, np.log(compute) / COSTS.sum())
    found = minimize(lambda logs: np.log(sum_of_terms(shape(logs))), start, tol=1e-9)
    return float(np.exp(found.fun)), shape(found.x)


def depth_curve(compute: float) -> DepthCurve:
    """Exact numbers at some depths around that of the sum, at its width and context."""
    law, best = endless(), compute_optimal(compute=compute, nu=NU, beta=BETA)
    width, context = float(best.width), float(best.context)
    depths = np.unique([max(1, round(part * float(best.depth))) for part in PARTS])
    losses = [exact(law, compute, depth, width, context) for depth in depths.tolist()]
    return DepthCurve(depths, np.array(losses), float(best.depth), float(best.loss))


def compare_searches() -> list[Comparison]:
    """The closed form and its exponents against searches for the least sum."""
    rows, shapes = [], {}
    for compute in (1e10, 1e16):
        loss, found = search_sum(compute)
        shapes[compute] = np.append(found, loss)
        best = compute_optimal(compute=compute, nu=NU, beta=BETA)
        for name, value in zip((*RESOURCES, "loss"), shapes[compute], strict=True):
            error = SEARCHED["loss" if name == "loss" else "shape"]
            label = f"{name} of the best sum, C = {compute:.0e}, searched"
            of = f"compute_optimal.{name}"
            theory = float(getattr(best, name))
            rows.append(compare(label, theory, value, relative=error, of=of))
    powers = scaling_exponents(nu=NU, beta=BETA)
    time, depth, width, context, loss = np.log(shapes[1e16] / shapes[1e10])
    for name, value in (
        ("compute", -loss / np.log(1e6)),
        ("time_of_width", time / width),
        ("depth_of_width", depth / width),
        ("context_of_width", context / width),
    ):
        theory, of = float(getattr(powers, name)), f"scaling_exponents.{name}"
        label = f"exponent {name.replace('_', ' ')}, searched"
        rows.append(compare(label, theory, float(value), relative=SEARCHED["shape"], of=of))
    return rows


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare simulations with exact numbers, and closed forms with searches."""
    comparisons = compare_searches()
    fits: dict[float, Extrapolation] = {}
    limits: dict[float, float] = {}
    for compute, (*sizes, _) in POINTS.items():
        limit = limits[compute] = exact(DRAWN, compute, *sizes) / DRAWN.number
        fit = fits[compute] = extrapolate_runs(COPIES, [results[compute, c][None] for c in COPIES])
        label = f"loss at compute {compute:.0e}, all finite"
        comparisons += compare_limits(
            {label: limit}, fit, of=["tied_flow.loss"], draws=f"compute {compute:g}"
        )
        comparisons.append(compare_p_value(f"chi-square, C = {compute:.0e}", fit.p_value))
    curves = {compute: depth_curve(compute) for compute in COMPUTES}
    notes = [curve.describe(compute) for compute, curve in curves.items()]

    def draw(figure: Figure) -> None:
        first, second, third = panels(figure, 3, width=11.0, height=3.6)
        draw_losses(first, curves)
        for compute, colour in zip(POINTS, COLOURS, strict=False):
            runs = [Estimate.of(results[compute, copies]) for copies in COPIES]
            fit, limit = fits[compute], limits[compute]
            label = f"$C = 10^{{{np.log10(compute):.0f}}}$"
            draw_sizes(second, COPIES, runs, colour, limit=limit, fit=fit, label=label)
        title = f"simulated, {len(DRAWN.ranks)} eigenvalues"
        finish(second, "1 / copies of each", "loss", title=title, legend="")
        draw_depths(third, curves)

    return Verdict(comparisons, draw, tuple(notes))


def draw_losses(ax: Axes, curves: dict[float, DepthCurve]) -> None:
    """Loss against compute: the sum, the exact number at its shape, and at the best depth."""
    computes = list(curves)
    ax.plot(computes, [curve.sum for curve in curves.values()], "--", color="0.4", label="sum")
    there = [curve.there for curve in curves.values()]
    ax.plot(computes, there, "o-", color=COLOURS[0], label="exact, shape of the sum")
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


claim = Claim.of("compute-optimal", __doc__, cells, judge)
