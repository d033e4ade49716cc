"""ICL and IDG errors at finite ridge, extrapolated, against the asymptotic formulas."""

from iclimit.published import PAPERS
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.sizes import limit_claim

POINTS = (
    Point(tau=0.5, alpha=2, kappa=2, rho=0.25, ridge=0.1),
    Point(tau=1.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.05),
    Point(tau=1, alpha=1, kappa=1, rho=0.1, ridge=0.5),
    Point(tau=3, alpha=10, kappa=0.5, rho=0.01, ridge=0.001),
)

claim = limit_claim(
    "ridge",
    "ICL and IDG errors at finite ridge",
    f"{PAPERS['lu2025']}: ICL and IDG error; finite-ridge form derived in the documentation",
    POINTS,
)
