"""Gradient descent in context: learning rates, preconditioners, schedules, dampening.

.. page: descent/schedules: Several steps: schedules, spectra and dampening
"""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
