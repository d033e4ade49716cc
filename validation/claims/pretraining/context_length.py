"""Longer contexts: IDG error falls, ICL error with few tasks rises again.

At fixed pretraining size and few tasks the ridgeless ICL error has a minimum in the context
length and grows beyond it.  Simulation follows the finite-size prediction along the whole curve.

Source: {lu2025}, Figure 2.
"""

from collections.abc import Sequence

from iclimit.drawing import Figure
from iclimit.validation.claim import Claim, Effort, Rows, drawing
from iclimit.validation.claims.pretraining.curves import Curve, CurveResults, curve_rows
from iclimit.validation.claims.pretraining.double_descent import draw_both_errors
from iclimit.validation.claims.pretraining.points import Point

# Context lengths over dimension.
ALPHAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# Errors against the context length, for few and for many tasks.
CURVES = tuple(
    Curve(Point(tau=4, alpha=1, kappa=kappa, rho=0.25), "alpha", ALPHAS)
    for kappa in (0.5, 1.0, 4.0)
)
# Points between which the ICL error rises.
RISES = {"rise of ICL with context, kappa=0.5": (CURVES[0].at(2.0), CURVES[0].at(32.0))}


def rows(effort: Effort) -> Rows:
    """Errors along the curves, and the rise with the context."""
    yield from curve_rows(effort, CURVES, RISES)
    yield drawing(draw, [curve.results(effort) for curve in CURVES])


def draw(figure: Figure, results: Sequence[CurveResults]) -> None:
    """Draw both errors against alpha."""
    title = r"$\tau = 4,\ \rho = 0.25$, ridgeless"
    draw_both_errors(figure, results, "kappa", title, "x")


claim = Claim.of("context-length", __doc__, rows)
