"""Mistakes that tables of results are made with: one row each.

A mistake says how what is in the table came out of what is true: from the settings that were
simulated, from the errors that they have, or from the error bars.  A mistake may have a value that
is fitted, such as a factor.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from iclimit.notation import size_of
from iclimit.simulate.pretraining.variants import Variant
from iclimit.validation.instruments.explaining import Mistake
from iclimit.validation.instruments.runs.best_of_runs import (
    best_of_runs,
    best_of_seeds,
    median_of_runs,
)
from iclimit.validation.instruments.runs.label_mistakes import (
    ACCURACY_OUTCOMES,
    AVERAGES,
    FLIPS,
    flipped,
    link_changes,
    of_accuracies,
    of_errors,
)
from iclimit.validation.instruments.runs.measured import ATTENTION, RATIOS, MeasuredRun
from iclimit.validation.instruments.runs.positions import position_mistakes
from iclimit.validation.instruments.runs.predictions import Prediction, Theory
from iclimit.validation.instruments.runs.run_model import FREE, LEVEL, absent, changes_by
from iclimit.validation.instruments.runs.scatter import ScatterRatio
from iclimit.validation.instruments.runs.training_mistakes import (
    TRAINED,
    UNSTATED,
    depends_on_training,
    training_mistakes,
)

# A number that depends on the run.
OfRun = Callable[[MeasuredRun], float]

# From the true run, a value and the two true errors to the errors that were reported.
Reported = Callable[[MeasuredRun, float, np.ndarray], np.ndarray]

# From the true run, a value and the prediction for a mean over runs to what was reported instead.
Summarised = Callable[[MeasuredRun, float, Prediction], Prediction]

# From a value and ratios (m, 2) of the errors of m variants to those of the stated experiment, to
# the ratios at this value (2,).
Between = Callable[[float, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Simulated:
    """How a mistake without a theory is predicted: simulated over simulated, times the theory.

    Attributes
    ----------
    variants : callable
        Variants of a run that are simulated.
    between : callable
        Ratio of the errors at a value, from those of the variants.
    """

    variants: Callable[[MeasuredRun], Sequence[Variant]]
    between: Between = lambda _, ratios: ratios[0]


@dataclass(frozen=True)
class RunMistake(Mistake):
    """A possible mistake in a table: in sizes, rho, ridge or estimator, or in what was reported.

    Attributes
    ----------
    outcome : callable, optional
        What was reported instead of the errors.
    free : str
        Parameter whose value is fitted (`run_model.FREE`), if one is.
    bars : callable, optional
        From a run to one with the true error bars.
    one_set : bool, optional
        Whether the runs of a row share a task set, instead of what was said.
    theory : Theory, optional
        What is true instead of what was said.
    slow : bool
        Whether trying it takes full predictions.
    summarised : callable, optional
        What was reported instead of the mean over runs.
    simulated : Simulated, optional
        How it is predicted where there is no theory of it.
    scanned : tuple of two floats, optional
        Range of a value that is searched by comparing predictions.
    effective : str
        Of a value that is fitted: what else may look like it.
    scatter : callable, optional
        Of other error bars: what the measured scatter over the predicted one then is; None if it
        may be anything.
    """

    outcome: Reported | None = None
    free: str = ""
    bars: Callable[[MeasuredRun], MeasuredRun] | None = None
    one_set: bool | None = None
    theory: Theory | None = None
    slow: bool = False
    summarised: Summarised | None = None
    simulated: Simulated | None = None
    scanned: tuple[float, float] | None = None
    effective: str = ""
    scatter: Callable[[ScatterRatio], float] | None = None

    @property
    def weak(self) -> bool:
        """Whether it makes much agree, so that others are tried nevertheless."""
        return self.widens or self.summarised is not None

    @property
    def widens(self) -> bool:
        """Whether it only makes error bars larger."""
        return self.bars is not None or self.one_set is not None

    @property
    def of_settings(self) -> bool:
        """Whether it only changes settings, by a theory."""
        others = (self.outcome, self.theory, self.summarised, self.simulated)
        return not (any(others) or self.widens)

    def true_run(self, run: MeasuredRun, value: float = math.nan) -> MeasuredRun:
        """The run that was made if the table has it as this one."""
        return run.at(self.change(run, value))


# Other averages over test prompts, for tables that nothing without a search explains.
OTHER_AVERAGES = [RunMistake(text, summarised=average) for text, average in AVERAGES.items()]

# Error bars that are smaller than said.
MEANS_AS_BARS = "standard deviations are standard errors of the mean"


def mistakes(runs: Sequence[MeasuredRun], theory: Theory, *, one_set: bool) -> list[RunMistake]:
    """All mistakes that are tried on these runs; those that change nothing are left out."""
    if not all(run.linear for run in runs):
        return _distinct(list(_of_labels(runs, theory)), runs)
    attention = any(run.estimator == ATTENTION for run in runs)
    possible = [*ERRORS, SCALED_ERRORS]
    if any(run.by_position for run in runs):
        return _distinct([*possible, *_of_positions(runs)], runs)
    if any(run.labels_stated for run in runs):
        possible += _other_labels(runs)
    if any(run.sgd for run in runs):
        possible += [*CONTEXTS, *_noises()]
    elif attention:
        possible += [*SETTINGS, *_turned(runs), *_fitted(runs)]
        possible += [RunMistake(text, change) for text, change in training_mistakes(runs, theory)]
    else:
        possible += [*CONTEXTS, *_noises(), *PENALTIES]
    if any(run.deviations_given for run in runs):
        possible.append(RunMistake(MEANS_AS_BARS, bars=_wider_bars, scatter=_of_means))
    if any(run.runs != 1 for run in runs) and attention:
        possible += [SINGLE_RUN, *_summaries(runs)]
    if not one_set:
        text = "the runs of a row share one task set"
        possible.append(RunMistake(text, one_set=True, scatter=attrgetter("prompts")))
    if theory.structure is None:
        possible += _laws(runs, theory)
    # Variants are simulated as minimisers.
    minimised = not any(run.trained for run in runs)
    if theory.structure is None and attention and minimised:
        possible += [*SIMULATED, *_other_tests(runs)]
    return _distinct(possible, runs)


def _of_labels(runs: Sequence[MeasuredRun], theory: Theory) -> Iterator[RunMistake]:
    """Mistakes that are tried where labels are not linear, or accuracies were measured.

    Levels of settings are not fitted there.
    """
    for mistake in (*ERRORS, SCALED_ERRORS):
        if mistake.outcome is not None:
            yield replace(mistake, outcome=of_errors(mistake.outcome))
    for text, outcome in ACCURACY_OUTCOMES.items():
        yield RunMistake(text, outcome=of_accuracies(outcome))
    yield from _other_labels(runs)
    if not any(run.trained for run in runs):
        yield from SETTINGS
        if theory.structure is None and all(run.estimator == ATTENTION for run in runs):
            yield from SIMULATED
            yield from _other_tests(runs)
    if any(run.deviations_given for run in runs):
        yield RunMistake(MEANS_AS_BARS, bars=_wider_bars, scatter=_of_means)


def _other_labels(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """Labels by another link, or of which more or fewer are flipped."""
    for text, labels in link_changes(runs):
        yield RunMistake(text, lambda _run, _value, labels=labels: labels)  # type: ignore[misc]
    yield RunMistake(
        "labels are flipped with the probability {}",
        flipped,
        scanned=FLIPS,
        effective="noise of labels",
    )


def _of_positions(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """Mistakes of runs that are trained on positions of sequences."""
    yield from _noises()
    yield from (_scaled(text, "ridge", factor) for text, factor in RIDGES.items())
    for text, change in position_mistakes(runs):
        yield RunMistake(text, change)
    if any(run.deviations_given for run in runs):
        yield RunMistake(MEANS_AS_BARS, bars=_wider_bars, scatter=_of_means)


def _laws(runs: Sequence[MeasuredRun], theory: Theory) -> Iterator[RunMistake]:
    """Other laws of tasks and of their numbers of prompts, and other estimators."""
    law = "gaussian" if theory.task_law == "sphere" else "sphere"
    text = f"tasks are {'N(0, I)' if law == 'gaussian' else 'of squared norm d'}"
    yield RunMistake(text, theory=replace(theory, task_law=law), slow=True)
    equal = "random" if theory.balanced else "the same"
    text = f"the number of prompts is {equal} for every task"
    yield RunMistake(text, theory=replace(theory, balanced=not theory.balanced), slow=True)
    if all(run.rho for run in runs):
        for name, words in ESTIMATED.items():
            yield RunMistake(f"errors are those of {words}", partial(_bayes, name=name), slow=True)


def _distinct(possible: Sequence[RunMistake], runs: Sequence[MeasuredRun]) -> list[RunMistake]:
    """Mistakes that change what is stated, and each of these changes once."""
    seen = [[run.setting for run in runs]]
    chosen = []
    for mistake in possible:
        changed = [mistake.true_run(run, 2.0).setting for run in runs]
        if mistake.of_settings and not mistake.free and mistake.scanned is None:
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


def _reported(text: str, outcome: Callable[[np.ndarray, MeasuredRun], np.ndarray]) -> RunMistake:
    """Functions of the errors instead of the errors."""
    return RunMistake(text, outcome=lambda run, _, errors: outcome(errors, run))


def _dim(run: MeasuredRun) -> float:
    return float(run.sizes["dim"])


def _label_variance(run: MeasuredRun) -> float:
    return 1 + run.rho


# Mistakes in what was reported.
ERRORS = (
    _errors("errors are half the squared errors", lambda _: 2.0),
    _errors("errors are twice the squared errors", lambda _: 0.5),
    _errors("errors leave out the label noise of the query", lambda _: 1.0, 1.0),
    _errors("errors are half the squared errors without label noise", lambda _: 2.0, 1.0),
    _errors("errors are divided by the variance 1 + rho of labels", _label_variance),
    _errors("inputs have variance 1 instead of 1/d", lambda run: 1 / _dim(run)),
    _errors("errors are divided by the dimension", _dim),
    _errors("errors are in per cent", lambda _: 0.01),
    _errors(
        "errors are in per cent of the variance 1 + rho of labels",
        lambda run: _label_variance(run) / 100,
    ),
    _reported("errors are roots of the squared errors", lambda e, _: np.sqrt(e)),
    _reported(
        "errors are roots of the squared errors without label noise",
        lambda e, run: np.sqrt(e - run.rho),
    ),
    _reported("errors are R^2, one minus error over 1 + rho", lambda e, r: 1 - e / (1 + r.rho)),
    _reported("errors are R^2 of labels without noise, one minus the error", lambda e, _: 1 - e),
    _reported(
        "errors are R^2 without noise, one minus the error without label noise",
        lambda e, run: 1 - (e - run.rho),
    ),
    _reported("errors are in dB, 10 times the logarithm to base 10", lambda e, _: _decibel(e)),
    _reported("errors are logarithms to base 10", lambda e, _: _decibel(e) / 10),
    _reported("errors are natural logarithms", lambda e, _: np.log(e)),
    _reported("errors are logarithms to base 2", lambda e, _: np.log(e) / math.log(2)),
    RunMistake("icl and idg are exchanged", outcome=lambda _run, _value, errors: errors[::-1]),
)


def _decibel(errors: np.ndarray) -> np.ndarray:
    return 10 / math.log(10) * np.log(errors)


# Those of them that are also tried together with one in the settings.
PAIRED = ERRORS[:10]

# Range of a common factor of all errors.
ERROR_FACTORS = (1e-4, 1e4)

# A common factor of the errors.
SCALED_ERRORS = RunMistake(
    "errors are {} times the squared errors",
    outcome=lambda _, value, errors: value * errors,
    scanned=ERROR_FACTORS,
    effective="errors in other units, or labels of another variance",
)


def _as_single_run(run: MeasuredRun) -> MeasuredRun:
    """A run whose error bar is not known: the predicted scatter takes its place."""
    errors = {
        name: replace(error, standard_error=math.inf, samples=np.empty(0))
        for name, error in run.errors.items()
    }
    return replace(run, errors=errors, runs=1, correlation=None)


# Error bars that are not those of several trained networks.
SINGLE_RUN = RunMistake(
    "each row is one trained run, and its error bar is over batches of test prompts",
    bars=_as_single_run,
)

# Range of a number of seeds of which the best is reported.
SEEDS = (2.0, 200.0)


def _summaries(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """The median or the best of several runs instead of their mean."""
    yield RunMistake("errors are medians over runs", summarised=median_of_runs)
    if all((run.runs or 0) > 1 for run in runs):
        yield RunMistake("errors are those of the best run", summarised=best_of_runs)
    yield RunMistake(
        "each run is the best of {} seeds",
        summarised=best_of_seeds,
        scanned=SEEDS,
        effective="errors that are smaller by their scatter",
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


def _wrong_setting(text: str, name: str, true: OfRun) -> RunMistake:
    """Mistake in a setting: what is true of a run; sizes are rounded, and 1 or more.

    It is not possible where it becomes infinite.
    """

    def change(run: MeasuredRun, _: float) -> dict[str, float]:
        value = true(run)
        if value == math.inf:  # of a number of tasks
            return {}
        return {name: max(1, round(value)) if name in run.sizes else value}

    return RunMistake(text, change)


def _scaled(text: str, name: str, factor: OfRun) -> RunMistake:
    """Noise or ridge of another size."""
    return _wrong_setting(text, name, lambda run: getattr(run, name) * factor(run))


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


def _stated_ratio(run: MeasuredRun, size: str) -> float:
    """Ratio of the table that a size came out of, before it was rounded."""
    return run.unrounded[size] / size_of(RATIOS[size], 1.0, run.sizes["dim"])


def _counting_label(run: MeasuredRun, _: float, ratios: bool) -> dict[str, int]:
    """A dimension that counts the label; sizes that come out of ratios change with it or not."""
    dim = run.sizes["dim"] - 1
    changes = {"dim": dim}
    if ratios:
        for size in run.unrounded:
            exact = size_of(RATIOS[size], _stated_ratio(run, size), dim)
            if exact < math.inf:
                changes[size] = max(1, round(exact))
    return changes


def _turned(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """Ratios of the table that are upside down, or logarithms."""
    names = [RATIOS[size] for size in runs[0].unrounded]
    names = [name for name in names if all(run.ratios[name] < math.inf for run in runs)]
    inverses = {"alpha": "d/l", "kappa": "d/k", "tau": "d^2/n"}
    for name in names:
        text = f"{name} is upside down, {inverses[name]}"
        yield RunMistake(text, partial(_by_ratios, names=[name], function=lambda x: 1 / x))
    if len(names) > 1:
        text = f"{', '.join(names[:-1])} and {names[-1]} are upside down"
        yield RunMistake(text, partial(_by_ratios, names=names, function=lambda x: 1 / x))
    for name in names:
        for base, number in LOGARITHMS.items():
            text = f"{name} is a logarithm to base {base}"
            power = partial(math.pow, number)
            yield RunMistake(text, partial(_by_ratios, names=[name], function=power))


# Bases of logarithms that may stand for numbers.
LOGARITHMS = {"e": math.e, "10": 10.0, "2": 2.0}


def _by_ratios(
    run: MeasuredRun, _: float, names: Collection[str], function: Callable[[float], float]
) -> dict[str, int]:
    """Sizes if ratios are other ones."""
    dim = run.sizes["dim"]
    return {
        size: max(1, round(size_of(ratio, function(_stated_ratio(run, size)), dim)))
        for size, ratio in RATIOS.items()
        if ratio in names
    }


# Columns that may be exchanged.
EXCHANGED = (("tau", "alpha"), ("tau", "kappa"), ("alpha", "kappa"), ("rho", "ridge"))

# How ratios may be rounded.
ROUNDED: dict[str, Callable[[float], int]] = {
    "down": math.floor,
    "up": math.ceil,
    "to the nearest": round,
}

# Contexts that are counted otherwise.
CONTEXTS = (
    _wrong_setting(
        "the context has one pair more", "context", lambda run: run.sizes["context"] + 1
    ),
    _wrong_setting(
        "the context has one pair less", "context", lambda run: run.sizes["context"] - 1
    ),
)


def _noises() -> Iterator[RunMistake]:
    """Noise of another size."""
    return (_scaled(text, "rho", factor) for text, factor in NOISES.items())


# Units of inputs and tasks with coordinates of variance 1, as those papers have it that write
# x, w ~ N(0, I).
def _of_variance_one(run: MeasuredRun, _: float) -> dict[str, float]:
    return {"rho": run.rho / run.sizes["dim"]}


def _by_features(run: MeasuredRun, _: float) -> dict[str, int]:
    """Prompts of which tau is the number over d (d + 1); those of a column of integers stay."""
    if "prompts" not in run.unrounded:
        return {}
    return {"prompts": round(run.sizes["prompts"] * (1 + 1 / run.sizes["dim"]))}


# Mistakes in the settings.
SETTINGS = (
    RunMistake("tau counts prompts over d (d + 1)", _by_features),
    *CONTEXTS,
    *(
        RunMistake(text, partial(_counting_label, ratios=ratios))
        for text, ratios in (
            ("dim counts the label: the inputs have d - 1 dimensions", False),
            ("dim counts the label, also in the ratios", True),
        )
    ),
    RunMistake(
        "inputs and tasks have variance 1 and rho is the noise variance in these units "
        "(--convention garg2022 with a column noise_variance)",
        _of_variance_one,
        lambda run, _, errors: errors * run.sizes["dim"],
    ),
    RunMistake(
        "inputs and tasks have variance 1, rho is the noise variance in these units and the query "
        "has none (--convention ahn2023 with a column noise_variance)",
        _of_variance_one,
        lambda run, _, errors: (errors - run.rho) * run.sizes["dim"],
    ),
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
    *_noises(),
    RunMistake(
        "tasks have the norm 1 instead of the root of d",
        lambda run, _: {name: getattr(run, name) * run.sizes["dim"] for name in ("rho", "ridge")},
        lambda run, _, errors: errors / run.sizes["dim"],
    ),
    *(_scaled(text, "ridge", factor) for text, factor in RIDGES.items()),
)

# Mistakes of one value, by the parameter that is fitted, and what may look like them.
FITTED = {
    "task_norm": ("tasks have the squared norm {} d", "tasks or labels of another size"),
    "rho": ("rho is {} times as large", "labels of queries without noise, or normalised labels"),
    "ridge": (
        "the ridge is {} times as large",
        ("normalised labels, a loss of another size, or training that stopped early"),
    ),
    "tau": (
        "there are {} times as many prompts",
        "a Gamma without the column of squared labels, or a dimension that counts the label",
    ),
    "alpha": (
        "contexts are {} times as long",
        "inputs of fixed norm or bounded ones, or tests with other contexts",
    ),
    "kappa": ("there are {} times as many pretraining tasks", "another law of the tasks"),
    **TRAINED,
}


def _fitted(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """Mistakes of one value; without any noise or ridge, the value is the noise or the ridge."""
    absolute = absent(runs)
    for name, (text, effective) in FITTED.items():
        if name == "kappa" and all(run.sizes["tasks"] == math.inf for run in runs):
            continue
        if name in TRAINED and not depends_on_training(name, runs):
            continue
        words = text.removesuffix(" times as large") if name in absolute else text
        words = UNSTATED.get(name, words) if name in absolute else words
        change = partial(_moved, powers=FREE[name], absolute=absolute)
        outcome = (lambda _, value, errors: value * errors) if "factor" in FREE[name] else None
        slow = name in LEVEL
        yield RunMistake(words, change, outcome, free=name, slow=slow, effective=effective)


def _moved(
    run: MeasuredRun, value: float, powers: Mapping[str, float], absolute: Collection[str]
) -> dict[str, Any]:
    logs = {name: power * math.log(value) for name, power in powers.items()}
    return changes_by(run, logs, absolute)


def _of_means(row: ScatterRatio) -> float:
    """Scatter of means over that of single runs."""
    return 1 / math.sqrt(row.runs)


def _wider_bars(run: MeasuredRun) -> MeasuredRun:
    factor = math.sqrt(run.runs or 1)
    errors = {
        name: replace(error, standard_error=error.standard_error * factor)
        for name, error in run.errors.items()
    }
    return replace(run, errors=errors)


def _penalised(text: str, penalty: OfRun) -> RunMistake:
    """Another penalty of ridge regression, for inputs of variance 1."""
    return RunMistake(text, lambda run, _: {"penalty": penalty(run)})


def _stated_penalty(run: MeasuredRun) -> float:
    """Penalty for inputs of variance 1: that of the table, or the best one."""
    return run.rho * _dim(run) if run.penalty is None else run.penalty


# Range of a factor of the penalty.
PENALTY_FACTORS = (1e-4, 1e4)

# Penalties of ridge regression as people write them.
PENALTIES = (
    _penalised(
        "the penalty is 1, scikit-learn's default, for inputs of variance 1", lambda _: 1.0
    ),
    _penalised("the penalty is 1, scikit-learn's default, for inputs of variance 1/d", _dim),
    _penalised(
        "the penalty is beside the mean squared error, so l times as large",
        lambda run: _stated_penalty(run) * run.sizes["context"],
    ),
    _penalised(
        "the penalty is smaller by the length l of the context",
        lambda run: _stated_penalty(run) / run.sizes["context"],
    ),
    _penalised("the penalty is d times as large", lambda run: _stated_penalty(run) * _dim(run)),
    _penalised(
        "the penalty is smaller by the factor d", lambda run: _stated_penalty(run) / _dim(run)
    ),
    _penalised("the penalty is twice as large", lambda run: 2 * _stated_penalty(run)),
    _penalised("the penalty is half as large", lambda run: _stated_penalty(run) / 2),
    _penalised("the penalty is a standard deviation", lambda run: math.sqrt(run.rho) * _dim(run)),
    _penalised("there is no penalty: least squares", lambda _: 0.0),
    RunMistake(
        "the penalty is {} times as large",
        lambda run, value: {"penalty": value * _stated_penalty(run)},
        scanned=PENALTY_FACTORS,
        effective="another noise or another variance of the tasks",
    ),
)


def _variant(text: str, **fields: Any) -> RunMistake:
    """Another experiment, which is the same for each run."""
    return RunMistake(text, simulated=Simulated(lambda _: [Variant(**fields)]))


def _units(
    text: str,
    ridges: Callable[[float, float], tuple[float, float]],
    *,
    noise: Callable[[float], float] = lambda _: 1.0,
    errors: Callable[[float], float] = lambda _: 1.0,
) -> RunMistake:
    """Units in which the ridge of the last column of Gamma is another one than of the first.

    All are functions of d; the ridge of d and l.
    """

    def variants(run: MeasuredRun) -> list[Variant]:
        return [Variant(ridge_factors=ridges(_dim(run), run.sizes["context"]))]

    return RunMistake(
        text,
        lambda run, _: {"rho": run.rho * noise(_dim(run))},
        lambda run, _, e: e * errors(_dim(run)),
        simulated=Simulated(variants),
    )


# Experiments that there is no theory of; each takes its theory here when there is one.
SIMULATED = (
    _variant("inputs are uniform on a sphere, |x| = 1", input_law="sphere"),
    _variant("inputs are random signs", input_law="rademacher"),
    _variant("inputs are uniform in a cube", input_law="uniform"),
    _variant("Gamma has no column of squared labels", squared_labels=False),
    _variant("Gamma has a bias entry more", bias=True),
    _variant("Gamma has a bias entry instead of squared labels", squared_labels=False, bias=True),
    _variant("labels of queries have no noise in training", query_noise=False),
    RunMistake(
        "labels of queries have no noise, neither in training nor in tests",
        outcome=lambda run, _, errors: errors - run.rho,
        simulated=Simulated(lambda _: [Variant(query_noise=False)]),
    ),
    *(
        _variant(
            f"labels are normalised in each prompt by their {divisor}{words}",
            normalised=normalised,
            by_root_mean_square=by_root_mean_square,
        )
        for divisor, by_root_mean_square in (
            ("standard deviation", False),
            ("root mean square", True),
        )
        for words, normalised in (
            (", and errors with them", "units"),
            (" for the model", "labels"),
        )
    ),
    _units(
        "tasks have the norm 1, and rho is the noise variance in these units",
        lambda d, _: (d, d**2),
        noise=lambda d: d,
        errors=lambda d: 1 / d,
    ),
    _units(
        "tasks have the norm 1, and rho is relative to the variance of labels",
        lambda d, _: (d, d**2),
        errors=lambda d: 1 / d,
    ),
    _units(
        "products and squared labels of the context are summed, without d/l and 1/l",
        lambda d, length: ((d / length) ** 2, length**-2),
    ),
    _units(
        "products of the context are averaged without the factor d, squared labels with 1/l",
        lambda d, _: (d**2, 1.0),
    ),
    *(
        _units(
            f"inputs have variance 1, products are {how} and {words}",
            ridges,
            noise=noise,
            errors=lambda d: d,
        )
        for words, noise in (
            ("rho is relative", lambda _: 1.0),
            ("rho is the noise variance in these units", lambda d: 1 / d),
        )
        for how, ridges in (
            ("averaged", lambda d, _: (1 / d, d**-3)),
            ("multiplied by d/l", lambda d, _: (d**-3, d**-3)),
        )
    ),
)

# Range of factors of the length and of the noise of test prompts.
TEST_FACTORS = (0.02, 50.0)

# Length of simulated test contexts over the stated one.
LONGER = 4.0


def _by_length(value: float, ratios: np.ndarray) -> np.ndarray:
    """Ratio of the errors at a length: they are exactly linear in 1/length."""
    endless = (ratios[0] - 1 / LONGER) / (1 - 1 / LONGER)
    return np.asarray(endless + (1 - endless) / value)


def _by_noise(value: float, ratios: np.ndarray) -> np.ndarray:
    """Ratio of the errors at a noise: a polynomial of second order through 0, 1 and 2."""
    without, twice = ratios
    curvature = (without + twice) / 2 - 1
    slope = (twice - without) / 2
    return np.asarray(1 + slope * (value - 1) + curvature * (value - 1) ** 2)


def _of_fresh_tasks(between: Between) -> Between:
    """The same, with the error on the training tasks as stated."""
    return lambda value, ratios: np.array([between(value, ratios)[0], 1.0])


def _other_tests(runs: Sequence[MeasuredRun]) -> Iterator[RunMistake]:
    """Test prompts of another length or noise than those of training."""
    if any(run.tests for run in runs):
        return
    both = any({"idg", "gap"} & set(run.errors) for run in runs)
    longer = Simulated(lambda _: [Variant(test_length=LONGER)], _by_length)
    noisier = Simulated(lambda _: [Variant(test_noise=0.0), Variant(test_noise=2.0)], _by_noise)
    texts = {"test contexts are {} times as long": longer}
    if all(run.rho for run in runs):
        texts["the noise of test prompts is {} times as large"] = noisier
        yield RunMistake(
            "test prompts have no label noise",
            simulated=replace(noisier, between=lambda _, ratios: ratios[0]),
        )
    words = "other inputs or labels in the tests"
    for text, simulated in texts.items():
        yield RunMistake(text, simulated=simulated, scanned=TEST_FACTORS, effective=words)
        if both:
            fresh = replace(simulated, between=_of_fresh_tasks(simulated.between))
            named = f"{text} for fresh tasks alone"
            yield RunMistake(named, simulated=fresh, scanned=TEST_FACTORS, effective=words)
