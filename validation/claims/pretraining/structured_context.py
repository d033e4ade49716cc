"""Errors for structured tasks: contexts and noise of tests that differ from training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.published import PAPERS
from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    Results,
    cells_of,
    compare_predictions,
    compare_rise,
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

FEW = StructuredPoint(tau=2, alpha=2, kappa=0.5, rho=0.1, task="powerlaw:0.9", test_alpha=8)
MANY = replace(FEW, kappa=4.0)
NOISY = replace(FEW, test_rho=0.5)
"""The point whose errors are extrapolated."""
TEST_ALPHAS = (0.5, 8.0, 32.0)
TESTED = {
    r"trained at $\alpha = 2$": Curve(FEW, "test_alpha", TEST_ALPHAS),
    r"trained at $\alpha = 8$": Curve(replace(FEW, alpha=8.0), "test_alpha", TEST_ALPHAS),
    r"trained at $\alpha = 2$, $\rho' = 0.5$": Curve(NOISY, "test_alpha", TEST_ALPHAS),
}
ALPHAS = (1.0, 2.0, 8.0, 32.0)
TRAINED = {
    r"$\kappa = 0.5$": Curve(FEW, "alpha", ALPHAS),
    r"$\kappa = 4$": Curve(MANY, "alpha", ALPHAS),
}


def best_training_context(point: StructuredPoint) -> float:
    """Training context of the least ICL error, the rest of a point given."""
    alpha = np.geomspace(0.1, 1000, 801)
    return float(alpha[np.argmin(Curve(point, "alpha", ()).at(alpha).limit.icl)])


def cells(preset: Preset) -> dict[Any, Cell]:
    """All curves at one size, and the extrapolated point at all sizes."""
    curves = [*TESTED.values(), *TRAINED.values()]
    return sweep_cells(curves, preset) | cells_of([NOISY], SIZES[preset])


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare every run, the limit, and four changes of the setting."""
    dim, fit = SIZE[preset], SizeFit.of(NOISY, SIZES[preset], results)
    comparisons = compare_fits([fit]) + compare_predictions(results)
    for label, low, high in (
        ("noise of tests", FEW, NOISY),
        ("test context from 8 to 0.5", FEW, replace(FEW, test_alpha=0.5)),
        ("training context from 2 to 8, few tasks", FEW, replace(FEW, alpha=8.0)),
        ("training context from 8 to 2, many tasks", replace(MANY, alpha=8.0), MANY),
    ):
        comparisons.append(compare_rise(f"rise of ICL by {label}", low, high, dim, results))
    notes = [fit.note] + [
        f"least ICL error at test_alpha = 8, kappa = {point.kappa:g}: trained at alpha = "
        f"{best_training_context(point):.2g} (asymptotic)"
        for point in (FEW, MANY)
    ]

    def draw(figure: Figure) -> None:
        left, right = panels(figure, height=3.8)
        for (label, curve), colour in zip(TESTED.items(), COLOURS, strict=False):
            draw_sweep(left, curve, "icl", dim, results, colour, label)
        for (label, curve), colour in zip(TRAINED.items(), COLOURS[3:], strict=False):
            draw_sweep(right, curve, "icl", dim, results, colour, label)
            best = best_training_context(replace(FEW, kappa=curve.base.kappa))
            if best <= max(curve.values):
                right.plot(best, curve.at(best).limit.icl, "v", color="black")
        right.axvline(FEW.test_alpha or 0, color="0.6", linewidth=0.8, zorder=0)
        words = r"context at test time, $\alpha'$", r"$\kappa = 0.5,\ \tau = 2,\ \rho = 0.1$"
        finish(left, words[0], "icl_error", title=words[1], log="x", legend="")
        words = (
            r"context in training, $\alpha$",
            r"tests at $\alpha' = 8$ (vertical line); triangle: least",
        )
        finish(right, words[0], "icl_error", title=words[1], log="x", legend="")
        figure.suptitle(LEGEND.format(dim), fontsize=8)

    return Verdict(tuple(comparisons), draw, tuple(notes))


claim = Claim(
    name="structured-context",
    title="Contexts and label noise of tests that differ from training",
    source=f"{PAPERS['letey2025']}: test-time context; general form derived in the documentation",
    statement=(
        "The ICL error falls with the context length of the tests and grows with their noise as "
        "predicted, at training contexts shorter and longer than those of the tests. For given "
        "tests the best training context is not theirs: with few tasks it is shorter, with many "
        "longer, by as much as predicted. Extrapolated, the errors equal their limit."
    ),
    cells=cells,
    judge=judge,
)
