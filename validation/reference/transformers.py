"""Recorded transformers on few tasks: errors along trainings, and two sets of weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

import numpy as np

from iclimit.array_files import open_npz
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.networks import AttentionNetwork
from iclimit.validation.reference import read_reference

# Variance of the label noise.
RHO = 0.01

# Dimensions that were trained on prompts that are fresh in every step.
DIMS = (4, 8, 16)


@dataclass(frozen=True)
class TransitionPoint:
    """Errors of transformers trained on a number of tasks, after some steps.

    Attributes
    ----------
    dim : int
        Dimension, and length of the context.
    tasks : float
        Number of tasks; inf for fresh ones.
    steps : int
        Steps of the training.
    icl, idg : Estimate
        Mean squared errors on noisy labels, over seeds.
    """

    dim: int
    tasks: float
    steps: int
    icl: Estimate
    idg: Estimate


def transformer(dim: int) -> AttentionNetwork:
    """Network of the record."""
    return AttentionNetwork(dim, layers=3, width=64, mlp=128, layer_norm=True)


def transformer_problem(dim: int, tasks: float | np.ndarray = math.inf) -> Problem:
    """Law of the prompts of the record: x ~ N(0, I/d), w ~ N(0, I), context d."""
    scale = 1 / math.sqrt(dim)
    return Problem(dim, dim, tasks=tasks, scale=scale, noise_variance=RHO)


@cache
def transition() -> tuple[TransitionPoint, ...]:
    """Errors along the trainings on fresh prompts."""
    points = []
    for row in read_reference("transformer_transition_times.csv"):
        seeds = int(row["seeds"])
        errors = {
            name: Estimate(
                float(row[f"{name}_mean"]), float(row[f"{name}_sd"]) / math.sqrt(seeds), seeds
            )
            for name in ("icl", "idg")
        }
        points.append(
            TransitionPoint(
                dim=int(row["d"]), tasks=float(row["tasks"]), steps=int(row["steps"]), **errors
            )
        )
    return tuple(points)


def steps_of(dim: int) -> list[int]:
    """Numbers of steps at which errors of a dimension were recorded."""
    return sorted({point.steps for point in transition() if point.dim == dim})


def transition_at(dim: int, steps: int) -> list[TransitionPoint]:
    """Errors of a dimension after some steps, by the number of tasks."""
    chosen = [point for point in transition() if (point.dim, point.steps) == (dim, steps)]
    return sorted(chosen, key=lambda point: point.tasks)


def half_error_kappa(points: Sequence[TransitionPoint]) -> float:
    """Tasks over d at which the ICL error falls below 1/2, on a line between logarithms."""
    finite = [point for point in points if point.tasks < math.inf]
    for before, after in pairwise(finite):
        above = before.icl.mean - 0.5
        below = after.icl.mean - 0.5
        if above > 0 >= below:
            share = above / (above - below)
            return float((after.tasks / before.tasks) ** share * before.tasks / before.dim)
    raise ValueError("points must have ICL errors above 1/2 and below")


def recorded_transformer(name: str) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Weights that were recorded at d = 8, and the tasks (k, d) they were trained on.

    Parameters
    ----------
    name : {"k8", "fresh"}
        Trained on eight tasks, or on fresh ones: then there are no tasks.
    """
    path = resources.files("iclimit.validation.reference") / f"transformer_d8_{name}.npz"
    with resources.as_file(path) as file, open_npz(file) as arrays:
        read = {key: arrays[key].read().astype(float) for key in arrays.names}
    tasks = read.pop("tasks", None)
    return read, tasks
