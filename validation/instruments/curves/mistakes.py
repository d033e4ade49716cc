"""Mistakes that trainings are stated with: one row each, and those with a value that is fitted."""

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.dynamics.attention_models import INITIALIZATIONS
from iclimit.validation.instruments.curves.rows import CurveRow
from iclimit.validation.instruments.curves.setting import CurveSetting
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import CurveTheory
from iclimit.validation.instruments.explaining import Mistake

# Traces within this relative distance count as the same.
SAME = 0.01

# Rows that a wrong unit of time is found from, the one that is best known first.
RATES = "duration", "growth", "half-drops", "half-drop"

# A value that is known better than this is shown without an interval.
EXACT = 1e-3

# No loss or initial scale is wrong by a factor with a logarithm as large as this.
WRONG = 30.0

# The initial loss can ask for another scale than the half-drop: standard errors from it.
DEVIATIONS = 0, 1, -1, 2, -2

# Steps that count otherwise than once: less, and more.
COUNTED = "several records are one step", "a record counts so many steps (an epoch)"

# Contexts up to this one are tried.
LONGEST = 10**5


@dataclass(frozen=True)
class Candidate:
    """What could be otherwise than stated.

    Attributes
    ----------
    text : str
        Completes "fits if".
    changes : mapping
        Fields of the setting.
    fitted : bool
        Whether a value was fitted to one kind of row.
    records : callable, optional
        Curve as it should have been recorded.
    """

    text: str
    changes: Mapping[str, Any]
    fitted: bool = False
    records: Callable[[Curve], Curve] | None = None

    @property
    def subjects(self) -> set[str]:
        """Fields that are changed; the unit of a step is one of time."""
        return {"time_unit" if name == "step_unit" else name for name in self.changes}


def _always(changes: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    return lambda *_: changes


def _powered_clock(setting: CurveSetting, _: float, power: float) -> dict[str, Any]:
    """A clock that counts a power of the context length times."""
    return {"time_unit": float(setting.context) ** power}


def _trace(setting: CurveSetting, wanted: float) -> dict[str, Any]:
    """Eigenvalues of another sum."""
    trace = sum(setting.eigenvalues)
    if abs(trace / wanted - 1) <= SAME:
        return {}
    return {"eigenvalues": _scaled(setting, wanted / trace)}


def _scaled(setting: CurveSetting, factor: float) -> tuple[float, ...]:
    return tuple(factor * eigenvalue for eigenvalue in setting.eigenvalues)


def _equal(setting: CurveSetting, _: float) -> dict[str, Any]:
    """Eigenvalues that are all the same."""
    mean = sum(setting.eigenvalues) / len(setting.eigenvalues)
    if np.ptp(setting.eigenvalues) <= SAME * mean:
        return {}
    return {"eigenvalues": (mean,) * len(setting.eigenvalues)}


def _other(choices: Sequence[str], stated: str) -> str:
    """Another one of two choices."""
    return next(choice for choice in choices if choice != stated)


# Powers of the context N that the unit of time may be wrong by.
POWERS = {"N": 1, "1/N": -1, "N^2": 2, "1/N^2": -2}

# What scores are called by their normalization.
SCORES = {"mean": "divided by N", "sum": "not divided by N"}

# Mistakes in losses, times and the law of the data.
MISTAKES = (
    Mistake(
        "the loss that is trained on and recorded has the factor {loss_factor:g}",
        lambda s, _: {} if s.learning_rate is None else {"loss_factor": 0.5 / s.loss_factor},
    ),
    Mistake("losses are recorded with half the stated factor", _always({"loss_unit": 0.5})),
    Mistake("losses are recorded with twice the stated factor", _always({"loss_unit": 2.0})),
    Mistake("the {clock} is half of what is stated", _always({"time_unit": 0.5})),
    Mistake("the {clock} is twice what is stated", _always({"time_unit": 2.0})),
    Mistake(
        "there is momentum 0.9, which makes steps count ten times", _always({"time_unit": 10.0})
    ),
    Mistake(
        "scores are {scores} (normalization {normalization})",
        lambda s, _: {"normalization": _other(NORMALIZATIONS, s.normalization)},
    ),
    *(
        Mistake(f"the {{clock}} counts {name} times", partial(_powered_clock, power=power))
        for name, power in POWERS.items()
    ),
    Mistake("the eigenvalues have the sum {trace:g}", lambda s, _: _trace(s, 1.0)),
    Mistake("the eigenvalues have the sum {trace:g}", lambda s, _: _trace(s, len(s.eigenvalues))),
    Mistake("the eigenvalues are all equal", _equal),
    Mistake(
        "there are {context} pairs besides the query",
        lambda s, _: {"context": s.context - 1} if s.context > 1 else {},
    ),
    Mistake(
        "there are {context} pairs besides the query", lambda s, _: {"context": s.context + 1}
    ),
    Mistake(
        "recorded losses are of labels with {no}noise",
        lambda s, _: {"query_noise": not s.query_noise} if s.noise_variance else {},
    ),
    Mistake(
        "noise_variance is a standard deviation",
        lambda s, _: {"noise_variance": s.noise_variance**2},
    ),
)

# Mistakes in the law of the initial weights, if these are not given.
STARTS = (
    Mistake("init_scale is a variance", lambda s, _: {"init_scale": math.sqrt(s.init_scale)}),
    Mistake(
        "initialization is {initialization}",
        lambda s, _: (
            {"initialization": _other(INITIALIZATIONS, s.initialization)} if s.separate else {}
        ),
    ),
    Mistake(
        "key and query are merged",
        lambda s, _: {"model": "merged", "rank": 1} if s.separate else {},
    ),
)

# A mistake if there are plateaus that the stated model does not have.
STAIRCASE = Mistake("key and query are separate", _always({"model": "separate"}))

# Mistakes in the shares of a mixture.
MIXTURES = (
    Mistake("all tasks are random", _always({"fresh_fraction": 1.0, "shared_task": None})),
    Mistake(
        "fresh_fraction is the fraction of sequences with the shared task",
        lambda s, _: {"fresh_fraction": 1 - s.fresh_fraction},
    ),
)


def likely_mistakes(setting: CurveSetting, known_start: bool, staircase: bool) -> list[Mistake]:
    """Mistakes that are tried.

    Parameters
    ----------
    setting : CurveSetting
        As it was stated.
    known_start : bool
        Whether the initial weights are given, so that their law does not matter.
    staircase : bool
        Whether the curves have plateaus that the stated model does not.
    """
    possible = list(MISTAKES)
    if not known_start:
        possible += STARTS
        if staircase and not setting.separate:
            possible.append(STAIRCASE)
    if setting.mixed:
        possible += MIXTURES
    return possible


def likely_candidate(mistake: Mistake, setting: CurveSetting) -> Candidate:
    """What a mistake changes, in words; nothing if it is not possible."""
    changes = mistake.change(setting, math.nan)
    changed = replace(setting, **changes)
    if changed == setting:
        return Candidate("", {})
    words = {
        "clock": "unit of time" if setting.learning_rate is None else "learning rate",
        "no": "" if changed.query_noise else "no ",
        "scores": SCORES[changed.normalization],
        "trace": sum(changed.eigenvalues),
    }
    return Candidate(mistake.text.format(**vars(changed), **words), changes)


def fitted_mistakes(
    theory: CurveTheory, rows: Sequence[CurveRow], known_start: bool
) -> Iterator[Candidate]:
    """Yield one parameter at a time with the value that fits best.

    Each is found from one kind of row; whether it explains the others is for the caller to see.
    """
    by_quantity = {row.quantity: row for row in rows[::-1]}
    yield from _of_losses(theory.setting, by_quantity["initial loss"])
    timing = next((by_quantity[name] for name in RATES if name in by_quantity), None)
    if timing is not None:
        yield from _of_times(theory.setting, timing)
    if "half-drop" in by_quantity and not known_start:
        yield from _of_starts(theory, by_quantity["half-drop"])
    final = by_quantity.get("final loss")
    if final is not None and abs(final.z) > 1:
        yield _of_context(theory, final)


def _of_losses(setting: CurveSetting, row: CurveRow) -> Iterator[Candidate]:
    """Factors of the loss, the eigenvalues and the noise by the initial loss."""
    loss, error = factor_and_error(row)
    if not SAME < abs(math.log(max(loss, 1e-300))) < WRONG:
        return
    unit = setting.loss_unit * loss
    text = f"losses are recorded with {_words(unit, error)} times the stated factor"
    yield Candidate(text, {"loss_unit": unit}, fitted=True)
    trace = sum(setting.eigenvalues)
    dim = len(setting.eigenvalues)
    square = row.estimate / (setting.loss_unit * setting.loss_factor)
    signal = square - setting.noise_variance * setting.query_noise
    if signal <= 0 or setting.mixed:
        return
    scaled = {"eigenvalues": _scaled(setting, signal / trace)}
    yield Candidate(f"the eigenvalues have the sum {signal:.4g}", scaled, fitted=True)
    white = {"eigenvalues": (signal / dim,) * dim}
    yield Candidate(f"the inputs are white, of variance {signal / dim:.4g}", white, fitted=True)
    if setting.query_noise and square > trace:
        noise = {"noise_variance": square - trace}
        yield Candidate(f"noise_variance is {square - trace:.4g}", noise, fitted=True)


def _of_times(setting: CurveSetting, row: CurveRow) -> Iterator[Candidate]:
    """Units of time by a row that has it: of the learning rate, and of what counts as a step."""
    factor, error = factor_and_error(row)
    ratio = factor if row.quantity == "growth" else 1 / factor
    unit = setting.time_unit * ratio
    if setting.learning_rate is None:
        yield Candidate(f"times count {_words(unit, error)} times", {"time_unit": unit}, True)
        return
    words = f"steps count {_words(unit, error)} times"
    rate = f"the learning rate is {unit * setting.learning_rate:.3g}"
    momentum = f", or there is momentum {1 - 1 / unit:.3g}" if unit > 1 else ""
    counted = COUNTED[unit > 1]
    yield Candidate(f"{words}: {rate}{momentum}, or {counted}", {"time_unit": unit}, True)
    # A larger rate would make the steps too long for the theory; more of them do not.
    steps = setting.step_unit * ratio
    yield Candidate(f"{words}: {counted}", {"step_unit": steps}, True)


def _of_starts(theory: CurveTheory, row: CurveRow) -> Iterator[Candidate]:
    """Initial scales by the first half-drop."""
    setting = theory.setting
    late, error = factor_and_error(row)
    if setting.separate:  # weights grow as 1/(t_0 - t)
        ratio = 1 / late
    else:  # exponentially
        growths = float(theory.growth[0] * theory.half_drops[0])
        ratio = math.exp(min(growths * (1 - late), WRONG))
        error *= growths
    error = min(error, WRONG)
    text = f"init_scale is {_words(setting.init_scale * ratio, error)}"
    for deviations in DEVIATIONS:
        scale = setting.init_scale * ratio * math.exp(deviations * error)
        yield Candidate(text, {"init_scale": scale}, fitted=True)


def _of_context(theory: CurveTheory, row: CurveRow) -> Candidate:
    """Context by the final loss."""
    wanted = row.estimate - (row.theory - float(theory.levels[-1]))

    def reached(context: int) -> float:
        return -float(replace(theory.setting, context=context).levels[-1])

    context = bisect.bisect_left(range(LONGEST), -wanted, 1, key=reached)
    closest = min((max(context - 1, 1), context), key=lambda N: abs(reached(N) + wanted))
    text = f"there are {closest} pairs besides the query"
    return Candidate(text, {"context": closest}, fitted=True)


def factor_and_error(row: CurveRow) -> tuple[float, float]:
    """Found over theory, and the standard error of its logarithm."""
    return row.estimate / row.theory, math.hypot(row.standard_error, row.allowance)


def _words(value: float, error: float) -> str:
    """Value with the interval of two standard errors of its logarithm."""
    if error < EXACT:
        return f"{value:.4g}"
    factor = math.exp(min(2 * error, WRONG))
    return f"{value:.3g} ({value / factor:.2g} to {value * factor:.2g})"
