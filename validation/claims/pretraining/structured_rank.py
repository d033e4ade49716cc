"""Errors for structured tasks: training tasks of half the rank."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.asymptotics.pretraining import structured_errors
from iclimit.published import PAPERS
from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    Results,
    cells_of,
    compare_predictions,
    compare_rise,
    draw_errors,
)
from iclimit.validation.claims.pretraining.sizes import SizeFit, compare_fits
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.claims.pretraining.sweeps import (
    LEGEND,
    SIZE,
    Curve,
    draw_sweep,
    sweep_cells,
)
from iclimit.validation.comparisons import compare
from iclimit.validation.drawing import COLOURS, finish, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSIDE = StructuredPoint(tau=2, alpha=2, kappa=1, rho=0.1, task="atoms:0,2")
OUTSIDE = replace(INSIDE, test="reversed")
KAPPAS = (0.125, 0.25, 0.5, 1.0, 2.0)
CURVES = {
    "tests in the span of training": Curve(INSIDE, "kappa", KAPPAS),
    "tests outside": Curve(OUTSIDE, "kappa", KAPPAS),
}
ENDLESS_KAPPAS = (0.75, 3.0)
"""Task diversities at which data and contexts have no end."""
ROUNDING = 1e-9


def cells(preset: Preset) -> dict[Any, Cell]:
    """Both curves at one size, and both base points at all sizes."""
    return sweep_cells(CURVES.values(), preset) | cells_of([INSIDE, OUTSIDE], SIZES[preset])


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare every run, the limits, the loss outside the span, and endless data."""
    dim, sizes = SIZE[preset], SIZES[preset]
    fits = [SizeFit.of(point, sizes, results) for point in (INSIDE, OUTSIDE)]
    comparisons = compare_fits(fits) + compare_predictions(results)
    label = "ICL outside above inside, kappa=1"
    comparisons.append(compare_rise(label, INSIDE, OUTSIDE, dim, results))
    for kappa in ENDLESS_KAPPAS:
        for where, point, lost in (("outside", OUTSIDE, 1.0), ("inside", INSIDE, 0.0)):
            error = structured_errors(
                tau=np.inf, alpha=np.inf, kappa=kappa, rho=point.rho, spectrum=point.spectrum
            ).icl
            label = f"ICL {where} with data and context without end, kappa={kappa:g}"
            comparisons.append(compare(label, point.rho + lost, error, allowance=ROUNDING))

    def draw(figure: Figure) -> None:
        icl, extrapolated = panels(figure, height=3.8)
        for (label, curve), fit, colour in zip(CURVES.items(), fits, COLOURS, strict=False):
            draw_sweep(icl, curve, "icl", dim, results, colour, label)
            draw_errors(extrapolated, fit.point, "icl", sizes, results, fit.errors, colour)
        training = CURVES["tests in the span of training"]
        draw_sweep(icl, training, "idg", dim, results, COLOURS[3], "training tasks (IDG)")
        zero = r"prediction of 0, $1 + \rho$"
        icl.axhline(1 + INSIDE.rho, color="0.4", linestyle=":", label=zero)
        icl.axvline(0.5, color="0.6", linewidth=0.8, zorder=0)
        title = r"$C$ of rank $d/2$, $\tau = 2,\ \alpha = 2,\ \rho = 0.1$"
        finish(icl, "kappa", "test error", title=title, log="x")
        finish(extrapolated, "$1/d$", "icl_error", title=r"$\kappa = 1$; stars: limit")
        figure.legend(*icl.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.suptitle(LEGEND.format(dim), fontsize=8)

    return Verdict(tuple(comparisons), draw, tuple(fit.note for fit in fits))


claim = Claim(
    name="structured-rank",
    title="Training tasks of half the rank: tests inside and outside their span",
    source=f"{PAPERS['letey2025']}; rank-deficient case derived in the documentation",
    statement=(
        "Trained on tasks of a covariance of rank d/2, errors on tests inside and outside its "
        "span follow the prediction on both sides of as many tasks as dimensions of the span, "
        "and tend to their limits. With data and context without end nothing is lost inside once "
        "kappa exceeds 1/2, and all of the task variance outside, however many tasks there are."
    ),
    cells=cells,
    judge=judge,
)
