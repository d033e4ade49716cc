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
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from scipy.special import stdtr
from tqdm.auto import tqdm

from iclimit.validation.instruments.explaining import try_all
from iclimit.validation.instruments.runs.judgement import (
    ChiSquare,
    RowDeviation,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.instruments.runs.mistakes import (
    OTHER_AVERAGES,
    PAIRED,
    SINGLE_RUN,
    RunMistake,
    mistakes,
)
from iclimit.validation.instruments.runs.predictions import Theory
from iclimit.validation.instruments.runs.scatter import ScatterRatio, scatter_ratios
from iclimit.validation.instruments.runs.searches import SCANNED, searched
from iclimit.validation.instruments.runs.simulated import (
    FEW_SIMULATED,
    MANY_SIMULATED,
    NOT_SIMULATED,
    can_simulate,
    simulate_together,
    simulated_runs,
    simulation_note,
)
from iclimit.validation.instruments.runs.trials import Candidate, TriedTable, largest, misfit_of
from iclimit.validation.instruments.runs.undetermined import undetermined_rows

# Rows that are tried first, evenly spaced: screening takes 1 to 10 ms for a row and mistake.
SCREENED_ROWS = 12

# Most explanations that are tried by full predictions, which take as long as the check itself.
CONFIRMED = 12

# Twice the logarithm of the likelihood ratio on screening, to the best one, beyond which an
# explanation is not tried any more.
WITHIN = 25.0

# Above this dimension what takes full predictions is tried only if nothing else agrees.
SLOW_DIM = 48

# A mistake must raise twice the log-likelihood by so much: its odds by a factor of 150.
BETTER = 10.0

# Least relative deviation that must be noticed if a mistake was made.
NOTICED = 0.5

# Probability with which deviations of one sign, or far below wider error bars, are excluded.
EXCLUDED = 0.01

# An explanation settles the matter if chi-square is larger by chance with this probability.
SETTLED = 0.1

# It does not settle the matter if another one, its search not counted, has twice the logarithm of
# the likelihood larger by this: a true one is beaten so by two standard errors of one more value.
BEATEN = 4.0

# Range of the measured scatter over the predicted one if error bars are over batches of prompts,
# which have no relation to it, and the odds with which a ratio says that they are not.
OTHER_SCATTER = (0.1, 10.0)
SAME_SCATTER = 3.0

# Least odds: tails of the law of a predicted scatter are not known.
LEAST_ODDS = 1e-3

# Most rows that are left out or exchanged.
WORST_ROWS = 30

# Rows are left out or exchanged only in a table with more rows than this, and at most one of so
# many is left out.
LEFT_ROWS = 3

# Most sets of rows that are left out in turn.
MOST_SETS = 10_000


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
    weak : bool
        Whether it makes much agree, such as wider error bars.
    of_settings : bool
        Whether it says only that settings are other ones, as another experiment may look.
    z : tuple of float
        Deviations of the errors in standard errors if it was made.
    like : str
        A likelier explanation from which the table does not tell it.
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
    weak: bool = False
    of_settings: bool = False
    z: tuple[float, ...] = ()
    like: str = ""

    @property
    def settles(self) -> bool:
        """Whether it agrees so well that nothing is simulated to find another one."""
        doubted = self.effective or self.weak or self.of_settings
        return not doubted and self.chi_square.p_value > SETTLED

    @property
    def exact(self) -> bool:
        """Whether it is a mistake without a fitted value and without rows that are left out."""
        return not (self.effective or self.left_out)


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
    table = TriedTable(rows, theory, one_set)
    screened = TriedTable(rows[:: math.ceil(len(rows) / SCREENED_ROWS)], theory, one_set)
    tried = mistakes([row.run for row in rows], theory, one_set=one_set)
    ratios = list(scatter_ratios(rows, one_set=one_set).values())
    if _scatter_is_of_runs(ratios):
        tried = [mistake for mistake in tried if mistake is not SINGLE_RUN]
    of_theory = [mistake for mistake in tried if mistake.simulated is None]
    of_simulation = [mistake for mistake in tried if mistake.simulated is not None]
    notes = list[str]()
    fits = [*_left_out(table, notes), *_exchanged_rows(table), *_undetermined(table)]
    count = len(of_theory)

    def confirmed(chosen: Sequence[RunMistake], penalty: float = 0.0) -> list[Fit]:
        hopeful = screened.allowed_by_limits(chosen)
        candidates = list(try_all(hopeful, partial(_tried, screened), progress=progress))
        candidates = [
            replace(row, penalty=row.penalty + penalty + _scatter_penalty(row.mistake, ratios))
            for row in candidates
        ]
        return list(_confirmed(table, screened, candidates))

    fits += confirmed([mistake for mistake in of_theory if not mistake.slow])
    settled = any(fit.settles and fit.exact for fit in fits)
    if not settled or max(row.run.sizes["dim"] for row in rows) <= SLOW_DIM:
        fits += confirmed([mistake for mistake in of_theory if mistake.slow])
    if of_simulation and not _settled(fits):
        runs = [row.run for row in rows]
        if can_simulate(runs):
            hopeful = _hopeful(screened, of_simulation, progress=progress)
            fits += confirmed(hopeful)
            count += len(of_simulation)
            notes.append(simulation_note(runs, len(of_simulation)))
        else:
            notes.append(NOT_SIMULATED)
    if not any(fit.exact for fit in fits):
        fits += confirmed(OTHER_AVERAGES)
        count += len(OTHER_AVERAGES)
    if not fits:
        pairs = list(_pairs(of_theory))
        fits += confirmed(pairs, 2 * math.log(max(count, 1)))
        count += len(pairs)
    fits = _in_groups(fits, table.share)
    best = fits[0].misfit - fits[0].searched if fits else 0.0
    return Explanations(
        [replace(fit, likelihood=math.exp((best - fit.misfit) / 2)) for fit in fits], count, notes
    )


def _settled(fits: Sequence[Fit]) -> bool:
    """Whether an explanation agrees so well that nothing is simulated to find another one."""
    least = min((fit.misfit - fit.searched for fit in fits), default=0.0)
    likely = [fit for fit in fits if fit.left_out or fit.misfit < least + BEATEN]
    return any(fit.settles for fit in likely)


def _in_groups(fits: Sequence[Fit], share: float) -> list[Fit]:
    """Explanations, the likeliest first, each before those that the table does not tell from it.

    Of two whose deviations differ by a chi-square below `BETTER`, the wrong one is the likelier
    one by chance in 1 of 20 tables, or in more.
    """
    groups: list[list[Fit]] = []
    for fit in sorted(fits, key=lambda fit: fit.misfit):
        for group in groups:
            if share * _squared_distance(group[0], fit) < BETTER:
                group.append(replace(fit, like=group[0].text))
                break
        else:
            groups.append([fit])
    return [fit for group in groups for fit in group]


def _squared_distance(fit: Fit, other: Fit) -> float:
    """Chi-square by which two explanations differ; infinite where they are of other kinds."""
    if not fit.z or not other.z or fit.weak or other.weak:
        return math.inf
    return float(np.sum((np.array(fit.z) - np.array(other.z)) ** 2))


def _scatter_is_of_runs(ratios: Sequence[ScatterRatio]) -> bool:
    """Whether error bars and numbers of runs are known to be those of the scatter of runs."""
    return bool(ratios) and all(_odds_of_runs(row) > SAME_SCATTER for row in ratios)


def _odds_of_runs(row: ScatterRatio, expected: float = 1.0) -> float:
    """Odds that a ratio is near the expected one, as that of runs is near 1, and not anywhere.

    Its square then has the law of chi-square over its degrees of freedom.
    """
    if not row.ratio:
        return 0.0
    half = row.degrees / 2
    square = half * (row.ratio / expected) ** 2
    density = 2 * math.exp(half * math.log(square) - square - math.lgamma(half))
    low, high = OTHER_SCATTER
    return density * math.log(high / low)


def _scatter_penalty(mistake: RunMistake, ratios: Sequence[ScatterRatio]) -> float:
    """Twice the logarithm of the odds of the scatter if error bars are right, not other ones.

    The errors of a row are of the same runs: the mean over them counts once.
    """
    if not mistake.widens or not ratios:
        return 0.0
    odds = []
    for row in ratios:
        other = 1.0
        if mistake.scatter is not None:
            other = _odds_of_runs(row, mistake.scatter(row))
        odds.append(max(_odds_of_runs(row), LEAST_ODDS) / max(other, LEAST_ODDS))
    return 2 * float(np.mean(np.log(odds)))


def _tried(table: TriedTable, mistake: RunMistake) -> Candidate:
    """A mistake with its likelihood, and its value if it has one."""
    if mistake.free or mistake.scanned is not None:
        return searched(table, mistake)
    return table.tried(mistake)


def _hopeful(
    table: TriedTable, chosen: Sequence[RunMistake], *, progress: bool
) -> Sequence[RunMistake]:
    """Experiments that no row contradicts clearly, simulated row by row, the worst row first."""
    alive = list(chosen)
    for row in tqdm(table.by_size, disable=not progress, desc="simulating", leave=False):
        _simulate_row(table, row, alive, FEW_SIMULATED)
        alive = [mistake for mistake in alive if _agrees_roughly(table, row, mistake)]
        if not alive:
            break
    return alive


def _agrees_roughly(table: TriedTable, row: RowDeviation, mistake: RunMistake) -> bool:
    """Whether a row agrees roughly with a mistake, at any value if it has one."""
    values = [math.nan]
    if mistake.scanned is not None:
        values = np.geomspace(*mistake.scanned, SCANNED).tolist()
    for value in values:
        with suppress(ValueError):
            if table.row_agrees_roughly(row, mistake, value):
                return True
    return False


def _simulate_row(
    table: TriedTable, row: RowDeviation, chosen: Sequence[RunMistake], most: int
) -> None:
    """Simulate a row for several mistakes at once."""
    trials = []
    for mistake in chosen:
        if mistake.simulated is not None:
            with suppress(ValueError):
                trials.append((mistake.true_run(row.run), mistake.simulated))
    if trials:
        simulate_together(row, trials, table.theory, most)


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


def _confirmed(
    table: TriedTable, screened: TriedTable, candidates: Sequence[Candidate]
) -> Iterator[Fit]:
    """Candidates that explain the whole table by full predictions."""
    plain = screened.misfit(screened.rows)
    whole = table.misfit(table.rows)
    better = [candidate for candidate in candidates if candidate.misfit < plain - BETTER]
    better.sort(key=lambda candidate: candidate.misfit + candidate.penalty)
    least = min((candidate.misfit + candidate.penalty for candidate in better), default=0.0)
    better = [row for row in better if row.misfit + row.penalty <= least + WITHIN][:CONFIRMED]
    for row in table.rows:
        _simulate_row(table, row, [candidate.mistake for candidate in better], MANY_SIMULATED)
    for candidate in better:
        mistake = candidate.mistake
        values = candidate.values
        value = values[0] if values else math.nan
        # Of an effective value cheap predictions are precise enough, where they see it at all.
        cheap = values is not None and not (mistake.slow or mistake.simulated)
        try:
            predictions = table.predictions(mistake, value, cheap=cheap)
        except ValueError:
            continue
        changed = table.changed(mistake, value, predictions)
        misfit = table.misfit(changed)
        if misfit < whole - BETTER and _explains(table, mistake, changed):
            yield Fit(
                mistake.text,
                chi_square(changed),
                misfit + candidate.penalty,
                value=values[0] if values else None,
                lower=values[1] if values else None,
                upper=values[2] if values else None,
                searched=candidate.penalty if values else 0.0,
                effective=mistake.effective,
                simulated=simulated_runs(mistake, [row.run for row in table.rows]),
                weak=mistake.weak,
                of_settings=mistake.of_settings,
                z=tuple(row.z for now in changed for row in now.judged.values()),
            )


def _explains(table: TriedTable, mistake: RunMistake, changed: Sequence[RowDeviation]) -> bool:
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


def _left_out(table: TriedTable, notes: list[str]) -> Iterator[Fit]:
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
    others = sorted(set(range(len(rows))) - set(needed), key=lambda place: -largest(rows[place]))
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


def _undetermined(table: TriedTable) -> Iterator[Fit]:
    """Explanation by rows whose result prompts do not determine (`undetermined_rows`)."""
    for words, places in undetermined_rows(table.rows):
        rest = [row for place, row in enumerate(table.rows) if place not in places]
        # One of so many bounds was chosen.
        penalty = 2 * math.log(len(table.rows))
        misfit = _misfit_without(table, places) + penalty
        if misfit < table.misfit(table.rows) - BETTER:
            fit = _without(table, places, rest, misfit, penalty)
            yield replace(fit, text=words, left_out=())


def _without(
    table: TriedTable,
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


def _exchanged_rows(table: TriedTable) -> Iterator[Fit]:
    """Explanations by two rows that are exchanged."""
    rows = table.rows
    if len(rows) <= LEFT_ROWS or not verdict(rows).failures:
        return
    worst = sorted(range(len(rows)), key=lambda place: -largest(rows[place]))[:WORST_ROWS]
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


def _misfit_without(table: TriedTable, places: Sequence[int]) -> float:
    """Misfit with rows left out, as if their error bars were as large as their deviations."""
    judged = [row for place in places for row in table.rows[place].judged.values()]
    sizes = [max(abs(row.estimate - row.theory), row.standard_error) for row in judged]
    lost = sum(1 + 2 * math.log(size) for size in sizes)
    gained = table.share * (lost - sum(map(misfit_of, judged)))
    return table.misfit(table.rows) + gained


def _exchanged(table: TriedTable, i: int, j: int) -> list[RowDeviation]:
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
