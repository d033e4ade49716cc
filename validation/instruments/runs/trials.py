"""Rows of a table, and what they would be if a mistake was made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from iclimit.asymptotics.pretraining import effective_labels
from iclimit.comparison import Comparison
from iclimit.validation.instruments.runs.judgement import RowDeviation, chi_square, compare_run
from iclimit.validation.instruments.runs.limits import limit_errors
from iclimit.validation.instruments.runs.measured import ACCURACY, ATTENTION, MeasuredRun
from iclimit.validation.instruments.runs.mistakes import RunMistake
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict
from iclimit.validation.instruments.runs.simulated import (
    FEW_SIMULATED,
    MANY_SIMULATED,
    simulated_prediction,
)

# Task sets of predictions for another law, when it is tried first.
LAW_DRAWS = 4

# A mistake is given up at the first row that deviates by more standard errors than this.
HOPELESS = 8.0

# Doubt of a ratio of limits in place of a ratio of predictions: a part of it, and more the further
# a parameter is from what the table says, by its logarithm, up to a largest doubt.
DOUBT_OF_LIMITS = 0.03
DOUBT_OF_MOVE = 0.1
LARGEST_DOUBT = 0.3

# Doubt of a ratio of limits of accuracies: a part over the dimension, and a part of its logarithm.
# At d = 10 to 24 ratios for other links were within .025, .3/d and a tenth of the logarithm, and
# for flips and noise within a tenth of the logarithm.
ACCURACY_DOUBT = 0.3
ACCURACY_SLOPE = 0.1

# A mistake is not tried if a row deviates from such a ratio by more standard errors than this.
FAR = 5.0


@dataclass(frozen=True)
class Candidate:
    """A mistake with twice its negative log-likelihood and its fitted value."""

    mistake: RunMistake
    misfit: float
    penalty: float = 0.0
    values: tuple[float, float, float] | None = None


class TriedTable:
    """Rows of a table, and what they would be if a mistake was made."""

    def __init__(self, rows: Sequence[RowDeviation], theory: Theory, one_set: bool) -> None:
        self.rows = rows
        self.theory = theory
        self.one_set = one_set
        total = chi_square(rows)
        self.share = total.degrees / total.count
        self.numbers = {row.run.rows: row for row in rows}

    @property
    def by_size(self) -> list[RowDeviation]:
        """Rows by their deviation, the largest first; accuracies, which take time, are last."""
        return sorted(self.rows, key=lambda row: (row.run.estimator == ACCURACY, -largest(row)))

    def predictions(self, mistake: RunMistake, value: float, *, cheap: bool) -> list[Prediction]:
        """Predictions of true errors."""
        return [self.predicted(row, mistake, value, cheap=cheap) for row in self.rows]

    def predicted(
        self, row: RowDeviation, mistake: RunMistake, value: float, *, cheap: bool
    ) -> Prediction:
        """Prediction of the true errors of a row."""
        run = mistake.true_run(row.run, value)
        theory = mistake.theory or self.theory
        if mistake.simulated is not None:
            runs = FEW_SIMULATED if cheap else MANY_SIMULATED
            return simulated_prediction(row, run, mistake.simulated, value, theory, runs)
        if mistake.theory is None and (cheap or run.setting == row.run.setting):
            return self.prediction(run)
        if cheap:  # mean moments do not see the difference
            theory = replace(theory, draws=min(theory.draws or LAW_DRAWS, LAW_DRAWS))
        return _with_scatter(predict(run, replace(theory, scattered=False)), row.prediction)

    def prediction(self, run: MeasuredRun) -> Prediction:
        """Prediction of a row that is changed: that of the row times the ratio of cheap ones."""
        row = self.numbers[run.rows]
        if run.setting == row.run.setting:
            return row.prediction
        if run.by_position:
            return self._by_position(row, run)
        if _learns_otherwise(row.run, run):
            return self._few(row, run)
        cheap = replace(self.theory, cheap=True)
        now = predict(run, cheap)
        if run.estimator != row.run.estimator or not now.finite:
            return now
        factors = now.mean / predict(row.run, cheap).mean
        scaled = row.prediction.scaled(factors)
        if run.estimator != ACCURACY:
            return scaled
        doubt = ACCURACY_DOUBT / row.run.sizes["dim"] + ACCURACY_SLOPE * np.abs(np.log(factors))
        return scaled.doubted(doubt)

    def _by_position(self, row: RowDeviation, run: MeasuredRun) -> Prediction:
        """The same with the uncertainty of the cheap prediction, and for another loss as it is."""
        cheap = replace(self.theory, cheap=True)
        now = predict(run, cheap)
        before = predict(row.run, cheap)
        alike = type(run.experiment.loss) is type(row.run.experiment.loss)
        if alike and now.finite and before.finite:
            now = now.scaled(row.prediction.mean / before.mean)
        return _with_scatter(now, row.prediction)

    def _few(self, row: RowDeviation, run: MeasuredRun) -> Prediction:
        """The same by full predictions of few task sets, and with the scatter of the changed run.

        Corrections to mean moments are other ones after a time, or with a ridge, than for the
        ridgeless minimiser: at d = 16 by several per cent.
        """
        few = replace(self.theory, draws=min(self.theory.draws or LAW_DRAWS, LAW_DRAWS))
        plain = replace(few, scattered=False)
        lacking = any(row.run.lacks_error_bar(name) for name in row.run.errors)
        now = predict(run, few if lacking else plain)
        before = predict(row.run, plain)
        if not (now.finite and before.finite):
            return now
        scaled = row.prediction.scaled(now.mean / before.mean)
        if not (lacking and np.all(np.isfinite(now.scatter))):
            return scaled
        return replace(scaled, scatter=now.scatter, law=now.law)

    def changed(
        self, mistake: RunMistake, value: float, predictions: Sequence[Prediction]
    ) -> list[RowDeviation]:
        """Deviations of all rows if the mistake was made, given predictions of true errors."""
        return [
            self.changed_row(row, mistake, value, prediction)
            for row, prediction in zip(self.rows, predictions, strict=True)
        ]

    def changed_row(
        self, row: RowDeviation, mistake: RunMistake, value: float, prediction: Prediction
    ) -> RowDeviation:
        """Deviation of a row if the mistake was made, given the prediction of true errors."""
        shared = self.one_set if mistake.one_set is None else mistake.one_set
        true = mistake.true_run(row.run, value)
        if mistake.summarised is not None and prediction.finite:
            prediction = mistake.summarised(true, value, prediction)
        if mistake.outcome is not None and prediction.finite:
            prediction = prediction.mapped(partial(mistake.outcome, true, value))
        run = row.run if mistake.bars is None else mistake.bars(row.run)
        return compare_run(run, prediction, one_set=shared)

    def misfit(self, changed: Sequence[RowDeviation]) -> float:
        """Twice the negative log-likelihood of what was measured; infinite where rows are lost."""
        total = 0.0
        for now, before in zip(changed, self.rows, strict=True):
            if now.judged.keys() != before.judged.keys():
                return math.inf
            total += sum(map(misfit_of, now.judged.values()))
        return self.share * total

    def row_agrees_roughly(self, row: RowDeviation, mistake: RunMistake, value: float) -> bool:
        """Whether a row does not contradict a mistake clearly, by cheap predictions."""
        prediction = self.predicted(row, mistake, value, cheap=True)
        now = self.changed_row(row, mistake, value, prediction)
        return now.judged.keys() == row.judged.keys() and largest(now) < HOPELESS

    def tried(self, mistake: RunMistake) -> Candidate:
        """A mistake without a value; of infinite misfit where a row contradicts it clearly."""
        if not all(self.row_agrees_roughly(row, mistake, math.nan) for row in self.by_size):
            return Candidate(mistake, math.inf)
        predictions = self.predictions(mistake, math.nan, cheap=True)
        return Candidate(mistake, self.misfit(self.changed(mistake, math.nan, predictions)))

    def allowed_by_limits(self, mistakes: Sequence[RunMistake]) -> list[RunMistake]:
        """Mistakes in the settings that ratios of limits do not rule out, and all others.

        All limits take one call, where a prediction of a single row takes as long.
        """
        runs = [row.run for row in self.rows]
        unknown = self.theory.structure is not None
        unknown = unknown or any(run.tests or run.by_position for run in runs)
        if unknown or any(run.estimator != ATTENTION for run in runs):
            return list(mistakes)
        kept = []
        trials = []
        for mistake in mistakes:
            try:
                changed = (
                    [mistake.true_run(run) for run in runs] if _of_settings(mistake) else runs
                )
            except ValueError:
                continue
            if [run.setting for run in changed] == [run.setting for run in runs]:
                kept.append(mistake)
            else:
                trials.append((mistake, changed))
        if not trials:
            return kept
        stated = _log_limits(runs)
        limits = _log_limits([run for _, changed in trials for run in changed])
        changes = limits.reshape(len(trials), len(runs), 2) - stated
        for (mistake, changed), change in zip(trials, changes, strict=True):
            if self._is_allowed(mistake, changed, change):
                kept.append(mistake)
        return [mistake for mistake in mistakes if mistake in kept]

    def _is_allowed(
        self, mistake: RunMistake, changed: Sequence[MeasuredRun], change: np.ndarray
    ) -> bool:
        """Whether no row is far from its prediction times a ratio of limits."""
        for row, run, logs in zip(self.rows, changed, change, strict=True):
            if not np.all(np.isfinite(logs)):
                continue
            doubt = min(DOUBT_OF_LIMITS + DOUBT_OF_MOVE * _moved_by(row.run, run), LARGEST_DOUBT)
            prediction = row.prediction.scaled(np.exp(logs)).doubted(np.full(2, 2 * doubt))
            if largest(self.changed_row(row, mistake, math.nan, prediction)) > FAR:
                return False
        return True


def _learns_otherwise(before: MeasuredRun, now: MeasuredRun) -> bool:
    """Whether a run has a time, a start or a ridge that the other has not."""
    return before.trained or now.trained or bool(before.ridge) != bool(now.ridge)


def _of_settings(mistake: RunMistake) -> bool:
    """Whether a mistake is one in the settings, which limits know."""
    searched = mistake.free or mistake.scanned is not None
    return not (searched or mistake.slow or mistake.simulated or mistake.widens)


def _log_limits(runs: Sequence[MeasuredRun]) -> np.ndarray:
    """Logarithms of limits (runs, 2), with the threshold where that of the runs is."""
    ratios = {name: np.array([run.ratios[name] for run in runs]) for name in runs[0].ratios}
    factors = np.ones(len(runs))
    for number, run in enumerate(runs):
        if not run.linear:
            problem = run.experiment.problem
            labels = effective_labels(problem.link, run.rho, flips=problem.flips)
            ratios["rho"][number] = labels.rho
            ratios["ridge"][number] *= labels.ridge_factor
            factors[number] = labels.factor
    dims = np.array([run.sizes["dim"] for run in runs])
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = limit_errors(ratios | {"tau": ratios["tau"] * dims / (dims + 1)}, None)
        return np.log(factors[:, None] * limits)


def _moved_by(before: MeasuredRun, now: MeasuredRun) -> float:
    """Largest change of the logarithm of a parameter of the limit."""
    moves = [0.0]
    for name, value in before.ratios.items():
        if now.ratios[name] != value:
            known = 0 < value < math.inf and 0 < now.ratios[name] < math.inf
            moves.append(abs(math.log(now.ratios[name] / value)) if known else math.inf)
    if now.labels != before.labels:
        moves.append(math.inf)
    return max(moves)


def largest(row: RowDeviation) -> float:
    """Largest absolute z of a row; infinite where there is none."""
    return max((abs(comparison.z) for comparison in row.judged.values()), default=math.inf)


def _with_scatter(now: Prediction, before: Prediction) -> Prediction:
    """Prediction with the scatter of runs of another one, relative to the means."""
    if not (now.finite and before.finite):
        return now
    factors = now.mean / before.mean
    return replace(
        now, scatter=before.scatter * np.outer(factors, factors), law=before.law * factors
    )


def misfit_of(row: Comparison) -> float:
    """Twice the negative log-likelihood, of Student's law where the error is from few runs."""
    square = ((row.estimate - row.theory) / row.standard_error) ** 2
    if math.isfinite(row.degrees):
        square = (row.degrees + 1) * math.log1p(square / row.degrees)
    return square + 2 * math.log(row.standard_error)
