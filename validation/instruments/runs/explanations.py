"""Which mistakes explain a contradiction: all that make the table agree, with their likelihoods.

Mistakes are tried if the table as it stands contradicts the theory; none is ever applied.  All are
first tried with predictions from mean moments: the ratio of two of these multiplies the full
prediction.  Those that may agree are confirmed by full predictions.  Values are fitted as
`iclimit.fit_runs` fits them, or searched in a stated range.  Experiments without a theory are
simulated, if nothing that has one agrees (`iclimit.validation.instruments.runs.simulated`).

**Likelihood.**  A mistake changes predictions and error bars, so the likelihood of what was
measured is that of normal deviations.  The sum over deviations is multiplied by the share of them
that are independent (`chi_square`).  A fitted value multiplies the likelihood by the share of its
range that its interval covers, r of m rows that were chosen by one over the number of choices, and
each of two mistakes at once by one over the number of mistakes: what has more freedom explains
less.  Likelihoods are relative to the best explanation.  Where that one was searched, by a value
or by rows, they are relative to a mistake without a search that would agree as well: none is 1.

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
from scipy.optimize import brentq, minimize_scalar
from scipy.special import stdtr

from iclimit.comparison import Comparison
from iclimit.validation.instruments.explaining import try_all
from iclimit.validation.instruments.least_squares import LEVELS
from iclimit.validation.instruments.runs.fitting import (
    RunModel,
    fit_model,
    limit_ratios,
    predictors,
)
from iclimit.validation.instruments.runs.judgement import (
    ChiSquare,
    RowDeviation,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.instruments.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.instruments.runs.mistakes import PAIRED, RunMistake, mistakes
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict
from iclimit.validation.instruments.runs.simulated import (
    FEW_SIMULATED,
    MANY_SIMULATED,
    NOT_SIMULATED,
    can_simulate,
    simulated_prediction,
    simulated_runs,
    simulation_note,
)

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

# Most rows that are left out or exchanged.
WORST_ROWS = 30

# Rows are left out or exchanged only in a table with more rows than this, and at most one of so
# many is left out.
LEFT_ROWS = 3

# Most sets of rows that are left out in turn.
MOST_SETS = 10_000

# A mistake is given up at the first row that deviates by more standard errors than this.
HOPELESS = 12.0

# Values of a parameter for which limits are compared before it is fitted.
LIMITS_TRIED = 241

# Doubt of a ratio of limits in place of a ratio of predictions: a part of it, and more the further
# the parameter is from what the table says, by its logarithm, up to a largest doubt.
DOUBT_OF_LIMITS = 0.03
DOUBT_OF_MOVE = 0.1
LARGEST_DOUBT = 0.3

# A parameter is not fitted if a row deviates from such a ratio by more standard errors than this.
FAR = 5.0

# Values of a searched range that are compared before the best one is refined.
SCANNED = 61


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
        Relative to that of the likeliest; below 1 where a value or rows were searched.
    searched : float
        What the misfit has of a search for a value or for rows.
    effective : str
        Of a value that was fitted: what else may look like it.
    left_out : tuple of int
        Rows without which the table agrees.
    simulated : int
        Simulated runs of each row that the prediction is from; 0: theory.
    """

    text: str
    chi_square: ChiSquare
    misfit: float
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    likelihood: float = 1.0
    searched: float = 0.0
    effective: str = ""
    left_out: tuple[int, ...] = ()
    simulated: int = 0

    @property
    def exact(self) -> bool:
        """Whether it is a mistake without a fitted value and without rows that are left out."""
        return not (self.effective or self.left_out)


class _Table:
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
        """Rows by their deviation, the largest first."""
        return sorted(self.rows, key=lambda row: -_largest(row))

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
        cheap = replace(self.theory, cheap=True)
        now = predict(run, cheap)
        if run.estimator != row.run.estimator or not now.finite:
            return now
        return row.prediction.scaled(now.mean / predict(row.run, cheap).mean)

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
            total += sum(map(_misfit, now.judged.values()))
        return self.share * total


def _largest(row: RowDeviation) -> float:
    """Largest absolute z of a row."""
    return max(abs(comparison.z) for comparison in row.judged.values())


def _with_scatter(now: Prediction, before: Prediction) -> Prediction:
    """Prediction with the scatter of runs of another one, relative to the means."""
    if not (now.finite and before.finite):
        return now
    factors = now.mean / before.mean
    return replace(
        now, scatter=before.scatter * np.outer(factors, factors), law=before.law * factors
    )


def _misfit(row: Comparison) -> float:
    """Twice the negative log-likelihood, of Student's law where the error is from few runs."""
    square = ((row.estimate - row.theory) / row.standard_error) ** 2
    if math.isfinite(row.degrees):
        square = (row.degrees + 1) * math.log1p(square / row.degrees)
    return square + 2 * math.log(row.standard_error)


@dataclass(frozen=True)
class _Candidate:
    """A mistake with twice its negative log-likelihood and its fitted value."""

    mistake: RunMistake
    misfit: float
    penalty: float = 0.0
    values: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Explanations:
    """What was found (`explain`).

    Attributes
    ----------
    fits : list of Fit
        Mistakes that explain the deviations, the likeliest first.
    tried : int
        How many were tried.
    notes : list of str
        What was not tried, and what was simulated.
    """

    fits: list[Fit]
    tried: int
    notes: list[str]


def explain(
    rows: Sequence[RowDeviation], theory: Theory, *, one_set: bool, progress: bool = False
) -> Explanations:
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
    of_theory = [mistake for mistake in tried if mistake.simulated is None]
    of_simulation = [mistake for mistake in tried if mistake.simulated is not None]
    notes = list[str]()
    fits = [*_left_out(table, notes), *_exchanged_rows(table)]
    few_rows_left_out = bool(fits)
    count = len(of_theory)
    attempt = partial(_tried, screened)

    def confirmed(chosen: Sequence[RunMistake]) -> list[Fit]:
        candidates = list(try_all(chosen, attempt, progress=progress))
        return list(_confirmed(table, screened, candidates))

    fits += confirmed([mistake for mistake in of_theory if not mistake.slow])
    exact = any(fit.exact for fit in fits)
    if not exact or max(row.run.sizes["dim"] for row in rows) <= SLOW_DIM:
        fits += confirmed([mistake for mistake in of_theory if mistake.slow])
    if not fits:
        pairs = list(_pairs(of_theory))
        penalty = 2 * math.log(count)
        candidates = list(try_all(pairs, attempt, progress=progress))
        candidates = [replace(candidate, penalty=penalty) for candidate in candidates]
        fits += _confirmed(table, screened, candidates)
        count += len(pairs)
    if of_simulation and not few_rows_left_out and not any(fit.exact for fit in fits):
        runs = [row.run for row in rows]
        if can_simulate(runs):
            fits += confirmed(of_simulation)
            count += len(of_simulation)
            notes.append(simulation_note(runs, len(of_simulation)))
        else:
            notes.append(NOT_SIMULATED)
    fits.sort(key=lambda fit: fit.misfit)
    best = fits[0].misfit - fits[0].searched if fits else 0.0
    return Explanations(
        [replace(fit, likelihood=math.exp((best - fit.misfit) / 2)) for fit in fits], count, notes
    )


def _tried(table: _Table, mistake: RunMistake) -> _Candidate:
    """A mistake with its likelihood; infinite misfit where a row contradicts it clearly."""
    if mistake.free:
        return _fitted(table, mistake)
    if mistake.scanned is not None:
        return _scanned(table, mistake)
    total = _hopeful_misfit(table, mistake)
    return _Candidate(mistake, total)


def _hopeful_misfit(table: _Table, mistake: RunMistake, value: float = math.nan) -> float:
    """Misfit over all rows, the worst first; infinite from a row on that deviates clearly."""
    changed = {}
    for row in table.by_size:
        prediction = table.predicted(row, mistake, value, cheap=True)
        now = table.changed_row(row, mistake, value, prediction)
        if now.judged.keys() != row.judged.keys() or _largest(now) > HOPELESS:
            return math.inf
        changed[row.run.rows] = now
    return table.misfit([changed[row.run.rows] for row in table.rows])


def _fitted(table: _Table, mistake: RunMistake) -> _Candidate:
    """A mistake with the value that fits best, and its interval, as `fit_runs` finds them."""
    runs = [_judged_run(row) for row in table.rows]
    model = RunModel.of(runs, (mistake.free,), table.theory.structure)
    if not _promising(table, model):
        return _Candidate(mistake, math.inf)
    precise, cheap = predictors(table.theory)
    precise = precise if mistake.slow else table.prediction
    solution = fit_model(model, precise, cheap, one_set=table.one_set)[0]
    ends = solution.profile(0).interval(95)
    value, lower, upper = np.exp([solution.x[0], *ends]).tolist()
    predictions = table.predictions(mistake, value, cheap=not mistake.slow)
    misfit = table.misfit(table.changed(mistake, value, predictions))
    return _with_value(mistake, misfit, (value, lower, upper), np.ravel(model.bounds))


def _promising(table: _Table, model: RunModel) -> bool:
    """Whether ratios of limits allow that a fitted value explains the table."""
    if model.absolute or model.structure is not None:
        return True
    x = np.linspace(*model.bounds, LIMITS_TRIED)
    means = np.array([row.prediction.mean for row in table.rows])
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = means * limit_ratios(model, x)
    doubt = np.minimum(DOUBT_OF_LIMITS + DOUBT_OF_MOVE * np.abs(x[:, :1]), LARGEST_DOUBT)
    worst = np.zeros(len(x))
    for place, row in enumerate(table.rows):
        for name, comparison in row.judged.items():
            theory = predicted[:, place] @ MEASURED[name]
            size = predicted[:, place] @ np.abs(MEASURED[name])
            z = (comparison.estimate - theory) / np.hypot(
                comparison.standard_error, doubt[:, 0] * size
            )
            worst = np.maximum(worst, np.where(np.isfinite(z), np.abs(z), 0.0))
    return bool(np.min(worst) < FAR)


def _scanned(table: _Table, mistake: RunMistake) -> _Candidate:
    """A mistake with the value of its range that fits best, and where the misfit rises."""
    assert mistake.scanned is not None
    bounds = np.log(mistake.scanned)

    def misfit(x: float) -> float:
        value = math.exp(x)
        changed = table.changed(mistake, value, table.predictions(mistake, value, cheap=True))
        total = table.misfit(changed)
        return total if math.isfinite(total) else LARGEST_MISFIT

    if mistake.simulated is not None and not _hopeful(table, mistake, bounds):
        return _Candidate(mistake, math.inf)
    grid = np.linspace(*bounds, SCANNED)
    heights = [misfit(x) for x in grid]
    best = int(np.argmin(heights))
    inner = grid[[max(best - 1, 0), min(best + 1, SCANNED - 1)]]
    solution = minimize_scalar(misfit, bounds=inner, method="bounded", options={"xatol": 1e-6})
    height = float(solution.fun)
    level = height + LEVELS[95]

    def end(direction: int) -> float:
        step = END_STEP
        place = float(solution.x)
        while bounds[0] < place + direction * step < bounds[1]:
            if misfit(place + direction * step) > level:
                return float(brentq(lambda x: misfit(x) - level, place, place + direction * step))
            step *= 2
        return float(bounds[(direction + 1) // 2])

    ends = end(-1), end(1)
    values = tuple(np.exp([solution.x, *ends]).tolist())
    return _with_value(mistake, height, values, bounds)


# Stands for an infinite misfit where a minimum is searched.
LARGEST_MISFIT = 1e300

# First step of a logarithm in the search for the end of an interval.
END_STEP = 1e-3


def _hopeful(table: _Table, mistake: RunMistake, bounds: np.ndarray) -> bool:
    """Whether the worst row agrees roughly with a mistake at any value of its range."""
    row = table.by_size[0]
    for x in np.linspace(*bounds, SCANNED):
        value = math.exp(x)
        prediction = table.predicted(row, mistake, value, cheap=True)
        if _largest(table.changed_row(row, mistake, value, prediction)) < HOPELESS:
            return True
    return False


def _with_value(
    mistake: RunMistake, misfit: float, values: tuple[float, ...], bounds: np.ndarray
) -> _Candidate:
    """Candidate with a value, its interval in words, and the penalty of the search for it."""
    value, lower, upper = values
    low, high = np.log([lower, upper])
    # Of a normal likelihood, this share of a uniform law in the logarithm.
    covered = math.sqrt(2 * math.pi / LEVELS[95]) * (high - low) / 2
    penalty = 2 * math.log(float(np.ptp(bounds)) / max(covered, 1e-300))
    below, above = np.isclose([low, high], bounds)
    span = f"{lower:.4g} or more" if above else f"{lower:.4g} to {upper:.4g}"
    span = f"{upper:.4g} or less" if below else span
    named = replace(mistake, text=mistake.text.format(f"{value:.4g} ({span})"))
    return _Candidate(named, misfit, penalty, (value, lower, upper))


def _judged_run(row: RowDeviation) -> MeasuredRun:
    """The run with those errors that are judged."""
    errors = {name: row.run.errors[name] for name in row.judged}
    paired = {"icl", "idg"} <= set(errors)
    return replace(row.run, errors=errors, correlation=row.run.correlation if paired else None)


def _pairs(tried: Sequence[RunMistake]) -> Iterator[RunMistake]:
    """Pairs of a mistake in what was reported and one in the settings."""
    settings = [
        mistake
        for mistake in tried
        if not (mistake.free or mistake.scanned or mistake.slow or mistake.widens)
        and mistake.outcome is None
        and mistake.summarised is None
    ]
    for reported in PAIRED:
        for mistake in settings:
            text = f"{reported.text}, and {mistake.text}"
            yield replace(mistake, text=text, outcome=reported.outcome)


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
            yield Fit(
                mistake.text,
                chi_square(changed),
                misfit + candidate.penalty,
                *(values or ()),
                searched=candidate.penalty if values else 0.0,
                effective=mistake.effective,
                simulated=simulated_runs(mistake, [row.run for row in table.rows]),
            )


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


def _left_out(table: _Table, notes: list[str]) -> Iterator[Fit]:
    """Explanations by rows that do not belong there, as few of them as possible.

    A row that fails in the whole table fails without others, too: it must be left out.  With it
    all sets of other rows are tried, the smallest sets first.
    """
    rows = table.rows
    total = verdict(rows)
    most = len(rows) // LEFT_ROWS
    if len(rows) <= LEFT_ROWS or not total.failures:
        return
    failing = {row.label for row in total.failures}
    needed = [
        place
        for place, row in enumerate(rows)
        if any(comparison.label in failing for comparison in row.judged.values())
    ]
    others = sorted(set(range(len(rows))) - set(needed), key=lambda place: -_largest(rows[place]))
    limit = table.misfit(rows) - BETTER
    tried = 0
    for size in range(max(len(needed), 1), most + 1):
        found = False
        for more in combinations(others, size - len(needed)):
            tried += 1
            if tried > MOST_SETS:
                notes.append(
                    f"More than {MOST_SETS} sets of rows could be left out: not all were."
                )
                return
            places = sorted([*needed, *more])
            rest = [row for place, row in enumerate(rows) if place not in places]
            penalty = 2 * math.log(math.comb(len(rows), size))
            misfit = _misfit_without(table, places) + penalty
            if misfit < limit and verdict(rest).holds:
                found = True
                yield _without(table, places, rest, misfit, penalty)
        if found:
            return


def _without(
    table: _Table,
    places: Sequence[int],
    rest: Sequence[RowDeviation],
    misfit: float,
    penalty: float,
) -> Fit:
    """Explanation by rows that are left out."""
    numbers = tuple(table.rows[place].run.rows[0] for place in places)
    words = f"row {numbers[0]} is left out"
    if len(numbers) > 1:
        words = f"rows {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} are left out"
    return Fit(words, chi_square(rest), misfit, searched=penalty, left_out=numbers)


def _exchanged_rows(table: _Table) -> Iterator[Fit]:
    """Explanations by two rows that are exchanged."""
    rows = table.rows
    if len(rows) <= LEFT_ROWS or not verdict(rows).failures:
        return
    worst = sorted(range(len(rows)), key=lambda place: -_largest(rows[place]))[:WORST_ROWS]
    limit = table.misfit(rows) - BETTER
    count = len(rows) * (len(rows) - 1) / 2
    for i, j in combinations(sorted(worst), 2):
        if rows[i].run.errors.keys() != rows[j].run.errors.keys():
            continue
        changed = _exchanged(table, i, j)
        misfit = table.misfit(changed) + 2 * math.log(count)
        if misfit < limit and verdict(changed).holds:
            names = " and ".join(str(rows[place].run.rows[0]) for place in (i, j))
            yield Fit(f"the errors of rows {names} are exchanged", chi_square(changed), misfit)


def _misfit_without(table: _Table, places: Sequence[int]) -> float:
    """Misfit with rows left out, as if their error bars were as large as their deviations."""
    judged = [row for place in places for row in table.rows[place].judged.values()]
    sizes = [max(abs(row.estimate - row.theory), row.standard_error) for row in judged]
    lost = sum(1 + 2 * math.log(size) for size in sizes)
    gained = table.share * (lost - sum(map(_misfit, judged)))
    return table.misfit(table.rows) + gained


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
