r"""Errors of a table of runs as functions of effective parameters.

An error is the limit at the parameters, times a correction for the finite size.  The correction
is the finite-size prediction over the limit at :math:`\tau' = n/(d(d+1))`, where its peak is.  Its
logarithm changes slowly: it is linear in the logarithms of the parameters, about a point that
moves to the best fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import error_spread
from iclimit.asymptotics.pretraining.finite_flow import RIDGE_OF_TIME
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.losses import AllPositions
from iclimit.validation.instruments.least_squares import Bounds
from iclimit.validation.instruments.runs.limits import limit_errors, ratios_of_tests
from iclimit.validation.instruments.runs.measured import ATTENTION, MEASURED, RATIOS, MeasuredRun
from iclimit.validation.instruments.runs.positions import loss_from
from iclimit.validation.instruments.runs.predictions import Prediction

# Numbers that are no ratios of integers.
NUMBERS = ("rho", "ridge", "time", "start_variance")

# Those that only runs have which are trained on all positions, and those that only others have.
OF_SEQUENCES = ("sequence_ratio", "first_position")
OF_PROMPTS = ("tau", "time", "start_variance")

# What may be free, as the powers with which it multiplies parameters and errors.
FREE: dict[str, dict[str, float]] = {
    **{name: {name: 1.0} for name in (*RATIOS.values(), *NUMBERS, "factor")},
    "sequence_ratio": {"tau": 1.0},
    "first_position": {"first_position": 1.0},
    "task_norm": {"factor": 1.0, "rho": -1.0, "ridge": -1.0},
    "offset": {},
}

# Parameters of the limit, by whose logarithms corrections are linear.
LIMIT = (*RATIOS.values(), *NUMBERS, "first_position")

# Those that corrections hardly depend on: less than their scatter over task sets.
LEVEL = ("kappa",)

# Smallest and largest fitted value of a parameter, over the one that a table says.
FACTORS = (0.02, 50.0)

# Smallest and largest fitted value of a noise or a ridge that is 0 in the table.
VALUES = (1e-5, 50.0)

# The same for a training time, where the table has none.
TIMES = (1e-3, 1e3)

# Value of such a noise or ridge at which the search begins, and of such a time.
START = 0.1
START_TIME = 1.0

# Smallest and largest fitted offset, in units of the label variance.
OFFSETS = (-2.0, 20.0)

# Step of the logarithms over which corrections are differenced.
STEP = 0.2

# Function that predicts the errors of a run.
Predict = Callable[[MeasuredRun], Prediction]


@dataclass(frozen=True, eq=False)
class RunModel:
    """Errors of runs as functions of free parameters.

    Attributes
    ----------
    runs : sequence of MeasuredRun
        The runs, as the table has them.
    free : tuple of str
        Free parameters (`FREE`).
    structure : Structure or None
        Spectra of tasks, tests and inputs.
    absolute : set of str
        Free parameters that are 0 in the table: their values are fitted, not factors.
    predictions : list of Prediction
        Predictions of the runs at the central parameters.
    places : ndarray (runs, parameters)
        Logarithms of parameters of the limit there, over those of the table.
    centre : ndarray (p,)
        The central parameters.
    corrections : ndarray (runs, 2)
        Logarithms of the prediction over the limit there.
    slopes : ndarray (runs, parameters, 2)
        Their slopes.
    """

    runs: Sequence[MeasuredRun]
    free: tuple[str, ...]
    structure: Structure | None
    absolute: frozenset[str]
    predictions: list[Prediction] = field(default_factory=list)
    places: np.ndarray = field(default_factory=lambda: np.zeros(0))
    centre: np.ndarray = field(default_factory=lambda: np.zeros(0))
    corrections: np.ndarray = field(default_factory=lambda: np.zeros(0))
    slopes: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(
        cls, runs: Sequence[MeasuredRun], free: tuple[str, ...], structure: Structure | None
    ) -> RunModel:
        """Model of the runs of a table, without corrections yet."""
        slopes = np.zeros((len(runs), len(LIMIT), 2))
        return cls(runs, free, structure, absent(runs) & set(free), slopes=slopes)

    @property
    def start(self) -> np.ndarray:
        """Where the search begins: at what the table says."""
        starts = [START_TIME if name == "time" else START for name in self.free]
        given = [name not in self.absolute for name in self.free]
        return np.where(given, 0.0, np.log(starts))

    @property
    def bounds(self) -> Bounds:
        """Range of the parameters."""
        low, high = np.log([self._span(name) for name in self.free]).T
        offset = np.array(self.free) == "offset"
        return np.where(offset, OFFSETS[0], low), np.where(offset, OFFSETS[1], high)

    def _span(self, name: str) -> tuple[float, float]:
        """Smallest and largest value of a free parameter, or factor of what the table says."""
        if name == "first_position":
            firsts = [run.first_position for run in self.runs]
            contexts = [run.sizes["context"] for run in self.runs]
            return 1 / min(firsts), min(np.divide(contexts, firsts))
        if name not in self.absolute:
            return FACTORS
        return TIMES if name == "time" else VALUES

    def logs(self, x: np.ndarray) -> dict[str, Any]:
        """Logarithms by which parameters of the limit and errors are multiplied."""
        powers = [FREE[name] for name in self.free]
        return {
            name: sum(power.get(name, 0.0) * x[..., i] for i, power in enumerate(powers))
            for name in (*LIMIT, "factor")
        }

    def moved(self, run: MeasuredRun, logs: Mapping[str, float]) -> MeasuredRun:
        """The run at other parameters."""
        return run.at(changes_by(run, logs, self.absolute))

    def _log_limits(self, ratios: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logarithms of the limit (..., runs, 2), with the threshold where that of the runs is.

        Of runs on all positions, whose limit takes too long, they are 0: corrections are all.
        """
        limited = [run.estimator == ATTENTION and not run.by_position for run in self.runs]
        attention = np.array(limited)
        dims = np.array([run.sizes["dim"] for run in self.runs])
        tests = ratios_of_tests(self.runs)
        shifted = {**ratios, **tests, "tau": ratios["tau"] * dims / (dims + 1)}
        del shifted["first_position"]
        with np.errstate(divide="ignore"):
            return np.log(np.where(attention[:, None], limit_errors(shifted, self.structure), 1.0))

    def centred(self, x: np.ndarray, predict: Predict, cheap: Predict | None = None) -> RunModel:
        """The model with corrections at these parameters, and new slopes by cheap predictions.

        Raises
        ------
        ValueError
            If there is no finite prediction at a run.
        """
        logs = self.logs(x)
        runs = [self.moved(run, logs) for run in self.runs]
        predictions = [predict(run) for run in runs]
        for run, prediction in zip(runs, predictions, strict=True):
            if not (prediction.finite and np.all(prediction.mean > 0)):
                raise ValueError(f"{run.label}: there is no finite prediction")
        return replace(
            self,
            predictions=predictions,
            places=self._places(runs),
            centre=x,
            corrections=self._corrections(runs, predictions),
            slopes=self.slopes if cheap is None else self._slopes(logs, cheap),
        )

    def _slopes(self, logs: Mapping[str, Any], cheap: Predict) -> np.ndarray:
        """Slopes (runs, parameters, 2) of corrections."""
        slopes = np.zeros((len(self.runs), len(LIMIT), 2))
        for name in {name for parameter in self.free for name in FREE[parameter]} - {
            *LEVEL,
            "factor",
        }:
            ends = []
            places = []
            for step in (-STEP, STEP):
                changed = {**logs, name: logs[name] + step}
                moved = [self.moved(run, changed) for run in self.runs]
                ends.append(self._corrections(moved, list(map(cheap, moved))))
                places.append(self._places(moved)[:, LIMIT.index(name)])
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = np.diff(ends, axis=0)[0] / np.diff(places, axis=0)[0][:, None]
            slopes[:, LIMIT.index(name)] = np.where(np.isfinite(slope), slope, 0.0)
        return slopes

    def _corrections(
        self, runs: Sequence[MeasuredRun], predictions: Sequence[Prediction]
    ) -> np.ndarray:
        """Logarithms (runs, 2) of predictions over the limit."""
        return np.log([prediction.mean for prediction in predictions]) - self._log_limits(
            _ratios(runs)
        )

    def _places(self, runs: Sequence[MeasuredRun]) -> np.ndarray:
        """Logarithms (runs, parameters) of parameters of the limit over those of the table."""
        stated = _ratios(self.runs)
        own = [np.ones(len(runs)) if n in self.absolute else stated[n] for n in LIMIT]
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.log(np.divide(list(_ratios(runs).values()), own)).T
        return np.where(np.isfinite(places), places, 0.0)

    def errors(self, x: np.ndarray) -> np.ndarray:
        """ICL and IDG errors (..., runs, 2) as they would be measured at parameters (..., p)."""
        logs = self.logs(x)
        moved = np.stack([np.asarray(logs[name])[..., None] for name in LIMIT], axis=-1)
        away = moved - self.places
        corrections = self.corrections + np.einsum("...rp,rpe->...re", away, self.slopes)
        logs_of_errors = self._log_limits(self._moved_ratios(logs)) + corrections
        factor = np.asarray(logs["factor"])[..., None, None]
        offset = np.asarray(
            sum(x[..., i] for i, name in enumerate(self.free) if name == "offset")
        )[..., None, None]
        return np.exp(logs_of_errors + factor) + offset

    def scatters(self, x: np.ndarray) -> np.ndarray:
        """Limits of d times the scatter of ICL, IDG and gap (..., runs, 3)."""
        logs = self.logs(x)
        ratios = self._moved_ratios(logs)
        sequences = any(run.by_position for run in self.runs)
        if self.structure is not None or sequences:
            return np.ones((*np.broadcast_shapes(*map(np.shape, ratios.values())), len(MEASURED)))
        time = ratios.pop("time")
        del ratios["start_variance"], ratios["first_position"]
        # A run of this time scatters about as the ridge does that learns as much.
        ratios["ridge"] = ratios["ridge"] + RIDGE_OF_TIME / time
        spread = error_spread(**ratios)
        limits = np.stack([getattr(spread, name) for name in MEASURED], axis=-1)
        return np.asarray(limits * np.exp(np.asarray(logs["factor"]))[..., None, None])

    def _moved_ratios(self, logs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Parameters of the limit (..., runs) that are moved by these logarithms."""
        return {
            name: np.exp(np.asarray(logs[name])[..., None])
            * (1.0 if name in self.absolute else stated)
            for name, stated in _ratios(self.runs).items()
        }


def check_of_sequences(names: Sequence[str], *, sequences: bool) -> None:
    """Refuse free parameters that runs on all positions, or other runs, do not have."""
    for name in names:
        if sequences and name in OF_PROMPTS:
            meant = "; did you mean sequence_ratio?" if name == "tau" else ""
            which = "for runs that are trained on all positions"
            raise ValueError(f"free must not have {name} {which}{meant}")
        if not sequences and name in OF_SEQUENCES:
            needed = "needs a column position or first_position"
            raise ValueError(f"free has {name}, which {needed}")


def absent(runs: Sequence[MeasuredRun]) -> frozenset[str]:
    """Which levels no row has, so that values are fitted, not factors."""
    nothing = {"time": math.inf}
    return frozenset(
        name
        for name in NUMBERS
        if all(getattr(run, name) == nothing.get(name, 0.0) for run in runs)
    )


def changes_by(
    run: MeasuredRun, logs: Mapping[str, float], absolute: Collection[str]
) -> dict[str, Any]:
    """Sizes and levels of a run that are multiplied by these logarithms.

    Of ``absolute`` ones they are the logarithms themselves.
    """
    changes: dict[str, Any] = {}
    for size, ratio in RATIOS.items():
        value = run.sizes[size] * math.exp(logs.get(ratio, 0.0))
        changes[size] = max(1, round(value)) if value < math.inf else value
    if isinstance(run.experiment.loss, AllPositions):
        first = run.first_position * math.exp(logs.get("first_position", 0.0))
        changes |= loss_from(first, changes["context"])
    for name in ("rho", "ridge") if run.sgd else NUMBERS:
        value = 1.0 if name in absolute and name in logs else getattr(run, name)
        changes[name] = value * math.exp(logs.get(name, 0.0)) if value else 0.0
    return changes


def limit_changes(model: RunModel, x: np.ndarray) -> np.ndarray:
    """Logarithms (m, runs, 2) of limits at parameters (m, p) over those that the table states."""
    moved = model._moved_ratios(model.logs(x))
    return model._log_limits(moved) - model._log_limits(_ratios(model.runs))


def limit_changes_of(model: RunModel, runs: Sequence[MeasuredRun]) -> np.ndarray:
    """Logarithms (runs, 2) of limits of changed runs over those that the table states."""
    return model._log_limits(_ratios(runs)) - model._log_limits(_ratios(model.runs))


def _ratios(runs: Sequence[MeasuredRun]) -> dict[str, np.ndarray]:
    """Parameters of the limit by name, in the order of `LIMIT`."""
    return {name: np.array([run.parameters[name] for run in runs]) for name in LIMIT}
