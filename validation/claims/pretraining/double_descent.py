"""Double descent in the number of prompts, with a peak at tau = 1.

Ridgeless, both errors rise towards tau = 1 and fall beyond it, by as much as the finite-size
prediction says at every simulated tau.  The asymptotic errors diverge there.

Source: {lu2025}, Figure 1.
"""

from iclimit.drawing import COLOURS, Axes, Figure, finish, panels
from iclimit.notation import PARAMETERS
from iclimit.published import settings
from iclimit.validation import Comparison, compare
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.study import LEGEND, Curve, Found, Study

SETTING = settings["lu2025-figure-1"]
TAUS = (0.25, 0.5, 0.75, 0.875, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0)
CURVES = tuple(Curve(Point(tau=1, alpha=alpha, **SETTING), "tau", TAUS) for alpha in (1.0, 10.0))
RISES = {
    f"{words} alpha={curve.base.alpha:g}": (curve.at(low), curve.at(high))
    for curve in CURVES
    for words, low, high in (
        ("rise to the peak", 0.5, 0.875),
        ("descent from the peak", 1.125, 4.0),
    )
}


def compare_peaks(_: Found) -> list[Comparison]:
    """Inverse asymptotic errors at tau = 1."""
    return [
        compare(
            f"1/{name.upper()} at tau=1 alpha={curve.base.alpha:g}, asymptotic",
            0.0,
            1 / getattr(curve.at(1.0).limit, name),
        )
        for curve in CURVES
        for name in ("icl", "idg")
    ]


def draw_both_errors(
    figure: Figure, found: Found, curves: tuple[Curve, ...], parameter: str, title: str, log: str
) -> list[Axes]:
    """Draw ICL errors on the left and IDG errors on the right; curves differ in a parameter."""
    axes = panels(figure, width=8.4, height=3.6)
    for ax, name in zip(axes, ("icl", "idg"), strict=True):
        for curve, colour in zip(curves, COLOURS, strict=False):
            label = f"${PARAMETERS[parameter].symbol} = {getattr(curve.base, parameter):g}$"
            found.draw_curve(ax, curve, name, colour, label)
        finish(ax, curves[0].axis, f"{name}_error", log=log)
    axes[1].legend(title=title)
    figure.suptitle(LEGEND.format(found.dim), fontsize=8, wrap=True)
    return axes


def draw(figure: Figure, found: Found) -> None:
    """Draw both errors against tau."""
    title = r"$\kappa = 0.5,\ \rho = 0.01$, ridgeless"
    axes = draw_both_errors(figure, found, CURVES, "alpha", title, "xy")
    for ax, lower in zip(axes, (0.5, 0.03), strict=True):
        ax.set_ylim(lower, 40)
        ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)


claim = Study(CURVES, rises=RISES).claim("double-descent", __doc__, draw, compare_peaks)
