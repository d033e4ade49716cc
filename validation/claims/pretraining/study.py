"""Studies: points and curves in the parameter space whose errors are compared and drawn.

A study simulates curves of points at one size, as the published figures of linear attention do,
and other points at several sizes, whose errors it extrapolates to infinite dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Extrapolation,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
    extrapolate,
    extrapolate_runs,
)
from iclimit.validation.claims.pretraining.points import Point, compare_predictions
from iclimit.validation.drawing import Axes, Figure, draw_estimates, draw_sizes

DIM: dict[Preset, int] = {"quick": 32, "full": 64}
"""Dimension of the curves."""
REPEATS: dict[Preset, int] = {"quick": 12, "full": 60}
"""Repeats of every point of a curve."""
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
    def points(self) -> list[Point]:
        """The points that are simulated."""
        return [self.at(value) for value in self.values]


@dataclass(frozen=True)
class SizeFit:
    """Two extrapolations of the ICL and IDG errors of a point.

    Attributes
    ----------
    point : Point
    errors : Extrapolation
        Of the errors themselves.
    ratio : Extrapolation
        Of the errors over their finite-size prediction: both have the same limit if the theory is
        right.  The prediction takes out most of the size dependence, so a straight line can do and
        the error bars are a fraction of those of the errors.
    """

    point: Point
    errors: Extrapolation
    ratio: Extrapolation

    @classmethod
    def of(cls, point: Point, sizes: Iterable[int], results: Results) -> SizeFit:
        """Fit the errors of a point at all sizes."""
        dims, ratios, covariances = list(sizes), [], []
        runs = [results["simulated", point, dim] for dim in dims]
        for dim, run in zip(dims, runs, strict=True):
            predicted = results["predicted", point, dim]
            scale = np.array([predicted.icl.mean, predicted.idg.mean])
            spread = np.array([predicted.icl.standard_error, predicted.idg.standard_error]) ** 2
            samples = np.stack([run.icl.samples, run.idg.samples])
            covariance = np.cov(samples) / run.repeats + np.diag(spread)
            ratios.append(np.mean(samples, axis=1) / scale)
            covariances.append(covariance / np.outer(scale, scale))
        return cls(
            point,
            extrapolate_runs(dims, [(run.icl, run.idg) for run in runs]),
            extrapolate(dims, np.array(ratios), np.array(covariances), order=1),
        )

    @property
    def comparisons(self) -> list[Comparison]:
        """The limits, from the errors and from the ratios, and the fit of the errors."""
        limit, where = self.point.limit, f"d=inf {self.point}"
        limits = {f"ICL {where}": limit.icl, f"IDG {where}": limit.idg}
        ratios = {f"{name} over its prediction, {where}": 1.0 for name in ("ICL", "IDG")}
        return [
            compare_p_value(f"chi-square of the errors {self.point}", self.errors.p_value),
            *compare_limits(limits, self.errors),
            *compare_limits(ratios, self.ratio),
        ]

    @property
    def note(self) -> str:
        """Orders and goodness of both fits."""
        return (
            f"{self.point}: {self.errors.summary}; ratio to the prediction: {self.ratio.summary}"
        )


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
        first, last = (self.results["predicted", p, self.dim].icl.mean for p in (low, high))
        error = math.hypot(before.standard_error, after.standard_error)
        rise = Estimate(after.mean - before.mean, error, after.repeats)
        allowance = low.allowance(self.dim) * first + high.allowance(self.dim) * last
        return compare(label, last - first, rise, allowance=allowance)

    def errors(self, kind: str, name: str, keys: Iterable[tuple[Point, int]]) -> list[Estimate]:
        """One error, simulated or predicted, at points and dimensions."""
        return [getattr(self.results[kind, point, dim], name) for point, dim in keys]

    def draw_curve(
        self, ax: Axes, curve: Curve, name: str, colour: str, label: str | None = None
    ) -> None:
        """Draw one error along a curve: limit (line), prediction (dashes), simulation (points)."""
        fine = np.geomspace(min(curve.values), max(curve.values), 400)
        ax.plot(fine, getattr(curve.at(fine).limit, name), color=colour, label=label)
        keys = [(point, self.dim) for point in curve.points]
        predicted = [each.mean for each in self.errors("predicted", name, keys)]
        ax.plot(curve.values, predicted, "_", color=colour, markersize=9)
        simulated = self.errors("simulated", name, keys)
        draw_estimates(ax, curve.values, simulated, colour, markersize=3.5)

    def draw_sizes(
        self, ax: Axes, fit: SizeFit, name: str, colour: str, label: str | None = None
    ) -> None:
        """Draw one error against 1/d: simulation (points), prediction (line), limit (star)."""
        keys = [(fit.point, dim) for dim in self.sizes]
        draw_sizes(
            ax,
            self.sizes,
            self.errors("simulated", name, keys),
            colour,
            limit=float(getattr(fit.point.limit, name)),
            fit=fit.errors,
            quantity=("icl", "idg").index(name),
            label=label,
        )
        predicted = [each.mean for each in self.errors("predicted", name, keys)]
        ax.plot(1 / np.array(self.sizes), predicted, color=colour, linewidth=1.2)


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
            cells |= point.cells(self.sizes[preset])
        for curve in self.curves:
            for point in curve.points:
                cells |= point.cells({DIM[preset]: REPEATS[preset]})
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
            comparisons += compare_predictions(results)
            comparisons += [found.compare_rise(name, *pair) for name, pair in self.rises.items()]
            remarks = [fit.note for fit in fits] + notes()
            return Verdict(comparisons + extra(found), lambda figure: draw(figure, found), remarks)

        return Claim.of(name, words, self.cells, judge, figure=figure)
