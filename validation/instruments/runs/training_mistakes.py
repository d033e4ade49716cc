"""Mistakes in how long runs were trained, from which start, and where training was stopped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import optimal_stopping
from iclimit.validation.instruments.explaining import Change
from iclimit.validation.instruments.runs.measured import MeasuredRun, Setting
from iclimit.validation.instruments.runs.predictions import Theory

# Levels of the training that are fitted: what is wrong with a stated one, and what looks like it.
TRAINED = {
    "time": (
        "the training time is {} times as large",
        "another optimiser such as Adam, momentum, or a rate that changes",
    ),
    "start_variance": ("the start has {} times the variance", "another optimiser such as Adam"),
}

# The same in words where runs are stated to be minimisers, and to start from zero.
UNSTATED = {
    "time": (
        "training was too brief or stopped early, at the time {} (2/d times rate times steps)"
    ),
    "start_variance": "training started from weights of the variance {} over d",
}

# Factors by which a time is wrong, in words.
TIMES = {
    "the learning rate is on half the mean squared error, so the time is half of it": (
        lambda _: 0.5
    ),
    "the time is twice as large": lambda _: 2.0,
    "the time is d times as large: rate times steps is not divided by d, or the loss is": (
        lambda dim: dim
    ),
    "the time is smaller by the factor d": lambda dim: 1 / dim,
}


def depends_on_training(name: str, runs: Sequence[MeasuredRun]) -> bool:
    """Whether errors depend on a level of the training.

    The start is forgotten where training ends and prompts determine all weights.
    """
    if any(run.sgd for run in runs):
        return False
    if name == "time":
        return True
    return any(run.time < math.inf or _is_undetermined(run) for run in runs)


def _is_undetermined(run: MeasuredRun) -> bool:
    """Whether weights are left that no prompt reaches."""
    dim = run.sizes["dim"]
    return not run.ridge and run.sizes["prompts"] < dim * (dim + 1)


def training_mistakes(runs: Sequence[MeasuredRun], theory: Theory) -> Iterator[tuple[str, Change]]:
    """Mistakes without a value, in words, with the changes that they are."""
    if theory.structure is not None or any(run.sgd or run.tests for run in runs):
        return
    if all(run.time < math.inf for run in runs):
        for text, factor in TIMES.items():
            yield text, partial(_longer, factor=factor)
        yield "the runs were trained to the end", partial(_longer, factor=lambda _: math.inf)
        return
    for objective, words in (("icl", "fresh tasks"), ("idg", "the pretraining tasks")):
        times = best_times(runs, objective)
        text = f"training stopped where the error on {words} is least"
        yield text, partial(_stopped, times=times)


def _longer(run: MeasuredRun, _: float, factor: Any) -> dict[str, Any]:
    return {"time": run.time * factor(run.sizes["dim"])}


def _stopped(run: MeasuredRun, _: float, times: Mapping[Setting, float]) -> dict[str, Any]:
    return {"time": times[run.setting]} if run.setting in times else {}


def best_times(runs: Sequence[MeasuredRun], objective: str) -> dict[Setting, float]:
    """Limits of the times at which the errors of runs are least, in one call."""
    known = [run for run in runs if run.ratios["alpha"] < math.inf]
    names = ("tau", "alpha", "kappa", "rho", "ridge", "start_variance")
    ratios = {name: np.array([run.ratios[name] for run in known]) for name in names}
    times = optimal_stopping(**ratios, objective=objective).time
    return {run.setting: float(time) for run, time in zip(known, times, strict=True)}
