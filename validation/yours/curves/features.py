"""Plateaus and drops of one training curve, found from its records.

The heights that theory expects only say where to look: a drop is half done where the loss passes
the middle between two of them, and a plateau is where the loss falls slowest between two such
points.  The expected heights are first multiplied by one factor, so that they start at the initial
loss that was found.  What is found does therefore not depend on the unit of the loss.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# A plateau counts as distinct if the loss falls there at most at this part of its speed in the
# slower one of the two drops beside it.
CONTRAST = 0.5

# Noise of the records that is left after smoothing, in units of the whole drop.
SMOOTH = 0.01

# The mean that smooths a curve extends over at most this part (1/50) of its records.
LONGEST = 50

# The duration of a drop is the time between these parts of it.
QUARTERS = 0.25, 0.75

# The initial loss of a noisy curve is the mean up to this part of the time of the first half-drop;
# otherwise it is the first record.
BEFORE = 0.1

# A drop has ended if at most this part of it is ahead.
ENDED = 1e-3

# Fewest records between two half-drops to look for a plateau, and within a drop to time it.
FEWEST = 3


@dataclass(frozen=True, eq=False)
class CurveFeatures:
    """What one curve shows.  Steps are in the units of the curve.

    Attributes
    ----------
    initial, final : float
        Loss at the start, and of the last records.
    noise : float
        Standard deviation of a record about the smoothed curve; 0 for a curve that only falls.
    window : int
        Records that the smoothing takes the mean of.
    half_drops : ndarray (drops,)
        Steps at which half of each drop has happened; infinite if it does not happen.
    durations : ndarray (drops,)
        Steps from a quarter to three quarters of each drop; NaN where a plateau beside it is not
        distinct, or where there are too few records.
    heights : ndarray (drops - 1,)
        Loss at the plateaus between two drops; NaN where there is none.
    contrasts : ndarray (drops - 1,)
        Speed of the loss there over that in the slower drop beside it; NaN where a drop is missing
        or there are too few records.
    spacings : ndarray (drops,)
        Distance of the records at the half-drops.
    """

    initial: float
    final: float
    noise: float
    window: int
    half_drops: np.ndarray
    durations: np.ndarray
    heights: np.ndarray
    contrasts: np.ndarray
    spacings: np.ndarray


def first_below(losses: np.ndarray, level: float) -> int:
    """Index of the first loss below a level; the number of losses if there is none."""
    return int(np.argmax(np.append(losses < level, True)))


def slowest_loss(losses: np.ndarray, speeds: np.ndarray, inside: np.ndarray) -> float:
    """Loss where it falls slowest, among the chosen records; NaN if none is chosen."""
    if not inside.any():
        return float("nan")
    return float(losses[np.argmin(np.where(inside, speeds, np.inf))])


def crossing_step(steps: np.ndarray, losses: np.ndarray, level: float) -> float:
    """Step at which the loss first falls through a level, interpolated; infinite if never.

    A curve that starts below the level has crossed it by half a record, at the latest.
    """
    after = first_below(losses, level)
    if after == len(losses):
        return float("inf")
    if after == 0:
        return float(steps[0] + steps[1]) / 2
    high, low = losses[after - 1], losses[after]
    part = (high - level) / (high - low)
    return float(steps[after - 1] + part * (steps[after] - steps[after - 1]))


def smoothed(losses: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Moving mean of a curve, the noise of its records and the length of the mean.

    A curve that only falls is left as it is.  The noise is found from second differences, which do
    not see a curve that is smooth between three records.
    """
    falls = -np.diff(losses)
    if len(losses) < 2 * FEWEST or np.all(falls >= 0):
        return losses, 0.0, 1
    second = np.abs(np.diff(losses, 2))
    # The median of |x| is 0.6745 for a normal x; a second difference has the variance 6.
    noise = float(np.median(second) / 0.6745 / np.sqrt(6))
    span = float(losses.max() - losses.min())
    wanted = (noise / (SMOOTH * span)) ** 2 if span else 1.0
    window = int(min(np.ceil(wanted), max(1, len(losses) // LONGEST)))
    half = max(0, window // 2)
    if half == 0:
        return losses, noise, 1
    # At the ends the mean is over fewer records, the same number on both sides.
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    at = np.arange(len(losses))
    reach = np.minimum(half, np.minimum(at, len(losses) - 1 - at))
    return (sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1), noise, 2 * half + 1


def find_features(
    steps: np.ndarray, losses: np.ndarray, levels: np.ndarray, remainder: Callable[[float], float]
) -> CurveFeatures:
    """Find plateaus and drops of one curve.

    Parameters
    ----------
    steps, losses : ndarray (n,)
        The curve, steps ascending.
    levels : ndarray (drops + 1,)
        Expected losses at the start, at the plateaus and at the end.
    remainder : function
        Part of the last drop that is still ahead so many steps after half of it.
    """
    smooth, noise, window = smoothed(losses)
    middles = (levels[1:] + levels[:-1]) / 2
    first = crossing_step(steps, smooth, smooth[0] * middles[0] / levels[0])
    start = int(np.searchsorted(steps, BEFORE * min(first, steps[-1]), side="right"))
    initial = float(np.mean(losses[: max(1, start)])) if noise else float(losses[0])
    scaled = middles * initial / levels[0]
    half_drops = np.array([crossing_step(steps, smooth, level) for level in scaled])
    final = float(np.mean(losses[-window:]))
    heights, contrasts = _plateaus(steps, smooth, half_drops)
    spacings = np.array([_spacing(steps, at) for at in half_drops])
    above = heights[-1] if len(heights) else initial
    end = _end(final, above, remainder(float(steps[-1] - half_drops[-1])))
    ends = np.concatenate([[initial], heights, [end]])
    durations = np.array([_duration(steps, smooth, *pair) for pair in itertools.pairwise(ends)])
    return CurveFeatures(
        initial, final, noise, window, half_drops, durations, heights, contrasts, spacings
    )


def inner_plateau(
    steps: np.ndarray, losses: np.ndarray, high: float, low: float
) -> tuple[float, float]:
    """Most distinct plateau while the loss falls from one level to another: its loss and contrast.

    NaN for a noisy curve, or one with few records there.
    """
    nothing = float("nan"), float("nan")
    begin, end = first_below(losses, high), first_below(losses, low)
    if end - begin < FEWEST or smoothed(losses)[1] > 0:
        return nothing
    speeds = -np.diff(losses[begin : end + 1]) / np.diff(steps[begin : end + 1])
    slower = np.minimum(np.maximum.accumulate(speeds), np.maximum.accumulate(speeds[::-1])[::-1])
    contrasts = np.divide(speeds, slower, out=np.ones_like(speeds), where=slower > 0)
    at = int(np.argmin(contrasts))
    return float(losses[begin + at]), float(contrasts[at])


def _plateaus(
    steps: np.ndarray, smooth: np.ndarray, half_drops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Heights and contrasts of the plateaus between the drops."""
    count = len(half_drops) - 1
    heights, contrasts = np.full(count, np.nan), np.full(count, np.nan)
    if len(steps) < 2:
        return heights, contrasts
    speeds = -np.diff(smooth) / np.diff(steps)
    at = steps[:-1]
    for m in range(count):
        before, after = half_drops[m], half_drops[m + 1]
        inside = (at >= before) & (at < after)
        if not np.isfinite(before) or np.isnan(after) or np.sum(inside) < FEWEST:
            continue
        height = slowest_loss(smooth, speeds, inside)
        slowest = int(np.argmin(np.where(inside, speeds, np.inf)))
        earlier = half_drops[m - 1] if m else -np.inf
        later = half_drops[m + 2] if m + 2 < len(half_drops) else np.inf
        peaks = [
            np.max(speeds[:slowest][at[:slowest] >= earlier], initial=0.0),
            np.max(speeds[slowest:][at[slowest:] <= later], initial=0.0),
        ]
        # The last plateau that is reached has a drop on one side only.
        peak = min(peaks) if np.isfinite(after) else peaks[0]
        contrasts[m] = max(speeds[slowest], 0.0) / peak if peak > 0 else 1.0
        if contrasts[m] <= CONTRAST:
            heights[m] = height
    return heights, contrasts


def _end(final: float, above: float, remainder: float) -> float:
    """Loss at which the last drop ends, from the final loss and the part that is still ahead."""
    if remainder < ENDED:
        return final
    return (final - remainder * above) / (1 - remainder) if remainder < 1 / 2 else float("nan")


def _duration(steps: np.ndarray, smooth: np.ndarray, above: float, below: float) -> float:
    """Steps between the quarters of a drop; NaN if they are not known or hardly recorded."""
    if not above > below:
        return float("nan")
    begin, end = (crossing_step(steps, smooth, above - f * (above - below)) for f in QUARTERS)
    if not (np.isfinite(begin) and np.isfinite(end)):
        return float("nan")
    return end - begin if np.sum((steps > begin) & (steps < end)) >= FEWEST else float("nan")


def _spacing(steps: np.ndarray, at: float) -> float:
    """Distance of the records around a step."""
    if not np.isfinite(at) or len(steps) < 2:
        return float("nan")
    after = min(max(int(np.searchsorted(steps, at)), 1), len(steps) - 1)
    return float(steps[after] - steps[after - 1])
