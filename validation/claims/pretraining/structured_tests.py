"""Errors for structured tasks: tests aligned with training and not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from iclimit.validation.drawing import COLOURS, finish, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POWER_LAW = StructuredPoint(tau=4, alpha=2, kappa=1, rho=0.01, task="powerlaw:0.9")
KAPPAS = (0.25, 0.5, 1.0, 3.0)
TESTS = {
    "strongest": "one direction, the strongest",
    "aligned": "aligned, $C' = C$",
    "reversed": "misaligned, eigenvalues reversed",
}
CURVES = {test: Curve(replace(POWER_LAW, test=test), "kappa", KAPPAS) for test in TESTS}
LIMITS = tuple(CURVES[test].base for test in ("aligned", "reversed"))
"""Points whose errors are extrapolated; tests in one direction vary too much from run to run."""


def cells(preset: Preset) -> dict[Any, Cell]:
    """All curves at one size, and the extrapolated points at all sizes."""
    return sweep_cells(CURVES.values(), preset) | cells_of(LIMITS, SIZES[preset])


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare every run, the limits, and the order of the tests."""
    dim, sizes = SIZE[preset], SIZES[preset]
    fits = [SizeFit.of(point, sizes, results) for point in LIMITS]
    comparisons = compare_fits(fits) + compare_predictions(results)
    for worse, better in (("reversed", "aligned"), ("aligned", "strongest")):
        label = f"ICL of {worse} above {better} tests, kappa=1"
        low, high = CURVES[better].base, CURVES[worse].base
        comparisons.append(compare_rise(label, low, high, dim, results))

    def draw(figure: Figure) -> None:
        icl, idg, extrapolated = panels(figure, 3, width=9.6, height=3.8)
        for (test, curve), colour in zip(CURVES.items(), COLOURS, strict=False):
            draw_sweep(icl, curve, "icl", dim, results, colour, TESTS[test])
        draw_sweep(idg, CURVES["aligned"], "idg", dim, results, COLOURS[3])
        for fit, colour in zip(fits, COLOURS[1:], strict=False):
            draw_errors(extrapolated, fit.point, "icl", sizes, results, fit.errors, colour)
        title = r"power law 0.9, $\tau = 4,\ \alpha = 2,\ \rho = 0.01$"
        finish(icl, "kappa", "icl_error", title=title, log="x")
        finish(idg, "kappa", "idg_error", title="training tasks", log="x")
        finish(extrapolated, "$1/d$", "icl_error", title=r"$\kappa = 1$; stars: limit")
        figure.legend(*icl.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.suptitle(LEGEND.format(dim), fontsize=8)

    return Verdict(tuple(comparisons), draw, tuple(fit.note for fit in fits))


claim = Claim(
    name="structured-tests",
    title="Error against task diversity for aligned, misaligned and one-directional tests",
    source=f"{PAPERS['letey2025']}: figures of error against kappa, power-law and spiked tests",
    statement=(
        "For training tasks of a power-law covariance both errors follow the finite-size "
        "prediction at every kappa, whether tests are as in training, have its eigenvalues "
        "reversed, or lie in its strongest direction. So do the differences between these tests. "
        "Extrapolated to infinite dimension the errors equal the asymptotic ones."
    ),
    cells=cells,
    judge=judge,
)
