"""Questions about runs, as contrasts of what two theories predict.

A question says which runs answer it at a dimension, and which contrast of their errors
(`Design`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from iclimit.asymptotics.pretraining import structured_errors
from iclimit.notation import ratios_of
from iclimit.validation.yours.plan.points import (
    NotProposed,
    Point,
    Points,
    Setting,
    with_prediction,
)
from iclimit.validation.yours.plan.power import Contrast
from iclimit.validation.yours.runs.measured import MEASURED
from iclimit.validation.yours.runs.predictions import Prediction

SIZES = ("dim", "context", "tasks", "prompts", "test_context")

# Questions whose effect is free.
NEED_EFFECT = ("precision", "transition")

# A second theory: parameters that differ, a Bayes estimator, or a function of the parameters.
Against = Mapping[str, float] | str | Callable[..., float]


@dataclass(frozen=True)
class Design:
    """Runs that answer a question at a dimension.

    Attributes
    ----------
    points : tuple of Point
        Settings that are run, all of them equally often.
    others : callable
        From the effect to what is to be told from the predicted means.
    contrast : callable
        From the effect to the contrast.  Where theory fixes the effect, it plays no part.
    """

    points: tuple[Point, ...]
    others: Callable[[Any], Sequence[float]]
    contrast: Callable[[Any], Contrast]

    @property
    def cost(self) -> float:
        """Cost of one run of each setting."""
        return sum(point.cost for point in self.points)


def precision(points: Points, setting: Setting, dim: int) -> Design:
    """Measure an error to a relative precision."""
    point = points.at(setting, dim)
    variances = point.variance, point.variance

    def contrast(effect: float) -> Contrast:
        change = effect * abs(point.mean)
        return Contrast(change, point.doubt, variances, point.floor, interval=True)

    return Design((point,), lambda effect: [point.mean * (1 + effect)], contrast)


def difference(points: Points, setting: Setting, against: Setting | None, dim: int) -> Design:
    """Tell the errors of two settings from each other; without a second one, a gap from zero."""
    pair = [points.at(each, dim) for each in (setting, against) if each]
    means = [point.mean for point in pair]
    others = [*means[1:], means[0]] if against else [0.0]
    totals = [sum(getattr(each, name) for each in pair) for name in ("doubt", "variance", "floor")]
    doubt, variance, floor = totals
    contrast = Contrast(abs(means[0] - others[0]), doubt, (variance, variance), floor)
    return Design(tuple(pair), lambda _: others, lambda _: contrast)


def theories(points: Points, setting: Setting, against: Against, dim: int) -> Design:
    """Tell two theories of the same runs from each other."""
    point = points.at(setting, dim)
    if isinstance(against, str):
        rival = points.rival(point, against)
    elif isinstance(against, Mapping):
        rival = points.at({**setting, **against}, dim)
    else:
        rival = with_prediction(point, own_prediction(against, point))
    contrast = Contrast(
        abs(point.mean - rival.mean),
        point.doubt + rival.doubt,
        (point.variance, rival.variance),
        point.floor + rival.floor,
    )
    return Design((point,), lambda _: [rival.mean], lambda _: contrast)


def own_prediction(function: Callable[..., float], point: Point) -> Prediction:
    """Prediction of a function of ratios and sizes.

    One that takes no size is a limit: it may be off by as much as that of linear attention is.
    """
    numbers = ratios_at(point)
    sizes = {name: point.arguments[name] for name in SIZES if name in point.arguments}
    given, named = numbers | sizes, inspect.signature(function).parameters.values()
    if all(each.kind is not each.VAR_KEYWORD for each in named):
        taken = [each.name for each in named if each.default is each.empty or each.name in given]
        if unknown := [name for name in taken if name not in given]:
            raise ValueError(
                f"against may take {', '.join(given)}, got a function of {unknown[0]}"
            )
        given = {name: given[name] for name in taken}
    value = float(function(**given))
    if not math.isfinite(value):
        raise ValueError(f"against must return a finite number, got {value!r}")
    means, place = point.prediction.mean.copy(), int(point.quantity == "idg")
    means[place] = value + means[1] if point.quantity == "gap" else value
    doubts = np.zeros((2, 2))
    if not sizes.keys() & given.keys():
        doubts[place, place] = (
            abs(value * (point.mean / float(limit(point.quantity, numbers)) - 1)) / 2
        )
    return Prediction(means, doubts=doubts)


def transition(
    points: Points, setting: Setting, along: str, values: Sequence[float], dim: int
) -> Design:
    """Tell a curve from the same curve, shifted along a parameter by a relative effect.

    The contrast has the weights of a matched filter: differences over variances.  Between the
    points, ratios of predictions to the limit are interpolated.
    """
    sweep = tuple(points.at({**setting, along: value}, dim) for value in values)
    places = [ratios_at(point) for point in sweep]
    numbers = {name: np.array([each[name] for each in places]) for name in places[0]}
    x = numbers[along]
    if np.any(np.diff(x) <= 0):
        raise NotProposed(f"values of {along} are not told apart by integers")
    means, variances, floors, doubts = (
        np.array([getattr(point, name) for point in sweep])
        for name in ("mean", "variance", "floor", "doubt")
    )
    ratio = PchipInterpolator(np.log(x), means / limit(points.quantity, numbers))

    def shifted(effect: float) -> np.ndarray:
        moved = x * (1 + effect)
        limits = limit(points.quantity, numbers | {along: moved})
        return np.asarray(limits * ratio(np.log(np.clip(moved, x[0], x[-1]))))

    def contrast(effect: float) -> Contrast:
        changes = shifted(effect) - means
        weights = changes / variances
        change, doubt = float(weights @ changes), float(abs(weights) @ doubts)
        variance, floor = (float(weights**2 @ each) for each in (variances, floors))
        return Contrast(change, doubt, (variance, variance), floor)

    return Design(sweep, lambda effect: shifted(effect).tolist(), contrast)


def ratios_at(point: Point) -> dict[str, float]:
    """Parameters of the limit that the integers of a point stand for."""
    numbers = dict(point.arguments)
    sizes = {name: numbers.pop(name) for name in SIZES if name in numbers}
    return ratios_of(**sizes) | numbers


def limit(quantity: str, numbers: Mapping[str, Any]) -> Any:
    """Limit of what is measured."""
    errors, (icl, idg) = structured_errors(**numbers), MEASURED[quantity]
    return icl * errors.icl + idg * errors.idg
