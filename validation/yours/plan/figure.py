"""Figure of a plan: power against cost, and the two theories with expected error bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, panels
from iclimit.notation import PARAMETERS

if TYPE_CHECKING:
    from iclimit.validation.yours.plan.plan import Proposal, RunPlan


def draw_plan(figure: Figure, plan: RunPlan) -> list[Axes]:
    """Draw power against cost, and the theories by dimension or along a transition."""
    left, right = panels(figure, 2, width=9.6, height=3.9)
    plan.draw(left)
    if plan.along:
        best = plan.best
        x = [point.ratios[plan.along] for point in best.design.points]
        _draw_theories(right, x, [(best, number) for number in range(len(x))])
        finish(right, plan.along, "error", log="x", legend=f"d = {best.dim}")
        return [left, right]
    ordered = sorted(plan.proposals, key=lambda each: each.dim)
    if plan.question == "forecast":
        rows = [each.row() for each in ordered]
        for name, colour in zip((n for n in rows[0] if n.endswith("_se")), COLOURS, strict=False):
            errors = [row[name] for row in rows]
            symbol = getattr(PARAMETERS.get(name[:-3]), "symbol", "")
            label = f"${symbol}$" if symbol else name[:-3].replace("_", " ")
            right.plot([row["dim"] for row in rows], errors, "o-", color=colour, label=label)
        finish(right, "dim", "relative standard error of the fit", legend="")
    else:
        _draw_theories(right, [each.dim for each in ordered], [(each, 0) for each in ordered])
        finish(right, "dim", "error", legend="expected at the repeats proposed")
    right.locator_params(axis="x", integer=True)
    return [left, right]


def draw_power(ax: Axes, proposals: Sequence[Proposal], unit: str) -> None:
    """Draw the power of each size against the cost of its runs, with the proposal as a point."""
    for number, each in enumerate(sorted(proposals, key=lambda each: each.dim)):
        colour = COLOURS[number % len(COLOURS)]
        repeats = np.unique(np.geomspace(1, 4 * each.repeats, 200).round())
        powers = [each.contrast.power(count, each.significance) for count in repeats]
        style = "-" if number < len(COLOURS) else "--"
        ax.plot(repeats * each.design.cost, powers, style, color=colour, label=f"{each.dim}")
        ax.plot(each.cost, each.power, "o", color=colour, markersize=5)
    ax.set_ylim(-0.03, 1.03)
    finish(ax, f"cost [{unit}]", "power", log="x", legend="$d$")


def _draw_theories(ax: Axes, x: Sequence[float], places: Sequence[tuple[Proposal, int]]) -> None:
    """Draw what two theories say of the points, with the error bars of the repeats proposed."""
    points = [each.design.points[number] for each, number in places]
    bars = [
        math.sqrt(point.variance / each.repeats)
        for point, (each, _) in zip(points, places, strict=True)
    ]
    others = [each.design.others(each.effect)[number] for each, number in places]
    draw_points(ax, x, [point.mean for point in points], bars, COLOURS[0], fmt="o-", label="runs")
    ax.plot(x, others, "--", color=COLOURS[1], label="to be told from")
