"""Prompts of random length: a mixture, not the mean context.

Mean errors of linear attention that is trained on prompts of random length, extrapolated to
infinite dimension, equal those of the mixture of lengths; at given integers they equal their
prediction.  The theory of one length with the same mean noise is another one, and is rejected.

Source: Derived in the documentation.
"""

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import icl_error, predict, random_length_errors
from iclimit.experiment import Experiment, Reduced, Ridge
from iclimit.losses import RandomLength
from iclimit.problem import Problem
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, run
from iclimit.validation.claims.pretraining.points import limits_by_ratios, predicted_at
from iclimit.validation.claims.pretraining.sequence_points import different_errors
from iclimit.validation.rows import note

# Settings: numbers of the limit, and lengths over dimension with their probabilities.
SETTINGS: tuple[tuple[dict[str, Any], tuple[float, ...], tuple[float, ...], str], ...] = (
    ({"tau": 2, "kappa": 0.5, "rho": 0.1, "ridge": 0.3}, (0.25, 3), (0.5, 0.5), "mean"),
    ({"tau": 1, "kappa": 2, "rho": 0.2, "ridge": 0.3}, (0.5, 1, 2), (0.5, 0.25, 0.25), "length"),
    ({"tau": 3, "kappa": math.inf, "rho": 0.1, "ridge": 0.3}, (0.25, 3), (0.7, 0.3), "mean"),
)

# Runs by dimension, where all lengths are integers.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {16: 240, 24: 130, 32: 80},
    "medium": {16: 1400, 24: 800, 32: 500},
    "full": {16: 5000, 24: 3000, 32: 2000, 48: 800},
}
# Order of the ratios in 1/d, where runs are precise enough for it.
ORDER = {"quick": 1, "full": 2}

# Task sets of a prediction, and dimensions from which the limit of predictions is extrapolated.
TASK_SETS = {"tiny": 4, "quick": 16}
ANCHORS = (40, 48, 64, 80)


def at(
    dim: int,
    point: dict[str, Any],
    alphas: tuple[float, ...],
    probabilities: tuple[float, ...],
    normalization: str,
) -> Experiment:
    """A run of a setting."""
    lengths = tuple(round(alpha * dim) for alpha in alphas)
    tasks = point["kappa"] if math.isinf(point["kappa"]) else round(point["kappa"] * dim)
    law = Problem(dim, max(lengths), tasks=tasks, noise_variance=point["rho"], task_law="sphere")
    return Experiment(
        law,
        prompts=round(point["tau"] * dim**2),
        loss=RandomLength(lengths, probabilities),
        training=Ridge(point["ridge"]),
        model=Reduced(normalization=normalization),
    )


def compared_with_one_length(
    point: dict[str, Any], alphas: tuple[float, ...], probabilities: tuple[float, ...]
) -> str:
    """How far the theory of one length with the same noise is from the mixture."""
    longest = max(alphas)
    mixture = random_length_errors(**point, alphas=alphas, probabilities=probabilities)
    harmonic = 1 / float(np.sum(np.array(probabilities) / np.array(alphas)))
    one = random_length_errors(**point, alphas=[harmonic], test_alpha=longest)
    own = icl_error(**point, alpha=harmonic)
    return (
        f"One length of the same mean noise (alpha {harmonic:.3f}, ICL error {own:.4f} there) has "
        f"the ICL error {one.icl:.4f} at the longest context, the mixture {mixture.icl:.4f}."
    )


def rows(effort: Effort) -> Rows:
    """Limits, and one size."""
    repeats = effort.by_size(**REPEATS)
    order = effort.pick(**ORDER)
    draws = effort.pick(**TASK_SETS)
    for point, alphas, probabilities, normalization in effort.pick(
        tiny=SETTINGS[:2], quick=SETTINGS
    ):
        name = f"alpha={' '.join(map(str, alphas))} kappa={point['kappa']:g} {normalization}"
        stated = {
            dim: at(dim, point, alphas, probabilities, normalization)
            for dim in (*repeats, *ANCHORS)
        }
        runs = {dim: run(sample, run=stated[dim], repeats=count) for dim, count in repeats.items()}
        predictions = {dim: run(predict, run=own, draws=draws) for dim, own in stated.items()}
        theory = call(
            random_length_errors,
            **point,
            alphas=alphas,
            probabilities=probabilities,
            normalization=normalization,
        )
        theories = different_errors(theory, point["kappa"])
        yield limits_by_ratios(name, theories, runs, predictions, ANCHORS, order)
        yield from predicted_at(max(repeats), name, predictions, runs)
        if normalization == "mean":
            yield note(call(compared_with_one_length, point, alphas, probabilities))


claim = Claim.of("random-lengths", __doc__, rows, figure=False)
