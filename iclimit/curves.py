"""Families of curves of a quantity, with simulated points over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from tqdm import tqdm

from iclimit.asymptotics import FiniteSizeErrors, finite_size_errors
from iclimit.quantities import Quantity, get_quantity
from iclimit.simulate import SimulatedErrors, simulate_errors
from iclimit.validation.claim import Cell
from iclimit.validation.drawing import COLOURS, LABELS, draw_points, log_scale, symbol
from iclimit.validation.runs import check_run, run_cells

PARAMETERS = ("tau", "alpha", "kappa", "theta", "rho", "ridge")
"""Column order of the parameters."""

PREDICTION_DRAWS = 10
"""Task sets over which the finite-size prediction at a simulated point is averaged."""


@dataclass(frozen=True)
class SimulatedPoint:
    """One simulated point of a curve, at the parameters that came out of the integers.

    The prediction is that of `iclimit.finite_size_errors` for the same integers.
    """

    curve: int
    parameters: dict[str, Any]
    value: float
    standard_error: float
    prediction: float


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
    simulated : list of SimulatedPoint
        Simulation, empty if none was asked for.
    label : str
        Axis label.
    """

    quantity: str
    x: str
    grid: np.ndarray
    family: list[dict[str, float]]
    values: np.ndarray
    simulated: list[SimulatedPoint]
    label: str

    def rows(self) -> list[dict[str, Any]]:
        """Theory, finite-size prediction and simulation as rows of a table, in long form."""

        def row(source: str, at: Mapping[str, Any], value: float, **run: Any) -> dict[str, Any]:
            head = {"source": source, "quantity": self.quantity}
            tail = {name: run.get(name, "") for name in ("standard_error", "d", "repeats")}
            return head | {name: at[name] for name in columns} | {"value": value} | tail

        columns = [name for name in PARAMETERS if name == self.x or name in self.family[0]]
        rows = [
            row("theory", parameters | {self.x: x}, value)
            for parameters, line in zip(self.family, self.values, strict=True)
            for x, value in zip(self.grid.tolist(), line.tolist(), strict=True)
        ]
        for point in self.simulated:
            at, d = point.parameters, point.parameters["d"]
            rows.append(row("finite_size", at, point.prediction, d=d))
            run = {"standard_error": point.standard_error, "d": d, "repeats": at["repeats"]}
            rows.append(row("simulation", at, point.value, **run))
        return rows

    def plot(self, ax: Any = None) -> Any:
        """Draw theory as lines and simulation as points with error bars; return the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        varied = [n for n in self.family[0] if len({p[n] for p in self.family}) > 1]
        for index, (parameters, line) in enumerate(zip(self.family, self.values, strict=True)):
            colour = COLOURS[index % len(COLOURS)]
            names = ", ".join(f"{symbol(n)} = {parameters[n]:g}" for n in varied)
            finite = np.where(np.isfinite(line), line, np.nan)
            ax.plot(self.grid, finite, color=colour, label=f"${names}$" if varied else None)
            points = [p for p in self.simulated if p.curve == index]
            if points:
                draw_points(
                    ax,
                    [p.parameters[self.x] for p in points],
                    [p.value for p in points],
                    [p.standard_error if math.isfinite(p.standard_error) else 0 for p in points],
                    colour,
                )
                ax.plot(
                    [p.parameters[self.x] for p in points],
                    [p.prediction if math.isfinite(p.prediction) else np.nan for p in points],
                    linestyle="none",
                    marker="_",
                    markersize=10,
                    color=colour,
                )
        if is_geometric(self.grid):
            log_scale(ax, "x")
        finite = self.values[np.isfinite(self.values)]
        if finite.size and np.all(finite > 0) and finite.max() > 20 * finite.min():
            log_scale(ax, "y")
        ax.set_xlabel(LABELS[self.x])
        ax.set_ylabel(self.label)
        if varied:
            ax.legend()
        if self.simulated:
            d = self.simulated[0].parameters["d"]
            ax.set_title(
                f"lines: asymptotic; points: simulation, d = {d}; dashes: its prediction",
                fontsize=8,
            )
        return ax


def curve(
    quantity: str,
    *,
    simulation: Mapping[str, int] | None = None,
    rng: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    progress: bool = False,
    **parameters: Any,
) -> Curves:
    """Compute a quantity along one parameter, for every combination of the others.

    Parameters
    ----------
    quantity : str
        Name: icl_error, idg_error, task_gap, optimal_ridge, optimal_icl_error, bayes_error,
        dmmse_icl_error or dmmse_idg_error.
    simulation : mapping, optional
        Simulate points of the curves (the first three quantities only): ``d``, the dimension,
        and optionally ``repeats`` (default 10) and ``points`` per curve (default 12).
    rng : int
        Root seed of the simulation.
    jobs, backend
        As in `iclimit.validation.validate`.
    progress : bool
        Show a progress bar for the simulation.
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
    chosen = get_quantity(quantity, parameters)
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
    points: list[SimulatedPoint] = []
    if simulation is not None:
        points = _simulate(
            quantity, chosen, x, values[x], family, simulation, rng, jobs, backend, progress
        )
    return Curves(quantity, x, values[x], family, theory, points, chosen.label)


def _axis(name: str, value: Any) -> np.ndarray:
    """Values of a parameter as a one-dimensional array."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {value!r}")
    return np.atleast_1d(array.astype(float))


def _simulate(
    name: str,
    quantity: Quantity,
    x: str,
    grid: np.ndarray,
    family: list[dict[str, float]],
    simulation: Mapping[str, int],
    rng: int,
    jobs: int,
    backend: str,
    progress: bool,
) -> list[SimulatedPoint]:
    if quantity.simulated is None:
        raise ValueError(
            f"quantity must be icl_error, idg_error or task_gap to simulate, got {name!r}"
        )
    unknown = set(simulation) - {"d", "repeats", "points"}
    if unknown or "d" not in simulation:
        raise ValueError(f"simulation takes d, repeats and points, got {', '.join(simulation)}")
    options = {"repeats": 10, "points": 12} | dict(simulation)
    for key, value in options.items():
        least = 2 if key == "points" else 1
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise ValueError(
                f"{key} of the simulation must be an integer >= {least}, got {value!r}"
            )
    d, repeats, count = (int(options[key]) for key in ("d", "repeats", "points"))
    check_run(rng, jobs, backend)
    chosen = np.unique(np.linspace(0, grid.size - 1, min(count, grid.size)).round().astype(int))
    wanted = []
    for index, parameters in enumerate(family):
        for i in chosen:
            integers = _integers(parameters | {x: float(grid[i])}, d)
            run = Cell.of(simulate_errors, **integers, repeats=repeats)
            wanted.append(
                (index, run, Cell.of(finite_size_errors, **integers, draws=PREDICTION_DRAWS))
            )
    # Points that round to the same integers share their cell.
    cells = list(dict.fromkeys(cell for _, *pair in wanted for cell in pair))
    outcomes = run_cells(cells, seed=rng, jobs=jobs, backend=backend)
    results = {}
    for cell, outcome, _ in tqdm(outcomes, total=len(cells), disable=not progress):
        if isinstance(outcome, Exception):
            at = ", ".join(f"{key}={value}" for key, value in cell.parameters)
            raise RuntimeError(f"{outcome} (simulating {at})") from outcome
        results[cell] = outcome
    points = [
        _point(index, results[run], results[prediction], quantity.simulated)
        for index, run, prediction in wanted
    ]
    return sorted(points, key=lambda p: (p.curve, p.parameters[x]))


def _integers(parameters: Mapping[str, float], d: int) -> dict[str, Any]:
    """Arguments of a run at the integers nearest to the parameters."""
    for name in ("tau", "alpha"):
        if math.isinf(parameters[name]):
            raise ValueError(f"{name} must be finite to simulate, got inf")
    tasks = parameters["kappa"] * d
    return {
        "d": d,
        "context": max(1, round(parameters["alpha"] * d)),
        "tasks": tasks if math.isinf(tasks) else max(1, round(tasks)),
        "prompts": max(1, round(parameters["tau"] * d**2)),
        "rho": parameters["rho"],
        "ridge": parameters.get("ridge", 0.0),
    }


def _point(
    curve: int, run: SimulatedErrors, predicted: FiniteSizeErrors, weights: tuple[float, float]
) -> SimulatedPoint:
    samples = weights[0] * run.icl + weights[1] * run.idg
    error = np.std(samples, ddof=1) / math.sqrt(len(samples)) if len(samples) > 1 else math.inf
    finite = math.isfinite(predicted.icl)
    prediction = weights[0] * predicted.icl + weights[1] * predicted.idg if finite else math.inf
    parameters = run.parameters | {"repeats": run.repeats}
    return SimulatedPoint(curve, parameters, float(np.mean(samples)), float(error), prediction)


def is_geometric(grid: np.ndarray) -> bool:
    """Whether the grid is spaced evenly in the logarithm rather than in the value."""
    if grid.size < 3 or np.any(grid <= 0) or np.any(np.isinf(grid)):
        return False
    steps = np.diff(np.log(grid))
    return bool(np.ptp(steps) < 1e-6 * abs(steps).max())
