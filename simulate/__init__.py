"""Finite-size simulation of linear attention on NumPy or CuPy: no theory."""

if __name__ != "iclimit.simulate":
    raise ImportError("import this package as iclimit.simulate")

from iclimit.simulate.cells import SimulatedErrors, simulate_errors
from iclimit.simulate.dampening import CriticalDampening, simulate_critical_dampening
from iclimit.simulate.descent import ScheduleLosses, simulate_schedule
from iclimit.simulate.estimators import simulate_estimator
from iclimit.simulate.learning_rate import (
    LearningRateEstimate,
    estimate_learning_rate,
    simulate_learning_rate,
)
from iclimit.simulate.linear_transformer import LinearTransformer
from iclimit.simulate.noisy_regression import NoiseLaw, NoisyRegression
from iclimit.simulate.regression import Regression
from iclimit.simulate.training import TrainedAttention, train_attention
from iclimit.simulate.transformer_training import (
    HeldOutLosses,
    TrainedTransformer,
    held_out_losses,
    train_linear_transformer,
)

__all__ = [
    "CriticalDampening",
    "HeldOutLosses",
    "LearningRateEstimate",
    "LinearTransformer",
    "NoiseLaw",
    "NoisyRegression",
    "Regression",
    "ScheduleLosses",
    "SimulatedErrors",
    "TrainedAttention",
    "TrainedTransformer",
    "estimate_learning_rate",
    "held_out_losses",
    "simulate_critical_dampening",
    "simulate_errors",
    "simulate_estimator",
    "simulate_learning_rate",
    "simulate_schedule",
    "train_attention",
    "train_linear_transformer",
]
