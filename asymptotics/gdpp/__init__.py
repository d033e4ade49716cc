"""GD++ and regression with random noise levels: schedules, losses, ridge baselines."""

from iclimit.asymptotics.gdpp.condition_number import (
    ConditionSchedule,
    SpectralInterval,
    condition_number_schedule,
    eigenvalues_after,
    interval_after,
    steps_needed,
)
from iclimit.asymptotics.gdpp.losses import (
    GDPlusPlus,
    gdpp_loss,
    gdpp_minima,
    optimal_gdpp,
    worst_case_residual,
)
from iclimit.asymptotics.gdpp.mixed_noise import (
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
from iclimit.asymptotics.gdpp.noise_laws import NoiseLaw, parse_noise_law

__all__ = [
    "BaselineProfiles",
    "ConditionSchedule",
    "GDPlusPlus",
    "NoiseLaw",
    "OneLayer",
    "RidgeBaselines",
    "SpectralInterval",
    "adaptive_ridge_loss",
    "baseline_profiles",
    "condition_number_schedule",
    "constant_ridge_loss",
    "eigenvalues_after",
    "gdpp_loss",
    "gdpp_minima",
    "interval_after",
    "one_layer",
    "optimal_gdpp",
    "oracle_risk",
    "parse_noise_law",
    "ridge_baselines",
    "ridge_risk",
    "steps_needed",
    "worst_case_residual",
]
