"""Training on all positions of sequences: the limit, and what runs show.

Mean errors after the whole context of linear attention that is trained on all positions of
sequences, extrapolated to infinite dimension, equal the limit; at given integers they equal their
prediction.

Source: Derived in the documentation.
"""

import math
from typing import Any

from iclimit.asymptotics.pretraining import all_position_errors, balanced_position_errors, predict
from iclimit.experiment import Experiment, Reduced, Ridge
from iclimit.losses import AllPositions
from iclimit.problem import Problem
from iclimit.samples import Samples
from iclimit.simulate.pretraining import sample
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.claim import Claim, Effort, Rows, call, run
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.rows import both_errors, limit

# Law that the settings share.
LAW: dict[str, Any] = {"sequence_ratio": 2, "alpha": 1.5, "rho": 0.2, "ridge": 0.3}

# Settings of the limit, and whether tasks have equally many sequences; all sizes are integers at
# multiples of 4.
SETTINGS: tuple[tuple[dict[str, Any], bool], ...] = (
    (LAW | {"alpha_min": 0.5, "kappa": math.inf}, False),
    (LAW | {"alpha_min": 0.25, "kappa": 0.5}, False),
    (LAW | {"kappa": 0.5, "normalization": "length"}, True),
)

# Factor of the repeats where all tasks are fresh: these runs scatter most and cost least.
MORE = 3

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {16: 200, 24: 120, 32: 80},
    "medium": {16: 1200, 24: 700, 32: 400, 48: 60},
    "full": {16: 4000, 32: 1500, 48: 300, 64: 100},
}

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


def compared(point: dict[str, Any], repeats: dict[int, int], *, balanced: bool) -> Rows:
    """The limit of a setting, and its largest size."""
    name = " ".join(f"{key}={value}" for key, value in point.items())
    stated = {dim: at(dim, point, balanced=balanced) for dim in (*repeats, *ANCHORS)}
    runs = {dim: run(sample, run=stated[dim], repeats=count) for dim, count in repeats.items()}
    predictions = {dim: run(predict, run=own) for dim, own in stated.items()}
    theory = call(balanced_position_errors if balanced else all_position_errors, **point)
    theories = {f"ICL d=inf {name}": theory.icl}
    kept = new_tasks
    if math.isfinite(point["kappa"]):
        theories[f"IDG d=inf {name}"] = theory.idg
        kept = both
    yield limit(
        theories,
        {dim: call(kept, errors) for dim, errors in runs.items()},
        fit=extrapolate_ratios,
        predictions={dim: call(kept, errors) for dim, errors in predictions.items()},
        anchors=ANCHORS,
        draws=name,
        fit_label=f"chi-square of the ratios {name}",
        name=f"{name}: ratio to the prediction",
    )
    largest = max(repeats)
    own = call(with_uncertainty, predictions[largest])
    yield from both_errors(f"d={largest} {name}", own, runs[largest], of="predict")


def rows(effort: Effort) -> Rows:
    """All settings."""
    repeats = effort.by_size(**REPEATS)
    more = {dim: MORE * count for dim, count in repeats.items()}
    for point, balanced in effort.pick(tiny=SETTINGS[:1], quick=SETTINGS):
        own = more if math.isinf(point["kappa"]) else repeats
        yield from compared(point, own, balanced=balanced)


def both(errors: Samples) -> tuple[Any, ...]:
    """ICL and IDG error."""
    return errors.icl, errors.idg


def new_tasks(errors: Samples) -> tuple[Any, ...]:
    """ICL error, which is the IDG error where all tasks are fresh."""
    return (errors.icl,)


claim = Claim.of("all-positions", __doc__, rows, figure=False)
