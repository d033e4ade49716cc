"""Error against task diversity for aligned, misaligned and one-directional tests.

For training tasks of a power-law covariance both errors follow the finite-size prediction at
every kappa, whether tests are as in training, have its eigenvalues reversed, or lie in its
strongest direction.  So do the differences between these tests.  Extrapolated to infinite
dimension the errors equal the asymptotic ones.

Source: {letey2025}: figures of error against kappa, power-law and spiked tests.
"""

from dataclasses import replace

from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint
from iclimit.validation.claims.pretraining.study import LEGEND, Curve, Found, Study
from iclimit.validation.drawing import COLOURS, Figure, finish, panels

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
RISES = {
    f"ICL of {worse} above {better} tests, kappa=1": (CURVES[better].base, CURVES[worse].base)
    for worse, better in (("reversed", "aligned"), ("aligned", "strongest"))
}


def draw(figure: Figure, found: Found) -> None:
    """Draw both errors against kappa, and the extrapolations."""
    icl, idg, sizes = panels(figure, 3, width=9.6, height=3.8)
    for (test, curve), colour in zip(CURVES.items(), COLOURS, strict=False):
        found.draw_curve(icl, curve, "icl", colour, TESTS[test])
    found.draw_curve(idg, CURVES["aligned"], "idg", COLOURS[3])
    for fit, colour in zip(found.fits, COLOURS[1:], strict=False):
        found.draw_sizes(sizes, fit, "icl", colour)
    title = r"power law 0.9, $\tau = 4,\ \alpha = 2,\ \rho = 0.01$"
    finish(icl, "kappa", "icl_error", title=title, log="x")
    finish(idg, "kappa", "idg_error", title="training tasks", log="x")
    finish(sizes, "$1/d$", "icl_error", title=r"$\kappa = 1$; stars: limit")
    figure.legend(*icl.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(LEGEND.format(found.dim), fontsize=8)


claim = Study(tuple(CURVES.values()), LIMITS, SIZES, RISES).claim(
    "structured-tests", __doc__, draw
)
