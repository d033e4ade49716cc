"""Which sizes and how many runs answer a question, for the least cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.asymptotics.pretraining.finite_size import TASK_LAWS
from iclimit.checks import check_arguments, check_choice, check_integers, given
from iclimit.drawing import Axes, Figure
from iclimit.results import Result
from iclimit.simulate.arrays import Seed
from iclimit.tables import aligned, entry, write_rows
from iclimit.validation.yours.plan.figure import draw_plan, draw_power
from iclimit.validation.yours.plan.points import Cost, NotProposed, Points, Setting
from iclimit.validation.yours.plan.proposals import Goal, Proposal, parse_goal, propose
from iclimit.validation.yours.plan.questions import (
    NEED_EFFECT,
    Against,
    Design,
    difference,
    precision,
    theories,
    transition,
)
from iclimit.validation.yours.runs.measured import ESTIMATORS, MEASURED
from iclimit.validation.yours.runs.predictions import Theory

# What can be asked.
QUESTIONS = ("precision", "difference", "theories", "transition")

# Dimensions that are tried.
DIMENSIONS = (12, 16, 20, 24, 32, 48, 64)

# Task sets that predictions are averaged over.
SETS = 30

# Fewest points of a sweep.
FEWEST_VALUES = 4


@dataclass(frozen=True, repr=False)
class RunPlan(Result):
    """Runs that answer a question, the cheapest first (`plan_runs`).

    Attributes
    ----------
    question : str
        What was asked.
    proposals : list of Proposal
        Sizes with the number of their repeats.
    goal : Goal
        What was fixed, and what was computed.
    unit : str
        Unit of the cost.
    along : str
        Parameter of the sweep of a transition; otherwise empty.
    notes : list of str
        What was assumed, and which sizes are not proposed and why.
    """

    question: str
    proposals: list[Proposal]
    goal: Goal
    unit: str
    along: str
    notes: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """Proposals, the best first."""
        return [each.row() for each in self.proposals]

    @property
    def best(self) -> Proposal:
        """The first proposal.

        Raises
        ------
        ValueError
            If there is none.
        """
        if not self.proposals:
            raise ValueError(" ".join(["no size is proposed.", *self.notes]))
        return self.proposals[0]

    def runs(self, dim: int | None = None) -> list[dict[str, Any]]:
        """Runs of the best proposal, or of that at a dimension, as a table.

        It has the errors that are expected, with their standard errors, in columns that
        `check_runs` reads: replace them by what you measure.
        """
        if dim is None:
            return self.best.runs()
        sizes = {str(each.dim): each for each in self.proposals}
        check_choice("dim", str(dim), sizes)
        return sizes[str(dim)].runs()

    def write_runs(self, path: Any, dim: int | None = None) -> None:
        """Write the table of runs to a file that ends in .csv or .json."""
        write_rows(path, self.runs(dim))

    @property
    def commands(self) -> list[str]:
        """Lines of Python that make the runs of the best proposal here."""
        best, lines = self.best, []
        for number, point in enumerate(best.design.points):
            numbers = {**point.arguments, "repeats": best.repeats, "rng": number}
            text = ", ".join(
                f"{name}=float('inf')" if each == math.inf else f"{name}={each!r}"
                for name, each in numbers.items()
            )
            lines.append(f"iclimit.simulate_errors({text}).{point.quantity}")
        return lines

    def draw(self, ax: Axes) -> None:
        """Draw power against cost."""
        draw_power(ax, self.proposals, self.goal.power, self.unit)

    def draw_figure(self, figure: Figure, /, **_: Any) -> list[Axes]:
        """Draw power against cost, and the two theories with expected error bars."""
        return draw_plan(figure, self)

    def __str__(self) -> str:
        """Table of the proposals, the runs of the best one, and what was assumed."""
        if not self.proposals:
            return "\n".join(["No size is proposed.", *self.notes])
        rows = self.rows()
        named = [f"cost [{self.unit}]" if name == "cost" else name for name in rows[0]]
        lines = [[_short(value) for value in row.values()] for row in rows]
        return "\n".join([*aligned([named, *lines]), self.sentence, *self.commands, *self.notes])

    @property
    def sentence(self) -> str:
        """What the best proposal promises."""
        best = self.best
        runs = f"{best.repeats} run{'s' * (best.repeats > 1)}"
        runs += " of each setting" * (len(best.design.points) > 1) + f" at d = {best.dim}"
        chance = f"with probability {best.power:.3f}"
        if self.question == "precision":
            return f"{runs} measure the limit to {best.effect:.2%} {chance}."
        if self.question == "difference" and len(best.design.points) == 1:
            return (
                f"{runs} tell the gap from 0 at {best.significance:.3g} standard errors {chance}."
            )
        what = {
            "difference": f"tell the errors, which differ by {best.effect:.2%},",
            "theories": f"tell the theories, which differ by {best.effect:.2%},",
            "transition": f"notice a shift along {self.along} by {best.effect:.2%}",
        }[self.question]
        return f"{runs} {what} at {best.significance:.3g} standard errors {chance}."


def _short(value: Any) -> str:
    """Entry of the printed table."""
    return ("yes" if value else "") if isinstance(value, bool) else entry(value, 3)


def plan_runs(
    question: str,
    *,
    quantity: str = "icl",
    tau: float | Sequence[float],
    alpha: float | Sequence[float],
    kappa: float | Sequence[float],
    rho: float | Sequence[float],
    ridge: float | Sequence[float] = 0.0,
    test_alpha: float | None = None,
    test_rho: float | None = None,
    against: Against | None = None,
    effect: float | None = None,
    significance: float | None = None,
    power: float | None = None,
    repeats: int | None = None,
    max_cost: float | None = None,
    dim: int | Sequence[int] = DIMENSIONS,
    cost: Cost | None = None,
    unit: str = "s",
    task_law: str = "sphere",
    rng: Seed = 0,
    progress: bool = False,
) -> RunPlan:
    r"""Plan runs of pretrained linear attention: which sizes, and how many repeats.

    Of effect, significance, power and the number of runs, all but one are fixed, and the last one
    is computed: the repeats unless ``repeats`` or ``max_cost`` is given, otherwise the effect
    (where the question takes one), the power or the significance, the first that is left out.

    Parameters
    ----------
    question : {"precision", "difference", "theories", "transition"}
        "precision": measure an error to a relative ``effect``.  "difference": tell the errors of
        two settings from each other, each with runs of its own, or ICL from IDG errors (the gap,
        without ``against``) on the same runs.  "theories": tell two theories of the same runs
        from each other.  "transition": find the place of a transition along the parameter that
        has several values, to a relative ``effect``.
    quantity : {"icl", "idg", "gap"}
        What is measured: the error on fresh tasks, that on pretraining tasks, or their paired
        difference.
    tau, alpha, kappa, rho, ridge : float
        Setting of the runs, as of `icl_error`; one of them has increasing values for a transition.
    test_alpha, test_rho : float, optional
        Context length over dimension and label noise of the tests on fresh tasks, if they differ.
    against : mapping, str or callable, optional
        The second setting or theory: parameters that differ, as ``{"kappa": 1}``; as a theory also
        "dmmse" or "ridge", the Bayes estimators on the pretraining tasks and on all tasks, or a
        function of any of tau, alpha, kappa, rho, ridge, dim, context, tasks and prompts.
    effect : float, optional
        Relative change that is to be noticed.
    significance : float, optional
        Standard errors at which a theory is excluded; default 5.
    power : float, optional
        Probability of the right answer; default 0.95.
    repeats : int, optional
        Runs of each setting.
    max_cost : float, optional
        Largest cost of all runs.
    dim : int or sequence of int
        Dimensions that are tried.
    cost : callable, optional
        Cost of a run as a function of dim, context, tasks and prompts; by default the estimated
        CPU seconds of `simulate_errors` on this machine.
    unit : str
        Unit of the cost.
    task_law : {"sphere", "gaussian"}
        Law of the tasks.
    rng : int, SeedSequence or Generator
        Root of the task sets that predictions are averaged over.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    RunPlan
        Print it for the table, ranked by cost; ``runs`` and ``write_runs`` give the runs,
        ``plot`` the figure.

    Raises
    ------
    ValueError
        If an argument is outside its range, unknown or missing, or nothing is left to compute.

    Notes
    -----
    A theory is excluded if what is measured is further from it than ``significance`` standard
    errors plus u, the stated uncertainty of the prediction at finite size
    (`iclimit.finite_size_errors`); module `iclimit.validation.yours.plan.power` has the formulas.
    Standard errors are predicted (`iclimit.pretraining.finite_size_spread`).  A second theory
    whose scatter is not known is taken to scatter as much, relative to its error.

    Where the standard deviation of a run is more than a tenth of the error, its law is skewed:
    at least ten repeats are proposed, and if fewer are given, judge logarithms.  Sizes at which
    the variance of a run is infinite are not proposed.

    Examples
    --------
    >>> import iclimit
    >>> setting = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1, "ridge": 0.1}
    >>> cost = lambda dim, context, tasks, prompts: prompts * dim**2 / 1e6
    >>> plan = iclimit.plan_runs("precision", **setting, effect=0.02, dim=[16, 24], cost=cost)
    >>> [(each["dim"], each["repeats"]) for each in plan.rows()]
    [(16, 115), (24, 27)]
    """
    check_choice("question", question, QUESTIONS)
    check_choice("quantity", quantity, MEASURED)
    check_choice("task_law", task_law, TASK_LAWS)
    goal = parse_goal(question, effect, significance, power, repeats, max_cost)
    numbers = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": rho, "ridge": ridge}
    setting, along = _parse_setting(
        question, numbers | given(test_alpha=test_alpha, test_rho=test_rho)
    )
    sizes = np.atleast_1d(dim).tolist()
    for size in sizes:
        check_integers(dim=size)
    root = int(np.random.default_rng(rng).integers(2**62))
    points = Points(quantity, cost, Theory(task_law=task_law, draws=SETS, root=root))
    design = _design(question, points, setting, along, against)
    proposals, notes = [], list[str]()
    for size in tqdm(sizes, disable=not progress, unit="size", desc="planning", leave=False):
        try:
            proposals.append(propose(design(size), goal))
        except NotProposed as error:
            notes.append(f"Not proposed: d = {size}: {error}.")
    best = (lambda each: each.cost) if goal.unknown == "repeats" else _sharpness(goal.unknown)
    if any(each.skewed for each in proposals):
        notes.insert(0, SKEWED_NOTE)
    return RunPlan(question, sorted(proposals, key=best), goal, unit, "".join(along), notes)


SKEWED_NOTE = (
    "Where skewed says yes, single runs scatter by more than a tenth of the error: judge means of "
    "ten or more, or logarithms."
)


def _sharpness(unknown: str) -> Callable[[Proposal], tuple[float, float]]:
    """Order of proposals of the same cost: by what is computed, the best first."""
    sign = 1 if unknown == "effect" else -1
    return lambda each: (sign * getattr(each, unknown), each.cost)


def _parse_setting(
    question: str, numbers: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Checked setting, and the values of the parameter along which a transition lies."""
    several = {n: each for n, each in numbers.items() if np.size(each) > 1}
    setting = {n: np.asarray(each).item() for n, each in numbers.items() if n not in several}
    if len(several) != (question == "transition"):
        wanted = "exactly one parameter" if question == "transition" else "no parameter"
        names = ", ".join(several) or "none"
        raise ValueError(f"{wanted} must have several values for {question}, got {names}")
    along = {}
    for name, values in several.items():
        along[name] = [float(each) for each in values]
        if len(values) < FEWEST_VALUES or np.any(np.diff(values) <= 0) or values[0] <= 0:
            allowed = f"{FEWEST_VALUES} or more increasing numbers > 0"
            raise ValueError(f"{name} must be one number or {allowed}, got {along[name]}")
    for name, all_values in {**{n: [each] for n, each in setting.items()}, **along}.items():
        for each in all_values:
            check_arguments(**{name: each})
            if math.isinf(each) and name != "kappa":
                raise ValueError(f"{name} must be finite for runs, got {each!r}")
    return setting, along


def _design(
    question: str,
    points: Points,
    setting: Setting,
    along: Mapping[str, Sequence[float]],
    against: Against | None,
) -> Callable[[int], Design]:
    """Design of the question, as a function of the dimension."""
    if question in NEED_EFFECT:
        if against is not None:
            raise ValueError(f"against must not be given for {question}, got {against!r}")
        if question == "precision":
            return partial(precision, points, setting)
        ((name, values),) = along.items()
        return partial(transition, points, setting, name, values)
    if isinstance(against, Mapping):
        for name in against:
            check_choice("against", name, setting)
        changed, _ = _parse_setting(question, {**setting, **against})
        if question == "theories":
            return partial(theories, points, setting, against)
        return partial(difference, points, setting, changed)
    if question == "difference":
        if against is None and points.quantity == "gap":
            return partial(difference, points, setting, None)
        raise ValueError(f"against must be parameters that differ, got {against!r}")
    if isinstance(against, str):
        check_choice("against", against, ESTIMATORS[1:])
        if not setting["rho"]:
            raise ValueError(f"rho must be > 0 for the Bayes estimators, got {setting['rho']}")
    elif not callable(against):
        allowed = "parameters that differ, dmmse, ridge or a function"
        raise ValueError(f"against must be {allowed}, got {against!r}")
    return partial(theories, points, setting, against)
