"""Training dynamics of linear attention: theory and simulation."""

from iclimit.asymptotics.dynamics import *  # noqa: F403
from iclimit.simulate.dynamics import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
