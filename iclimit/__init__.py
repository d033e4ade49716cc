"""iclimit: the theory of in-context learning, computed and checked.

Names are loaded on first use, so that importing the package is cheap.

Examples
--------
>>> import iclimit
>>> round(float(iclimit.icl_error(tau=2, alpha=1, kappa=0.5, rho=0.01)), 4)
1.234
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iclimit.asymptotics import (
        MarchenkoPastur,
        bayes_error,
        dmmse_errors,
        finite_size_errors,
        icl_error,
        idg_error,
        optimal_ridge,
        task_gap,
        wishart_resolvent,
    )
    from iclimit.curves import curve
    from iclimit.phases import phase_diagram
    from iclimit.simulate import simulate_errors, simulate_estimator
    from iclimit.validation import CLAIMS, validate

_HOMES = {
    "iclimit.asymptotics": (
        "MarchenkoPastur",
        "bayes_error",
        "dmmse_errors",
        "finite_size_errors",
        "icl_error",
        "idg_error",
        "optimal_ridge",
        "task_gap",
        "wishart_resolvent",
    ),
    "iclimit.simulate": ("simulate_errors", "simulate_estimator"),
    "iclimit.validation": ("CLAIMS", "validate"),
    "iclimit.curves": ("curve",),
    "iclimit.phases": ("phase_diagram",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLAIMS",
    "MarchenkoPastur",
    "bayes_error",
    "curve",
    "dmmse_errors",
    "finite_size_errors",
    "icl_error",
    "idg_error",
    "optimal_ridge",
    "phase_diagram",
    "simulate_errors",
    "simulate_estimator",
    "task_gap",
    "validate",
    "wishart_resolvent",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'iclimit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
