"""Softmax attention: theory."""

from iclimit.asymptotics import softmax as _asymptotics
from iclimit.asymptotics.softmax import *  # noqa: F403

__all__ = [*_asymptotics.__all__]
