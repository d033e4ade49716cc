"""Gradient descent in context: learning rates, preconditioners, schedules, dampening."""

from iclimit.asymptotics.descent.best_rates import (
    chebyshev_schedule,
    constant_schedule,
    divergence_rate,
    optimal_schedule,
)
from iclimit.asymptotics.descent.dampening import critical_dampening, optimal_dampening
from iclimit.asymptotics.descent.derivations import (
    Derivation,
    derive_learning_rate,
    derive_schedule,
    derive_wishart_moment,
)
from iclimit.asymptotics.descent.learning_rate import (
    LearningRate,
    learning_rate_loss,
    optimal_learning_rate,
)
from iclimit.asymptotics.descent.preconditioner import (
    Preconditioner,
    optimal_preconditioner,
    preconditioner_loss,
)
from iclimit.asymptotics.descent.schedules import Schedule, schedule_loss
from iclimit.notation import explain_names

__all__ = [
    "Derivation",
    "LearningRate",
    "Preconditioner",
    "Schedule",
    "chebyshev_schedule",
    "constant_schedule",
    "critical_dampening",
    "derive_learning_rate",
    "derive_schedule",
    "derive_wishart_moment",
    "divergence_rate",
    "learning_rate_loss",
    "optimal_dampening",
    "optimal_learning_rate",
    "optimal_preconditioner",
    "optimal_schedule",
    "preconditioner_loss",
    "schedule_loss",
]

explain_names(__name__)
