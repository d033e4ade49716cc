"""ICL and IDG errors of pretrained linear attention: theory and simulation."""

from iclimit.asymptotics.pretraining import *  # noqa: F403
from iclimit.simulate.pretraining import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
