"""GD++ and random noise levels: theory and simulation."""

from iclimit.asymptotics import gdpp as _asymptotics
from iclimit.asymptotics.gdpp import *  # noqa: F403
from iclimit.simulate import gdpp as _simulate
from iclimit.simulate.gdpp import *  # noqa: F403

__all__ = [*_asymptotics.__all__, *_simulate.__all__]
