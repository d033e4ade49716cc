"""Plateaus and drops that were found in curves, each beside the theory, with z."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, ndtri, polygamma

from iclimit.statistics import z_score
from iclimit.validation.yours.curves.features import CurveFeatures, find_features
from iclimit.validation.yours.curves.table import Curve
from iclimit.validation.yours.curves.theory import DURATION_SPREAD, CurveTheory

# Smallest skewness that is taken into account, and the largest that such a variable can have.
NORMAL, LARGEST = 0.02, 1.99

# Smallest probability, and smallest loss, that is told from zero.
SMALLEST = 1e-300


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


# Numbers of decimals to which recorded losses may be rounded.
DIGITS = range(1, 9)

# Where a plateau is not flat, its height is uncertain by this part of its contrast times the
# smaller drop beside it: that much two exponential tails with the same speed add up to.
SLOPE = 0.25

# Relative uncertainty of what is left of the last drop at the end of a curve.
TAIL = 0.1

# Relative errors of durations of separate attention, random and not, in units of the initial
# weights: other heads hold small weights beside the one that learns.  Flows of well separated
# directions from weights of 0.003 to 0.03 had 0 to 4.5 of these units.  Where drops are close,
# errors were larger, up to the contrast of the plateau between them.
DURATION_ERRORS = 1.5, 3.0

# Durations over training sets are longer in the mean by up to this times the squared fluctuation
# of rates.  Measured with 2000 sequences and D = 3: 13 %, for a fluctuation of 12 %.
SECOND_ORDER = 4.0

# Logarithm of the largest growth until the first record that is taken into account.
LARGE = 30.0

# Where a level is crossed between two records at the distance s, linear interpolation is wrong by
# up to this part of s^2/T in the middle of a drop of the duration T, and by at most s/2.
CURVATURE = 0.25


def compare_curves(
    curves: Sequence[Curve], theory: CurveTheory
) -> tuple[list[CurveRow], list[str]]:
    """Compare what is found in curves with the theory; also remarks on what cannot be compared."""
    features = [
        find_features(each.steps, each.losses, theory.levels, theory.remainder) for each in curves
    ]
    comparing = _Comparing(theory, curves, features)
    return comparing.rows(), comparing.remarks


@dataclass
class _Comparing:
    """Theory beside what was found in the curves; remarks are added as rows are made."""

    theory: CurveTheory
    curves: Sequence[Curve]
    features: Sequence[CurveFeatures]
    remarks: list[str] = field(default_factory=list)

    def rows(self) -> list[CurveRow]:
        """All rows, in the order of the training."""
        theory, last = self.theory, len(self.theory.setting.learned) - 1
        # What random weights change in the loss has grown until the first record.
        grown = theory.start_loss
        if theory.setting.model != "separate":
            first = max(float(each.steps[0]) for each in self.curves)
            grown *= math.exp(min(2 * float(theory.growth[0]) * first, LARGE))
        initial = [each.initial for each in self.features]
        rows = [self._loss("initial loss", 0, initial, grown - theory.start_loss)]
        for m in range(1, last + 1):
            halves = np.array([each.half_drops[m - 1] for each in self.features])
            rows += self._half_drop(m - 1, halves)
            if not np.isfinite(halves).all():
                break
            rows += self._duration(m - 1)
            rows += self._plateau(m) if m < last else self._final()
        return rows

    def _loss(
        self,
        quantity: str,
        m: int,
        losses: Sequence[float] | np.ndarray,
        uncertain: float,
        expected: float | None = None,
    ) -> CurveRow:
        """Row of a loss; ``uncertain`` is absolute."""
        theory, count = self.theory, len(losses)
        level = float(theory.levels[m]) if expected is None else expected
        noise = np.mean([each.noise**2 / each.window for each in self.features])
        variance = theory.fluctuations.losses[m] ** 2
        variance += (noise + theory.start_loss**2) / level**2
        rounding = max(_rounding(each.losses) for each in self.curves)
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

    def _time(
        self,
        quantity: str,
        drop: int,
        times: np.ndarray,
        error: float,
        allowance: float,
        skewness: float = 0.0,
        at_least: bool = False,
    ) -> CurveRow:
        """Row of steps or times, of which the mean is the geometric one."""
        theory, half = self.theory, quantity == "half-drop"
        predicted = float((theory.half_drops if half else theory.durations)[drop])
        allowance += float(theory.delays[0 if half else 1, drop]) + theory.fluctuations.bias
        allowance += (1 if half else 2) * self._crossing_error(drop) / predicted
        m, logs = theory.setting.learned[drop + 1], np.log(times)
        mean, spread = float(np.exp(np.mean(logs))), _spread(logs)
        more = skewness, at_least, len(times)
        return CurveRow(quantity, m, mean, predicted, spread, error, allowance, *more)

    def _half_drop(self, drop: int, halves: np.ndarray) -> list[CurveRow]:
        """Row of the step at which half of a drop has happened."""
        theory, ends = self.theory, np.array([each.steps[-1] for each in self.curves])
        predicted, m = float(theory.half_drops[drop]), theory.setting.learned[drop + 1]
        reached, count = np.isfinite(halves), len(halves)
        if math.isinf(predicted):
            why = "theory expects that it is not made by all runs"
            if reached.any():
                why = "theory has no mean, as some runs never make it"
            self.remarks.append(f"drop to {m} learned: {why}")
            return []
        start = theory.start
        variance = start.variance[drop] + theory.staircase_variance[drop]
        variance += theory.fluctuations.rates[drop] ** 2
        error = math.sqrt(variance / count + start.mean_variance[drop])
        skewness = float(start.third[drop]) / count**2 / error**3 if error else 0.0
        steps, late = np.where(reached, halves, ends), not reached.all()
        allowance = self._start_allowance()
        row = self._time("half-drop", drop, steps, error, allowance, skewness, late)
        if not late:
            return [row]
        who = "no curve" if not reached.any() else f"{reached.sum()} of {count} curves"
        self.remarks.append(
            f"drop to {m} learned: made by {who} before the end at {ends.max():g}; theory expects "
            f"it at {predicted:.4g}"
        )
        return [row] if row.z > 0 else []

    def _duration(self, drop: int) -> list[CurveRow]:
        """Row of the time from a quarter to three quarters of a drop."""
        m = self.theory.setting.learned[drop + 1]
        if math.isnan(self.theory.durations[drop]):
            return []
        durations = np.array([each.durations[drop] for each in self.features])
        # Those of some curves only would be the longer ones.
        if not np.all(np.isfinite(durations)):
            self.remarks.append(
                f"drop to {m} learned: its duration is not known of all curves, as there are too "
                "few records or no distinct plateaus beside it"
            )
            return []
        rates = float(self.theory.fluctuations.rates[drop])
        random, allowance = self._duration_errors(drop)
        error = math.hypot(DURATION_SPREAD * rates, random) / math.sqrt(len(durations))
        allowance += SECOND_ORDER * rates**2
        return [self._time("duration", drop, durations, error, allowance)]

    def _duration_errors(self, drop: int) -> tuple[float, float]:
        """Errors of a duration because weights are not small, random and not random."""
        if self.theory.setting.model != "separate":
            return 0.0, self._start_allowance()
        beside = [
            each.contrasts[m]
            for each in self.features
            for m in (drop - 1, drop)
            if 0 <= m < len(each.contrasts)
        ]
        contrast = np.max([0.0, *(c for c in beside if np.isfinite(c))])
        random, fixed = self.theory.setting.start * np.array(DURATION_ERRORS)
        return float(random), float(fixed + contrast)

    def _plateau(self, m: int) -> list[CurveRow]:
        """Row of the loss at a plateau between two drops."""
        theory = self.theory
        distinct = [each for each in self.features if np.isfinite(each.heights[m - 1])]
        if not distinct:
            merged = any(np.isfinite(each.contrasts[m - 1]) for each in self.features)
            why = "the drops beside it merge" if merged else "too few records between its drops"
            learned = theory.setting.learned[m]
            self.remarks.append(f"plateau with {learned} learned: none found, as {why}")
            return []
        drops = theory.levels[:-1] - theory.levels[1:]
        contrast = max(each.contrasts[m - 1] for each in distinct)
        uncertain = SLOPE * contrast * min(drops[m - 1], drops[m])
        uncertain += theory.setting.start**2 * float(theory.levels[m])
        heights = [each.heights[m - 1] for each in distinct]
        return [replace(self, features=distinct)._loss("plateau", m, heights, uncertain)]

    def _final(self) -> list[CurveRow]:
        """Row of the final loss, with what is left of the last drop."""
        theory, level = self.theory, float(self.theory.levels[-1])
        parts = [
            theory.remainder(float(curve.steps[-1] - each.half_drops[-1]))
            for curve, each in zip(self.curves, self.features, strict=True)
        ]
        rest = float(np.mean(parts)) * float(theory.levels[-2] - level)
        uncertain = TAIL * rest + theory.fluctuations.bias * level
        losses = [each.final for each in self.features]
        return [self._loss("final loss", -1, losses, uncertain, level + rest)]

    def _crossing_error(self, drop: int) -> float:
        """Uncertainty of the step at which a level is crossed, by the distance of records."""
        spacings = np.array([each.spacings[drop] for each in self.features])
        if np.isnan(spacings).all():
            return 0.0
        spacing, duration = float(np.nanmean(spacings)), float(self.theory.durations[drop])
        return spacing * min(0.5, CURVATURE * spacing / duration if duration > 0 else 0.5)

    def _start_allowance(self) -> float:
        """Relative error of times that is of the order of the initial weights."""
        setting = self.theory.setting
        return setting.start if setting.model != "separate" else 0.0


def _spread(logs: np.ndarray) -> float:
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else math.nan


def _rounding(losses: np.ndarray) -> float:
    """Half of the last decimal, if losses are rounded to a few; 0 otherwise."""
    for digits in DIGITS:
        scaled = losses * 10.0**digits
        if np.all(np.abs(scaled - np.round(scaled)) < 1e-6):
            return float(0.5 * 10.0**-digits)
    return 0.0
