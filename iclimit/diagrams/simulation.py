"""Simulated values of a quantity at points of its parameters, to a wanted precision."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from tqdm import tqdm

from iclimit.asymptotics.pretraining import FiniteSizeErrors, finite_size_errors
from iclimit.diagrams.planning import Plan, plan_cells
from iclimit.diagrams.quantities import Quantity
from iclimit.diagrams.structure import Structure
from iclimit.results import Estimate
from iclimit.runs.cell import Cell
from iclimit.runs.execution import check_run, run_cells
from iclimit.runs.store import RunStore, UnwrittenError
from iclimit.runs.workers import dask_client
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import SimulatedErrors, simulate_errors
from iclimit.simulate.pretraining.cost import estimate_cost
from iclimit.validation.statistics import extrapolate, z_score

_PREDICTION_DRAWS = 1000
"""Least number of task sets for a prediction, times d: its spread shrinks as 1/d."""

ALLOWANCE = 0.8
"""Relative systematic deviation of the finite-size prediction, times d (see the documentation)."""

LEAST_SIZES = 3
"""Sizes from which simulations are extrapolated to infinite size."""

_REPEATS_POWER = 1.5
"""Smaller sizes get more repeats, by this power of their share of the largest: error bars shrink
as 1/d and the time of a repeat grows as d^4."""

_MOST_GROWTH = 8
"""Factor by which repeats grow at most from one round to the next: early error bars are rough."""

_LEAST_REPEATS = 32
"""Repeats before an error bar is believed: one that ends the repeating is too small by chance more
often than too large, and the fewer repeats the more so."""

_ROUNDING = 0.1
"""Relative deviation of parameters from integers over d up to which a point can be extrapolated:
finite-size effects are no power series in 1/d else."""

_BATCH_SECONDS = 20.0
"""Time after which a part of a long cell is put on record."""


@dataclass(frozen=True)
class SimulatedValue:
    """A quantity, simulated at one point.

    Attributes
    ----------
    parameters : dict
        The parameters asked for.
    value, standard_error : float
        Extrapolated to infinite size from three sizes on; the mean at the largest size, where
        there are fewer, or a prediction at one of them, or the limit, is infinite.
    theory : float
        What it is compared with: the limit, or the finite-size prediction at the integers of the
        largest size.
    z : float or None
        Deviation in standard errors, as a normal deviate (Student's t with the degrees of freedom
        of the fewest repeats); at a single size what goes beyond the known deviation of the
        prediction, .8/d of it.  None if the theory or the standard error is infinite.
    runs : tuple of SizedRun
        The sizes it comes from.
    """

    parameters: dict[str, float]
    value: float
    standard_error: float
    theory: float
    z: float | None
    runs: tuple[SizedRun, ...] = field(repr=False)


@dataclass(frozen=True)
class SizedRun:
    """A quantity, simulated at one size.

    Attributes
    ----------
    parameters : dict
        Integers, and the parameters that come out of them.
    value, standard_error, repeats : float, float, int
        Mean over the repeats.
    prediction, prediction_error : float
        For the same integers, and its standard error from drawing task sets.
    """

    parameters: dict[str, Any]
    value: float
    standard_error: float
    repeats: int
    prediction: float
    prediction_error: float


@dataclass(frozen=True)
class Simulation:
    """How to simulate: sizes, precision, and where.

    Attributes
    ----------
    sizes : tuple of int
        Dimensions d; three or more are extrapolated.
    repeats : int
        Repeats at the largest size, at first; smaller ones get more.
    target_se, target_rel_se : float, optional
        Standard error to reach, absolute or relative to the value, by more repeats.
    most_repeats : int
        Repeats at which a point that misses the target is left as it is.
    time_limit : float, optional
        Seconds after which no more is computed.
    rng : int
        Root seed.
    jobs, backend, scheduler
        As in `iclimit.validation.validate`.
    store : RunStore, optional
        Where runs are kept and looked for.
    progress : bool
        Show a progress bar.
    announce : callable, optional
        Gets the estimated cost as a `iclimit.diagrams.planning.Plan` before anything is computed, and again
        before the repeats that a precision takes.

    Raises
    ------
    ValueError
        If a value is not allowed.
    """

    sizes: Sequence[int]
    repeats: int = 10
    target_se: float | None = None
    target_rel_se: float | None = None
    most_repeats: int = 10_000
    time_limit: float | None = None
    rng: int = 0
    jobs: int = -1
    backend: str = "numpy"
    scheduler: str | None = None
    store: RunStore | None = None
    progress: bool = False
    announce: Callable[[Plan], None] | None = None

    def __post_init__(self) -> None:
        sizes = tuple(self.sizes)
        for name, value in (*(("dim", d) for d in sizes), ("repeats", self.repeats)):
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
        if not sizes or len(set(sizes)) < len(sizes):
            raise ValueError(f"dim must be one size or several different ones, got {list(sizes)}")
        for name in ("target_se", "target_rel_se", "time_limit"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value!r}")
        check_run(self.rng, self.jobs)
        get_backend(self.backend)
        object.__setattr__(self, "sizes", tuple(sorted(sizes)))

    @property
    def extrapolates(self) -> bool:
        """Whether values are extrapolated to infinite size."""
        return len(self.sizes) >= LEAST_SIZES

    @property
    def first_repeats(self) -> tuple[int, ...]:
        """Repeats at each size to begin with."""
        aims = self.target_se is not None or self.target_rel_se is not None
        most = max(self.repeats, _LEAST_REPEATS) if aims else self.repeats
        largest = self.sizes[-1]
        return tuple(math.ceil(most * (largest / d) ** _REPEATS_POWER) for d in self.sizes)


def given_simulation(
    options: Mapping[str, Any], points: Any, **execution: Any
) -> tuple[Simulation, Any]:
    """Simulation and number of points from what a user gives as one mapping.

    Parameters
    ----------
    options : mapping
        ``dim`` (one size or several), and optionally ``points``, ``repeats``, ``target_se``,
        ``target_rel_se`` and ``time_limit``.
    points
        Default of the number of points.
    **execution
        The other fields of Simulation.
    """
    allowed = ("dim", "points", "repeats", "target_se", "target_rel_se", "time_limit")
    if "dim" not in options or not set(options) <= set(allowed):
        raise ValueError(
            f"simulation takes dim and optionally {', '.join(allowed[1:])}, "
            f"got {', '.join(options) or 'nothing'}"
        )
    rest = {name: value for name, value in options.items() if name not in ("dim", "points")}
    sizes = options["dim"] if isinstance(options["dim"], Sequence) else (options["dim"],)
    return Simulation(tuple(sizes), **rest, **execution), options.get("points", points)


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
        for, which a RuntimeWarning tells.

    Raises
    ------
    ValueError
        If the quantity cannot be simulated, or a point is at infinity.
    RuntimeError
        If the runs of all points fail.
    """
    check_simulated(quantity)
    deadline = None if simulation.time_limit is None else time.monotonic() + simulation.time_limit
    repeats = dict.fromkeys(range(len(points)), simulation.first_repeats)
    values: dict[int, SimulatedValue] = {}
    results: dict[Cell, Any] = {}
    # In an order that leaves no corner out if the time runs out.
    open_points = np.random.default_rng(0).permutation(len(points)).tolist()
    failures: list[Exception] = []
    with tqdm(total=0, disable=not simulation.progress, unit="cell", desc="simulating") as bar:
        while open_points:
            pairs = {
                i: [
                    cells_at(points[i], d, count, quantity.structure)
                    for d, count in zip(simulation.sizes, repeats[i], strict=True)
                ]
                for i in open_points
            }
            cells = list(dict.fromkeys(c for each in pairs.values() for p in each for c in p))
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            _announce(cells, simulation)
            bar.total += len(cells)
            for cell, result in _outcomes(cells, simulation, left):
                bar.update()
                if isinstance(result, Exception):
                    failures.append(RuntimeError(f"{result} ({cell.name})"))
                else:
                    results[cell] = result
            for i in open_points:
                if all(cell in results for pair in pairs[i] for cell in pair):
                    runs = [(results[run], results[known]) for run, known in pairs[i]]
                    values[i] = _value(quantity, points[i], simulation, runs)
            growth = {i: _growth(values[i], simulation) for i in open_points if i in values}
            repeats |= {
                i: tuple(
                    min(math.ceil(factor * count), max(count, simulation.most_repeats))
                    for count in repeats[i]
                )
                for i, factor in growth.items()
            }
            open_points = [
                i for i in growth if repeats[i] != tuple(run.repeats for run in values[i].runs)
            ]
    if failures and not values:
        raise failures[0]
    _tell(values, len(points), failures, simulation)
    return [values.get(i) for i in range(len(points))]


def _announce(cells: Sequence[Cell], simulation: Simulation) -> None:
    if simulation.announce is not None:
        cluster = simulation.scheduler is not None or dask_client() is not None
        simulation.announce(
            plan_cells(
                cells,
                rng=simulation.rng,
                jobs=None if cluster else simulation.jobs,
                backend=simulation.backend,
                store=simulation.store,
            )
        )


def _tell(
    values: Mapping[int, SimulatedValue],
    count: int,
    failures: Sequence[Exception],
    simulation: Simulation,
) -> None:
    """Warn of what is missing."""
    told = []
    if failures:
        told.append(f"{len(failures)} runs failed, the first: {failures[0]}")
    if len(values) < count:
        told.append(f"{len(values)} of {count} points are simulated")
    missed = sum(_growth(value, simulation) > 1 for value in values.values())
    if missed:
        told.append(f"{missed} of {len(values)} points have larger standard errors than wanted")
    if told:
        warnings.warn("; ".join(told), RuntimeWarning, stacklevel=3)


def can_be_extrapolated(parameters: Mapping[str, float], sizes: Sequence[int]) -> bool:
    """Whether integers at these sizes are near the parameters, on their side of the threshold.

    Without a ridge the threshold is n = d (d + 1), tau = 1 in the limit.
    """
    prompts = {d: max(1, round(parameters["tau"] * d**2)) for d in sizes}
    sides = {np.sign(n - d * (d + 1)) for d, n in prompts.items()}
    crossing = parameters.get("ridge", 0.0) == 0 and sides != {np.sign(parameters["tau"] - 1)}
    return not crossing and all(
        abs(max(1, round(parameters[name] * d**power)) / (parameters[name] * d**power) - 1)
        <= _ROUNDING
        for d in sizes
        for name, power in (("tau", 2), ("alpha", 1), ("kappa", 1), ("test_alpha", 1))
        if math.isfinite(parameters.get(name, math.inf))
    )


def check_simulated(quantity: Quantity) -> None:
    """Raise a ValueError if the quantity cannot be simulated."""
    if quantity.simulated is None:
        raise ValueError("quantity must be icl_error, idg_error or task_gap to be simulated")


def _outcomes(
    cells: Sequence[Cell], simulation: Simulation, time_limit: float | None
) -> Iterator[tuple[Cell, Any]]:
    try:
        for outcome in run_cells(
            cells,
            rng=simulation.rng,
            jobs=simulation.jobs,
            backend=simulation.backend,
            store=simulation.store,
            scheduler=simulation.scheduler,
            time_limit=time_limit,
            batch_repeats=_batch_repeats,
        ):
            yield outcome.cell, outcome.result
    except UnwrittenError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _batch_repeats(cell: Cell) -> int:
    """Repeats that are put on record together."""
    arguments = {name: value for name, value in cell.parameters if name != "repeats"}
    return max(1, int(_BATCH_SECONDS / estimate_cost(**arguments).seconds))


def cells_at(
    parameters: Mapping[str, float], d: int, repeats: int, structure: Structure | None = None
) -> tuple[Cell, Cell]:
    """Run and prediction at the integers nearest to the parameters."""
    for name in ("tau", "alpha", "test_alpha"):
        if math.isinf(parameters.get(name, 0.0)):
            raise ValueError(f"{name} must be finite to simulate, got inf")
    tasks = parameters["kappa"] * d
    integers = {
        "dim": d,
        "context": max(1, round(parameters["alpha"] * d)),
        "tasks": tasks if math.isinf(tasks) else max(1, round(tasks)),
        "prompts": max(1, round(parameters["tau"] * d**2)),
        "rho": parameters["rho"],
        "ridge": parameters.get("ridge", 0.0),
    }
    if "test_alpha" in parameters:
        integers["test_context"] = max(1, round(parameters["test_alpha"] * d))
    if "test_rho" in parameters:
        integers["test_rho"] = parameters["test_rho"]
    covariances = {} if structure is None else structure.covariances(d)
    names = {"task": "task_covariance", "test": "test_covariance", "inputs": "input_covariance"}
    arguments = integers | {names[name]: values for name, values in covariances.items()}
    draws = (
        1 if math.isinf(tasks) else 2 ** math.ceil(math.log2(max(repeats, _PREDICTION_DRAWS / d)))
    )
    return (
        Cell.of(simulate_errors, **arguments, repeats=repeats),
        Cell.of(finite_size_errors, **arguments, draws=draws),
    )


def _value(
    quantity: Quantity,
    parameters: Mapping[str, float],
    simulation: Simulation,
    results: Sequence[tuple[SimulatedErrors, FiniteSizeErrors]],
) -> SimulatedValue:
    assert quantity.simulated is not None
    runs = tuple(_sized(run, predicted, quantity.simulated) for run, predicted in results)
    last = runs[-1]
    deviations = np.array([run.value - run.prediction for run in runs])
    errors = np.array([math.hypot(run.standard_error, run.prediction_error) for run in runs])
    limit = float(quantity.evaluate(parameters)) if simulation.extrapolates else math.inf
    usable = np.isfinite(deviations) & np.isfinite(errors) & (errors > 0)
    if math.isfinite(limit) and np.all(usable):
        fit = extrapolate(
            simulation.sizes, deviations[:, None], (errors**2)[:, None, None], orders=(1, 2)
        )
        value, error, theory = limit + float(fit.value[0]), float(fit.standard_error[0]), limit
        combined, allowance = error, 0.0
    else:
        value, error, theory = last.value, last.standard_error, last.prediction
        allowance = ALLOWANCE / last.parameters["dim"] * abs(theory)
        combined = float(errors[-1])
    degrees = float(max(min(run.repeats for run in runs) - 1, 1))
    comparable = math.isfinite(theory) and math.isfinite(combined)
    z = z_score(value, theory, combined, allowance, degrees) if comparable else None
    return SimulatedValue(dict(parameters), value, error, theory, z, runs)


def _sized(
    run: SimulatedErrors, predicted: FiniteSizeErrors, weights: tuple[float, float]
) -> SizedRun:
    found = Estimate.of(weights[0] * run.icl.samples + weights[1] * run.idg.samples)
    icl, idg = predicted.icl, predicted.idg
    finite = math.isfinite(icl.mean)
    prediction = weights[0] * icl.mean + weights[1] * idg.mean if finite else math.inf
    parameters = dict(run.parameters)
    if "test_context" in parameters:
        parameters["test_alpha"] = parameters["test_context"] / parameters["dim"]
    return SizedRun(
        parameters,
        found.mean,
        found.standard_error,
        found.repeats,
        prediction,
        math.hypot(weights[0] * icl.standard_error, weights[1] * idg.standard_error),
    )


def _growth(value: SimulatedValue, simulation: Simulation) -> float:
    """Factor of repeats that the wanted precision takes, from the error bar so far."""
    wanted = [simulation.target_se or math.inf]
    if simulation.target_rel_se is not None:
        wanted.append(simulation.target_rel_se * abs(value.value))
    if value.standard_error <= min(wanted):
        return 1.0
    needed = (value.standard_error / min(wanted)) ** 2 if min(wanted) > 0 else math.inf
    return min(1.1 * needed, _MOST_GROWTH)
