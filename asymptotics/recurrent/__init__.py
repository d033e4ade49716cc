"""Linear recurrent layers as in-context learners: gates, the delta rule, forgetting, drift."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
