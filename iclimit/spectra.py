"""Spectral measures and their transforms: theory."""

from iclimit.asymptotics import spectra as _asymptotics
from iclimit.asymptotics.spectra import *  # noqa: F403

__all__ = [*_asymptotics.__all__]
