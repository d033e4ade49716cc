"""Softmax heads: simulation and training."""

from iclimit.notation import explain_names
from iclimit.simulate.softmax.merged_heads import MergedHeads

__all__ = ["MergedHeads"]

explain_names(__name__)
