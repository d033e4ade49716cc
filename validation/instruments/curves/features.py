"""Plateaus and drops of one training curve, found from its records.

The heights that theory expects only say where to look: a drop is half done where the loss passes
the middle between two of them, and a plateau is where the loss falls slowest between two such
points.  The expected heights are first multiplied by one factor, so that they start at the initial
loss that was found.  What is found does therefore not depend on the unit of the loss.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.validation.instruments.curves.table import Curve

# A plateau counts as distinct if the loss falls there at most at this part of its speed in the
# slower one of the two drops beside it.
CONTRAST = 0.5

# Noise of the records that is left after smoothing, in units of the whole drop.
SMOOTH = 0.01

# The mean that smooths a curve extends over at most this part (1/50) of its records.
LONGEST = 50

# The rate of the first growth is found while the loss falls through these parts of the whole drop.
FIRST_GROWTH = 1e-3, 3e-2

# The end of a curve, of which the fall says how much of the last drop may be ahead.
LAST = 0.75

# Blocks into which a curve is cut to find its noise.
BLOCKS = 10

# Fewest records of such a block: a short curve has fewer blocks.
FEWEST_OF_BLOCK = 20

# The duration of a drop is the time between these parts of it.
QUARTERS = 0.25, 0.75

# The initial loss of a noisy curve is the mean up to this part of the time of the first half-drop.
BEFORE = 0.3

# If that mean differs from the first record by more than this multiple of the noise, the
# difference is part of the drop, and the first record is the initial loss.
TYPICAL = 4.0

# The duration of a drop is unknown if the smoothing extends over more than this part of it.
BLUR = 0.5

# It is also unknown if the noise that smoothing leaves is more than this part of the drop.
NOISY = 0.03

# A drop has ended if at most this part of it is ahead.
ENDED = 1e-3

# A curve that begins above the null loss waits there if it falls at most at this part of its first
# speed.
WAITING = 0.1

# If the last drop is faster or slower than expected by more than this factor, what is ahead of it
# is found by its own clock.
OTHER_CLOCK = 1.5

# Rounds in which that clock is found.
CLOCK_ROUNDS = 20

# Fewest records between two half-drops to look for a plateau, and within a drop to time it.
FEWEST = 3


@dataclass(frozen=True, eq=False)
class CurveFeatures:
    """What one curve shows.  Steps are in the units of the curve.

    Attributes
    ----------
    curve : Curve
        The curve.
    initial, final : float
        Loss at the start, and of the last records.
    early : int
        Records that the initial loss is the mean of.
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
    drifts : ndarray (drops - 1,)
        What the loss would fall, at its speed at the plateau, between the half-drops beside it.
    spacings : ndarray (drops,)
        Distance of the records at the half-drops.
    ahead : float
        Part of the last drop that is still ahead at the end of the curve.
    """

    curve: Curve
    initial: float
    final: float
    early: int
    noise: float
    window: int
    half_drops: np.ndarray
    durations: np.ndarray
    heights: np.ndarray
    contrasts: np.ndarray
    drifts: np.ndarray
    spacings: np.ndarray
    ahead: float


def first_below(losses: np.ndarray, level: float) -> int:
    """Index of the first loss below a level; the number of losses if there is none."""
    return int(np.argmax(np.append(losses < level, True)))


def slowest_loss(losses: np.ndarray, speeds: np.ndarray, inside: np.ndarray) -> float:
    """Loss where it falls slowest, among the chosen records; NaN if none is chosen."""
    if not inside.any():
        return float("nan")
    return float(losses[np.argmin(np.where(inside, speeds, np.inf))])


def crossing_step(steps: np.ndarray, losses: np.ndarray, level: float) -> float:
    """Step at which the loss falls through a level, interpolated; infinite if never.

    A curve that starts below the level has crossed it by half a record, at the latest.  Of a noisy
    curve as many records count as above the level as are above it anywhere.
    """
    above = losses >= level
    if np.mean(losses[-max(1, len(losses) // LONGEST) :]) >= level:
        return float("inf")
    after = int(np.sum(above))
    if after == 0:
        return float(steps[0] + steps[1]) / 2
    high = losses[after - 1]
    low = losses[after]
    part = min(max((high - level) / (high - low), 0.0), 1.0) if high > low else 0.5
    return float(steps[after - 1] + part * (steps[after] - steps[after - 1]))


def record_noise(losses: np.ndarray) -> float:
    """Standard deviation of a record about a smooth curve, where it is largest.

    It is found from second differences in blocks, as noise of minibatches grows with the loss.
    """
    second = np.abs(np.diff(losses, 2))
    blocks = np.array_split(second, max(1, min(BLOCKS, len(second) // FEWEST_OF_BLOCK)))
    # The median of |x| is 0.6745 for a normal x; a second difference has the variance 6.
    return float(max(np.median(block) for block in blocks) / 0.6745 / np.sqrt(6))


def smoothed(losses: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Moving mean of a curve, the noise of its records and the length of the mean.

    A curve that only falls is left as it is.  The noise is found from second differences, which do
    not see a curve that is smooth between three records.
    """
    falls = -np.diff(losses)
    if len(losses) < 2 * FEWEST or np.all(falls >= 0):
        return losses, 0.0, 1
    noise = record_noise(losses)
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
    curve: Curve,
    levels: np.ndarray,
    remainder: Callable[[float], np.ndarray],
    distinct: float,
    duration: float = float("nan"),
) -> CurveFeatures:
    """Find plateaus and drops of one curve.

    Parameters
    ----------
    curve : Curve
        The curve.
    levels : ndarray (drops + 1,)
        Expected losses at the start, at the plateaus and at the end.
    remainder : function
        Part of the last drop that is still ahead so many steps after half of it.
    distinct : float
        Largest contrast of a plateau.
    duration : float
        Expected duration of the last drop; NaN if it is not known.
    """
    steps = curve.steps
    losses = curve.losses
    smoothing = smoothed(losses)
    smooth, noise, window = smoothing
    middles = (levels[1:] + levels[:-1]) / 2
    initial, early = _initial_loss(curve, smoothing, middles[0], levels[0])
    scaled = middles * initial / levels[0]
    half_drops = np.array([crossing_step(steps, smooth, level) for level in scaled])
    final = float(np.mean(losses[-window:]))
    heights, contrasts, drifts = _plateaus(steps, smooth, half_drops, distinct)
    spacings = np.array([_spacing(steps, at) for at in half_drops])
    above = heights[-1] if len(heights) else initial
    since = float(steps[-1] - half_drops[-1])
    ahead = _ahead(steps, smooth, (above, final), lambda pace: remainder(pace * since), duration)
    end = _end(final, above, ahead)
    ends = np.concatenate([[initial], heights, [end]])
    durations = np.array([_duration(steps, smooth, *pair) for pair in itertools.pairwise(ends)])
    durations[(window - 1) * spacings > BLUR * durations] = np.nan
    durations[noise / np.sqrt(window) > NOISY * -np.diff(levels) * initial / levels[0]] = np.nan
    return CurveFeatures(
        curve=curve,
        initial=initial,
        final=final,
        early=early,
        noise=noise,
        window=window,
        half_drops=half_drops,
        durations=durations,
        heights=heights,
        contrasts=contrasts,
        drifts=drifts,
        spacings=spacings,
        ahead=ahead,
    )


def _initial_loss(
    curve: Curve, smoothing: tuple[np.ndarray, float, int], middle: float, level: float
) -> tuple[float, int]:
    """Initial loss, and of how many records it is the mean.

    Half of the first drop has happened at ``middle`` if the initial loss is ``level``.
    """
    steps = curve.steps
    losses = curve.losses
    smooth, noise, window = smoothing
    initial = float(smooth[window // 2])
    for _ in range(2):
        first = crossing_step(steps, smooth, initial * middle / level)
        early = int(np.searchsorted(steps, BEFORE * min(first, steps[-1]), side="right"))
        early = max(1, early)
        initial = float(np.mean(losses[:early]))
    doubt = record_noise(losses[:early]) if noise and early > FEWEST else noise
    falls = bool(np.all(np.diff(losses[:early]) <= 0))
    if falls or abs(initial - losses[0]) >= TYPICAL * doubt:  # not noise but the drop
        return float(losses[0]), 1
    return initial, early


def null_plateau(curve: Curve, null: float, doubt: float) -> int:
    """Index of the slowest record of a plateau at the null loss, that of predicting zero.

    It is 0 unless the curve begins above the null loss, by more than a relative doubt, and falls
    much more slowly there than before.
    """
    smooth, noise, _ = smoothed(curve.losses)
    near = np.abs(smooth / null - 1) <= doubt + 3 * noise / null
    begin = int(np.argmax(near))
    if begin == 0 or not np.all(smooth[:begin] > null):
        return 0
    end = begin + int(np.argmin(np.append(near[begin:], False)))
    speeds = np.abs(np.diff(smooth) / np.diff(curve.steps))
    if end - begin < FEWEST:
        return 0
    slowest = begin + int(np.argmin(speeds[begin : end - 1]))
    return slowest if speeds[slowest] <= WAITING * np.max(speeds[:begin]) else 0


def growth_rate(steps: np.ndarray, losses: np.ndarray, doubt: float) -> float:
    """Rate at which the part of the drop that has happened grows at first; NaN if not known.

    ``doubt`` is what the initial weights and the noise change in the loss.
    """
    gone = losses[0] - losses
    total = float(gone.max())
    begin, end = FIRST_GROWTH
    if total <= 0:
        return float("nan")
    begin = max(begin, 10 * doubt / total)
    inside = slice(*(first_below(losses, losses[0] - part * total) for part in (begin, end)))
    if begin > end / 3 or len(steps[inside]) < FEWEST or np.any(gone[inside] <= 0):
        return float("nan")
    return float(np.polyfit(steps[inside], np.log(gone[inside]), 1)[0])


def last_fall(steps: np.ndarray, losses: np.ndarray) -> float:
    """How far the smoothed loss falls at the end of the curve."""
    smooth = smoothed(losses)[0]
    return max(0.0, float(np.interp(LAST * steps[-1], steps, smooth) - smooth[-1]))


def inner_plateau(
    steps: np.ndarray, losses: np.ndarray, high: float, low: float
) -> tuple[float, float]:
    """Most distinct plateau while the loss falls from one level to another: its loss and contrast.

    NaN for a noisy curve, or one with few records there.
    """
    nothing = float("nan"), float("nan")
    begin = first_below(losses, high)
    end = first_below(losses, low)
    if end - begin < FEWEST or smoothed(losses)[1] > 0:
        return nothing
    speeds = -np.diff(losses[begin : end + 1]) / np.diff(steps[begin : end + 1])
    slower = np.minimum(np.maximum.accumulate(speeds), np.maximum.accumulate(speeds[::-1])[::-1])
    contrasts = np.divide(speeds, slower, out=np.ones_like(speeds), where=slower > 0)
    at = int(np.argmin(contrasts))
    return float(losses[begin + at]), float(contrasts[at])


def _plateaus(
    steps: np.ndarray, smooth: np.ndarray, half_drops: np.ndarray, distinct: float
) -> np.ndarray:
    """Heights, contrasts and drifts of the plateaus between the drops, shape (3, plateaus)."""
    plateaus = np.full((3, len(half_drops) - 1), np.nan)
    if len(steps) < 2:
        return plateaus
    speeds = -np.diff(smooth) / np.diff(steps)
    at = steps[:-1]
    for m in range(len(half_drops) - 1):
        before = half_drops[m]
        after = half_drops[m + 1]
        inside = (at >= before) & (at < after)
        if not np.isfinite(before) or np.isnan(after) or np.sum(inside) < FEWEST:
            continue
        # Momentum overshoots, so that the loss also rises for a while.
        slowest = int(np.argmin(np.where(inside, np.abs(speeds), np.inf)))
        earlier = half_drops[m - 1] if m else -np.inf
        later = half_drops[m + 2] if m + 2 < len(half_drops) else np.inf
        peak = np.max(speeds[:slowest][at[:slowest] >= earlier], initial=0.0)
        if np.isfinite(after):  # the last plateau that is reached has a drop on one side only
            peak = min(peak, np.max(speeds[slowest:][at[slowest:] <= later], initial=0.0))
        speed = abs(speeds[slowest])
        contrast = speed / peak if peak > 0 else 1.0
        if np.any(speeds[inside] < 0):  # momentum overshoots, so that speeds vanish for a moment
            speed = max(speed, float(np.median(np.abs(speeds[inside]))))
        drift = speed * (min(after, steps[-1]) - before)
        height = smooth[slowest] if contrast <= distinct else np.nan
        plateaus[:, m] = height, contrast, drift
    return plateaus


def _ahead(
    steps: np.ndarray,
    smooth: np.ndarray,
    ends: tuple[float, float],
    remainder: Callable[[float], Any],
    duration: float,
) -> float:
    """Part of the last drop that is ahead at the end of a curve.

    The clock is the one that was stated, unless the drop was much faster or slower by it: then it
    is the one in which the drop has the expected duration.  ``remainder`` says what is ahead at a
    pace relative to the stated clock.
    """
    above, final = ends

    def pace(ahead: float) -> float:
        drop = _quarters(steps, smooth, above, _end(final, above, ahead))
        return duration / drop if drop > 0 else float("nan")

    stated = float(remainder(1.0))
    if not duration > 0 or 1 / OTHER_CLOCK <= pace(stated) <= OTHER_CLOCK:
        return stated
    ahead = 0.0
    for _ in range(CLOCK_ROUNDS):  # each finds a longer drop and thus more of it ahead
        clock = pace(ahead)
        if not clock > 0:
            return stated
        ahead = float(remainder(clock))
    return ahead


def _end(final: float, above: float, remainder: float) -> float:
    """Loss at which the last drop ends, from the final loss and the part that is still ahead."""
    if remainder < ENDED:
        return final
    return (final - remainder * above) / (1 - remainder) if remainder < 1 / 2 else float("nan")


def _quarters(steps: np.ndarray, smooth: np.ndarray, above: float, below: float) -> float:
    """Steps between the quarters of a drop; NaN if they are not known."""
    if not above > below:
        return float("nan")
    first, last = QUARTERS
    begin = crossing_step(steps, smooth, above - first * (above - below))
    end = crossing_step(steps, smooth, above - last * (above - below))
    return end - begin if np.isfinite(begin) and np.isfinite(end) else float("nan")


def _duration(steps: np.ndarray, smooth: np.ndarray, above: float, below: float) -> float:
    """Steps between the quarters of a drop; NaN if they are not known or hardly recorded."""
    duration = _quarters(steps, smooth, above, below)
    if not duration > 0:
        return float("nan")
    begin = crossing_step(steps, smooth, above - QUARTERS[0] * (above - below))
    inside = (steps > begin) & (steps < begin + duration)
    return duration if np.sum(inside) >= FEWEST else float("nan")


def _spacing(steps: np.ndarray, at: float) -> float:
    """Distance of the records around a step."""
    if not np.isfinite(at) or len(steps) < 2:
        return float("nan")
    after = min(max(int(np.searchsorted(steps, at)), 1), len(steps) - 1)
    return float(steps[after] - steps[after - 1])
