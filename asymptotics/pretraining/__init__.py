"""ICL and IDG errors of pretrained linear attention: isotropic, structured and finite-size."""

from iclimit.asymptotics.pretraining.bayes import DMMSEErrors, bayes_error, dmmse_errors
from iclimit.asymptotics.pretraining.error_derivations import derive_icl_error, derive_idg_error
from iclimit.asymptotics.pretraining.error_limits import derive_error_limits
from iclimit.asymptotics.pretraining.finite_size import FiniteSizeErrors, finite_size_errors
from iclimit.asymptotics.pretraining.fixed_point_derivations import (
    derive_effective_ridge,
    derive_many_tasks,
    derive_resolvent,
    derive_threshold,
)
from iclimit.asymptotics.pretraining.gamma_errors import (
    GammaErrors,
    OptimalGamma,
    errors_of_gamma,
    expected_gamma,
    optimal_gamma,
)
from iclimit.asymptotics.pretraining.icl import icl_error, idg_error, task_gap
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.pretraining.phase_margins import OptimalRidge, optimal_ridge
from iclimit.asymptotics.pretraining.structured import (
    StructuredErrors,
    cka,
    resolvent_alignment,
    structured_errors,
    trace_ratio,
)
from iclimit.asymptotics.pretraining.structured_slopes import (
    BestCovariance,
    best_test_covariance,
    best_training_covariance,
    direction_slopes,
    diversity_slope,
)
from iclimit.notation import explain_names

__all__ = [
    "BestCovariance",
    "DMMSEErrors",
    "FiniteSizeErrors",
    "GammaErrors",
    "JointSpectrum",
    "OptimalGamma",
    "OptimalRidge",
    "StructuredErrors",
    "bayes_error",
    "best_test_covariance",
    "best_training_covariance",
    "cka",
    "derive_effective_ridge",
    "derive_error_limits",
    "derive_icl_error",
    "derive_idg_error",
    "derive_many_tasks",
    "derive_resolvent",
    "derive_threshold",
    "direction_slopes",
    "diversity_slope",
    "dmmse_errors",
    "errors_of_gamma",
    "expected_gamma",
    "finite_size_errors",
    "icl_error",
    "idg_error",
    "optimal_gamma",
    "optimal_ridge",
    "resolvent_alignment",
    "structured_errors",
    "task_gap",
    "trace_ratio",
]

explain_names(__name__)
