"""Curves of points that differ in one parameter, simulated at one size and drawn."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from iclimit.dense_lines import Line, dense_line
from iclimit.drawing import Axes, draw_estimates
from iclimit.smooth_lines import smooth_line
from iclimit.validation.claim import Effort, Later, Rows, call
from iclimit.validation.claims.pretraining.points import Point, rise

# Task sets of predictions that are only drawn.
LINE_SETS = 2
# Largest factor from one of these predictions to the next along the curve.
LINE_STEP = 1.7
# Parameters that are integers over a power of the dimension, and this power.
STEPS = {"tau": 2, "alpha": 1, "kappa": 1, "test_alpha": 1}
# Key of figures with curves.
LEGEND = "lines: limit of large d;  dashes: prediction for d = {0};  points: simulation at d = {0}"
# Points along a line at which it is computed before its divergences are looked for.
LINE_POINTS = 100
# Width of dashes relative to that of lines.
THIN = 0.7


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
        values = self.curve.values
        grid = np.geomspace(min(values), max(values), LINE_POINTS)
        limit = self.limit(name)
        draw_line(ax, dense_line(limit, grid, limit(grid)), color=colour, label=label)
        if prediction := self.smoothed(name):
            line = dense_line(prediction, grid, prediction(grid))
            draw_line(ax, line, color=colour, linestyle="--", width=THIN)
        errors = [getattr(run, name) for run in self.simulated]
        draw_estimates(ax, values, errors, colour, markersize=4)

    def limit(self, name: str, shift: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
        """One error in the limit along the curve, with this factor of the number of prompts."""

        def error(x: np.ndarray) -> np.ndarray:
            point = self.curve.at(np.asarray(x))
            return np.asarray(getattr(replace(point, tau=point.tau * shift).limit, name))

        return error

    def smoothed(self, name: str) -> Callable[[np.ndarray], np.ndarray] | None:
        """Prediction along the curve, which scatters with the tasks that are drawn, smoothed.

        At size d the ratio to the limit is taken at tau d/(d + 1), where the limit diverges as the
        prediction does.
        """
        line = {getattr(point, self.curve.axis): point for point in self.predicted}
        at = np.array(sorted(line))
        estimates = [getattr(self.predicted[line[x]], name) for x in at.tolist()]
        mean = np.array([estimate.mean for estimate in estimates])
        draws = np.array([estimate.repeats for estimate in estimates])
        errors = np.array([estimate.standard_error for estimate in estimates])
        # The scatter of two task sets is hardly known: that of all predictions is taken for each.
        scatter = np.median(errors / mean * np.sqrt(draws))
        spread = scatter * mean / np.sqrt(draws)
        return smooth_line(at, mean, spread, self.limit("icl", self.dim / (self.dim + 1)), np.log)


def draw_line(ax: Axes, line: Line, *, width: float = 1.0, **style: Any) -> None:
    """Draw a line that leaves the picture where it diverges."""
    (drawn,) = ax.plot(line.x, line.framed, **style)
    drawn.set(ydata=line.y, linewidth=width * drawn.get_linewidth())


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
