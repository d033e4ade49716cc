"""Plateaus and drops that were found in curves, each beside the theory, with z."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.comparison import Comparison
from iclimit.validation.instruments.curves.features import (
    CONTRAST,
    CurveFeatures,
    find_features,
    growth_rate,
    last_fall,
    null_plateau,
)
from iclimit.validation.instruments.curves.setting import least_merged_loss
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import DURATION_SPREAD, CurveTheory

# Smallest loss that is told from zero.
SMALLEST = 1e-300

# Quantities that have the unit of time; all others are losses.
TIMES = "half-drop", "half-drops", "duration", "growth"

# Columns of a row in tables.
COLUMNS = (
    *("label", "quantity", "learned", "theory", "estimate", "standard_error", "allowance"),
    *("below", "above", "skewness", "upper_bound", "curves", "z"),
)


@dataclass(frozen=True)
class CurveRow(Comparison):
    """One number that was found in the curves, beside the theory: a comparison of logarithms.

    The estimate is the mean over the curves, of steps and times the geometric one.  Its standard
    error is what is random about curves, as theory has it, with the noise of the records; the
    allowance has the errors of theory and of recording that are not random.  The theory is a bound
    where some curves end before the drop: the step of half of it is then later than the estimate.

    Attributes
    ----------
    quantity : str
        "initial loss", "plateau", "final loss", "half-drop", "duration", "growth" for the rate of
        the first growth, or "half-drops" for the factor that all half-drops have in common.
    learned : int
        Directions that are learned there; for a drop, after it.
    spread : float
        Relative standard deviation over the curves; NaN for one.
    curves : int
        Number of curves.
    """

    logarithmic: bool = True
    quantity: str = ""
    learned: int = 0
    spread: float = math.nan
    curves: int = 1

    @property
    def relative(self) -> float:
        """Relative deviation from the theory."""
        return self.estimate / self.theory - 1

    def numbers(self) -> dict[str, Any]:
        """Numbers by name, as tables have them."""
        return {name: getattr(self, name) for name in COLUMNS} | {
            "deviation": self.relative,
            "spread": self.spread if self.curves > 1 else None,
            "degrees": self.degrees if math.isfinite(self.degrees) else None,
        }


# Numbers of decimals to which recorded losses may be rounded.
DIGITS = range(1, 9)

# Where a plateau is not flat, its height is uncertain by this part of its contrast times the
# smaller drop beside it: that much two exponential tails with the same speed add up to.
SLOPE = 0.25

# With other optimizers a loss may fall slowly elsewhere, too: plateaus must be more distinct.
DISTINCT = 0.05

# Of two directions whose eigenvalues have at least this ratio the initial weights may favour the
# second; the plateau is then up to the difference of their drops higher.
CLOSE = 0.8

# A final loss that may be this much too high, as directions are still learned, is not compared.
HOPELESS = 0.3

# Relative uncertainty of what is left of the last drop at the end of a curve.
TAIL = 0.1

# Relative random error of durations of separate attention, in units of the initial weights: other
# heads hold small weights beside the one that learns.  Flows of well separated directions from
# weights of 0.003 to 0.03 had errors of 0 to 4.5 of these units.  Where drops are close, errors
# were larger, up to the contrast of the plateau between them.
RANDOM_DURATION_ERROR = 1.5

# Relative error of these durations that is no random one, in the same units.
DURATION_ALLOWANCE = 3.0

# Durations over training sets are longer in the mean by up to this times the squared fluctuation
# of rates.  Measured with 2000 sequences and D = 3: 13 %, for a fluctuation of 12 %.
SECOND_ORDER = 4.0

# A loss within this part of that of predicting zero is at its plateau; training sets vary by more.
NEAR = 0.02

# How much longer a drop takes if two heads learn its direction together: 2^(1/3) times.
TIE = math.log(2) / 3

# Error of the rate of the first growth, by other directions of growth and by the end of the
# exponential law.  Descents on mixtures with D = 3 from weights of 0.001 had 0 to 5 %.
GROWTH_ERROR = 0.06

# Logarithm of the largest growth until the first record that is taken into account.
LARGE = 30.0

# Where a level is crossed between two records at the distance s, linear interpolation is wrong by
# up to this part of s^2/T in the middle of a drop of the duration T, and by at most s/2.
CURVATURE = 0.25


def compare_curves(
    curves: Sequence[Curve], theory: CurveTheory
) -> tuple[list[CurveRow], list[str]]:
    """Compare what is found in curves with the theory; also remarks on what cannot be compared."""
    distinct = CONTRAST if theory.setting.timed else DISTINCT
    begins = null_plateaus(curves, theory)
    null = float(theory.levels[0])
    remarks = [
        f"{curve.label} begins at {curve.losses[0]:.4g}, above the loss {null:.4g} of predicting "
        f"zero, and waits there at {curve.steps[begin]:g}: the records before are left out, and "
        "half-drops are not compared, as the initial weights are not small"
        for curve, begin in zip(curves, begins, strict=True)
        if begin
    ]
    curves = [curve.since(begin) for curve, begin in zip(curves, begins, strict=True)]
    features = [
        find_features(
            curve, theory.levels, theory.remainder, distinct, float(theory.durations[-1])
        )
        for curve in curves
    ]
    comparing = _Comparing(theory, features, remarks, small_start=not any(begins))
    rows = comparing.rows()
    return rows, comparing.remarks


def null_plateaus(curves: Sequence[Curve], theory: CurveTheory) -> list[int]:
    """Record of each curve from which on it counts: 0, or at a plateau at the null loss."""
    null = float(theory.levels[0])
    return [null_plateau(curve, null, _null_doubt(theory)) for curve in curves]


@dataclass
class _Comparing:
    """Theory beside what was found in the curves; remarks are added as rows are made."""

    theory: CurveTheory
    features: Sequence[CurveFeatures]
    remarks: list[str]
    small_start: bool = True

    def rows(self) -> list[CurveRow]:
        """All rows, in the order of the training."""
        theory = self.theory
        last = len(self.theory.setting.learned) - 1
        # What random weights change in the loss has grown until the first record.
        grown = theory.start_loss
        if theory.setting.model != "separate":
            first = max(float(features.curve.steps[0]) for features in self.features)
            grown *= math.exp(min(2 * float(theory.growth[0]) * first, LARGE))
        initial = [features.initial for features in self.features]
        rows = [self._loss("initial loss", 0, initial, grown - theory.start_loss)]
        timed = theory.setting.timed
        made = []
        if theory.growth[0] > 0 and not timed:
            rows += self._growth()
        for m in range(1, last + 1):
            halves = np.array([features.half_drops[m - 1] for features in self.features])
            half = self._half_drop(m - 1, halves) if timed and self.small_start else []
            rows += half
            if not np.isfinite(halves).all():
                self._note_null(m)
                break
            made += [(m - 1, row) for row in half]
            rows += self._duration(m - 1) if timed else []
            rows += self._plateau(m) if m < last else self._final()
        return self._ties(rows) + self._together(made)

    def _note_null(self, m: int) -> None:
        """Note which curves have learned nothing yet."""
        null = float(self.theory.levels[0])
        waiting = [
            features.curve.label
            for features in self.features
            if m == 1 and abs(features.final / null - 1) <= _null_doubt(self.theory)
        ]
        if waiting:
            self.remarks.append(
                f"{', '.join(waiting)}: the loss stays at that of predicting zero, {null:.4g}, to "
                "the end: nothing has been learned yet"
            )

    def _growth(self) -> list[CurveRow]:
        """Row of the rate of the first growth on a mixture of tasks."""
        theory = self.theory
        rates = np.array(
            [
                growth_rate(
                    features.curve.steps, features.curve.losses, theory.start_loss + features.noise
                )
                for features in self.features
            ]
        )
        if not np.isfinite(rates).all():
            self.remarks.append(
                "rate of the first growth: not known of all curves, as there are too few records "
                "before the drop, or the initial weights are not small"
            )
            return []
        error = float(theory.fluctuations.rates[0]) / math.sqrt(len(rates))
        rate = 2 * float(theory.growth[0])
        allowance = GROWTH_ERROR + rate / 4 / theory.setting.step_unit * (
            theory.setting.learning_rate is not None
        )
        mean = float(np.exp(np.mean(np.log(rates))))
        row = self._row("growth", 0, rate, mean, error, allowance)
        return [replace(row, spread=_spread(np.log(rates)))]

    def _ties(self, rows: list[CurveRow]) -> list[CurveRow]:
        """Allow for heads that learn a direction together, in all drops but one."""
        drops = [row for row in rows if row.quantity == "duration"]
        if self.theory.setting.model != "separate" or self.theory.setting.heads == 1 or not drops:
            return rows
        shortest = min(drops, key=lambda row: row.relative)
        longer = [row for row in drops if row is not shortest or len(drops) == 1]
        return [replace(row, above=TIE) if row in longer else row for row in rows]

    def _together(self, made: Sequence[tuple[int, CurveRow]]) -> list[CurveRow]:
        """Row of the factor that several half-drops of random starts have in common."""
        theory = self.theory
        count = len(self.features)
        if len(made) < 2 or math.isinf(theory.start.draws):
            return []
        drops = [drop for drop, _ in made]
        rows = [row for _, row in made]
        weights = np.array([row.standard_error**-2 for row in rows])
        weights /= np.sum(weights)
        alone = theory.staircase_variance + theory.fluctuations.rates**2
        total = theory.start.covariance / theory.start.draws
        total = total + (theory.start.covariance + np.diag(alone)) / count
        error = math.sqrt(weights @ total[np.ix_(drops, drops)] @ weights)
        factor = math.exp(weights @ [row.deviation for row in rows])
        allowance = float(weights @ [row.allowance for row in rows])
        row = self._row("half-drops", -1, 1.0, factor, error, allowance)
        return [replace(row, degrees=theory.start.draws - 1, pooled=len(rows))]

    def _row(
        self,
        quantity: str,
        learned: int,
        theory: float,
        estimate: float,
        standard_error: float,
        allowance: float,
    ) -> CurveRow:
        """Row of a number of all curves."""
        return CurveRow(
            self._label(quantity, learned),
            theory,
            estimate,
            standard_error,
            allowance,
            of="time" if quantity in TIMES else "loss",
            quantity=quantity,
            learned=learned,
            curves=len(self.features),
        )

    def _label(self, quantity: str, learned: int) -> str:
        """Name of a row in words."""
        axis = self.features[0].curve.axis
        several = f" to {learned}" if self.theory.setting.model == "separate" else ""
        words = {
            "growth": f"rate of the first growth of the drop, per {axis}",
            "plateau": f"loss with {learned} learned",
            "half-drops": f"{axis}s of all half-drops, common factor",
            "half-drop": f"{axis} of half the drop{several}",
            "duration": f"{axis}s of the drop{several}",
        }
        return words.get(quantity, quantity)

    def _loss(
        self,
        quantity: str,
        m: int,
        losses: Sequence[float] | np.ndarray,
        uncertain: float,
        expected: float | None = None,
    ) -> CurveRow:
        """Row of a loss; ``uncertain`` is absolute."""
        theory = self.theory
        level = float(theory.levels[m]) if expected is None else expected
        first = quantity == "initial loss"
        noise = np.mean([f.noise**2 / (f.early if first else f.window) for f in self.features])
        variance = theory.fluctuations.losses[m] ** 2
        variance += (noise + theory.start_loss**2) / level**2
        rounding = max(_rounding(features.curve.losses) for features in self.features)
        # Initial weights enter by products of normal numbers, whose sums over the heads have the
        # excess kurtosis 6/H: as a Student t of H + 4 degrees of freedom.
        by_start = first and theory.start_loss**2 > variance * level**2 / 2
        degrees = theory.setting.heads * len(losses) + 4 if by_start else math.inf
        mean = float(np.mean(losses))
        error = math.sqrt(variance / len(losses))
        learned = theory.setting.learned[m]
        row = self._row(quantity, learned, level, mean, error, (uncertain + rounding) / level)
        spread = _spread(np.log(np.maximum(losses, SMALLEST)))
        return replace(row, spread=spread, degrees=degrees)

    def _time(
        self, quantity: str, drop: int, times: np.ndarray, error: float, allowance: float
    ) -> CurveRow:
        """Row of steps or times, of which the mean is the geometric one."""
        theory = self.theory
        half = quantity == "half-drop"
        predicted = float((theory.half_drops if half else theory.durations)[drop])
        allowance += float(theory.delays[0 if half else 1, drop]) + theory.fluctuations.bias
        logs = np.log(times)
        mean = float(np.exp(np.mean(logs)))
        crossing = self._crossing_error(drop)
        # Records may be sparse for what is predicted and dense for what was found.
        allowance += (1 if half else 2) * crossing / (predicted if predicted > crossing else mean)
        learned = theory.setting.learned[drop + 1]
        row = self._row(quantity, learned, predicted, mean, error, allowance)
        return replace(row, spread=_spread(logs))

    def _half_drop(self, drop: int, halves: np.ndarray) -> list[CurveRow]:
        """Row of the step at which half of a drop has happened."""
        theory = self.theory
        ends = np.array([features.curve.steps[-1] for features in self.features])
        predicted = float(theory.half_drops[drop])
        m = theory.setting.learned[drop + 1]
        reached = np.isfinite(halves)
        count = len(halves)
        if math.isinf(predicted):
            why = "theory expects that it is not made by all runs"
            if reached.any():
                why = "theory has no mean, as some runs never make it"
            self.remarks.append(f"drop to {m} learned: {why}")
            return []
        row = self._half_drop_row(drop, np.where(reached, halves, ends))
        if reached.all():
            return [row]
        row = replace(row, upper_bound=True, of="")
        who = "no curve" if not reached.any() else f"{reached.sum()} of {count} curves"
        self.remarks.append(
            f"drop to {m} learned: made by {who} before the end at {ends.max():g}; theory expects "
            f"it at {predicted:.4g}"
        )
        return [row] if row.z > 0 else []

    def _half_drop_row(self, drop: int, steps: np.ndarray) -> CurveRow:
        """Row of these steps, with their law over starts."""
        theory = self.theory
        start = theory.start
        count = len(steps)
        variance = start.variance[drop] + theory.staircase_variance[drop]
        variance += theory.fluctuations.rates[drop] ** 2
        error = math.sqrt(variance / count + start.variance[drop] / start.draws)
        skewness = float(start.third[drop]) / count**2 / error**3 if error else 0.0
        row = self._time("half-drop", drop, steps, error, self._start_allowance())
        return replace(row, skewness=skewness, degrees=start.draws - 1)

    def _duration(self, drop: int) -> list[CurveRow]:
        """Row of the time from a quarter to three quarters of a drop."""
        m = self.theory.setting.learned[drop + 1]
        if math.isnan(self.theory.durations[drop]):
            return []
        durations = np.array([features.durations[drop] for features in self.features])
        # Those of some curves only would be the longer ones.
        if not np.all(np.isfinite(durations)):
            self.remarks.append(
                f"drop to {m} learned: its duration is not known of all curves, as there are too "
                "few records or no distinct plateaus beside it"
            )
            return []
        rates = float(self.theory.fluctuations.rates[drop])
        random = 0.0
        allowance = self._start_allowance()
        if self.theory.setting.model == "separate":
            random = self.theory.setting.start * RANDOM_DURATION_ERROR
            allowance = self.theory.setting.start * DURATION_ALLOWANCE
            beside = [
                features.contrasts[max(drop - 1, 0) : drop + 1] for features in self.features
            ]
            allowance += float(np.max(np.nan_to_num(beside), initial=0.0))
        random = math.hypot(random, self._crossing_noise(drop))
        error = math.hypot(DURATION_SPREAD * rates, random) / math.sqrt(len(durations))
        allowance += SECOND_ORDER * rates**2
        return [self._time("duration", drop, durations, error, allowance)]

    def _plateau(self, m: int) -> list[CurveRow]:
        """Row of the loss at a plateau between two drops."""
        theory = self.theory
        distinct = [features for features in self.features if np.isfinite(features.heights[m - 1])]
        if not distinct:
            merged = any(np.isfinite(features.contrasts[m - 1]) for features in self.features)
            why = "the drops beside it merge" if merged else "too few records between its drops"
            learned = theory.setting.learned[m]
            self.remarks.append(f"plateau with {learned} learned: none found, as {why}")
            return []
        drops = theory.levels[:-1] - theory.levels[1:]
        contrast = max(features.contrasts[m - 1] for features in distinct)
        uncertain = SLOPE * contrast * min(drops[m - 1], drops[m])
        uncertain += max(features.drifts[m - 1] for features in distinct)
        uncertain += theory.setting.start**2 * float(theory.levels[m])
        heights = [features.heights[m - 1] for features in distinct]
        row = replace(self, features=distinct)._loss("plateau", m, heights, uncertain)
        lam = theory.setting.law["eigenvalues"]
        exchanges = [
            drops[inside] - drops[outside]
            for inside, outside in itertools.product(range(m), range(m, len(drops)))
            if lam[outside] >= CLOSE * lam[inside]
        ]
        return [replace(row, above=float(max(exchanges, default=0.0) / row.theory))]

    def _final(self) -> list[CurveRow]:
        """Row of the final loss, with what is left of the last drop."""
        theory = self.theory
        level = float(self.theory.levels[-1])
        parts = [features.ahead for features in self.features]
        rest = float(np.mean(parts)) * float(theory.levels[-2] - level)
        uncertain = TAIL * rest + theory.fluctuations.bias * level
        losses = [features.final for features in self.features]
        setting = theory.setting
        above = 0.0
        below = 0.0
        if not setting.timed:
            ahead = [
                last_fall(features.curve.steps, features.curve.losses) + self._unlearned(features)
                for features in self.features
            ]
            above = max(ahead) / level
            if above > HOPELESS:
                self.remarks.append(
                    "final loss: not compared, as directions of small eigenvalue may not be "
                    "learned by the end"
                )
                return []
        if setting.mixed and setting.model == "merged":
            least = setting.recorded(least_merged_loss(setting.problem))
            below = math.log(level / max(least, SMALLEST))
        row = self._loss("final loss", -1, losses, uncertain, level + rest)
        return [replace(row, below=below, above=above)]

    def _unlearned(self, features: CurveFeatures) -> float:
        """Loss of directions that, at their smaller rate, cannot have been learned by the end.

        A direction takes as much longer than the first as the squares of their eigenvalues differ.
        """
        setting = self.theory.setting
        lam = np.sort(setting.eigenvalues)[::-1]
        late = features.curve.steps[-1] < features.half_drops[0] * (lam[0] / lam) ** 2
        return float(setting.loss_unit * setting.loss_factor * np.sum(lam[late]))

    def _crossing_error(self, drop: int) -> float:
        """Uncertainty of the step at which a level is crossed, by the distance of records."""
        spacings = np.array([features.spacings[drop] for features in self.features])
        if np.isnan(spacings).all():
            return 0.0
        spacing = float(np.nanmean(spacings))
        duration = float(self.theory.durations[drop])
        return spacing * min(0.5, CURVATURE * spacing / duration if duration > 0 else 0.5)

    def _crossing_noise(self, drop: int) -> float:
        """Standard error of a duration by the noise of the records, relative, of one curve."""
        noise = max(features.noise / math.sqrt(features.window) for features in self.features)
        # Between its quarters the loss falls by half of a drop.
        return 2 * math.sqrt(2) * noise / float(-np.diff(self.theory.levels)[drop])

    def _start_allowance(self) -> float:
        """Relative error of times that is of the order of the initial weights."""
        setting = self.theory.setting
        return setting.start if setting.model != "separate" else 0.0


def _null_doubt(theory: CurveTheory) -> float:
    """Part by which a loss at the plateau of predicting zero may differ from that of theory."""
    return NEAR + 3 * float(theory.fluctuations.losses[0])


def _spread(logs: np.ndarray) -> float:
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else math.nan


def _rounding(losses: np.ndarray) -> float:
    """Half of the last decimal, if losses are rounded to a few; 0 otherwise."""
    for digits in DIGITS:
        scaled = losses * 10.0**digits
        if np.all(np.abs(scaled - np.round(scaled)) < 1e-6):
            return float(0.5 * 10.0**-digits)
    return 0.0
