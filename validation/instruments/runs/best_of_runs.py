"""What is reported of several runs in the place of their mean: the median, or the best of them.

Errors of runs are taken to be lognormal.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.predictions import CENTRAL, Prediction

# Doubt of the law of the best of several runs, relative to the distance from their mean.
DOUBT_OF_BEST = 0.1


def _relative_scatter(prediction: Prediction) -> np.ndarray:
    """Standard deviations (2,) of the logarithms of the errors of one run."""
    variances = np.diag(prediction.scatter + prediction.spread)
    return np.sqrt(np.log1p(variances / prediction.mean**2))


def median_of_runs(_run: MeasuredRun, _value: float, prediction: Prediction) -> Prediction:
    """The median over runs."""
    scatter = _relative_scatter(prediction)
    return _scaled_with_doubt(prediction, -(scatter**2) / 2)


def best_of_runs(run: MeasuredRun, _: float, prediction: Prediction) -> Prediction:
    """The best of the runs of a row, with its scatter."""
    return _with_scatter_of_best(_best_mean(run.runs or 1, prediction), run.runs or 1, prediction)


def best_of_seeds(run: MeasuredRun, value: float, prediction: Prediction) -> Prediction:
    """The mean over runs of which each is the best of so many seeds."""
    best = _best_mean(value, prediction)
    # Means over a known number of runs have the scatter of runs in their error bars.
    return best if run.runs else _with_scatter_of_best(best, value, prediction)


def _best_mean(count: float, prediction: Prediction) -> Prediction:
    """The least of so many normal numbers: Blom's approximation of its mean."""
    mean = float(ndtri(0.625 / (count + 0.25)))
    scatter = _relative_scatter(prediction)
    return _scaled_with_doubt(prediction, mean * scatter - scatter**2 / 2)


def _with_scatter_of_best(best: Prediction, count: float, prediction: Prediction) -> Prediction:
    """Prediction of the least of so many numbers with its scatter: half its central 68 %."""
    low = _least_quantile(CENTRAL[0], count)
    high = _least_quantile(CENTRAL[1], count)
    own = np.diag((best.mean * _relative_scatter(prediction) * (high - low) / 2) ** 2)
    return replace(best, covariance=best.covariance + own)


def _least_quantile(share: float, count: float) -> float:
    """Quantile of the least of so many normal numbers."""
    return float(ndtri(-math.expm1(math.log1p(-share) / count)))


def _scaled_with_doubt(prediction: Prediction, logs: np.ndarray) -> Prediction:
    """Prediction times factors by their logarithms; no prediction where these are not known."""
    if not np.all(np.isfinite(logs)):
        raise ValueError("the scatter of runs is not known")
    return prediction.scaled(np.exp(logs)).doubted(DOUBT_OF_BEST * np.abs(logs))
