"""Statistics of the eigenvalues of simulated matrices, beside those of their limiting law."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics.spectra import SpectralMeasure
from iclimit.comparison import Comparison, compare_limits, compare_p_value
from iclimit.statistics import Extrapolation, extrapolate_runs
from iclimit.validation.claim import Effort, Later, Rows, call, judged, note, run

# Dimensions from which statistics are extrapolated.
SIZES = (40, 60, 80, 120, 160)
# Eigenvalues drawn at every size.
EIGENVALUES = {"tiny": 3_000, "quick": 16_000, "medium": 100_000, "full": 600_000}

# Order of the fit in 1/d.  With 60 000 eigenvalues at every size, after the Tracy-Widom mean is
# subtracted, a straight line passes the chi-square test for sample covariances and sums, and a
# parabola for products.
ORDER = 2

# Of the Tracy-Widom law of real matrices (Bornemann, Markov Process. Relat. Fields 16, 803).
TRACY_WIDOM_MEAN = -1.2065335745820

# Function from (matrices, d) eigenvalues to (matrices,).
Statistic: TypeAlias = Callable[[np.ndarray], np.ndarray]
# Statistics with their limits and the functions of the theory that give these, by label.
Statistics: TypeAlias = dict[str, tuple[Statistic, float, str]]


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


def linear_statistics(law: SpectralMeasure, points: Sequence[float]) -> Statistics:
    """Means over eigenvalues, and shares of them below some points."""
    name = type(law).__name__
    values = {
        "mean of 1/(1 + x)": (mean_eta(1.0), law.eta_transform(1), "eta_transform"),
        "mean of log(1 + x)": (mean_logarithm, law.shannon_transform(1), "shannon_transform"),
        **{f"share below {x:g}": (_share_below(x), law.cdf(x), "cdf") for x in points},
    }
    return {
        label: (statistic, float(limit), f"{name}.{method}")
        for label, (statistic, limit, method) in values.items()
    }


def mean_logarithm(x: np.ndarray) -> np.ndarray:
    """Means of log(1 + x) over the eigenvalues."""
    return np.mean(np.log1p(x), axis=1)


def mean_eta(gamma: float) -> Statistic:
    """Function that averages 1/(1 + gamma x) over the eigenvalues."""
    return lambda x: np.mean(1 / (1 + gamma * x), axis=1)


def _share_below(point: float) -> Statistic:
    return lambda x: np.mean(x < point, axis=1)


def all_statistics(law: SpectralMeasure, points: Sequence[float]) -> dict[int, Statistics]:
    """Means and outermost eigenvalues at all sizes, of a law of two bands of half the eigenvalues.

    The outermost eigenvalues tend to the edges of the support, once Tracy-Widom means are added to
    these.
    """
    linear = linear_statistics(law, points)
    ends = np.ravel(law.support)
    shifts = edge_shifts(law)
    statistics = {}
    edge = f"{type(law).__name__}.support"
    for dim in SIZES:
        ranks = (0, dim // 2 - 1, dim // 2, dim - 1)
        limits = ends + shifts * dim ** (-2 / 3)
        statistics[dim] = linear | {
            f"edge at {end:.3f}": (itemgetter((slice(None), rank)), float(limit), edge)
            for end, rank, limit in zip(ends, ranks, limits, strict=True)
        }
    return statistics


def eigenvalue_runs(
    effort: Effort, function: Callable[..., np.ndarray], **law: Any
) -> dict[int, Later]:
    """Runs of a function that draws eigenvalues, as many of these at every size."""
    total = effort.pick(**EIGENVALUES)
    return {dim: run(function, **law, dim=dim, count=total // dim) for dim in SIZES}


def statistics_rows(
    family: str, statistics: Later | Mapping[int, Statistics], eigenvalues: Mapping[int, Later]
) -> Rows:
    """Statistics of the eigenvalues of a family, extrapolated to infinite size.

    The fit is one of the deviations from the limits, which may depend on the size; theory and
    estimate are combined by the same weights of the sizes.
    """
    fit = call(fit_deviations, statistics, eigenvalues)
    yield judged(call(compare_statistics, family, statistics, fit))
    yield note(call(lambda fit: f"{family}: {fit.summary}", fit))


def fit_deviations(
    statistics: Mapping[int, Statistics], eigenvalues: Mapping[int, np.ndarray]
) -> Extrapolation:
    """Fit what the statistics at each size are above their limits."""
    runs = [
        np.array([f(eigenvalues[dim]) - limit for f, limit, _ in of_size.values()])
        for dim, of_size in statistics.items()
    ]
    return extrapolate_runs(list(statistics), runs, order=ORDER)


def compare_statistics(
    family: str, statistics: Mapping[int, Statistics], fit: Extrapolation
) -> list[Comparison]:
    """Compare limits with what the fit gives, and the goodness of the fit."""
    last = statistics[max(SIZES)]
    limits = np.array([[limit for _, limit, _ in s.values()] for s in statistics.values()])
    theory = fit.shares @ limits
    labels = [f"{name}, {family}, d to infinity" for name in last]
    return [
        *compare_limits(
            dict(zip(labels, theory.tolist(), strict=True)),
            replace(fit, value=theory + fit.value),
            of=[of for _, _, of in last.values()],
            draws=family,
        ),
        compare_p_value(f"chi-square of the fits, {family}", fit.p_value),
    ]
