r"""Softmax attention: heads on linear regression, kernels, and the best of all attention.

.. page: softmax/softmax: Softmax attention

.. symbols:
   \mathcal L: error on a noiseless query label
   \mathcal L^*: its least value
   N: context length
"""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
