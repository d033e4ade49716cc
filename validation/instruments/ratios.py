"""Ratios of means over prompts, with standard errors and limits."""

import math

import numpy as np
from scipy.special import ndtri

from iclimit.results import Estimate
from iclimit.statistics import z_score

# Relative deviations below this are rounding: models answer in float32 mostly.
ROUNDING = 1e-6

# Standard errors below this are rounding of float64.
FLOAT64 = 1e-12

# A mean square that is larger by this factor is larger, whatever its standard error says. Squares
# have heavy tails: a few of a hundred prompts make up most of the mean, and z is small.
CLEAR = 100.0

# Answers count at most as this many times their median: those of a method that diverges on few
# contexts would be judged by these alone.  Ordinary predictors have none beyond.
LARGEST_OVER_MEDIAN = 30.0

# Largest leverage of a row, which has 1 if nothing else tells a weight.
LARGEST_LEVERAGE = 0.99

# Probability that a statement about a model is wrong because of chance.
DOUBT = 0.05


def ratio(part: np.ndarray, whole: np.ndarray) -> Estimate:
    """Mean of the part over the mean of the whole, prompt by prompt (n,).

    The standard error is that of the linearised ratio.  It is 0/0 = 0 where both vanish.
    """
    count = len(part)
    mean = float(np.mean(whole))
    if abs(mean) <= 1e-100 * float(np.mean(abs(part))):  # squares of larger ratios overflow
        return Estimate(0.0 if not np.any(part) else math.inf, 0.0, count)
    value = float(np.mean(part)) / mean
    spread = float(np.std(part - value * whole, ddof=1)) if count > 1 else math.inf
    return without_rounding(value, spread / math.sqrt(count) / abs(mean), count)


def without_rounding(mean: float, error: float, count: int) -> Estimate:
    """Estimate of a number of order one, in which what is rounding of float64 is 0."""
    if error < FLOAT64:
        return Estimate(round(mean, 12), 0.0, count)
    return Estimate(mean, error, count)


def bounded_weights(answers: np.ndarray) -> np.ndarray:
    """Factors (n,) that make the largest answers `LARGEST_OVER_MEDIAN` times as large as usual."""
    sizes = np.abs(answers)
    most = LARGEST_OVER_MEDIAN * float(np.median(sizes))
    large = sizes > most
    return np.where(large & (most > 0), most / np.where(large, sizes, 1.0), 1.0)


def cosine(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Cosine of two answers over prompts: the mean product over the root of mean squares.

    The answers have shape (n,), or (n, m) where each prompt has several.
    """
    if first.ndim == 1:
        first = first[:, None]
        second = second[:, None]
    product = np.sum(first * second, axis=1)
    a = np.sum(first * first, axis=1)
    b = np.sum(second * second, axis=1)
    size = math.sqrt(float(np.mean(a)) * float(np.mean(b)))
    if size == 0:
        return Estimate(math.nan, math.inf, len(a))
    value = float(np.mean(product)) / size
    slope = product / size - value / 2 * (a / np.mean(a) + b / np.mean(b))
    return without_rounding(value, float(np.std(slope, ddof=1)) / math.sqrt(len(a)), len(a))


def best_weights(target: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least-squares weights of columns (n, m), and their covariance whatever the residuals.

    The covariance is White's, in the form HC3, which is close to the jackknife: residuals may be
    larger where the columns are, and few rows may have most of the weight.
    """
    inverse = np.linalg.pinv(columns)
    weights = inverse @ target
    leverage = np.minimum(np.vecdot(inverse.T, columns), LARGEST_LEVERAGE)
    scores = inverse * ((target - columns @ weights) / (1 - leverage))
    return weights, scores @ scores.T


def best_factor(target: np.ndarray, answers: np.ndarray) -> Estimate:
    """Factor c for which c * answers is nearest to the target."""
    if not np.any(answers):
        return Estimate(math.nan, math.inf, len(target))
    weights, covariance = best_weights(target, answers[:, None])
    return without_rounding(float(weights[0]), math.sqrt(covariance[0, 0]), len(target))


def z_of(estimate: Estimate, expected: float, size: float = 1.0) -> float:
    """Deviation of an estimate beyond rounding, in standard errors; of such a size in all."""
    return z_score(estimate.mean, expected, estimate.standard_error, ROUNDING * abs(size))


def larger(first: np.ndarray, second: np.ndarray, limit: float, rounding: float = 0.0) -> bool:
    """Whether the mean of the first squares is larger than that of the second, prompt by prompt.

    Parameters
    ----------
    first, second : array (n,)
        Squares for the same prompts.
    limit : float
        Least difference in standard errors, unless the first are `CLEAR` times as large.
    rounding : float
        Differences up to this are none.
    """
    difference = Estimate.of(first - second, keep=False)
    beyond = difference.mean - rounding
    clear = float(np.mean(first)) > CLEAR * float(np.mean(second))
    return beyond > 0 and (clear or beyond > limit * difference.standard_error)


def quantile(tests: int, doubt: float = DOUBT) -> float:
    """One-sided normal quantile for so many limits that shall hold together."""
    return float(-ndtri(-math.expm1(math.log1p(-doubt) / max(tests, 1))))
