"""Training on all positions of sequences: the limit, its peak, and how many tasks they hold.

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

# Settings of the limit; all sizes are integers at multiples of 4.
SETTINGS: tuple[dict[str, Any], ...] = (
    {
        "sequence_ratio": 2,
        "alpha": 1.5,
        "alpha_min": 0.5,
        "kappa": math.inf,
        "rho": 0.2,
        "ridge": 0.3,
    },
    {"sequence_ratio": 2, "alpha": 1.5, "alpha_min": 0.25, "kappa": 0.5, "rho": 0.2, "ridge": 0.3},
    {
        "sequence_ratio": 2,
        "alpha": 1.5,
        "kappa": 0.5,
        "rho": 0.2,
        "ridge": 0.3,
        "normalization": "length",
    },
)

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {12: 100, 16: 60, 24: 24},
    "medium": {16: 300, 32: 80, 48: 20},
    "full": {16: 1500, 32: 400, 64: 40},
}

# Dimensions from which the limit of predictions is extrapolated.
ANCHORS = (32, 48, 64, 96)


def at(dim: int, point: dict[str, Any]) -> Experiment:
    """A run of a setting, with balanced tasks."""
    kappa = point["kappa"]
    tasks = kappa if math.isinf(kappa) else round(kappa * dim)
    context = round(point["alpha"] * dim)
    law = Problem(dim, context, tasks=tasks, noise_variance=point["rho"], task_law="sphere")
    return Experiment(
        law,
        prompts=round(point["sequence_ratio"] * dim),
        balanced=math.isfinite(kappa),
        loss=AllPositions(max(1, round(point.get("alpha_min", 0) * dim))),
        training=Ridge(point["ridge"]),
        model=Reduced(normalization=point.get("normalization", "mean")),
    )


def rows(effort: Effort) -> Rows:
    """Limits, and one size."""
    repeats = effort.by_size(**REPEATS)
    for point in effort.pick(tiny=SETTINGS[:1], quick=SETTINGS):
        name = " ".join(f"{key}={value}" for key, value in point.items())
        runs = {
            dim: run(sample, run=at(dim, point), repeats=count) for dim, count in repeats.items()
        }
        predictions = {dim: run(predict, run=at(dim, point)) for dim in (*repeats, *ANCHORS)}
        function = all_position_errors if math.isinf(point["kappa"]) else balanced_position_errors
        theory = call(function, **point)
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


def both(errors: Samples) -> tuple[Any, ...]:
    """ICL and IDG error."""
    return errors.icl, errors.idg


def new_tasks(errors: Samples) -> tuple[Any, ...]:
    """ICL error, which is the IDG error where all tasks are fresh."""
    return (errors.icl,)


claim = Claim.of("all-positions", __doc__, rows, figure=False)
