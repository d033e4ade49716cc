"""ICL and IDG errors of pretrained linear attention: theory and simulation."""

from iclimit.asymptotics import pretraining as _asymptotics
from iclimit.asymptotics.pretraining import *  # noqa: F403
from iclimit.simulate import pretraining as _simulate
from iclimit.simulate.pretraining import *  # noqa: F403

__all__ = [*_asymptotics.__all__, *_simulate.__all__]
