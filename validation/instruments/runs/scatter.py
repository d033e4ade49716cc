r"""Whether measured errors scatter from run to run as predicted.

A row with several single runs, or with an error bar and the number of its runs, has a measured
standard deviation s of one run.  Over all rows :math:`\sum (R - 1) s^2/\sigma^2` is compared with
chi-square of :math:`\sum (R - 1)` degrees of freedom, where :math:`\sigma` is the predicted
standard deviation.  The prediction is doubted: its logarithm has the standard error
:math:`0.04 + 1/d`, and more near thresholds, which lowers the degrees of freedom.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtr, chdtrc

from iclimit.comparison import ERRORS
from iclimit.statistics import FALSE_ALARM
from iclimit.validation.instruments.runs.judgement import RowDeviation, chi_square, compare_run
from iclimit.validation.instruments.runs.predictions import Prediction

# Constant part of the uncertainty of the logarithm of a predicted standard deviation.
DOUBT = 0.04

# Part of this uncertainty that falls with the dimension, times the dimension.
DOUBT_OF_SIZE = 1.0

# Part of this uncertainty that is due to the predicted mean, in units of the relative uncertainty
# of the mean, which is large near thresholds.
DOUBT_OF_MEAN = 5.0

# Below this probability the deviations count as far below the error bars.
FAR_BELOW = 1e-3

# Half the width of an interval of 95 % in standard errors.
INTERVAL = 1.96

# An explanation agrees if the logarithm of its ratio is within so many standard errors.
NEAR = 2.0


@dataclass(frozen=True)
class ScatterRatio:
    """Measured over predicted standard deviation of the errors of one run, over all rows.

    Attributes
    ----------
    ratio : float
        Root of the mean of the squared ratios.
    degrees : float
        Effective degrees of freedom, fewer than those of the runs because of the doubt.
    scatter : float
        Predicted standard deviation of one run, relative to its error.
    runs : float
        Mean number of runs of a row.
    copies : int
        Single runs with exactly the same error as another one of the same row.
    prompts : float
        Ratio if the runs of each row shared one task set.
    given : str
        How the scatter was given: "runs", "standard deviations" or "standard errors".
    """

    ratio: float
    degrees: float
    scatter: float
    runs: float
    copies: int
    prompts: float
    given: str

    @property
    def p_value(self) -> float:
        """Probability of a ratio further from 1."""
        value = self.degrees * self.ratio**2
        tails = chdtr(self.degrees, value), chdtrc(self.degrees, value)
        return min(1.0, 2 * float(min(tails)))

    @property
    def holds(self) -> bool:
        """Whether the scatter is as predicted (copies are said apart from it)."""
        return self.p_value >= FALSE_ALARM / len(ERRORS)

    def explanations(self) -> Iterator[str]:
        """What may be the reason, completing "as if"."""
        if not self.ratio:
            yield "runs share prompts and seeds"
            return
        times = f"{1 / self.ratio**2:.2g}"
        root = math.sqrt(self.runs)
        if self.ratio < 1:
            if self._near(self.prompts) and self.prompts < 1:
                yield "the runs of a row share one task set"
            if self.given == "standard deviations" and self._near(1 / root):
                yield "standard deviations are standard errors of the mean"
            if self.given == "standard errors":
                yield f"{times} times as many runs were behind each mean"
            yield "runs share prompts or seeds"
        else:
            if self.given == "standard errors":
                if self._near(root):
                    yield "standard errors are standard deviations of single runs"
                if self._near(INTERVAL):
                    yield "standard errors are half the widths of intervals of 95 %"
                yield f"{times} times as many runs were behind each mean"
            tests = 2 / (self.scatter**2 * (self.ratio**2 - 1))
            yield f"each error was measured on about {float(f'{tests:.2g}'):g} test prompts"

    def _near(self, ratio: float) -> bool:
        return abs(math.log(self.ratio / ratio)) < NEAR / math.sqrt(2 * self.degrees)


def scatter_ratios(rows: Sequence[RowDeviation], *, one_set: bool) -> dict[str, ScatterRatio]:
    """Measured over predicted scatter of the ICL and the IDG errors, where both are known."""
    ratios = {name: _ratio(rows, name, one_set) for name in ERRORS}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None}


def _ratio(rows: Sequence[RowDeviation], name: str, one_set: bool) -> ScatterRatio | None:
    place = ERRORS.index(name)
    compared = []
    copies = 0
    given = "standard errors"
    for row in rows:
        run = row.run
        prediction = row.prediction
        count = row.run.runs or 1
        prompts = prediction.scatter[place, place]
        tasks = prediction.spread[place, place]
        predicted = prediction.finite and 0 < prompts < math.inf and not prediction.heavy
        # Positions are those of the same runs, and their scatter is simulated at a smaller size.
        if name not in run.errors or count < 2 or not predicted or run.by_position:
            continue
        error = run.errors[name]
        mean = prediction.mean[place]
        if len(error.samples) and np.all(error.samples > 0):
            measured = float(np.var(np.log(error.samples), ddof=1))
            given = "runs"
            copies += len(error.samples) - len(np.unique(error.samples))
        elif error.mean > 0:
            measured = count * (error.standard_error / error.mean) ** 2
            given = "standard deviations" if run.deviations_given else given
        else:
            continue
        if math.isfinite(measured):
            doubt = 2 * np.linalg.norm(prediction.doubts[place]) / mean
            doubt = DOUBT + DOUBT_OF_SIZE / run.sizes["dim"] + DOUBT_OF_MEAN * doubt
            total = prompts + (0.0 if one_set else tasks)
            compared.append(
                (count, measured * mean**2 / total, total / mean**2, prompts / total, doubt)
            )
    if not compared:
        return None
    runs, squares, totals, shares, doubts = np.transpose(compared)
    weights = (runs - 1) / np.sum(runs - 1)
    degrees = 1 / (1 / np.sum(runs - 1) + 2 * float(weights @ doubts) ** 2)
    return ScatterRatio(
        math.sqrt(weights @ squares),
        float(degrees),
        math.sqrt(weights @ totals),
        float(np.mean(runs)),
        copies,
        math.sqrt(weights @ shares),
        given,
    )


def scatter_hints(
    rows: Sequence[RowDeviation], ratios: Mapping[str, ScatterRatio]
) -> Iterator[str]:
    """Sentences on errors that do not scatter as predicted, or far less than their error bars."""
    for name, ratio in ratios.items():
        if ratio.copies:
            which = f"{ratio.copies} single {name.upper()} errors"
            yield f"{which} repeat another one of their row exactly: do runs share seeds?"
        if not ratio.holds:
            yield (
                f"{name.upper()} errors scatter {ratio.ratio:.2g} times as much from run to run "
                f"as predicted (p = {ratio.p_value:.1g}): as if "
                f"{', or '.join(ratio.explanations())}."
            )
    alone = [compare_run(row.run, Prediction(row.prediction.mean), one_set=False) for row in rows]
    total = chi_square(alone)
    if total.lower_p_value <= FAR_BELOW:
        yield (
            f"The scatter is far below the error bars: chi-square {total.value:.2g} for "
            f"{total.count} errors, p = {total.lower_p_value:.1g}. Are these standard deviations "
            "of single runs, not standard errors of their mean?"
        )
