"""Mistakes in labels, and in what was measured on test prompts: other links, medians, accuracies.

Links are tried where a table says by which one labels are made.  Medians over test prompts and
the like are tried where nothing without a search explains a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import error_law
from iclimit.validation.instruments.runs.measured import ACCURACY, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Prediction

# From a run, a value and the true pair of errors to what was reported.
Outcome = Callable[[MeasuredRun, float, np.ndarray], np.ndarray]

# Labels in words.
LINKS = {
    "identity": "labels are linear in the inputs, not {}",
    "sign": "labels are signs, not {}",
    "relu": "labels are ReLUs, not {}",
    "cube": "labels are cubes, not {}",
}

# Range of a fitted probability of flips, and the largest that leaves labels a linear part.
FLIPS = (0.005, 0.45)
MOST_FLIPS = 0.49

# Variance of the squared error given the prompt, relative to its square, times d: medians of
# linear labels are .406 to .426 of the mean at d = 16 and .427 to .438 at d = 32, not .455.
SPREAD = 2.2

# Doubt of that number, as a part of it: the medians say 1.6 to 2.7.
DOUBT = 0.3

# Median, mean root and mean logarithm of a chi-square variable of one degree and mean 1.
MEDIAN = 0.4549364231195724
ROOT = math.sqrt(2 / math.pi)
LOGARITHM = -1.2703628454614782

# By what part of itself the mean square has to be less for the same average, for a small relative
# variance of what the chi-square variable is multiplied by.
MEDIAN_SLOPE = (1.5 - MEDIAN / 2) / 2
ROOT_SLOPE = 1 / 4
LOGARITHM_SLOPE = 1 / 2


def link_changes(runs: Sequence[MeasuredRun]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other links in words, with the labels that they are."""
    stated = {str(run.labels.get("link", "identity")) for run in runs}
    words = stated.pop() if len(stated) == 1 else "as stated"
    for link, text in LINKS.items():
        yield text.format(words), {"link": link}
    if any(run.experiment.problem.flips for run in runs):
        yield "no label is flipped", {"flips": 0.0}


def flipped(_: MeasuredRun, value: float) -> dict[str, float]:
    """Labels that are flipped with another probability."""
    return {"flips": min(value, MOST_FLIPS)}


def of_errors(outcome: Outcome) -> Outcome:
    """What was reported in the place of errors, with accuracies as they are."""
    return lambda run, value, pair: (
        pair if run.estimator == ACCURACY else outcome(run, value, pair)
    )


def of_accuracies(outcome: Outcome) -> Outcome:
    """What was reported in the place of accuracies, with errors as they are."""
    return lambda run, value, pair: (
        outcome(run, value, pair) if run.estimator == ACCURACY else pair
    )


def _against_labels(run: MeasuredRun, _: float, pair: np.ndarray) -> np.ndarray:
    """Share of predictions that agree with flipped labels."""
    flips = run.experiment.problem.flips
    return (1 - flips) * pair + flips * (1 - pair)


# What may stand in a column of accuracies.
ACCURACY_OUTCOMES: dict[str, Outcome] = {
    "accuracies are in per cent": lambda _run, _value, pair: 100 * pair,
    "accuracies are shares of errors, one minus the accuracy": lambda _run, _value, pair: 1 - pair,
    "accuracies are against labels that are flipped, not against the class": _against_labels,
}


@dataclass(frozen=True)
class Average:
    """Another average of the squared errors of test prompts than their mean.

    Attributes
    ----------
    function : callable
        Average from the mean square, and from the same average where the mean square is 1.
    of_linear : float
        That of Gaussian errors of mean square 1.
    slope : float
        By what part the mean square counts less with a relative variance of the squared errors.
    of_law : callable
        That of a law of errors, over its mean square.
    """

    function: Callable[[np.ndarray, float], np.ndarray]
    of_linear: float
    slope: float
    of_law: Callable[[Any], float]

    def __call__(self, run: MeasuredRun, _: float, prediction: Prediction) -> Prediction:
        """Prediction of what is reported instead of the mean squared error."""
        if run.estimator == ACCURACY:
            return prediction
        shift = self.slope * SPREAD / run.sizes["dim"]
        if run.linear:
            value = self.of_linear
            squares = prediction.scaled(np.full(2, 1 - shift)).doubted(np.full(2, DOUBT * shift))
        else:
            value = self.of_law(error_law(**run.experiment.limit))
            squares = prediction.doubted(np.full(2, shift))
        return squares.mapped(lambda pair: self.function(pair, value))


# Averages of the errors of test prompts that may stand in the place of the mean square.
AVERAGES = {
    "errors are medians of the squared errors of test prompts": Average(
        lambda pair, median: median * pair, MEDIAN, MEDIAN_SLOPE, lambda law: law.median / law.mean
    ),
    "errors are means of the absolute errors of test prompts": Average(
        lambda pair, root: root * np.sqrt(pair),
        ROOT,
        ROOT_SLOPE,
        lambda law: law.absolute / math.sqrt(law.mean),
    ),
    "errors are means of the logarithms of the squared errors of test prompts": Average(
        lambda pair, log: np.log(pair) + log,
        LOGARITHM,
        LOGARITHM_SLOPE,
        lambda law: law.log - math.log(law.mean),
    ),
}
