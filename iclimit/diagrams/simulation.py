"""Simulation of a quantity at points of its parameters, and predictions along its curves."""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.asymptotics.pretraining import error_spread
from iclimit.axes import is_logarithmic
from iclimit.checks import check_arguments, given
from iclimit.diagrams.planning import Plan, plan_cells
from iclimit.diagrams.quantities import ACCURACIES, SEQUENCES, TIMED, Quantity
from iclimit.diagrams.simulated_points import (
    LEAST_SIZES,
    SimulatedValue,
    SizedPrediction,
    can_be_extrapolated,
    cells_of,
    is_near,
    line_cell,
    moved_to_integers,
    solved_arguments,
    value_at,
)
from iclimit.grids import geometric_grid, linear_grid
from iclimit.links import NAMES, link_text, parse_link
from iclimit.notation import did_you_mean
from iclimit.runs.cell import Cell, distinct_cells
from iclimit.runs.execution import check_run, run_cells
from iclimit.runs.store import RunStore
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.cell_cost import estimate_cost

# Smaller sizes get more repeats, by this power of their share of the largest: error bars shrink as
# 1/d, and the time of a repeat grows as d^4.
_REPEATS_POWER = 1.5

# Largest factor by which repeats grow from one round to the next: early error bars are rough.
_MOST_GROWTH = 8

# Repeats before an error bar may end the repeating.  Stopping when the error bar is small enough
# biases it: it is then too small more often than too large, the more so the fewer the repeats.
_LEAST_REPEATS = 32

# Time after which a part of a long cell is put on record.
_BATCH_SECONDS = 20.0

# Arguments of `iclimit.runs.run_cells` that say where.
_EXECUTION = ("rng", "jobs", "backend", "scheduler", "store")

# Options of a simulation besides its sizes.
_OPTIONS = ("points", "repeats", "target_standard_error", "target_relative_error", "time_limit")

# Seconds for what comes after the time limit: what is on record is found.
_LEAST_TIME = 1e-3

# Points of a line, fewer where they have the same integers.
_POINTS = 25

# Task sets for a prediction, times d: it scatters by about the width of its line.
_DRAWS = 160

# Points beside the interpolation threshold, as shares of it: the prediction diverges there.
_STEPS = 0.5 ** np.arange(1, 7)


@dataclass(frozen=True)
class Simulation:
    """How to simulate: sizes, precision, and where.

    Attributes
    ----------
    sizes : tuple of int
        Dimensions d; three or more are extrapolated.
    repeats : int
        Repeats at the largest size, at first; smaller ones get more.
    target_standard_error, target_relative_error : float, optional
        Standard error to reach by more repeats, absolute or relative to the value: at first by
        those that the predicted scatter of runs takes, then as their error bars say.
    most_repeats : int
        Repeats at which a point that misses the target is left as it is.
    time_limit : float, optional
        Seconds from now on, after which no more is computed.
    rng : int
        Root seed.
    jobs, backend, scheduler
        As in `iclimit.validation.validate`.
    store : RunStore, optional
        Where runs are kept and looked for.
    progress : bool
        Show a progress bar.
    announce : callable, optional
        Gets the estimated cost as a `iclimit.diagrams.planning.Plan` before anything is computed,
        and again before the repeats that a precision takes.

    Raises
    ------
    ValueError
        If a value is not allowed.
    """

    sizes: Sequence[int]
    repeats: int = 10
    target_standard_error: float | None = None
    target_relative_error: float | None = None
    most_repeats: int = 10_000
    time_limit: float | None = None
    rng: int = 0
    jobs: int = -1
    backend: str = "numpy"
    scheduler: str | None = None
    store: RunStore | None = None
    progress: bool = False
    announce: Callable[[Plan], None] | None = None
    _deadline: float = field(default=math.inf, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for dim in self.sizes:
            check_arguments(dim=dim)
        if not self.sizes or len(set(self.sizes)) < len(self.sizes):
            raise ValueError(
                f"dim must be one size or several different ones, got {list(self.sizes)}"
            )
        check_arguments(**given({name: getattr(self, name) for name in _OPTIONS[1:]}))
        check_run(self.rng, self.jobs)
        get_backend(self.backend)
        object.__setattr__(self, "sizes", tuple(sorted(self.sizes)))
        object.__setattr__(self, "_deadline", time.monotonic() + (self.time_limit or math.inf))

    @property
    def remaining(self) -> float:
        """Seconds until the time limit, at least those in which what is on record is found."""
        return max(self._deadline - time.monotonic(), _LEAST_TIME)

    @property
    def execution(self) -> dict[str, Any]:
        """Where cells are run and put on record, as arguments of `iclimit.runs.run_cells`."""
        return {name: getattr(self, name) for name in _EXECUTION}

    @property
    def first_repeats(self) -> tuple[int, ...]:
        """Repeats at each size to begin with."""
        aims = self.target_standard_error or self.target_relative_error
        most = max(self.repeats, _LEAST_REPEATS) if aims else self.repeats
        largest = self.sizes[-1]
        return tuple(math.ceil(most * (largest / dim) ** _REPEATS_POWER) for dim in self.sizes)

    def repeats_at(self, quantity: Quantity, point: Mapping[str, float]) -> tuple[int, ...]:
        """Repeats at each size to begin with at a point: what a precision takes by theory.

        The scatter of runs is predicted for isotropic data and linear labels, and not for an
        extrapolation.
        """
        first = self.first_repeats
        dim = self.sizes[-1]
        wanted = self._wanted(float(quantity.evaluate(point)))
        known = quantity.structure is None and len(self.sizes) < LEAST_SIZES
        known = known and quantity.name not in TIMED and quantity.name not in SEQUENCES
        known = known and quantity.run_link is None
        if not (known and 0 < wanted < math.inf):
            return first
        scatter = float(getattr(error_spread(**point), quantity.measured)) / dim
        factor = (scatter / wanted) ** 2 / first[-1]
        if not 1 < factor < math.inf:
            return first
        return tuple(max(n, min(math.ceil(factor * n), self.most_repeats)) for n in first)

    def _wanted(self, value: float) -> float:
        """Standard error of a value that is wanted; inf if none is."""
        relative = self.target_relative_error
        wanted = math.inf if relative is None else relative * abs(value)
        return min(self.target_standard_error or math.inf, wanted)

    def more_repeats(self, value: SimulatedValue, repeats: tuple[int, ...]) -> tuple[int, ...]:
        """Repeats at each size that the wanted precision takes, from those so far."""
        growth = self.growth(value)
        return tuple(min(math.ceil(growth * n), max(n, self.most_repeats)) for n in repeats)

    def growth(self, value: SimulatedValue) -> float:
        """Factor of repeats that the wanted precision takes, from the error bar so far."""
        wanted = self._wanted(value.estimate.mean)
        error = value.estimate.standard_error
        if error <= wanted:
            return 1.0
        return min(1.1 * (error / wanted) ** 2, _MOST_GROWTH) if wanted > 0 else _MOST_GROWTH


def parse_simulation(
    quantity: Quantity, options: Mapping[str, Any], points: Any, **execution: Any
) -> tuple[Simulation, Any]:
    """Simulation and points from what a user gives as one mapping.

    Parameters
    ----------
    quantity : Quantity
        What is to be simulated.
    options : mapping
        ``dim`` (one size or several), and optionally ``points``, ``repeats``,
        ``target_standard_error``, ``target_relative_error`` and ``time_limit``.
    points
        Default of the number of points.
    **execution
        The other fields of Simulation.

    Raises
    ------
    ValueError
        If the quantity cannot be simulated, or an option is not allowed.
    """
    if not quantity.simulated:
        raise ValueError(
            f"quantity must be icl_error, idg_error, task_gap, {', '.join(TIMED)}, "
            f"{', '.join(SEQUENCES)}, {' or '.join(ACCURACIES)} to be simulated, "
            f"got {quantity.name!r}"
        )
    if quantity.run_link is not None:
        _check_link(quantity)
    if not isinstance(options, Mapping):
        raise TypeError(f'simulation must be a mapping such as {{"dim": 40}}, got {options!r}')
    known = ("dim", *_OPTIONS)
    wrong = [name for name in options if name not in known]
    if wrong or "dim" not in options:
        hint = did_you_mean(wrong[0], known) if wrong else ""
        raise ValueError(
            f"simulation takes dim and optionally {', '.join(_OPTIONS)}, "
            f"got {', '.join(options) or 'nothing'}{hint}"
        )
    rest = dict(options)
    dim = rest.pop("dim")
    points = rest.pop("points", points)
    sizes = tuple(dim) if isinstance(dim, (Sequence, np.ndarray)) else (dim,)
    return Simulation(sizes, **rest, **execution), points


def _check_link(quantity: Quantity) -> None:
    """Check that runs can be put on record by the link of their labels, and have a class."""
    own = parse_link(quantity.run_link)
    if own.name not in NAMES:
        raise ValueError(
            f"link must be one of {', '.join(NAMES)} to be simulated, got {link_text(own)}"
        )
    if own.is_identity and quantity.name in ACCURACIES:
        raise ValueError(
            f"link must not be identity for {quantity.name} to be simulated: accuracies of linear "
            "labels are not measured"
        )


def points_at_sizes(
    lines: Sequence[Sequence[dict[str, float]]], sizes: Sequence[int], axes: Sequence[str]
) -> list[list[dict[str, float]]]:
    """Points of some lines as runs of these sizes can show them.

    With three sizes or more these are the points that can be extrapolated.  With fewer they are
    the points of the integers at the largest size, each once in a line.  A RuntimeWarning says how
    many are left out, and which parameters that are not along an axis are far from the integers.
    """
    warned = []
    if len(sizes) >= LEAST_SIZES:
        kept = [[point for point in line if can_be_extrapolated(point, sizes)] for line in lines]
        reason = f"integers at d = {sizes[0]} to {sizes[-1]} are too far from them"
    else:
        dim = sizes[-1]
        kept = []
        for line in lines:
            moved = [moved_to_integers(point, dim) for point in line]
            kept.append([dict(point) for point in dict.fromkeys(tuple(m.items()) for m in moved)])
            warned += [
                f"{name} = {value:g} is {moved[0][name]:.4g} at d = {dim}"
                for point in line[:1]
                for name, value in point.items()
                if name not in axes and not is_near(moved[0][name], value)
            ]
        reason = f"they have the same integers at d = {dim} as others"
    count = sum(map(len, lines))
    count_kept = sum(map(len, kept))
    if count_kept < count:
        warned.append(f"{count - count_kept} of {count} points are left out: {reason}")
    if warned:
        warnings.warn("; ".join(dict.fromkeys(warned)), RuntimeWarning, stacklevel=3)
    return kept


def simulate_values(
    quantity: Quantity, points: Sequence[Mapping[str, float]], simulation: Simulation
) -> list[SimulatedValue | None]:
    """Simulate a quantity at points of its parameters.

    Parameters
    ----------
    quantity : Quantity
        One that can be simulated.
    points : sequence of mapping
        Its parameters, finite.
    simulation : Simulation
        Sizes, precision, and where.

    Returns
    -------
    list of SimulatedValue or None
        In the order of the points; None for those that failed or that the time did not suffice
        for.  A RuntimeWarning then says how many.

    Raises
    ------
    ValueError
        If a point is at infinity.
    RuntimeError
        If the runs of all points fail.
    """
    repeats = {i: simulation.repeats_at(quantity, point) for i, point in enumerate(points)}
    values: dict[int, SimulatedValue] = {}
    results: dict[Cell, Any] = {}
    failures: list[Exception] = []
    # In an order that leaves no corner out if the time runs out.
    open_points = np.random.default_rng(0).permutation(len(points)).tolist()
    with tqdm(total=0, disable=not simulation.progress, unit="cell", desc="simulating") as bar:
        while open_points and simulation.remaining > _LEAST_TIME:
            pairs = {
                i: [
                    cells_of(quantity, points[i], dim, count)
                    for dim, count in zip(simulation.sizes, repeats[i], strict=True)
                ]
                for i in open_points
            }
            cells = distinct_cells(itertools.chain(*itertools.chain(*pairs.values())))
            if simulation.announce is not None:
                simulation.announce(plan_cells(cells, **simulation.execution))
            bar.total += len(cells)
            failures.extend(_compute(cells, simulation, results, bar))
            for i, at_sizes in pairs.items():
                if all(cell in results for cell in itertools.chain(*at_sizes)):
                    outcomes = [[results[cell] for cell in at_size] for at_size in at_sizes]
                    values[i] = value_at(quantity, points[i], outcomes)
            before = repeats
            repeats = before | {
                i: simulation.more_repeats(values[i], before[i])
                for i in open_points
                if i in values
            }
            open_points = [i for i in open_points if repeats[i] != before[i]]
    if failures and not values:
        raise failures[0]
    _report(values, len(points), failures, simulation)
    return [values.get(i) for i in range(len(points))]


def predict_lines(
    quantity: Quantity,
    x: str,
    grid: np.ndarray,
    family: Sequence[Mapping[str, float]],
    simulation: Simulation,
) -> list[list[SizedPrediction]]:
    """Predictions along each curve of a family for the largest size of a simulation.

    Predictions that fail, that are not finished in time, or that state an error of 100 %, as next
    to thresholds of small sizes, are left out.  There are none of what is not predicted.
    """
    if not quantity.predicted:
        return []
    dim = simulation.sizes[-1]
    draws = 2 ** math.ceil(math.log2(max(1, _DRAWS / dim)))
    lines = []
    for parameters in family:
        ridgeless = x == "tau" and parameters.get("ridge", 0.0) == 0
        points = [{**parameters, x: at} for at in _places(grid, dim, ridgeless).tolist()]
        lines.append({line_cell(quantity, p, dim, draws): p for p in points})
    cells = distinct_cells(itertools.chain(*lines))
    where = {**simulation.execution, "time_limit": simulation.remaining}
    predictions = {}
    progress = {"disable": not simulation.progress, "unit": "cell", "desc": "predicting"}
    for outcome in tqdm(run_cells(cells, **where), total=len(cells), **progress):
        result = outcome.result
        if isinstance(result, Exception):
            continue
        if result.uncertainty < 1 or math.isinf(result.icl.mean):
            predictions[outcome.cell] = getattr(result, quantity.measured)
    return [
        [
            SizedPrediction({"dim": dim, **moved_to_integers(at, dim)}, predictions[cell])
            for cell, at in line.items()
            if cell in predictions
        ]
        for line in lines
    ]


def _places(grid: np.ndarray, dim: int, ridgeless: bool) -> np.ndarray:
    """Points along a curve, and if it passes the interpolation threshold those around that."""
    grid = np.unique(grid[np.isfinite(grid)])
    if grid.size < 2:
        return grid
    make_grid = geometric_grid if is_logarithmic(grid) else linear_grid
    places = make_grid(float(grid[0]), float(grid[-1]), _POINTS)
    if ridgeless:
        threshold = (dim + 1) / dim  # n = d (d + 1)
        beside = threshold * np.concatenate([[1.0], 1 - _STEPS, 1 + _STEPS])
        places = np.concatenate([places, beside[(beside > grid[0]) & (beside < grid[-1])]])
    return np.sort(places)


def _batch_repeats(cell: Cell) -> int:
    """Repeats that are put on record together."""
    arguments = solved_arguments(cell)
    arguments.pop("repeats")
    return max(1, int(_BATCH_SECONDS / estimate_cost(**arguments).seconds))


def _compute(
    cells: Sequence[Cell], simulation: Simulation, results: dict[Cell, Any], bar: tqdm
) -> Iterator[Exception]:
    """Add the results of cells, until the time limit; yield what failed."""
    where = simulation.execution | {"time_limit": simulation.remaining}
    for outcome in run_cells(cells, **where, batch_repeats=_batch_repeats):
        bar.update()
        if isinstance(outcome.result, Exception):
            yield RuntimeError(f"{outcome.result} ({outcome.cell.name})")
        else:
            results[outcome.cell] = outcome.result


def _report(
    values: Mapping[int, SimulatedValue],
    count: int,
    failures: Sequence[Exception],
    simulation: Simulation,
) -> None:
    """Warn of what is missing."""
    missed = sum(simulation.growth(value) > 1 for value in values.values())
    report = {
        f"{len(failures)} runs failed, the first: {next(iter(failures), None)}": failures,
        f"{len(values)} of {count} points are simulated": len(values) < count,
        f"{missed} of {len(values)} points have larger standard errors than wanted": missed,
    }
    if shown := [text for text, holds in report.items() if holds]:
        warnings.warn("; ".join(shown), RuntimeWarning, stacklevel=3)
