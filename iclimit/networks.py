"""Networks of attention and recurrent layers: simulation."""

from iclimit.simulate.networks import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
