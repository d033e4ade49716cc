"""Linear recurrent layers as in-context learners: gates, the delta rule, forgetting, drift.

.. page: recurrent/layers: Recurrent layers

.. symbols:
   v: error beyond the label noise, relative to that of predicting 0
"""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
