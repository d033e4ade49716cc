"""Sweeps through the parameter space, as in the published figures of linear attention.

The points of a sweep are simulated at one size, compared with the finite-size prediction there,
and drawn over the asymptotic curve.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.notation import PARAMETERS
from iclimit.validation.claim import Cell, Preset
from iclimit.validation.claims.pretraining.points import Point, Results, cells_of
from iclimit.validation.comparisons import ERRORS
from iclimit.validation.drawing import COLOURS, draw_estimates, finish, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE: dict[Preset, int] = {"quick": 32, "full": 64}
REPEATS: dict[Preset, int] = {"quick": 12, "full": 60}
LEGEND = "lines: asymptotic; dashes: finite-size prediction; points: simulation, d = {}"


@dataclass(frozen=True)
class Curve:
    """Points that differ in one parameter."""

    base: Point
    axis: str
    values: tuple[float, ...]

    @property
    def points(self) -> list[Point]:
        """The points of the curve."""
        return [self.at(value) for value in self.values]

    def at(self, value: Any) -> Point:
        """The point at a value of the parameter, or at an array of them."""
        along: dict[str, Any] = {self.axis: value}
        return replace(self.base, **along)


def sweep_cells(curves: Iterable[Curve], preset: Preset) -> dict[Any, Cell]:
    """Cells of all points of the curves."""
    points = (point for curve in curves for point in curve.points)
    return cells_of(points, {SIZE[preset]: REPEATS[preset]})


def draw_sweep(
    ax: Axes, curve: Curve, name: str, dim: int, results: Results, colour: str, label: str = ""
) -> None:
    """Draw one error along a curve: limit (line), prediction (dashes), simulation (points)."""
    fine = np.geomspace(min(curve.values), max(curve.values), 300)
    ax.plot(fine, getattr(curve.at(fine).limit, name), color=colour, label=label or None)
    predicted, simulated = (
        [getattr(results[kind, point, dim], name) for point in curve.points]
        for kind in ("predicted", "simulated")
    )
    ax.plot(curve.values, [float(each) for each in predicted], "_", color=colour, markersize=9)
    draw_estimates(ax, curve.values, simulated, colour, markersize=3.5)


def draw_both_errors(
    figure: Figure,
    curves: Iterable[Curve],
    label: str,
    dim: int,
    results: Results,
    *,
    title: str,
    limits: tuple[tuple[float, float], ...] = (),
) -> list[Axes]:
    """Draw ICL errors on the left and IDG errors on the right, by values of one parameter.

    With limits of the two ordinates these are logarithmic.
    """
    axes = panels(figure, width=8.4, height=3.6)
    for number, (ax, name) in enumerate(zip(axes, ERRORS, strict=True)):
        for curve, colour in zip(curves, COLOURS, strict=False):
            value = f"${PARAMETERS[label].symbol} = {getattr(curve.base, label):g}$"
            draw_sweep(ax, curve, name, dim, results, colour, value)
        if limits:
            ax.set_ylim(*limits[number])
        finish(ax, curve.axis, f"{name}_error", log="xy" if limits else "x")
    axes[1].legend(title=title)
    figure.suptitle(LEGEND.format(dim), fontsize=8)
    return axes
