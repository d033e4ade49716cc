"""Finite-size simulation of linear attention on NumPy or CuPy: no theory."""

if __name__ != "iclimit.simulate":
    raise ImportError("import this package as iclimit.simulate")

from iclimit.simulate.attention_models import AttentionModel, initial_weights
from iclimit.simulate.cells import SimulatedErrors, simulate_errors
from iclimit.simulate.cost import CellCost, estimate_cost, largest_dimension
from iclimit.simulate.dampening import CriticalDampening, simulate_critical_dampening
from iclimit.simulate.descent import ScheduleLosses, simulate_schedule
from iclimit.simulate.estimators import simulate_estimator
from iclimit.simulate.gradient_descent import (
    TrainingCurves,
    UnstableTraining,
    simulate_gradient_descent,
)
from iclimit.simulate.gradient_flow import (
    FlowCurve,
    Plateaus,
    simulate_gradient_flow,
)
from iclimit.simulate.implicit_weights import (
    ImplicitWeights,
    implicit_weights,
    two_level_ridge_transformer,
)
from iclimit.simulate.learning_rate import (
    LearningRateEstimate,
    estimate_learning_rate,
    simulate_learning_rate,
)
from iclimit.simulate.linear_transformer import LinearTransformer
from iclimit.simulate.noisy_regression import NoiseLaw, NoisyRegression
from iclimit.simulate.preconditioned_descent import (
    gdpp_transformer,
    layer_spectra,
    simulate_gdpp,
)
from iclimit.simulate.regression import Regression
from iclimit.simulate.ridge_baselines import (
    RidgeTuning,
    SimulatedBaselines,
    simulate_ridge_baselines,
    tune_ridge,
)
from iclimit.simulate.task_mixture import (
    TaskMixture,
)
from iclimit.simulate.training import TrainedAttention, train_attention
from iclimit.simulate.transformer_training import (
    HeldOutLosses,
    TrainedTransformer,
    held_out_losses,
    train_linear_transformer,
)

__all__ = [
    "AttentionModel",
    "CellCost",
    "CriticalDampening",
    "FlowCurve",
    "HeldOutLosses",
    "ImplicitWeights",
    "LearningRateEstimate",
    "LinearTransformer",
    "NoiseLaw",
    "NoisyRegression",
    "Plateaus",
    "Regression",
    "RidgeTuning",
    "ScheduleLosses",
    "SimulatedBaselines",
    "SimulatedErrors",
    "TaskMixture",
    "TrainedAttention",
    "TrainedTransformer",
    "TrainingCurves",
    "UnstableTraining",
    "estimate_cost",
    "estimate_learning_rate",
    "gdpp_transformer",
    "held_out_losses",
    "implicit_weights",
    "initial_weights",
    "largest_dimension",
    "layer_spectra",
    "simulate_critical_dampening",
    "simulate_errors",
    "simulate_estimator",
    "simulate_gdpp",
    "simulate_gradient_descent",
    "simulate_gradient_flow",
    "simulate_learning_rate",
    "simulate_ridge_baselines",
    "simulate_schedule",
    "train_attention",
    "train_linear_transformer",
    "tune_ridge",
    "two_level_ridge_transformer",
]
