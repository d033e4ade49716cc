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
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from iclimit.asymptotics.spectra import (
    Atoms,
    MarchenkoPastur,
    SampleCovariance,
    SpectralMeasure,
    spectrum,
    wishart_density,
    wishart_moment,
    wishart_resolvent,
)
from iclimit.drawing import Figure, panels
from iclimit.results import Estimate
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.spectra import matrices


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
ISOTROPIC, SHIFT = 0.5, 0.6
"""Ratio of dimension to samples, and argument of the resolvent."""
FEW: dict[str, Any] = {"dim": 10, "ratio": 0.5}
"""Size at which the exact laws are compared."""
FEW_MATRICES: dict[Preset, int] = {"quick": 30_000, "medium": 300_000, "full": 1_000_000}
SHARES = (0.0, 0.4, 1.0, 2.5)
"""Between neighbours of these the share of eigenvalues is compared."""
POWERS = ((2,), (3,), (2, 1))
"""Exponents of the products of traces whose mean is compared."""


def isotropic_statistics() -> matrices.Statistics:
    """Marchenko-Pastur law, by its class, its description and its resolvent."""
    described = spectrum(f"mp:{ISOTROPIC:g}")
    resolvent = wishart_resolvent(SHIFT, 1 / ISOTROPIC)
    slope = wishart_resolvent(SHIFT, 1 / ISOTROPIC, derivative=1)
    return matrices.linear_statistics(MarchenkoPastur(ISOTROPIC), (1.0,)) | {
        "mean of 1/(1 + 2 x)": (matrices.mean_eta(2.0), described.eta_transform(2), "spectrum"),
        "resolvent": (lambda x: np.mean(1 / (SHIFT + x), axis=1), resolvent, "wishart_resolvent"),
        "slope of the resolvent": (
            lambda x: -np.mean(1 / (SHIFT + x) ** 2, axis=1),
            slope,
            "wishart_resolvent",
        ),
    }


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
    """Eigenvalues by population and size, and of many small matrices."""
    isotropic = Population("isotropic", "isotropic", ISOTROPIC)
    found = {
        (population.name, dim): Cell.of(
            sample_eigenvalues,
            covariance=population.covariance,
            ratio=population.ratio,
            dim=dim,
            count=matrices.EIGENVALUES[preset] // dim,
        )
        for population in (*POPULATIONS, isotropic)
        for dim in matrices.SIZES
    }
    few = Cell.of(sample_eigenvalues, covariance="isotropic", count=FEW_MATRICES[preset], **FEW)
    return found | {("few", FEW["dim"]): few}


def compare_exact(eigenvalues: np.ndarray) -> list[Comparison]:
    """Compare shares of the eigenvalues of small matrices, and means of products of traces."""
    context, dim = round(FEW["dim"] / FEW["ratio"]), FEW["dim"]
    size: dict[str, int] = {"context": context, "dim": dim}
    nodes, weights = np.polynomial.legendre.leggauss(60)
    comparisons = []
    for lower, upper in pairwise(SHARES):
        x, half = (lower + upper + (upper - lower) * nodes) / 2, (upper - lower) / 2
        share = half * float(weights @ wishart_density(x, **size))
        found = Estimate.of(np.mean((eigenvalues > lower) & (eigenvalues < upper), axis=1))
        label, of = f"share between {lower:g} and {upper:g}, d={dim}", "wishart_density"
        comparisons.append(compare(label, share, found, of=of, draws="few"))
    # The squared norm of a Gaussian matrix, the trace, does not depend on its direction: its power
    # is replaced by the mean, a moment of the chi-square law.
    trace = np.sum(eigenvalues, axis=1)
    for powers in POWERS:
        products = [np.sum((eigenvalues.T / trace) ** k, axis=0) for k in powers]
        mean = math.prod(context * dim + 2 * k for k in range(sum(powers)))
        comparisons.append(
            compare(
                f"mean product of traces of powers {', '.join(map(str, powers))}, d={dim}",
                wishart_moment(powers, **size),
                Estimate.of(mean * math.prod(products)),
                of="wishart_moment",
                draws="few",
            )
        )
    return comparisons


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the extrapolated statistics of all populations, and those of small matrices."""
    families = {population.name: population.statistics for population in POPULATIONS}
    families["isotropic"] = dict.fromkeys(matrices.SIZES, isotropic_statistics())
    # The trace, 1 in the limit, does not depend on the ratios of isotropic eigenvalues.
    unit_trace = {
        key: x / np.mean(x, axis=1, keepdims=True)
        for key, x in results.items()
        if key[0] == "isotropic"
    }
    comparisons, notes = matrices.compare_statistics(families, {**results, **unit_trace})
    comparisons += compare_exact(results["few", FEW["dim"]])

    def draw(figure: Figure) -> None:
        dim = max(matrices.SIZES)
        for ax, population in zip(panels(figure, height=3.6), POPULATIONS, strict=True):
            drawn, law = results[population.name, dim], population.law(dim)
            matrices.draw_density(ax, drawn, law, log=not population.points)
            ax.set_title(f"{population.name}, d/N = {population.ratio:g}, d = {dim}")
        ax.legend()

    return Verdict(comparisons, draw, notes)


claim = Claim.of("spectra-samples", __doc__, cells, judge)
