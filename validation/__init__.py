"""Pairs theory and simulation: claims, statistics, reports, published reference data."""

if __name__ != "iclimit.validation":
    raise ImportError("import this package as iclimit.validation")

from iclimit.validation.claim import Cell, Claim, Comparison, Verdict
from iclimit.validation.claims import CLAIMS, select_claims
from iclimit.validation.runs import ClaimResult, ValidationRun, validate
from iclimit.validation.statistics import Extrapolation, extrapolate

__all__ = [
    "CLAIMS",
    "Cell",
    "Claim",
    "ClaimResult",
    "Comparison",
    "Extrapolation",
    "ValidationRun",
    "Verdict",
    "extrapolate",
    "select_claims",
    "validate",
]
