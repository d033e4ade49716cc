"""Depth, width, context and time: theory and simulation."""

from iclimit.asymptotics import depth as _asymptotics
from iclimit.asymptotics.depth import *  # noqa: F403
from iclimit.simulate import depth as _simulate
from iclimit.simulate.depth import *  # noqa: F403

__all__ = [*_asymptotics.__all__, *_simulate.__all__]
