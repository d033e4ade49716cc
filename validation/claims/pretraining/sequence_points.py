"""Sequences at points of the limit: runs, their predictions, and what both extrapolate to."""

import math
from typing import Any

from iclimit.asymptotics.pretraining import all_position_errors, balanced_position_errors, predict
from iclimit.experiment import Experiment, Reduced, Ridge
from iclimit.losses import AllPositions
from iclimit.problem import Problem
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Rows, call, run
from iclimit.validation.claims.pretraining.points import limits_by_ratios, predicted_at
from iclimit.validation.rows import Later

# Dimensions from which the limit of predictions is extrapolated.
ANCHORS = (40, 56, 80, 112)


def at(dim: int, point: dict[str, Any], *, balanced: bool) -> Experiment:
    """A run of a setting."""
    kappa = point["kappa"]
    tasks = kappa if math.isinf(kappa) else round(kappa * dim)
    context = round(point["alpha"] * dim)
    law = Problem(dim, context, tasks=tasks, noise_variance=point["rho"], task_law="sphere")
    return Experiment(
        law,
        prompts=round(point["sequence_ratio"] * dim),
        balanced=balanced,
        loss=AllPositions(max(1, round(point.get("alpha_min", 0) * dim))),
        training=Ridge(point["ridge"]),
        model=Reduced(normalization=point.get("normalization", "mean")),
    )


def compared(
    point: dict[str, Any], repeats: dict[int, int], *, balanced: bool, order: int = 1
) -> Rows:
    """The limit of a setting, by ratios of an order in 1/d, and its largest size."""
    name = " ".join(f"{key}={value}" for key, value in point.items())
    stated = {dim: at(dim, point, balanced=balanced) for dim in (*repeats, *ANCHORS)}
    runs = {dim: run(sample, run=stated[dim], repeats=count) for dim, count in repeats.items()}
    predictions = {dim: run(predict, run=own, approach="moments") for dim, own in stated.items()}
    theory = call(balanced_position_errors if balanced else all_position_errors, **point)
    theories = different_errors(theory, point["kappa"])
    yield limits_by_ratios(name, theories, runs, predictions, ANCHORS, order)
    largest = max(repeats)
    drawn = {largest: run(predict, run=stated[largest])}
    yield from predicted_at(largest, name, drawn, runs)


def different_errors(theory: Later, kappa: float) -> dict[str, Later]:
    """ICL and IDG error by name; the ICL error alone where all tasks are fresh, as they agree."""
    errors = {"icl": theory.icl}
    if math.isfinite(kappa):
        errors["idg"] = theory.idg
    return errors
