"""Simulated contexts of linear recurrent layers."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
