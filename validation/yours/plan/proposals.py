"""Runs at one size that reach a goal."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.validation.yours.plan.points import NotProposed
from iclimit.validation.yours.plan.power import Contrast
from iclimit.validation.yours.plan.questions import Design

# Questions that need an effect.
NEED_EFFECT = ("precision", "transition", "forecast")

# Standard errors and power unless they are given.
SIGNIFICANCE, POWER = 5.0, 0.95

# Errors of single runs are skewed if their standard deviation is a larger share of the mean; their
# mean is nearly normal from so many runs on.
SKEWED, FEWEST = 0.1, 10

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

    @property
    def unknown(self) -> str:
        """What is computed.

        Raises
        ------
        ValueError
            If too much or too little is given.
        """
        question, free = self.question, self.question in NEED_EFFECT
        interval = question in ("precision", "forecast")
        if self.effect is not None and not free:
            raise ValueError(f"effect must be left out for {question}, got {self.effect!r}")
        if self.significance is not None and interval:
            raise ValueError(f"significance must be left out, got {self.significance!r}")
        if self.repeats is not None and self.max_cost is not None:
            raise ValueError("repeats or max_cost must be left out: each fixes the other")
        if self.repeats is None and self.max_cost is None:
            if free and self.effect is None:
                raise ValueError(f"effect must be given for {question}, or repeats or max_cost")
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
        effect, z, power = self.effect, self.significance or SIGNIFICANCE, self.power or POWER
        skewed = max(point.relative_spread for point in design.points) > SKEWED
        if self.unknown == "repeats":
            needed = design.contrast(effect).least_repeats(z, power)
            if needed is None:
                raise NotProposed("the prediction is not sharp enough for any number of runs")
            repeats = max(needed, FEWEST * skewed)
        else:
            repeats = self.repeats or math.floor((self.max_cost or 0.0) / design.cost)
            if not repeats:
                raise NotProposed(f"one run of each setting costs {design.cost:.3g}")
        if self.unknown == "effect":
            place = bisect_left(
                EFFECTS, True, key=lambda each: design.contrast(each).power(repeats, z) >= power
            )
            if place == len(EFFECTS):
                raise NotProposed(f"no effect up to {EFFECTS[-1]:g} is noticed")
            effect = float(EFFECTS[place])
        contrast = design.contrast(effect)
        if self.unknown == "significance":
            z = contrast.significance(repeats, power)
        else:
            power = contrast.power(repeats, z)
        if effect is None:
            point = design.points[0]
            effect = contrast.change / float(point.prediction.mean[int(point.quantity == "idg")])
        return Proposal(design, contrast, repeats, effect, z, power, skewed)


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

    def row(self) -> dict[str, Any]:
        """Row of the table; sizes that differ between the settings are left out."""
        points, contrast = self.design.points, self.contrast
        sizes = [each.run.sizes.items() for each in points]
        numbers = dict(pair for pair in sizes[0] if all(pair in each for each in sizes))
        numbers |= {"repeats": self.repeats, "runs": self.repeats * self.design.runs}
        numbers |= {"effect": self.effect, "z": contrast.change / contrast.errors(self.repeats)[0]}
        numbers |= {} if contrast.interval else {"significance": self.significance}
        if self.design.forecast:
            errors = self.design.forecast(self.repeats).standard_errors
            numbers |= {f"{name}_se": error for name, error in errors.items()}
        return {**numbers, "power": self.power, "cost": self.cost, "skewed": self.skewed}
