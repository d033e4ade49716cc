"""Depth and steps of linear attention: simulation."""

from iclimit.notation import explain_names
from iclimit.simulate.depth.test_time import SimulatedSteps, simulate_test_time

__all__ = ["SimulatedSteps", "simulate_test_time"]

explain_names(__name__)
