"""Which sizes and how many runs answer a question, for the least cost."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.checks import by_name, check_arguments, check_choice, check_integers, given
from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, panels, write_headline
from iclimit.experiment import Experiment, Point
from iclimit.notation import PARAMETERS
from iclimit.problem import TASK_LAWS
from iclimit.results import Result
from iclimit.simulate.arrays import Seed
from iclimit.simulate.pretraining.cell_cost import OPERATIONS_PER_SECOND
from iclimit.tables import aligned, entry, write_rows
from iclimit.validation.instruments.fitted_parameters import check_free
from iclimit.validation.instruments.plan.durations import duration_notes
from iclimit.validation.instruments.plan.points import (
    RATIOS,
    TESTS,
    Cost,
    NotProposed,
    Planner,
    Setting,
    check_ratio,
    run_at,
    task_law_of,
)
from iclimit.validation.instruments.plan.questions import (
    LISTS,
    QUESTIONS,
    SWEEP,
    Against,
    Contrast,
    Design,
    Terms,
    second_of,
)
from iclimit.validation.instruments.runs.measured import MEASURED
from iclimit.validation.instruments.runs.predictions import Theory
from iclimit.validation.instruments.runs.run_model import FREE, check_of_sequences
from iclimit.words import counted

# Unknowns of which larger values are better.
UPWARDS = ("power", "significance")

# Dimensions that are tried.
DIMENSIONS = (12, 16, 20, 24, 32, 48, 64)

# Task sets that predictions are averaged over.
SETS = 30

# Fewest points of a sweep.
FEWEST_VALUES = 4

# Warning for skewed errors.
SKEWED_NOTE = (
    "Where skewed says yes, single runs scatter by more than a tenth of the error: judge means of "
    "ten or more, or logarithms."
)

# How the cost is found, unless another one is given.
COST_NOTE = (
    f"Costs are floating-point operations, {OPERATIONS_PER_SECOND / 1e9:g}e9 in a second of one "
    "core; machines differ by some factor."
)

# What is planned where every position is trained on.
SEQUENCES_NOTE = (
    "Prompts are sequences of one example more than context, trained on all positions from "
    "first_position on."
)

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
        power = self.power or POWER
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

    def row(self) -> dict[str, Any]:
        """Row of the table; sizes that differ between the settings are left out."""
        points = self.design.points
        contrast = self.contrast
        sizes = [point.run.sizes.items() for point in points]
        numbers = dict(pair for pair in sizes[0] if all(pair in size for size in sizes))
        numbers |= {"repeats": self.repeats, "runs": self.repeats * self.design.runs}
        numbers |= {"effect": self.effect, "z": contrast.change / contrast.errors(self.repeats)[0]}
        numbers |= {} if contrast.interval else {"significance": self.significance}
        if self.design.forecast:
            errors = self.design.forecast(self.repeats).standard_errors
            numbers |= {f"{name}_se": error for name, error in errors.items()}
        return {**numbers, "power": self.power, "cost": self.cost, "skewed": self.skewed}


@dataclass(frozen=True, repr=False)
class RunPlan(Result):
    """Runs that answer a question, the cheapest first (`plan_runs`).

    Attributes
    ----------
    question : str
        What was asked.
    proposals : list of Proposal
        Sizes with the number of their repeats.
    unit : str
        Unit of the cost.
    along : str
        Parameter of the sweep of a transition; otherwise empty.
    notes : list of str
        What was assumed, and which sizes are not proposed and why.
    """

    question: str
    proposals: list[Proposal]
    unit: str
    along: str
    notes: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """Proposals, the best first."""
        return [proposal.row() for proposal in self.proposals]

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

    def runs(self) -> list[dict[str, Any]]:
        """Runs of the best proposal as a table.

        It has the errors that are expected, with their standard errors, in columns that
        `check_runs` reads: replace them by what you measure.
        """
        best = self.best
        return [
            {
                **point.run.arguments,
                **({"runs": best.repeats} if best.repeats > 1 else {}),
                point.quantity: point.mean,
                f"{point.quantity}_se": math.sqrt(point.variance / best.repeats),
            }
            for point in best.design.points
        ]

    def write_runs(self, path: str | os.PathLike) -> None:
        """Write the table of runs to a file that ends in .csv or .json."""
        write_rows(path, self.runs())

    @property
    def commands(self) -> list[str]:
        """Lines of Python that make the runs of the best proposal here."""
        best = self.best
        lines = []
        for number, point in enumerate(best.design.points):
            seed = 0 if best.design.paired else number
            numbers = point.run.arguments
            drawn = f"repeats={best.repeats!r}, rng={seed!r}"
            if point.run.in_course:
                made = f"iclimit.Experiment.of({_written(numbers)})"
                lines.append(f"iclimit.sample({made}, {drawn}).{point.quantity}")
            else:
                text = f"{_written(numbers)}, {drawn}"
                lines.append(f"iclimit.simulate_errors({text}).{point.quantity}")
        return lines

    def draw(self, ax: Axes) -> None:
        """Draw the power of each size against the cost of its runs, the proposal as a point."""
        for number, proposal in enumerate(
            sorted(self.proposals, key=lambda proposal: proposal.dim)
        ):
            colour = COLOURS[number % len(COLOURS)]
            repeats = np.geomspace(1, 4 * proposal.repeats, 200)
            powers = [proposal.contrast.power(count, proposal.significance) for count in repeats]
            style = "-" if number < len(COLOURS) else "--"
            ax.plot(
                repeats * proposal.design.cost,
                powers,
                style,
                color=colour,
                label=f"{proposal.dim}",
            )
            ax.plot(proposal.cost, proposal.power, "o", color=colour, markersize=5)
        ax.set_ylim(-0.03, 1.05)
        words = f"cost of all runs [{self.unit}]", "probability of success"
        finish(ax, *words, log="x", legend="dimension; points: proposed runs")

    def draw_figure(self, figure: Figure, /, **line: Any) -> list[Axes]:
        """Draw power against cost, and the theories by dimension or along a transition."""
        left, right = panels(figure, 2, width=9.6, height=4.3)
        write_headline(figure, self.sentence)
        self.draw(left, **line)
        best = self.best
        other = QUESTIONS[self.question].other
        quantity = best.design.points[0].quantity
        error = "task_gap" if quantity == "gap" else f"{quantity}_error"
        if self.along:
            x = [point.ratios[self.along] for point in best.design.points]
            _draw_theories(right, x, [(best, number) for number in range(len(x))], other)
            finish(right, self.along, error, log="x", legend=f"d = {best.dim}")
            return [left, right]
        ordered = sorted(self.proposals, key=lambda proposal: proposal.dim)
        if QUESTIONS[self.question].takes_free:
            _draw_forecast(right, [proposal.row() for proposal in ordered])
        else:
            _draw_theories(
                right,
                [proposal.dim for proposal in ordered],
                [(proposal, 0) for proposal in ordered],
                other,
            )
            finish(right, "dim", error, legend="with the repeats proposed")
        right.locator_params(axis="x", integer=True)
        return [left, right]

    def __str__(self) -> str:
        """Table of the proposals, the runs of the best one, and what was assumed."""
        if not self.proposals:
            return "\n".join(self.conclusions)
        rows = self.rows()
        named = [f"cost [{self.unit}]" if name == "cost" else name for name in rows[0]]
        lines = [[_in_table(value) for value in row.values()] for row in rows]
        return "\n".join([*aligned([named, *lines]), self.sentence, *self.commands, *self.notes])

    @property
    def conclusions(self) -> list[str]:
        """What the best proposal promises, and what was assumed."""
        return [self.sentence if self.proposals else "No size is proposed.", *self.notes]

    @property
    def sentence(self) -> str:
        """What the best proposal promises."""
        best = self.best
        single = best.repeats == 1
        runs = counted(best.repeats, "run")
        if best.design.runs > 1:
            runs += " of each setting"
        runs += f" at d = {best.dim}"
        question = QUESTIONS[self.question]
        what = question.promise.format(
            s="s" if single else "",
            effect=f"{100 * best.effect:.3g} %",
            z=f" at {best.significance:.3g}σ",
            along=self.along,
        )
        promised = f"{100 * best.power:.1f} %"
        chance = f"probability {promised}" if question.interval else f"{promised} power"
        return f"{runs} {what} with {chance}."


def _draw_forecast(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the expected errors of fitted parameters by dimension."""
    names = [name for name in rows[0] if name.endswith("_se")]
    for name, colour in zip(names, COLOURS, strict=False):
        errors = [row[name] for row in rows]
        symbol = getattr(PARAMETERS.get(name[:-3]), "symbol", "")
        label = f"${symbol}$" if symbol else name[:-3].replace("_", " ")
        ax.plot([row["dim"] for row in rows], errors, "o-", color=colour, label=label)
    finish(ax, "dim", "relative standard error of the fit", legend="")


def _draw_theories(
    ax: Axes, x: Sequence[float], places: Sequence[tuple[Proposal, int]], other: str
) -> None:
    """Draw what two theories say of the points, with the error bars of the repeats proposed."""
    points = [proposal.design.points[number] for proposal, number in places]
    bars = [
        math.sqrt(point.variance / proposal.repeats)
        for point, (proposal, _) in zip(points, places, strict=True)
    ]
    others = [proposal.design.others(proposal.effect)[number] for proposal, number in places]
    draw_points(
        ax, x, [point.mean for point in points], bars, COLOURS[0], fmt="o-", label="expected"
    )
    ax.plot(x, others, "--", color=COLOURS[1], label=other)


def _in_table(value: object) -> str:
    """Entry of the printed table."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return entry(value, 3)


def plan_runs(
    question: str,
    run: Point | Experiment | None = None,
    *,
    quantity: str = "icl",
    tau: float | Sequence[float] | None = None,
    alpha: float | Sequence[float] | None = None,
    kappa: float | Sequence[float] | None = None,
    rho: float | Sequence[float] | None = None,
    ridge: float | Sequence[float] | None = None,
    test_alpha: float | None = None,
    test_rho: float | None = None,
    sequence_ratio: float | Sequence[float] | None = None,
    alpha_min: float | None = None,
    normalization: str | None = None,
    against: Against | None = None,
    effect: float | None = None,
    significance: float | None = None,
    power: float | None = None,
    repeats: int | None = None,
    max_cost: float | None = None,
    free: Sequence[str] = (),
    dim: int | Sequence[int] | None = None,
    cost: Cost | None = None,
    unit: str = "s",
    task_law: str | None = None,
    rng: Seed = 0,
    progress: bool = False,
) -> RunPlan:
    r"""Plan runs of pretrained linear attention: which sizes, and how many repeats.

    Of effect, significance, power and the number of runs, all but one are fixed, and the last one
    is computed: the repeats unless ``repeats`` or ``max_cost`` is given, otherwise the effect
    (where the question takes one), the power or the significance, the first that is left out.

    Parameters
    ----------
    question : {"precision", "difference", "theories", "transition", "bend", "forecast"}
        "precision": measure an error to a relative ``effect``.  "difference": tell the errors of
        two settings from each other, each with runs of its own unless only the tests differ; or
        ICL from IDG errors (the gap, without ``against``) of the same runs.  "theories": tell two
        theories of the same runs from each other.  "transition": find the place of a transition
        along the parameter that has several values, to a relative ``effect``.  "bend": is one
        there at all, as the curve along this parameter is not straight in its logarithm.
        "forecast": fit the parameters ``free``, each within a relative ``effect``; parameters of
        the setting may have several values then, one for each planned run.
    run : Point or Experiment, optional
        What is run, in place of the numbers from ``tau`` to ``test_rho`` and of ``task_law``; a
        point with a ``time`` is trained for it, and the notes say for how many steps.  One
        number of a point has increasing values for a transition.  An experiment that does not come
        from a point has its own dimension only.
    quantity : {"icl", "idg", "gap"}
        What is measured: the error on fresh tasks, that on pretraining tasks, or their paired
        difference.
    tau, alpha, kappa, rho, ridge : float
        Setting of the runs, as of `icl_error`; one of them has increasing values for a transition.
        The ridge is 0 by default.
    test_alpha, test_rho : float, optional
        Context length over dimension and label noise of the tests on fresh tasks, if they differ.
    sequence_ratio, alpha_min, normalization : optional
        In the place of tau: sequences over dimension, trained on all positions from alpha_min d
        on, and the divisor of their summaries, as of `all_position_errors`.  Errors are those
        after the whole sequence, or at ``test_alpha``.
    against : mapping, Point, Experiment, str or callable, optional
        The second setting or theory: parameters that differ, as ``{"kappa": 1}``; as a theory also
        "dmmse" or "ridge", the Bayes estimators on the pretraining tasks and on all tasks, or a
        function of any of tau, alpha, kappa, rho, ridge, dim, context, tasks and prompts.
    effect : float, optional
        Relative change that is to be noticed, or deviation from the truth that is allowed.
    significance : float, optional
        Standard errors at which a theory is excluded; default 5.
    power : float, optional
        Probability of the right answer; default 0.95.
    repeats : int, optional
        Runs of each setting.
    max_cost : float, optional
        Largest cost of all runs.
    free : sequence of str
        Parameters that a fit will leave free, as of `fit_runs`: tau, alpha, kappa, rho, ridge, and
        "factor", "offset" or "task_norm" of the errors.
    dim : int or sequence of int, optional
        Dimensions that are tried; by default that of an experiment, otherwise 12 to 64.
    cost : callable, optional
        Cost of a run as a function of dim, context, tasks and prompts; by default the
        floating-point operations of `simulate_errors`, or of small steps of descent to a time, in
        seconds of a core that makes 1e10 in one.
    unit : str
        Unit of the cost.
    task_law : {"sphere", "gaussian"}, optional
        Law of the tasks; the sphere by default.
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
    TypeError
        If the setting is not stated, or what is run is of another kind.

    Notes
    -----
    A theory is excluded if what is measured is further from it than ``significance`` standard
    errors plus u, the stated uncertainty of the prediction at finite size
    (`iclimit.finite_size_errors`); module `iclimit.validation.instruments.plan.questions` has the
    formulas.  Standard errors are predicted (`iclimit.pretraining.finite_size_spread`); of runs on
    all positions they are those of 60 simulated runs, at d = 16 or below.  A second theory whose
    scatter is not known is taken to scatter as much, relative to its error.

    Where the standard deviation of a run is more than a tenth of the error, its law is skewed:
    at least ten repeats are proposed, and if fewer are given, judge logarithms.  Where it has a
    heavy tail (``heavy`` of `iclimit.pretraining.finite_size_spread`), twice as many as its
    kurtosis are the fewest that are proposed.  Sizes at which the variance of a run is infinite
    are not proposed: contexts of up to four pairs without a ridge, with fewer prompts than
    d (d + 1).

    Examples
    --------
    >>> import iclimit
    >>> setting = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1, "ridge": 0.1}
    >>> cost = lambda dim, context, tasks, prompts: prompts * dim**2 / 1e6
    >>> plan = iclimit.plan_runs("precision", **setting, effect=0.02, dim=[16, 24], cost=cost)
    >>> [(row["dim"], row["repeats"]) for row in plan.rows()]
    [(16, 113), (24, 27)]
    >>> point = iclimit.Point(**setting)
    >>> again = iclimit.plan_runs("precision", point, effect=0.02, dim=[16, 24], cost=cost)
    >>> again.rows() == plan.rows()
    True
    """
    goal = Goal(question, effect, significance, power, repeats, max_cost)
    check_choice("quantity", quantity, MEASURED)
    numbers = by_name(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
        sequence_ratio=sequence_ratio,
        alpha_min=alpha_min,
        normalization=normalization,
        task_law=task_law,
    )
    settings, along = _settings(question, run, given(numbers))
    second = second_of(question, against, settings[0], quantity)
    if QUESTIONS[question].runs_second and second is not None:
        settings.append(second)
    terms = Terms(settings, along, second, _checked_free(question, free, settings))
    root = int(np.random.default_rng(rng).integers(2**62))
    theory = Theory(task_law=task_law_of(settings[0]), draws=SETS, root=root)
    sizes = _sizes(run, dim)
    bar = tqdm(sizes, disable=not progress, unit="size", desc="planning", leave=False)
    proposals, notes = _proposals(goal, Planner(quantity, cost, theory), terms, bar)
    if cost is None and proposals:
        notes.append(COST_NOTE)
    for setting in settings:
        notes += duration_notes(setting)
    if any(proposal.design.points[0].run.by_position for proposal in proposals):
        notes.append(SEQUENCES_NOTE)
    # At the same cost the sharpest comes first.
    key = "cost" if goal.unknown == "repeats" else goal.unknown
    sign = -1 if goal.unknown in UPWARDS else 1
    proposals.sort(key=lambda proposal: (sign * getattr(proposal, key), proposal.cost))
    return RunPlan(question, proposals, unit, along, notes)


def _written(numbers: Mapping[str, Any]) -> str:
    """Arguments as Python has them."""
    return ", ".join(
        f"{name}=float('inf')" if value == math.inf else f"{name}={value!r}"
        for name, value in numbers.items()
    )


def _sizes(run: Point | Experiment | None, dim: int | Sequence[int] | None) -> list[int]:
    """Dimensions that are tried."""
    if dim is None:
        dim = run.dim if isinstance(run, Experiment) else DIMENSIONS
    sizes: list[int] = np.atleast_1d(dim).tolist()
    for size in sizes:
        check_integers(dim=size)
    return sizes


def _proposals(
    goal: Goal, planner: Planner, terms: Terms, sizes: Iterable[int]
) -> tuple[list[Proposal], list[str]]:
    """Proposals for the sizes, what they cannot tell, and why others are not proposed."""
    proposals = []
    notes = list[str]()
    refused = list[str]()
    for size in sizes:
        try:
            points = [planner.at(run_at(setting, size)) for setting in terms.settings]
            design = QUESTIONS[goal.question].design(planner, points, terms)
            notes = [*design.notes]
            proposals.append(goal.proposal(design))
        except NotProposed as error:
            refused.append(f"Not proposed: d = {size}: {error}.")
    if any(proposal.skewed for proposal in proposals):
        notes.append(SKEWED_NOTE)
    return proposals, notes + refused


def _checked_free(
    question: str, free: Sequence[str], settings: Sequence[Setting]
) -> tuple[str, ...]:
    """Parameters that a fit leaves free; those that are fitted to a share of them are not 0."""
    if not QUESTIONS[question].takes_free:
        if free:
            raise ValueError(f"free must be left out for {question}, got {free!r}")
        return ()
    names = check_free(free, FREE)
    check_of_sequences(names, sequences="sequence_ratio" in settings[0].limit)
    for name in names:
        if name in ("rho", "ridge") and not all(setting.limit[name] for setting in settings):
            raise ValueError(f"{name} must be > 0 to be fitted within a share of it, got 0")
    return names


def _settings(
    question: str, run: Point | Experiment | None, numbers: dict[str, Any]
) -> tuple[list[Setting], str]:
    """What is run, and the parameter along which the settings of a transition lie.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or has several values where it should have one.
    TypeError
        If the setting is not stated, or twice.
    """
    if run is not None and numbers:
        raise TypeError(f"{', '.join(numbers)} must be left out beside a run")
    if isinstance(run, Experiment) and run.point is None:
        _check_swept(question, {})
        return [run], ""
    columns = _columns(run, numbers)
    if QUESTIONS[question].takes_free and any(name in columns for name in TESTS):
        raise ValueError(f"test_alpha and test_rho must be left out for {question}")
    several = {name: values for name, values in columns.items() if len(values) != 1}
    _check_swept(question, several)
    for name, values in columns.items():
        for value in values:
            if name in RATIOS:
                check_ratio(name, value)
    count = max(len(values) for values in columns.values())
    settings: list[Setting] = [
        Point(**{name: values[number % len(values)] for name, values in columns.items()})
        for number in range(count)
    ]
    along = next(iter(several)) if QUESTIONS[question].swept == SWEEP else ""
    return settings, along


def _columns(run: Point | Experiment | None, numbers: dict[str, Any]) -> dict[str, list[Any]]:
    """Values of each parameter of a point."""
    if isinstance(run, Experiment):
        run = run.point
    if isinstance(run, Point):
        numbers = given(vars(run))
    elif run is not None:
        raise TypeError(f"run must be a Point or an Experiment, got {run!r}")
    count = "sequence_ratio" if "sequence_ratio" in numbers else "tau"
    if missing := [name for name in (count, "alpha", "kappa", "rho") if name not in numbers]:
        raise TypeError(f"plan_runs needs {', '.join(missing)}, or a Point")
    check_choice("task_law", numbers.get("task_law", "sphere"), TASK_LAWS)
    return {name: np.ravel(values).tolist() for name, values in numbers.items()}


def _check_swept(question: str, several: Mapping[str, list[Any]]) -> None:
    """Check which parameters have several values, and how many."""
    wanted = QUESTIONS[question].swept
    if wanted == LISTS:
        if len({len(values) for values in several.values()}) > 1:
            raise ValueError(f"{' and '.join(several)} must have the same number of values")
        return
    if len(several) != (wanted == SWEEP):
        raise ValueError(f"{wanted} may have several values for {question}, got {[*several]}")
    for name, values in several.items():
        if len(values) < FEWEST_VALUES or np.min(np.diff([0.0, *values])) <= 0:
            allowed = f"one number, or {FEWEST_VALUES} or more increasing numbers > 0"
            raise ValueError(f"{name} must be {allowed}, got {values}")
