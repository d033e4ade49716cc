"""Values of mistakes that are searched: the best one, and the interval that the data allow.

A parameter of the limit is fitted by predictions that are limits times a correction.  The
correction is linear between cheap predictions at three values, which move to the best one; that of
a number of tasks, which cheap predictions do not see, is constant.  Other
values are searched by comparing predictions in a stated range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from iclimit.validation.instruments.least_squares import LEVELS
from iclimit.validation.instruments.runs.judgement import RowDeviation
from iclimit.validation.instruments.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.instruments.runs.mistakes import RunMistake
from iclimit.validation.instruments.runs.predictions import Prediction
from iclimit.validation.instruments.runs.run_model import RunModel, limit_changes, limit_changes_of
from iclimit.validation.instruments.runs.trials import (
    DOUBT_OF_LIMITS,
    DOUBT_OF_MOVE,
    FAR,
    HOPELESS,
    LARGEST_DOUBT,
    Candidate,
    TriedTable,
    largest,
)

# Values of a parameter for which limits are compared before it is fitted.
LIMITS_TRIED = 241

# Doubt of a prediction at the value where the search begins, which is not yet the best one.
DOUBT_OF_START = 0.05

# Distance of the logarithms at which corrections are predicted from their centre.
NODES = 0.15

# Most times that corrections are predicted anew about a better value.
MOST_MOVES = 4

# Values of a searched range that are compared before the best one is refined.
SCANNED = 61

# Stands for an infinite misfit where a minimum is searched.
LARGEST_MISFIT = 1e300

# First step of a logarithm in the search for the end of an interval.
END_STEP = 1e-3

# Accuracy of the logarithm of a value.
ACCURACY = 1e-5


def searched(table: TriedTable, mistake: RunMistake) -> Candidate:
    """A mistake with the value that fits best, and its interval."""
    return _fitted(table, mistake) if mistake.free else _scanned(table, mistake)


@dataclass(frozen=True)
class _Limits:
    """Limits at values of a parameter, over those that the table states.

    Attributes
    ----------
    x : ndarray (m,)
        Logarithms of the values, or of factors.
    changes : ndarray (m, runs, 2)
        Logarithms of the ratios.
    doubt : ndarray (m,)
        Of a ratio in place of one of predictions.
    """

    x: np.ndarray
    changes: np.ndarray
    doubt: np.ndarray

    @classmethod
    def of(cls, model: RunModel) -> _Limits:
        """Limits over the whole range of the parameter, in one call."""
        x = np.linspace(*model.bounds, LIMITS_TRIED)
        with np.errstate(over="ignore", invalid="ignore"):
            changes = limit_changes(model, x)
        # Where the table has no noise or no ridge, corrections are those without it.
        away = np.full(len(x), math.inf) if model.absolute else np.abs(x[:, 0])
        doubt = np.minimum(DOUBT_OF_LIMITS + DOUBT_OF_MOVE * away, LARGEST_DOUBT)
        return cls(x[:, 0], changes, doubt)

    def at(self, x: float) -> np.ndarray:
        """Logarithms (runs, 2) of the ratios between the values."""
        place = int(np.clip(np.searchsorted(self.x, x) - 1, 0, len(self.x) - 2))
        share = (x - self.x[place]) / (self.x[place + 1] - self.x[place])
        return (1 - share) * self.changes[place] + share * self.changes[place + 1]


def _fitted(table: TriedTable, mistake: RunMistake) -> Candidate:
    """A mistake in a parameter of the limit."""
    runs = [_judged_run(row) for row in table.rows]
    model = RunModel.of(runs, (mistake.free,), table.theory.structure)
    limits = _Limits.of(model)
    start = _start(table, model, limits)
    if start is None or not _agrees_roughly(table, mistake, start):
        return Candidate(mistake, math.inf)
    bounds = np.ravel(model.bounds)
    for _ in range(MOST_MOVES):
        steps = np.zeros(1) if mistake.slow else NODES * np.array([-1.0, 0.0, 1.0])
        nodes = np.clip(start + steps, *bounds)
        corrections = _corrections(table, mistake, model, nodes)
        misfit = partial(_model_misfit, table, mistake, limits, nodes, corrections)
        near = np.clip([start - 3 * NODES, start + 3 * NODES], *bounds)
        best = minimize_scalar(misfit, bounds=near, method="bounded", options={"xatol": ACCURACY})
        moved = abs(best.x - start)
        start = float(best.x)
        if moved < NODES:
            break
    height = float(best.fun)
    if not height < LARGEST_MISFIT:
        return Candidate(mistake, math.inf)
    ends = _interval(misfit, start, height, bounds)
    return _with_value(mistake, height, np.exp([start, *ends]).tolist(), bounds)


def _agrees_roughly(table: TriedTable, mistake: RunMistake, x: float) -> bool:
    """Whether no row contradicts a value clearly, by predictions there."""
    value = math.exp(x)
    for row in table.by_size:
        prediction = table.predicted(row, mistake, value, cheap=not mistake.slow)
        doubted = prediction.doubted(np.full(2, 2 * DOUBT_OF_START))
        if largest(table.changed_row(row, mistake, value, doubted)) > HOPELESS:
            return False
    return True


def _start(table: TriedTable, model: RunModel, limits: _Limits) -> float | None:
    """Where ratios of limits agree best; None where at no value they nearly do."""
    means = np.array([row.prediction.mean for row in table.rows])
    with np.errstate(over="ignore", invalid="ignore"):
        factors = np.exp(np.asarray(model.logs(limits.x[:, None])["factor"])) + 0 * limits.x
        predicted = means * np.exp(limits.changes) * factors[:, None, None]
    worst = np.zeros(len(limits.x))
    total = np.zeros(len(limits.x))
    for place, row in enumerate(table.rows):
        for name, comparison in row.judged.items():
            weights = np.array(MEASURED[name])
            size = predicted[:, place] @ np.abs(weights)
            error = np.hypot(comparison.standard_error, limits.doubt * size)
            z = (comparison.estimate - predicted[:, place] @ weights) / error
            z = np.where(np.isfinite(z), z, 0.0)
            worst = np.maximum(worst, np.abs(z))
            total += z**2 + 2 * np.log(np.where(np.isfinite(error), error, 1.0))
    possible = worst < FAR
    if not np.any(possible):
        return None
    return float(limits.x[np.argmin(np.where(possible, total, math.inf))])


def _corrections(
    table: TriedTable, mistake: RunMistake, model: RunModel, nodes: np.ndarray
) -> np.ndarray:
    """Logarithms (nodes, runs, 2) of ratios of predictions over ratios of limits."""
    corrections = np.zeros((len(nodes), len(table.rows), 2))
    means = np.array([row.prediction.mean for row in table.rows])
    for number, x in enumerate(nodes):
        runs = [mistake.true_run(row.run, math.exp(x)) for row in table.rows]
        predicted = table.predictions(mistake, math.exp(x), cheap=not mistake.slow)
        predictions = np.array([prediction.mean for prediction in predicted])
        corrections[number] = np.log(predictions / means) - limit_changes_of(model, runs)
    if not np.all(np.isfinite(corrections)):
        raise ValueError(f"{mistake.text}: there is no finite prediction")
    return corrections


def _model_misfit(
    table: TriedTable,
    mistake: RunMistake,
    limits: _Limits,
    nodes: np.ndarray,
    corrections: np.ndarray,
    x: float,
) -> float:
    """Misfit at a value, by limits and corrections between the nodes."""
    weights = np.array([np.interp(x, nodes, unit) for unit in np.eye(len(nodes))])
    factors = np.exp(limits.at(x) + np.einsum("n,nre->re", weights, corrections))
    if not np.all(np.isfinite(factors)):
        return LARGEST_MISFIT
    predictions = [
        row.prediction.scaled(factor) for row, factor in zip(table.rows, factors, strict=True)
    ]
    return _finite_misfit(table, mistake, math.exp(x), predictions)


def _finite_misfit(
    table: TriedTable, mistake: RunMistake, value: float, predictions: list[Prediction]
) -> float:
    """Misfit at a value; a large number where it is infinite."""
    total = table.misfit(table.changed(mistake, value, predictions))
    return total if math.isfinite(total) else LARGEST_MISFIT


def _judged_run(row: RowDeviation) -> MeasuredRun:
    """The run with those errors that are judged."""
    errors = {name: row.run.errors[name] for name in row.judged}
    paired = {"icl", "idg"} <= set(errors)
    return replace(row.run, errors=errors, correlation=row.run.correlation if paired else None)


def _scanned(table: TriedTable, mistake: RunMistake) -> Candidate:
    """A mistake with a value of its range."""
    bounds = np.log(mistake.scanned or (1.0, 1.0))
    grid = np.linspace(bounds[0], bounds[1], SCANNED)
    for row in table.by_size:
        if not any(table.row_agrees_roughly(row, mistake, math.exp(x)) for x in grid):
            return Candidate(mistake, math.inf)

    def misfit(x: float) -> float:
        value = math.exp(x)
        return _finite_misfit(table, mistake, value, table.predictions(mistake, value, cheap=True))

    heights = [misfit(x) for x in grid]
    place = int(np.argmin(heights))
    near = grid[[max(place - 1, 0), min(place + 1, SCANNED - 1)]]
    best = minimize_scalar(misfit, bounds=near, method="bounded", options={"xatol": ACCURACY})
    ends = _interval(misfit, float(best.x), float(best.fun), bounds)
    return _with_value(mistake, float(best.fun), np.exp([best.x, *ends]).tolist(), bounds)


def _interval(
    misfit: Callable[[float], float], x: float, height: float, bounds: np.ndarray
) -> tuple[float, float]:
    """Where the misfit has risen to its level of 95 %, or the ends of the range."""
    level = height + LEVELS[95]
    ends = []
    for direction, bound in zip((-1, 1), bounds, strict=True):
        step = END_STEP
        inner = x
        outer = float(np.clip(x + direction * step, *bounds))
        while outer != bound and misfit(outer) < level:
            step *= 2
            inner = outer
            outer = float(np.clip(x + direction * step, *bounds))
        if misfit(outer) < level:
            ends.append(float(bound))
        else:
            ends.append(float(brentq(lambda at: misfit(at) - level, inner, outer, xtol=1e-4)))
    return ends[0], ends[1]


def _with_value(
    mistake: RunMistake, misfit: float, values: list[float], bounds: np.ndarray
) -> Candidate:
    """Candidate with a value, its interval in words, and the penalty of the search for it."""
    value, lower, upper = values
    low, high = np.log([lower, upper])
    # Of a normal likelihood, this share of a uniform law in the logarithm.
    covered = math.sqrt(2 * math.pi / LEVELS[95]) * (high - low) / 2
    penalty = 2 * math.log(float(np.ptp(bounds)) / max(covered, 1e-300))
    below, above = np.isclose([low, high], bounds)
    span = f"{lower:.4g} or more" if above else f"{lower:.4g} to {upper:.4g}"
    span = f"{upper:.4g} or less" if below else span
    named = replace(mistake, text=mistake.text.format(f"effectively {value:.4g} ({span})"))
    return Candidate(named, misfit, penalty, (value, lower, upper))
