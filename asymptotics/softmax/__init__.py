"""Softmax attention: heads on linear regression, kernels, and the best of all attention."""

from iclimit.asymptotics.softmax.heads import SoftmaxHead, optimal_softmax, softmax_loss
from iclimit.notation import explain_names

__all__ = ["SoftmaxHead", "optimal_softmax", "softmax_loss"]

explain_names(__name__)
