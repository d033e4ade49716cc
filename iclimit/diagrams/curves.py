"""Families of curves of a quantity, with simulated points over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from iclimit.diagrams.planning import Plan
from iclimit.diagrams.quantities import Parameter, Quantity, get_quantity, named_quantity
from iclimit.diagrams.simulation import (
    LEAST_SIZES,
    SimulatedValue,
    Simulation,
    can_be_extrapolated,
    given_simulation,
    simulate_values,
)
from iclimit.diagrams.structure import Spectrum, Structure, given_structure
from iclimit.runs.store import RunStore
from iclimit.validation.drawing import COLOURS, draw_points, log_scale


@dataclass(frozen=True)
class Curves:
    """A quantity along one parameter, for a family of values of the others.

    Attributes
    ----------
    quantity : str
        Name of the quantity.
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
    label : str
        Axis label.
    structure : Structure, optional
        Spectra of the data; None: isotropic.
    """

    quantity: str
    x: str
    grid: np.ndarray
    family: list[dict[str, float]]
    values: np.ndarray
    simulated: list[list[SimulatedValue]]
    label: str
    structure: Structure | None = None

    @property
    def _known(self) -> dict[str, Parameter]:
        return named_quantity(self.quantity, self.structure).all_parameters

    def rows(self) -> list[dict[str, Any]]:
        """Theory, finite-size prediction and simulation as rows of a table, in long form."""

        def row(source: str, at: Mapping[str, Any], value: float, **run: Any) -> dict[str, Any]:
            head = {"source": source, "quantity": self.quantity, **spectra}
            extra = ("standard_error", "dim", "repeats") if self.simulated else ()
            tail = {name: run.get(name, "") for name in extra}
            return head | {name: at[name] for name in columns} | {"value": value} | tail

        spectra = self.structure.described if self.structure else {}
        columns = [name for name in self._known if name == self.x or name in self.family[0]]
        rows = [
            row("theory", parameters | {self.x: x}, value)
            for parameters, line in zip(self.family, self.values, strict=True)
            for x, value in zip(self.grid.tolist(), line.tolist(), strict=True)
        ]
        for value in itertools.chain(*self.simulated):
            for run in value.runs:
                at, dim = run.parameters, run.parameters["dim"]
                rows.append(row("finite_size", at, run.prediction, dim=dim))
                error, repeats = run.standard_error, run.repeats
                rows.append(
                    row(
                        "simulation", at, run.value, standard_error=error, dim=dim, repeats=repeats
                    )
                )
            if len(value.runs) >= LEAST_SIZES:
                error = value.standard_error
                rows.append(
                    row("extrapolation", value.parameters, value.value, standard_error=error)
                )
        return rows

    def plot(self, ax: Any = None) -> Any:
        """Draw theory as lines and simulation as points with error bars; return the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        known = self._known
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
        ax.set_xlabel(known[self.x].label)
        ax.set_ylabel(self.label)
        if varied:
            ax.legend()
        values = list(itertools.chain(*self.simulated))
        title = [self.structure.title] if self.structure else []
        if values:
            sizes = [run.parameters["dim"] for run in values[0].runs]
            shown = (
                f"extrapolated from d = {', '.join(map(str, sizes))}"
                if len(sizes) >= LEAST_SIZES
                else f"d = {sizes[-1]}; dashes: its prediction"
            )
            title.append(f"lines: asymptotic; points: simulation, {shown}")
        if title:
            ax.set_title("\n".join(title), fontsize=8)
        return ax

    def _draw_simulated(self, ax: Any, values: Sequence[SimulatedValue], colour: Any) -> None:
        extrapolated = values and len(values[0].runs) >= LEAST_SIZES
        at = [(v.parameters if extrapolated else v.runs[-1].parameters)[self.x] for v in values]
        errors = [v.standard_error if math.isfinite(v.standard_error) else 0 for v in values]
        draw_points(ax, at, [v.value for v in values], errors, colour)
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
        Name: a key of `iclimit.diagrams.quantities.QUANTITIES`, as listed by ``iclimit phase --list``.
    task_spectrum, test_spectrum, input_spectrum : str or SpectralMeasure, optional
        Structured data, as of `iclimit.diagrams.structure.Structure`: for icl_error, idg_error, task_gap,
        misalignment_error and scalar_error, which then take ``test_alpha`` and ``test_rho`` too.
    simulation : mapping, optional
        Simulate points of the curves (icl_error, idg_error and task_gap only): ``d``, the
        dimension or several of them, three or more being extrapolated; optionally ``repeats``
        (default 10), ``points`` per curve (default 12), ``target_se``, ``target_rel_se`` and
        ``time_limit`` as in `iclimit.diagrams.simulation.Simulation`.
    rng : int
        Root seed of the simulation.
    jobs, backend, scheduler, store
        As in `iclimit.validation.validate`.
    progress : bool
        Show a progress bar for the simulation.
    announce : callable, optional
        Gets the estimated cost of the simulation as a `iclimit.diagrams.planning.Plan` before it starts.
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
    structure = given_structure(
        task_spectrum=task_spectrum, test_spectrum=test_spectrum, input_spectrum=input_spectrum
    )
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
        given, points = given_simulation(
            simulation,
            12,
            rng=rng,
            jobs=jobs,
            backend=backend,
            scheduler=scheduler,
            store=store,
            progress=progress,
            announce=announce,
        )
        simulated = _simulated(chosen, x, values[x], family, given, points)
    return Curves(quantity, x, values[x], family, theory, simulated, chosen.label, structure)


def _axis(name: str, value: Any) -> np.ndarray:
    """Values of a parameter as a one-dimensional array."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {value!r}")
    return np.atleast_1d(array.astype(float))


def _simulated(
    quantity: Quantity,
    x: str,
    grid: np.ndarray,
    family: list[dict[str, float]],
    simulation: Simulation,
    points: int,
) -> list[list[SimulatedValue]]:
    """Simulated values along each curve, those that the time sufficed for."""
    if not isinstance(points, Integral) or isinstance(points, bool) or points < 2:
        raise ValueError(f"points of the simulation must be an integer >= 2, got {points!r}")
    chosen = np.unique(np.linspace(0, grid.size - 1, min(points, grid.size)).round().astype(int))
    at = [
        (index, parameters | {x: float(grid[i])})
        for index, parameters in enumerate(family)
        for i in chosen
    ]
    if simulation.extrapolates:
        at = [(index, p) for index, p in at if can_be_extrapolated(p, simulation.sizes)]
    values = simulate_values(quantity, [point for _, point in at], simulation)
    lines: list[list[SimulatedValue]] = [[] for _ in family]
    for (index, _), value in zip(at, values, strict=True):
        if value is not None:
            lines[index].append(value)
    return lines


def is_geometric(grid: np.ndarray) -> bool:
    """Whether the grid is spaced evenly in the logarithm rather than in the value."""
    if grid.size < 3 or np.any(grid <= 0) or np.any(np.isinf(grid)):
        return False
    steps = np.diff(np.log(grid))
    return bool(np.ptp(steps) < 1e-6 * abs(steps).max())
