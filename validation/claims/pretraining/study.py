"""Studies: points and curves in the parameter space whose errors are compared and drawn.

A study simulates curves of points at one size, as the published figures of linear attention do,
and other points at several sizes, whose errors it extrapolates to infinite dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from iclimit.drawing import Axes, Figure, draw_estimates, draw_points, draw_sizes
from iclimit.results import Estimate
from iclimit.statistics import Extrapolation, extrapolate, extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
)
from iclimit.validation.claims.pretraining.points import Point, compare_predictions, unsure
from iclimit.validation.judge.comparisons import ERRORS

DIM: dict[Preset, int] = {"quick": 32, "medium": 32, "full": 64}
"""Dimension of the curves."""
REPEATS: dict[Preset, int] = {"quick": 8, "medium": 60, "full": 60}
"""Repeats of every point of a curve."""
LINE_SETS, LINE_STEP = 4, 1.7
"""Task sets of predictions that are only drawn, and the factor from one to the next at most."""
BESIDE = (1 - 1e-3, 1 + 1e-3, 1 + 1e-2, 1 + 4e-2)
"""Prompts over those of the interpolation threshold, where a drawn line leaves the picture."""
STEPS = {"tau": 2, "alpha": 1, "kappa": 1, "test_alpha": 1}
"""Parameters that are integers over a power of the dimension, and this power."""
LEGEND = "lines: asymptotic; dashes: finite-size prediction; points: simulation, d = {}"


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

    def between(self, dim: int) -> list[Point]:
        """Points between those, on a logarithmic scale, that a run of this size can have."""
        scale, found = float(dim) ** STEPS[self.axis], []
        for low, high in pairwise(self.values):
            count = max(2, math.ceil(math.log(high / low, LINE_STEP)))
            found += np.geomspace(low, high, count + 1)[1:-1].tolist()
        if self.diverges:
            found += [(1 + 1 / dim) * share for share in BESIDE]
        return [self.at(round(value * scale) / scale) for value in found]


@dataclass(frozen=True)
class SizeFit:
    """Limit of the ICL and IDG errors of a point, from simulations and finite-size predictions.

    The errors over their predictions tend to 1 as c0 + c1/d, much closer to a straight line than
    the errors themselves.  So c0 times the limit of the predictions estimates the limit of the
    errors.  The formula of the limit takes no part in it: the predictions are extrapolated from
    larger sizes, where they cost next to nothing.

    Attributes
    ----------
    point : Point
    sizes : list of int
        Dimensions of the simulations.
    ratio : Extrapolation
        Of the errors over their predictions.
    predictions : Extrapolation
        Of the predictions.
    predicted : ndarray (sizes, 2)
        Predictions at the sizes of the simulations.
    """

    point: Point
    sizes: list[int]
    ratio: Extrapolation
    predictions: Extrapolation
    predicted: np.ndarray

    @classmethod
    def of(cls, point: Point, sizes: Iterable[int], results: Results) -> SizeFit:
        """Fit the errors of a point at all sizes."""
        dims = sorted(sizes)
        runs = [results["simulated", point, dim] for dim in dims]
        predicted = [results["predicted", point, dim] for dim in dims]
        means = np.array([(each.icl.mean, each.idg.mean) for each in predicted])
        spreads = [(each.icl.standard_error, each.idg.standard_error) for each in predicted]
        ratios = [
            np.stack([run.icl.samples, run.idg.samples]) / mean[:, None]
            for run, mean in zip(runs, means, strict=True)
        ]
        extra = [np.diag(row) for row in (np.array(spreads) / means) ** 2]
        return cls(
            point,
            dims,
            extrapolate_runs(dims, ratios, order=1, extra=extra),
            extrapolate(
                point.anchors,
                *_moments([results["predicted", point, dim] for dim in point.anchors]),
                order=2,
            ),
            means,
        )

    @property
    def limits(self) -> Extrapolation:
        """Errors in infinite dimension: the fit of the ratios in units of the predictions."""
        scale, ratio = self.predictions.value, self.ratio
        own = self.predictions.covariance * np.outer(ratio.value, ratio.value)
        return replace(
            ratio,
            value=ratio.value * scale,
            covariance=ratio.covariance * np.outer(scale, scale) + own,
            coefficients=ratio.coefficients * scale,
            deviations=ratio.deviations * scale[:, None],
        )

    @property
    def comparisons(self) -> list[Comparison]:
        """The limits, and the fit of the ratios."""
        limit, where = self.point.limit, f"d=inf {self.point}"
        theories = {f"ICL {where}": limit.icl, f"IDG {where}": limit.idg}
        return [
            *compare_limits(theories, self.limits, of=self.point.functions, draws=str(self.point)),
            compare_p_value(f"chi-square of the ratios {self.point}", self.ratio.p_value),
        ]

    def curve(self, quantity: int) -> np.ndarray:
        """Fitted errors at the sizes of the simulations."""
        return self.ratio.curve(np.array(self.sizes))[:, quantity] * self.predicted[:, quantity]

    @property
    def note(self) -> str:
        """Goodness of the fit."""
        return f"{self.point}: ratio to the prediction: {self.ratio.summary}"


def _minus(first: Estimate, second: Estimate) -> Estimate:
    """Difference of independent estimates."""
    error = math.hypot(first.standard_error, second.standard_error)
    return Estimate(first.mean - second.mean, error, min(first.repeats, second.repeats))


def _moments(predictions: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of predicted errors, over the same task sets."""
    samples = [np.stack([each.icl.samples, each.idg.samples]) for each in predictions]
    least = 1e-12  # relative rounding, which stands for the spread of predictions without any
    means = np.array([each.mean(axis=1) for each in samples])
    covariances = [
        np.cov(each) / each.shape[1] if each.shape[1] > 1 else np.zeros((2, 2)) for each in samples
    ]
    return means, np.array(covariances) + [np.diag((least * each) ** 2) for each in means]


@dataclass(frozen=True)
class Found:
    """Results of a study at a preset.

    Attributes
    ----------
    dim : int
        Dimension of the curves.
    sizes : list of int
        Dimensions of the points that are extrapolated.
    results : dict
        Simulations and predictions.
    fits : list of SizeFit
        One for each point that is extrapolated.
    """

    dim: int
    sizes: list[int]
    results: Results
    fits: list[SizeFit]

    def compare_rise(self, label: str, low: Point, high: Point) -> Comparison:
        """Difference of the ICL errors at two points, simulated against predicted."""
        before, after = (self.results["simulated", p, self.dim].icl for p in (low, high))
        first, last = (unsure(self.results["predicted", p, self.dim], "icl") for p in (low, high))
        return compare(label, _minus(last, first), _minus(after, before))

    def errors(self, kind: str, name: str, keys: Iterable[tuple[Point, int]]) -> list[Estimate]:
        """One error, simulated or predicted, at points and dimensions."""
        return [getattr(self.results[kind, point, dim], name) for point, dim in keys]

    def draw_curve(
        self, ax: Axes, curve: Curve, name: str, colour: str, label: str | None = None
    ) -> None:
        """Draw one error along a curve: limit (line), prediction (dashes), simulation (points)."""
        fine = np.geomspace(min(curve.values), max(curve.values), 400)
        if curve.diverges:  # up to there, and a break
            beside = np.geomspace(1e-9, 1e-2, 30)
            fine = np.sort(np.concatenate([fine, 1 - beside, [1.0], 1 + beside]))
        limit = getattr(curve.at(fine).limit, name)
        ax.plot(fine, np.where(np.isfinite(limit), limit, np.nan), color=colour, label=label)
        keys = [(point, self.dim) for point in curve.points]
        line = sorted(
            {*curve.points, *curve.between(self.dim)}, key=lambda each: getattr(each, curve.axis)
        )
        predicted = self.errors("predicted", name, [(point, self.dim) for point in line])
        places = [getattr(point, curve.axis) for point in line]
        means = [each.mean for each in predicted]
        if curve.diverges:
            threshold = 1 + 1 / self.dim
            above = int(np.searchsorted(places, threshold))
            places.insert(above, threshold)
            means.insert(above, math.nan)
        ax.plot(places, means, "--", color=colour)
        simulated = self.errors("simulated", name, keys)
        draw_estimates(ax, curve.values, simulated, colour, markersize=3.5)

    def draw_sizes(
        self, ax: Axes, fit: SizeFit, name: str, colour: str, label: str | None = None
    ) -> None:
        """Draw one error against 1/d: simulation (points), prediction (line), limit (star).

        The fit is dotted, and ends in the extrapolated error.
        """
        number = ERRORS.index(name)
        simulated = self.errors("simulated", name, [(fit.point, dim) for dim in fit.sizes])
        limit = float(getattr(fit.point.limit, name))
        draw_sizes(ax, fit.sizes, simulated, colour, limit=limit, label=label)
        value, error = fit.limits.value[number], fit.limits.standard_error[number]
        draw_points(ax, [0], [value], [error], colour, fmt="none")
        inverse = np.array([1 / dim for dim in fit.sizes] + [0.0])
        fitted = np.append(fit.curve(number), value)
        predicted = np.append(fit.predicted[:, number], fit.predictions.value[number])
        ax.plot(inverse, fitted, ":", color=colour, linewidth=0.9)
        ax.plot(inverse, predicted, color=colour, linewidth=1.2)


@dataclass(frozen=True)
class Study:
    """What a claim on the errors simulates and compares.

    Attributes
    ----------
    curves : tuple of Curve
        Simulated at one size; every point is compared with its finite-size prediction.
    limits : tuple of Point
        Simulated at several sizes and extrapolated.
    sizes : dict
        Repeats at each of these sizes, by preset.
    rises : dict of str to (Point, Point)
        Pairs of points of the curves whose difference of ICL errors is compared.
    """

    curves: tuple[Curve, ...] = ()
    limits: tuple[Point, ...] = ()
    sizes: Mapping[Preset, Mapping[int, int]] = field(default_factory=dict)
    rises: Mapping[str, tuple[Point, Point]] = field(default_factory=dict)

    def cells(self, preset: Preset) -> dict[Any, Cell]:
        """Simulations and predictions of all points."""
        cells: dict[Any, Cell] = {}
        for point in self.limits:
            cells |= point.limit_cells(self.sizes[preset])
        for curve in self.curves:
            dim = DIM[preset]
            for point in curve.points:
                cells |= point.cells(dim, REPEATS[preset])
            for point in curve.between(dim):
                key = "predicted", point, dim
                cells.setdefault(key, point.line_prediction(dim, LINE_SETS))
        return cells

    def claim(
        self,
        name: str,
        words: str,
        draw: Callable[[Figure, Found], None],
        extra: Callable[[Found], list[Comparison]] = lambda _: [],
        *,
        notes: Callable[[], list[str]] = list,
        figure: bool = True,
    ) -> Claim:
        """Build the claim, given its words, its figure, further comparisons and notes."""

        def judge(preset: Preset, results: Results) -> Verdict:
            sizes = list(self.sizes[preset]) if self.sizes else []
            fits = [SizeFit.of(point, sizes, results) for point in self.limits]
            found = Found(DIM[preset], sizes, results, fits)
            comparisons = [row for fit in fits for row in fit.comparisons]
            comparisons += compare_predictions(
                results, [point for curve in self.curves for point in curve.points]
            )
            comparisons += [found.compare_rise(name, *pair) for name, pair in self.rises.items()]
            remarks = [fit.note for fit in fits] + notes()
            return Verdict(comparisons + extra(found), lambda figure: draw(figure, found), remarks)

        return Claim.of(name, words, self.cells, judge, figure=figure)
