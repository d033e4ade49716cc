"""Softmax attention: theory and simulation."""

from iclimit.asymptotics.softmax import *  # noqa: F403
from iclimit.simulate.softmax import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
