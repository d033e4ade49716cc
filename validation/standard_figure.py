"""The figure of claims that have none of their own, made from their rows."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from iclimit.drawing import COLOURS, Axes, Figure, draw_points, draw_sizes, finish, panels
from iclimit.results import Estimate
from iclimit.validation.judge.comparisons import Comparison
from iclimit.validation.rows import Limit, Row, Single

# Panels in a row of the figure, and limits that have panels.
MOST = 4
# Most entries of a legend.
LEGEND = 8
# Characters in a line of a legend.
WIDTH = 36
# Deviations are drawn as at least this, in units of what is allowed: some are 0.
SMALLEST = 1e-4


def draw_rows(figure: Figure, rows: Sequence[Row]) -> None:
    """Draw limits against 1/d, families along their parameter, and other rows as ratios."""
    limits = [row for row in rows if isinstance(row, Limit)][:MOST]
    families: dict[str, dict[str, list[tuple[float, Comparison]]]] = {}
    others = []
    for row in rows:
        comparisons = row.comparisons()
        if isinstance(row, Single) and row.x:
            name, x = row.x
            families.setdefault(name, {}).setdefault(row.family, []).append((x, comparisons[0]))
        elif row not in limits:
            others += comparisons
    ratios = [each for each in others if each.standard_error and each.theory]
    rounded = [each for each in others if not each.standard_error and each.allowance]
    count = len(limits) + len(families) + bool(ratios) + bool(rounded)
    columns, lines = min(count, MOST), -(-count // MOST)
    places = iter(panels(figure, columns, lines, width=3.3 * columns + 1, height=3.6 * lines))
    for row in limits:
        draw_limit(next(places), row)
    for name, members in families.items():
        draw_families(next(places), name, members)
    if ratios:
        draw_ratios(next(places), ratios)
    if rounded:
        draw_deviations(next(places), rounded)
    for ax in places:
        ax.remove()


def draw_limit(ax: Axes, row: Limit) -> None:
    """Draw all quantities of a limit."""
    for number, (label, colour) in enumerate(zip(row.theories, COLOURS, strict=False)):
        draw_quantity(ax, row, number, colour, label)
    finish(ax, "1 / size", "simulation; stars: limit", legend="")


def draw_quantity(ax: Axes, row: Limit, number: int, colour: str, label: str = "") -> None:
    """Draw what is extrapolated by size, its limit as a star, and the fit or its value.

    A line shows the predictions, where the fit is one of ratios to these.
    """
    runs, limits = [_estimates(run) for run in row.runs.values()], [*row.theories.values()]
    estimates, limit = [run[number] for run in runs], float(limits[number])
    text, predictions = "\n".join(wrap(label, WIDTH)), row.options.get("predictions")
    options = {} if predictions else {"fit": row.fit, "quantity": number}
    draw_sizes(ax, list(row.runs), estimates, colour, limit=limit, label=text, **options)
    if not predictions:
        return
    value, error = row.fit.value[number], row.fit.standard_error[number]
    draw_points(ax, [0], [value], [error], colour, fmt="none")
    predictions = sorted(predictions.items())
    line = [float(each[number]) for _, each in predictions]
    ax.plot([1 / size for size, _ in predictions], line, color=colour, linewidth=1.2)


def _estimates(run: Any) -> list[Estimate]:
    several = [run] if isinstance(run, Estimate) else run
    return [each if isinstance(each, Estimate) else Estimate.of(each) for each in several]


def draw_families(
    ax: Axes, name: str, families: dict[str, list[tuple[float, Comparison]]]
) -> None:
    """Draw families along a parameter: theory as lines, estimates as points."""
    for number, (family, points) in enumerate(families.items()):
        colour, x = COLOURS[number % len(COLOURS)], [each for each, _ in points]
        ax.plot(x, [row.theory for _, row in points], color=colour, label=family)
        errors = [row.standard_error for _, row in points]
        draw_points(ax, x, [row.estimate for _, row in points], errors, colour)
    positive = all(min(x, row.theory) > 0 for each in families.values() for x, row in each)
    legend = "" if any(families) and len(families) <= LEGEND else None
    finish(ax, name, "lines: theory", log="xy" if positive else "", legend=legend)


def draw_ratios(ax: Axes, rows: Sequence[Comparison]) -> None:
    """Draw estimates over theory, one after the other, in a colour for each function."""
    for name, colour, numbers in _by_function(rows):
        mine = [rows[number] for number in numbers]
        ratios = [row.estimate / row.theory for row in mine]
        errors = [row.standard_error / abs(row.theory) for row in mine]
        draw_points(ax, numbers, ratios, errors, colour, label=name)
    ax.axhline(1, color="0.4")
    finish(ax, "comparison", "estimate / theory", legend=_legend(ax))


def draw_deviations(ax: Axes, rows: Sequence[Comparison]) -> None:
    """Draw deviations from theory in units of what is allowed."""
    for name, colour, numbers in _by_function(rows):
        shares = [
            max(abs(rows[k].estimate - rows[k].theory) / rows[k].allowance, SMALLEST)
            for k in numbers
        ]
        ax.plot(numbers, shares, "o", color=colour, markersize=4, label=name)
    ax.axhline(1, color="0.4", linestyle="--")
    finish(ax, "comparison", "deviation / allowed", log="y", legend=_legend(ax))


def _by_function(rows: Sequence[Comparison]) -> list[tuple[str, str, list[int]]]:
    """Functions of the theory that rows test, each with a colour and the numbers of its rows."""
    numbers: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        numbers.setdefault(row.of or "checks", []).append(number)
    return [
        (name, COLOURS[k % len(COLOURS)], mine) for k, (name, mine) in enumerate(numbers.items())
    ]


def _legend(ax: Axes) -> str | None:
    return "" if len(ax.get_legend_handles_labels()[1]) <= LEGEND else None
