"""Mistakes in what curves record: epochs for steps; roots, logarithms, R^2, smoothed losses.

Each has an exact inverse, which is compared with the theory in place of the curve.
"""

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.signal import lfilter

from iclimit.validation.instruments.curves.features import CONTRAST, find_features
from iclimit.validation.instruments.curves.mistakes import Candidate, factor_and_error
from iclimit.validation.instruments.curves.rows import CurveRow
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import CurveTheory

# Epochs of up to this many steps are looked for.
LARGEST_EPOCH = 10**4

# Steps that are recorded as fractions of an epoch are rounded; whole steps are found within this.
WHOLE = 0.01

# A smoothing extends over at least and at most this many records.
SHORTEST_SMOOTHING = 1.1
LONGEST_SMOOTHING = 300

# Before running means of another length curves go up and down by more than this factor.
RISES = 1.1

# No mean squared error is as large as this: the squares of such losses are finite.
LARGEST_LOSS = 1e100

# Weights of exponential smoothing that are told apart between these.
WEIGHTS = 10**4


def before_exponential(losses: np.ndarray, weight: float) -> np.ndarray:
    """Losses x of which these are smoothed: y(t) = w y(t - 1) + (1 - w) x(t), from y(0) = x(0)."""
    return np.append(losses[0], (losses[1:] - weight * losses[:-1]) / (1 - weight))


def before_means(losses: np.ndarray, records: int) -> np.ndarray:
    """Losses of which these are means of the last records, for a curve that begins flat.

    The record that leaves the mean is added again: x(t) = n (y(t) - y(t - 1)) + x(t - n).
    """
    falls = records * np.diff(losses, prepend=losses[0])
    leaving = np.append(1.0, [0.0] * (records - 1) + [-1.0])
    return losses[0] + np.asarray(lfilter([1.0], leaving, falls))


def steps_of_epoch(curves: Sequence[Curve]) -> int:
    """Least number of steps in an epoch for which fractions of epochs are whole steps; 1 if none.

    At most LARGEST_EPOCH are tried.
    """
    epochs = np.unique(np.concatenate([curve.steps for curve in curves]))
    if not np.any(np.abs(epochs - np.round(epochs)) > WHOLE):
        return 1
    for steps in range(2, LARGEST_EPOCH + 1):
        counted = steps * epochs
        if np.all(np.abs(counted - np.round(counted)) < WHOLE):
            return steps
    return 1


def recorded_mistakes(
    theory: CurveTheory, curves: Sequence[Curve], rows: Sequence[CurveRow]
) -> Iterator[Candidate]:
    """Yield what steps and losses could be instead of steps and mean squared errors."""
    epoch = steps_of_epoch(curves)
    if epoch > 1 and theory.setting.learning_rate is not None:
        text = f"steps are counted in epochs of {epoch} steps"
        yield Candidate(text, {"step_unit": float(epoch)})
    yield from functions_of_losses(theory)
    drop = next((row for row in rows if row.quantity == "duration"), None)
    if drop is not None and drop.z > 0:
        longest = min(LONGEST_SMOOTHING, min(len(curve.losses) for curve in curves) // 2)
        yield from _exponential(theory, curves, drop, longest)
        yield from _means(curves, longest)


def functions_of_losses(theory: CurveTheory) -> Iterator[Candidate]:
    """Yield functions of losses that are recorded instead of losses."""
    for text, inverse in FUNCTIONS.items():
        yield Candidate(f"losses are {text}", {}, records=partial(_inverted, inverse=inverse))
    null = float(theory.levels[0])
    yield Candidate(
        "losses are R^2, one minus the loss over the loss at the start",
        {},
        records=partial(_inverted, inverse=lambda share: null * (1 - share)),
    )


def _inverted(curve: Curve, inverse: Callable[[np.ndarray], np.ndarray]) -> Curve:
    """The curve of which functions are recorded; there is none where losses leave their range."""
    with np.errstate(over="ignore"):
        losses = inverse(curve.losses)
    if not np.all((losses >= 0) & (losses < LARGEST_LOSS)):
        raise ValueError(f"{curve.label} is no such function of mean squared errors")
    return replace(curve, losses=losses)


# Functions of mean squared errors, with their inverses.
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "roots of mean squared errors": np.square,
    "in dB, 10 times the logarithm to base 10": lambda losses: 10 ** (losses / 10),
    "logarithms to base 10": lambda losses: 10**losses,
    "natural logarithms": np.exp,
    "logarithms to base 2": np.exp2,
}


def _exponential(
    theory: CurveTheory, curves: Sequence[Curve], row: CurveRow, longest: int
) -> Iterator[Candidate]:
    """Yield the weight that makes a drop as much longer as it is, if there is one."""
    drop = theory.setting.learned.index(row.learned) - 1
    last = float(theory.durations[-1])

    def before(curve: Curve, weight: float) -> Curve:
        return replace(curve, losses=before_exponential(curve.losses, weight))

    def faster(weight: float) -> float:
        durations = [
            find_features(
                before(curve, weight), theory.levels, theory.remainder, CONTRAST, last
            ).durations[drop]
            for curve in curves
        ]
        # Where the losses before the smoothing make no sense, it was too long.
        return -float(np.mean(np.log(durations))) if np.all(np.isfinite(durations)) else np.inf

    weights = 1 - 1 / np.geomspace(SHORTEST_SMOOTHING, longest, WEIGHTS)
    _, error = factor_and_error(row)
    targets = -math.log(row.theory) + 2 * error * np.array([-1, 0, 1])
    places = [bisect.bisect_left(weights, target, key=faster) for target in targets]
    low, weight, high = weights[np.minimum(places, WEIGHTS - 1)].tolist()
    if 0 < places[1] < WEIGHTS:
        text = f"losses are smoothed exponentially with the weight {weight:.3g}"
        records = partial(before, weight=weight)
        yield Candidate(f"{text} ({low:.3g} to {high:.3g})", {}, records=records)


def _means(curves: Sequence[Curve], longest: int) -> Iterator[Candidate]:
    """Yield the longest running mean before which the curves rise hardly more than they do."""

    def before(curve: Curve, records: int) -> Curve:
        return replace(curve, losses=before_means(curve.losses, records))

    def moves(records: int) -> float:
        return sum(float(np.sum(np.abs(np.diff(before(c, records).losses)))) for c in curves)

    numbers = [number for number in range(2, longest + 1) if moves(number) < RISES * moves(1)]
    if numbers:
        text = f"losses are means of the last {numbers[-1]} records"
        yield Candidate(text, {}, records=partial(before, records=numbers[-1]))
