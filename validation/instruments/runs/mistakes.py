"""Mistakes that tables of results are made with: one row each.

A mistake says how what is in the table came out of what is true: from the settings that were
simulated, from the errors that they have, or from the error bars.  A mistake may have a value that
is fitted, such as a factor.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from iclimit.notation import size_of
from iclimit.validation.instruments.explaining import Mistake
from iclimit.validation.instruments.runs.fitting import FREE, LEVEL, absent, changes_by
from iclimit.validation.instruments.runs.measured import RATIOS, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory

# A number that depends on the run.
OfRun = Callable[[MeasuredRun], float]

# From the true run, a value and the two true errors to the errors that were reported.
Reported = Callable[[MeasuredRun, float, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RunMistake(Mistake):
    """A possible mistake in a table: in sizes, rho, ridge or estimator, or in what was reported.

    Attributes
    ----------
    outcome : callable, optional
        What was reported instead of the errors.
    free : str
        Parameter whose value is fitted (`fitting.FREE`), if one is.
    bars : callable, optional
        From a run to one with the true error bars.
    one_set : bool, optional
        Whether the runs of a row share a task set, instead of what was said.
    theory : Theory, optional
        What is true instead of what was said.
    slow : bool
        Whether trying it takes full predictions.
    """

    outcome: Reported | None = None
    free: str = ""
    bars: Callable[[MeasuredRun], MeasuredRun] | None = None
    one_set: bool | None = None
    theory: Theory | None = None
    slow: bool = False

    @property
    def widens(self) -> bool:
        """Whether it only makes error bars larger."""
        return self.bars is not None or self.one_set is not None

    def true_run(self, run: MeasuredRun, value: float = math.nan) -> MeasuredRun:
        """The run that was made if the table has it as this one."""
        return run.at(**self.change(run, value))


def mistakes(runs: Sequence[MeasuredRun], theory: Theory, *, one_set: bool) -> list[RunMistake]:
    """All mistakes that are tried on these runs; those that change nothing are left out."""
    possible = [*ERRORS, *SETTINGS, *_fitted(runs)]
    if any(run.deviations_given for run in runs):
        text = "standard deviations are standard errors of the mean"
        possible.append(RunMistake(text, bars=_wider_bars))
    if not one_set:
        possible.append(RunMistake("the runs of a row share one task set", one_set=True))
    if theory.structure is None:
        law = "gaussian" if theory.task_law == "sphere" else "sphere"
        text = f"tasks are {'N(0, I)' if law == 'gaussian' else 'of squared norm d'}"
        possible.append(RunMistake(text, theory=replace(theory, task_law=law), slow=True))
        equal = "random" if theory.balanced else "the same"
        text = f"the number of prompts is {equal} for every task"
        other = replace(theory, balanced=not theory.balanced)
        possible.append(RunMistake(text, theory=other, slow=True))
        if all(run.rho for run in runs):
            possible += [
                RunMistake(f"errors are those of {words}", partial(_bayes, name=name), slow=True)
                for name, words in ESTIMATED.items()
            ]
    return _distinct(possible, runs)


def _distinct(possible: Sequence[RunMistake], runs: Sequence[MeasuredRun]) -> list[RunMistake]:
    """Mistakes that change what is stated, and each of these changes once."""
    seen = [[run.setting for run in runs]]
    chosen = []
    for mistake in possible:
        changed = [mistake.true_run(run, 2.0).setting for run in runs]
        plain = mistake.outcome is None and not mistake.widens and mistake.theory is None
        if plain and not mistake.free:
            if changed in seen:
                continue
            seen.append(changed)
        chosen.append(mistake)
    return chosen


def _bayes(*_: object, name: str) -> dict[str, str]:
    return {"estimator": name}


# Bayes estimators in words.
ESTIMATED = {
    "dmmse": "dMMSE, the Bayes estimator on the pretraining tasks",
    "ridge": "the Bayes estimator on fresh tasks, ridge regression on the context",
}


def _errors(text: str, factor: OfRun, noise: float = 0.0) -> RunMistake:
    """Errors divided by a factor, after a multiple of the label noise was subtracted."""
    return RunMistake(
        text, outcome=lambda run, _, errors: (errors - noise * run.rho) / factor(run)
    )


# Mistakes in what was reported.
ERRORS = (
    _errors("errors are half the squared errors", lambda _: 2.0),
    _errors("errors are twice the squared errors", lambda _: 0.5),
    _errors("errors leave out the label noise of the query", lambda _: 1.0, 1.0),
    _errors("errors are half the squared errors without label noise", lambda _: 2.0, 1.0),
    _errors("errors are divided by the variance 1 + rho of labels", lambda run: 1 + run.rho),
    _errors("inputs have variance 1 instead of 1/d", lambda run: 1 / run.sizes["dim"]),
    RunMistake(
        "errors are roots of the squared errors",
        outcome=lambda _run, _value, errors: np.sqrt(errors),
    ),
    RunMistake("icl and idg are exchanged", outcome=lambda _run, _value, errors: errors[::-1]),
)


def _rounded(run: MeasuredRun, _: float, function: Callable[[float], int]) -> dict[str, int]:
    """Sizes that came out of ratios, rounded otherwise; integers stay."""
    return {
        name: max(1, function(size))
        for name, size in run.unrounded.items()
        if size < math.inf and abs(size - round(size)) > 1e-6 * max(1.0, size)
    }


def _exchanged(run: MeasuredRun, _: float, first: str, second: str) -> dict[str, Any]:
    """Sizes if the columns of two ratios are exchanged."""
    values = run.ratios[first], run.ratios[second]
    if math.inf in values:
        return {}
    changes = {first: values[1], second: values[0]}
    for size, ratio in RATIOS.items():
        if ratio in changes:
            exact = size_of(ratio, changes.pop(ratio), run.sizes["dim"])
            changes[size] = max(1, round(exact))
    return changes


def _wrong_setting(text: str, **changes: OfRun) -> RunMistake:
    """Mistake in the settings: what is true of a run; sizes are rounded, and 1 or more.

    It is not possible where something becomes infinite.
    """

    def change(run: MeasuredRun, _: float) -> dict[str, float]:
        values = {name: number(run) for name, number in changes.items()}
        if math.inf in values.values():  # of a number of tasks
            return {}
        return {n: max(1, round(v)) if n in run.sizes else v for n, v in values.items()}

    return RunMistake(text, change)


def _scaled(text: str, name: str, factor: OfRun) -> RunMistake:
    """Noise or ridge of another size."""
    return _wrong_setting(text, **{name: lambda run: getattr(run, name) * factor(run)})


# Factors by which the noise is wrong, and the ridge.
NOISES: dict[str, OfRun] = {
    "rho is a standard deviation": lambda run: run.rho,
    "rho is d times as large": lambda run: run.sizes["dim"],
    "rho is smaller by the factor d": lambda run: 1 / run.sizes["dim"],
    "there is no label noise": lambda _: 0.0,
}
RIDGES: dict[str, OfRun] = {
    "the ridge is d times as large": lambda run: run.sizes["dim"],
    "the ridge is smaller by the factor d": lambda run: 1 / run.sizes["dim"],
    "the ridge is n/d times as large": lambda run: run.sizes["prompts"] / run.sizes["dim"],
    "the ridge is the factor of the squared norm of Gamma, without n/d": (
        lambda run: run.sizes["dim"] / run.sizes["prompts"]
    ),
    "the ridge is n times as large": lambda run: run.sizes["prompts"],
    "the ridge is smaller by the factor n": lambda run: 1 / run.sizes["prompts"],
    "the ridge is tau times as large": lambda run: run.ratios["tau"],
    "the ridge is smaller by the factor tau": lambda run: 1 / run.ratios["tau"],
    "the ridge is twice as large": lambda _: 2.0,
    "the ridge is half as large": lambda _: 0.5,
    "the ridge is 0": lambda _: 0.0,
    "products of the context are summed without the factor d/l": (
        lambda run: (run.sizes["dim"] / run.sizes["context"]) ** 2
    ),
    "products of the context are averaged without the factor d": (
        lambda run: run.sizes["dim"] ** 2
    ),
}

# Columns that may be exchanged.
EXCHANGED = (("tau", "alpha"), ("tau", "kappa"), ("alpha", "kappa"), ("rho", "ridge"))

# How ratios may be rounded.
ROUNDED: dict[str, Callable[[float], int]] = {
    "down": math.floor,
    "up": math.ceil,
    "to the nearest": round,
}


# Mistakes in the settings.
SETTINGS = (
    _wrong_setting(
        "tau counts prompts over d (d + 1)",
        prompts=lambda run: run.sizes["prompts"] * (1 + 1 / run.sizes["dim"]),
    ),
    _wrong_setting("the context has one pair more", context=lambda run: run.sizes["context"] + 1),
    _wrong_setting("the context has one pair less", context=lambda run: run.sizes["context"] - 1),
    *(
        RunMistake(f"ratios are rounded {how}", partial(_rounded, function=function))
        for how, function in ROUNDED.items()
    ),
    *(
        RunMistake(
            f"the columns {a} and {b} are exchanged", partial(_exchanged, first=a, second=b)
        )
        for a, b in EXCHANGED
    ),
    *(_scaled(text, "rho", factor) for text, factor in NOISES.items()),
    RunMistake(
        "tasks have the norm 1 instead of the root of d",
        lambda run, _: {name: getattr(run, name) * run.sizes["dim"] for name in ("rho", "ridge")},
        lambda run, _, errors: errors / run.sizes["dim"],
    ),
    *(_scaled(text, "ridge", factor) for text, factor in RIDGES.items()),
)


# Mistakes of one value, by the parameter that is fitted.
FITTED = {
    "factor": "errors are {} times the squared errors",
    "task_norm": "tasks have the squared norm {} d",
    "rho": "rho is {} times as large",
    "ridge": "the ridge is {} times as large",
    "tau": "there are {} times as many prompts",
    "alpha": "contexts are {} times as long",
    "kappa": "there are {} times as many pretraining tasks",
}


def _fitted(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """Mistakes of one value; without any noise or ridge, the value is the noise or the ridge."""
    absolute = absent(runs)
    for name, text in FITTED.items():
        if name == "kappa" and all(run.sizes["tasks"] == math.inf for run in runs):
            continue
        words = text.removesuffix(" times as large") if name in absolute else text
        change = partial(_moved, powers=FREE[name], absolute=absolute)
        outcome = (lambda _, value, errors: value * errors) if "factor" in FREE[name] else None
        yield RunMistake(words, change, outcome, free=name, slow=name in LEVEL)


def _moved(
    run: MeasuredRun, value: float, powers: Mapping[str, float], absolute: Collection[str]
) -> dict[str, Any]:
    logs = {name: power * math.log(value) for name, power in powers.items()}
    return changes_by(run, logs, absolute)


def _wider_bars(run: MeasuredRun) -> MeasuredRun:
    factor = math.sqrt(run.runs or 1)
    errors = {
        name: replace(error, standard_error=error.standard_error * factor)
        for name, error in run.errors.items()
    }
    return replace(run, errors=errors)
