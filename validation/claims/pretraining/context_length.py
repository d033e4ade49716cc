"""Errors against the length of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclimit.published import PAPERS
from iclimit.validation.claim import Claim, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    Point,
    Results,
    compare_predictions,
    compare_rise,
)
from iclimit.validation.claims.pretraining.sweeps import SIZE, Curve, draw_both_errors, sweep_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
CURVES = tuple(
    Curve(Point(tau=4, alpha=1, kappa=kappa, rho=0.25), "alpha", ALPHAS)
    for kappa in (0.5, 1.0, 4.0)
)


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare every point, and the rise with few tasks."""
    dim, few = SIZE[preset], CURVES[0]
    label = "rise of ICL with context, kappa=0.5"
    rise = compare_rise(label, few.at(2.0), few.at(32.0), dim, results)

    def draw(figure: Figure) -> None:
        title = r"$\tau = 4,\ \rho = 0.25$, ridgeless"
        draw_both_errors(figure, CURVES, "kappa", dim, results, title=title)

    return Verdict((*compare_predictions(results), rise), draw)


claim = Claim(
    name="context-length",
    title="Longer contexts: IDG error falls, ICL error with few tasks rises again",
    source=f"{PAPERS['lu2025']}: figure of the errors against context length",
    statement=(
        "At fixed pretraining size and few tasks the ridgeless ICL error has a minimum in the "
        "context length and grows beyond it. Simulation follows the finite-size prediction along "
        "the whole curve."
    ),
    cells=lambda preset: sweep_cells(CURVES, preset),
    judge=judge,
)
