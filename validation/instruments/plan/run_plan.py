"""The plan that ranks proposals: its table, its runs, and its figure."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.drawing import (
    COLOURS,
    Axes,
    Figure,
    draw_points,
    finish,
    log_scale,
    panels,
    shades,
    write_texts,
)
from iclimit.notation import PARAMETERS
from iclimit.results import Result
from iclimit.tables import aligned, entry, write_rows
from iclimit.validation.instruments.plan.proposals import Proposal
from iclimit.validation.instruments.plan.questions import QUESTIONS, SCATTER, SKEWED_NOTE

# Lines end at this multiple of the cost of the runs that are proposed.
BEYOND = 4

# Points of a line.
NODES = 200

# Upper end of the axis of probabilities: the best proposal is named above 1.
TOP = 1.2

# Height of these words, and of the row above them that names the largest cost.
WORDS = 1.1
ROW = 0.12

# Most sizes in a row of the legend, and that are marked one by one on their axis.
MARKED = 8

# Look of what is asked for, and of the best proposal.
ASKED: dict[str, Any] = {"color": "0.4", "linewidth": 0.9, "linestyle": "--", "zorder": 1}
BEST: dict[str, Any] = {"marker": "*", "linestyle": "none", "color": "#ffd700", "zorder": 6}
BEST |= {"markeredgecolor": "black", "markeredgewidth": 0.8}


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
    # Probability of success that was asked for, largest cost, and the second setting in words.
    _least_power: float | None = field(repr=False)
    _max_cost: float | None = field(repr=False)
    _against: str = field(repr=False)

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
                f"{point.quantity}_se": best.standard_error(number),
            }
            for number, point in enumerate(best.design.points)
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
        """Draw the power of each size against the cost of its runs, and the best proposal."""
        _draw_powers(ax, self)

    def draw_figure(self, figure: Figure, /, **_: Any) -> list[Axes]:
        """Draw power against cost, and the theories by dimension or along a transition."""
        return _draw_plan(figure, self)

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
        question = QUESTIONS[self.question]
        what = question.promise.format(
            runs=best.words,
            s="s" if best.repeats == 1 else "",
            effect=best.effect_words,
            z=f" at {best.significance:.3g}σ",
            along=self.along,
        )
        promised = f"{100 * best.power:.1f} %"
        chance = f"probability {promised}" if question.interval else f"{promised} power"
        return f"{what} with {chance}."


def _in_table(value: object) -> str:
    """Entry of the printed table."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return entry(value, 3)


def _written(numbers: Mapping[str, Any]) -> str:
    """Arguments as Python has them."""
    return ", ".join(
        f"{name}=float('inf')" if value == math.inf else f"{name}={value!r}"
        for name, value in numbers.items()
    )


def _draw_plan(figure: Figure, plan: RunPlan) -> list[Axes]:
    """Draw probability against cost, and the theories by dimension or along a transition."""
    left, right = panels(figure, 2, width=9.6, height=4.3)
    write_texts(figure, plan.sentence, "\n".join(_notes(plan)))
    _draw_powers(left, plan)
    if plan.along:
        _draw_curve(right, plan)
    else:
        _draw_sizes(right, plan)
    return [left, right]


def _notes(plan: RunPlan) -> list[str]:
    """Notes of the plan, of which one speaks of a column of its table."""
    notes = [note for note in plan.notes if note != SKEWED_NOTE]
    if skewed := [str(proposal.dim) for proposal in plan.proposals if proposal.skewed]:
        notes.insert(0, f"At d = {', '.join(skewed)} {SCATTER}")
    return notes


def _draw_powers(ax: Axes, plan: RunPlan) -> None:
    """Draw the probability of success of each size against the cost of its runs.

    Lines have the colours of their sizes, and stand in the legend in their order from left to
    right.  What is asked for is a dashed line, the best proposal a star.
    """
    sizes = sorted({proposal.dim for proposal in plan.proposals})
    colours = dict(zip(sizes, shades(len(sizes)), strict=True))
    for proposal in sorted(plan.proposals, key=_half_cost):
        repeats, powers = _line(proposal)
        ax.plot(
            repeats * proposal.design.cost,
            powers,
            "-o",
            color=colours[proposal.dim],
            markersize=_scaled(0.8),
            markevery=[int(np.searchsorted(repeats, proposal.repeats))],
            label=f"{proposal.dim}",
        )
    finish(ax, f"estimated cost of all runs [{plan.unit}]", "probability of success", log="x")
    ax.set_ylim(-0.03, TOP)
    ax.set_yticks(np.linspace(0, 1, 6))
    _draw_asked(ax, plan)
    _mark_best(ax, plan.best)
    _order_legend(ax)


def _order_legend(ax: Axes) -> None:
    """Name the lines above the axes, row by row in their order."""
    entries = list(zip(*ax.get_legend_handles_labels(), strict=True))
    columns = min(len(entries), MARKED)
    by_column = [entry for first in range(columns) for entry in entries[first::columns]]
    look: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left"}
    look |= {"fontsize": "x-small", "handlelength": 1, "columnspacing": 1, "borderaxespad": 0.2}
    heading = "dimension, lines from left to right"
    ax.legend(*zip(*by_column, strict=True), ncols=columns, title=heading, **look)


def _line(proposal: Proposal) -> tuple[np.ndarray, np.ndarray]:
    """Repeats, those that are proposed among them, and their probabilities of success."""
    counts = np.geomspace(1, BEYOND * proposal.repeats, NODES)
    repeats = np.union1d(counts, proposal.repeats)
    powers = [proposal.contrast.power(count, proposal.significance) for count in repeats]
    return repeats, np.array(powers)


def _half_cost(proposal: Proposal) -> float:
    """Cost at which a line has half of its probability at the proposal, or begins."""
    repeats, powers = _line(proposal)
    return float(repeats[np.argmax(powers >= proposal.power / 2)] * proposal.design.cost)


def _draw_asked(ax: Axes, plan: RunPlan) -> None:
    """Draw the probability that is asked for, and the largest cost."""
    small: dict[str, Any] = {"fontsize": "small", "color": "0.3"}
    if (power := plan._least_power) is not None:
        ax.axhline(power, **ASKED)
        ax.text(1.01, power, f"asked:\n{100 * power:g} %", va="center", **small, **_by_y(ax))
    if (cost := plan._max_cost) is not None:
        ax.axvline(cost, **ASKED)
        ax.set_ylim(top=TOP + ROW)
        words = f" largest cost: {cost:g} {plan.unit} "
        ax.text(cost, WORDS + ROW, words, ha=_side(ax, cost), va="center", **small)


def _by_y(ax: Axes) -> dict[str, Any]:
    """Place by a share of the width and a value of the y axis."""
    return {"transform": ax.get_yaxis_transform()}


def _mark_best(ax: Axes, best: Proposal) -> None:
    """Draw a star at the best proposal, and say above it what it is."""
    ax.plot(best.cost, best.power, markersize=_scaled(2), **BEST)
    side = _side(ax, best.cost)
    words = f" {best.words.replace('per setting', 'each')} "
    ax.text(best.cost, WORDS, words, ha=side, va="center", fontsize="small", weight="bold")


def _side(ax: Axes, cost: float) -> str:
    """Alignment with which words at a cost stay within the axes."""
    low, high = np.log(ax.get_xlim())
    share = (math.log(cost) - low) / (high - low)
    return "left" if share < 0.3 else "right" if share > 0.7 else "center"


def _scaled(size: float) -> float:
    """Size of a marker in this style, as a multiple of the usual one."""
    from matplotlib import rcParams

    return size * float(rcParams["lines.markersize"])


def _draw_curve(ax: Axes, plan: RunPlan) -> None:
    """Draw the theories along a parameter at the size of the best proposal."""
    best = plan.best
    places = [(best, number) for number in range(len(best.design.points))]
    x = [point.ratios[plan.along] for point in best.design.points]
    _draw_theories(ax, x, places, plan)
    finish(ax, plan.along, _error(plan), log="x", legend=f"d = {best.dim}; bars: standard errors")


def _draw_sizes(ax: Axes, plan: RunPlan) -> None:
    """Draw the theories, or the errors of a fit, by dimension, with a star at the best."""
    ordered = sorted(plan.proposals, key=lambda proposal: proposal.dim)
    sizes = [proposal.dim for proposal in ordered]
    if QUESTIONS[plan.question].takes_free:
        best = _draw_forecast(ax, sizes, plan)
        finish(ax, "dim", "relative standard error of the fit", legend="")
    else:
        _draw_theories(ax, sizes, [(proposal, 0) for proposal in ordered], plan)
        best = [plan.best.design.points[0].mean]
        finish(ax, "dim", _error(plan), legend="bars: standard errors")
    ax.plot([plan.best.dim] * len(best), best, markersize=_scaled(2), **BEST)
    ax.set_xlim(0.9 * min(sizes), 1.1 * max(sizes))
    log_scale(ax, "x")
    if len(sizes) <= MARKED:
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()


def _draw_forecast(ax: Axes, sizes: Sequence[int], plan: RunPlan) -> list[float]:
    """Draw the expected errors of fitted parameters by dimension; return those of the best."""
    rows = {row["dim"]: row for row in plan.rows()}
    best = []
    for name, colour in zip(plan.best.errors, COLOURS, strict=False):
        errors = [rows[size][f"{name}_se"] for size in sizes]
        label = _symbol(name) or name.replace("_", " ")
        ax.plot(sizes, errors, "o-", color=colour, label=label)
        best.append(rows[plan.best.dim][f"{name}_se"])
    ax.axhline(plan.best.effect, label=f"allowed deviation: {plan.best.effect_words}", **ASKED)
    ax.set_ylim(bottom=0)
    return best


def _draw_theories(
    ax: Axes, x: Sequence[float], places: Sequence[tuple[Proposal, int]], plan: RunPlan
) -> None:
    """Draw what two theories say of the points, with the error bars of the repeats proposed."""
    question = QUESTIONS[plan.question]
    means = [proposal.design.points[number].mean for proposal, number in places]
    bars = [proposal.standard_error(number) for proposal, number in places]
    others = [proposal.design.others(proposal.effect)[number] for proposal, number in places]
    label = question.other.format(
        effect=plan.best.effect_words, along=_symbol(plan.along), against=plan._against or "no gap"
    )
    lines = [(means, "o-", COLOURS[0], question.one)]
    if question.interval:
        below = 2 * np.array(means) - others
        ax.fill_between(x, below, others, color=COLOURS[1], alpha=0.2, linewidth=0, label=label)
    else:
        lines.append((others, "s--", COLOURS[1], label))
    # The legend has them in their order from above.
    for values, look, colour, name in sorted(lines, key=lambda line: -line[0][0]):
        ax.plot(x, values, look, color=colour, markersize=_scaled(0.7), label=name)
    draw_points(ax, x, means, bars, COLOURS[0], fmt="none")
    if question.runs_second and plan.best.design.runs > 1:
        bars = [proposal.standard_error(1) for proposal, _ in places]
        draw_points(ax, x, others, bars, COLOURS[1], fmt="none")


def _error(plan: RunPlan) -> str:
    """What is measured, by its name of the notation."""
    quantity = plan.best.design.points[0].quantity
    return "task_gap" if quantity == "gap" else f"{quantity}_error"


def _symbol(name: str) -> str:
    """Symbol of a parameter; empty if it has none."""
    symbol = getattr(PARAMETERS.get(name), "symbol", "")
    return f"${symbol}$" if symbol else ""
