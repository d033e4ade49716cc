"""Training dynamics of linear attention: theory and simulation."""

from iclimit.asymptotics import dynamics as _asymptotics
from iclimit.asymptotics.dynamics import *  # noqa: F403
from iclimit.simulate import dynamics as _simulate
from iclimit.simulate.dynamics import *  # noqa: F403

__all__ = [*_asymptotics.__all__, *_simulate.__all__]
