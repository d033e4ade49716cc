"""Pairs theory and simulation: claims, statistics, reports, published reference data."""

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "iclimit.validation":
    raise ImportError("import this package as iclimit.validation")

if TYPE_CHECKING:
    from iclimit.validation.cell import Cell
    from iclimit.validation.claim import Claim, Comparison, Verdict
    from iclimit.validation.claims import CLAIMS, select_claims
    from iclimit.validation.execution import Outcome, run_cells
    from iclimit.validation.runs import ClaimResult, ValidationRun, validate
    from iclimit.validation.statistics import Extrapolation, extrapolate
    from iclimit.validation.store import RunStore, StoreError

__all__ = [
    "CLAIMS",
    "Cell",
    "Claim",
    "ClaimResult",
    "Comparison",
    "Extrapolation",
    "Outcome",
    "RunStore",
    "StoreError",
    "ValidationRun",
    "Verdict",
    "extrapolate",
    "run_cells",
    "select_claims",
    "validate",
]

_MODULES = {
    "cell": ("Cell",),
    "claim": ("Claim", "Comparison", "Verdict"),
    "claims": ("CLAIMS", "select_claims"),
    "execution": ("Outcome", "run_cells"),
    "runs": ("ClaimResult", "ValidationRun", "validate"),
    "statistics": ("Extrapolation", "extrapolate"),
    "store": ("RunStore", "StoreError"),
}


def __getattr__(name: str) -> Any:
    """Import on first use: a worker that runs one cell does without the claims."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
