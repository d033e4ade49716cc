"""Eigenvalues of sample covariances of isotropic and structured populations.

Means of 1/(1 + x) and log(1 + x) over the eigenvalues of simulated sample covariances extrapolate
to those of the Marchenko-Pastur law for an isotropic population, and of the free convolution for a
two-level and a power-law population.  For two levels so does their distribution function, and the
outermost eigenvalues of both bands extrapolate to the four edges of the support, once the
Tracy-Widom means are taken off.  At 20 samples in 10 dimensions shares of the eigenvalues are
those of the exact mean density, and moments the exact ones.

Source: Silverstein, J. Multivariate Anal. 55 (1995) 331; edges: Silverstein and Choi (1995);
Wishart matrices: documentation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import spectra
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.spectra import matrices
from iclimit.validation.rows import Rows, call, mean, run


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

    def law(self, dim: int) -> spectra.SpectralMeasure:
        """Limiting law of sample covariances of the population of size d."""
        return spectra.SampleCovariance(
            spectra.Atoms(spectra.spectrum(self.covariance).quantiles(dim)), self.ratio
        )

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
# Ratio of dimension to samples, and argument of the resolvent.
ISOTROPIC, SHIFT = 0.5, 0.6
# Size at which the exact laws are compared.
FEW: dict[str, Any] = {"dim": 10, "ratio": 0.5}
# Between neighbours of these the share of eigenvalues is compared.
SHARES = (0.0, 0.4, 1.0, 2.5)
# Exponents of the products of traces whose mean is compared.
POWERS = ((2,), (3,), (2, 1))


def isotropic_statistics() -> matrices.Statistics:
    """Marchenko-Pastur law, by its class, its description and its resolvent."""
    described = spectra.spectrum(f"mp:{ISOTROPIC:g}")
    resolvent = spectra.wishart_resolvent(SHIFT, kappa=1 / ISOTROPIC)
    slope = spectra.wishart_resolvent(SHIFT, kappa=1 / ISOTROPIC, derivative=1)
    return matrices.linear_statistics(spectra.MarchenkoPastur(ISOTROPIC), (1.0,)) | {
        "mean of 1/(1 + 2 x)": (matrices.mean_eta(2.0), described.eta_transform(2), "spectrum"),
        "resolvent": (lambda x: np.mean(1 / (SHIFT + x), axis=1), resolvent, "wishart_resolvent"),
        "slope of the resolvent": (
            lambda x: -np.mean(1 / (SHIFT + x) ** 2, axis=1),
            slope,
            "wishart_resolvent",
        ),
    }


def sample_eigenvalues(
    *, covariance: str, ratio: float, dim: int, count: int, rng: SeedSequence
) -> np.ndarray:
    """Ascending eigenvalues of sample covariances, (count, d)."""
    generator = np.random.default_rng(rng)
    roots = np.sqrt(spectra.spectrum(covariance).quantiles(dim))
    samples = np.empty((count, dim))
    for row in samples:
        z = generator.standard_normal((round(dim / ratio), dim)) * roots
        row[:] = np.linalg.eigvalsh(z.T @ z / len(z))
    return samples


def unit_trace(eigenvalues: np.ndarray) -> np.ndarray:
    """Isotropic eigenvalues over their mean, 1 in the limit, which does not depend on ratios."""
    return eigenvalues / np.mean(eigenvalues, axis=1, keepdims=True)


def rows(effort: Effort) -> Rows:
    """Statistics of all populations, and of many small matrices."""
    for population in (*POPULATIONS, Population("isotropic", "isotropic", ISOTROPIC)):
        law = {"covariance": population.covariance, "ratio": population.ratio}
        eigenvalues = matrices.eigenvalue_runs(effort, sample_eigenvalues, **law)
        if population in POPULATIONS:
            statistics = call(getattr, population, "statistics")
        else:
            statistics = call(dict.fromkeys, matrices.SIZES, call(isotropic_statistics))
            eigenvalues = {dim: call(unit_trace, each) for dim, each in eigenvalues.items()}
        yield from matrices.statistics_rows(population.name, statistics, eigenvalues)
    few = run(sample_eigenvalues, covariance="isotropic", count=effort(30_000), **FEW)
    context, dim = round(FEW["dim"] / FEW["ratio"]), FEW["dim"]
    options: dict[str, Any] = {"context": context, "dim": dim}
    for ends in pairwise(SHARES):
        label = "share between {:g} and {:g}".format(*ends)
        share = call(integrated_density, *ends, **options)
        measured = call(share_between, few, *ends)
        yield mean(f"{label}, d={dim}", share, measured, of="wishart_density", draws="few")
    for powers in POWERS:
        label = f"mean product of traces of powers {', '.join(map(str, powers))}, d={dim}"
        measured = call(trace_products, few, powers, **options)
        yield mean(label, call(spectra.wishart_moment, powers, **options), measured, draws="few")


def integrated_density(lower: float, upper: float, *, context: int, dim: int) -> float:
    """Share of eigenvalues between two points by the mean density."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x, half = (lower + upper + (upper - lower) * nodes) / 2, (upper - lower) / 2
    return half * float(weights @ spectra.wishart_density(x, context=context, dim=dim))


def share_between(eigenvalues: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Shares of the eigenvalues of each matrix between two points."""
    return np.mean((eigenvalues > lower) & (eigenvalues < upper), axis=1)


def trace_products(
    eigenvalues: np.ndarray, powers: Sequence[int], *, context: int, dim: int
) -> np.ndarray:
    """Products of traces of powers of each matrix, with the mean of the power of its trace.

    The squared norm of a Gaussian matrix, the trace, does not depend on its direction: its power
    is replaced by the mean, a moment of the chi-square law.
    """
    trace = np.sum(eigenvalues, axis=1)
    products = [np.sum((eigenvalues.T / trace) ** k, axis=0) for k in powers]
    return math.prod(context * dim + 2 * k for k in range(sum(powers))) * math.prod(products)


claim = Claim.of("spectra-samples", __doc__, rows, figure=False)
