"""Spectral measures and their transforms."""

from iclimit.asymptotics.spectra.largest_eigenvalue import largest_eigenvalue_cdf
from iclimit.asymptotics.spectra.marchenko_pastur import MarchenkoPastur
from iclimit.asymptotics.spectra.measure import SpectralMeasure
from iclimit.asymptotics.spectra.measures import (
    Atoms,
    DensityMeasure,
    Exponential,
    Mixture,
    PowerLaw,
    Uniform,
)
from iclimit.asymptotics.spectra.resolvent import wishart_resolvent
from iclimit.asymptotics.spectra.specification import spectrum
from iclimit.asymptotics.spectra.wishart import Wishart, wishart_moment
from iclimit.asymptotics.spectra.wishart_density import wishart_density

__all__ = [
    "Atoms",
    "DensityMeasure",
    "Exponential",
    "MarchenkoPastur",
    "Mixture",
    "PowerLaw",
    "SpectralMeasure",
    "Uniform",
    "Wishart",
    "largest_eigenvalue_cdf",
    "spectrum",
    "wishart_density",
    "wishart_moment",
    "wishart_resolvent",
]
