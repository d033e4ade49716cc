"""Which mistakes explain a contradiction: all that make the table agree, with their likelihoods.

Mistakes are tried if the table as it stands contradicts the theory; none is ever applied.  All are
first tried with predictions from mean moments: the ratio of two of these multiplies the full
prediction.  Those that may agree are confirmed by full predictions.  Values are fitted as
`iclimit.fit_runs` fits them.

**Likelihood.**  A mistake changes predictions and error bars, so the likelihood of what was
measured is that of normal deviations.  The sum over deviations is multiplied by the share of them
that are independent (`chi_square`).  A fitted value multiplies the likelihood by the share of its
range that its interval covers, one of m rows that was chosen by 1/m, and each of two mistakes at
once by one over the number of mistakes: what has more freedom explains less.

**Agreement.**  A mistake explains a table if the table then does not contradict the theory, if
that could still be noticed, and if it makes the data likelier.  Wider error bars explain
deviations only if these have both signs and are as large as the wider bars say.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from scipy.special import stdtr

from iclimit.comparison import Comparison
from iclimit.validation.instruments.explaining import try_all
from iclimit.validation.instruments.least_squares import LEVELS
from iclimit.validation.instruments.runs.fitting import RunModel, fit_model, predictors
from iclimit.validation.instruments.runs.judgement import (
    ChiSquare,
    RowDeviation,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.mistakes import ERRORS, RunMistake, mistakes
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict

# Rows that are tried first, evenly spaced: screening takes 1 to 10 ms for a row and mistake.
SCREENED_ROWS = 12

# Most explanations that are tried by full predictions, which take as long as the check itself.
CONFIRMED = 12

# Twice the logarithm of the likelihood ratio on screening, to the best one, beyond which an
# explanation is not tried any more.
WITHIN = 25.0

# Task sets of predictions for another law, when it is tried first.
LAW_DRAWS = 4

# Above this dimension what takes full predictions is tried only if nothing else agrees.
SLOW_DIM = 48

# A mistake must raise twice the log-likelihood by so much: its odds by a factor of 150.
BETTER = 10.0

# Least relative deviation that must be noticed if a mistake was made.
NOTICED = 0.5

# Probability with which deviations of one sign, or far below wider error bars, are excluded.
EXCLUDED = 0.01

# The worst rows, up to this many, are left out or exchanged.
WORST_ROWS = 30

# Rows are left out or exchanged only in a table with more rows than this.
LEFT_ROWS = 3


@dataclass(frozen=True)
class Fit:
    """A mistake that explains the table.

    Attributes
    ----------
    text : str
        The mistake; completes "agrees if".
    chi_square : ChiSquare
        Of all deviations if it was made.
    misfit : float
        Twice the negative log-likelihood, up to a constant.
    value, lower, upper : float or None
        What was fitted, with an interval of 95 %.
    likelihood : float
        Relative to that of the likeliest.
    """

    text: str
    chi_square: ChiSquare
    misfit: float
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    likelihood: float = 1.0


class _Table:
    """Rows of a table, and what they would be if a mistake was made."""

    def __init__(self, rows: Sequence[RowDeviation], theory: Theory, one_set: bool) -> None:
        self.rows = rows
        self.theory = theory
        self.one_set = one_set
        total = chi_square(rows)
        self.share = total.degrees / total.count
        self.numbers = {row.run.rows: row for row in rows}

    def predictions(self, mistake: RunMistake, value: float, *, cheap: bool) -> list[Prediction]:
        """Predictions of true errors."""
        runs = [mistake.true_run(row.run, value) for row in self.rows]
        theory = mistake.theory or self.theory
        if cheap and mistake.theory:  # mean moments do not see the difference
            draws = min(theory.draws or LAW_DRAWS, LAW_DRAWS)
            return [predict(run, replace(theory, draws=draws)) for run in runs]
        return [self.prediction(run) if cheap else predict(run, theory) for run in runs]

    def prediction(self, run: MeasuredRun) -> Prediction:
        """Prediction of a row that is changed: that of the row times the ratio of cheap ones."""
        row = self.numbers[run.rows]
        if run.setting == row.run.setting:
            return row.prediction
        cheap = replace(self.theory, cheap=True)
        now = predict(run, cheap)
        if run.estimator != row.run.estimator or not now.finite:
            return now
        return row.prediction.scaled(now.mean / predict(row.run, cheap).mean)

    def changed(
        self, mistake: RunMistake, value: float, predictions: Sequence[Prediction]
    ) -> list[RowDeviation]:
        """Deviations of all rows if the mistake was made, given predictions of true errors."""
        shared = self.one_set if mistake.one_set is None else mistake.one_set
        deviations = []
        for row, prediction in zip(self.rows, predictions, strict=True):
            run = row.run
            true = mistake.true_run(row.run, value)
            if mistake.outcome is not None and prediction.finite:
                prediction = prediction.mapped(partial(mistake.outcome, true, value))
            run = run if mistake.bars is None else mistake.bars(run)
            deviations.append(compare_run(run, prediction, one_set=shared))
        return deviations

    def misfit(self, changed: Sequence[RowDeviation]) -> float:
        """Twice the negative log-likelihood of what was measured; infinite where rows are lost."""
        total = 0.0
        for now, before in zip(changed, self.rows, strict=True):
            if now.judged.keys() != before.judged.keys():
                return math.inf
            total += sum(map(_misfit, now.judged.values()))
        return self.share * total


def _misfit(row: Comparison) -> float:
    """Twice the negative log-likelihood, of Student's law where the error is from few runs."""
    square = ((row.estimate - row.theory) / row.standard_error) ** 2
    if math.isfinite(row.degrees):
        square = (row.degrees + 1) * math.log1p(square / row.degrees)
    return square + 2 * math.log(row.standard_error)


@dataclass(frozen=True)
class _Candidate:
    """A mistake with twice its negative log-likelihood and its fitted value.

    Predictions are of the true errors of the rows that are tried first.
    """

    mistake: RunMistake
    predictions: Sequence[Prediction]
    misfit: float
    penalty: float = 0.0
    values: tuple[float, float, float] | None = None


def explain(
    rows: Sequence[RowDeviation], theory: Theory, *, one_set: bool, progress: bool = False
) -> tuple[list[Fit], int]:
    """Mistakes that explain the deviations, the likeliest first, and how many were tried.

    Parameters
    ----------
    rows : sequence of RowDeviation
        Deviations of the table as it stands.
    theory : Theory
        What it was compared with.
    one_set : bool
        Whether the runs of a row share a task set.
    progress : bool
        Whether to show a progress bar.
    """
    rows = [row for row in rows if row.judged]
    table = _Table(rows, theory, one_set)
    screened = _Table(rows[:: math.ceil(len(rows) / SCREENED_ROWS)], theory, one_set)
    tried = mistakes([row.run for row in rows], theory, one_set=one_set)
    fits = list(_rearranged(table))
    count = len(tried)
    attempt = partial(_tried, screened)
    quick = [mistake for mistake in tried if not mistake.slow]
    fast = list(try_all(quick, attempt, progress=progress))
    fits += _confirmed(table, screened, fast)
    if not fits or max(row.run.sizes["dim"] for row in rows) <= SLOW_DIM:
        others = [mistake for mistake in tried if mistake.slow]
        slow = list(try_all(others, attempt, progress=progress))
        fits += _confirmed(table, screened, slow)
    if not fits:
        pairs = list(_pairs(screened, fast, 2 * math.log(count)))
        fits += _confirmed(table, screened, pairs)
        count += len(pairs)
    fits.sort(key=lambda fit: fit.misfit)
    best = fits[0].misfit if fits else 0.0
    return [replace(fit, likelihood=math.exp((best - fit.misfit) / 2)) for fit in fits], count


def _tried(table: _Table, mistake: RunMistake) -> _Candidate:
    """A mistake with its likelihood."""
    if mistake.free:
        return _fitted(table, mistake)
    predictions = table.predictions(mistake, math.nan, cheap=True)
    misfit = table.misfit(table.changed(mistake, math.nan, predictions))
    return _Candidate(mistake, predictions, misfit)


def _fitted(table: _Table, mistake: RunMistake) -> _Candidate:
    """A mistake with the value that fits best, and its interval, as `fit_runs` finds them."""
    runs = [_judged_run(row) for row in table.rows]
    model = RunModel.of(runs, (mistake.free,), table.theory.structure)
    precise, cheap = predictors(table.theory)
    precise = precise if mistake.slow else table.prediction
    solution = fit_model(model, precise, cheap, one_set=table.one_set)[0]
    ends = solution.profile(0).interval(95)
    value, lower, upper = np.exp([solution.x[0], *ends]).tolist()
    predictions = table.predictions(mistake, value, cheap=not mistake.slow)
    misfit = table.misfit(table.changed(mistake, value, predictions))
    # Of a normal likelihood, this share of a uniform law in the logarithm.
    covered = math.sqrt(2 * math.pi / LEVELS[95]) * (ends[1] - ends[0]) / 2
    penalty = 2 * math.log(float(np.ptp(model.bounds)) / max(covered, 1e-300))
    below, above = np.isclose(ends, np.ravel(model.bounds))
    span = f"{lower:.4g} or more" if above else f"{lower:.4g} to {upper:.4g}"
    span = f"{upper:.4g} or less" if below else span
    named = replace(mistake, text=mistake.text.format(f"{value:.4g} ({span})"))
    return _Candidate(named, predictions, misfit, penalty, (value, lower, upper))


def _judged_run(row: RowDeviation) -> MeasuredRun:
    """The run with those errors that are judged."""
    errors = {name: row.run.errors[name] for name in row.judged}
    paired = {"icl", "idg"} <= set(errors)
    return replace(row.run, errors=errors, correlation=row.run.correlation if paired else None)


def _pairs(
    table: _Table, candidates: Sequence[_Candidate], penalty: float
) -> Iterator[_Candidate]:
    """Pairs of a mistake in what was reported and one in the settings."""
    fixed = [candidate for candidate in candidates if not candidate.mistake.free]
    for reported in (candidate.mistake for candidate in fixed if candidate.mistake in ERRORS):
        for candidate in fixed:
            if candidate.mistake.outcome is None and not candidate.mistake.widens:
                text = f"{reported.text}, and {candidate.mistake.text}"
                pair = replace(candidate.mistake, text=text, outcome=reported.outcome)
                misfit = table.misfit(table.changed(pair, math.nan, candidate.predictions))
                yield _Candidate(pair, candidate.predictions, misfit, penalty)


def _confirmed(table: _Table, screened: _Table, candidates: Sequence[_Candidate]) -> Iterator[Fit]:
    """Candidates that explain the whole table by full predictions."""
    plain = screened.misfit(screened.rows)
    whole = table.misfit(table.rows)
    better = [candidate for candidate in candidates if candidate.misfit < plain - BETTER]
    better.sort(key=lambda candidate: candidate.misfit + candidate.penalty)
    for candidate in better[:CONFIRMED]:
        if candidate.misfit + candidate.penalty > better[0].misfit + better[0].penalty + WITHIN:
            break
        mistake = candidate.mistake
        values = candidate.values
        value = values[0] if values else math.nan
        try:
            predictions = table.predictions(mistake, value, cheap=False)
        except ValueError:
            continue
        changed = table.changed(mistake, value, predictions)
        misfit = table.misfit(changed)
        if misfit < whole - BETTER and _explains(table, mistake, changed):
            misfit += candidate.penalty
            yield Fit(mistake.text, chi_square(changed), misfit, *(values or ()))


def _explains(table: _Table, mistake: RunMistake, changed: Sequence[RowDeviation]) -> bool:
    """Whether a table agrees with the theory, and could have failed to."""
    now = verdict(changed)
    if not now.holds:
        return False
    before = min(verdict(table.rows).resolutions.values())
    if min(now.resolutions.values()) > max(NOTICED, before):
        return False
    if not mistake.widens:
        return True
    total = chi_square(changed)
    z = np.array([comparison.z for row in changed for comparison in row.judged.values()])
    freedom = max(total.degrees - 1, 0.0)
    mean = abs(np.mean(z)) * math.sqrt(freedom / max(np.var(z), 1e-300))
    one_sign = freedom > 0 and 2 * stdtr(freedom, -mean) < EXCLUDED
    return not one_sign and total.lower_p_value > EXCLUDED


def _rearranged(table: _Table) -> Iterator[Fit]:
    """Explanations by one row that does not belong there, or two rows that are exchanged."""
    rows = table.rows
    if len(rows) <= LEFT_ROWS or not verdict(rows).failures:
        return
    worst = sorted(
        range(len(rows)),
        key=lambda i: -max(abs(comparison.z) for comparison in rows[i].judged.values()),
    )
    worst = worst[:WORST_ROWS]
    limit = table.misfit(rows) - BETTER
    for place in worst:
        rest = [*rows[:place], *rows[place + 1 :]]
        misfit = _misfit_without(table, place)
        if misfit < limit and verdict(rest).holds:
            text = f"row {rows[place].run.rows[0]} is left out"
            yield Fit(text, chi_square(rest), misfit)
    count = len(rows) * (len(rows) - 1) / 2
    for i, j in combinations(sorted(worst), 2):
        if rows[i].run.errors.keys() != rows[j].run.errors.keys():
            continue
        changed = _exchanged(table, i, j)
        misfit = table.misfit(changed) + 2 * math.log(count)
        if misfit < limit and verdict(changed).holds:
            names = " and ".join(str(rows[place].run.rows[0]) for place in (i, j))
            yield Fit(f"the errors of rows {names} are exchanged", chi_square(changed), misfit)


def _misfit_without(table: _Table, place: int) -> float:
    """Misfit with a row left out, as if its error bars were as large as its deviations."""
    judged = table.rows[place].judged.values()
    sizes = [max(abs(row.estimate - row.theory), row.standard_error) for row in judged]
    lost = sum(1 + 2 * math.log(size) for size in sizes)
    gained = table.share * (lost - sum(map(_misfit, judged)))
    return table.misfit(table.rows) + gained + 2 * math.log(len(table.rows))


def _exchanged(table: _Table, i: int, j: int) -> list[RowDeviation]:
    """Rows of which two have the errors of each other."""
    changed = list(table.rows)
    for place, other in ((i, j), (j, i)):
        theirs = table.rows[other].run
        own = replace(
            table.rows[place].run,
            errors=theirs.errors,
            correlation=theirs.correlation,
            runs=theirs.runs,
        )
        changed[place] = compare_run(own, table.rows[place].prediction, one_set=table.one_set)
    return changed
