"""Pretrained linear attention at finite size, and the Bayes estimators beside it."""

from iclimit.notation import attach_shelf

__all__ = attach_shelf(__name__, __file__)
