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
        baseline_profiles,
        bayes_error,
        chebyshev_schedule,
        condition_number_schedule,
        constant_schedule,
        critical_dampening,
        derive_learning_rate,
        derive_schedule,
        derive_wishart_moment,
        divergence_rate,
        dmmse_errors,
        eigenvalues_after,
        finite_size_errors,
        gdpp_loss,
        gdpp_minima,
        icl_error,
        idg_error,
        interval_after,
        largest_eigenvalue_cdf,
        learning_rate_loss,
        optimal_dampening,
        optimal_gdpp,
        optimal_learning_rate,
        optimal_preconditioner,
        optimal_ridge,
        optimal_schedule,
        preconditioner_loss,
        ridge_baselines,
        ridge_risk,
        schedule_loss,
        steps_needed,
        task_gap,
        wishart_density,
        wishart_moment,
        wishart_resolvent,
        worst_case_residual,
    )
    from iclimit.curves import curve
    from iclimit.phases import phase_diagram
    from iclimit.simulate import (
        NoisyRegression,
        Regression,
        estimate_learning_rate,
        gdpp_transformer,
        held_out_losses,
        implicit_weights,
        simulate_critical_dampening,
        simulate_errors,
        simulate_estimator,
        simulate_gdpp,
        simulate_learning_rate,
        simulate_ridge_baselines,
        simulate_schedule,
        train_attention,
        train_linear_transformer,
        tune_ridge,
    )
    from iclimit.validation import CLAIMS, validate

_HOMES = {
    "iclimit.asymptotics": (
        "MarchenkoPastur",
        "Wishart",
        "baseline_profiles",
        "bayes_error",
        "chebyshev_schedule",
        "condition_number_schedule",
        "constant_schedule",
        "critical_dampening",
        "derive_learning_rate",
        "derive_schedule",
        "derive_wishart_moment",
        "divergence_rate",
        "dmmse_errors",
        "eigenvalues_after",
        "finite_size_errors",
        "gdpp_loss",
        "gdpp_minima",
        "icl_error",
        "idg_error",
        "interval_after",
        "largest_eigenvalue_cdf",
        "learning_rate_loss",
        "optimal_dampening",
        "optimal_gdpp",
        "optimal_learning_rate",
        "optimal_preconditioner",
        "optimal_ridge",
        "optimal_schedule",
        "preconditioner_loss",
        "ridge_baselines",
        "ridge_risk",
        "schedule_loss",
        "steps_needed",
        "task_gap",
        "wishart_density",
        "wishart_moment",
        "wishart_resolvent",
        "worst_case_residual",
    ),
    "iclimit.simulate": (
        "NoisyRegression",
        "Regression",
        "estimate_learning_rate",
        "gdpp_transformer",
        "held_out_losses",
        "implicit_weights",
        "simulate_critical_dampening",
        "simulate_errors",
        "simulate_estimator",
        "simulate_gdpp",
        "simulate_learning_rate",
        "simulate_ridge_baselines",
        "simulate_schedule",
        "train_attention",
        "train_linear_transformer",
        "tune_ridge",
    ),
    "iclimit.validation": ("CLAIMS", "validate"),
    "iclimit.curves": ("curve",),
    "iclimit.phases": ("phase_diagram",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLAIMS",
    "MarchenkoPastur",
    "NoisyRegression",
    "Regression",
    "Wishart",
    "baseline_profiles",
    "bayes_error",
    "chebyshev_schedule",
    "condition_number_schedule",
    "constant_schedule",
    "critical_dampening",
    "curve",
    "derive_learning_rate",
    "derive_schedule",
    "derive_wishart_moment",
    "divergence_rate",
    "dmmse_errors",
    "eigenvalues_after",
    "estimate_learning_rate",
    "finite_size_errors",
    "gdpp_loss",
    "gdpp_minima",
    "gdpp_transformer",
    "held_out_losses",
    "icl_error",
    "idg_error",
    "implicit_weights",
    "interval_after",
    "largest_eigenvalue_cdf",
    "learning_rate_loss",
    "optimal_dampening",
    "optimal_gdpp",
    "optimal_learning_rate",
    "optimal_preconditioner",
    "optimal_ridge",
    "optimal_schedule",
    "phase_diagram",
    "preconditioner_loss",
    "ridge_baselines",
    "ridge_risk",
    "schedule_loss",
    "simulate_critical_dampening",
    "simulate_errors",
    "simulate_estimator",
    "simulate_gdpp",
    "simulate_learning_rate",
    "simulate_ridge_baselines",
    "simulate_schedule",
    "steps_needed",
    "task_gap",
    "train_attention",
    "train_linear_transformer",
    "tune_ridge",
    "validate",
    "wishart_density",
    "wishart_moment",
    "wishart_resolvent",
    "worst_case_residual",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'iclimit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
