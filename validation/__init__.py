"""Pairs theory and simulation: claims, statistics, reports, published reference data."""

import lazy_loader

if __name__ != "iclimit.validation":
    raise ImportError("import this package as iclimit.validation")

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "claim": ["Claim", "Comparison", "Verdict"],
        "claims": ["CLAIMS", "select_claims"],
        "comparisons": [
            "compare",
            "compare_errors",
            "compare_limits",
            "compare_p_value",
            "difference",
        ],
        "run_claims": ["ClaimResult", "ValidationRun", "validate"],
        "statistics": ["Extrapolation", "extrapolate", "extrapolate_runs"],
    },
)
