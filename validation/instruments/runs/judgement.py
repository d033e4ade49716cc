r"""Deviations of measured errors from predictions, row by row and over all rows.

The variance of a deviation is that of the mean over the runs, of the predicted mean, and of the
theory at finite size.  If all runs of a row share one task set, the spread of the prediction over
task sets is added, since the prediction is for any set.

Errors without error bars, and means of a few single runs, have the predicted scatter of runs as
their error bar.  Single runs are skewed, and their logarithms hardly: such errors are compared by
the logarithm, :math:`\log e` with the mean :math:`\log \bar e - s^2/2` and the standard deviation
s = scatter over mean.

Where the law of runs has a heavy tail, their own error bars say little: the tail that they have
not met is not in them.  There a mean over a known number of runs is judged by its quantile in the
predicted law, as the normal deviate of the same probability.

**Chi-square** is the sum of the squares of all z.  It is compared with a multiple of a chi-square
of fewer degrees of freedom, since deviations are correlated: of m deviations with correlations
:math:`r_{ij}`, :math:`m^2/\sum_{ij} r_{ij}^2` of them, so that mean and variance are right.
Errors of one row come from the same runs; where their correlation is not known, it counts as 1.
Errors of the theory are shared by rows that are alike: their correlation is that of a Gaussian
process over the logarithms of the sizes, of length 1.  Rows that are times of one training are
the same runs, with a correlation that falls with the ratio of the times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtr, chdtrc, kolmogorov, ndtr

from iclimit.comparison import ERRORS, Comparison, compare_p_value
from iclimit.drawing import Figure
from iclimit.results import Estimate
from iclimit.validation.instruments.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Prediction, normal_score, welch_degrees
from iclimit.verdict import Verdict

# Below this a p-value has no normal deviate in float64.
LEAST_P_VALUE = 1e-300

# Relative error of any prediction: numbers of tables are rounded.
ROUNDING = 1e-9


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

    @property
    def lower_p_value(self) -> float:
        """Probability of a smaller sum."""
        if not self.count:
            return 1.0
        return float(chdtr(self.degrees, self.value * self.degrees / self.count))


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
        values = np.sort([number for number in z if math.isfinite(number)])
        count = len(values)
        if not count:
            return cls(0, None, None, 1.0)
        law = ndtr(values)
        steps = np.arange(count + 1) / count
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
    errors : dict of Estimate
        What was measured, with predicted error bars where there were none.
    """

    run: MeasuredRun
    prediction: Prediction
    comparisons: Mapping[str, Comparison]
    correlations: np.ndarray
    errors: Mapping[str, Estimate]

    @property
    def judged(self) -> dict[str, Comparison]:
        """Comparisons that have a z."""
        return {
            name: comparison
            for name, comparison in self.comparisons.items()
            if math.isfinite(comparison.standard_error)
        }

    def relative(self, name: str) -> float | None:
        """Measured over predicted minus 1; None where that means nothing."""
        theory = self.comparisons[name].theory
        usable = math.isfinite(theory) and theory != 0
        return self.run.errors[name].mean / theory - 1 if usable else None


def compare_run(run: MeasuredRun, prediction: Prediction, *, one_set: bool) -> RowDeviation:
    """Compare the errors of a run with its prediction; ``one_set``: its runs share a task set."""
    names = [name for name in MEASURED if name in run.errors]
    errors, of_runs = _with_error_bars(run, prediction, names, one_set)
    # With a fresh task in each prompt both errors are the same: the gap is 0 without an error bar.
    known = [name for name in names if 0 < errors[name].standard_error < math.inf]
    judged = known if prediction.finite else []
    weights = np.array([MEASURED[name] for name in judged]).reshape(-1, 2)
    places = [names.index(name) for name in judged]
    sets = prediction.covariance + (prediction.spread if one_set else 0.0)
    doubt = prediction.doubts @ prediction.doubts.T + np.diag((ROUNDING * prediction.mean) ** 2)
    others = (weights @ covariance @ weights.T for covariance in (sets, doubt))
    parts = [of_runs[np.ix_(places, places)], *others]
    total = sum(parts)
    scales = np.sqrt(np.diag(total))
    comparisons = {}
    for name in names:
        degrees = math.inf
        error = math.inf
        estimate = run.errors[name].mean
        theory = prediction.value(name)
        if name in judged:
            place = judged.index(name)
            error = float(scales[place])
            variances = [float(part[place, place]) for part in parts]
            lacking = _by_prediction(run, prediction, name)
            own = math.inf if lacking else run.degrees
            degrees = welch_degrees(variances, [own, prediction.degrees, math.inf])
            if lacking and prediction.heavy:
                law = prediction.law_of_mean(weights[[place]], run.runs or 1)[:, 0]
                score = normal_score(estimate - theory, law)
                estimate = theory + math.sqrt(variances[0]) * score
            elif lacking and name in ERRORS and min(estimate, theory) > 0:
                skew = variances[0] / theory**2 / 2
                estimate = theory * (1 + math.log(estimate / theory) + skew)
        comparisons[name] = Comparison(
            f"{run.column(name).upper()} {run.label}",
            theory,
            estimate,
            error,
            degrees=degrees,
            of=f"finite_size_errors.{run.column(name)}",
            draws=run.course if run.in_course else None,
        )
    return RowDeviation(run, prediction, comparisons, total / np.outer(scales, scales), errors)


def _by_prediction(run: MeasuredRun, prediction: Prediction, name: str) -> bool:
    """Whether an error is judged by the predicted scatter, not by an error bar of its own."""
    return run.lacks_error_bar(name) or bool(prediction.heavy and run.runs)


def _with_error_bars(
    run: MeasuredRun, prediction: Prediction, names: Sequence[str], one_set: bool
) -> tuple[dict[str, Estimate], np.ndarray]:
    """Measured errors with predicted error bars where there are none, and their covariance."""
    weights = np.array([MEASURED[name] for name in names])
    with np.errstate(invalid="ignore"):
        runs = run.runs or 1
        predicted = prediction.covariance_of_mean(weights, runs, one_set=one_set)
    errors = {name: run.errors[name] for name in names}
    lacking = [name for name in names if _by_prediction(run, prediction, name)]
    if not (lacking and prediction.finite and run.runs and np.all(np.isfinite(predicted))):
        return errors, run.covariance(names)
    scales = np.sqrt(np.diag(predicted))
    for name, scale in zip(names, scales, strict=True):
        if name in lacking:
            errors[name] = replace(errors[name], standard_error=float(scale))
    bars = np.array([errors[name].standard_error for name in names])
    ratios = np.divide(bars, scales, out=np.zeros(len(names)), where=scales > 0)
    return errors, predicted * np.outer(ratios, ratios)


# Length of the correlation of an error at two times of training, over logarithms of times.  Runs
# at d = 12 with tau = 2 and .5: .85 to .97 at twice, .5 to .86 at four times the time, and
# this law .88 and .66.
TIMES_LENGTH = 2.0

# Range to which times are clipped before their logarithm is taken.
TIMES_RANGE = (1e-4, 1e6)


def course_correlations(runs: Sequence[MeasuredRun]) -> np.ndarray:
    """Correlations (runs, runs) of scatter where runs are times of one training; otherwise 0.

    At positions of one training they count as 1: simulated ones are between -.5 and 1.
    """
    lengths = [run.sizes["prompts"] if run.sgd else run.time for run in runs]
    logs = np.log(np.clip(lengths, *TIMES_RANGE))
    courses = [run.course if run.in_course else None for run in runs]
    same = [[own is not None and own == other for other in courses] for own in courses]
    distance = math.sqrt(3) * abs(logs[:, None] - logs) / TIMES_LENGTH
    return np.where(same, (1 + distance) * np.exp(-distance), 0.0)


# Most tasks per dimension that are told apart when rows count as alike.
_MANY_TASKS = 20.0


def likeness(runs: Sequence[MeasuredRun]) -> np.ndarray:
    """Loadings of the errors of the theory, run by run, on independent sources.

    Runs that are alike share them: 0.6 of them if a size differs by a factor e, 0.1 by e^2.
    """
    ratios = [run.ratios for run in runs]
    places = np.log(
        [
            (
                run.sizes["dim"],
                own["tau"],
                own["alpha"],
                min(own["kappa"], _MANY_TASKS),
                run.position if run.by_position else 1,
            )
            for run, own in zip(runs, ratios, strict=True)
        ]
    )
    squares = np.sum((places[:, None] - places) ** 2, axis=2)
    return np.linalg.cholesky(np.exp(-squares / 2) + 1e-9 * np.eye(len(runs)))


def shared_doubts(rows: Sequence[RowDeviation]) -> list[np.ndarray]:
    """Errors of the theory by row, as loadings (judged errors, sources)."""
    alike = likeness([row.run for row in rows])
    weights = [np.array([MEASURED[name] for name in row.judged]).reshape(-1, 2) for row in rows]
    return [
        np.kron(shares, weight @ row.prediction.doubts)
        for shares, weight, row in zip(alike, weights, rows, strict=True)
    ]


def chi_square(rows: Sequence[RowDeviation]) -> ChiSquare:
    """Sum of squares of all z, with its degrees of freedom."""
    judged = [comparison for row in rows for comparison in row.judged.values()]
    if not judged:
        return ChiSquare(0.0, 0, 0.0)
    errors = np.array([comparison.standard_error for comparison in judged])
    loadings = np.vstack(shared_doubts(rows)) / errors[:, None]
    correlations = loadings @ loadings.T
    rest = np.sqrt(np.maximum(1 - np.diag(correlations), 0.0))
    runs = [row.run for row in rows for _ in row.judged]
    correlations += course_correlations(runs) * np.outer(rest, rest)
    start = 0
    for row in rows:
        place = slice(start, start := start + len(row.judged))
        correlations[place, place] = row.correlations
    value = sum(comparison.z**2 for comparison in judged)
    return ChiSquare(value, len(judged), len(judged) ** 2 / float(np.sum(correlations**2)))


def verdict(
    rows: Sequence[RowDeviation],
    draw: Callable[[Figure], object] = lambda _: None,
    notes: Sequence[str] = (),
) -> Verdict:
    """Verdict on all z, on their sum of squares, and on common factors of each error."""
    comparisons = [
        replace(comparison, shared=loadings)
        for row, doubts in zip(rows, shared_doubts(rows), strict=True)
        for comparison, loadings in zip(row.judged.values(), doubts, strict=True)
    ]
    if comparisons:
        total = chi_square(rows)
        label = f"chi-square {total.value:.1f} of {total.count} deviations"
        comparison = compare_p_value(label, max(total.p_value, LEAST_P_VALUE))
        # Deviations that are too small do not contradict the theory.
        comparisons.append(replace(comparison, upper_bound=True))
    return Verdict(comparisons, draw, notes)
