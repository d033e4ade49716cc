"""Phase diagrams: a quantity over two parameters, with its boundaries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.diagrams.boundaries import boundary_curves
from iclimit.diagrams.curves import is_geometric
from iclimit.diagrams.phase_points import points_to_simulate
from iclimit.diagrams.planning import Plan
from iclimit.diagrams.quantities import get_quantity, named_quantity
from iclimit.diagrams.simulation import (
    LEAST_SIZES,
    SimulatedValue,
    can_be_extrapolated,
    check_simulated,
    given_simulation,
    simulate_values,
)
from iclimit.diagrams.structure import Spectrum, Structure, given_structure
from iclimit.runs.store import RunStore
from iclimit.validation.drawing import log_scale
from iclimit.validation.statistics import z_threshold

_STYLES = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.2)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (9, 3)),
)
_INFINITE = "#b0b0b0"
_BOUNDARY_COLOURS = ("#d55e00", "#000000", "#cc79a7", "#56b4e9", "#e69f00", "#882255")


@dataclass(frozen=True)
class PhaseDiagram:
    """A quantity over a grid of two parameters.

    Attributes
    ----------
    quantity : str
        Name of the quantity.
    x, y : str
        Parameters along the axes.
    x_grid, y_grid : ndarray
        Their values.
    fixed : dict
        The other parameters.
    values : ndarray (y points, x points)
        Theory; ``inf`` where the quantity diverges.
    label : str
        Colour bar label.
    simulated : tuple of SimulatedValue
        Simulated points, empty if none were asked for.
    structure : Structure, optional
        Spectra of the data; None: isotropic.
    """

    quantity: str
    x: str
    y: str
    x_grid: np.ndarray
    y_grid: np.ndarray
    fixed: dict[str, float]
    values: np.ndarray
    label: str
    simulated: tuple[SimulatedValue, ...] = ()
    structure: Structure | None = None

    @cached_property
    def boundaries(self) -> dict[str, list[np.ndarray]]:
        """Boundaries within the diagram, {label: list of lines}, a line of shape (n, 2).

        Vertices are x, y in order, roots to about 1e-10; `iclimit.diagrams.boundaries` has their margins.
        """
        axes = (self.x, self.x_grid), (self.y, self.y_grid)
        return boundary_curves(self.quantity, *axes, self.fixed, self.structure)

    def rows(self) -> list[dict[str, Any]]:
        """Values, and simulated points if there are any, as rows of a table in long form."""
        head = {"quantity": self.quantity, **self._spectra, **self.fixed}
        blank = dict.fromkeys(("standard_error", "compared_with", "z", "dim", "repeats"), "")
        source = {"source": "theory"} if self.simulated else {}
        theory = [
            source | head | {self.x: x, self.y: y, "value": value} | (blank if source else {})
            for y, line in zip(self.y_grid.tolist(), self.values.tolist(), strict=True)
            for x, value in zip(self.x_grid.tolist(), line, strict=True)
        ]
        simulated: list[dict[str, Any]] = [
            {
                "source": "simulation",
                **head,
                self.x: v.parameters[self.x],
                self.y: v.parameters[self.y],
                "value": v.value,
                "standard_error": v.standard_error,
                "compared_with": v.theory,
                "z": "" if v.z is None else v.z,
                "dim": " ".join(str(run.parameters["dim"]) for run in v.runs),
                "repeats": " ".join(str(run.repeats) for run in v.runs),
            }
            for v in self.simulated
        ]
        return theory + simulated

    def to_xarray(self) -> Any:
        """Values and boundaries as an `xarray.Dataset` with labelled coordinates.

        Boundaries are a list of vertices: ``boundary`` is the label, ``line`` numbers the lines.
        Simulated points have a dimension of their own; ``z`` is NaN where it is not defined.
        Spectra of structured data are attributes as they were given, and variables over ``atom``.
        """
        import xarray as xr

        import iclimit

        quantity = named_quantity(self.quantity, self.structure)
        coordinates = {
            name: (
                name,
                grid,
                {
                    "long_name": quantity.all_parameters[name].meaning,
                    "symbol": quantity.all_parameters[name].label,
                    "units": "dimensionless",
                },
            )
            for name, grid in ((self.x, self.x_grid), (self.y, self.y_grid))
        }
        lines = [(label, line) for label, lines in self.boundaries.items() for line in lines]
        vertices = np.concatenate([np.empty((0, 2)), *(line for _, line in lines)])
        labels = [label for label, line in lines for _ in line]
        numbers = [number for number, (_, line) in enumerate(lines) for _ in line]
        attributes = {
            "long_name": quantity.meaning,
            "symbol": self.label,
            "units": "dimensionless",
        }
        return xr.Dataset(
            {
                self.quantity: ((self.y, self.x), self.values, attributes),
                f"boundary_{self.x}": ("vertex", vertices[:, 0]),
                f"boundary_{self.y}": ("vertex", vertices[:, 1]),
                "boundary": ("vertex", np.array(labels, dtype=object)),
                "line": ("vertex", np.array(numbers, dtype=int)),
                **self._spectrum_variables(),
                **self._simulated_variables(),
            },
            coordinates,
            {
                "quantity": self.quantity,
                **self._spectra,
                **self.fixed,
                "iclimit_version": iclimit.__version__,
            },
        )

    @property
    def _spectra(self) -> dict[str, str]:
        return self.structure.described if self.structure else {}

    def _spectrum_variables(self) -> dict[str, tuple[str, np.ndarray]]:
        """Joint spectrum that the values are for, by atoms."""
        if self.structure is None:
            return {}
        joint = self.structure.joint
        return {
            "task_eigenvalue": ("atom", joint.task),
            "test_eigenvalue": ("atom", joint.test),
            "input_eigenvalue": ("atom", joint.inputs),
            "weight": ("atom", joint.weight),
        }

    def _simulated_variables(self) -> dict[str, tuple[Any, Any]]:
        points = self.simulated
        if not points:
            return {}
        return {
            f"simulated_{self.x}": ("point", [v.parameters[self.x] for v in points]),
            f"simulated_{self.y}": ("point", [v.parameters[self.y] for v in points]),
            "simulated_value": ("point", [v.value for v in points]),
            "standard_error": ("point", [v.standard_error for v in points]),
            "compared_with": ("point", [v.theory for v in points]),
            "z": ("point", [np.nan if v.z is None else v.z for v in points]),
            "dim": (
                ("point", "size"),
                [[run.parameters["dim"] for run in v.runs] for v in points],
            ),
            "repeats": (("point", "size"), [[run.repeats for run in v.runs] for v in points]),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the diagram with contours and boundaries; return the axes.

        Colours cover the values up to the 98th percentile; infinite ones are grey.  The levels of
        the white contours are marked on the colour bar.
        """
        from matplotlib.patches import Patch

        for name, grid in ((self.x, self.x_grid), (self.y, self.y_grid)):
            if not np.all(np.isfinite(grid)):
                raise ValueError(f"{name} must be finite on an axis to be drawn, got {grid}")
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        mesh = self._draw_values(ax)
        handles = self._draw_boundaries(ax)
        if np.any(np.isinf(self.values)):
            handles.append(Patch(color=_INFINITE, label="infinite"))
        if self.simulated:
            dots = ax.scatter(
                *self._places,
                c=[v.value for v in self.simulated],
                norm=mesh.norm,
                cmap=mesh.cmap,
                s=34,
                edgecolors="black",
                linewidths=0.8,
                zorder=4,
                clip_on=False,
                label=f"simulated, {self._sizes}",
            )
            handles.append(dots)
        self._label(ax, handles)
        return ax

    def plot_errors(self, ax: Any = None) -> Any:
        """Draw the z of the simulated points over the boundaries; return the axes.

        Points that the comparison does not allow for so many, by chance one time in a thousand,
        have a black edge.

        Raises
        ------
        ValueError
            If nothing was simulated.
        """
        compared = [v for v in self.simulated if v.z is not None]
        if not compared:
            raise ValueError("simulation must be given to draw its errors")
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        z = np.array([v.z for v in compared])
        allowed = z_threshold(len(compared))
        places = np.array([[v.parameters[self.x], v.parameters[self.y]] for v in compared]).T
        dots = ax.scatter(
            *places,
            c=z,
            cmap="RdBu_r",
            vmin=-allowed,
            vmax=allowed,
            s=60,
            clip_on=False,
            edgecolors=np.where(np.abs(z) > allowed, "black", "0.6"),
            zorder=4,
        )
        ax.figure.colorbar(dots, ax=ax, label="$z$ of simulation against theory")
        self._draw_boundaries(ax)
        ax.set_xlim(self.x_grid[0], self.x_grid[-1])
        ax.set_ylim(self.y_grid[0], self.y_grid[-1])
        self._label(ax, [])
        ax.set_title(
            f"largest $|z|$ of {len(compared)}: {np.max(np.abs(z)):.1f} "
            f"(allowed: {allowed:.1f})\n{self._sizes}",
            pad=12,
        )
        return ax

    @property
    def _places(self) -> tuple[list[float], list[float]]:
        at = [v.parameters for v in self.simulated]
        return [p[self.x] for p in at], [p[self.y] for p in at]

    @property
    def _sizes(self) -> str:
        sizes = [run.parameters["dim"] for run in self.simulated[0].runs]
        text = f"$d = {', '.join(map(str, sizes))}$"
        return text + (r" extrapolated to $\infty$" if len(sizes) >= LEAST_SIZES else "")

    def _label(self, ax: Any, handles: list[Any]) -> None:
        for name, grid in (("x", self.x_grid), ("y", self.y_grid)):
            if is_geometric(grid):
                log_scale(ax, name)
        parameters = named_quantity(self.quantity, self.structure).all_parameters
        ax.set_xlabel(parameters[self.x].label)
        ax.set_ylabel(parameters[self.y].label)
        ax.grid(visible=False)
        fixed = ", ".join(f"{parameters[n].symbol} = {v:g}" for n, v in self.fixed.items())
        lines = [f"${fixed}$"] if fixed else []
        title = "\n".join(lines + ([self.structure.title] if self.structure else []))
        if handles:
            ax.legend(
                handles=handles,
                title=title or None,
                alignment="left",
                loc="lower left",
                bbox_to_anchor=(-0.02, 1.0),
                frameon=False,
                handlelength=3,
            )
        elif title:
            ax.set_title(title)

    def _draw_values(self, ax: Any) -> Any:
        from matplotlib import colormaps
        from matplotlib.colors import LogNorm, Normalize
        from matplotlib.ticker import LogLocator, MaxNLocator

        shown = np.ma.masked_invalid(self.values)
        low, high = np.percentile(shown.compressed(), [0, 98]) if shown.count() else (0.0, 1.0)
        logarithmic = low > 0 and high > 20 * low
        mesh = ax.pcolormesh(
            self.x_grid,
            self.y_grid,
            shown,
            shading="nearest",
            rasterized=True,
            norm=(LogNorm if logarithmic else Normalize)(low, high),
            cmap=colormaps["viridis"].with_extremes(bad=_INFINITE),
        )
        beyond = shown.count() and shown.max() > high
        short = logarithmic and high < 1e3 * low
        locator = LogLocator(subs=(1, 2, 5) if short else (1,)) if logarithmic else MaxNLocator(8)
        bar = ax.figure.colorbar(
            mesh,
            ax=ax,
            label=self.label,
            extend="max" if beyond else "neither",
            **({"ticks": locator, "format": "%g"} if short else {}),
        )
        if short:
            bar.minorticks_off()
        steps = bool(np.all(shown == np.round(shown)))
        if high > low and not steps:
            levels = [v for v in locator.tick_values(low, high) if low < v < high]
            if levels:
                lines = ax.contour(
                    self.x_grid, self.y_grid, shown, levels=levels, colors="white", linewidths=0.6
                )
                bar.add_lines(lines)
        return mesh

    def _draw_boundaries(self, ax: Any) -> list[Any]:
        from matplotlib.lines import Line2D
        from matplotlib.patheffects import Normal, Stroke

        handles = []
        for index, (label, lines) in enumerate(self.boundaries.items()):
            style: dict[str, Any] = {
                "color": _BOUNDARY_COLOURS[index % len(_BOUNDARY_COLOURS)],
                "linestyle": _STYLES[index % len(_STYLES)],
                "linewidth": 1.8,
            }
            outline = [Stroke(linewidth=3.2, foreground="white", alpha=0.8), Normal()]
            for line in lines:
                ax.plot(*line.T, **style, path_effects=outline)
            handles.append(Line2D([], [], label=label, **style))
        return handles


def phase_diagram(
    quantity: str,
    *,
    x: str,
    y: str,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    simulation: Mapping[str, Any] | None = None,
    refine: int = 0,
    rng: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    scheduler: str | None = None,
    store: RunStore | None = None,
    progress: bool = False,
    announce: Callable[[Plan], None] | None = None,
    **parameters: Any,
) -> PhaseDiagram:
    r"""Compute a quantity over two of its parameters.

    Parameters
    ----------
    quantity : str
        Name: a key of `iclimit.diagrams.quantities.QUANTITIES`, as listed by ``iclimit phase --list``.
    x, y : str
        Names of the parameters along the axes.
    task_spectrum, test_spectrum, input_spectrum : str or SpectralMeasure, optional
        Structured data, as of `iclimit.diagrams.structure.Structure`: for icl_error, idg_error, task_gap,
        misalignment_error and scalar_error, which then take ``test_alpha`` and ``test_rho`` too.
        A million points take minutes, with an input spectrum hours.
    simulation : mapping, optional
        Simulate points of the diagram (icl_error, idg_error and task_gap only): ``d``, the
        dimension or several of them, three or more being extrapolated; optionally ``points``, the
        number along each axis or both numbers (default 6), ``repeats`` (default 10),
        ``target_se``, ``target_rel_se`` and ``time_limit`` as in `iclimit.diagrams.simulation.Simulation`.
        Points are not extrapolated but left out if integers at one of the sizes miss them by more
        than a tenth or lie on the other side of the interpolation threshold.
    refine : int >= 0
        How often the rectangles between simulated points are split in four where a boundary
        passes or the quantity changes most.
    rng : int
        Root seed of the simulation.
    jobs, backend, scheduler, store
        As in `iclimit.validation.validate`.
    progress : bool
        Show a progress bar for the simulation.
    announce : callable, optional
        Gets the estimated cost of the simulation as a `iclimit.diagrams.planning.Plan` before it starts.
    **parameters : number or sequence
        The quantity's parameters: ascending sequences for x and y, numbers for the rest.

    Returns
    -------
    PhaseDiagram
        With ``.values``, ``.boundaries``, ``.simulated``, ``.rows()``, ``.to_xarray()``,
        ``.plot(ax=None)`` and ``.plot_errors(ax=None)``.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> diagram = iclimit.phase_diagram(
    ...     "task_gap", x="alpha", y="kappa", alpha=np.geomspace(0.1, 100, 50),
    ...     kappa=np.geomspace(0.1, 10, 40), tau=4, rho=0.1,
    ... )
    >>> diagram.values.shape
    (40, 50)
    >>> for label, lines in diagram.boundaries.items():
    ...     print(label, [line.shape for line in lines])
    $\kappa = 1$: memorisation transition, sharp as $\alpha \to \infty$ [(50, 2)]
    """
    if x == y:
        raise ValueError(f"x and y must be different parameters, got {x!r} for both")
    structure = given_structure(
        task_spectrum=task_spectrum, test_spectrum=test_spectrum, input_spectrum=input_spectrum
    )
    chosen = get_quantity(quantity, parameters, structure)
    for axis, name in (("x", x), ("y", y)):
        if name not in parameters:
            raise ValueError(f"{axis} must be one of {', '.join(parameters)}, got {name!r}")
    grids = {name: np.asarray(parameters[name], dtype=float) for name in (x, y)}
    for name, grid in grids.items():
        if grid.ndim != 1 or grid.size < 2 or not np.all(np.diff(grid) > 0):
            raise ValueError(f"{name} must be an ascending sequence of at least two numbers")
    fixed = {}
    for name, value in parameters.items():
        if name not in grids:
            if np.ndim(value) != 0:
                raise ValueError(f"{name} must be a number (x is {x}, y is {y}), got {value!r}")
            fixed[name] = float(value)
    values = chosen.evaluate(fixed | {x: grids[x][None, :], y: grids[y][:, None]})
    values = np.broadcast_to(values, (grids[y].size, grids[x].size))
    diagram = PhaseDiagram(
        quantity, x, y, grids[x], grids[y], fixed, values, chosen.label, structure=structure
    )
    if simulation is None:
        return diagram
    given, shape = given_simulation(
        simulation,
        6,
        rng=rng,
        jobs=jobs,
        backend=backend,
        scheduler=scheduler,
        store=store,
        progress=progress,
        announce=announce,
    )
    check_simulated(chosen)
    lines = [line for lines in diagram.boundaries.values() for line in lines]
    points = points_to_simulate(chosen, grids, fixed, lines, shape, refine)
    if given.extrapolates:
        near = [point for point in points if can_be_extrapolated(point, given.sizes)]
        if len(near) < len(points):
            warnings.warn(
                f"{len(points) - len(near)} of {len(points)} points are left out: integers at "
                f"d = {given.sizes[0]} to {given.sizes[-1]} are too far from them",
                RuntimeWarning,
                stacklevel=2,
            )
        points = near
    found = simulate_values(chosen, points, given)
    return replace(diagram, simulated=tuple(value for value in found if value is not None))
