"""Phase diagrams: a quantity over two parameters, with its boundaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.diagrams import phase_drawing
from iclimit.diagrams.axes import parse_axis
from iclimit.diagrams.boundaries import boundary_curves
from iclimit.diagrams.labelled_arrays import labelled_values
from iclimit.diagrams.phase_points import points_to_simulate
from iclimit.diagrams.planning import Plan
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.diagrams.simulated_points import SimulatedValue
from iclimit.diagrams.simulation import parse_simulation, points_at_sizes, simulate_values
from iclimit.results import Result
from iclimit.runs.store import RunStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Height in inches that a boundary adds to the legend above a picture.
_LEGEND_ROW = 0.18


@dataclass(frozen=True, repr=False)
class PhaseDiagram(Result):
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
        return boundary_curves(self.quantity.name, *axes, self.fixed, self.quantity.structure)

    def rows(self) -> list[dict[str, Any]]:
        """Values, and simulated points if there are any, as rows of a table in long form."""
        head = {"quantity": self.quantity.name, **self.quantity.spectra, **self.fixed}
        theory = [
            head | {self.x: x, self.y: y, self.quantity.column: value}
            for y, line in zip(self.y_grid.tolist(), self.values.tolist(), strict=True)
            for x, value in zip(self.x_grid.tolist(), line, strict=True)
        ]
        if not self.simulated:
            return theory
        blank = dict.fromkeys(self.simulated[0].numbers)
        rows = [{"source": "theory"} | row | blank for row in theory]
        for each in self.simulated:
            point = {name: each.parameters[name] for name in (self.x, self.y)}
            point[self.quantity.column] = each.estimate.mean
            numbers = {
                name: " ".join(map(str, value)) if isinstance(value, tuple) else value
                for name, value in each.numbers.items()
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
        axes, values = {self.y: self.y_grid, self.x: self.x_grid}, self.values
        return labelled_values(
            self.quantity, axes, self.fixed, values, self.simulated, **boundaries
        )

    def draw(
        self, ax: Axes, *, legend: bool = True, title: str | None = None, errors: bool = False
    ) -> None:
        """Draw the diagram with contours and boundaries.

        Colours cover the values up to the 98th percentile; infinite ones are grey.  The levels of
        the white contours are marked on the colour bar.  In small axes the legend has the formulas
        of the boundaries, without the words after them.

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

        Raises
        ------
        ValueError
            If errors are to be drawn, and nothing was simulated.
        """
        if errors:
            phase_drawing.draw_errors(self, ax)
        else:
            phase_drawing.draw(self, ax, legend, title)

    def draw_figure(self, figure: Figure, /, **line: Any) -> Axes:
        """Draw the diagram, with the errors of simulated points beside it; return its axes."""
        from iclimit.drawing import panels

        rows = len(self.boundaries) + bool(self.simulated) + bool(self.quantity.structure)
        errors = any(value.z is not None for value in self.simulated) and not line.get("errors")
        columns = 2 if errors else 1
        height = 4.0 + _LEGEND_ROW * rows
        first, *right = panels(figure, columns, width=6.4 * columns, height=height)
        if errors:
            self.draw(right[0], errors=True)
        self.draw(first, **line)
        return first


def phase_diagram(
    quantity: str | Callable[..., Any],
    *,
    x: str,
    y: str,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
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
    quantity : str or callable
        Name of a quantity (``iclimit phase --list`` lists them); or a function that takes its
        parameters as keyword arguments and broadcasts, of the theory or of your own.
    x, y : str
        Names of the parameters along the axes.
    task_spectrum, test_spectrum, input_spectrum : str, SpectralMeasure or array (n,), optional
        Structured data, as of `iclimit.asymptotics.pretraining.structure.Structure`, for
        icl_error, idg_error, task_gap, misalignment_error, scalar_error and null_error, which then
        take ``test_alpha`` and ``test_rho`` too; and for the losses of deep linear attention
        (tied_loss, tied_flow_loss, untied_loss) without a test spectrum.
        A million points take minutes, with an input spectrum hours.
    normalize : bool
        Divide each spectrum by its mean.
    simulation : mapping, optional
        Simulate points of the diagram (icl_error, idg_error and task_gap only): ``dim``, the
        dimension or several of them, three or more being extrapolated; optionally ``points``, the
        number along each axis or both numbers (default 6), ``repeats`` (default 10),
        ``target_standard_error``, ``target_relative_error`` and ``time_limit`` as in
        `iclimit.diagrams.simulation.Simulation`.  Points are left out instead of extrapolated if
        integers at one of the sizes miss them by more than a tenth, or lie on the other side of
        the interpolation threshold.
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
        Gets the estimated cost of the simulation, a `iclimit.diagrams.planning.Plan`, before it
        starts.
    **parameters : number or sequence
        The quantity's parameters: ascending sequences for x and y, numbers for the rest.

    Returns
    -------
    PhaseDiagram
        With ``.values``, ``.boundaries``, ``.simulated``, ``.rows()``, ``.to_pandas()``,
        ``.to_xarray()``, ``.plot(ax=None)`` and ``.plot(errors=True)``.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> diagram = iclimit.phase_diagram(
    ...     "task_gap", x="alpha", y="kappa", alpha=np.geomspace(0.1, 100, 16),
    ...     kappa=np.geomspace(0.1, 10, 12), tau=4, rho=0.1,
    ... )
    >>> diagram.values.shape
    (12, 16)
    >>> for label, lines in diagram.boundaries.items():
    ...     print(label, [line.shape for line in lines])
    $\kappa = 1$: memorisation transition, sharp as $\alpha \to \infty$ [(4, 2)]
    """
    if x == y:
        raise ValueError(f"x and y must be different parameters, got {x!r} for both")
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum, normalize)
    chosen = get_quantity(quantity, parameters, structure)
    for axis, name in (("x", x), ("y", y)):
        if name not in parameters:
            raise ValueError(f"{axis} must be one of {', '.join(parameters)}, got {name!r}")
    given = {name: parse_axis(name, value) for name, value in parameters.items()}
    grids = {name: given.pop(name) for name in (x, y)}
    for name, grid in grids.items():
        if grid.size < 2 or not np.all(np.diff(grid) > 0):
            raise ValueError(f"{name} must be an ascending sequence of at least two numbers")
    for name in given:
        if np.ndim(parameters[name]):
            value = parameters[name]
            raise ValueError(f"{name} must be a number (x is {x}, y is {y}), got {value!r}")
    fixed = {name: float(value[0]) for name, value in given.items()}
    values = chosen.evaluate(fixed | {x: grids[x][None, :], y: grids[y][:, None]})
    values = np.broadcast_to(values, (grids[y].size, grids[x].size))
    diagram = PhaseDiagram(chosen, x, y, grids[x], grids[y], fixed, values)
    if simulation is None:
        return diagram
    where = {"rng": rng, "jobs": jobs, "backend": backend, "scheduler": scheduler, "store": store}
    where |= {"progress": progress, "announce": announce}
    settings, shape = parse_simulation(chosen, simulation, 6, **where)
    lines = [line for lines in diagram.boundaries.values() for line in lines]
    points = points_to_simulate(chosen, grids, fixed, lines, shape, refine)
    [points] = points_at_sizes([points], settings.sizes, (x, y))
    simulated = simulate_values(chosen, points, settings)
    return replace(diagram, simulated=tuple(value for value in simulated if value is not None))
