"""Spectral measures and their transforms."""

from iclimit.asymptotics.spectra.atoms import Atoms, Mixture
from iclimit.asymptotics.spectra.free_sum import FreeSum
from iclimit.asymptotics.spectra.independent_entries import IndependentEntries
from iclimit.asymptotics.spectra.marchenko_pastur import MarchenkoPastur
from iclimit.asymptotics.spectra.measure import SpectralMeasure
from iclimit.asymptotics.spectra.measures import (
    DensityMeasure,
    Exponential,
    PowerLaw,
    Uniform,
    spectrum,
)
from iclimit.asymptotics.spectra.pair_moments import pair_moments
from iclimit.asymptotics.spectra.pushforward import Pushforward
from iclimit.asymptotics.spectra.resolvent import wishart_resolvent
from iclimit.asymptotics.spectra.sample_covariance import SampleCovariance
from iclimit.asymptotics.spectra.two_point import TwoPoint
from iclimit.asymptotics.spectra.wishart import Wishart, wishart_moment
from iclimit.asymptotics.spectra.wishart_eigenvalues import largest_eigenvalue_cdf, wishart_density
from iclimit.notation import explain_names

__all__ = [
    "Atoms",
    "DensityMeasure",
    "Exponential",
    "FreeSum",
    "IndependentEntries",
    "MarchenkoPastur",
    "Mixture",
    "PowerLaw",
    "Pushforward",
    "SampleCovariance",
    "SpectralMeasure",
    "TwoPoint",
    "Uniform",
    "Wishart",
    "largest_eigenvalue_cdf",
    "pair_moments",
    "spectrum",
    "wishart_density",
    "wishart_moment",
    "wishart_resolvent",
]

explain_names(__name__)
