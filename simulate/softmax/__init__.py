"""Softmax heads: simulation and training."""

from iclimit.notation import explain_names
from iclimit.simulate.softmax.merged_heads import MergedHeads
from iclimit.simulate.softmax.simulated_heads import SimulatedHeads, simulate_softmax
from iclimit.simulate.softmax.trained_heads import TrainedSoftmax, train_softmax

__all__ = ["MergedHeads", "SimulatedHeads", "TrainedSoftmax", "simulate_softmax", "train_softmax"]

explain_names(__name__)
