"""Networks of attention and recurrent layers: models, gradients by hand, training."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
