"""Law of the drop times of a training over random initial weights, or the times of given ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import polygamma

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_curve_drop_time,
    plateau_head_values,
    separate_attention_staircase,
    time_from_pole,
)
from iclimit.asymptotics.dynamics.staircase import HALF
from iclimit.simulate.dynamics import AttentionModel, initial_weights
from iclimit.validation.yours.curves.setting import CurveSetting

RTOL = 1e-5
"""Relative tolerance of predicted waits, far below their spread over starts."""

TINY = 1e-8
"""Initial weights for which the shape of the drop of merged attention does not depend on them."""

SMALL = 1e-3
"""Below these initial weights the drop time is logarithmic in them to a relative 1e-6."""

Weights = dict[str, np.ndarray]
"""Initial weights of a run by name: value, and key_query or key and query."""


@dataclass(frozen=True, eq=False)
class StartLaw:
    """Law over runs of the logarithms of the times at which half of each drop has happened.

    Attributes
    ----------
    mean, variance : ndarray (drops,)
        Of one run; without variance if the initial weights are given.
    third : ndarray (drops,)
        Third cumulant of one run.
    mean_variance : ndarray (drops,)
        Of the mean itself, if it is found from random starts.
    """

    mean: np.ndarray
    variance: np.ndarray
    third: np.ndarray
    mean_variance: np.ndarray


def merged_start(setting: CurveSetting, initial: Sequence[Weights]) -> StartLaw:
    """Law of merged attention, or the times of given initial weights."""
    zero = np.zeros(1)
    lam = setting.law["eigenvalues"]
    if initial:
        scales = [
            float(
                effective_init_scale(
                    setting.weight_factor * each["value"],
                    setting.weight_factor * each["key_query"],
                    eigenvalues=setting.eigenvalues,
                )
            )
            for each in initial
        ]
        logs = [math.log(_merged_time(setting, scale)) for scale in scales]
        return StartLaw(np.array([np.mean(logs)]), zero, zero, zero)
    law = effective_init_scale_moments(setting.heads)
    time = _merged_time(setting, setting.start * math.exp(law.mean))
    relative = float(law.std) / float(np.linalg.norm(lam**2)) / time
    # The time is linear in the logarithm of the scale, which has the law of ln(chi-square)/2; the
    # logarithm of the time is less skewed.
    skewness = -float(polygamma(2, setting.heads / 2)) / (2 * float(law.std)) ** 3 - 3 * relative
    return StartLaw(
        np.array([math.log(time)]),
        np.array([relative**2]),
        np.array([skewness * relative**3]),
        zero,
    )


def separate_start(
    setting: CurveSetting, initial: Sequence[Weights], draws: int, seed: int
) -> StartLaw:
    """Law of separate attention from random starts, or the times of given initial weights."""
    count = len(setting.learned) - 1
    starts, factor = initial, setting.weight_factor
    if not initial:
        starts, factor = _random_starts(setting, draws, seed), setting.start / TINY
    times = np.array([_drop_times(setting, start, factor)[:count] for start in starts])
    if not np.all(times > 0):
        raise _too_large(setting)
    logs = np.log(times)
    none = np.zeros(count)
    if initial:
        return StartLaw(np.mean(logs, axis=0), none, none, none)
    with np.errstate(invalid="ignore"):  # of drops that never happen
        variance = np.var(logs, axis=0, ddof=1)
    return StartLaw(np.mean(logs, axis=0), variance, none, variance / draws)


def _too_large(setting: CurveSetting) -> ValueError:
    return ValueError(
        "init_scale must be so small that the weights grow before the loss drops, got "
        f"{setting.init_scale!r}"
    )


def _random_starts(setting: CurveSetting, draws: int, seed: int) -> list[Weights]:
    """Random weights of the scale TINY, in descending order of the eigenvalues."""
    model = AttentionModel("separate", len(setting.eigenvalues), setting.heads, setting.rank)
    starts = []
    for draw in range(draws):
        value, key, query = initial_weights(
            model, TINY, setting.initialization, rng=seed, first_repeat=draw
        )
        starts.append({"value": value[:, -1], "key": key[..., :-1], "query": query})
    return starts


def _drop_times(setting: CurveSetting, start: Weights, factor: float) -> np.ndarray:
    """Half-drop times for weights that are multiplied by a factor, largest eigenvalues first."""
    lam = np.array(setting.eigenvalues)
    if setting.rank > 1:
        return _staircase(lam.tobytes(), factor, *_bytes(start), **_sizes(setting))[1]
    # Only escape times are random.  They are one over the scale and the square of the eigenvalues,
    # so that one staircase serves many settings.
    top = float(lam.max())
    unit, _ = _staircase((lam / top).tobytes(), 1.0, *_bytes(start))
    values, heads = grown_heads(setting)
    return unit / factor / top**2 + time_from_pole(HALF ** (1 / 3) * values, **heads)


def _bytes(start: Weights) -> tuple[Any, ...]:
    key, query = (np.ascontiguousarray(start[name]) for name in ("key", "query"))
    return (
        np.ascontiguousarray(start["value"]).tobytes(),
        key.tobytes(),
        query.tobytes(),
        key.shape,
    )


@lru_cache(maxsize=512)
def _staircase(
    eigenvalues: bytes,
    factor: float,
    value: bytes,
    key: bytes,
    query: bytes,
    shape: tuple[int, ...],
    context: int = 1,
    noise_variance: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Escape times and half-drop times of weights times a factor; a staircase takes 0.1 s."""
    v, k, q = (factor * np.frombuffer(each) for each in (value, key, query))
    steps = separate_attention_staircase(
        *(v, k.reshape(shape), q.reshape(shape)),
        eigenvalues=np.frombuffer(eigenvalues),
        context=context,
        noise_variance=noise_variance,
        rtol=RTOL,
    )
    return steps.times, steps.drop_times


def _merged_time(setting: CurveSetting, scale: float) -> float:
    """Time at which half of the drop of merged attention has happened."""
    law = setting.eigenvalues, setting.context, setting.noise_variance
    if scale > SMALL:
        try:
            return merged_half_drop(*law, scale)
        except ValueError:
            raise _too_large(setting) from None
    # Small weights grow exponentially: another scale only shifts the curve.
    growth = float(np.linalg.norm(np.square(setting.eigenvalues)))
    return merged_half_drop(*law, TINY) - math.log(scale / TINY) / growth


@lru_cache(maxsize=512)
def merged_half_drop(
    eigenvalues: tuple[float, ...], context: int, noise_variance: float, scale: float
) -> float:
    """Time at which half of the drop has happened, from balanced weights of this scale."""
    law: dict[str, Any] = {"eigenvalues": eigenvalues, "context": context}
    return merged_curve_drop_time(0.5, init_scale=scale, noise_variance=noise_variance, **law)


def grown_heads(setting: CurveSetting) -> tuple[np.ndarray, dict[str, Any]]:
    """Final values of the heads that learn each direction, and arguments of their growth."""
    lam = setting.law["eigenvalues"]
    values = plateau_head_values(lam, **_sizes(setting))
    return values, {"eigenvalue": lam, "trace": float(np.sum(lam)), **_sizes(setting)}


def _sizes(setting: CurveSetting) -> dict[str, Any]:
    return {"context": setting.context, "noise_variance": setting.noise_variance}
