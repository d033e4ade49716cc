"""Double descent in the number of prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iclimit.published import settings
from iclimit.validation.claim import Claim, Preset, Verdict
from iclimit.validation.claims.pretraining.points import (
    Point,
    Results,
    compare_predictions,
    compare_rise,
)
from iclimit.validation.claims.pretraining.sweeps import SIZE, Curve, draw_both_errors, sweep_cells
from iclimit.validation.comparisons import ERRORS, compare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTING = settings["lu2025-figure-1"]
TAUS = (0.25, 0.5, 0.75, 0.875, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0)
CURVES = tuple(Curve(Point(tau=1, alpha=alpha, **SETTING), "tau", TAUS) for alpha in (1.0, 10.0))


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare every point, the height of the peak, and the divergence at it."""
    dim, comparisons = SIZE[preset], compare_predictions(results)
    for curve in CURVES:
        start, below, above, end = (curve.at(tau) for tau in (0.5, 0.875, 1.125, 4.0))
        where = f"alpha={curve.base.alpha:g}"
        comparisons += [
            compare_rise(f"rise to the peak {where}", start, below, dim, results),
            compare_rise(f"descent from the peak {where}", above, end, dim, results),
        ]
        at_peak = replace(curve.base, tau=1.0).limit
        comparisons += [
            compare(
                f"1/{name.upper()} at tau=1 {where}, asymptotic", 0.0, 1 / getattr(at_peak, name)
            )
            for name in ERRORS
        ]

    def draw(figure: Figure) -> None:
        title, limits = r"$\kappa = 0.5,\ \rho = 0.01$, ridgeless", ((0.5, 40), (0.03, 40))
        axes = draw_both_errors(figure, CURVES, "alpha", dim, results, title=title, limits=limits)
        for ax in axes:
            ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)

    return Verdict(tuple(comparisons), draw)


claim = Claim(
    name="double-descent",
    title="Double descent in the number of prompts, with a peak at tau = 1",
    source=SETTING.reference,
    statement=(
        "Ridgeless, both errors rise towards tau = 1 and fall beyond it, by as much as the "
        "finite-size prediction says at every simulated tau. The asymptotic errors diverge there."
    ),
    cells=lambda preset: sweep_cells(CURVES, preset),
    judge=judge,
)
