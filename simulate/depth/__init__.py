"""Depth and steps of linear attention: simulation."""

from iclimit.notation import explain_names
from iclimit.simulate.depth.contexts import ContextLosses, simulate_depth_loss
from iclimit.simulate.depth.feedback import SimulatedRatio, simulate_overthinking_ratio
from iclimit.simulate.depth.matrix_flow import MatrixFlow, simulate_matrix_flow
from iclimit.simulate.depth.test_time import SimulatedSteps, simulate_test_time
from iclimit.simulate.depth.training import DepthTraining, train_depth
from iclimit.simulate.depth.untied_flow import UntiedFlow, simulate_untied_flow

__all__ = [
    "ContextLosses",
    "DepthTraining",
    "MatrixFlow",
    "SimulatedRatio",
    "SimulatedSteps",
    "UntiedFlow",
    "simulate_depth_loss",
    "simulate_matrix_flow",
    "simulate_overthinking_ratio",
    "simulate_test_time",
    "simulate_untied_flow",
    "train_depth",
]

explain_names(__name__)
