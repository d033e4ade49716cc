"""Which mistakes would explain a contradiction.

A mistake is a change of the measured errors, of the settings or of the theory.  Mistakes are tried
one by one if the table as it stands contradicts the theory, and reported; none is ever applied.

All are first tried with predictions from mean moments: the ratio of two of these multiplies the
full prediction.  The best are confirmed by full predictions.  They are ranked by their likelihood:
chi-square alone would favour whatever makes error bars larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from tqdm.auto import tqdm

from iclimit.results import Estimate
from iclimit.validation.yours.runs.judgement import (
    ChiSquare,
    RowDeviation,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.yours.runs.measured import MeasuredRun
from iclimit.validation.yours.runs.predictions import Prediction, Theory, predict, replaced


@dataclass(frozen=True)
class Mistake:
    """A possible mistake, and what it changes.

    Attributes
    ----------
    text : str
        Completes "fits if ...".
    change : callable
        From a run as it was read to a run without the mistake.
    scale : callable
        Factor by which that changes small differences of the measured errors.
    theory : Theory, optional
        What to compare with instead.
    one_set : bool, optional
        Whether the runs of a row share a task set, instead of what was said.
    """

    text: str
    change: Callable[[MeasuredRun], MeasuredRun] = lambda run: run
    scale: Callable[[MeasuredRun], Mapping[str, float]] = lambda _: {}
    theory: Theory | None = None
    one_set: bool | None = None


def mistakes(runs: Sequence[MeasuredRun], theory: Theory, *, one_set: bool) -> Iterator[Mistake]:
    """All mistakes that are tried."""
    for text, factor, noise in ERRORS:
        yield Mistake(text, partial(_linear, factor=factor, noise=noise), partial(_same, factor))
    if not any("gap" in run.errors and len(run.errors) == 1 for run in runs):
        yield Mistake("errors are roots of the squared errors", _squared, _twice_the_means)
    if all("icl" in run.errors and "idg" in run.errors for run in runs):
        yield Mistake("icl and idg are exchanged", _exchanged)
    if any(run.deviations_given for run in runs):
        yield Mistake("standard deviations are standard errors of the mean", _wider_bars)
    if not one_set:
        yield Mistake("the runs of a row share one task set", one_set=True)
    for text, changes in SETTINGS:
        yield Mistake(text, partial(_reset, changes=changes))
    if theory.structure is None:
        law = "gaussian" if theory.task_law == "sphere" else "sphere"
        text = "N(0, I)" if law == "gaussian" else "of squared norm d"
        yield Mistake(f"tasks are {text}", theory=replace(theory, task_law=law))
        equal = "random" if theory.balanced else "the same"
        other = replace(theory, balanced=not theory.balanced)
        yield Mistake(f"the number of prompts is {equal} for every task", theory=other)


Number = Callable[[MeasuredRun], float]

# Mistakes in what was measured: factor of the errors, and of the label noise that is added.
ERRORS: tuple[tuple[str, Number, float], ...] = (
    ("errors are half the squared errors", lambda _: 2.0, 0.0),
    ("errors are twice the squared errors", lambda _: 0.5, 0.0),
    ("errors leave out the label noise of the query", lambda _: 1.0, 1.0),
    ("errors are half the squared errors without label noise", lambda _: 2.0, 1.0),
    ("errors are divided by the variance 1 + rho of labels", lambda run: 1 + run.rho, 0.0),
    ("inputs have variance 1 instead of 1/d", lambda run: 1 / run.sizes["dim"], 0.0),
)

# What the ridge may be, and the factor by which it then is another one.
RIDGES: tuple[tuple[str, Number], ...] = (
    ("d times as large", lambda run: run.sizes["dim"]),
    ("smaller by the factor d", lambda run: 1 / run.sizes["dim"]),
    ("n/d times as large", lambda run: run.sizes["prompts"] / run.sizes["dim"]),
    ("smaller by the factor n/d", lambda run: run.sizes["dim"] / run.sizes["prompts"]),
    ("n times as large", lambda run: run.sizes["prompts"]),
    ("smaller by the factor n", lambda run: 1 / run.sizes["prompts"]),
    ("tau times as large", lambda run: run.ratios["tau"]),
    ("smaller by the factor tau", lambda run: 1 / run.ratios["tau"]),
    ("twice as large", lambda _: 2.0),
    ("half as large", lambda _: 0.5),
    ("0", lambda _: 0.0),
)


def _rounded(run: MeasuredRun, function: Callable[[float], int]) -> dict[str, float]:
    """Sizes that came out of ratios, rounded otherwise; integers stay."""
    return {
        name: max(1, function(value))
        for name, value in run.unrounded.items()
        if value < math.inf and abs(value - round(value)) > 1e-6 * max(1.0, value)
    }


# Mistakes in the settings, and what they are without the mistake.
SETTINGS: tuple[tuple[str, Callable[[MeasuredRun], Mapping[str, float]]], ...] = (
    (
        "tau counts prompts over d (d + 1)",
        lambda run: {"prompts": max(1, round(run.sizes["prompts"] * (1 + 1 / run.sizes["dim"])))},
    ),
    ("the context has one pair more", lambda run: {"context": run.sizes["context"] + 1}),
    ("the context has one pair less", lambda run: {"context": max(1, run.sizes["context"] - 1)}),
    ("ratios are rounded down", partial(_rounded, function=math.floor)),
    ("ratios are rounded up", partial(_rounded, function=math.ceil)),
    ("ratios are rounded to the nearest", partial(_rounded, function=round)),
    ("rho is a standard deviation", lambda run: {"rho": run.rho**2}),
    ("rho is d times as large", lambda run: {"rho": run.rho * run.sizes["dim"]}),
    ("rho is smaller by the factor d", lambda run: {"rho": run.rho / run.sizes["dim"]}),
    ("there is no label noise", lambda _: {"rho": 0.0}),
    *(
        (f"the ridge is {text}", lambda run, factor=factor: {"ridge": run.ridge * factor(run)})
        for text, factor in RIDGES
    ),
)


def _reset(run: MeasuredRun, changes: Callable[[MeasuredRun], Mapping[str, float]]) -> MeasuredRun:
    return replaced(run, **changes(run))


def _linear(run: MeasuredRun, factor: Number, noise: float) -> MeasuredRun:
    shift = {"icl": noise * run.rho, "idg": noise * run.rho, "gap": 0.0}
    errors = {name: _scaled(each, factor(run), shift[name]) for name, each in run.errors.items()}
    return replace(run, errors=errors)


def _same(factor: Number, run: MeasuredRun) -> Mapping[str, float]:
    return dict.fromkeys(run.errors, factor(run))


def _twice_the_means(run: MeasuredRun) -> Mapping[str, float]:
    return {name: 2 * abs(each.mean) for name, each in run.errors.items()}


def _scaled(estimate: Estimate, factor: float, shift: float = 0.0) -> Estimate:
    mean, error = factor * estimate.mean + shift, abs(factor) * estimate.standard_error
    return Estimate(mean, error, estimate.repeats)


def _squared(run: MeasuredRun) -> MeasuredRun:
    errors = {
        name: _scaled(each, 2 * abs(each.mean), each.mean**2 - 2 * abs(each.mean) * each.mean)
        for name, each in run.errors.items()
        if name != "gap"
    }
    return replace(run, errors=errors)


def _exchanged(run: MeasuredRun) -> MeasuredRun:
    errors = dict(run.errors)
    errors["icl"], errors["idg"] = errors["idg"], errors["icl"]
    if "gap" in errors:
        errors["gap"] = _scaled(errors["gap"], -1.0)
    return replace(run, errors=errors)


def _wider_bars(run: MeasuredRun) -> MeasuredRun:
    factor = math.sqrt(run.runs or 1)
    errors = {
        name: Estimate(each.mean, each.standard_error * factor, each.repeats)
        for name, each in run.errors.items()
    }
    return replace(run, errors=errors)


# Rows that are tried first, evenly spaced: screening takes 1 to 10 ms for a row and mistake.
SCREENED_ROWS = 20

# How many of the best are confirmed by full predictions, which take as long as the check itself,
# and how far their likelihoods may be from the best one's.
CONFIRMED, WITHIN = 4, 60.0

# Above this dimension other laws of the tasks and their prompts, which take full predictions, are
# tried only if nothing else fits.
SLOW_DIM = 48

# A mistake must raise twice the log-likelihood by so much: its odds by a factor of 150.
BETTER = 10.0

# Mistakes within this of the best are not told apart: odds of less than 20.
ALIKE = 6.0

# Where nothing fits, the best is shown if it takes off this share of chi-square.
NEAREST = 0.5


@dataclass(frozen=True)
class Fit:
    """What a mistake would explain.

    Attributes
    ----------
    text : str
        The mistake; completes "fits if ...".
    chi_square : ChiSquare
        Of all deviations if it was made.
    fits : bool
        Whether nothing contradicts the theory then.
    misfit : float
        Twice the negative log-likelihood, up to a constant.
    """

    text: str
    chi_square: ChiSquare
    fits: bool
    misfit: float


def explain(
    rows: Sequence[RowDeviation], theory: Theory, *, one_set: bool, progress: bool = False
) -> tuple[list[Fit], int]:
    """Mistakes that would explain the deviations, the likeliest first, and how many were tried.

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
    screened = rows[:: math.ceil(len(rows) / SCREENED_ROWS)]
    runs = [row.run for row in rows]
    cheap = replace(theory, cheap=True)
    anchors = [predict(row.run, cheap) for row in screened]
    tried = list(_that_differ(mistakes(runs, theory, one_set=one_set), runs))
    slow = max(run.sizes["dim"] for run in runs) > SLOW_DIM
    plain, ranked, fitting = _misfit(screened, screened, Mistake("")), [], False
    ordered = sorted(tried, key=lambda each: each.theory is not None)
    for mistake in tqdm(ordered, disable=not progress, desc="trying mistakes", leave=False):
        if mistake.theory is not None and slow and fitting:
            break
        try:
            changed = [
                _screen(row, anchor, mistake, cheap, one_set)
                for row, anchor in zip(screened, anchors, strict=True)
            ]
        except ValueError:
            continue  # there is no prediction
        ranked.append((_misfit(changed, screened, mistake), mistake))
        fitting = fitting or (ranked[-1][0] < plain - BETTER and verdict(changed).holds)
    limit = min(plain - BETTER, min(misfit for misfit, _ in ranked) + WITHIN)
    better = sorted((pair for pair in ranked if pair[0] <= limit), key=lambda pair: pair[0])
    fits = [_confirm(rows, mistake, theory, one_set) for _, mistake in better[:CONFIRMED]]
    before = _misfit(rows, rows, Mistake(""))
    fits = [fit for fit in fits if fit.misfit < before - BETTER]
    return sorted(fits, key=lambda fit: fit.misfit), len(tried)


def _that_differ(possible: Iterator[Mistake], runs: Sequence[MeasuredRun]) -> Iterator[Mistake]:
    """Mistakes that change something, each change once."""
    seen = [list(runs)]
    for mistake in possible:
        changed = [mistake.change(run) for run in runs]
        if mistake.theory is None and mistake.one_set is None:
            if changed in seen:
                continue
            seen.append(changed)
        yield mistake


def likeliest(fits: Sequence[Fit], plain: ChiSquare) -> list[Fit]:
    """Fits worth reporting: those that fit about as well as the best, else the nearest."""
    good = [fit for fit in fits if fit.fits]
    if good:
        return [fit for fit in good if fit.misfit <= good[0].misfit + ALIKE]
    near = [fit for fit in fits if fit.chi_square.value <= NEAREST * plain.value]
    return near[:1]


def _screen(
    row: RowDeviation, anchor: Prediction, mistake: Mistake, cheap: Theory, one_set: bool
) -> RowDeviation:
    """Deviation of a row if the mistake was made; its prediction from a ratio of cheap ones."""
    run, prediction = mistake.change(row.run), row.prediction
    if mistake.theory is not None:
        # Mean moments do not see the counts of prompts, and see few draws of the tasks' norms.
        prediction = predict(run, mistake.theory)
    elif _setting(run) != _setting(row.run):
        ratio = predict(run, cheap).mean / anchor.mean
        prediction = replace(
            prediction,
            mean=prediction.mean * ratio,
            covariance=prediction.covariance * np.outer(ratio, ratio),
            spread=prediction.spread * np.outer(ratio, ratio),
        )
    shared = one_set if mistake.one_set is None else mistake.one_set
    return compare_run(run, prediction, one_set=shared)


def _confirm(rows: Sequence[RowDeviation], mistake: Mistake, theory: Theory, one_set: bool) -> Fit:
    """Deviations of all rows if the mistake was made, from full predictions."""
    changed, other = [], mistake.theory or theory
    shared = one_set if mistake.one_set is None else mistake.one_set
    for row in rows:
        run = mistake.change(row.run)
        same = _setting(run) == _setting(row.run) and other == theory
        prediction = row.prediction if same else predict(run, other)
        changed.append(compare_run(run, prediction, one_set=shared))
    misfit = _misfit(changed, rows, mistake)
    return Fit(mistake.text, chi_square(changed), verdict(changed).holds, misfit)


def _setting(run: MeasuredRun) -> tuple[object, ...]:
    return (*run.sizes.values(), run.rho, run.ridge)


def _misfit(
    changed: Sequence[RowDeviation], rows: Sequence[RowDeviation], mistake: Mistake
) -> float:
    """Twice the negative log-likelihood of what was measured; infinite where rows are lost."""
    total = 0.0
    for now, before in zip(changed, rows, strict=True):
        scale = mistake.scale(before.run)
        for name, row in before.comparisons.items():
            if math.isfinite(row.standard_error) and name in now.comparisons:
                error = now.comparisons[name].standard_error
                if not math.isfinite(error):
                    return math.inf
                total += now.comparisons[name].z ** 2 + 2 * math.log(error / scale.get(name, 1.0))
    return total
