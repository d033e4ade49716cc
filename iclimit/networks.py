"""Networks of attention and recurrent layers: simulation."""

from iclimit.simulate import networks as _simulate
from iclimit.simulate.networks import *  # noqa: F403

__all__ = [*_simulate.__all__]
