"""Error against task diversity for aligned, misaligned and one-directional tests.

For training tasks of a power-law covariance both errors follow the finite-size prediction at
every kappa, whether tests are as in training, have its eigenvalues reversed, or lie in its
strongest direction.  So do the differences between these tests.  With a ridge and misaligned
tests, the errors extrapolated to infinite dimension equal the asymptotic ones, for one task per
dimension and for any number.

Source: {letey2025}, Figure 1, and errors against kappa for spiked tests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors
from iclimit.asymptotics.spectra import Atoms
from iclimit.drawing import COLOURS, Figure, finish, panels, write_key
from iclimit.validation.claim import Claim, Effort, Limit, Rows, call, drawing, exact
from iclimit.validation.claims.pretraining.curves import LEGEND, Curve, CurveResults, curve_rows
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.standard_figure import RATIO, draw_quantity

# Tasks of a power law.
POWER_LAW = StructuredPoint(tau=2, alpha=2, kappa=1, rho=0.01, task="powerlaw:0.9")
# Numbers of tasks over dimension.
KAPPAS = (0.25, 1.0, 3.0)
# Words for the tests.
TESTS = {
    "strongest": "one direction, the strongest",
    "aligned": "aligned, $C' = C$",
    "reversed": "misaligned, eigenvalues reversed",
}
# Errors against the number of tasks, by the tests.
CURVES = {test: Curve(replace(POWER_LAW, test=test), "kappa", KAPPAS) for test in TESTS}
# Misaligned tests with a ridge.
DAMPED = replace(POWER_LAW, test="reversed", ridge=0.4)
# Points whose errors are extrapolated: with a ridge they vary less from run to run.
LIMITS = (DAMPED, replace(DAMPED, kappa=math.inf))
# Points between which the ICL error rises.
RISES = {
    f"ICL of {worse} above {better} tests, kappa=1": (CURVES[better].base, CURVES[worse].base)
    for worse, better in (("reversed", "aligned"), ("aligned", "strongest"))
}


def opposite_error(by: str) -> float:
    """ICL error where the inputs have the opposite order, by measures or by matrices."""
    if by == "measures":
        levels = Atoms([1.0, 2.0]), Atoms([1.0, 3.0], [0.75, 0.25])
        spectrum = JointSpectrum.of_measures(
            levels[0], input_spectrum=levels[1], input_pairing="reversed"
        )
    else:
        task = np.diag([1.0, 1.0, 2.0, 2.0])
        inputs = np.diag([3.0, 1.0, 1.0, 1.0])
        spectrum = JointSpectrum.of_matrices(task, input_covariance=inputs)
    return float(structured_errors(tau=2, alpha=2, kappa=1, rho=0.1, spectrum=spectrum).icl)


def rows(effort: Effort) -> Rows:
    """Errors along the curves, their differences, and the limits with a ridge."""
    label = "opposite order, measures and matrices"
    theory = call(opposite_error, "measures")
    same = call(opposite_error, "matrices")
    yield exact(label, theory, same, relative=1e-12, of="")
    limits = [point.extrapolated(effort.by_size(**SIZES)) for point in LIMITS]
    yield from limits
    yield from curve_rows(effort, CURVES.values(), RISES)
    yield drawing(draw, {test: curve.results(effort) for test, curve in CURVES.items()}, limits)


def draw(figure: Figure, curves: Mapping[str, CurveResults], limits: Sequence[Limit]) -> None:
    """Draw both errors against kappa, and the extrapolations."""
    icl, idg, sizes = panels(figure, 3, height=3.8)
    for (test, curve), colour in zip(curves.items(), COLOURS, strict=False):
        curve.draw(icl, "icl", colour, TESTS[test])
    curves["aligned"].draw(idg, "idg", COLOURS[3])
    for point, limit, colour in zip(LIMITS, limits, COLOURS[2:], strict=False):
        draw_quantity(
            sizes, limit, 0, colour, rf"$\kappa = {point.kappa:g}$".replace("inf", r"\infty")
        )
    title = r"power law 0.9, $\tau = 2,\ \alpha = 2,\ \rho = 0.01$"
    finish(icl, "kappa", "icl_error", title=title, log="x")
    finish(idg, "kappa", "idg_error", title="training tasks", log="x")
    finish(sizes, "$1/d$", RATIO, title=r"misaligned, $\lambda = 0.4$; star: limit", legend="")
    figure.legend(*icl.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    write_key(figure, LEGEND.format(curves["aligned"].dim))


claim = Claim.of("structured-tests", __doc__, rows)
