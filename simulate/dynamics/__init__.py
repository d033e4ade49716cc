"""Training dynamics of one linear attention layer: gradient flow and gradient descent."""

from iclimit.notation import explain_names
from iclimit.simulate.dynamics.attention_models import AttentionModel, initial_weights
from iclimit.simulate.dynamics.gradient_descent import (
    TrainingCurves,
    UnstableTraining,
    simulate_gradient_descent,
)
from iclimit.simulate.dynamics.gradient_flow import FlowCurve, Plateaus, simulate_gradient_flow
from iclimit.simulate.dynamics.task_mixture import TaskMixture

__all__ = [
    "AttentionModel",
    "FlowCurve",
    "Plateaus",
    "TaskMixture",
    "TrainingCurves",
    "UnstableTraining",
    "initial_weights",
    "simulate_gradient_descent",
    "simulate_gradient_flow",
]

explain_names(__name__)
