"""Depth, width, context and time of linear attention: theory."""

from iclimit.asymptotics import depth as _asymptotics
from iclimit.asymptotics.depth import *  # noqa: F403

__all__ = [*_asymptotics.__all__]
