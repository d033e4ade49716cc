"""Double descent in the number of prompts, with a peak at tau = 1.

Ridgeless, both errors rise towards tau = 1 and fall beyond it, by as much as the finite-size
prediction says at every simulated tau.  The asymptotic errors diverge there.

Source: {lu2025}, Figure 1.
"""

from collections.abc import Sequence

from iclimit.drawing import COLOURS, Axes, Figure, finish, panels, write_key
from iclimit.notation import PARAMETERS
from iclimit.published import settings
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, exact
from iclimit.validation.claims.pretraining.curves import LEGEND, Curve, CurveResults, curve_rows
from iclimit.validation.claims.pretraining.points import Point

# Parameters of the published figure.
SETTING = settings["lu2025-figure-1"]
# Numbers of prompts over the squared dimension.
TAUS = (0.25, 0.5, 0.75, 0.875, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0)
# Errors against tau, for short and for long contexts.
CURVES = tuple(Curve(Point(tau=1, alpha=alpha, **SETTING), "tau", TAUS) for alpha in (1.0, 10.0))
# Points between which the ICL error rises or falls.
RISES = {
    f"{words} alpha={curve.base.alpha:g}": (curve.at(low), curve.at(high))
    for curve in CURVES
    for words, low, high in (
        ("rise to the peak", 0.5, 0.875),
        ("descent from the peak", 1.125, 4.0),
    )
}


def rows(effort: Effort) -> Rows:
    """Errors along both curves, rises and descents, and the peaks of the limit."""
    yield from curve_rows(effort, CURVES, RISES)
    for curve in CURVES:
        for name in ("icl", "idg"):
            label = f"1/{name.upper()} at tau=1 alpha={curve.base.alpha:g}, asymptotic"
            yield exact(label, 0.0, call(inverse_peak, curve, name))
    yield drawing(draw, [curve.results(effort) for curve in CURVES])


def inverse_peak(curve: Curve, name: str) -> float:
    """Inverse of an asymptotic error at tau = 1."""
    return 1 / float(getattr(curve.at(1.0).limit, name))


def draw_both_errors(
    figure: Figure, results: Sequence[CurveResults], parameter: str, title: str, log: str
) -> list[Axes]:
    """Draw ICL errors on the left and IDG errors on the right; curves differ in a parameter."""
    axes = panels(figure)
    left, right = axes
    for ax, name in zip(axes, ("icl", "idg"), strict=True):
        for result, colour in zip(results, COLOURS, strict=False):
            value = getattr(result.curve.base, parameter)
            result.draw(ax, name, colour, f"${PARAMETERS[parameter].symbol} = {value:g}$")
    x = results[0].curve.axis
    finish(left, x, "icl_error", log=log, title=title, legend="")
    finish(right, x, "idg_error", log=log)
    write_key(figure, LEGEND.format(results[0].dim))
    return axes


def draw(figure: Figure, results: Sequence[CurveResults]) -> None:
    """Draw both errors against tau."""
    title = r"$\kappa = 0.5,\ \rho = 0.01$, ridgeless"
    axes = draw_both_errors(figure, results, "alpha", title, "xy")
    for ax, lower in zip(axes, (0.5, 0.03), strict=True):
        ax.set_ylim(lower, 40)
        ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)


claim = Claim.of("double-descent", __doc__, rows)
