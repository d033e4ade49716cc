"""Spectral measures without closed forms, for which everything is the generic path."""

import numpy as np

from iclimit.asymptotics.spectra import SpectralMeasure


class Bare(SpectralMeasure):
    """A law by its support, atoms and density alone."""

    def __init__(self, law):
        self._law = law
        self.support = law.support
        self.atoms = law.atoms

    def __repr__(self):
        return f"Bare({self._law})"

    def density(self, x):
        return self._law.density(x)


class Arcsine(SpectralMeasure):
    """On [1, 3]: the density is infinite at edges that are not zero."""

    support = ((1.0, 3.0),)

    def density(self, x):
        return 1 / (np.pi * np.sqrt((3 - np.asarray(x)) * (np.asarray(x) - 1)))


class Singular(SpectralMeasure):
    """x^(-0.9)/10 on [0, 1]."""

    support = ((0.0, 1.0),)

    def density(self, x):
        return 0.1 * np.asarray(x) ** -0.9
