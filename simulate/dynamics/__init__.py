"""Training dynamics of one linear attention layer: gradient flow and gradient descent."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
