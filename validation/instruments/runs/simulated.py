"""Predictions of experiments that have no theory: simulated over simulated, times the theory.

The stated experiment and its variant are made with the same draws by plain dense code
(`iclimit.simulate.pretraining.variants`), so that the ratio of their errors scatters less than
either.  It multiplies the prediction of the stated one.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iclimit.experiment import Experiment
from iclimit.simulate.pretraining.variants import MOST_DIM, Variant, variant_errors
from iclimit.validation.instruments.runs.judgement import RowDeviation
from iclimit.validation.instruments.runs.measured import ATTENTION, MeasuredRun
from iclimit.validation.instruments.runs.mistakes import RunMistake, Simulated
from iclimit.validation.instruments.runs.predictions import (
    Prediction,
    Theory,
    numbers_of_labels,
    welch_degrees,
)

# A run with what differs in it.
Case = tuple[Experiment, Variant]

# Most simulated runs of a row when a mistake is first tried, and when it is confirmed.
FEW_SIMULATED = 16
MANY_SIMULATED = 80

# Fewest simulated runs: the precision of their ratio has one degree of freedom less.
LEAST_SIMULATED = 8

# Operations for the runs of a row when a mistake is first tried: at d = 24 and n = 900 these are 8
# runs, which take half a second.
OPERATIONS = 2e9

# Operations of a run that do not come from its normal equations, such as drawing it.
DRAWING = 5e7

# Most operations of the simulated runs that a table takes for one mistake.
MOST_OPERATIONS = 3e11

NOT_SIMULATED = (
    f"Mistakes without a theory were not tried: they are simulated up to d = {MOST_DIM}, and for "
    "tables that take no more than minutes."
)


def _operations(run: MeasuredRun) -> float:
    """Operations of a simulated run."""
    dim = run.sizes["dim"]
    features = dim * (dim + 2)
    count = run.sizes["prompts"]
    return float(count * features * min(count, features) + DRAWING)


def _repeats(run: MeasuredRun, most: int) -> int:
    """Simulated runs of a row."""
    affordable = int(OPERATIONS * most / FEW_SIMULATED / _operations(run))
    return min(max(affordable, LEAST_SIMULATED), most)


def can_simulate(runs: Sequence[MeasuredRun]) -> bool:
    """Whether the runs of a table are small enough, and of attention."""
    fits = all(
        run.sizes["dim"] <= MOST_DIM and run.estimator == ATTENTION and not run.tests
        for run in runs
    )
    work = sum(_operations(run) * _repeats(run, FEW_SIMULATED) for run in runs)
    return fits and work <= MOST_OPERATIONS


def simulated_runs(mistake: RunMistake, runs: Sequence[MeasuredRun]) -> int:
    """Simulated runs of the row with fewest of them, when a mistake is confirmed; 0: none."""
    if mistake.simulated is None:
        return 0
    return min(_repeats(run, MANY_SIMULATED) for run in runs)


def simulation_note(runs: Sequence[MeasuredRun], count: int) -> str:
    """What was simulated, in a sentence."""
    few = min(_repeats(run, FEW_SIMULATED) for run in runs)
    many = min(_repeats(run, MANY_SIMULATED) for run in runs)
    return (
        f"{count} of these have no theory and were simulated: {few} or more runs of a row, "
        f"{many} or more of what may agree."
    )


def simulated_prediction(
    row: RowDeviation,
    true: MeasuredRun,
    simulated: Simulated,
    value: float,
    theory: Theory,
    most: int,
) -> Prediction:
    """Prediction of a row for another experiment.

    Parameters
    ----------
    row : RowDeviation
        The row as it is stated, with its prediction.
    true : MeasuredRun
        The run that was made.
    simulated : Simulated
        Its variants.
    value : float
        Value of the mistake, if it has one.
    theory : Theory
        Laws of tasks and numbers of prompts.
    most : int
        Most runs that are simulated.

    Raises
    ------
    ValueError
        If there is no prediction of the stated run.
    """
    prediction = row.prediction
    if not prediction.finite:
        raise ValueError(f"{row.run.label}: there is no finite prediction")
    repeats = _repeats(row.run, most)
    cases = [_stated(row.run, theory), *_cases(true, simulated, theory)]
    stated, *variants = _simulated(cases, _seed(theory, row.run), repeats)
    base = np.mean(stated, axis=0)
    ratios = np.array([np.mean(errors, axis=0) for errors in variants]) / base
    ratio = simulated.between(value, ratios)
    # To first order, what a run changes in the ratio.
    step = np.array(
        [
            simulated.between(value, ratios + errors / base - ratios * stated_run / base) - ratio
            for errors, stated_run in zip(np.swapaxes(variants, 0, 1), stated, strict=True)
        ]
    )
    scatter = np.cov(step.T) / repeats * np.outer(prediction.mean, prediction.mean)
    if not (np.all(ratio > 0) and np.all(np.isfinite(scatter))):
        raise ValueError(f"{row.run.label}: no such experiment has positive errors")
    scaled = prediction.scaled(ratio)
    parts = [float(np.trace(scaled.covariance)), float(np.trace(scatter))]
    return replace(
        scaled,
        covariance=scaled.covariance + scatter,
        degrees=welch_degrees(parts, [prediction.degrees, repeats - 1.0]),
    )


def simulate_together(
    row: RowDeviation, trials: Sequence[tuple[MeasuredRun, Simulated]], theory: Theory, most: int
) -> None:
    """Simulate several experiments of a row at once, so that they share their draws.

    `simulated_prediction` finds them then.
    """
    cases = [_stated(row.run, theory)]
    for true, simulated in trials:
        cases += _cases(true, simulated, theory)
    _simulated(list(dict.fromkeys(cases)), _seed(theory, row.run), _repeats(row.run, most))


def _stated(run: MeasuredRun, theory: Theory) -> Case:
    """The experiment as the table states it."""
    return theory.of(run.experiment), Variant()


def _cases(true: MeasuredRun, simulated: Simulated, theory: Theory) -> list[Case]:
    """The variants of a run."""
    run = theory.of(true.experiment)
    return [(run, variant) for variant in simulated.variants(true)]


def _seed(theory: Theory, run: MeasuredRun) -> int:
    """Seed of a row, the same for all its variants."""
    sizes = [0 if size == math.inf else int(size) for size in run.sizes.values()]
    # Rows that differ in noise, ridge or labels alone must not share their draws.
    levels = np.array([run.rho, run.ridge]).view(np.uint64).tolist()
    labels = numbers_of_labels(run.experiment.problem)
    sequence = np.random.SeedSequence([theory.root, *sizes, *levels, *labels])
    return int(np.random.default_rng(sequence).integers(2**62))


def _simulated(cases: Sequence[Case], seed: int, repeats: int) -> list[np.ndarray]:
    """Errors (repeats, 2) of each case, of which those that were simulated before are kept."""
    new = [case for case in cases if (case, seed, repeats) not in _KEPT]
    if new:
        while len(_KEPT) > MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        errors = variant_errors(new, rng=seed, repeats=repeats)
        _KEPT.update(
            {(case, seed, repeats): error for case, error in zip(new, errors, strict=True)}
        )
    return [_KEPT[case, seed, repeats] for case in cases]


# Simulated errors by case, seed and number of runs.
_KEPT: dict[tuple[Case, int, int], np.ndarray] = {}

# Most of them that are kept, a kilobyte each.
MOST_KEPT = 10_000
