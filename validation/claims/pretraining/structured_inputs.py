"""Errors for structured inputs, whose covariance commutes with that of the tasks or not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    Results,
    cells_of,
    compare_predictions,
    draw_errors,
)
from iclimit.validation.claims.pretraining.sizes import SizeFit, compare_fits
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.claims.pretraining.sweeps import REPEATS, SIZE
from iclimit.validation.comparisons import ERRORS
from iclimit.validation.drawing import COLOURS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY_PROMPTS = StructuredPoint(
    tau=1.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.1, task="atoms:0.4,1.6", inputs="uniform:0.2,1.8"
)
FEW_PROMPTS = replace(MANY_PROMPTS, tau=0.5, ridge=0.05)
COMMUTING = {
    (point, alignment): replace(point, alignment=alignment)
    for point in (MANY_PROMPTS, FEW_PROMPTS)
    for alignment in ("same", "reversed")
}
ROTATED = tuple(
    replace(point, alignment="rotated", test=test)
    for point in (MANY_PROMPTS, FEW_PROMPTS)
    for test in ("aligned", "reversed")
)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Commuting covariances at all sizes, and random positions at one."""
    rotated = cells_of(ROTATED, {SIZE[preset]: REPEATS[preset]})
    return cells_of(COMMUTING.values(), SIZES[preset]) | rotated


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare every run, and the limits of commuting covariances."""
    sizes = SIZES[preset]
    fits = {key: SizeFit.of(point, sizes, results) for key, point in COMMUTING.items()}
    comparisons = compare_fits(fits.values()) + compare_predictions(results)

    def draw(figure: Figure) -> None:
        axes = dict(zip((MANY_PROMPTS, FEW_PROMPTS), panels(figure, height=3.8), strict=True))
        for (point, alignment), fit in fits.items():
            for row, name in enumerate(ERRORS):
                order = "opposite" if alignment == "reversed" else "same"
                colour = COLOURS[2 * row + (alignment == "reversed")]
                label = f"{name.upper()}, {order} order"
                draw_errors(
                    axes[point], fit.point, name, sizes, results, fit.errors, colour, label
                )
            axes[point].set_title(rf"$\tau = {point.tau:g},\ \lambda = {point.ridge:g}$")
        first = axes[MANY_PROMPTS]
        first.set_ylabel("test error")
        figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.suptitle(
            r"input eigenvalues 0.2 to 1.8 against task eigenvalues 0.4 and 1.6; "
            "lines: finite-size prediction; points: simulation; stars: asymptotic",
            fontsize=8,
        )

    return Verdict(tuple(comparisons), draw, tuple(fit.note for fit in fits.values()))


claim = Claim(
    name="structured-inputs",
    title="Inputs of any covariance, commuting with that of the tasks and not",
    source="Heuristic deterministic equivalent, derived in the documentation",
    statement=(
        "With input eigenvalues spread ninefold, in the order of those of the tasks and in the "
        "opposite one, simulated errors extrapolate to the asymptotic ones and follow the "
        "finite-size prediction at every size. With the input covariance in random position they "
        "follow the prediction too."
    ),
    cells=cells,
    judge=judge,
)
