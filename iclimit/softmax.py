"""Softmax attention: theory and simulation."""

from iclimit.asymptotics import softmax as _asymptotics
from iclimit.asymptotics.softmax import *  # noqa: F403
from iclimit.simulate import softmax as _simulate
from iclimit.simulate.softmax import *  # noqa: F403

__all__ = [*_asymptotics.__all__, *_simulate.__all__]
