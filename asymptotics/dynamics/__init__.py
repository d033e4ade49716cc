"""Training dynamics of linear attention that learns to learn in context.

.. page: dynamics/dynamics: Training dynamics of linear attention

.. symbols:
   D: dimension of the inputs
"""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
