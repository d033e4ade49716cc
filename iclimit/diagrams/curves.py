"""Families of curves of a quantity, with simulated points over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.asymptotics.numbers import refuse_masked
from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.diagrams.axes import at_least, given_axes, is_geometric
from iclimit.diagrams.planning import Plan
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.diagrams.simulated_points import LEAST_SIZES, SimulatedValue
from iclimit.diagrams.simulation import (
    Simulation,
    check_simulated,
    parse_simulation,
    points_at_sizes,
    simulate_values,
)
from iclimit.runs.store import RunStore
from iclimit.validation.drawing import COLOURS, draw_points, log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Curves:
    """A quantity along one parameter, for a family of values of the others.

    Attributes
    ----------
    quantity : Quantity
        What is drawn, with its name, axis label and parameters.
    x : str
        Parameter along the curves.
    grid : ndarray (points,)
        Its values.
    family : list of dict
        The other parameters, one entry per curve.
    values : ndarray (curves, points)
        Theory.
    simulated : list of lists of SimulatedValue
        Simulation along each curve, empty if none was asked for.
    """

    quantity: Quantity
    x: str
    grid: np.ndarray
    family: list[dict[str, float]]
    values: np.ndarray
    simulated: list[list[SimulatedValue]]

    def rows(self) -> list[dict[str, Any]]:
        """Theory, finite-size prediction and simulation as rows of a table, in long form."""
        known = self.quantity.all_parameters
        columns = [name for name in known if name == self.x or name in self.family[0]]
        extra = ("standard_error", "dim", "repeats") if self.simulated else ()

        def row(source: str, at: Mapping[str, Any], value: float, *more: Any) -> dict[str, Any]:
            head = {"source": source, "quantity": self.quantity.name, **self.quantity.spectra}
            place = {name: at[name] for name in columns}
            numbers = itertools.zip_longest(extra, more[: len(extra)], fillvalue="")
            return {**head, **place, self.quantity.column: value, **dict(numbers)}

        rows = [
            row("theory", parameters | {self.x: x}, value)
            for parameters, line in zip(self.family, self.values, strict=True)
            for x, value in zip(self.grid.tolist(), line.tolist(), strict=True)
        ]
        for value in itertools.chain(*self.simulated):
            for run in value.runs:
                at, dim, found = run.parameters, run.parameters["dim"], run.estimate
                rows.append(row("finite_size", at, run.prediction.mean, "", dim))
                numbers = found.mean, found.standard_error, dim, found.repeats
                rows.append(row("simulation", at, *numbers))
            if len(value.runs) >= LEAST_SIZES:
                found = value.estimate
                at = value.parameters
                rows.append(row("extrapolation", at, found.mean, found.standard_error))
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw theory as lines and simulation as points with error bars; return the axes."""
        ax = given_axes(ax)
        known = self.quantity.all_parameters
        varied = [n for n in self.family[0] if len({p[n] for p in self.family}) > 1]
        for index, (parameters, line) in enumerate(zip(self.family, self.values, strict=True)):
            colour = COLOURS[index % len(COLOURS)]
            names = ", ".join(f"{known[n].symbol} = {parameters[n]:g}" for n in varied)
            finite = np.where(np.isfinite(line), line, np.nan)
            ax.plot(self.grid, finite, color=colour, label=f"${names}$" if varied else None)
            if self.simulated:
                self._draw_simulated(ax, self.simulated[index], colour)
        if is_geometric(self.grid):
            log_scale(ax, "x")
        finite = self.values[np.isfinite(self.values)]
        if finite.size and np.all(finite > 0) and finite.max() > 20 * finite.min():
            log_scale(ax, "y")
        ax.set(xlabel=known[self.x].label, ylabel=self.quantity.label)
        if varied:
            ax.legend()
        ax.set_title(self._title, fontsize=8)
        return ax

    @property
    def _title(self) -> str:
        """Spectra of structured data, and sizes of the simulation."""
        structure = self.quantity.structure
        lines = [structure.title] if structure else []
        if value := next(itertools.chain(*self.simulated), None):
            shown = f"d = {value.sizes[-1]}; dashes: its prediction"
            if len(value.sizes) >= LEAST_SIZES:
                shown = f"extrapolated from d = {', '.join(map(str, value.sizes))}"
            lines.append(f"lines: asymptotic; points: simulation, {shown}")
        return "\n".join(lines)

    def _draw_simulated(self, ax: Axes, values: Sequence[SimulatedValue], colour: str) -> None:
        extrapolated = values and len(values[0].runs) >= LEAST_SIZES
        at = [v.parameters[self.x] for v in values]
        errors = [v.estimate.standard_error for v in values]
        bars = [error if math.isfinite(error) else 0 for error in errors]
        draw_points(ax, at, [v.estimate.mean for v in values], bars, colour)
        if not extrapolated:
            known = [v.theory if math.isfinite(v.theory) else np.nan for v in values]
            ax.plot(at, known, linestyle="none", marker="_", markersize=10, color=colour)


def curve(
    quantity: str,
    *,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    simulation: Mapping[str, Any] | None = None,
    rng: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    scheduler: str | None = None,
    store: RunStore | None = None,
    progress: bool = False,
    announce: Callable[[Plan], None] | None = None,
    **parameters: Any,
) -> Curves:
    """Compute a quantity along one parameter, for every combination of the others.

    Parameters
    ----------
    quantity : str
        Name: a key of `iclimit.diagrams.quantities.QUANTITIES`; ``iclimit phase --list`` lists
        them.
    task_spectrum, test_spectrum, input_spectrum : str, SpectralMeasure or array (n,), optional
        Structured data, as of `iclimit.asymptotics.pretraining.structure.Structure`, for
        icl_error, idg_error, task_gap, misalignment_error and scalar_error, which then take
        ``test_alpha`` and ``test_rho`` too.
    simulation : mapping, optional
        Simulate points of the curves (icl_error, idg_error and task_gap only): ``dim``, the
        dimension or several of them, three or more being extrapolated; optionally ``repeats``
        (default 10), ``points`` per curve (default 12), ``target_standard_error``,
        ``target_relative_error`` and ``time_limit`` as in
        `iclimit.diagrams.simulation.Simulation`.
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
        The quantity's parameters.  The longest sequence runs along the curves; every other
        sequence multiplies them.

    Returns
    -------
    Curves
        With ``.rows()`` and ``.plot(ax=None)``.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> curves = iclimit.curve(
    ...     "icl_error", tau=np.linspace(1.5, 5, 8), alpha=[1, 10], kappa=0.5, rho=0.01
    ... )
    >>> curves.x, curves.values.shape
    ('tau', (2, 8))
    """
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum)
    chosen = get_quantity(quantity, parameters, structure)
    values = {name: _axis(name, value) for name, value in parameters.items()}
    x = max(values, key=lambda name: values[name].size)
    others = {name: value.tolist() for name, value in values.items() if name != x}
    family = [
        dict(zip(others, combination, strict=True))
        for combination in itertools.product(*others.values())
    ]
    columns = {name: np.array([p[name] for p in family])[:, None] for name in others}
    theory = np.broadcast_to(
        chosen.evaluate(columns | {x: values[x][None, :]}), (len(family), values[x].size)
    )
    simulated: list[list[SimulatedValue]] = []
    if simulation is not None:
        where: dict[str, Any] = {
            "rng": rng,
            "jobs": jobs,
            "backend": backend,
            "scheduler": scheduler,
        }
        where |= {"store": store, "progress": progress, "announce": announce}
        settings, points = parse_simulation(simulation, 12, **where)
        check_simulated(chosen)
        at = _chosen(values[x], points)
        lines = [[parameters | {x: each} for each in at] for parameters in family]
        lines = points_at_sizes(lines, settings.sizes, (x,))
        simulated = _simulated(chosen, lines, settings)
    return Curves(chosen, x, values[x], family, theory, simulated)


def _axis(name: str, value: Any) -> np.ndarray:
    """Values of a parameter as a one-dimensional array."""
    refuse_masked(name, value)
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {value!r}")
    return np.atleast_1d(array.astype(float))


def _chosen(grid: np.ndarray, points: Any) -> list[float]:
    """Points of the grid to simulate, at even distances in it."""
    if not at_least(2, points):
        raise ValueError(f"points of the simulation must be an integer >= 2, got {points!r}")
    chosen = np.linspace(0, grid.size - 1, min(points, grid.size)).round().astype(int)
    return grid[np.unique(chosen)].tolist()


def _simulated(
    quantity: Quantity, lines: Sequence[Sequence[Mapping[str, float]]], simulation: Simulation
) -> list[list[SimulatedValue]]:
    """Simulated values along each curve, those that the time sufficed for."""
    values = iter(simulate_values(quantity, list(itertools.chain(*lines)), simulation))
    found = [list(itertools.islice(values, len(points))) for points in lines]
    return [[value for value in line if value is not None] for line in found]
