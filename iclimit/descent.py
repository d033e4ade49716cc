"""Gradient descent in context: theory and simulation."""

from iclimit.asymptotics.descent import *  # noqa: F403
from iclimit.simulate.descent import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
