"""Pictures of phase diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.diagrams.axes import cell_edges, log_axis
from iclimit.diagrams.legends import boundary_legend, broken, setting_lines, write_title
from iclimit.diagrams.simulated_points import LEAST_SIZES
from iclimit.statistics import z_threshold

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

    from iclimit.diagrams.phases import PhaseDiagram
    from iclimit.diagrams.simulated_points import SimulatedValue

# Line styles and colours of the boundaries, in their order.
_STYLES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.2)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (9, 3)),
)
_BOUNDARY_COLOURS = ("#d55e00", "#000000", "#cc79a7", "#56b4e9", "#e69f00", "#882255")

# Colour of infinite values.
_INFINITE = "#b0b0b0"


def draw(diagram: PhaseDiagram, ax: Axes, legend: bool = True, title: str | None = None) -> None:
    """Draw the values with contours, boundaries and simulated points."""
    from matplotlib.patches import Patch

    for name, grid in ((diagram.x, diagram.x_grid), (diagram.y, diagram.y_grid)):
        if not np.all(np.isfinite(grid)):
            raise ValueError(f"{name} must be finite on an axis to be drawn, got {grid}")
    mesh = _draw_values(diagram, ax)
    handles = _draw_boundaries(diagram, ax)
    if np.any(np.isinf(diagram.values)):
        handles.append(Patch(color=_INFINITE, label="infinite"))
    if diagram.simulated:
        values = [v.estimate.mean for v in diagram.simulated]
        colours = {"norm": mesh.norm, "cmap": mesh.cmap, "edgecolors": "black"}
        label = f"simulated, {_sizes(diagram)}"
        dots = _draw_dots(diagram, diagram.simulated, ax, values, s=34, label=label, **colours)
        dots.set_linewidth(0.8)
        handles.append(dots)
    _label(diagram, ax, handles, legend, title)


def draw_errors(diagram: PhaseDiagram, ax: Axes) -> None:
    """Draw the z of the simulated points over the boundaries."""
    compared = [v for v in diagram.simulated if v.z is not None]
    if not compared:
        raise ValueError("simulation must be given to draw its errors")
    z = np.array([v.z for v in compared], dtype=float)
    allowed = z_threshold(len(compared))
    edges = np.where(np.abs(z) > allowed, "black", "0.6").tolist()
    colours = {"cmap": "RdBu_r", "vmin": -allowed, "vmax": allowed, "edgecolors": edges}
    dots = _draw_dots(diagram, compared, ax, z, s=60, **colours)
    ax.figure.colorbar(dots, ax=ax, label="$z$ of simulation against theory")
    _draw_boundaries(diagram, ax)
    ax.set(xlim=diagram.x_grid[[0, -1]], ylim=diagram.y_grid[[0, -1]])
    _label(diagram, ax, [], legend=False, title="")
    ax.set_title(
        f"largest $|z|$ of {len(compared)}: {np.max(np.abs(z)):.1f} "
        f"(allowed: {allowed:.1f})\n{_sizes(diagram)}",
        pad=12,
    )


def _draw_dots(
    diagram: PhaseDiagram, values: Sequence[SimulatedValue], ax: Axes, colour: Any, **style: Any
) -> PathCollection:
    """Draw a coloured point for each simulated value, also where it is cut by the frame."""
    x, y = ([value.parameters[name] for value in values] for name in (diagram.x, diagram.y))
    return ax.scatter(x, y, c=colour, zorder=4, clip_on=False, **style)


def _sizes(diagram: PhaseDiagram) -> str:
    sizes = diagram.simulated[0].sizes
    text = f"$d = {', '.join(map(str, sizes))}$"
    return text + (r" extrapolated to $\infty$" if len(sizes) >= LEAST_SIZES else "")


def _label(
    diagram: PhaseDiagram, ax: Axes, handles: list[Artist], legend: bool, title: str | None
) -> None:
    """Set scales, axis labels, and the legend or title with the parameters that are fixed."""
    for name, grid in (("x", diagram.x_grid), ("y", diagram.y_grid)):
        log_axis(ax, name, grid)
    parameters = diagram.quantity.all_parameters
    ax.set(xlabel=parameters[diagram.x].label, ylabel=parameters[diagram.y].label)
    ax.grid(visible=False)
    lines = setting_lines(diagram.quantity, diagram.fixed)
    if legend and handles:
        text = broken(ax, lines) if title is None else title
        boundary_legend(ax, handles, text or None)
    else:
        write_title(ax, title, lines)


def _draw_values(diagram: PhaseDiagram, ax: Axes) -> Any:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import LogLocator, MaxNLocator

    axes, shown = (diagram.x_grid, diagram.y_grid), np.ma.masked_invalid(diagram.values)
    low, high = np.percentile(shown.compressed(), [0, 98]) if shown.count() else (0.0, 1.0)
    logarithmic = low > 0 and high > 20 * low
    norm = (LogNorm if logarithmic else Normalize)(low, high)
    cmap = colormaps["viridis"].with_extremes(bad=_INFINITE)
    edges = (cell_edges(grid) for grid in axes)
    mesh = ax.pcolormesh(*edges, shown, norm=norm, cmap=cmap, rasterized=True)
    extend = "max" if shown.count() and shown.max() > high else "neither"
    short = logarithmic and high < 1e3 * low
    locator = LogLocator(subs=(1, 2, 5) if short else (1,)) if logarithmic else MaxNLocator(8)
    ticks: dict[str, Any] = {"ticks": locator, "format": "%g"} if short else {}
    bar = ax.figure.colorbar(mesh, ax=ax, label=diagram.quantity.label, extend=extend, **ticks)
    if short:
        bar.minorticks_off()
    levels = [v for v in locator.tick_values(low, high) if low < v < high]
    if levels and not np.all(shown == np.round(shown)):
        bar.add_lines(ax.contour(*axes, shown, levels=levels, colors="white", linewidths=0.6))
    return mesh


def _draw_boundaries(diagram: PhaseDiagram, ax: Axes) -> list[Artist]:
    from matplotlib import rcParams
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import Normal, Stroke

    handles: list[Artist] = []
    width = 1.1 * rcParams["lines.linewidth"]
    for index, (label, lines) in enumerate(diagram.boundaries.items()):
        style: dict[str, Any] = {
            "color": _BOUNDARY_COLOURS[index % len(_BOUNDARY_COLOURS)],
            "linestyle": _STYLES[index % len(_STYLES)],
            "linewidth": width,
        }
        outline = [Stroke(linewidth=1.8 * width, foreground="white", alpha=0.8), Normal()]
        for line in lines:
            ax.plot(*line.T, **style, path_effects=outline)
        handles.append(Line2D([], [], label=label, **style))
    return handles
