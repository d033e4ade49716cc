"""Spectral measures and their transforms: theory."""

from iclimit.asymptotics.spectra import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_"]
