"""Training tasks of half the rank: tests inside and outside their span.

Trained on tasks of a covariance of rank d/2, errors on tests inside and outside its span
follow the prediction on both sides of as many tasks as dimensions of the span.  Outside, with any
number of tasks, they extrapolate to their limits.  With data and context without end nothing is
lost inside once kappa exceeds 1/2, and all of the task variance outside, however many tasks there
are.

Source: {letey2025}; rank-deficient case derived in the documentation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from iclimit.drawing import COLOURS, Figure, finish, panels, write_key
from iclimit.validation.claim import Claim, Effort, Limit, Rows, call, drawing, exact
from iclimit.validation.claims.pretraining.curves import LEGEND, Curve, CurveResults, curve_rows
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.standard_figure import RATIO, draw_quantity

# Tests in the span of the training tasks.
INSIDE = StructuredPoint(tau=2, alpha=2, kappa=1, rho=0.1, task="atoms:0,2")
# Tests outside their span.
OUTSIDE = replace(INSIDE, test="reversed")
# Numbers of tasks over dimension.
KAPPAS = (0.25, 0.5, 1.0)
# Errors against the number of tasks, by the tests.
CURVES = {
    "tests in the span of training": Curve(INSIDE, "kappa", KAPPAS),
    "tests outside": Curve(OUTSIDE, "kappa", KAPPAS),
}
# Points whose errors are extrapolated: they vary little from run to run.
LIMITS = tuple(
    replace(OUTSIDE, kappa=math.inf, tau=tau, ridge=ridge)
    for tau, ridge in ((0.5, 0.4), (2.0, 0.1))
)
# Task diversities at which data and contexts have no end.
ENDLESS_KAPPAS = (0.75, 3.0)
# Absolute error of limits, of rounding.
ROUNDING = 1e-9
# Points between which the ICL error rises.
RISES = {"ICL outside above inside, kappa=1": (INSIDE, OUTSIDE)}


def rows(effort: Effort) -> Rows:
    """Errors along the curves, limits, and what endless data and context leave."""
    limits = [point.extrapolated(effort.by_size(**SIZES)) for point in LIMITS]
    yield from limits
    yield from curve_rows(effort, CURVES.values(), RISES)
    for kappa in ENDLESS_KAPPAS:
        for where, point, lost in (("outside", OUTSIDE, 1.0), ("inside", INSIDE, 0.0)):
            endless = replace(point, tau=math.inf, alpha=math.inf, kappa=kappa)
            label = f"ICL {where} with data and context without end, kappa={kappa:g}"
            error = call(getattr, endless, "limit").icl
            yield exact(label, point.rho + lost, error, allowance=ROUNDING)
    yield drawing(draw, {label: curve.results(effort) for label, curve in CURVES.items()}, limits)


def draw(figure: Figure, curves: Mapping[str, CurveResults], limits: Sequence[Limit]) -> None:
    """Draw the errors against kappa, and the extrapolations."""
    errors, sizes = panels(figure, height=3.8)
    for (label, curve), colour in zip(curves.items(), COLOURS, strict=False):
        curve.draw(errors, "icl", colour, label)
    for point, limit, colour in zip(LIMITS, limits, COLOURS[4:], strict=False):
        label = rf"$\tau = {point.tau:g},\ \lambda = {point.ridge:g}$"
        draw_quantity(sizes, limit, 0, colour, label)
    training = curves["tests in the span of training"]
    training.draw(errors, "idg", COLOURS[3], "training tasks (IDG)")
    label = r"prediction of 0, $1 + \rho$"
    errors.axhline(1 + INSIDE.rho, color="0.4", linestyle=":", label=label)
    errors.axvline(0.5, color="0.6", linewidth=0.8, zorder=0)
    title = r"$C$ of rank $d/2$, $\tau = 2,\ \alpha = 2,\ \rho = 0.1$"
    finish(errors, "kappa", "test error", title=title, log="x")
    finish(sizes, "$1/d$", RATIO, title=r"outside, $\kappa = \infty$; star: limit", legend="")
    figure.legend(*errors.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    write_key(figure, LEGEND.format(training.dim))


claim = Claim.of("structured-rank", __doc__, rows)
