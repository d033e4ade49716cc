"""Figure of a check: z and relative deviations of measured errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, log_scale, panels
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.judgement import RowDeviation
from iclimit.validation.yours.runs.measured import MEASURED

PARAMETERS = ("tau", "alpha", "kappa", "dim", "rho", "ridge")
"""What deviations may be drawn against."""

MARKERS = dict(zip(MEASURED, "os^", strict=True))


def most_varied(rows: Sequence[RowDeviation]) -> str:
    """Return the parameter with the most different values; of several, the first."""
    return max(PARAMETERS, key=lambda name: len(set(_values(rows, name))))


def draw(figure: Figure, rows: Sequence[RowDeviation], verdict: Verdict) -> None:
    """Draw z by row, and relative deviations by row and by the most varied parameter."""
    from matplotlib.ticker import MaxNLocator

    scores, by_row, by_parameter = panels(figure, 3, width=11.4, height=3.5)
    names = [name for name in MEASURED if any(name in row.comparisons for row in rows)]
    grouped = any(len(row.run.rows) > 1 for row in rows)
    numbers = [number if grouped else row.run.rows[0] for number, row in enumerate(rows, 1)]
    counted = "setting" if grouped else "row"
    parameter = most_varied(rows)
    for name, colour in zip(names, COLOURS, strict=False):
        shift = 0.12 * (names.index(name) - (len(names) - 1) / 2)
        z = [_z(row, name) for row in rows]
        places = np.array(numbers) + shift
        scores.plot(places, z, MARKERS[name], color=colour, markersize=4, label=name.upper())
        _draw_deviations(by_row, places, rows, name, colour)
        _draw_deviations(by_parameter, _values(rows, parameter), rows, name, colour)
    judged = [row for row in verdict.comparisons if row.of]
    if judged:
        for side in (-1, 1):
            level = side * verdict.threshold(judged[0])
            scores.axhline(level, color="0.5", linestyle="--", linewidth=0.8)
    for ax in (scores, by_row, by_parameter):
        ax.axhline(0, color="0.4", linewidth=0.8, zorder=0)
    finish(scores, counted, "z", legend="" if len(names) > 1 else None)
    finish(by_row, counted, "measured / predicted - 1, in %")
    for ax in (scores, by_row):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    finish(by_parameter, parameter, "measured / predicted - 1, in %")
    values = [value for value in _values(rows, parameter) if 0 < value < math.inf]
    if len(values) == len(rows) and max(values) > 20 * min(values):
        log_scale(by_parameter, "x")


def _draw_deviations(
    ax: Axes,
    places: Sequence[float] | np.ndarray,
    rows: Sequence[RowDeviation],
    name: str,
    colour: str,
) -> None:
    found = []
    for place, row in zip(places, rows, strict=True):
        each = row.comparisons.get(name)
        if each is not None and each.theory and math.isfinite(each.theory):
            error = each.standard_error if math.isfinite(each.standard_error) else 0.0
            scale = 100 / abs(each.theory)
            found.append((place, scale * (each.estimate - each.theory), scale * error))
    if found:
        x, deviations, errors = zip(*found, strict=True)
        draw_points(ax, x, deviations, errors, colour, fmt=MARKERS[name])


def _values(rows: Sequence[RowDeviation], name: str) -> list[float]:
    return [
        row.run.sizes["dim"] if name == "dim" else round(row.run.ratios[name], 12) for row in rows
    ]


def _z(row: RowDeviation, name: str) -> float:
    each = row.comparisons.get(name)
    return each.z if each is not None and math.isfinite(each.standard_error) else math.nan
