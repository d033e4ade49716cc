"""Spectral measures and their transforms."""

from iclimit.asymptotics.spectra.atoms import Atoms, Mixture
from iclimit.asymptotics.spectra.free_sum import FreeSum
from iclimit.asymptotics.spectra.largest_eigenvalue import largest_eigenvalue_cdf
from iclimit.asymptotics.spectra.marchenko_pastur import MarchenkoPastur
from iclimit.asymptotics.spectra.measure import SpectralMeasure
from iclimit.asymptotics.spectra.measures import DensityMeasure, Exponential, PowerLaw, Uniform
from iclimit.asymptotics.spectra.pushforward import Pushforward
from iclimit.asymptotics.spectra.resolvent import wishart_resolvent
from iclimit.asymptotics.spectra.sample_covariance import SampleCovariance
from iclimit.asymptotics.spectra.specification import spectrum
from iclimit.asymptotics.spectra.wishart import Wishart
from iclimit.asymptotics.spectra.wishart_density import wishart_density
from iclimit.asymptotics.spectra.wishart_moments import wishart_moment

__all__ = [
    "Atoms",
    "DensityMeasure",
    "Exponential",
    "FreeSum",
    "MarchenkoPastur",
    "Mixture",
    "PowerLaw",
    "Pushforward",
    "SampleCovariance",
    "SpectralMeasure",
    "Uniform",
    "Wishart",
    "largest_eigenvalue_cdf",
    "spectrum",
    "wishart_density",
    "wishart_moment",
    "wishart_resolvent",
]
