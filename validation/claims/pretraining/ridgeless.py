"""Ridgeless ICL and IDG errors, extrapolated to infinite size, against the asymptotic formulas."""

from iclimit.published import PAPERS
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.pretraining.sizes import limit_claim

POINTS = (
    Point(tau=0.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=1.5, alpha=1, kappa=0.5, rho=0.1),
    Point(tau=0.5, alpha=4, kappa=2, rho=0.25),
    Point(tau=2, alpha=4, kappa=2, rho=0.1),
)

claim = limit_claim(
    "ridgeless",
    "Ridgeless ICL and IDG errors, both sides of tau = 1",
    f"{PAPERS['lu2025']}: ICL and IDG error in the ridgeless limit",
    POINTS,
)
