"""The figure of claims that have none of their own, made from their rows and the verdict."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from iclimit.comparison import Comparison
from iclimit.drawing import (
    COLOURS,
    Axes,
    Figure,
    draw_points,
    draw_sizes,
    finish,
    panels,
    write_key,
)
from iclimit.notation import PARAMETERS
from iclimit.results import Estimate
from iclimit.statistics import estimates_of, extrapolate_predictions
from iclimit.validation.rows import Limit, Row, Single
from iclimit.verdict import Verdict
from iclimit.words import sharpness

# Columns of panels by the number of panels; other numbers of panels have two columns.
COLUMNS = {0: 1, 1: 1, 3: 3}
# Most limits that have a panel.
MOST = 4
# Fewest values of a parameter along which a family is drawn.
LEAST = 3
# Most values that are ticks, if they are integers.
MOST_TICKS = 6
# Height of a panel in inches.
HEIGHT = 2.7
# Height of a row of deviations in inches, and rows that the name of their axis is as high as.
ROW = 0.28
FEWEST_ROWS = 3
# Height in inches of the axis and the title around the rows of deviations.
MARGIN = 0.8
# Characters that are seen in a line of a title, by the number of columns.
TITLE = {1: 90, 2: 50, 3: 28}
# Characters in a line of a legend.
WIDTH = 44
# Characters that are seen of a title that has no room in three columns.
LONGEST = 56
# Lines of families that share a colour.
LINES = ("-", "--", ":", "-.")
# Deviations are drawn up to this multiple of what is accepted, and as triangles beyond.
FARTHEST = 1.5
# Vertical places of the points in a row, one after the other: they hide each other less.
PLACES = np.array([0, 0.5, -0.5, 0.25, -0.25]) / 2
# Mark of a limit in labels, which the figure shows.
LIMITS = re.compile(r",? ?\b(d=inf|[dN] to infinity|extrapolated)\b")
# Parameter and value in labels.
SETTING = re.compile(r"(?<![\w/-])(\w+) ?= ?([\d.e+-]*\d|inf)\b")
KEY = "points: simulation;  stars: theory;  dotted: extrapolation;  bars at the limit: accepted"
# Label of an axis with values, which titles and legends name.
VALUE = "simulated value"
# The same where ratios to predictions are extrapolated.
RATIO = "simulation / prediction"
# Width of the bar that shows which extrapolated values are accepted.
BAR = 7


def draw_rows(figure: Figure, rows: Sequence[Row], verdict: Verdict) -> None:
    """Draw limits against inverse sizes, families along a parameter, and below all deviations."""
    limits = [row for row in rows if isinstance(row, Limit) and len(row.runs) >= LEAST][:MOST]
    families: dict[str, dict[str, list[tuple[float, Comparison]]]] = {}
    for row in rows:
        if isinstance(row, Single) and row.x:
            name, x = row.x
            point = x, row.comparisons()[0]
            families.setdefault(name, {}).setdefault(row.family, []).append(point)
    drawn = {
        name: members
        for name, members in families.items()
        if max(map(len, members.values())) >= LEAST
    }
    count = len(limits) + len(drawn)
    title = max((seen(headed(list(row.theories))[0]) for row in limits), default=0)
    columns = COLUMNS.get(count, 2) if title <= LONGEST else min(count, 2)
    lines = -(-count // columns)
    functions = by_function(verdict.comparisons)
    foot = ROW * max(len(functions), FEWEST_ROWS) + MARGIN
    *above, deviations = panels(figure, columns, lines, height=HEIGHT * lines, foot=foot)
    places = iter(above)
    for row in limits:
        draw_limit(next(places), row, TITLE[columns], verdict)
    for name, members in drawn.items():
        draw_families(next(places), name, members)
    for ax in places:
        ax.remove()
    draw_shares(deviations, verdict, functions)
    if count:
        write_key(figure, KEY if limits else "lines: theory; points: simulation")


def draw_limit(ax: Axes, row: Limit, width: int, verdict: Verdict) -> None:
    """Draw all quantities of a limit, under a title with lines of so many characters.

    A bar shows which extrapolated values are accepted.
    """
    title, labels = headed(list(row.theories))
    compared = row.comparisons()
    for number, (label, colour) in enumerate(zip(labels, COLOURS, strict=False)):
        draw_quantity(ax, row, number, colour, label)
        unit = float([*row.theories.values()][number]) if predictions_of(row) else 1.0
        middle = compared[number].theory / unit
        reach = verdict.accepted(compared[number]) / unit
        ends = [middle - reach, middle + reach]
        # Each bar is narrower than the one before, which it would hide.
        linewidth = BAR * (1 - number / len(labels) / 2)
        style: Any = {"color": colour, "alpha": 0.25, "clip_on": False, "zorder": 1}
        ax.plot([0, 0], ends, linewidth=linewidth, **style)
    y = RATIO if predictions_of(row) else VALUE
    # A single panel is narrower than the figure by the names below it: a legend above is cut.
    above = any(labels) and width < TITLE[1]
    finish(ax, f"1 / {row.size}", y, title=wrapped(title, width), legend="" if above else None)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:.6g}" if x else f"0\n{row.size} = $\\infty$")
    if any(labels) and not above:
        ax.legend(fontsize="small")


def headed(labels: Sequence[str]) -> tuple[str, list[str]]:
    """What labels have in common, as a title, and what differs; parameters by their symbols."""
    words = [LIMITS.sub("", label).split() for label in labels]
    if len(words) == 1:
        return in_symbols(words[0]), [""]
    same = [len(set(column)) == 1 for column in zip(*words, strict=False)]
    head = sum(1 for _ in takewhile(bool, same))
    turned = [len(set(column)) == 1 for column in zip(*map(reversed, words), strict=False)]
    tail = min(sum(1 for _ in takewhile(bool, turned)), min(map(len, words)) - head)
    ends = words[0][:head], words[0][len(words[0]) - tail :]
    common = " ... ".join(in_symbols(end) for end in ends if end)
    return common, [in_symbols(label[head : len(label) - tail]) for label in words]


def in_symbols(words: Sequence[str]) -> str:
    """Words, with ``name=value`` written with the symbol of the parameter."""

    def written(setting: re.Match[str]) -> str:
        name, value = setting.groups()
        symbol = PARAMETERS[name].symbol if name in PARAMETERS else ""
        return f"${symbol}={value.replace('inf', chr(92) + 'infty')}$" if symbol else setting[0]

    return SETTING.sub(written, " ".join(words)).strip(" ,")


def seen(text: str) -> int:
    """Number of characters that are seen of a text with formulas."""
    return len(re.sub(r"[${}_^]", "", re.sub(r"\\[A-Za-z]+", "x", text)))


def wrapped(text: str, width: int) -> str:
    """A text in lines of at most so many characters that are seen; formulas stay whole."""
    lines = [""]
    for part in re.findall(r"\$[^$]*\$\S*|\S+", text):
        longer = f"{lines[-1]} {part}".strip()
        if lines[-1] and seen(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def predictions_of(row: Limit) -> Mapping[int, Sequence[Any]]:
    """Predictions by size whose ratios to the runs are extrapolated; empty if there are none."""
    return row.options.get("predictions") or {}


def draw_quantity(ax: Axes, row: Limit, number: int, colour: str, label: str = "") -> None:
    """Draw what is extrapolated by size, its limit as a star, and the fit.

    If it is a ratio to predictions, that is drawn, times the limit of the predictions and over the
    limit of the theory: the extrapolated value is then the simulated limit over the theory.
    """
    runs = [estimates_of(run)[number] for run in row.runs.values()]
    limit = float([*row.theories.values()][number])
    sizes = list(row.runs)
    unit = 1.0
    if predictions := predictions_of(row):
        unit = limit
        orders = {k: v for k, v in row.options.items() if k in ("anchors", "anchored_order")}
        scale = extrapolate_predictions(predictions, **orders).value[number] / limit
        runs = [
            ratio_to(run, predictions[size][number], scale)
            for size, run in zip(sizes, runs, strict=True)
        ]
    draw_sizes(ax, sizes, runs, colour, limit=limit / unit, label=wrapped(label, WIDTH))
    value = row.fit.value[number] / unit
    error = row.fit.standard_error[number] / unit
    draw_points(ax, [0], [value], [error], colour, fmt="none")
    fine = np.linspace(1e-4, 1 / min(sizes), 200)
    ax.plot(fine, row.fit.curve(1 / fine)[:, number] / unit, ":", color=colour, linewidth=0.9)


def ratio_to(run: Estimate, prediction: Estimate | float, scale: float) -> Estimate:
    """Ratio of a mean to its prediction, times a number, with the errors of both."""
    predicted = prediction.mean if isinstance(prediction, Estimate) else float(prediction)
    doubt = prediction.standard_error if isinstance(prediction, Estimate) else 0.0
    ratio = run.mean / predicted
    error = np.hypot(run.standard_error, ratio * doubt) / abs(predicted)
    return Estimate(scale * ratio, abs(scale) * float(error), run.repeats)


def draw_families(
    ax: Axes, name: str, families: dict[str, list[tuple[float, Comparison]]]
) -> None:
    """Draw families along a parameter: theory as lines, estimates as points."""
    for (family, points), (colour, line) in zip(
        families.items(), family_styles(list(families)), strict=True
    ):
        x = [value for value, _ in points]
        ax.plot(x, [row.theory for _, row in points], line, color=colour, label=family)
        errors = [row.standard_error for _, row in points]
        draw_points(ax, x, [row.estimate for _, row in points], errors, colour)
    points = [point for family in families.values() for point in family]
    positive = all(min(x, row.theory) > 0 for x, row in points)
    words = PARAMETERS[name].meaning.partition(" (")[0] if name in PARAMETERS else name
    of = {row.of.rpartition(".")[2].replace("_", " ") for _, row in points}
    y = of.pop() if len(of) == 1 else VALUE
    finish(ax, words, y, log="xy" if positive else "", legend="" if any(families) else None)
    values = sorted({x for x, _ in points})
    if len(values) <= MOST_TICKS and all(float(x).is_integer() for x in values):
        ax.set_xticks(values, [f"{x:,.10g}" for x in values])
        ax.set_xticks([], minor=True)


def family_styles(families: Sequence[str]) -> list[tuple[str, str]]:
    """Colour and line of each family; if colours are too few, lines show what follows a comma."""
    if len(families) <= len(COLOURS):
        return [(colour, "-") for colour in COLOURS[: len(families)]]
    parts = [name.partition(", ")[::2] for name in families]
    heads = list(dict.fromkeys(head for head, _ in parts))
    tails = list(dict.fromkeys(tail for _, tail in parts))
    return [
        (COLOURS[heads.index(head) % len(COLOURS)], LINES[tails.index(tail) % len(LINES)])
        for head, tail in parts
    ]


def draw_shares(ax: Axes, verdict: Verdict, functions: dict[str, list[Comparison]]) -> None:
    """Draw all deviations from theory as shares of what is accepted, by function.

    On the right is the smallest error of each function that would be noticed.
    """
    words = []
    for height, (name, comparisons) in enumerate(functions.items()):
        colour = COLOURS[height % len(COLOURS)]
        shares = np.array([verdict.share(row) for row in comparisons])
        places = height + PLACES[np.arange(len(shares)) % len(PLACES)]
        inside = np.abs(shares) <= FARTHEST
        ax.plot(shares[inside], places[inside], "o", color=colour, markersize=4, alpha=0.7)
        for side, marker in ((1, ">"), (-1, "<")):
            beyond = ~inside & (np.sign(shares) == side)
            ax.plot(np.full(beyond.sum(), side * FARTHEST), places[beyond], marker, color=colour)
        sharpest = verdict.sharpest.get(name)
        words.append(
            sharpness(verdict.resolution(sharpest), sharpest.standard_error == 0)
            if sharpest
            else ""
        )
    ax.axvspan(-1, 1, color="0.93", zorder=0)
    ax.axvline(0, color="0.4", linewidth=0.8)
    ticks = range(len(functions))
    ax.set(xlim=(-1.05 * FARTHEST, 1.05 * FARTHEST), ylim=(len(functions) - 0.4, -0.6))
    ax.set_yticks(ticks, [name or "other checks" for name in functions], fontsize="small")
    ax.grid(visible=False, axis="y")
    finish(ax, "deviation from the theory / largest accepted (shaded)", "function")
    if any(words):
        right = ax.secondary_yaxis("right")
        right.set_yticks(ticks, words, fontsize="small")
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)
        ax.text(1.0, 1.0, "would notice", transform=ax.transAxes, fontsize="small", ha="left")


def by_function(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """Comparisons by the function that gave the theory; what tests no function comes last."""
    groups: dict[str, list[Comparison]] = {}
    for row in sorted(comparisons, key=lambda row: not row.of):
        groups.setdefault(row.of, []).append(row)
    return groups
