"""A point of a diagram, simulated: the cells at one or several sizes, and the value from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, predict
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.diagrams.quantities import SEQUENCES, Quantity
from iclimit.experiment import Experiment, Point, Ridge
from iclimit.notation import RATIOS, ratios_of, sizes_of
from iclimit.prediction import Prediction
from iclimit.results import Estimate, Result
from iclimit.runs.cell import Cell
from iclimit.samples import Samples
from iclimit.simulate.pretraining import sample, simulate_errors
from iclimit.statistics import extrapolate, z_score

# Sizes from which simulations are extrapolated to infinite size.
LEAST_SIZES = 3

# Least number of task sets for a prediction, times d: its spread shrinks as 1/d.
_PREDICTION_DRAWS = 1000

# Arguments of a cell that its cost depends on.
_SOLVED = ("dim", "context", "tasks", "prompts", "rho", "ridge")

# Up to this number of tasks a prediction task by task costs no more than the simulation.
_FEW_TASKS = 40

# Largest relative deviation of a parameter from integers over powers of d at which a point is
# extrapolated.  Beyond it the finite-size effects are no power series in 1/d.
_ROUNDING = 0.1


def integers_at(parameters: Mapping[str, float], dim: int) -> dict[str, Any]:
    """Integers next to the parameters; infinitely many where a parameter is infinite."""
    ratios = {name: value for name, value in parameters.items() if name in RATIOS}
    return {"dim": dim, **sizes_of(dim, ratios)}


def moved_to_integers(parameters: Mapping[str, float], dim: int) -> dict[str, float]:
    """Parameters that the integers next to them stand for."""
    moved = dict(parameters) | ratios_of(dim, integers_at(parameters, dim))
    if "sequence_ratio" not in parameters:
        return moved
    for name in ("sequence_ratio", "alpha_min"):
        if parameters.get(name):
            moved[name] = max(1, round(parameters[name] * dim)) / dim
    return moved


def is_near(moved: float, parameter: float) -> bool:
    """Whether a parameter from integers is near the one that was asked for."""
    return moved == parameter or abs(moved / parameter - 1) <= _ROUNDING


def can_be_extrapolated(parameters: Mapping[str, float], sizes: Sequence[int]) -> bool:
    """Whether integers at these sizes are near the parameters, on their side of the threshold.

    Without a ridge the threshold is n = d (d + 1), tau = 1 in the limit.
    """
    near = True
    sides = set()
    if "tau" in parameters:
        sides = {np.sign(parameters["tau"] - 1)}
    for dim in sizes:
        if "tau" in parameters:
            sides.add(np.sign(integers_at(parameters, dim)["prompts"] - dim * (dim + 1)))
        moved = moved_to_integers(parameters, dim)
        near &= all(is_near(moved[name], value) for name, value in parameters.items())
    return near and (parameters.get("ridge", 0.0) > 0 or len(sides) == 1)


def cells_of(
    quantity: Quantity, parameters: Mapping[str, float], dim: int, repeats: int
) -> tuple[Cell, ...]:
    """Run at the integers nearest to the parameters of a quantity, and its prediction if any."""
    if quantity.name in SEQUENCES:
        sequences = _sequences(quantity, parameters, dim)
        return Cell.of(sample, run=sequences, repeats=repeats), Cell.of(predict, run=sequences)
    link = quantity.run_link
    if not quantity.predicted:
        own = _experiment(parameters, _arguments(parameters, dim, quantity.structure, link))
        return (Cell.of(sample, run=own, repeats=repeats, accuracies=True),)
    return cells_at(parameters, dim, repeats, quantity.structure, link)


def line_cell(quantity: Quantity, parameters: Mapping[str, float], dim: int, draws: int) -> Cell:
    """Prediction of a quantity on a line of many points, quick where a precise one is not."""
    if quantity.name in SEQUENCES:
        return Cell.of(predict, run=_sequences(quantity, parameters, dim), approach="moments")
    return prediction_cell(parameters, dim, draws, quantity.structure, quantity.run_link)


def _sequences(quantity: Quantity, parameters: Mapping[str, float], dim: int) -> Experiment:
    """Run on all positions of sequences at the integers nearest to the parameters."""
    for name in ("sequence_ratio", "alpha", "test_alpha"):
        if math.isinf(parameters.get(name, 0.0)):
            raise ValueError(f"{name} must be finite to simulate, got inf")
    if not parameters.get("ridge"):
        raise ValueError(f"ridge must be > 0 for {quantity.name} to be simulated, got 0")
    stated: dict[str, Any] = dict(parameters)
    return Point(**stated, normalization=SEQUENCES[quantity.name][1]).at(dim)


def cells_at(
    parameters: Mapping[str, float],
    dim: int,
    repeats: int,
    structure: Structure | None = None,
    link: Any = None,
) -> tuple[Cell, Cell]:
    """Run and prediction at the integers nearest to the parameters."""
    arguments = _arguments(parameters, dim, structure, link)
    # Powers of two, so that more repeats seldom need another prediction.
    least = max(repeats, _PREDICTION_DRAWS / dim)
    draws = 2 ** math.ceil(math.log2(least))
    if _needs_experiment(parameters, link):
        run = Cell.of(sample, run=_experiment(parameters, arguments), repeats=repeats)
    else:
        run = Cell.of(simulate_errors, **arguments, repeats=repeats)
    return run, prediction_cell(parameters, dim, draws, structure, link)


def solved_arguments(cell: Cell) -> dict[str, Any]:
    """Arguments of `simulate_errors` that cost about as much as a cell of runs.

    A flow takes passes over the prompts, as the ridge regression does.
    """
    arguments = dict(cell.keywords)
    run = arguments.pop("run", None)
    if run is None:
        return arguments
    solved = run.with_(training=Ridge(run.ridge)).keywords()
    # Each position of a sequence is a row, as a prompt is.
    solved["prompts"] *= len(run.loss.positions(run.problem.context))
    numbers = {name: solved.get(name, 0.0) for name in _SOLVED}
    return numbers | {"repeats": arguments["repeats"]}


def prediction_cell(
    parameters: Mapping[str, float],
    dim: int,
    draws: int,
    structure: Structure | None = None,
    link: Any = None,
) -> Cell:
    """Prediction at the integers nearest to the parameters."""
    arguments = _arguments(parameters, dim, structure, link)
    draws = 1 if math.isinf(parameters["kappa"]) else draws
    approach = "tasks" if arguments["tasks"] <= _FEW_TASKS else "moments"
    if _needs_experiment(parameters, link):
        run = _experiment(parameters, arguments)
        return Cell.of(predict, run=run, draws=draws, approach=approach)
    return Cell.of(finite_size_errors, **arguments, draws=draws, approach=approach)


def _needs_experiment(parameters: Mapping[str, float], link: Any) -> bool:
    """Whether runs have parts that `simulate_errors` and `finite_size_errors` do not take."""
    return "time" in parameters or link is not None


def _experiment(parameters: Mapping[str, float], arguments: Mapping[str, Any]) -> Experiment:
    """The run with these arguments, trained for a time if there is one."""
    if "time" not in parameters:
        return Experiment.of(**arguments)
    start_variance = parameters.get("start_variance", 0.0)
    return Experiment.of(**arguments, time=parameters["time"], start_variance=start_variance)


def _arguments(
    parameters: Mapping[str, float], dim: int, structure: Structure | None, link: Any
) -> dict[str, Any]:
    """Arguments of runs and predictions."""
    for name in ("tau", "alpha", "test_alpha"):
        if math.isinf(parameters.get(name, 0.0)):
            raise ValueError(f"{name} must be finite to simulate, got inf")
    arguments = integers_at(parameters, dim)
    # Only accuracies have no noise by default.
    arguments |= {name: parameters.get(name, 0.0) for name in ("rho", "ridge")}
    if link is not None:
        arguments |= {"link": link, "flips": parameters.get("flips", 0.0)}
    if "test_rho" in parameters:
        arguments["test_rho"] = parameters["test_rho"]
    if structure is not None:
        arguments |= structure.stated_covariances(dim)
    return arguments


@dataclass(frozen=True, repr=False)
class SizedPrediction(Result):
    """A quantity, predicted at one size.

    Attributes
    ----------
    parameters : dict
        The dimension and perhaps other integers, and the parameters that these stand for.
    prediction : Estimate
        Its standard error comes from drawing task sets.
    """

    parameters: dict[str, Any]
    prediction: Estimate


@dataclass(frozen=True, repr=False)
class SizedRun(SizedPrediction):
    """A quantity, predicted and simulated at one size.

    Attributes
    ----------
    estimate : Estimate
        Mean over the repeats.
    """

    estimate: Estimate


@dataclass(frozen=True, repr=False)
class SimulatedValue(Result):
    """A quantity, simulated at one point.

    Attributes
    ----------
    parameters : dict
        The parameters: with three sizes or more those asked for, with fewer those that the
        integers at the largest size stand for.
    estimate : Estimate
        With three sizes or more the extrapolation to infinite size.  With fewer, and where the
        limit or a prediction is infinite, the mean at the largest size.
    theory : float
        What it is compared with: the limit, or the finite-size prediction at the integers of the
        largest size.  Of an accuracy it is the limit at these integers.
    z : float or None
        Deviation in standard errors, as a normal deviate (Student's t with the degrees of freedom
        of the fewest repeats).  At a single size half of the uncertainty of the prediction counts
        as a standard error, too.  None if the theory or the standard error is infinite, and of
        an accuracy at a single size, whose deviation of order 1/d is not known.
    runs : tuple of SizedRun
        The sizes it comes from.
    """

    parameters: dict[str, float]
    estimate: Estimate
    theory: float
    z: float | None
    runs: tuple[SizedRun, ...] = field(repr=False)

    @property
    def numbers(self) -> dict[str, Any]:
        """What tables and files have beside the mean; a tuple where each size has its own."""
        repeats = tuple(run.estimate.repeats for run in self.runs)
        numbers = {"standard_error": self.estimate.standard_error, "compared_with": self.theory}
        return {**numbers, "z": self.z, "dim": self.sizes, "repeats": repeats}

    @property
    def sizes(self) -> tuple[int, ...]:
        """Dimensions that were simulated."""
        return tuple(run.parameters["dim"] for run in self.runs)


def value_at(
    quantity: Quantity, parameters: Mapping[str, float], results: Sequence[Sequence[Any]]
) -> SimulatedValue:
    """Value at a point from the results of `cells_of` there, in the order of their sizes."""
    runs = tuple(_sized(quantity, parameters, *at_size) for at_size in results)
    sizes = [run.parameters["dim"] for run in runs]
    deviations = np.array([run.estimate.mean - run.prediction.mean for run in runs])
    errors = np.array(
        [math.hypot(run.estimate.standard_error, run.prediction.standard_error) for run in runs]
    )
    limit = float(quantity.evaluate(parameters)) if len(runs) >= LEAST_SIZES else math.inf
    usable = np.isfinite(deviations) & np.isfinite(errors) & (errors > 0)
    if math.isfinite(limit) and np.all(usable):
        fit = extrapolate(sizes, deviations[:, None], (errors**2)[:, None, None], order=1)
        error = float(fit.standard_error[0])
        repeats = min(run.estimate.repeats for run in runs)
        estimate = Estimate(limit + float(fit.value[0]), error, repeats)
        theory = limit
    else:
        estimate = runs[-1].estimate
        theory = runs[-1].prediction.mean
        error = math.inf
        if quantity.predicted:
            error = math.hypot(float(errors[-1]), results[-1][1].uncertainty / 2 * theory)
    z = None
    if math.isfinite(theory) and math.isfinite(error):
        degrees = max(min(run.estimate.repeats for run in runs) - 1, 1)
        z = z_score(estimate.mean, theory, error, degrees=degrees)
    return SimulatedValue(dict(parameters), estimate, theory, z, runs)


def _sized(
    quantity: Quantity,
    point: Mapping[str, float],
    run: Samples,
    predicted: Prediction | None = None,
) -> SizedRun:
    """The quantity in the run, and in the prediction or else in the limit at its integers."""
    # A run does not state what has its default.
    parameters = dict(point) | dict(run.parameters)
    if "test_context" in parameters:
        parameters["test_alpha"] = parameters["test_context"] / parameters["dim"]
    if predicted is None:
        own = {name: parameters[name] for name in point}
        prediction = Estimate(float(quantity.evaluate(own)), 0.0, 1)
    else:
        prediction = _part(predicted, quantity.measured)
    return SizedRun(parameters, prediction, _part(run, quantity.measured))


def _part(errors: Samples | Prediction, name: str) -> Estimate:
    """One of the errors or accuracies, or the gap."""
    return errors.gap if name == "gap" else errors[name]
