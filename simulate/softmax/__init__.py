"""Softmax heads: simulation and training."""

from iclimit.notation import explain_names
from iclimit.simulate.softmax.merged_heads import MergedHeads
from iclimit.simulate.softmax.simulated_heads import SimulatedHeads, simulate_softmax

__all__ = ["MergedHeads", "SimulatedHeads", "simulate_softmax"]

explain_names(__name__)
