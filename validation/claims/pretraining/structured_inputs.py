"""Inputs of any covariance, commuting with that of the tasks and not.

With input eigenvalues spread ninefold, in the order of those of the tasks and in the opposite
one, simulated errors extrapolate to the asymptotic ones.  With the input covariance in random
position they follow the finite-size prediction.

Source: Heuristic deterministic equivalent, derived in the documentation.
"""

import math
from dataclasses import replace
from typing import Any

from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.pretraining.curves import Curve, curve_rows
from iclimit.validation.claims.pretraining.structured_points import SIZES, StructuredPoint

# Eigenvalues of tasks and of inputs.
SPECTRA: dict[str, Any] = {"task": "atoms:0.4,1.6", "inputs": "uniform:0.2,1.8"}
# A fresh task in every prompt.
ENDLESS = StructuredPoint(
    tau=2, alpha=2, kappa=math.inf, rho=0.1, ridge=0.1, test="reversed", **SPECTRA
)
# Few tasks.
FEW = StructuredPoint(tau=0.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.4, **SPECTRA)
# Points whose covariances commute.
COMMUTING = (ENDLESS, *(replace(point, alignment="reversed") for point in (ENDLESS, FEW)))
# Points at one size: there is no limit to extrapolate to.
ROTATED = tuple(
    Curve(replace(FEW, alignment="rotated", test=test, ridge=0.1), "tau", (0.5, 1.5))
    for test in ("aligned", "reversed")
)


def rows(effort: Effort) -> Rows:
    """Limits for both orders of the eigenvalues, and errors for random position."""
    for point in COMMUTING:
        yield point.extrapolated(effort.by_size(**SIZES))
    yield from curve_rows(effort, ROTATED)


claim = Claim.of("structured-inputs", __doc__, rows, figure=False)
