"""Curves of points that differ in one parameter, simulated at one size and drawn."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from iclimit.drawing import Axes, draw_estimates
from iclimit.validation.claim import Effort, Later, Rows, call
from iclimit.validation.claims.pretraining.points import Point, rise

# Task sets of predictions that are only drawn.
LINE_SETS = 2
# Largest factor from one of these predictions to the next along the curve.
LINE_STEP = 1.7
# Prompts over those of the interpolation threshold, where a drawn line leaves the picture.
BESIDE = (1 - 1e-3, 1 + 1e-3, 1 + 1e-2, 1 + 4e-2)
# Parameters that are integers over a power of the dimension, and this power.
STEPS = {"tau": 2, "alpha": 1, "kappa": 1, "test_alpha": 1}
# Key of figures with curves.
LEGEND = "lines: asymptotic; dashes: finite-size prediction; points: simulation, d = {}"


def size(effort: Effort) -> tuple[int, int]:
    """Dimension of the curves, and repeats of every point."""
    return effort.pick(tiny=16, quick=32, full=64), effort.pick(tiny=4, quick=8, medium=50)


@dataclass(frozen=True)
class Curve:
    """Points that differ in one parameter."""

    base: Point
    axis: str
    values: tuple[float, ...]

    def at(self, value: Any) -> Point:
        """The point at a value of the parameter, or at an array of them."""
        along: dict[str, Any] = {self.axis: value}
        return replace(self.base, **along)

    @property
    def diverges(self) -> bool:
        """Whether it passes the interpolation threshold: tau = 1 in the limit, 1 + 1/d in runs."""
        return self.axis == "tau" and self.base.ridge == 0

    @property
    def points(self) -> list[Point]:
        """The points that are simulated."""
        return [self.at(value) for value in self.values]

    def thinned(self, effort: Effort) -> "Curve":
        """With fewer points where little is simulated."""
        few = self.values[:: 2 if len(self.values) > 4 else 1]
        return replace(self, values=effort.pick(tiny=few, quick=self.values))

    def between(self, dim: int) -> list[Point]:
        """Points between those, on a logarithmic scale, that a run of this size can have."""
        scale = float(dim) ** STEPS[self.axis]
        values = []
        for low, high in pairwise(self.values):
            count = max(2, math.ceil(math.log(high / low, LINE_STEP)))
            values += np.geomspace(low, high, count + 1)[1:-1].tolist()
        if self.diverges:
            values += [(1 + 1 / dim) * share for share in BESIDE]
        return [self.at(round(value * scale) / scale) for value in values]

    def results(self, effort: Effort) -> Later:
        """What is drawn: simulations, and predictions at more points."""
        dim, repeats = size(effort)
        curve = self.thinned(effort)
        between = effort.pick(tiny=[], quick=self.between(dim))
        predicted = {point: point.predicted(dim, LINE_SETS) for point in between}
        predicted |= {point: point.predicted(dim) for point in curve.points}
        simulated = [point.simulated(dim, repeats) for point in curve.points]
        return call(CurveResults, curve, dim, simulated, predicted)


@dataclass(frozen=True)
class CurveResults:
    """Simulations of a curve at one dimension, and predictions by point."""

    curve: Curve
    dim: int
    simulated: list[Any]
    predicted: dict[Point, Any]

    def draw(self, ax: Axes, name: str, colour: str, label: str | None = None) -> None:
        """Draw one error: limit (line), prediction (dashes), simulation (points)."""
        curve = self.curve
        axis = self.curve.axis
        fine = np.geomspace(min(curve.values), max(curve.values), 400)
        if curve.diverges:  # up to there, and a break
            beside = np.geomspace(1e-9, 1e-2, 30)
            fine = np.sort(np.concatenate([fine, 1 - beside, [1.0], 1 + beside]))
        limit = getattr(curve.at(fine).limit, name)
        ax.plot(fine, np.where(np.isfinite(limit), limit, np.nan), color=colour, label=label)
        line = {getattr(point, axis): getattr(e, name).mean for point, e in self.predicted.items()}
        if curve.diverges:
            line[1 + 1 / self.dim] = math.nan
        ax.plot(sorted(line), [line[x] for x in sorted(line)], "--", color=colour)
        errors = [getattr(run, name) for run in self.simulated]
        draw_estimates(ax, curve.values, errors, colour, markersize=3.5)


def curve_rows(
    effort: Effort, curves: Iterable[Curve], rises: Mapping[str, tuple[Point, Point]] | None = None
) -> Rows:
    """Both errors at all points of curves, and differences of the ICL errors at pairs of them."""
    for point in dict.fromkeys(
        point for curve in curves for point in curve.thinned(effort).points
    ):
        yield from point.rows(*size(effort))
    for label, pair in (rises or {}).items():
        yield rise(label, *pair, *size(effort))
