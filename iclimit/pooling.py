"""Pooled comparisons: the common factor by which simulations differ from one theory.

Many comparisons with one function, each blunt, are sharp together if the function is wrong by the
same factor everywhere.  The factor is a weighted mean of the ratios of estimates to theory.  The
weights must not be chosen by the same draws as they weigh: where large values come with large
scatter, weights from the scatter would bias the mean by up to its standard error.  So the draws of
each comparison are divided into two halves, and the weights from one are used for the other.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from iclimit.comparison import Comparison


def pool(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """For each function with several comparisons, compare the common factor with 1.

    Bounds, deterministic comparisons and those of logarithms take no part, nor does a theory of 0.
    """
    families: defaultdict[str, list[Comparison]] = defaultdict(list)
    for row in comparisons:
        random = row.standard_error > 0 and math.isfinite(row.standard_error)
        plain = not (row.upper_bound or row.logarithmic)
        if row.of and random and plain and row.theory != 0:
            families[row.of].append(row)
    return [_common_factor(of, rows) for of, rows in families.items() if len(rows) > 1]


def _common_factor(of: str, rows: Sequence[Comparison]) -> Comparison:
    """Weighted mean of the ratios of estimates to theory, with the error of correlated draws."""
    theory = np.array([row.theory for row in rows])
    precisions = np.array([_precisions(row) for row in rows])
    weights = precisions / precisions.sum(axis=0)  # (rows, halves that are weighed)
    mean_weights = weights.mean(axis=1)
    factor = mean_weights @ (np.array([row.estimate for row in rows]) / theory)
    shared: defaultdict[Hashable, list[np.ndarray]] = defaultdict(list)
    degrees: dict[Hashable, float] = {}
    variance = 0.0
    for number, (row, halves, weight) in enumerate(zip(rows, weights, mean_weights, strict=True)):
        draws = number if row.draws is None else (row.of, row.draws)
        degrees[draws] = min(row.degrees, degrees.get(draws, math.inf))
        errors = _weighted_errors(row, halves)
        shared[draws].append(errors)
        if row.deviations.size:
            factor += errors.sum()
            # The error of the theory, from draws of its own.
            own = row.standard_error**2 - row.deviations @ row.deviations
            variance += weight**2 * max(own, 0.0) / row.theory**2
    groups = {draws: _variance(errors) for draws, errors in shared.items()}
    lost = sum(value**2 / degrees[draws] for draws, value in groups.items())
    variance += sum(groups.values())
    pairs = zip(rows, mean_weights, strict=True)
    sources = [weight * row.shared / row.theory for row, weight in pairs]
    variance += float(np.sum(np.sum(sources, axis=0) ** 2))
    return Comparison(
        f"common factor of {len(rows)} comparisons with {of}",
        1.0,
        float(factor),
        math.sqrt(variance),
        float(mean_weights @ [row.allowance / abs(row.theory) for row in rows]),
        variance**2 / lost if lost else math.inf,
        of=of,
        pooled=len(rows),
    )


def _precisions(row: Comparison) -> list[float]:
    """Inverse relative variances with which the even and the odd draws are weighed.

    Each comes from the other half.
    """
    squares = row.deviations**2
    own = row.standard_error**2 - squares.sum()
    even = squares[::2].sum()
    odd = squares[1::2].sum()
    fixed = row.allowance**2 + max(own, 0.0)
    return [row.theory**2 / (2 * half + fixed) for half in (odd, even)]


def _weighted_errors(row: Comparison, weights: np.ndarray) -> np.ndarray:
    """Errors of draws relative to the theory, with the weights of even and odd ones.

    Where the draws are not known it is one error, that without what others share.
    """
    if row.deviations.size:
        return row.deviations / row.theory * np.resize(weights, row.deviations.size)
    alone = math.sqrt(max(row.standard_error**2 - row.shared @ row.shared, 0.0))
    return np.array([weights.mean() * alone / abs(row.theory)])


def _variance(errors: Sequence[np.ndarray]) -> float:
    """Variance of a sum: entry by entry if all have the same draws, else the largest possible."""
    if len({draws.size for draws in errors}) == 1 and errors[0].size > 1:
        return float(np.sum(np.sum(errors, axis=0) ** 2))
    return float(sum(np.linalg.norm(draws) for draws in errors) ** 2)
