"""ICL and IDG errors of pretrained linear attention: isotropic, structured and finite-size.

.. symbols:
   e_{ICL}: error on fresh tasks
   e_{IDG}: error on the pretraining tasks
"""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
