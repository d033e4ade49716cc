"""What would explain curves that contradict the theory: one change of the statement at a time.

Changes are likely mistakes, and parameters that are fitted to one kind of row each.
"""

import bisect
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.dynamics.attention_models import INITIALIZATIONS
from iclimit.validation.instruments.curves.judgement import CurveVerdict, judge_curves
from iclimit.validation.instruments.curves.reading import StatedCurves
from iclimit.validation.instruments.curves.rows import CurveRow, compare_curves
from iclimit.validation.instruments.curves.setting import CurveSetting
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import CurveTheory, predict_curve

# What is changed of a setting, field by field.
Changes = dict[str, Any]

# A mistake with larger allowances than this would explain anything.
VAGUE = 0.3

# What an explanation must have rows of if the stated theory was contradicted there.
LASTING = {"initial loss", "duration", "growth"}

# Most rounds in which a parameter is fitted.
ROUNDS = 4


def explanations(stated: StatedCurves, theory: CurveTheory, verdict: CurveVerdict) -> list[str]:
    """Every change that alone makes the curves agree with the theory, in words.

    Parameters
    ----------
    stated : StatedCurves
        The curves, with what is stated of them.
    theory : CurveTheory
        The theory as stated.
    verdict : CurveVerdict
        Verdict on their comparison.
    """
    if verdict.kind != "contradicts":
        return []
    curves = stated.curves
    needed = {row.quantity for row in verdict.outliers} & LASTING
    known = stated.starts.known
    texts = []
    explained = set[str]()

    def agrees(changes: Changes) -> tuple[bool, CurveTheory | None]:
        """Whether the curves agree once fields are changed, and the theory then."""
        try:
            changed = replace(theory.setting, **changes)
            other = predict_curve(changed, stated.starts)
        except (ValueError, ArithmeticError):  # out of the range of the theory
            return False, None
        if changed.optimizer == "other" and np.array_equal(other.levels, theory.levels):
            return False, None
        return is_explained(curves, other, needed), other

    for text, changes in likely_mistakes(theory.setting, known, bool(verdict.unexpected)):
        if agrees(changes)[0]:
            texts.append(text)
            explained |= set(changes)
    for text, changes in fitted_changes(theory, verdict.measured, known):
        # What is found in the curves depends a little on the theory beside it.
        for _ in range(0 if explained & set(changes) else ROUNDS):
            fits, other = agrees(changes)
            if fits:
                texts.append(text)
                explained |= set(changes)
            if fits or other is None:
                break
            again = fitted_changes(other, compare_curves(curves, other)[0], known)
            better = next((change for change in again if set(change[1]) == set(changes)), None)
            if better is None or better[1] == changes:
                break
            text, changes = better
    return texts


def is_explained(
    curves: Sequence[Curve], theory: CurveTheory, needed: Collection[str] = ()
) -> bool:
    """Whether curves agree with another theory, in more than initial loss and half-drops.

    Quantities that are needed must be among those that are compared.
    """
    rows, _ = compare_curves(curves, theory)
    compared = {row.quantity for row in rows}
    tested = compared & {"plateau", "duration", "final loss"} and compared.issuperset(needed)
    sharp = all(row.allowance < VAGUE for row in rows)
    agrees = judge_curves(curves, theory, rows).kind != "contradicts"
    return bool(tested) and sharp and agrees


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

# Contexts up to this one are tried.
LONGEST = 10**5


def likely_mistakes(
    setting: CurveSetting, known_start: bool, staircase: bool
) -> Iterator[tuple[str, Changes]]:
    """Yield what could be otherwise than stated, in words after "fits if", and as fields.

    Parameters
    ----------
    setting : CurveSetting
        As it was stated.
    known_start : bool
        Whether the initial weights are given, so that their law does not matter.
    staircase : bool
        Whether the curves have plateaus that the stated model does not.
    """
    N = setting.context
    dim = len(setting.eigenvalues)
    trace = sum(setting.eigenvalues)
    separate = setting.model == "separate"
    noise = setting.noise_variance
    what = "unit of time" if setting.learning_rate is None else "learning rate"
    if setting.learning_rate is not None:
        factor = 0.5 / setting.loss_factor
        text = f"the loss that is trained on and recorded has the factor {factor:g}"
        yield text, {"loss_factor": factor}
    yield "losses are recorded with half the stated factor", {"loss_unit": 0.5}
    yield "losses are recorded with twice the stated factor", {"loss_unit": 2.0}
    yield f"the {what} is half of what is stated", {"time_unit": 0.5}
    yield f"the {what} is twice what is stated", {"time_unit": 2.0}
    yield "there is momentum 0.9, which makes steps count ten times", {"time_unit": 10.0}
    words = {"mean": "divided by N", "sum": "not divided by N"}
    other = next(name for name in NORMALIZATIONS if name != setting.normalization)
    yield f"scores are {words[other]} (normalization {other})", {"normalization": other}
    for name, power in (("N", 1), ("1/N", -1), ("N^2", 2), ("1/N^2", -2)):
        yield f"the {what} counts {name} times", {"time_unit": float(N) ** power}
    for wanted in {1.0, float(dim)}:
        if abs(trace / wanted - 1) > SAME:
            scaled = tuple(wanted / trace * eigenvalue for eigenvalue in setting.eigenvalues)
            yield f"the eigenvalues have the sum {wanted:g}", {"eigenvalues": scaled}
    if np.ptp(setting.eigenvalues) > SAME * trace / dim:
        yield "the eigenvalues are all equal", {"eigenvalues": (trace / dim,) * dim}
    for count in (N - 1, N + 1) if N > 1 else (N + 1,):
        yield f"there are {count} pairs besides the query", {"context": count}
    if noise > 0:
        text = f"recorded losses are of labels with {'no ' * setting.query_noise}noise"
        yield text, {"query_noise": not setting.query_noise}
        yield "noise_variance is a standard deviation", {"noise_variance": noise**2}
    if not known_start:
        yield "init_scale is a variance", {"init_scale": math.sqrt(setting.init_scale)}
    if not known_start and separate:
        law = next(name for name in INITIALIZATIONS if name != setting.initialization)
        yield f"initialization is {law}", {"initialization": law}
        yield "key and query are merged", {"model": "merged", "rank": 1}
    elif not known_start and staircase:
        yield "key and query are separate", {"model": "separate"}
    if setting.mixed:
        yield "all tasks are random", {"fresh_fraction": 1.0, "shared_task": None}
        text = "fresh_fraction is the fraction of sequences with the shared task"
        yield text, {"fresh_fraction": 1 - setting.fresh_fraction}


def fitted_changes(
    theory: CurveTheory, rows: Sequence[CurveRow], known_start: bool
) -> Iterator[tuple[str, Changes]]:
    """Yield one parameter at a time with the value that fits best, in words and as fields.

    Each is found from one kind of row; whether it explains the others is for the caller to see.
    """
    setting = theory.setting
    factors = {row.quantity: _factor(row) for row in rows[::-1]}
    trace = sum(setting.eigenvalues)
    dim = len(setting.eigenvalues)
    loss, error = factors["initial loss"]
    if SAME < abs(math.log(max(loss, 1e-300))) < WRONG:
        unit = setting.loss_unit * loss
        yield (
            f"losses are recorded with {_words(unit, error)} times the stated factor",
            {"loss_unit": unit},
        )
        square = rows[0].estimate / (setting.loss_unit * setting.loss_factor)
        signal = square - setting.noise_variance * setting.query_noise
        if signal > 0 and not setting.mixed:
            scaled = tuple(signal / trace * eigenvalue for eigenvalue in setting.eigenvalues)
            yield f"the eigenvalues have the sum {signal:.4g}", {"eigenvalues": scaled}
            text = f"the inputs are white, of variance {signal / dim:.4g}"
            yield text, {"eigenvalues": (signal / dim,) * dim}
            if setting.query_noise and square > trace:
                yield f"noise_variance is {square - trace:.4g}", {"noise_variance": square - trace}
    timing = next((name for name in RATES if name in factors), None)
    if timing is not None:
        factor, error = factors[timing]
        unit = setting.time_unit * (factor if timing == "growth" else 1 / factor)
        axis = "times" if setting.learning_rate is None else "steps"
        words = f"{axis} count {_words(unit, error)} times"
        if setting.learning_rate is not None:
            words += f": the learning rate is {unit * setting.learning_rate:.3g}"
            words += f", or there is momentum {1 - 1 / unit:.3g}" if unit > 1 else ""
        yield words, {"time_unit": unit}
    if "half-drop" in factors and not known_start:
        late, error = factors["half-drop"]
        if setting.model == "separate":  # weights grow as 1/(t_0 - t)
            ratio = 1 / late
        else:  # exponentially
            growths = float(theory.growth[0] * theory.half_drops[0])
            ratio = math.exp(min(growths * (1 - late), WRONG))
            error *= growths
        error = min(error, WRONG)
        text = f"init_scale is {_words(setting.init_scale * ratio, error)}"
        for deviations in DEVIATIONS:
            scale = setting.init_scale * ratio * math.exp(deviations * error)
            yield text, {"init_scale": scale}
    final = next((row for row in rows if row.quantity == "final loss"), None)
    if final is not None and abs(final.z) > 1:
        wanted = final.estimate - (final.theory - float(theory.levels[-1]))

        def reached(context: int) -> float:
            return -float(replace(setting, context=context).levels[-1])

        context = bisect.bisect_left(range(LONGEST), -wanted, 1, key=reached)
        closest = min((max(context - 1, 1), context), key=lambda N: abs(reached(N) + wanted))
        yield f"there are {closest} pairs besides the query", {"context": closest}


def _factor(row: CurveRow) -> tuple[float, float]:
    """Found over theory, and the standard error of its logarithm."""
    return row.estimate / row.theory, math.hypot(row.standard_error, row.allowance)


def _words(value: float, error: float) -> str:
    """Value with the interval of two standard errors of its logarithm."""
    if error < EXACT:
        return f"{value:.4g}"
    factor = math.exp(min(2 * error, WRONG))
    return f"{value:.3g} ({value / factor:.2g} to {value * factor:.2g})"
