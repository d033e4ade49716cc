"""Linear recurrent layers as in-context learners: theory and simulation."""

from iclimit.asymptotics.recurrent import *  # noqa: F403
from iclimit.simulate.recurrent import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
