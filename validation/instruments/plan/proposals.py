"""Proposals: how many runs of a design reach a goal."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.checks import check_arguments, check_choice, given
from iclimit.validation.instruments.plan.points import NotProposed
from iclimit.validation.instruments.plan.questions import QUESTIONS, Contrast, Design
from iclimit.words import counted

# Standard errors by which the effect is shown, unless another number is given.
SIGNIFICANCE = 5.0

# Probability with which the runs show the effect, unless another one is given.
POWER = 0.95

# Number of runs with skewed errors from which on their mean is nearly normal.
FEWEST = 10

# Effects among which the least one is searched for.
EFFECTS = np.geomspace(1e-4, 10, 1000)


@dataclass(frozen=True)
class Goal:
    """What is fixed, as of `plan_runs`; what is None is computed, or has its default."""

    question: str
    effect: float | None
    significance: float | None
    power: float | None
    repeats: int | None
    max_cost: float | None

    def __post_init__(self) -> None:
        check_choice("question", self.question, QUESTIONS)
        numbers = vars(self).items()
        check_arguments(**given({name: value for name, value in numbers if name != "question"}))

    @property
    def least_power(self) -> float | None:
        """Power that is asked for; None if it is computed."""
        return None if self.unknown == "power" else self.power or POWER

    @cached_property
    def unknown(self) -> str:
        """What is computed.

        Raises
        ------
        ValueError
            If too much or too little is given.
        """
        question = self.question
        free = QUESTIONS[question].takes_effect
        interval = QUESTIONS[question].interval
        if self.effect is not None and not free:
            raise ValueError(f"effect must be left out for {question}, got {self.effect!r}")
        if self.significance is not None and interval:
            raise ValueError(f"significance must be left out, got {self.significance!r}")
        if self.repeats is not None and self.max_cost is not None:
            raise ValueError("repeats or max_cost must be left out: each fixes the other")
        if self.repeats is None and self.max_cost is None:
            if free and self.effect is None:
                raise ValueError(
                    f"one of effect, repeats and max_cost must be given for {question}, such as "
                    "effect=0.05, which is 5 %, or repeats=20 (--effect 0.05, --repeats 20)"
                )
            return "repeats"
        if free and self.effect is None:
            return "effect"
        names = ("power", "significance")[: 1 if interval else 2]
        if missing := [name for name in names if getattr(self, name) is None]:
            return missing[0]
        raise ValueError("power must be left out: the number of runs and the effect fix it")

    def proposal(self, design: Design) -> Proposal:
        """Proposal of a design that reaches the goal.

        Raises
        ------
        NotProposed
            If none does.
        """
        z = self.significance or SIGNIFICANCE
        power = self.least_power or POWER
        repeats = self._repeats(design, z, power)
        effect = self.effect
        if self.unknown == "effect":
            effect = _least_effect(design, repeats, z, power)
        contrast = design.contrast(effect)
        if self.unknown == "significance":
            z = contrast.significance(repeats, power)
        else:
            power = contrast.power(repeats, z)
        if effect is None:
            point = design.points[0]
            effect = contrast.change / float(point.prediction.mean[int(point.quantity == "idg")])
        return Proposal(design, contrast, repeats, effect, z, power, design.skewed)

    def _repeats(self, design: Design, z: float, power: float) -> int:
        """Runs of each setting."""
        fewest = max(FEWEST if design.skewed else 0, design.heavy)
        if self.unknown == "repeats":
            needed = design.contrast(self.effect).least_repeats(z, power)
            if needed is None:
                raise NotProposed("the prediction is not sharp enough for any number of runs")
            return max(needed, fewest)
        repeats = self.repeats or math.floor((self.max_cost or 0.0) / design.cost)
        if not repeats:
            raise NotProposed(f"one run of each setting costs {design.cost:.3g}")
        if design.heavy and repeats < fewest:
            tail = "the errors of single runs have a heavy tail"
            raise NotProposed(f"{tail}: only means of {fewest} are nearly normal")
        return repeats


def _least_effect(design: Design, repeats: int, z: float, power: float) -> float:
    """The least effect that so many runs notice."""
    place = bisect_left(
        EFFECTS, True, key=lambda effect: design.contrast(effect).power(repeats, z) >= power
    )
    if place == len(EFFECTS):
        raise NotProposed(f"no effect up to {EFFECTS[-1]:g} is noticed")
    return float(EFFECTS[place])


@dataclass(frozen=True)
class Proposal:
    """Runs at one size that answer the question.

    Attributes
    ----------
    design : Design
        The runs.
    contrast : Contrast
        Contrast of their errors.
    repeats : int
        Runs of each setting.
    effect : float
        Relative change that is noticed: of the error, or of the place of a transition.
    significance, power : float
        Standard errors, and probability of the right answer.
    skewed : bool
        Whether errors of single runs are skewed.
    """

    design: Design
    contrast: Contrast
    repeats: int
    effect: float
    significance: float
    power: float
    skewed: bool

    @property
    def dim(self) -> int:
        """Dimension."""
        return int(self.design.points[0].run.sizes["dim"])

    @property
    def cost(self) -> float:
        """Cost of all runs."""
        return self.repeats * self.design.cost

    @property
    def errors(self) -> dict[str, float]:
        """Standard errors of fitted parameters by name; empty unless some are fitted."""
        forecast = self.design.forecast
        return forecast(self.repeats).standard_errors if forecast else {}

    def standard_error(self, number: int) -> float:
        """Standard error of the mean of all runs of a setting."""
        return math.sqrt(self.design.points[number].variance / self.repeats)

    @property
    def words(self) -> str:
        """How many runs, and at which dimension."""
        each = " per setting" if self.design.runs > 1 else ""
        return f"{counted(self.repeats, 'run')}{each} at d = {self.dim}"

    @property
    def effect_words(self) -> str:
        """The effect in per cent."""
        return f"{100 * self.effect:.3g} %"

    def row(self) -> dict[str, Any]:
        """Row of the table; sizes that differ between the settings are left out."""
        points = self.design.points
        contrast = self.contrast
        sizes = [point.run.sizes.items() for point in points]
        numbers = dict(pair for pair in sizes[0] if all(pair in size for size in sizes))
        numbers |= {"repeats": self.repeats, "runs": self.repeats * self.design.runs}
        numbers |= {"effect": self.effect, "z": contrast.change / contrast.errors(self.repeats)[0]}
        numbers |= {} if contrast.interval else {"significance": self.significance}
        numbers |= {f"{name}_se": error for name, error in self.errors.items()}
        return {**numbers, "power": self.power, "cost": self.cost, "skewed": self.skewed}
