"""Errors at several sizes, extrapolated to infinite dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iclimit.validation.claim import Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    Point,
    Results,
    cells_of,
    compare_predictions,
    draw_errors,
)
from iclimit.validation.comparisons import ERRORS, compare_limits, compare_p_value
from iclimit.validation.drawing import COLOURS, panels
from iclimit.validation.statistics import Extrapolation, extrapolate, extrapolate_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        dims = list(sizes)
        runs = [results["simulated", point, dim] for dim in dims]
        errors = extrapolate_runs(dims, [(run.icl, run.idg) for run in runs])
        ratios, covariances = [], []
        for dim, run in zip(dims, runs, strict=True):
            predicted = results["predicted", point, dim]
            scale = np.array([predicted.icl.mean, predicted.idg.mean])
            spread = np.array([predicted.icl.standard_error, predicted.idg.standard_error]) ** 2
            samples = np.stack([run.icl.samples, run.idg.samples])
            ratios.append(np.mean(samples, axis=1) / scale)
            covariance = np.cov(samples) / run.repeats + np.diag(spread)
            covariances.append(covariance / np.outer(scale, scale))
        ratio = extrapolate(dims, np.array(ratios), np.array(covariances), orders=(1, 2))
        return cls(point, errors, ratio)

    @property
    def comparisons(self) -> list[Comparison]:
        """The limits, from the errors and from the ratios, and the fit of the errors."""
        limit = self.point.limit
        return [
            compare_p_value(f"chi-square of the errors {self.point}", self.errors.p_value),
            *compare_limits(
                {f"ICL d=inf {self.point}": limit.icl, f"IDG d=inf {self.point}": limit.idg},
                self.errors,
            ),
            *compare_limits(
                {
                    f"{name} over its prediction, d=inf {self.point}": 1.0
                    for name in ("ICL", "IDG")
                },
                self.ratio,
            ),
        ]

    @property
    def note(self) -> str:
        """Orders and goodness of both fits."""
        return (
            f"{self.point}: {self.errors.summary}; ratio to the prediction: {self.ratio.summary}"
        )


def compare_fits(fits: Iterable[SizeFit]) -> list[Comparison]:
    """Comparisons of several fits."""
    return [row for fit in fits for row in fit.comparisons]


REPEATS: dict[Preset, dict[int, int]] = {
    "quick": {16: 192, 24: 96, 32: 64, 48: 32},
    "full": {16: 2000, 24: 1200, 32: 800, 48: 400, 64: 250, 96: 80},
}
"""Repeats at each size: error bars shrink as 1/d, the cost grows as d^4."""


def limit_claim(name: str, title: str, source: str, points: Sequence[Point]) -> Claim:
    """Build the claim that the errors of these points have their asymptotic limits."""
    return Claim(
        name=name,
        title=title,
        source=source,
        statement=(
            "Mean test errors of simulated runs, extrapolated to infinite dimension by a "
            "polynomial in 1/d, equal the asymptotic ICL and IDG errors and their difference. So "
            "do, with smaller error bars, the errors over their finite-size prediction, which has "
            "the same limit. The fits pass their chi-square tests. At every simulated size errors "
            "and prediction agree up to the documented deviation of the prediction."
        ),
        cells=lambda preset: cells_of(points, REPEATS[preset]),
        judge=lambda preset, results: _judge(points, REPEATS[preset], results),
        figure=False,
    )


def _judge(points: Sequence[Point], sizes: Iterable[int], results: Results) -> Verdict:
    fits = [SizeFit.of(point, sizes, results) for point in points]
    comparisons, notes = compare_predictions(results), []
    for fit in fits:
        name = f"chi-square of the ratios {fit.point}"
        comparisons += [*fit.comparisons, compare_p_value(name, fit.ratio.p_value), _gap(fit)]
        correlation = fit.errors.covariance[0, 1] / np.prod(fit.errors.standard_error)
        notes.append(f"{fit.note}; correlation of ICL and IDG {correlation:.2f}")

    def draw(figure: Figure) -> None:
        axes = panels(figure, len(fits), width=3.1 * len(fits), height=3.5)
        for ax, fit in zip(axes, fits, strict=True):
            for name, colour in zip(ERRORS, COLOURS, strict=False):
                label = f"{name.upper()} simulated"
                draw_errors(ax, fit.point, name, sizes, results, fit.errors, colour, label)
            ax.set_title(str(fit.point).replace(" ridge", "\nridge"), fontsize=7.5)
        axes[0].set_ylabel("test error")
        axes[0].plot([], [], color="0.4", linewidth=1.2, label="finite-size prediction")
        axes[0].plot([], [], "*", color="0.4", markersize=11, label="asymptotic")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)

    return Verdict(tuple(comparisons), draw, tuple(notes))


def _gap(fit: SizeFit) -> Comparison:
    """Extrapolated difference of the errors; its error bar uses their covariance."""
    contrast, limit = np.array([1, -1]), fit.point.limit
    variance = contrast @ fit.errors.covariance @ contrast
    return Comparison(
        f"ICL-IDG d=inf {fit.point}",
        float(limit.icl - limit.idg),
        float(contrast @ fit.errors.value),
        float(np.sqrt(variance)),
    )
