"""Gradient descent in context: theory and simulation."""

from iclimit.asymptotics import descent as _asymptotics
from iclimit.asymptotics.descent import *  # noqa: F403
from iclimit.simulate import descent as _simulate
from iclimit.simulate.descent import *  # noqa: F403

__all__ = [*_asymptotics.__all__, *_simulate.__all__]
