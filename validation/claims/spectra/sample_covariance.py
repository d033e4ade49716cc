"""Eigenvalues of sample covariances of isotropic and structured populations.

Means of 1/(1 + x) and log(1 + x) over the eigenvalues of simulated sample covariances extrapolate
to those of the Marchenko-Pastur law for an isotropic population, and of the free convolution for a
two-level and a power-law population.  For two levels so does their distribution function, and the
outermost eigenvalues of both bands extrapolate to the four edges of the support, once the
Tracy-Widom means are taken off.  Transforms of the Marchenko-Pastur law are integrals of its
density.  At 20 samples in 10 dimensions shares of the eigenvalues are those of the exact mean
density, and moments the exact ones; at drawn sizes so are moments for entries of three laws.

Source: Silverstein, J. Multivariate Anal. 55 (1995) 331; edges: Silverstein and Choi (1995);
Wishart matrices: documentation.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import spectra
from iclimit.comparison import Comparison, compare
from iclimit.results import Estimate
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, judged, mean, run
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows
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


# Populations with structure.
POPULATIONS = (
    Population("two levels", "atoms:1,8", 0.2, (1.0, 7.0)),
    Population("power law", "powerlaw:0.9", 0.5),
)
# Ratio of dimension to samples of the isotropic population.
ISOTROPIC = 0.5
# Argument of the resolvent.
SHIFT = 0.6
# Size at which the exact laws are compared.
FEW: dict[str, Any] = {"dim": 10, "ratio": 0.5}
# Between neighbours of these the share of eigenvalues is compared.
SHARES = (0.0, 0.4, 1.0, 2.5)
# Points, the first of them complex, at which transforms of the Marchenko-Pastur law are compared
# with integrals of its density.
POINTS = (1.0 + 0.5j, -0.4)
# Midpoints of the rule for these integrals.
MIDPOINTS = 400
# Relative tolerance of the transforms.
TRANSFORMS = 1e-11
# Moments at drawn sizes.
ORDERS = (1, 2, 3)
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


def transforms() -> Iterator[Comparison]:
    """Transforms of the Marchenko-Pastur law, beside integrals of its density."""
    law = spectra.MarchenkoPastur(ISOTROPIC)
    c = ISOTROPIC
    angle = (np.arange(MIDPOINTS) + 0.5) * np.pi / MIDPOINTS
    x = 1 + c + 2 * math.sqrt(c) * np.cos(angle)
    mass = 2 * np.sin(angle) ** 2 / x / MIDPOINTS  # the midpoint rule is exact to rounding
    pairs: dict[str, tuple[complex, complex]] = {}
    for z in POINTS:
        powers = [complex(mass @ (x - z) ** -(k + 1.0)) for k in range(3)]
        for k, value in enumerate(powers):
            transform = complex(law.stieltjes(z if z.imag else z.real, derivative=k))
            name = f"stieltjes, derivative {k} at {z:g}"
            pairs[f"{name}, real part"] = transform.real, math.factorial(k) * value.real
            if z.imag:
                pairs[f"{name}, imaginary part"] = transform.imag, math.factorial(k) * value.imag
            transform = complex(law.companion_stieltjes(z if z.imag else z.real, derivative=k))
            value = c * value - (1 - c) * (-1) ** k / z ** (k + 1)
            pairs[f"companion_{name}, real part"] = transform.real, math.factorial(k) * value.real
    # Inverse functions of G = -m at the last point, and of eta - 1.
    G = -powers[0].real
    slope = -powers[1].real
    pairs["r_transform"] = float(law.r_transform(G)), POINTS[-1].real - 1 / G
    pairs["r_transform, derivative"] = (
        float(law.r_transform(G, derivative=1)),
        1 / slope + 1 / G**2,
    )
    eta = float(mass @ (1 / (1 + x)))
    fall = -float(mass @ (x / (1 + x) ** 2))
    pairs["s_transform"] = float(law.s_transform(eta - 1)), eta / (1 - eta)
    pairs["s_transform, derivative"] = (
        float(law.s_transform(eta - 1, derivative=1)),
        (eta / (1 - eta) + fall / (1 - eta) ** 2) / fall,
    )
    for name, (theory, value) in pairs.items():
        label = f"{name}, isotropic"
        of = f"MarchenkoPastur.{name.partition(',')[0]}"
        yield compare(label, theory.real, value.real, relative=TRANSFORMS, of=of)


@named_cell("sample_eigenvalues")
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


@named_cell("random_matrices")
def random_matrices(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Moments of sample covariances of a size and a law of the entries that are drawn."""
    generator = np.random.default_rng(rng)
    draw: dict[str, Callable[..., Any]] = {
        "gaussian": generator.standard_normal,
        "uniform": lambda size: generator.uniform(-1, 1, size),
        "laplace": lambda size: generator.laplace(size=size),
    }
    context, dim = generator.integers(2, 13, 2).tolist()
    setting = {"context": context, "dim": dim, "input_law": str(generator.choice(list(draw)))}
    x = draw[setting["input_law"]]((repeats, context, dim))
    power = np.swapaxes(x, 1, 2) @ x / context
    sample = power
    law = spectra.IndependentEntries(**setting)
    values = {}
    for order in ORDERS:
        traces = np.trace(power, axis1=1, axis2=2) / dim
        values[f"moment {order}"] = float(law.moment(order)), Estimate.of(traces, keep=False)
        power = power @ sample
    return RandomSetting(describe(setting), values)


def rows(effort: Effort) -> Rows:
    """Statistics of all populations, and of many small matrices."""
    for population in (*POPULATIONS, Population("isotropic", "isotropic", ISOTROPIC)):
        law = {"covariance": population.covariance, "ratio": population.ratio}
        eigenvalues = matrices.eigenvalue_runs(effort, sample_eigenvalues, **law)
        if population in POPULATIONS:
            statistics = call(getattr, population, "statistics")
        else:
            statistics = call(dict.fromkeys, matrices.SIZES, call(isotropic_statistics))
            eigenvalues = {dim: call(unit_trace, cell) for dim, cell in eigenvalues.items()}
        yield from matrices.statistics_rows(population.name, statistics, eigenvalues)
    yield judged(call(transforms))
    few = run(sample_eigenvalues, covariance="isotropic", count=effort(30_000), **FEW)
    context = round(FEW["dim"] / FEW["ratio"])
    dim = FEW["dim"]
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
    of = {f"moment {order}": "IndependentEntries.moment" for order in ORDERS}
    yield from random_rows(effort, "independent entries", random_matrices, 10_000, of)


def integrated_density(lower: float, upper: float, *, context: int, dim: int) -> float:
    """Share of eigenvalues between two points by the mean density."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x = (lower + upper + (upper - lower) * nodes) / 2
    half = (upper - lower) / 2
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
