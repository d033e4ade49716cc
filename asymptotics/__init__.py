"""Limits and closed forms of in-context learning theory: no simulation."""

if __name__ != "iclimit.asymptotics":
    raise ImportError("import this package as iclimit.asymptotics")

from iclimit.asymptotics.bayes import DMMSEErrors, bayes_error, dmmse_errors
from iclimit.asymptotics.dampening import critical_dampening, optimal_dampening
from iclimit.asymptotics.derivations import (
    Derivation,
    derive_learning_rate,
    derive_schedule,
    derive_wishart_moment,
)
from iclimit.asymptotics.finite_size import FiniteSizeErrors, finite_size_errors
from iclimit.asymptotics.icl import icl_error, idg_error, task_gap
from iclimit.asymptotics.learning_rate import (
    LearningRate,
    learning_rate_loss,
    optimal_learning_rate,
)
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
    wishart_moment,
    wishart_resolvent,
)

__all__ = [
    "DMMSEErrors",
    "Derivation",
    "FiniteSizeErrors",
    "LearningRate",
    "MarchenkoPastur",
    "OptimalRidge",
    "Preconditioner",
    "Schedule",
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
]
