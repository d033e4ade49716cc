"""Depth, width, context and time of linear attention: scaling laws of in-context learning."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
