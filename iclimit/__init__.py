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
        Wishart,
        bayes_error,
        chebyshev_schedule,
        constant_schedule,
        critical_dampening,
        derive_learning_rate,
        derive_schedule,
        derive_wishart_moment,
        divergence_rate,
        dmmse_errors,
        finite_size_errors,
        icl_error,
        idg_error,
        largest_eigenvalue_cdf,
        learning_rate_loss,
        optimal_dampening,
        optimal_learning_rate,
        optimal_preconditioner,
        optimal_ridge,
        optimal_schedule,
        preconditioner_loss,
        schedule_loss,
        task_gap,
        wishart_moment,
        wishart_resolvent,
    )
    from iclimit.curves import curve
    from iclimit.phases import phase_diagram
    from iclimit.simulate import (
        Regression,
        estimate_learning_rate,
        simulate_critical_dampening,
        simulate_errors,
        simulate_estimator,
        simulate_learning_rate,
        simulate_schedule,
        train_attention,
    )
    from iclimit.validation import CLAIMS, validate

_HOMES = {
    "iclimit.asymptotics": (
        "MarchenkoPastur",
        "Wishart",
        "bayes_error",
        "chebyshev_schedule",
        "constant_schedule",
        "critical_dampening",
        "derive_learning_rate",
        "derive_schedule",
        "derive_wishart_moment",
        "divergence_rate",
        "dmmse_errors",
        "finite_size_errors",
        "icl_error",
        "idg_error",
        "largest_eigenvalue_cdf",
        "learning_rate_loss",
        "optimal_dampening",
        "optimal_learning_rate",
        "optimal_preconditioner",
        "optimal_ridge",
        "optimal_schedule",
        "preconditioner_loss",
        "schedule_loss",
        "task_gap",
        "wishart_moment",
        "wishart_resolvent",
    ),
    "iclimit.simulate": (
        "Regression",
        "estimate_learning_rate",
        "simulate_critical_dampening",
        "simulate_errors",
        "simulate_estimator",
        "simulate_learning_rate",
        "simulate_schedule",
        "train_attention",
    ),
    "iclimit.validation": ("CLAIMS", "validate"),
    "iclimit.curves": ("curve",),
    "iclimit.phases": ("phase_diagram",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLAIMS",
    "MarchenkoPastur",
    "Regression",
    "Wishart",
    "bayes_error",
    "chebyshev_schedule",
    "constant_schedule",
    "critical_dampening",
    "curve",
    "derive_learning_rate",
    "derive_schedule",
    "derive_wishart_moment",
    "divergence_rate",
    "dmmse_errors",
    "estimate_learning_rate",
    "finite_size_errors",
    "icl_error",
    "idg_error",
    "largest_eigenvalue_cdf",
    "learning_rate_loss",
    "optimal_dampening",
    "optimal_learning_rate",
    "optimal_preconditioner",
    "optimal_ridge",
    "optimal_schedule",
    "phase_diagram",
    "preconditioner_loss",
    "schedule_loss",
    "simulate_critical_dampening",
    "simulate_errors",
    "simulate_estimator",
    "simulate_learning_rate",
    "simulate_schedule",
    "task_gap",
    "train_attention",
    "validate",
    "wishart_moment",
    "wishart_resolvent",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'iclimit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
