"""ICL and IDG errors, extrapolated to infinite size, against the asymptotic formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    PAPER,
    Point,
    covariance,
    means,
    prediction_comparisons,
)
from iclimit.validation.drawing import COLOURS, draw_points
from iclimit.validation.statistics import Extrapolation, extrapolate

RIDGELESS = (
    Point(tau=0.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=1.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=0.5, alpha=4, kappa=2, rho=0.25),
    Point(tau=2, alpha=4, kappa=2, rho=0.1),
)
RIDGE = (
    Point(tau=0.5, alpha=2, kappa=2, rho=0.25, ridge=0.1),
    Point(tau=1.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.05),
    Point(tau=1, alpha=1, kappa=1, rho=0.1, ridge=0.5),
    Point(tau=3, alpha=10, kappa=0.5, rho=0.01, ridge=0.001),
)
REPEATS: dict[Preset, dict[int, int]] = {
    "quick": {16: 192, 24: 96, 32: 64, 48: 32},
    "full": {16: 2000, 24: 1200, 32: 800, 48: 400, 64: 250, 96: 80},
}
"""Repeats at each size: errors bars shrink as 1/d, cost grows as d^4."""


def _cells(points: Sequence[Point], preset: Preset) -> list[Cell]:
    return [
        cell
        for point in points
        for d, repeats in sorted(REPEATS[preset].items(), reverse=True)
        for cell in (point.cell(d, repeats), point.prediction(d))
    ]


def _judge(points: Sequence[Point], preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    repeats = REPEATS[preset]
    comparisons: list[Comparison] = []
    fits: dict[Point, Extrapolation] = {}
    notes = []
    for point in points:
        runs = [results[point.cell(d, count)] for d, count in repeats.items()]
        fit = extrapolate(
            list(repeats),
            np.array([means(run) for run in runs]),
            np.array([covariance(run) for run in runs]),
        )
        fits[point] = fit
        ratio = ratio_to_prediction(point, repeats, results)
        for row, name in enumerate(("ICL", "IDG")):
            label = f"{name} over its prediction, d=inf {point}"
            comparisons.append(Comparison(label, 1.0, ratio.value[row], ratio.standard_error[row]))
        # A fit that is wrong at any order would make its error bar meaningless.
        for name, tested in (("errors", fit), ("ratios", ratio)):
            bad = max(-float(ndtri(tested.p_value)), 0.0)
            comparisons.append(Comparison(f"chi-square of the {name} {point}", 0.0, bad, 1.0))
        # The gap is a third, correlated number: its error bar uses the covariance of the two.
        contrast = np.array([[1, 0], [0, 1], [1, -1]])
        theory, value = contrast @ point.theory, contrast @ fit.value
        errors = np.sqrt(np.diag(contrast @ fit.covariance @ contrast.T))
        for row, name in enumerate(("ICL", "IDG", "ICL-IDG")):
            comparisons.append(
                Comparison(f"{name} d=inf {point}", theory[row], value[row], errors[row])
            )
        for d, count in repeats.items():
            comparisons += prediction_comparisons(point, d, results, point.cell(d, count))
        correlation = fit.covariance[0, 1] / np.prod(fit.standard_error)
        notes.append(
            f"{point}: order {fit.order} in 1/d, chi-square {fit.chi_square:.1f} for "
            f"{fit.degrees} degrees of freedom (p = {fit.p_value:.2f}), correlation of ICL and "
            f"IDG {correlation:.2f}; ratio to the prediction: order {ratio.order}, "
            f"p = {ratio.p_value:.2f}"
        )

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(points), squeeze=False)[0]
        figure.set_size_inches(3.1 * len(points), 3.5)
        for ax, point in zip(axes, points, strict=True):
            _draw_point(ax, point, repeats, results, fits[point])
        axes[0].set_ylabel("test error")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)

    return Verdict(tuple(comparisons), draw, tuple(notes))


def ratio_to_prediction(
    point: Point, repeats: Mapping[int, int], results: Mapping[Cell, Any]
) -> Extrapolation:
    """Extrapolate simulation over prediction: both tend to the same limit if the theory is right.

    The prediction takes out most of the size dependence, so a straight line can do and the error
    bars are a fraction of those of the plain extrapolation.
    """
    ratios, covariances = [], []
    for d, count in repeats.items():
        run, predicted = results[point.cell(d, count)], results[point.prediction(d)]
        scale = means(predicted)
        spread = np.array([predicted.icl.standard_error, predicted.idg.standard_error]) ** 2
        ratios.append(means(run) / scale)
        covariances.append((covariance(run) + np.diag(spread)) / np.outer(scale, scale))
    return extrapolate(list(repeats), np.array(ratios), np.array(covariances), orders=(1, 2))


def _draw_point(
    ax: Any,
    point: Point,
    repeats: Mapping[int, int],
    results: Mapping[Cell, Any],
    fit: Extrapolation,
) -> None:
    smallest = min(repeats)
    d = np.geomspace(smallest, 1e4, 200)
    for index, (name, colour) in enumerate(zip(("icl", "idg"), COLOURS, strict=False)):
        runs = [results[point.cell(size, count)] for size, count in repeats.items()]
        draw_points(
            ax,
            [1 / size for size in repeats],
            [getattr(run, name).mean for run in runs],
            [getattr(run, name).standard_error for run in runs],
            colour,
            label=f"{name.upper()} simulated",
        )
        ax.plot(1 / d, fit.curve(d)[:, index], color=colour, linewidth=0.9, linestyle=":")
        ax.plot(
            [1 / size for size in repeats],
            [getattr(results[point.prediction(size)], name).mean for size in repeats],
            color=colour,
            linewidth=1.2,
            label="finite-size prediction" if index == 0 else None,
        )
        ax.plot(
            0,
            point.theory[index],
            marker="*",
            markersize=11,
            color=colour,
            linestyle="none",
            clip_on=False,
            zorder=5,
            label="asymptotic" if index == 0 else None,
        )
        draw_points(ax, [0], [fit.value[index]], [fit.standard_error[index]], colour, fmt="none")
    ax.set_xlim(left=0)
    ax.set_xlabel("$1/d$")
    ax.set_title(str(point).replace(" ridge", "\nridge"), fontsize=7.5)


def _claim(name: str, title: str, points: Sequence[Point], source: str) -> Claim:
    return Claim(
        name=name,
        title=title,
        source=source,
        statement=(
            "Mean test errors of simulated runs, extrapolated to infinite dimension by a "
            "polynomial in 1/d, equal the asymptotic ICL and IDG errors and their difference; so "
            "do, with smaller error bars, the errors over their finite-size prediction, whose "
            "limit is the asymptotic one; the fits pass their chi-square test; and at every "
            "simulated size errors and prediction agree up to the "
            "documented deviation of the prediction."
        ),
        cells=lambda preset: _cells(points, preset),
        judge=lambda preset, results: _judge(points, preset, results),
        figure=False,
    )


ridgeless_claim = _claim(
    "ridgeless",
    "Ridgeless ICL and IDG errors, both sides of tau = 1",
    RIDGELESS,
    f"{PAPER}: ICL and IDG error in the ridgeless limit",
)
ridge_claim = _claim(
    "ridge",
    "ICL and IDG errors at finite ridge",
    RIDGE,
    f"{PAPER}: ICL and IDG error; finite-ridge form derived in the documentation",
)
