"""ICL and IDG errors at finite ridge.

Mean test errors of simulated runs with a ridge have the same limits in infinite dimension as
the asymptotic ICL and IDG errors, and agree with the finite-size prediction at every size, in the
ways of the claim ``ridgeless``.

Source: {lu2025}: ICL and IDG error; finite-ridge form: documentation.
"""

from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.ridgeless import REPEATS, compare_gaps, draw
from iclimit.validation.claims.pretraining.study import Study

POINTS = (
    Point(tau=0.5, alpha=2, kappa=2, rho=0.25, ridge=0.1),
    Point(tau=1.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.05),
    Point(tau=1, alpha=1, kappa=1, rho=0.1, ridge=0.5),
    Point(tau=3, alpha=10, kappa=0.5, rho=0.01, ridge=0.001),
)

claim = Study(limits=POINTS, sizes=REPEATS).claim(
    "ridge", __doc__, draw, compare_gaps, figure=False
)
