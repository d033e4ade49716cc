"""GD++ and regression with random noise levels: schedules, losses, ridge baselines."""

from iclimit.asymptotics.gdpp.condition_number import (
    ConditionSchedule,
    condition_number_schedule,
    steps_needed,
)
from iclimit.asymptotics.gdpp.layer_images import (
    SpectralInterval,
    eigenvalues_after,
    interval_after,
)
from iclimit.asymptotics.gdpp.losses import gdpp_loss, worst_case_residual
from iclimit.asymptotics.gdpp.noise_laws import NoiseLaw, parse_noise_law
from iclimit.asymptotics.gdpp.one_layer import OneLayer, one_layer
from iclimit.asymptotics.gdpp.optimum import GDPlusPlus, gdpp_minima, optimal_gdpp
from iclimit.asymptotics.gdpp.ridge_baselines import (
    BaselineProfiles,
    RidgeBaselines,
    baseline_profiles,
    ridge_baselines,
)
from iclimit.asymptotics.gdpp.ridge_losses import (
    adaptive_ridge_loss,
    constant_ridge_loss,
    oracle_risk,
    ridge_risk,
)
from iclimit.notation import explain_names

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

explain_names(__name__)
