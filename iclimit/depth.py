"""Depth, width, context and time: theory and simulation."""

from iclimit.asymptotics.depth import *  # noqa: F403
from iclimit.simulate.depth import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
