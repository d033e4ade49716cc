"""Depth, width, context and time of linear attention: scaling laws of in-context learning."""

from iclimit.asymptotics.depth.best_steps import BestSteps, best_test_time_steps
from iclimit.asymptotics.depth.depth_loss import DepthLoss, depth_loss
from iclimit.asymptotics.depth.exponents import ScalingExponents, scaling_exponents
from iclimit.asymptotics.depth.iterated_icl import iterated_icl_errors, overthinking_ratio
from iclimit.asymptotics.depth.joint_law import (
    OptimalShape,
    ScalingTerms,
    compute_optimal,
    scaling_terms,
)
from iclimit.asymptotics.depth.online_sgd import OnlineErrors, online_sgd_errors
from iclimit.asymptotics.depth.overthinking import final_test_time_error, overthinking_threshold
from iclimit.asymptotics.depth.saddle import BalancedSaddle, balanced_saddle
from iclimit.asymptotics.depth.schedule_loss import DepthScheduleLoss, depth_schedule_loss
from iclimit.asymptotics.depth.test_time import test_time_errors
from iclimit.asymptotics.depth.tied_flow import TiedFlow, tied_flow
from iclimit.asymptotics.depth.untied import (
    UntiedDepth,
    untied_depth,
    untied_power_law_loss,
    untied_power_law_steps,
)
from iclimit.notation import explain_names

__all__ = [
    "BalancedSaddle",
    "BestSteps",
    "DepthLoss",
    "DepthScheduleLoss",
    "OnlineErrors",
    "OptimalShape",
    "ScalingExponents",
    "ScalingTerms",
    "TiedFlow",
    "UntiedDepth",
    "balanced_saddle",
    "best_test_time_steps",
    "compute_optimal",
    "depth_loss",
    "depth_schedule_loss",
    "final_test_time_error",
    "iterated_icl_errors",
    "online_sgd_errors",
    "overthinking_ratio",
    "overthinking_threshold",
    "scaling_exponents",
    "scaling_terms",
    "test_time_errors",
    "tied_flow",
    "untied_depth",
    "untied_power_law_loss",
    "untied_power_law_steps",
]

explain_names(__name__)
