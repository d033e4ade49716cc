"""Mistakes in the statement of a training that would explain a curve: tried, never applied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.validation.yours.curves.setting import CHOICES, CurveSetting

SAME = 0.01
"""Traces within this relative distance count as the same."""


def likely_mistakes(
    setting: CurveSetting, known_start: bool, staircase: bool
) -> Iterator[tuple[str, CurveSetting]]:
    """Yield what could be otherwise than stated, in words after "fits if", and how it is then.

    Parameters
    ----------
    setting : CurveSetting
        As it was stated.
    known_start : bool
        Whether the initial weights are given, so that their law does not matter.
    staircase : bool
        Whether the curves have plateaus that the stated model does not.
    """
    mistakes = [*_mistakes(setting), *([] if known_start else _starts(setting, staircase))]
    for text, changes in mistakes:
        try:
            changed = replace(setting, **changes)
        except (ValueError, TypeError):
            continue
        yield text, changed


def _mistakes(setting: CurveSetting) -> Iterator[tuple[str, dict[str, Any]]]:
    N, dim = setting.context, len(setting.eigenvalues)
    factor = setting.loss_factor
    if setting.learning_rate is not None:
        yield (
            f"the loss that is trained on and recorded has the factor {0.5 / factor:g}",
            {"loss_factor": 0.5 / factor},
        )
    yield "losses are recorded with half the stated factor", {"loss_unit": 0.5}
    yield "losses are recorded with twice the stated factor", {"loss_unit": 2.0}
    what = "learning rate" if setting.learning_rate is not None else "unit of time"
    yield f"the {what} is half of what is stated", {"time_unit": 0.5}
    yield f"the {what} is twice what is stated", {"time_unit": 2.0}
    yield "there is momentum 0.9, which makes steps count ten times", {"time_unit": 10.0}
    for other in CHOICES["normalization"]:
        if other != setting.normalization:
            words = "divided by N" if other == "mean" else "not divided by N"
            yield f"scores are {words} (normalization {other})", {"normalization": other}
    for power in (1, 2):
        name = "N" if power == 1 else "N^2"
        yield f"the {what} counts {name} times", {"time_unit": float(N) ** power}
        yield f"the {what} counts 1/{name} times", {"time_unit": float(N) ** -power}
    trace = sum(setting.eigenvalues)
    for wanted in {1.0, float(dim)}:
        if abs(trace / wanted - 1) > SAME:
            scaled = tuple(wanted / trace * each for each in setting.eigenvalues)
            yield f"the eigenvalues have the sum {wanted:g}", {"eigenvalues": scaled}
    if dim > 1 and np.ptp(setting.eigenvalues) > SAME * trace / dim:
        yield "the eigenvalues are all equal", {"eigenvalues": (trace / dim,) * dim}
    for context in (N - 1, N + 1):
        yield f"there are {context} pairs besides the query", {"context": context}
    if setting.noise_variance > 0:
        words = "no " if setting.query_noise else ""
        changed = {"query_noise": not setting.query_noise}
        yield f"recorded losses are of labels with {words}noise", changed
        square = setting.noise_variance**2
        yield "noise_variance is a standard deviation", {"noise_variance": square}


def _starts(setting: CurveSetting, staircase: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Mistakes that are about the initial weights or the model."""
    yield "init_scale is a variance", {"init_scale": math.sqrt(setting.init_scale)}
    if setting.model == "separate":
        for other in CHOICES["initialization"]:
            if other != setting.initialization:
                yield f"initialization is {other}", {"initialization": other}
        yield "key and query are merged", {"model": "merged", "rank": 1}
    elif staircase:
        yield "key and query are separate", {"model": "separate"}
