r"""Theory of a training curve: plateaus, times and durations of drops, and how well it knows them.

**Times.**  Initial weights are random, so the time of a drop has a law over runs.  For merged
attention it follows from the law of the effective scale (`effective_init_scale_moments`).  For
separate attention random starts are drawn, and `separate_attention_staircase` predicts the drops
of each.  Where the initial weights are given, there is no such law.

**Durations** from a quarter to three quarters of a drop do not depend on the start, only on the
unit of time.

**Errors of the theory.**  Times have a relative error of the order of the initial weights.  Steps
that grow the weights by a part h delay them by a relative h/2.  A finite training set changes
losses and rates (`iclimit.validation.yours.curves.fluctuations`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from iclimit.asymptotics.dynamics import (
    head_growth,
    merged_attention_curve,
    plateau_losses,
    time_from_pole,
)
from iclimit.asymptotics.dynamics.staircase import HALF
from iclimit.validation.yours.curves.features import QUARTERS
from iclimit.validation.yours.curves.fluctuations import Fluctuations, find_fluctuations
from iclimit.validation.yours.curves.setting import CurveSetting
from iclimit.validation.yours.curves.starts import (
    TINY,
    StartLaw,
    Weights,
    grown_heads,
    merged_half_drop,
    merged_start,
    separate_start,
)

STAIRCASE_ERROR = 3.0
"""Relative standard error of the time at which the j-th head (from 0) learns, in units of j times
the initial weights.  Measured against flows from random weights of 0.01 to 0.03 with D = 4 and 8:
root mean squares between 0.3 and 3 of these units."""

DURATION_SPREAD = 1.5
"""Standard deviation of durations over training sets, in units of that of growth rates: the end of
a drop fluctuates, too.  Measured for cubic features with 2000 and 5000 sequences: 1.49, 1.36."""

SHAPE, LONGEST_TAIL = 8.0, 1e6
"""The shape of this drop is tabulated up to so many growth times before and after its half, then
with growing steps until so many: directions of small eigenvalue are learned late."""


@dataclass(frozen=True, eq=False)
class CurveTheory:
    """What theory says of the curves of a setting.

    Attributes
    ----------
    setting : CurveSetting
        The setting.
    levels : ndarray (drops + 1,)
        Losses at the start, at the plateaus and at the end, as they are recorded.
    half_drops : ndarray (drops,)
        Steps at which half of a drop has happened, geometric mean over runs; infinite if it never
        does.
    durations : ndarray (drops,)
        Steps from a quarter to three quarters of a drop; NaN where theory has no sharp value.
    start : StartLaw
        Law of the logarithms of the times over runs.
    staircase_variance : ndarray (drops,)
        Of the error that the prediction itself has for these logarithms.
    growth : ndarray (drops,)
        Part by which weights grow in a step, or in a unit of time.
    delays : ndarray (2, drops)
        Relative errors of half-drop steps and durations because of steps of finite length.
    start_loss : float
        Standard deviation of the loss because initial weights are not zero.
    fluctuations : Fluctuations
        What a finite training set changes.
    """

    setting: CurveSetting
    levels: np.ndarray
    half_drops: np.ndarray
    durations: np.ndarray
    start: StartLaw
    staircase_variance: np.ndarray
    growth: np.ndarray
    delays: np.ndarray
    start_loss: float
    fluctuations: Fluctuations

    def left(self, steps: Any, drop: int = -1) -> Any:
        """Part of a drop that is ahead so many steps after half of it."""
        setting = self.setting
        since = np.asarray(steps, dtype=float) * setting.step_time
        if setting.model != "separate":
            shape = _merged_shape(setting.eigenvalues, setting.context, setting.noise_variance)
            return np.clip(shape(np.clip(since, *shape.x[[0, -1]])), 0, 1)
        values, head = grown_heads(setting)
        at = range(len(self.half_drops))[drop]
        value, head["eigenvalue"] = values[at], head["eigenvalue"][at]
        pole = time_from_pole(HALF ** (1 / 3) * value, **head)
        return (1 - (head_growth(since + pole, **head) / value) ** 3) ** 2

    def loss(self, steps: np.ndarray) -> np.ndarray:
        """Loss of a run whose drops come at the geometric means of their steps."""
        drops = self.levels[:-1] - self.levels[1:]
        found = np.full(np.shape(steps), self.levels[-1])
        for drop, (size, at) in enumerate(zip(drops, self.half_drops, strict=True)):
            ahead = self.left(np.asarray(steps) - at, drop) if math.isfinite(at) else 1.0
            found = found + size * ahead
        return found


def predict_curve(
    setting: CurveSetting, initial: Sequence[Weights], draws: int, seed: int
) -> CurveTheory:
    """Predict plateaus and drops.

    Parameters
    ----------
    setting : CurveSetting
        The setting.
    initial : sequence of dict
        Initial weights of each run, empty if they are not known.
    draws, seed : int
        Random starts of separate attention, and their seed.
    """
    separate = setting.model == "separate"
    start = (
        separate_start(setting, initial, draws, seed)
        if separate
        else merged_start(setting, initial)
    )
    half_drops = np.exp(start.mean) / setting.step_time
    durations, growth = _durations(setting)
    # Weights that grow as 1/(t_0 - t) are delayed by the logarithm of their growth, in steps.
    wait = max(-math.log(setting.start), 1.0) / half_drops if separate else growth / 2
    delays = np.stack([wait, growth]) * (setting.learning_rate is not None)
    order = np.arange(len(start.mean)) // setting.rank
    return CurveTheory(
        setting,
        setting.levels,
        half_drops,
        durations / setting.step_time,
        start,
        (STAIRCASE_ERROR * setting.start * order) ** 2,
        growth,
        delays,
        _start_loss(setting),
        find_fluctuations(setting),
    )


@lru_cache(maxsize=32)
def _merged_shape(
    eigenvalues: tuple[float, ...], context: int, noise_variance: float
) -> PchipInterpolator:
    """Part of the drop of merged attention that is ahead, by the time since half of it."""
    law: dict[str, Any] = {"eigenvalues": eigenvalues, "context": context}
    law["noise_variance"] = noise_variance
    unit = 1 / float(np.linalg.norm(np.square(eigenvalues)))
    half = merged_half_drop(eigenvalues, context, noise_variance, TINY)
    times = unit * np.concatenate(
        [np.linspace(-SHAPE, SHAPE, 400), np.geomspace(SHAPE, LONGEST_TAIL, 200)[1:]]
    )
    losses = merged_attention_curve(half + times, init_scale=TINY, **law)
    first, last = plateau_losses(**law)[[0, -1]]
    return PchipInterpolator(times, (losses - last) / (first - last))


def _durations(setting: CurveSetting) -> tuple[np.ndarray, np.ndarray]:
    """Times from a quarter to three quarters of each drop, and the growth of weights in a step."""
    lam = setting.law["eigenvalues"]
    if setting.model != "separate":
        shape = _merged_shape(setting.eigenvalues, setting.context, setting.noise_variance)
        ends = float(shape.x[0]), float(shape.x[-1])
        begin, end = (brentq(lambda t, f=part: shape(t) - 1 + f, *ends) for part in QUARTERS)
        return np.array([end - begin]), setting.step_time * np.array([np.linalg.norm(lam**2)])
    count = len(setting.learned) - 1
    values, heads = grown_heads(setting)
    shares = 1 - np.sqrt(1 - np.array(QUARTERS))
    begin, end = (time_from_pole(share ** (1 / 3) * values, **heads) for share in shares)
    # Other directions of a head of higher rank grow beside its first.
    durations = (end - begin if setting.rank == 1 else np.full(len(lam), np.nan))[:count]
    return durations, (setting.step_time * lam**2 * values)[:count]


def _start_loss(setting: CurveSetting) -> float:
    r"""Standard deviation of the loss at random initial weights: that of 2 tr(Lambda^2 M)."""
    dim, heads, rank, scale = len(setting.eigenvalues), setting.heads, setting.rank, setting.start
    weight = math.sqrt(heads) * scale**2
    if setting.model == "separate":
        layer = heads if setting.initialization == "per-layer" else 1
        value = math.sqrt(heads) * (dim + 1) if setting.initialization == "per-layer" else 1
        weight *= scale / value / (layer * math.sqrt(rank) * (dim + 1))
    slope = (
        2
        * setting.loss_unit
        * setting.loss_factor
        * float(np.linalg.norm(setting.law["eigenvalues"] ** 2))
    )
    return slope * weight
