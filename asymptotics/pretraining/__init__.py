"""ICL and IDG errors of pretrained linear attention: isotropic, structured and finite-size."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
