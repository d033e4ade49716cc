"""Plateaus and drops that were found in curves, each beside the theory, with z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, ndtri, polygamma

from iclimit.statistics import z_score
from iclimit.validation.yours.curves.features import CurveFeatures, find_features
from iclimit.validation.yours.curves.table import Curve
from iclimit.validation.yours.curves.theory import DURATION_SPREAD, CurveTheory

NORMAL, LARGEST = 0.02, 1.99
"""Smallest skewness that is taken into account, and the largest that such a variable can have."""

SMALLEST = 1e-300
"""Smallest probability, and smallest loss, that is told from zero."""


@dataclass(frozen=True)
class CurveRow:
    """One number that was found in the curves, beside the theory.

    Attributes
    ----------
    quantity : str
        "initial loss", "plateau", "final loss", "half-drop" or "duration".
    learned : int
        Directions that are learned there; for a drop, after it.
    found, theory : float
        Mean over the curves (of steps and times the geometric one), and prediction.
    spread : float
        Relative standard deviation over the curves; NaN for one.
    standard_error : float
        Relative, of the mean over the curves: what is random about curves, as theory has it, and
        the noise of the records.
    allowance : float
        Relative error of theory and of recording that is not random.
    skewness : float
        Of the mean over the curves.
    at_least : bool
        Whether the number is a lower bound, as some curves end before the drop.
    curves : int
        Number of curves.
    """

    quantity: str
    learned: int
    found: float
    theory: float
    spread: float
    standard_error: float
    allowance: float
    skewness: float = 0.0
    at_least: bool = False
    curves: int = 1

    @property
    def deviation(self) -> float:
        """Relative deviation from the theory."""
        return self.found / self.theory - 1

    @property
    def z(self) -> float:
        """Deviation of the logarithm beyond the allowance in standard errors, as a normal deviate.

        Infinite for a deviation without a random part.
        """
        if self.found <= 0:
            return -math.inf
        log = math.log(self.found / self.theory)
        z = z_score(log, 0.0, self.standard_error, self.allowance)
        return skewed_deviate(max(z, 0.0) if self.at_least else z, self.skewness)

    def numbers(self) -> dict[str, Any]:
        """Numbers by name, as tables have them."""
        spread = self.spread if self.curves > 1 else None
        return vars(self) | {"spread": spread, "deviation": self.deviation, "z": self.z}


def skewed_deviate(x: float, skewness: float) -> float:
    """Normal deviate of the same probability as a standardised variable of this skewness.

    The variable is taken to be minus the logarithm of a gamma variable, as are times of merged
    attention; its shape is found from the skewness, which is then exact.
    """
    if skewness < 0:
        return -skewed_deviate(-x, -skewness)
    if skewness < NORMAL or x == 0 or math.isinf(x):
        return x
    shape = _gamma_shape(min(skewness, LARGEST))
    log = float(polygamma(0, shape)) - x * math.sqrt(float(polygamma(1, shape)))
    value = math.exp(min(log, 700.0))
    if x > 0:
        return -float(ndtri(max(gammainc(shape, value), SMALLEST)))
    return float(ndtri(max(gammaincc(shape, value), SMALLEST)))


@lru_cache(maxsize=64)
def _gamma_shape(skewness: float) -> float:
    """Shape of the gamma variable, minus the logarithm of which has this skewness."""

    def excess(log_shape: float) -> float:
        shape = math.exp(log_shape)
        return float(-polygamma(2, shape) / polygamma(1, shape) ** 1.5) - skewness

    return math.exp(brentq(excess, -7.0, 10.0))


DIGITS = range(1, 9)
"""Numbers of decimals to which recorded losses may be rounded."""

SLOPE = 0.25
"""Where a plateau is not flat, its height is uncertain by this part of its contrast times the
smaller drop beside it: that much two exponential tails with the same speed add up to."""

TAIL = 0.1
"""Relative uncertainty of what is left of the last drop at the end of a curve."""

DURATION_ERRORS = 1.5, 3.0
"""Relative errors of durations of separate attention, random and not, in units of the initial
weights: other heads hold small weights beside the one that learns.  Flows of well separated
directions from weights of 0.003 to 0.03 had 0 to 4.5 of these units.  Where drops are close,
errors were larger, up to the contrast of the plateau between them."""

SECOND_ORDER = 4.0
"""Durations over training sets are longer in the mean by up to this times the squared fluctuation
of rates.  Measured with 2000 sequences and D = 3: 13 %, for a fluctuation of 12 %."""

LARGE = 30.0
"""Logarithm of the largest growth until the first record that is taken into account."""

CURVATURE = 0.25
"""Where a level is crossed between two records at the distance s, linear interpolation is wrong by
up to this part of s^2/T in the middle of a drop of the duration T, and by at most s/2."""


def compare_curves(
    curves: Sequence[Curve], theory: CurveTheory
) -> tuple[list[CurveRow], list[str]]:
    """Compare what is found in curves with the theory; also remarks on what cannot be compared."""
    found = [find_features(each.steps, each.losses, theory.levels, theory.left) for each in curves]
    learned = theory.setting.learned
    rounding = max(_rounding(each.losses) for each in curves)
    # What random weights change in the loss has grown until the first record.
    grown = theory.start_loss
    if theory.setting.model != "separate":
        first = max(float(each.steps[0]) for each in curves)
        grown *= math.exp(min(2 * float(theory.growth[0]) * first, LARGE))
    initial = [each.initial for each in found]
    rows = [_loss(theory, found, 0, initial, grown - theory.start_loss, rounding)]
    remarks: list[str] = []
    for m in range(1, len(learned)):
        drop = m - 1
        halves = np.array([each.half_drops[drop] for each in found])
        ends = np.array([each.steps[-1] for each in curves])
        rows += _half_drop(theory, found, drop, halves, ends, remarks)
        if not np.isfinite(halves).all():
            break
        rows += _duration(theory, found, drop, remarks)
        if m < len(learned) - 1:
            rows += _plateau(theory, found, m, rounding, remarks)
        else:
            rows += _final(theory, found, curves, rounding)
    return rows, remarks


def _loss(
    theory: CurveTheory,
    found: Sequence[CurveFeatures],
    m: int,
    losses: Sequence[float],
    uncertain: float,
    rounding: float,
    quantity: str = "initial loss",
    expected: float | None = None,
) -> CurveRow:
    """Row of a loss; ``uncertain`` is absolute."""
    count, level = len(losses), float(theory.levels[m]) if expected is None else expected
    noise = np.mean([each.noise**2 / each.window for each in found])
    variance = theory.fluctuations.losses[m] ** 2
    variance += (noise + theory.start_loss**2) / level**2
    return CurveRow(
        quantity,
        theory.setting.learned[m],
        float(np.mean(losses)),
        level,
        _spread(np.log(np.maximum(losses, SMALLEST))),
        math.sqrt(variance / count),
        (uncertain + rounding) / level,
        curves=count,
    )


def _half_drop(
    theory: CurveTheory,
    found: Sequence[CurveFeatures],
    drop: int,
    halves: np.ndarray,
    ends: np.ndarray,
    remarks: list[str],
) -> list[CurveRow]:
    """Row of the step at which half of a drop has happened."""
    predicted, m = float(theory.half_drops[drop]), theory.setting.learned[drop + 1]
    reached, count = np.isfinite(halves), len(halves)
    steps = np.where(reached, halves, ends)
    if math.isinf(predicted):
        if not reached.any():
            remarks.append(f"drop to {m} learned: theory expects that it is not made by all runs")
            return []
        remarks.append(f"drop to {m} learned: theory has no mean, as some runs never make it")
        return []
    logs = np.log(steps)
    own = theory.start.variance[drop]
    variance = own + theory.staircase_variance[drop]
    variance += theory.fluctuations.rates[drop] ** 2
    error = math.sqrt(variance / count + theory.start.mean_variance[drop])
    crossing = _crossing_error(theory, found, drop)
    row = CurveRow(
        "half-drop",
        m,
        float(np.exp(np.mean(logs))),
        predicted,
        _spread(logs),
        error,
        float(theory.delays[0, drop])
        + theory.fluctuations.bias
        + _start_allowance(theory)
        + crossing / predicted,
        float(theory.start.third[drop]) / count**2 / error**3 if error else 0.0,
        not reached.all(),
        count,
    )
    if reached.all():
        return [row]
    who = "no curve" if not reached.any() else f"{reached.sum()} of {count} curves"
    remarks.append(
        f"drop to {m} learned: made by {who} before the end at {ends.max():g}; theory expects it "
        f"at {predicted:.4g}"
    )
    return [row] if row.z > 0 else []


def _duration(
    theory: CurveTheory, found: Sequence[CurveFeatures], drop: int, remarks: list[str]
) -> list[CurveRow]:
    """Row of the time from a quarter to three quarters of a drop."""
    predicted, m = float(theory.durations[drop]), theory.setting.learned[drop + 1]
    if math.isnan(predicted):
        return []
    durations = np.array([each.durations[drop] for each in found])
    # Those of some curves only would be the longer ones.
    if not np.all(np.isfinite(durations)):
        remarks.append(
            f"drop to {m} learned: its duration is not known of all curves, as there are too few "
            "records or no distinct plateaus beside it"
        )
        return []
    count, rates = len(durations), float(theory.fluctuations.rates[drop])
    random, fixed = _duration_errors(theory, found, drop)
    return [
        CurveRow(
            "duration",
            m,
            float(np.exp(np.mean(np.log(durations)))),
            predicted,
            _spread(np.log(durations)),
            math.hypot(DURATION_SPREAD * rates, random) / math.sqrt(count),
            float(theory.delays[1, drop])
            + theory.fluctuations.bias
            + SECOND_ORDER * rates**2
            + fixed
            + 2 * _crossing_error(theory, found, drop) / predicted,
            curves=count,
        )
    ]


def _duration_errors(
    theory: CurveTheory, found: Sequence[CurveFeatures], drop: int
) -> tuple[float, float]:
    """Errors of a duration because weights are not small, random and not random."""
    if theory.setting.model != "separate":
        return 0.0, _start_allowance(theory)
    beside = [
        each.contrasts[m]
        for each in found
        for m in (drop - 1, drop)
        if 0 <= m < len(each.contrasts)
    ]
    contrast = np.max([0.0, *(c for c in beside if np.isfinite(c))])
    random, fixed = theory.setting.start * np.array(DURATION_ERRORS)
    return float(random), float(fixed + contrast)


def _plateau(
    theory: CurveTheory,
    found: Sequence[CurveFeatures],
    m: int,
    rounding: float,
    remarks: list[str],
) -> list[CurveRow]:
    """Row of the loss at a plateau between two drops."""
    heights = np.array([each.heights[m - 1] for each in found])
    distinct = np.isfinite(heights)
    learned = theory.setting.learned[m]
    if not distinct.any():
        merged = any(np.isfinite(each.contrasts[m - 1]) for each in found)
        why = "the drops beside it merge" if merged else "too few records between its drops"
        remarks.append(f"plateau with {learned} learned: none found, as {why}")
        return []
    drops = theory.levels[:-1] - theory.levels[1:]
    contrast = max(
        each.contrasts[m - 1] for each, known in zip(found, distinct, strict=True) if known
    )
    uncertain = SLOPE * contrast * min(drops[m - 1], drops[m])
    uncertain += theory.setting.start**2 * float(theory.levels[m])
    kept = [each for each, known in zip(found, distinct, strict=True) if known]
    return [_loss(theory, kept, m, heights[distinct], uncertain, rounding, "plateau")]


def _final(
    theory: CurveTheory, found: Sequence[CurveFeatures], curves: Sequence[Curve], rounding: float
) -> list[CurveRow]:
    """Row of the final loss, with what is left of the last drop."""
    since = [
        float(curve.steps[-1] - each.half_drops[-1])
        for curve, each in zip(curves, found, strict=True)
    ]
    rest = float(np.mean([theory.left(each) for each in since]))
    rest *= float(theory.levels[-2] - theory.levels[-1])
    level = float(theory.levels[-1])
    uncertain = TAIL * rest + theory.fluctuations.bias * level
    losses = [each.final for each in found]
    return [_loss(theory, found, -1, losses, uncertain, rounding, "final loss", level + rest)]


def _crossing_error(theory: CurveTheory, found: Sequence[CurveFeatures], drop: int) -> float:
    """Uncertainty of the step at which a level is crossed, because of the distance of records."""
    spacings = np.array([each.spacings[drop] for each in found])
    if np.isnan(spacings).all():
        return 0.0
    spacing, duration = float(np.nanmean(spacings)), float(theory.durations[drop])
    return spacing * min(0.5, CURVATURE * spacing / duration if duration > 0 else 0.5)


def _start_allowance(theory: CurveTheory) -> float:
    """Relative error of times that is of the order of the initial weights."""
    return theory.setting.start if theory.setting.model != "separate" else 0.0


def _spread(logs: np.ndarray) -> float:
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else math.nan


def _rounding(losses: np.ndarray) -> float:
    """Half of the last decimal, if losses are rounded to a few; 0 otherwise."""
    for digits in DIGITS:
        scaled = losses * 10.0**digits
        if np.all(np.abs(scaled - np.round(scaled)) < 1e-6):
            return float(0.5 * 10.0**-digits)
    return 0.0
