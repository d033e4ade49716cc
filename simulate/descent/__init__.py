"""Gradient descent in context: regression prompts, constructed and trained layers."""

from iclimit.notation import explain_names
from iclimit.simulate.descent.learning_rate import (
    LearningRateEstimate,
    estimate_learning_rate,
    simulate_learning_rate,
)
from iclimit.simulate.descent.regression import Regression
from iclimit.simulate.descent.schedules import (
    CriticalDampening,
    ScheduleLosses,
    simulate_critical_dampening,
    simulate_schedule,
)
from iclimit.simulate.descent.training import TrainedAttention, train_attention

__all__ = [
    "CriticalDampening",
    "LearningRateEstimate",
    "Regression",
    "ScheduleLosses",
    "TrainedAttention",
    "estimate_learning_rate",
    "simulate_critical_dampening",
    "simulate_learning_rate",
    "simulate_schedule",
    "train_attention",
]

explain_names(__name__)
