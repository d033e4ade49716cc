"""GD++ and random noise levels: theory and simulation."""

from iclimit.asymptotics.gdpp import *  # noqa: F403
from iclimit.simulate.gdpp import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
