"""Spectral measures and their transforms."""

from iclimit.asymptotics.spectra.marchenko_pastur import MarchenkoPastur
from iclimit.asymptotics.spectra.resolvent import wishart_resolvent

__all__ = ["MarchenkoPastur", "wishart_resolvent"]
