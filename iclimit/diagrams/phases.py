"""Phase diagrams, a quantity over two parameters with its boundaries, and their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.axes import cell_edges, is_logarithmic, log_axis
from iclimit.checks import check_choice
from iclimit.diagrams.boundaries import boundary_curves, boundary_labels
from iclimit.diagrams.labelled_arrays import labelled_values
from iclimit.diagrams.legends import boundary_legend, broken, setting_lines, write_title
from iclimit.diagrams.own_points import OwnPoints, PointsTaker
from iclimit.diagrams.quantities import Quantity
from iclimit.diagrams.simulated_points import LEAST_SIZES, SimulatedValue
from iclimit.drawing import Axes, Figure, panels
from iclimit.notation import LABELS, axis_label
from iclimit.statistics import z_threshold

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Normalize

# Height in inches that a boundary adds to the legend above a picture.
_LEGEND_ROW = 0.18

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

# Colours are interpolated between so many points along each axis; between fewer it would invent.
_ENOUGH = 20
# Cells along an axis of a picture from which on they are not seen.
_FINE = 300


@dataclass(frozen=True, repr=False)
class PhaseDiagram(PointsTaker):
    """A quantity over a grid of two parameters.

    Attributes
    ----------
    quantity : Quantity
        What is drawn, with its name, label and parameters.
    x, y : str
        Parameters along the axes.
    x_grid, y_grid : ndarray
        Their values.
    fixed : dict
        The other parameters.
    values : ndarray (y points, x points)
        Theory; ``inf`` where the quantity diverges.
    simulated : tuple of SimulatedValue
        Simulated points, empty if none were asked for.
    """

    quantity: Quantity
    x: str
    y: str
    x_grid: np.ndarray
    y_grid: np.ndarray
    fixed: dict[str, float]
    values: np.ndarray
    simulated: tuple[SimulatedValue, ...] = ()

    @cached_property
    def boundaries(self) -> dict[str, list[np.ndarray]]:
        """Boundaries within the diagram, {label: list of lines}, a line of shape (n, 2).

        Vertices are x, y in order, roots to about 1e-10; `iclimit.diagrams.boundaries` has their
        margins.
        """
        axes = (self.x, self.x_grid), (self.y, self.y_grid)
        return boundary_curves(
            self.quantity.name, *axes, self.fixed, self.quantity.structure, self.quantity.link
        )

    def rows(self) -> list[dict[str, Any]]:
        """Values, and simulated points if there are any, as rows of a table in long form."""
        head = {"quantity": self.quantity.name, **self.quantity.choices, **self.fixed}
        theory = [
            head | {self.x: x, self.y: y, self.quantity.column: value}
            for y, line in zip(self.y_grid.tolist(), self.values.tolist(), strict=True)
            for x, value in zip(self.x_grid.tolist(), line, strict=True)
        ]
        if not self.simulated:
            return theory
        blank = dict.fromkeys(self.simulated[0].numbers)
        rows = [{"source": "theory"} | row | blank for row in theory]
        for simulated in self.simulated:
            point = {name: simulated.parameters[name] for name in (self.x, self.y)}
            point[self.quantity.column] = simulated.estimate.mean
            numbers = {
                name: " ".join(map(str, value)) if isinstance(value, tuple) else value
                for name, value in simulated.numbers.items()
            }
            rows.append({"source": "simulation"} | head | point | numbers)
        return rows

    def to_xarray(self) -> Any:
        """Values and boundaries as an `xarray.Dataset` with labelled coordinates.

        Boundaries are a list of vertices: ``boundary`` is the label, ``line`` numbers the lines.
        The rest is that of `iclimit.diagrams.labelled_arrays.labelled_values`.
        """
        lines = [(label, line) for label, lines in self.boundaries.items() for line in lines]
        vertices = np.concatenate([np.empty((0, 2)), *(line for _, line in lines)])
        labels = [label for label, line in lines for _ in line]
        numbers = [number for number, (_, line) in enumerate(lines) for _ in line]
        boundaries = {
            f"boundary_{self.x}": ("vertex", vertices[:, 0]),
            f"boundary_{self.y}": ("vertex", vertices[:, 1]),
            "boundary": ("vertex", np.array(labels, dtype=object)),
            "line": ("vertex", np.array(numbers, dtype=int)),
        }
        axes = {self.y: self.y_grid, self.x: self.x_grid}
        values = self.values
        return labelled_values(self.quantity, axes, self.fixed, values, self.simulated, boundaries)

    def _places(self) -> tuple[Mapping[str, np.ndarray], Mapping[str, Sequence[float]]]:
        others = {name: [value] for name, value in self.fixed.items()}
        return {self.x: self.x_grid, self.y: self.y_grid}, others

    def shown_boundaries(
        self, boundaries: bool | Sequence[str] | Mapping[str, str] = True
    ) -> dict[str, list[np.ndarray]]:
        """Boundaries that are chosen by name, {label: list of lines}.

        Parameters
        ----------
        boundaries : bool, sequence of str or mapping
            All or none of them; those of these names (`iclimit.diagrams.boundaries.BOUNDARIES`);
            or names with labels of your own, empty for those that they have.

        Raises
        ------
        ValueError
            If no boundary of the quantity has such a name.
        """
        if isinstance(boundaries, bool):
            return self.boundaries if boundaries else {}
        known = boundary_labels(self.quantity.name, self.quantity.structure, self.quantity.link)
        for name in boundaries:
            check_choice("boundaries", name, known)
        own = boundaries if isinstance(boundaries, Mapping) else {}
        return {
            own.get(name) or known[name]: self.boundaries[known[name]]
            for name in boundaries
            if known[name] in self.boundaries
        }

    def draw(
        self,
        ax: Axes,
        *,
        legend: bool = True,
        title: str | None = None,
        errors: bool = False,
        boundaries: bool | Sequence[str] | Mapping[str, str] = True,
        show_z: bool = True,
    ) -> None:
        """Draw the diagram with contours and boundaries.

        Colours cover the values up to the 98th percentile, and the bar names the largest; infinite
        ones are grey.  Colours are interpolated between the points of the grid, but coarse grids,
        whole numbers, and values beside infinite ones are drawn as cells.  The levels of the white
        contours are marked on the colour bar.  In small axes the legend has the formulas of the
        boundaries, without the words after them.

        Parameters
        ----------
        ax : Axes
            Where to draw.
        legend : bool
            Whether there is a legend of the boundaries, above the axes.
        title : str, optional
            Default: the parameters that are fixed.
        errors : bool
            Draw the z of the simulated points over the boundaries instead.  The colours end at the
            largest z that so many points reach by chance one time in a thousand.  Points beyond it
            have a black edge.
        boundaries : bool, sequence of str or mapping
            Which boundaries are drawn, as of `shown_boundaries`.
        show_z : bool
            Whether z is shown: as the colour of rings, and in the panel of simulated points.

        Raises
        ------
        ValueError
            If errors are to be drawn, and nothing was simulated.
        """
        shown = self.shown_boundaries(boundaries)
        if errors:
            _draw_errors(self, ax, shown)
            return
        mesh, handles = _draw_diagram(self, ax, shown)
        if self._own is not None:
            handles.append(_draw_own(self, ax, self._own, mesh, show_z=show_z))
        _label(self, ax, handles, legend, title)

    def draw_figure(
        self,
        figure: Figure,
        /,
        *,
        errors: bool = False,
        boundaries: bool | Sequence[str] | Mapping[str, str] = True,
        show_z: bool = True,
        **line: Any,
    ) -> Axes:
        """Draw the diagram, with the errors of simulated points beside it; return its axes."""
        shown = self.shown_boundaries(boundaries)
        rows = len(shown) + bool(self.simulated) + bool(self.quantity.choices)
        rows += self._own is not None
        compared = any(value.z is not None for value in self.simulated)
        beside = compared and show_z and not errors
        panel_count = 2 if beside else 1
        height = 4.0 + _LEGEND_ROW * rows
        first, *right = panels(figure, panel_count, width=6.4 * panel_count, height=height)
        if beside:
            self.draw(right[0], errors=True, boundaries=boundaries)
        self.draw(first, errors=errors, boundaries=boundaries, show_z=show_z, **line)
        return first


def _draw_diagram(
    diagram: PhaseDiagram, ax: Axes, boundaries: Mapping[str, list[np.ndarray]]
) -> tuple[Any, list[Artist]]:
    """Draw the values with contours, boundaries and simulated points; return what explains them.

    That is the coloured mesh, and the entries of a legend.
    """
    from matplotlib.patches import Patch

    for name, grid in ((diagram.x, diagram.x_grid), (diagram.y, diagram.y_grid)):
        if not np.all(np.isfinite(grid)):
            raise ValueError(f"{name} must be finite on an axis to be drawn, got {grid}")
    mesh = _draw_values(diagram, ax)
    handles = _draw_boundaries(boundaries, ax)
    if np.any(np.isinf(diagram.values)):
        handles.append(Patch(color=_INFINITE, label="infinite"))
    if diagram.simulated:
        values = [v.estimate.mean for v in diagram.simulated]
        colours = {"norm": mesh.norm, "cmap": mesh.cmap, "edgecolors": "black"}
        label = f"simulated, {_sizes(diagram)}"
        dots = _draw_dots(diagram, diagram.simulated, ax, values, s=34, label=label, **colours)
        dots.set_linewidth(0.8)
        handles.append(dots)
    return mesh, handles


def _draw_own(
    diagram: PhaseDiagram, ax: Axes, own: OwnPoints, mesh: Any, *, show_z: bool
) -> Artist:
    """Draw points of the user's as rings in the colour of their z; return the legend's entry."""
    from matplotlib import cm, colormaps
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D

    points = own.points
    x = [point.parameters[diagram.x] for point in points]
    y = [point.parameters[diagram.y] for point in points]
    z = np.array([point.z for point in points])
    fill: dict[str, Any] = {"norm": mesh.norm, "cmap": mesh.cmap, "zorder": 5}
    means = [point.mean for point in points]
    compared = show_z and bool(np.any(np.isfinite(z)))
    edges: Any = "0.15"
    if compared:
        allowed = z_threshold(int(np.sum(np.isfinite(z))))
        scale = cm.ScalarMappable(Normalize(-allowed, allowed), colormaps["coolwarm"])
        edges = np.where(np.isfinite(z)[:, None], scale.to_rgba(np.nan_to_num(z)), 1.0)
        bar = ax.figure.colorbar(scale, ax=ax, location="bottom", shrink=0.6, aspect=30)
        bar.set_label("$z$ of your points against theory (rings)", fontsize="small")
    # A white rim tells the ring from the map, and from the value inside.
    ax.scatter(x, y, s=170, c="white", zorder=4, clip_on=False)
    ax.scatter(x, y, s=130, c=edges, zorder=4.5, clip_on=False)
    ax.scatter(x, y, s=52, c="white", zorder=4.6, clip_on=False)
    ax.scatter(x, y, s=34, c=means, clip_on=False, **fill)
    style: dict[str, Any] = {"markeredgecolor": "0.15", "markerfacecolor": "white"}
    return Line2D([], [], linestyle="none", marker="o", markersize=8, label=own.label, **style)


def _draw_errors(
    diagram: PhaseDiagram, ax: Axes, boundaries: Mapping[str, list[np.ndarray]]
) -> None:
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
    _draw_boundaries(boundaries, ax)
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
    x = [value.parameters[diagram.x] for value in values]
    y = [value.parameters[diagram.y] for value in values]
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
    ax.set(xlabel=axis_label(parameters[diagram.x]), ylabel=axis_label(parameters[diagram.y]))
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

    axes = (diagram.x_grid, diagram.y_grid)
    shown = np.ma.masked_invalid(diagram.values)
    low, high = np.percentile(shown.compressed(), [0, 98]) if shown.count() else (0.0, 1.0)
    logarithmic = low > 0 and high > 20 * low
    norm = (LogNorm if logarithmic else Normalize)(low, high)
    cmap = colormaps["viridis"].with_extremes(bad=_INFINITE)
    whole = bool(np.all(shown == np.round(shown)))
    smooth = not whole and min(shown.shape) >= _ENOUGH
    *grids, cells = _finer(*axes, shown, norm) if smooth else (*axes, shown)
    edges = (cell_edges(grid) for grid in grids)
    mesh = ax.pcolormesh(*edges, cells, norm=norm, cmap=cmap, rasterized=True)
    extend = "max" if shown.count() and shown.max() > high else "neither"
    short = logarithmic and high < 1e3 * low
    locator = LogLocator(subs=(1, 2, 5) if short else (1,)) if logarithmic else MaxNLocator(8)
    ticks: dict[str, Any] = {"ticks": locator, "format": "%g"} if short else {}
    label = LABELS.get(diagram.quantity.name, diagram.quantity.label)
    if extend == "max":
        label += f" (largest: {shown.max():.3g})"
    bar = ax.figure.colorbar(mesh, ax=ax, label=label, extend=extend, **ticks)
    if short:
        bar.minorticks_off()
    levels = [v for v in locator.tick_values(low, high) if low < v < high]
    if levels and not whole:
        bar.add_lines(ax.contour(*axes, shown, levels=levels, colors="white", linewidths=0.6))
    return mesh


def _finer(
    x_grid: np.ndarray, y_grid: np.ndarray, values: np.ma.MaskedArray, norm: Normalize
) -> tuple[np.ndarray, np.ndarray, np.ma.MaskedArray]:
    """Finer grids, and the values there: along the colours linear, infinite ones as they are."""
    x, x_places = _subdivided(x_grid)
    y, y_places = _subdivided(y_grid)
    colours = np.ma.filled(norm(values), np.nan)
    between = _linear(_linear(colours, y_places).T, x_places).T
    # Next to an infinite value there is no value between.
    nearest = colours[np.ix_(np.rint(y_places).astype(int), np.rint(x_places).astype(int))]
    shares = np.where(np.isnan(between), nearest, between)
    return x, y, norm.inverse(np.ma.masked_invalid(shares))


def _linear(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Rows between those of an array, at places that count them from 0."""
    lower = places.astype(int)
    upper = np.minimum(lower + 1, len(rows) - 1)
    share = (places - lower)[:, None]
    return (1 - share) * rows[lower] + share * rows[upper]


def _subdivided(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A finer grid, even between neighbours as the axis is drawn, and its places in the grid."""
    parts = -(-_FINE // grid.size)
    places = np.linspace(0, grid.size - 1, (grid.size - 1) * parts + 1)
    logarithmic = is_logarithmic(grid)
    points = np.interp(places, np.arange(grid.size), np.log(grid) if logarithmic else grid)
    return np.exp(points) if logarithmic else points, places


def _draw_boundaries(boundaries: Mapping[str, list[np.ndarray]], ax: Axes) -> list[Artist]:
    from matplotlib import rcParams
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import Normal, Stroke

    handles: list[Artist] = []
    width = 1.1 * rcParams["lines.linewidth"]
    for index, (label, lines) in enumerate(boundaries.items()):
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
