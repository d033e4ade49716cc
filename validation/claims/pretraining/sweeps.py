"""Sweeps through the parameter space: the published figures of linear attention.

Each sweep simulates points at one size, compares them with the finite-size prediction there, and
draws them over the asymptotic curve and the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import icl_error, idg_error
from iclimit.notation import PARAMETERS
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.points import PAPER, Point, prediction_comparisons
from iclimit.validation.drawing import COLOURS, LABELS, draw_points, log_scale

SIZE: dict[Preset, int] = {"quick": 32, "full": 64}
REPEATS: dict[Preset, int] = {"quick": 12, "full": 60}

ERRORS = {"icl": icl_error, "idg": idg_error}


@dataclass(frozen=True)
class Curve:
    """Points that differ in one parameter."""

    base: Point
    axis: str
    values: tuple[float, ...]

    @property
    def points(self) -> list[Point]:
        return [replace(self.base, **{self.axis: value}) for value in self.values]


def sweep_cells(curves: Sequence[Curve], preset: Preset) -> list[Cell]:
    """Cells of all points of the curves."""
    d = SIZE[preset]
    return [
        cell
        for curve in curves
        for point in curve.points
        for cell in (point.cell(d, REPEATS[preset]), point.prediction(d))
    ]


def sweep_comparisons(
    curves: Sequence[Curve], preset: Preset, results: Mapping[Cell, Any]
) -> list[Comparison]:
    """All points against the finite-size prediction."""
    d = SIZE[preset]
    return [
        comparison
        for curve in curves
        for point in curve.points
        for comparison in prediction_comparisons(point, d, results, point.cell(d, REPEATS[preset]))
    ]


def rise(
    label: str, low: Point, high: Point, preset: Preset, results: Mapping[Cell, Any], name: str
) -> Comparison:
    """Difference of one error between two points, simulated against predicted."""
    d = SIZE[preset]
    cells = [point.cell(d, REPEATS[preset]) for point in (low, high)]
    before, after = (getattr(results[cell], name) for cell in cells)
    predicted = [getattr(results[point.prediction(d)], name).mean for point in (low, high)]
    return Comparison(
        label=label,
        theory=predicted[1] - predicted[0],
        estimate=after.mean - before.mean,
        standard_error=math.hypot(before.standard_error, after.standard_error),
        allowance=sum(
            point.allowance(d) * value for point, value in zip((low, high), predicted, strict=True)
        ),
        degrees=REPEATS[preset] - 1,
    )


def draw_sweep(
    ax: Any,
    curves: Sequence[Curve],
    name: str,
    preset: Preset,
    results: Mapping[Cell, Any],
    label: str,
) -> None:
    """One error along the curves: asymptotic line, prediction (dashed), simulation (points)."""
    for curve, colour in zip(curves, COLOURS, strict=False):
        axis = curve.axis
        fine = np.geomspace(min(curve.values), max(curve.values), 400)
        parameters = vars(curve.base) | {axis: fine}
        ax.plot(fine, ERRORS[name](**parameters), color=colour, label=_legend(curve, label))
        draw_runs(ax, curve, name, preset, results, colour)
    log_scale(ax, "x")
    ax.set_xlabel(LABELS[axis])
    ax.set_ylabel(LABELS[f"{name}_error"])


def draw_runs(
    ax: Any, curve: Any, name: str, preset: Preset, results: Mapping[Cell, Any], colour: Any
) -> None:
    """Predictions (dashes) and simulations (points) of one error along a curve."""
    d = SIZE[preset]
    predicted = [getattr(results[point.prediction(d)], name).mean for point in curve.points]
    ax.plot(curve.values, predicted, color=colour, linestyle="none", marker="_", markersize=9)
    runs = [results[point.cell(d, REPEATS[preset])] for point in curve.points]
    draw_points(
        ax,
        curve.values,
        [getattr(run, name).mean for run in runs],
        [getattr(run, name).standard_error for run in runs],
        colour,
        markersize=3.5,
    )


def _legend(curve: Curve, label: str) -> str:
    return f"${PARAMETERS[label].symbol} = {getattr(curve.base, label):g}$"


def _draw_both_errors(
    figure: Any,
    curves: Sequence[Curve],
    preset: Preset,
    results: Mapping[Cell, Any],
    label: str,
    title: str,
) -> Any:
    """ICL errors on the left, IDG errors on the right; return the axes."""
    figure.set_size_inches(8.4, 3.6)
    axes = figure.subplots(1, 2)
    for ax, name in zip(axes, ERRORS, strict=True):
        draw_sweep(ax, curves, name, preset, results, label)
    axes[1].legend(title=title, loc="best")
    figure.suptitle(
        "lines: asymptotic; dashes: finite-size prediction; "
        f"points: simulation, d = {SIZE[preset]}",
        fontsize=8,
    )
    return axes


# --- double descent in the number of prompts -------------------------------------------------

_TAUS = (0.25, 0.5, 0.75, 0.875, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0)
DOUBLE_DESCENT = tuple(
    Curve(Point(tau=1, alpha=alpha, kappa=0.5, rho=0.01), "tau", _TAUS) for alpha in (1.0, 10.0)
)


def _judge_double_descent(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = sweep_comparisons(DOUBLE_DESCENT, preset, results)
    for curve in DOUBLE_DESCENT:
        start, below, above, end = (replace(curve.base, tau=t) for t in (0.5, 0.875, 1.125, 4.0))
        alpha = curve.base.alpha
        comparisons += [
            rise(f"rise to the peak alpha={alpha:g}", start, below, preset, results, "icl"),
            rise(f"descent from the peak alpha={alpha:g}", above, end, preset, results, "icl"),
        ]
        for name, error in ERRORS.items():
            at_peak = error(**vars(curve.base) | {"tau": 1.0})
            label = f"1/{name.upper()} at tau=1 alpha={alpha:g}, asymptotic"
            comparisons.append(Comparison(label, 0.0, 1 / float(at_peak), 0.0))

    def draw(figure: Any) -> None:
        title = r"$\kappa = 0.5,\ \rho = 0.01$, ridgeless"
        axes = _draw_both_errors(figure, DOUBLE_DESCENT, preset, results, "alpha", title)
        for ax, limits in zip(axes, ((0.5, 40), (0.03, 40)), strict=True):
            ax.set_ylim(*limits)
            log_scale(ax, "y")
            ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)

    return Verdict(tuple(comparisons), draw)


double_descent_claim = Claim(
    name="double-descent",
    title="Double descent in the number of prompts, with a peak at tau = 1",
    source=f"{PAPER}: figure of double descent in tau",
    statement=(
        "Ridgeless, both errors rise towards tau = 1 and fall beyond it, by as much as the "
        "finite-size prediction says at every simulated tau; the asymptotic errors diverge there."
    ),
    cells=lambda preset: sweep_cells(DOUBLE_DESCENT, preset),
    judge=_judge_double_descent,
)

# --- context length --------------------------------------------------------------------------

_ALPHAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
CONTEXT_LENGTH = tuple(
    Curve(Point(tau=4, alpha=1, kappa=kappa, rho=0.25), "alpha", _ALPHAS)
    for kappa in (0.5, 1.0, 4.0)
)


def _judge_context_length(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = sweep_comparisons(CONTEXT_LENGTH, preset, results)
    few = CONTEXT_LENGTH[0].base
    low, high = replace(few, alpha=2.0), replace(few, alpha=32.0)
    label = "rise of ICL with context, kappa=0.5"
    comparisons.append(rise(label, low, high, preset, results, "icl"))

    def draw(figure: Any) -> None:
        title = r"$\tau = 4,\ \rho = 0.25$, ridgeless"
        _draw_both_errors(figure, CONTEXT_LENGTH, preset, results, "kappa", title)

    return Verdict(tuple(comparisons), draw)


context_length_claim = Claim(
    name="context-length",
    title="Longer contexts: IDG error falls, ICL error with few tasks rises again",
    source=f"{PAPER}: figure of the errors against context length",
    statement=(
        "At fixed pretraining size and few tasks the ridgeless ICL error has a minimum in the "
        "context length and grows beyond it; simulation follows the finite-size prediction along "
        "the whole curve."
    ),
    cells=lambda preset: sweep_cells(CONTEXT_LENGTH, preset),
    judge=_judge_context_length,
)

# --- where the ICL error is nonmonotonic in the context length --------------------------------

NOISE = 0.5
INSIDE = Curve(Point(tau=1.5, alpha=1, kappa=1.5, rho=NOISE), "alpha", (2.0, 8.0, 64.0))
OUTSIDE = Curve(Point(tau=4, alpha=1, kappa=4, rho=NOISE), "alpha", (2.0, 8.0, 64.0))


def nonmonotonicity_boundary(kappa: np.ndarray, rho: float) -> np.ndarray:
    r"""Largest tau > 1 at which the ridgeless ICL error nears its alpha = inf limit from below.

    For kappa > 1 the error at large alpha is :math:`e_\infty + c q + O(q^2)` with
    :math:`q = (1+\rho)/\alpha`, :math:`(\tau - 1)(c - 1) = w(1 + \rho - \rho w^2)` and
    :math:`w = \kappa/(\kappa - 1)`; the boundary is c = 0.  NaN where c > 0 for every tau > 1.
    """
    w = kappa / (kappa - 1)
    tau = 1 + w * (rho * w**2 - 1 - rho)
    return np.where(tau > 1, tau, np.nan)


def optimal_context(tau: np.ndarray, kappa: np.ndarray, rho: float) -> np.ndarray:
    """Alpha of the least ridgeless ICL error, inf if it decreases throughout."""
    alpha = np.append(np.geomspace(1e-2, 1e5, 141), np.inf)
    errors = icl_error(tau=tau[..., None], alpha=alpha, kappa=kappa[..., None], rho=rho)
    return alpha[np.argmin(errors, axis=-1)]


def _judge_nonmonotonicity(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = sweep_comparisons((INSIDE, OUTSIDE), preset, results)
    for name, curve in (("inside", INSIDE), ("outside", OUTSIDE)):
        middle, end = curve.points[1:]
        label = f"ICL from alpha=8 to 64, {name} the region"
        comparisons.append(rise(label, middle, end, preset, results, "icl"))

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.7)
        region, ax = figure.subplots(1, 2)
        kappa, tau = np.meshgrid(np.geomspace(0.2, 10, 120), np.geomspace(0.2, 10, 120))
        best = np.log10(optimal_context(tau, kappa, NOISE))
        image = region.pcolormesh(
            kappa, tau, np.ma.masked_invalid(best), cmap="cividis", shading="auto", rasterized=True
        )
        figure.colorbar(image, ax=region, label=r"$\log_{10}$ optimal $\alpha$ (blank: infinite)")
        line = np.geomspace(1.0001, 10, 2000)
        region.plot(line, nonmonotonicity_boundary(line, NOISE), color=COLOURS[1], linewidth=2)
        for curve, marker in ((INSIDE, "o"), (OUTSIDE, "s")):
            region.plot(
                curve.base.kappa, curve.base.tau, marker, color="white", markeredgecolor="black"
            )
        region.set(xlim=(0.2, 10), ylim=(0.2, 10))
        log_scale(region, "xy")
        region.set_xlabel(LABELS["kappa"])
        region.set_ylabel(LABELS["tau"])
        region.set_title(rf"$\rho = {NOISE}$; line: analytic boundary, $\kappa, \tau > 1$")
        region.grid(visible=False)
        draw_sweep(ax, (INSIDE, OUTSIDE), "icl", preset, results, "kappa")
        ax.legend(title=rf"$\rho = {NOISE},\ d = {SIZE[preset]}$; left: circle, square")

    return Verdict(tuple(comparisons), draw)


nonmonotonicity_claim = Claim(
    name="nonmonotonicity",
    title="Where the ICL error is nonmonotonic in the context length",
    source=f"{PAPER}: figure of nonmonotonicity in alpha; boundary derived in the documentation",
    statement=(
        "Inside the region in (kappa, tau) where the ridgeless ICL error is least at a finite "
        "context length, simulated errors rise with longer contexts; outside they fall; both by "
        "as much as the finite-size prediction says."
    ),
    cells=lambda preset: sweep_cells((INSIDE, OUTSIDE), preset),
    judge=_judge_nonmonotonicity,
)
