r"""Deviations of measured errors from predictions, row by row and over all rows.

The variance of a deviation is that of the mean over the runs, of the predicted mean, and of the
theory at finite size.  If all runs of a row share one task set, the spread of the prediction over
task sets is added, since the prediction is for any set.

**Chi-square** is the sum of the squares of all z.  Errors of one row are correlated.  So it is
compared with a multiple of a chi-square of fewer degrees of freedom: of m deviations with
correlations :math:`r_{ij}`, :math:`m^2/\sum_{ij} r_{ij}^2` of them, so that mean and variance are
right.  Where a correlation is not known, it counts as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, kolmogorov, ndtr

from iclimit.drawing import Figure
from iclimit.validation.judge.comparisons import Comparison, compare_p_value
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.yours.runs.predictions import Prediction, welch_degrees

# Below this a p-value has no normal deviate in float64.
LEAST_P_VALUE = 1e-300


@dataclass(frozen=True)
class ChiSquare:
    """Sum of squares of all deviations in standard errors.

    Attributes
    ----------
    value : float
        Sum of the squares.
    count : int
        How many there are.
    degrees : float
        Degrees of freedom, fewer than the count where deviations are correlated.
    """

    value: float
    count: int
    degrees: float

    @property
    def p_value(self) -> float:
        """Probability of a larger sum if runs follow the theory."""
        if not self.count:
            return 1.0
        return float(chdtrc(self.degrees, self.value * self.degrees / self.count))


@dataclass(frozen=True)
class ZDistribution:
    """Distribution of z over the rows; standard normal if runs follow the theory.

    Attributes
    ----------
    count : int
        Number of rows that have a z.
    mean, width : float or None
        Mean and standard deviation; None with too few rows.
    p_value : float
        Of the test of Kolmogorov and Smirnov against the standard normal law.
    """

    count: int
    mean: float | None
    width: float | None
    p_value: float

    @classmethod
    def of(cls, z: Sequence[float]) -> ZDistribution:
        """Return the distribution of these z."""
        values = np.sort([each for each in z if math.isfinite(each)])
        count = len(values)
        if not count:
            return cls(0, None, None, 1.0)
        law, steps = ndtr(values), np.arange(count + 1) / count
        distance = float(np.max([steps[1:] - law, law - steps[:-1]]))
        root = math.sqrt(count)  # Stephens' correction for few values
        p_value = float(kolmogorov((root + 0.12 + 0.11 / root) * distance))
        width = float(np.std(values, ddof=1)) if count > 1 else None
        return cls(count, float(np.mean(values)), width, p_value)


@dataclass(frozen=True)
class RowDeviation:
    """Deviations of the errors of one row from their predictions.

    Attributes
    ----------
    run : MeasuredRun
        What was measured.
    prediction : Prediction
        What it should be.
    comparisons : dict of Comparison
        By error (`MEASURED`); those without a standard error have no z.
    correlations : ndarray (m, m)
        Of the deviations that have a z.
    """

    run: MeasuredRun
    prediction: Prediction
    comparisons: Mapping[str, Comparison]
    correlations: np.ndarray

    @property
    def judged(self) -> list[Comparison]:
        """Comparisons that have a z."""
        return [each for each in self.comparisons.values() if math.isfinite(each.standard_error)]


def compare_run(run: MeasuredRun, prediction: Prediction, *, one_set: bool) -> RowDeviation:
    """Compare the errors of a run with its prediction; ``one_set``: its runs share a task set."""
    names = [name for name in MEASURED if name in run.errors]
    known = [name for name in names if math.isfinite(run.errors[name].standard_error)]
    judged = known if prediction.finite else []
    variances: dict[str, float] = {}
    degrees: dict[str, float] = {}
    correlations = np.empty((0, 0))
    if judged:
        weights = np.array([MEASURED[name] for name in judged])
        of_runs = run.covariance(judged)
        sets = prediction.covariance + (prediction.spread if one_set else 0.0)
        of_sets, doubt = (weights @ each @ weights.T for each in (sets, prediction.doubt))
        total = of_runs + of_sets + doubt
        errors = np.sqrt(np.diag(total))
        correlations = total / np.outer(errors, errors)
        for place, name in enumerate(judged):
            parts = [float(each[place, place]) for each in (of_runs, of_sets, doubt)]
            variances[name] = total[place, place]
            degrees[name] = welch_degrees(parts, [run.degrees, prediction.degrees, math.inf])
    comparisons = {
        name: Comparison(
            f"{name.upper()} {run.label}",
            prediction.value(name),
            run.errors[name].mean,
            math.sqrt(variances.get(name, math.inf)),
            degrees=degrees.get(name, math.inf),
            of=f"finite_size_errors.{name}",
        )
        for name in names
    }
    return RowDeviation(run, prediction, comparisons, correlations)


def chi_square(rows: Sequence[RowDeviation]) -> ChiSquare:
    """Sum of squares of all z, with its degrees of freedom."""
    z = [each.z for row in rows for each in row.judged]
    squares = sum(float(np.sum(row.correlations**2)) for row in rows)
    return ChiSquare(sum(each**2 for each in z), len(z), len(z) ** 2 / squares if z else 0.0)


def verdict(
    rows: Sequence[RowDeviation],
    draw: Callable[[Figure], object] = lambda _: None,
    notes: Sequence[str] = (),
) -> Verdict:
    """Verdict on all z, on their sum of squares, and on common factors of each error."""
    comparisons = [each for row in rows for each in row.judged]
    if comparisons:
        total = chi_square(rows)
        label = f"chi-square {total.value:.1f} of {total.count} deviations"
        comparison = compare_p_value(label, max(total.p_value, LEAST_P_VALUE))
        # Deviations that are too small do not contradict the theory.
        comparisons.append(replace(comparison, upper_bound=True))
    return Verdict(comparisons, draw, notes)
