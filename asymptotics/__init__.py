"""Limits and closed forms of in-context learning theory: no simulation."""

if __name__ != "iclimit.asymptotics":
    raise ImportError("import this package as iclimit.asymptotics")

from iclimit.asymptotics.bayes import DMMSEErrors, bayes_error, dmmse_errors
from iclimit.asymptotics.condition_number import (
    ConditionSchedule,
    SpectralInterval,
    condition_number_schedule,
    eigenvalues_after,
    interval_after,
    steps_needed,
)
from iclimit.asymptotics.dampening import critical_dampening, optimal_dampening
from iclimit.asymptotics.derivations import (
    Derivation,
    derive_learning_rate,
    derive_schedule,
    derive_wishart_moment,
)
from iclimit.asymptotics.finite_size import FiniteSizeErrors, finite_size_errors
from iclimit.asymptotics.gdpp import (
    GDPlusPlus,
    gdpp_loss,
    gdpp_minima,
    optimal_gdpp,
    worst_case_residual,
)
from iclimit.asymptotics.icl import icl_error, idg_error, task_gap
from iclimit.asymptotics.learning_rate import (
    LearningRate,
    learning_rate_loss,
    optimal_learning_rate,
)
from iclimit.asymptotics.mixed_noise import (
    BaselineProfiles,
    OneLayer,
    RidgeBaselines,
    adaptive_ridge_loss,
    baseline_profiles,
    constant_ridge_loss,
    one_layer,
    oracle_risk,
    ridge_baselines,
    ridge_risk,
)
from iclimit.asymptotics.noise_laws import NoiseLaw, noise_law
from iclimit.asymptotics.optimal_ridge import OptimalRidge, optimal_ridge
from iclimit.asymptotics.preconditioner import (
    Preconditioner,
    optimal_preconditioner,
    preconditioner_loss,
)
from iclimit.asymptotics.schedules import (
    Schedule,
    chebyshev_schedule,
    constant_schedule,
    divergence_rate,
    optimal_schedule,
    schedule_loss,
)
from iclimit.asymptotics.spectra import (
    MarchenkoPastur,
    Wishart,
    largest_eigenvalue_cdf,
    wishart_density,
    wishart_moment,
    wishart_resolvent,
)

__all__ = [
    "BaselineProfiles",
    "ConditionSchedule",
    "DMMSEErrors",
    "Derivation",
    "FiniteSizeErrors",
    "GDPlusPlus",
    "LearningRate",
    "MarchenkoPastur",
    "NoiseLaw",
    "OneLayer",
    "OptimalRidge",
    "Preconditioner",
    "RidgeBaselines",
    "Schedule",
    "SpectralInterval",
    "Wishart",
    "adaptive_ridge_loss",
    "baseline_profiles",
    "bayes_error",
    "chebyshev_schedule",
    "condition_number_schedule",
    "constant_ridge_loss",
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
    "noise_law",
    "one_layer",
    "optimal_dampening",
    "optimal_gdpp",
    "optimal_learning_rate",
    "optimal_preconditioner",
    "optimal_ridge",
    "optimal_schedule",
    "oracle_risk",
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
]
