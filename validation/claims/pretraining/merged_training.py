"""Merged attention on n prompts: its plateau, and its errors along the way.

Runs of gradient descent of a value times a key-query matrix on n prompts, extrapolated to infinite
dimension, have the ICL error, the IDG error, the training loss and the strength of the solution
of a scalar Volterra equation.  The time at which their plateau ends is that of the growth of small
weights along the mean of label times feature of their prompts.

Source: Derived in the documentation; the model is that of {zhang2025}.
"""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit import experiment
from iclimit.asymptotics.pretraining import merged_training_errors, plateau_end
from iclimit.asymptotics.pretraining.finite_merged import finite_merged_errors
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import simulate_descent
from iclimit.simulate.prompts.sampling import draw_task_set
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.statement import named_cell
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run

# Ratios, on both sides of tau = 1.
FRESH: tuple[dict[str, Any], ...] = (
    {"tau": 2, "alpha": 1, "kappa": math.inf, "rho": 0.1},
    {"tau": 0.5, "alpha": 2, "kappa": math.inf, "rho": 0.2},
)
FEW: dict[str, Any] = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1}
# Scale of the start.
SCALE = 0.3
# Times of the errors: at the drop, after it, and when the ICL error rises.
TIMES = (0.8, 1.6, 2.8)
# Time of a step, on which errors depend to the first order: half of it moves them by 0.1 %.
STEP = 0.01
# Runs by dimension, and dimensions from which the limit of their predictions is extrapolated.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {6: 16, 8: 16, 10: 16, 12: 16},
    "quick": {12: 80, 16: 50, 24: 24, 32: 16},
    "medium": {12: 1000, 16: 600, 24: 400, 32: 250},
    "full": {12: 4000, 16: 3000, 24: 1500, 32: 800},
}
ANCHORS = (40, 56, 80, 112)
# Sets of prompts by dimension whose plateaus are found.
PLATEAUS: dict[str, dict[int, int]] = {
    "tiny": {8: 12, 12: 12, 16: 12},
    "quick": {16: 500, 24: 300, 32: 200},
    "medium": {16: 8000, 24: 4000, 32: 3000, 64: 600},
}
# Order in 1/d of the extrapolations where runs are precise enough for it: training losses near 0
# are twice their prediction at d = 16, and come down to it by a curve.
ORDER = {"quick": 1, "medium": 2}
SMALL_SCALE = 1e-4


@named_cell("merged_training_runs")
def trained(*, run: experiment.Experiment, repeats: int, rng: SeedSequence) -> np.ndarray:
    """ICL error, training loss, strength and IDG error, (quantities, times, repeats)."""
    steps = math.ceil(max(TIMES) / STEP)
    rate = max(TIMES) / steps * math.sqrt(run.dim) / 2
    records = [round(time / max(TIMES) * steps) for time in TIMES]
    curves = simulate_descent(
        run.with_(training=experiment.Descent(steps, rate)),
        model="merged",
        init_scale=SCALE,
        record=math.gcd(*records),
        rng=rng,
        repeats=repeats,
    )
    at = np.searchsorted(curves.recorded_at, records)
    measured = [curves.measures["icl"], curves.losses, curves.measures["strength"]]
    measured.append(curves.measures["idg"])
    return np.array([values[:, at].T for values in measured])


@named_cell("merged_training_theory")
def predicted(*, run: experiment.Experiment, rng: SeedSequence) -> np.ndarray:
    """ICL error, training loss and strength of a run with fresh tasks, (quantities, times)."""
    errors = finite_merged_errors(run, time=np.array(TIMES), init_scale=SCALE, rng=rng, draws=1)
    return np.array([errors.icl, errors.training, errors.strength])


@named_cell("merged_plateau_runs")
def plateaus(*, run: experiment.Experiment, repeats: int, rng: SeedSequence) -> np.ndarray:
    """Ends of the plateaus of sets of prompts, (repeats,)."""
    arrays = get_backend("numpy")
    law = SummaryLaw(arrays, run.problem)
    rates = []
    for generator in arrays.generators(rng, repeats, 0):
        task_set = draw_task_set(run.problem, arrays, generator)
        x, h, y = law.draw(generator, run.prompts, task_set)
        force = run.dim / run.prompts * (x * y[:, None]).T @ h
        rates.append(np.linalg.norm(force) / math.sqrt(run.dim))
    return math.log(2 / SMALL_SCALE) / np.array(rates)


def of_fresh_tasks(ratios: dict[str, Any], repeats: dict[int, int], order: int) -> Rows:
    """Limits by their ratios to predictions, which no task sets scatter."""
    name = " ".join(f"{key}={value:g}" for key, value in ratios.items())
    point = experiment.Point(**ratios)
    runs = {dim: run(trained, run=point.at(dim), repeats=count) for dim, count in repeats.items()}
    predictions = {dim: run(predicted, run=point.at(dim)) for dim in (*runs, *ANCHORS)}
    theory = call(merged_training_errors, time=TIMES, init_scale=SCALE, **ratios)
    for number, time in enumerate(TIMES):
        label = f"t={time:g} {name}"
        yield limit(
            {
                f"{part} {label}": getattr(theory, part)[number]
                for part in ("icl", "training", "strength")
            },
            {dim: own[:3, number] for dim, own in runs.items()},
            fit=extrapolate_ratios,
            order=order,
            predictions={dim: own[:, number] for dim, own in predictions.items()},
            anchors=ANCHORS,
            draws=name,
            fit_label=f"chi-square of the ratios {label}",
            name=f"{label}: ratio to the prediction",
        )


def of_few_tasks(repeats: dict[int, int]) -> Rows:
    """Limits where tasks are as few as half the dimension."""
    name = " ".join(f"{key}={value:g}" for key, value in FEW.items())
    point = experiment.Point(**FEW)
    runs = {dim: run(trained, run=point.at(dim), repeats=count) for dim, count in repeats.items()}
    theory = call(merged_training_errors, time=TIMES, init_scale=SCALE, **FEW)
    for number, time in enumerate(TIMES):
        label = f"t={time:g} {name}"
        yield limit(
            {
                f"{part} {label}": getattr(theory, part)[number]
                for part in ("icl", "training", "strength", "idg")
            },
            {dim: own[:, number] for dim, own in runs.items()},
            order=2,
            about=label,
        )


def rows(effort: Effort) -> Rows:
    """Errors along the way, and the end of the plateau."""
    repeats = effort.by_size(**REPEATS)
    order = effort.pick(**ORDER)
    for ratios in effort.pick(tiny=FRESH[:1], quick=FRESH):
        yield from of_fresh_tasks(ratios, repeats, order)
    # These need more runs for the same accuracy, and are here for the number of tasks.
    yield from of_few_tasks({dim: count // 2 for dim, count in repeats.items()})
    for ratios in (*FRESH, FEW):
        name = " ".join(f"{key}={value:g}" for key, value in ratios.items())
        point = experiment.Point(**ratios)
        ends = {
            dim: run(plateaus, run=point.at(dim), repeats=count)
            for dim, count in effort.by_size(**PLATEAUS).items()
        }
        theory = call(plateau_end, init_scale=SMALL_SCALE, **ratios)
        yield limit({f"plateau end {name}": theory}, ends, order=order, about=f"plateau {name}")


claim = Claim.of("merged-finite", __doc__, rows, figure=False)
