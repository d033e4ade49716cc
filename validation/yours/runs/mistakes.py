"""Possible mistakes of reading, normalisation and counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iclimit.results import Estimate
from iclimit.validation.yours.runs.measured import MeasuredRun
from iclimit.validation.yours.runs.predictions import Theory, replaced
from iclimit.validation.yours.runs.sizes import ROUNDINGS


@dataclass(frozen=True)
class Mistake:
    """A possible mistake, and what it changes.

    Attributes
    ----------
    text : str
        Completes "fits if ...".
    change : callable
        From a run as it was read to a run without the mistake.
    scale : callable
        Factor by which that changes small differences of the measured errors.
    theory : Theory, optional
        What to compare with instead.
    one_set : bool, optional
        Whether the runs of a row share a task set, instead of what was said.
    """

    text: str
    change: Callable[[MeasuredRun], MeasuredRun] = lambda run: run
    scale: Callable[[MeasuredRun], Mapping[str, float]] = lambda _: {}
    theory: Theory | None = None
    one_set: bool | None = None


def mistakes(runs: Sequence[MeasuredRun], theory: Theory, *, one_set: bool) -> Iterator[Mistake]:
    """All mistakes that are tried."""
    yield from _of_errors(runs)
    if any(run.deviations_given for run in runs):
        yield Mistake("standard deviations are standard errors of the mean", _wider_bars)
    if not one_set:
        yield Mistake("the runs of a row share one task set", one_set=True)
    yield from _of_settings()
    if theory.structure is None:
        law = "gaussian" if theory.task_law == "sphere" else "sphere"
        text = "N(0, I)" if law == "gaussian" else "of squared norm d"
        yield Mistake(f"tasks are {text}", theory=replace(theory, task_law=law))
        equal = "random" if theory.balanced else "the same"
        other = replace(theory, balanced=not theory.balanced)
        yield Mistake(f"the number of prompts is {equal} for every task", theory=other)


def _of_errors(runs: Sequence[MeasuredRun]) -> Iterator[Mistake]:
    """Mistakes in what was measured."""

    def linear(text: str, factor: Callable[[MeasuredRun], float], noise: float = 0.0) -> Mistake:
        def change(run: MeasuredRun) -> MeasuredRun:
            shift = {"icl": noise * run.rho, "idg": noise * run.rho, "gap": 0.0}
            return replace(
                run,
                errors={
                    name: _scaled(each, factor(run), shift[name])
                    for name, each in run.errors.items()
                },
            )

        return Mistake(text, change, lambda run: dict.fromkeys(run.errors, factor(run)))

    yield linear("errors are half the squared errors", lambda _: 2.0)
    yield linear("errors are twice the squared errors", lambda _: 0.5)
    yield linear("errors leave out the label noise of the query", lambda _: 1.0, 1.0)
    yield linear("errors are half the squared errors without label noise", lambda _: 2.0, 1.0)
    yield linear("errors are divided by the variance 1 + rho of labels", lambda run: 1 + run.rho)
    yield linear("inputs have variance 1 instead of 1/d", lambda run: 1 / run.sizes["dim"])
    if not any("gap" in run.errors and len(run.errors) == 1 for run in runs):
        yield Mistake(
            "errors are roots of the squared errors",
            _squared,
            lambda run: {name: 2 * abs(each.mean) for name, each in run.errors.items()},
        )
    if all("icl" in run.errors and "idg" in run.errors for run in runs):
        yield Mistake("icl and idg are exchanged", _exchanged)


def _of_settings() -> Iterator[Mistake]:
    """Mistakes in the settings."""

    def changed(text: str, **changes: Callable[[MeasuredRun], float]) -> Mistake:
        def change(run: MeasuredRun) -> MeasuredRun:
            values = {name: function(run) for name, function in changes.items()}
            return replaced(run, **values)

        return Mistake(text, change)

    def size(name: str, factor: Callable[[MeasuredRun], float], shift: int = 0) -> dict:
        return {name: lambda run: max(1, round(run.sizes[name] * factor(run)) + shift)}

    more = size("prompts", lambda run: 1 + 1 / run.sizes["dim"])
    yield changed("tau counts prompts over d (d + 1)", **more)
    yield changed("the context has one pair more", **size("context", lambda _: 1, 1))
    yield changed("the context has one pair less", **size("context", lambda _: 1, -1))
    for rounding, how in (("floor", "down"), ("ceil", "up"), ("nearest", "to the nearest")):
        yield Mistake(f"ratios are rounded {how}", _rounded(rounding))
    noises: dict[str, Callable[[MeasuredRun], float]] = {
        "rho is a standard deviation": lambda run: run.rho**2,
        "rho is d times as large": lambda run: run.rho * run.sizes["dim"],
        "rho is smaller by the factor d": lambda run: run.rho / run.sizes["dim"],
        "there is no label noise": lambda _: 0.0,
    }
    for text, noise in noises.items():
        yield changed(text, rho=noise)
    ridges: dict[str, Callable[[MeasuredRun], float]] = {
        "d times as large": lambda run: run.sizes["dim"],
        "smaller by the factor d": lambda run: 1 / run.sizes["dim"],
        "n/d times as large": lambda run: run.sizes["prompts"] / run.sizes["dim"],
        "smaller by the factor n/d": lambda run: run.sizes["dim"] / run.sizes["prompts"],
        "n times as large": lambda run: run.sizes["prompts"],
        "smaller by the factor n": lambda run: 1 / run.sizes["prompts"],
        "tau times as large": lambda run: run.ratios["tau"],
        "smaller by the factor tau": lambda run: 1 / run.ratios["tau"],
        "twice as large": lambda _: 2.0,
        "half as large": lambda _: 0.5,
        "0": lambda _: 0.0,
    }
    for text, factor in ridges.items():
        yield changed(f"the ridge is {text}", ridge=_times_ridge(factor))


def _times_ridge(factor: Callable[[MeasuredRun], float]) -> Callable[[MeasuredRun], float]:
    return lambda run: run.ridge * factor(run)


def _scaled(estimate: Estimate, factor: float, shift: float = 0.0) -> Estimate:
    mean, error = factor * estimate.mean + shift, abs(factor) * estimate.standard_error
    return Estimate(mean, error, estimate.repeats)


def _squared(run: MeasuredRun) -> MeasuredRun:
    errors = {
        name: _scaled(each, 2 * abs(each.mean), each.mean**2 - 2 * abs(each.mean) * each.mean)
        for name, each in run.errors.items()
        if name != "gap"
    }
    return replace(run, errors=errors)


def _exchanged(run: MeasuredRun) -> MeasuredRun:
    errors = dict(run.errors)
    errors["icl"], errors["idg"] = errors["idg"], errors["icl"]
    if "gap" in errors:
        errors["gap"] = _scaled(errors["gap"], -1.0)
    return replace(run, errors=errors)


def _wider_bars(run: MeasuredRun) -> MeasuredRun:
    factor = math.sqrt(run.runs or 1)
    errors = {
        name: Estimate(each.mean, each.standard_error * factor, each.repeats)
        for name, each in run.errors.items()
    }
    return replace(run, errors=errors)


def _rounded(rounding: str) -> Callable[[MeasuredRun], MeasuredRun]:
    function = ROUNDINGS[rounding]

    def change(run: MeasuredRun) -> MeasuredRun:
        assert function is not None
        sizes = {
            name: max(1, function(value))
            for name, value in run.unrounded.items()
            if value < math.inf and abs(value - round(value)) > 1e-6 * max(1.0, value)
        }
        return replaced(run, **sizes)

    return change
