"""Eigenvalues of sample covariances of structured populations.

Means of 1/(1 + x) and log(1 + x) over the eigenvalues of simulated sample covariances, of a
two-level and of a power-law population, extrapolate to those of the free convolution.  For two
levels so does their distribution function, and the outermost eigenvalues of both bands
extrapolate to the four edges of the support, once the Tracy-Widom means are taken off.

Source: Silverstein, J. Multivariate Anal. 55 (1995) 331; edges: Silverstein and Choi (1995).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.spectra import Atoms, SampleCovariance, SpectralMeasure, spectrum
from iclimit.validation import Cell, Claim, Preset, Results, Verdict
from iclimit.validation.claims.spectra import matrices
from iclimit.validation.drawing import Figure, panels


@dataclass(frozen=True)
class Population:
    """A covariance, and the number of samples of it.

    Attributes
    ----------
    name : str
    covariance : str
        In the words of `iclimit.asymptotics.spectra.spectrum`; at size d its quantiles.
    ratio : float
        Dimension over number of samples.
    points : tuple of float
        Where the share of eigenvalues below is compared, for two levels, whose law does not depend
        on the size; for a law of many atoms this would take seconds.
    """

    name: str
    covariance: str
    ratio: float
    points: tuple[float, ...] = ()

    def law(self, dim: int) -> SpectralMeasure:
        """Limiting law of sample covariances of the population of size d."""
        return SampleCovariance(Atoms(spectrum(self.covariance).quantiles(dim)), self.ratio)

    @property
    def statistics(self) -> dict[int, matrices.Statistics]:
        """What is compared at each size."""
        if self.points:
            return matrices.all_statistics(self.law(2), self.points)
        return {dim: matrices.linear_statistics(self.law(dim), ()) for dim in matrices.SIZES}


POPULATIONS = (
    Population("two levels", "atoms:1,8", 0.2, (1.0, 7.0)),
    Population("power law", "powerlaw:0.9", 0.5),
)


def sample_eigenvalues(
    *, covariance: str, ratio: float, dim: int, count: int, rng: Any
) -> np.ndarray:
    """Ascending eigenvalues of sample covariances, (count, d)."""
    generator = np.random.default_rng(rng)
    roots = np.sqrt(spectrum(covariance).quantiles(dim))
    found = np.empty((count, dim))
    for row in found:
        z = generator.standard_normal((round(dim / ratio), dim)) * roots
        row[:] = np.linalg.eigvalsh(z.T @ z / len(z))
    return found


def cells(preset: Preset) -> dict[Any, Cell]:
    """Eigenvalues by population and size."""
    return {
        (population.name, dim): Cell.of(
            sample_eigenvalues,
            covariance=population.covariance,
            ratio=population.ratio,
            dim=dim,
            count=matrices.EIGENVALUES[preset] // dim,
        )
        for population in POPULATIONS
        for dim in matrices.SIZES
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the extrapolated statistics of both populations."""
    families = {population.name: population.statistics for population in POPULATIONS}
    comparisons, notes = matrices.compare_statistics(families, results)

    def draw(figure: Figure) -> None:
        dim = max(matrices.SIZES)
        for ax, population in zip(panels(figure, height=3.6), POPULATIONS, strict=True):
            drawn, law = results[population.name, dim], population.law(dim)
            matrices.draw_density(ax, drawn, law, log=not population.points)
            ax.set_title(f"{population.name}, d/N = {population.ratio:g}, d = {dim}")
        ax.legend()

    return Verdict(comparisons, draw, notes)


claim = Claim.of("spectra-samples", __doc__, cells, judge)
