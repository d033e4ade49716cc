"""Softmax attention: heads on linear regression, kernels, and the best of all attention."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
