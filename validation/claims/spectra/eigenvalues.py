"""Limiting spectra against the eigenvalues of simulated matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from iclimit.asymptotics.spectra import Atoms, FreeSum, SampleCovariance, SpectralMeasure, spectrum
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS
from iclimit.validation.statistics import extrapolate

SIZES = (40, 60, 80, 120, 160)
EIGENVALUES: dict[Preset, int] = {"quick": 8_000, "full": 160_000}
"""Eigenvalues drawn at every size."""

ORDERS = (2, 3)
"""In 1/d.  Of 60 000 eigenvalues at every size, Tracy-Widom means taken off, a straight line
passes the chi-square test for sample covariances and sums, the second order for products."""

TRACY_WIDOM_MEAN = -1.2065335745820
"""Of the Tracy-Widom law of real matrices (Bornemann, Markov Process. Relat. Fields 16, 803)."""


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
    bands : tuple of float
        Upper ends, as shares of the eigenvalues, of the bands whose edges are looked at, for
        two levels; none for a population that depends on the size.
    points : tuple of float
        Where the share of eigenvalues below is compared; seconds for a law of many atoms.
    """

    name: str
    covariance: str
    ratio: float
    bands: tuple[float, ...]
    points: tuple[float, ...]

    def law(self, dim: int) -> SpectralMeasure:
        """Limiting law of sample covariances of the population of size d."""
        return SampleCovariance(Atoms(spectrum(self.covariance).quantiles(dim)), self.ratio)


POPULATIONS = (
    Population("two levels", "atoms:1,8", 0.2, (0.5, 1.0), (1.0, 7.0)),
    Population("power law", "powerlaw:0.9", 0.5, (), ()),
)
SUMMANDS, SUM_BANDS, SUM_POINTS = ("atoms:0,3", "uniform:0,2"), (0.5, 1.0), (1.0, 4.0)
FACTORS, PRODUCT_POINTS = ("atoms:0.5,2", "uniform:0.2,1.8"), (0.3, 1.0, 3.0)


def sample_eigenvalues(
    *, covariance: str, ratio: float, dim: int, matrices: int, rng: Any
) -> np.ndarray:
    """Ascending eigenvalues of sample covariances, (matrices, d)."""
    generator = np.random.default_rng(rng)
    roots = np.sqrt(spectrum(covariance).quantiles(dim))
    found = np.empty((matrices, dim))
    for row in found:
        z = generator.standard_normal((round(dim / ratio), dim)) * roots
        row[:] = np.linalg.eigvalsh(z.T @ z / len(z))
    return found


def rotated_eigenvalues(
    *, first: str, second: str, operation: str, dim: int, matrices: int, rng: Any
) -> np.ndarray:
    """Ascending eigenvalues of A + U B U^T or of the root of A times U B U^T times it."""
    generator = np.random.default_rng(rng)
    a, b = (spectrum(each).quantiles(dim) for each in (first, second))
    found = np.empty((matrices, dim))
    for row in found:
        U = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
        rotated = (U * b) @ U.T
        together = (
            rotated + np.diag(a) if operation == "sum" else np.sqrt(np.outer(a, a)) * rotated
        )
        row[:] = np.linalg.eigvalsh(together)
    return found


def edge_shifts(law: SpectralMeasure) -> np.ndarray:
    r"""Mean shift of the outermost eigenvalues from the edges of bands, times :math:`d^{2/3}`.

    Where the density is :math:`\frac{A}{\pi}\sqrt s` at a distance s inside, the shift is the
    Tracy-Widom mean times :math:`(A d)^{-2/3}`, to leading order.
    """
    shifts = []
    for lower, upper in law.support:
        step = 1e-6 * (upper - lower)
        for inside, sign in ((lower + step, -1), (upper - step, 1)):
            A = math.pi * float(law.density(inside)) / math.sqrt(step)
            shifts.append(sign * TRACY_WIDOM_MEAN * A ** (-2 / 3))
    return np.array(shifts)


Statistics = dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]]
"""Functions from (matrices, d) eigenvalues to (matrices,), and their limits."""


def linear_statistics(law: SpectralMeasure, points: Sequence[float]) -> Statistics:
    """Means over eigenvalues."""
    statistics: Statistics = {
        "mean of 1/(1 + x)": (lambda x: np.mean(1 / (1 + x), axis=1), float(law.eta_transform(1))),
        "mean of log(1 + x)": (
            lambda x: np.mean(np.log1p(x), axis=1),
            float(law.shannon_transform(1)),
        ),
    }
    for point in points:
        statistics[f"share below {point:g}"] = (
            lambda x, point=point: np.mean(x < point, axis=1),  # type: ignore[misc]
            float(law.cdf(point)),
        )
    return statistics


def edge_statistics(
    ends: np.ndarray, shifts: np.ndarray, bands: Sequence[float], dim: int
) -> Statistics:
    """Outermost eigenvalues of bands, given as shares, against edges and Tracy-Widom means."""
    limits = ends + shifts * dim ** (-2 / 3)
    ranks = [0]
    for share in bands[:-1]:
        ranks += [round(share * dim) - 1, round(share * dim)]
    ranks.append(dim - 1)
    return {
        f"edge at {end:.3f}": (lambda x, rank=rank: x[:, rank], float(limit))  # type: ignore[misc]
        for end, rank, limit in zip(ends, ranks, limits, strict=True)
    }


def all_statistics(
    law: SpectralMeasure, points: Sequence[float], bands: Sequence[float]
) -> dict[int, Statistics]:
    """Means and outermost eigenvalues at all sizes, of one law."""
    linear = linear_statistics(law, points)
    ends, shifts = np.ravel(law.support), edge_shifts(law)
    return {dim: linear | edge_statistics(ends, shifts, bands, dim) for dim in SIZES}


def extrapolated_differences(
    name: str, drawn: Mapping[int, np.ndarray], statistics: Mapping[int, Statistics]
) -> tuple[list[Comparison], str]:
    """Deviations of simulated statistics from their limits: none in infinite dimension."""
    values, covariances = [], []
    for dim, eigenvalues in drawn.items():
        found = np.array([f(eigenvalues) - limit for f, limit in statistics[dim].values()])
        values.append(np.mean(found, axis=1))
        covariances.append(np.atleast_2d(np.cov(found)) / len(eigenvalues))
    fit = extrapolate(list(drawn), np.array(values), np.array(covariances), orders=ORDERS)
    largest = max(drawn)
    comparisons = [
        Comparison(f"{label}, {name}, d to infinity", limit, limit + float(shift), float(error))
        for (label, (_, limit)), shift, error in zip(
            statistics[largest].items(), fit.value, fit.standard_error, strict=True
        )
    ]
    bad = max(-float(ndtri(fit.p_value)), 0.0)
    comparisons.append(Comparison(f"chi-square of the fits, {name}", 0.0, bad, 1.0))
    note = (
        f"{name}: order {fit.order} in 1/d, chi-square {fit.chi_square:.1f} for {fit.degrees} "
        f"degrees of freedom (p = {fit.p_value:.2f})"
    )
    return comparisons, note


# --- sample covariance matrices ---------------------------------------------------------------


def _sample_cell(preset: Preset, population: Population, dim: int) -> Cell:
    return Cell.of(
        sample_eigenvalues,
        covariance=population.covariance,
        ratio=population.ratio,
        dim=dim,
        matrices=EIGENVALUES[preset] // dim,
    )


def _sample_cells(preset: Preset) -> list[Cell]:
    return [_sample_cell(preset, each, dim) for each in POPULATIONS for dim in SIZES]


def _judge_samples(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, notes = [], []
    for population in POPULATIONS:
        drawn = {dim: results[_sample_cell(preset, population, dim)] for dim in SIZES}
        if population.bands:
            statistics = all_statistics(population.law(2), population.points, population.bands)
        else:
            statistics = {dim: linear_statistics(population.law(dim), ()) for dim in SIZES}
        found, note = extrapolated_differences(population.name, drawn, statistics)
        comparisons += found
        notes.append(note)

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.6)
        dim = max(SIZES)
        for ax, population in zip(figure.subplots(1, 2), POPULATIONS, strict=True):
            drawn = results[_sample_cell(preset, population, dim)]
            _draw_density(ax, drawn, population.law(dim), log=not population.bands)
            ax.set_title(f"{population.name}, d/N = {population.ratio:g}, d = {dim}")
        ax.legend()

    return Verdict(tuple(comparisons), draw, tuple(notes))


def _draw_density(ax: Any, drawn: np.ndarray, law: SpectralMeasure, *, log: bool = False) -> None:
    """Histogram of eigenvalues, or of their logarithms, and the density of the limit."""
    values = np.log10(drawn.ravel()) if log else drawn.ravel()
    ax.hist(values, bins=80, density=True, color=COLOURS[5], alpha=0.6, label="simulated")
    x = np.linspace(values.min() - 0.1, values.max() + 0.1, 500)
    density = law.density(10**x) * 10**x * math.log(10) if log else law.density(x)
    ax.plot(x, density, color=COLOURS[0], linewidth=1.2, label="limit")
    for edge in np.ravel(law.support):
        ax.axvline(math.log10(edge) if log else edge, color="0.6", linewidth=0.6, zorder=0)
    ax.set_xlabel(r"$\log_{10}$ eigenvalue" if log else "eigenvalue")
    ax.set_ylabel("density")


samples_claim = Claim(
    name="spectra-samples",
    title="Eigenvalues of sample covariances of structured populations",
    source="Silverstein, J. Multivariate Anal. 55 (1995) 331; edges: Silverstein and Choi (1995)",
    statement=(
        "Means of 1/(1 + x) and log(1 + x) over the eigenvalues of simulated sample covariances, "
        "of a two-level and of a power-law population, extrapolate to those of the free "
        "convolution; so do, for two levels, their distribution function and the outermost "
        "eigenvalues of both bands to the four edges of the support, once the Tracy-Widom means "
        "are taken off."
    ),
    cells=_sample_cells,
    judge=_judge_samples,
)

# --- sums and products of matrices in random position ------------------------------------------


def product_eta(first: SpectralMeasure, second: SpectralMeasure, gamma: float) -> float:
    """Eta transform of the free multiplicative convolution: S-transforms multiply."""

    def excess(x: float) -> float:
        return float(product_gamma(first, second, x)) - gamma

    return 1 + float(brentq(excess, -1 + 1e-9, -1e-9, xtol=1e-14))


def product_gamma(first: SpectralMeasure, second: SpectralMeasure, x: Any) -> Any:
    """Where the eta transform of the free multiplicative convolution is 1 + x."""
    return -x / (1 + x) * first.s_transform(x) * second.s_transform(x)


def _rotated_cell(preset: Preset, operation: str, dim: int) -> Cell:
    first, second = SUMMANDS if operation == "sum" else FACTORS
    return Cell.of(
        rotated_eigenvalues,
        first=first,
        second=second,
        operation=operation,
        dim=dim,
        matrices=EIGENVALUES[preset] // dim,
    )


def _rotated_cells(preset: Preset) -> list[Cell]:
    return [_rotated_cell(preset, op, dim) for op in ("sum", "product") for dim in SIZES]


def _judge_rotated(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    law = FreeSum(*map(spectrum, SUMMANDS))
    factors = spectrum(FACTORS[0]), spectrum(FACTORS[1])
    etas: Statistics = {
        f"mean of 1/(1 + {gamma:g} x)": (
            lambda x, gamma=gamma: np.mean(1 / (1 + gamma * x), axis=1),  # type: ignore[misc]
            product_eta(*factors, gamma),
        )
        for gamma in PRODUCT_POINTS
    }
    sums = all_statistics(law, SUM_POINTS, SUM_BANDS)
    comparisons, notes = [], []
    for operation, statistics in (("sum", sums), ("product", dict.fromkeys(SIZES, etas))):
        drawn = {dim: results[_rotated_cell(preset, operation, dim)] for dim in SIZES}
        found, note = extrapolated_differences(operation, drawn, statistics)
        comparisons += found
        notes.append(note)

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.6)
        left, right = figure.subplots(1, 2)
        _draw_density(left, results[_rotated_cell(preset, "sum", max(SIZES))], law)
        left.set_title(f"A + U B U$^T$, A: {SUMMANDS[0]}, B: {SUMMANDS[1]}", fontsize=9)
        left.legend()
        eta = np.linspace(0.97, 0.05, 60)
        gamma = product_gamma(*factors, eta - 1)
        right.plot(gamma, eta, color=COLOURS[0], label="S-transforms multiplied")
        x = results[_rotated_cell(preset, "product", max(SIZES))].ravel()
        shown = gamma[::6]
        means = [np.mean(1 / (1 + g * x)) for g in shown]
        right.plot(shown, means, "o", color=COLOURS[1], markersize=4, label="simulated")
        right.set_xscale("log")
        right.set_xlabel(r"$\gamma$")
        right.set_ylabel(r"$\eta(\gamma)$ of the product")
        right.set_title(f"A: {FACTORS[0]}, B: {FACTORS[1]}", fontsize=9)
        right.legend()

    return Verdict(tuple(comparisons), draw, tuple(notes))


rotated_claim = Claim(
    name="spectra-free",
    title="Sums and products of matrices in random position",
    source="Voiculescu (1986, 1987); subordination: Biane, Math. Z. 227 (1998) 143",
    statement=(
        "Eigenvalues of A + U B U^T with a random rotation U extrapolate to the free additive "
        "convolution: their resolvent, logarithm, distribution function and, with Tracy-Widom "
        "means taken off, the four edges of its support; those of products have the transform "
        "whose S-transform is the product of the two."
    ),
    cells=_rotated_cells,
    judge=_judge_rotated,
)
