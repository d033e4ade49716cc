"""Proposals: the runs at one size that reach a goal."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.checks import check_arguments, given
from iclimit.validation.yours.plan.points import NotProposed
from iclimit.validation.yours.plan.power import Contrast
from iclimit.validation.yours.plan.questions import NEED_EFFECT, Design

# Standard errors and power unless they are given.
SIGNIFICANCE, POWER = 5.0, 0.95

# Errors of single runs are skewed if their standard deviation is a larger share of the mean; their
# mean is nearly normal from so many runs on.
SKEWED, FEWEST = 0.1, 10

# Effects among which the least one is searched for.
EFFECTS = np.geomspace(1e-4, 10, 1000)


@dataclass(frozen=True)
class Goal:
    """What is fixed, and what is computed from it.

    Attributes
    ----------
    effect, significance, power, repeats, max_cost
        As of `plan_runs`.
    unknown : {"repeats", "effect", "power", "significance"}
        What is computed.
    """

    effect: float | None
    significance: float
    power: float
    repeats: int | None
    max_cost: float | None
    unknown: str


@dataclass(frozen=True)
class Proposal:
    """Runs at one size that answer the question.

    Attributes
    ----------
    design : Design
        The runs and the contrast.
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
        return int(self.design.points[0].arguments["dim"])

    @property
    def cost(self) -> float:
        """Cost of all runs."""
        return self.repeats * self.design.cost

    @property
    def z(self) -> float:
        """Expected deviation in standard errors."""
        return self.contrast.change / self.contrast.standard_errors(self.repeats)[0]

    def row(self) -> dict[str, Any]:
        """Row of the table."""
        first, *others = (point.arguments for point in self.design.points)
        sizes = {
            name: first[name]
            for name in ("dim", "context", "tasks", "prompts")
            if all(each[name] == first[name] for each in others)
        }
        numbers: dict[str, float] = {
            "repeats": self.repeats,
            "runs": self.repeats * len(self.design.points),
        }
        numbers |= {"effect": self.effect, "z": self.z}
        if not self.contrast.interval:
            numbers["significance"] = self.significance
        return {**sizes, **numbers, "power": self.power, "cost": self.cost, "skewed": self.skewed}

    def runs(self) -> list[dict[str, Any]]:
        """Runs as a table that `check_runs` reads: expected errors, to be replaced by yours."""
        rows = []
        for point in self.design.points:
            numbers = dict(point.arguments)
            if self.repeats > 1:
                numbers["runs"] = self.repeats
            error = math.sqrt(point.variance / self.repeats)
            numbers |= {point.quantity: point.mean, f"{point.quantity}_se": error}
            rows.append(numbers)
        return rows


def parse_goal(
    question: str,
    effect: float | None,
    significance: float | None,
    power: float | None,
    repeats: int | None,
    max_cost: float | None,
) -> Goal:
    """Goal of the arguments of `plan_runs`, and what is left to compute.

    Raises
    ------
    ValueError
        If an argument is outside its range, too many or too few are given.
    """
    numbers = {"effect": effect, "significance": significance, "power": power}
    check_arguments(**given(**numbers, repeats=repeats, max_cost=max_cost))
    takes = question in NEED_EFFECT
    if effect is not None and not takes:
        raise ValueError(f"effect must not be given for {question}: theory fixes it, got {effect}")
    if significance is not None and question == "precision":
        raise ValueError(f"significance must not be given for precision, got {significance}")
    if repeats is not None and max_cost is not None:
        raise ValueError("repeats and max_cost must not both be given: each fixes the other")
    if repeats is None and max_cost is None:
        if takes and effect is None:
            raise ValueError(f"effect must be given for {question}, or repeats or max_cost")
        unknown = "repeats"
    elif takes and effect is None:
        unknown = "effect"
    elif power is None:
        unknown = "power"
    elif significance is None and question != "precision":
        unknown = "significance"
    else:
        raise ValueError(
            "one of effect, significance, power and the number of runs must be left out: it is "
            "what is computed"
        )
    return Goal(effect, significance or SIGNIFICANCE, power or POWER, repeats, max_cost, unknown)


def propose(design: Design, goal: Goal) -> Proposal:
    """Proposal of a design that reaches the goal.

    Raises
    ------
    NotProposed
        If none does.
    """
    spreads = [point.relative_spread for point in design.points]
    if not max(spreads) < math.inf:
        raise NotProposed("the variance of a run is infinite")
    skewed, effect, z, power = max(spreads) > SKEWED, goal.effect, goal.significance, goal.power
    if goal.unknown == "repeats":
        needed = design.contrast(effect).least_repeats(z, power)
        if needed is None:
            raise NotProposed("the prediction is not sharp enough for any number of runs")
        repeats = max(needed, FEWEST) if skewed else needed
    else:
        repeats = goal.repeats or math.floor((goal.max_cost or 0.0) / design.cost)
        if not repeats:
            raise NotProposed(f"one run of each setting costs {design.cost:.3g}")
    if goal.unknown == "effect":
        place = bisect_left(
            EFFECTS, True, key=lambda each: design.contrast(each).power(repeats, z) >= power
        )
        if place == len(EFFECTS):
            raise NotProposed(f"no effect up to {EFFECTS[-1]:g} is noticed")
        effect = EFFECTS[place]
    contrast = design.contrast(effect)
    if goal.unknown == "significance":
        z = contrast.significance(repeats, power)
    else:
        power = contrast.power(repeats, z)
    if effect is None:
        effect = contrast.change / abs(design.points[0].mean)
    return Proposal(design, contrast, repeats, float(effect), z, power, skewed)
