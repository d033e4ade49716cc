"""The figure of a check: the user's points on the predicted curves, pulls, and the verdict."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
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
    write_texts,
)
from iclimit.notation import PARAMETERS, sizes_of
from iclimit.validation.instruments.runs.judgement import RowDeviation
from iclimit.validation.instruments.runs.measured import ATTENTION, MEASURED, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory, predict
from iclimit.verdict import Verdict

# Parameters against which errors may be drawn.
VARIED = ("tau", "alpha", "kappa", "dim", "rho", "ridge")

MARKERS = dict(zip(MEASURED, "os^", strict=True))
LINES = dict(zip(MEASURED, ("-", "--", ":"), strict=True))

# Points of a predicted curve, beside those of the rows.
NODES = 240

# An axis is logarithmic if the ratio of its ends is larger than this.
LOG_FROM = 10.0

# Lines leave the picture above this multiple of the largest error of a row: their peaks would
# squeeze the points.
FRAME = 3.0

# Factor between the smallest error and the end of a logarithmic axis.
MARGIN = 1.2

# What the errors are called in legends.
NAMES = {"icl": "ICL, new tasks", "idg": "IDG, pretraining tasks", "gap": "gap, ICL less IDG"}

# Style in which predictions of single rows are drawn.
PREDICTED: dict[str, Any] = {"linestyle": "none", "marker": "_", "markersize": 14}


def most_varied(rows: Sequence[RowDeviation]) -> str:
    """Return the parameter with the most different values; of several, the first."""
    return max(VARIED, key=lambda name: len({_parameter(row.run, name) for row in rows}))


def draw_check(
    figure: Figure,
    rows: Sequence[RowDeviation],
    verdict: Verdict,
    theory: Theory,
    head: str,
    reasons: Sequence[str],
) -> None:
    """Draw the errors on predicted curves, z by row, the verdict above and its reasons below."""
    errors, pulls = panels(figure, 2, width=10.4, height=4.4)
    draw_errors(errors, rows, theory)
    _draw_pulls(pulls, rows, verdict)
    write_texts(figure, head, "\n".join(reasons))


def draw_errors(ax: Axes, rows: Sequence[RowDeviation], theory: Theory) -> None:
    """Draw measured errors and predicted curves by the most varied parameter.

    Rows that are on too many curves are drawn one after the other with their predictions.
    """
    parameter = most_varied(rows)
    groups: defaultdict[tuple[Any, ...], list[RowDeviation]] = defaultdict(list)
    others = [name for name in (*VARIED, "estimator") if name != parameter]
    for row in sorted(rows, key=lambda row: _parameter(row.run, parameter)):
        groups[tuple(_parameter(row.run, name) for name in others)].append(row)
    if len(groups) > min(len(rows) / 2, len(COLOURS)):
        return _draw_rows(ax, rows)
    varied = [i for i in range(len(others)) if len({key[i] for key in groups}) > 1]
    alone = len(groups) == 1
    for name, colour in zip(MEASURED, COLOURS, strict=False):
        if any(name in row.comparisons for row in rows):
            look = LINES[name] + MARKERS[name]
            key_colour = colour if alone else "0.3"
            style: dict[str, Any] = {"color": key_colour, "linewidth": 1, "markersize": 4}
            ax.plot([], [], look, label=NAMES[name], **style)
    for colour, (key, members) in zip(COLOURS, groups.items(), strict=False):
        if not alone:
            label = ", ".join(_label(others[i], key[i]) for i in varied)
            ax.plot([], [], color=colour, label=label)
        colours = COLOURS if alone else [colour] * len(MEASURED)
        _draw_family(ax, members, parameter, colours, theory)
    finish(ax, parameter, "error", legend="points: measured; lines: predicted")
    places = [_parameter(row.run, parameter) for row in rows]
    if min(places) > 0 and LOG_FROM * min(places) < max(places) < math.inf:
        log_scale(ax, "x")
    low, high = ax.dataLim.intervaly
    high = min(high, FRAME * _largest(rows))
    if low > 0 and high > LOG_FROM * low:
        ax.set_ylim(low / MARGIN, high)
        log_scale(ax, "y")
    elif high < ax.dataLim.y1:
        ax.set_ylim(top=high)
    return None


def _largest(rows: Sequence[RowDeviation]) -> float:
    """Largest of the measured and predicted errors of the rows that is finite."""
    errors = [error.mean for row in rows for error in row.errors.values()]
    errors += [row.prediction.value(name) for row in rows for name in row.comparisons]
    return max(error for error in errors if math.isfinite(error))


def _draw_family(
    ax: Axes, rows: Sequence[RowDeviation], parameter: str, colours: Sequence[str], theory: Theory
) -> None:
    """Draw measured errors of rows on one curve, and the curve, each error in its colour."""
    curve = list(_curve(rows, parameter, theory))
    x = [value for value, _ in curve]
    means = np.array([mean for _, mean in curve])
    style: dict[str, Any] = {"linewidth": 1} if len(x) > 1 else PREDICTED
    for name, colour in zip(MEASURED, colours, strict=False):
        drawn = [(_parameter(row.run, parameter), row) for row in rows if name in row.comparisons]
        if drawn:
            line = {"linestyle": LINES[name]} | style
            ax.plot(x, means @ np.array(MEASURED[name]), color=colour, **line)
            _draw_measured(ax, drawn, name, colour)


def _draw_rows(ax: Axes, rows: Sequence[RowDeviation]) -> None:
    """Draw measured and predicted errors row by row."""
    for name, colour in zip(MEASURED, COLOURS, strict=False):
        drawn = [(place, row) for place, row in _numbered(rows) if name in row.comparisons]
        if drawn:
            predicted = [(place, row.prediction.value(name)) for place, row in drawn]
            ax.plot(*zip(*predicted, strict=True), color=colour, **PREDICTED)
            _draw_measured(ax, drawn, name, colour, NAMES[name])
    finish(ax, _noun(rows), "error", legend="points: measured; dashes: predicted")
    _mark_rows(ax, rows)


def _numbered(rows: Sequence[RowDeviation]) -> list[tuple[int, RowDeviation]]:
    """Rows with their numbers in the table, or in turn if rows of the table were averaged."""
    if _noun(rows) == "setting":
        return list(enumerate(rows, 1))
    return [(row.run.rows[0], row) for row in rows]


def _noun(rows: Sequence[RowDeviation]) -> str:
    """What is numbered."""
    return "setting" if any(len(row.run.rows) > 1 for row in rows) else "row"


def _draw_measured(
    ax: Axes, rows: Sequence[tuple[float, RowDeviation]], name: str, colour: str, label: str = ""
) -> None:
    """Draw measured errors at their places, with error bars where these are known."""
    errors = [row.errors[name] for _, row in rows]
    bars = [
        error.standard_error if math.isfinite(error.standard_error) else 0.0 for error in errors
    ]
    places = [place for place, _ in rows]
    means = [error.mean for error in errors]
    draw_points(ax, places, means, bars, colour, fmt=MARKERS[name], label=label)


def _label(name: str, value: float | str) -> str:
    return value if isinstance(value, str) else f"${PARAMETERS[name].symbol}$ = {value:.3g}"


def _curve(
    rows: Sequence[RowDeviation], parameter: str, theory: Theory
) -> Iterator[tuple[float, np.ndarray]]:
    """Predictions between rows: from mean moments, times the ratio of the full ones to these."""
    rows = [row for row in rows if row.prediction.finite]
    ends = [_parameter(row.run, parameter) for row in rows]
    values = [value for value in ends if value < math.inf]
    if len(set(values)) < 2 or rows[0].run.estimator != ATTENTION:
        yield from ((x, row.prediction.mean) for x, row in zip(ends, rows, strict=True))
        return
    less = replace(theory, cheap=True)
    ratios = [row.prediction.mean / predict(row.run, less).mean for row in rows]
    space = np.geomspace if values[0] > 0 else np.linspace
    seen = set()
    for value in sorted({*values, *space(values[0], values[-1], NODES)}):
        run = _at(rows[0].run, parameter, value)
        if run.setting not in seen:
            seen.add(run.setting)
            with suppress(ValueError):
                mean = predict(run, less).mean
                x = _parameter(run, parameter)
                ratio = [np.interp(x, ends, column) for column in np.transpose(ratios)]
                finite = np.where(np.isfinite(mean), mean, np.nan)
                yield x, finite * ratio


def _at(run: MeasuredRun, parameter: str, value: float) -> MeasuredRun:
    """The run at another value of a parameter, at the nearest integers."""
    if parameter in ("rho", "ridge"):
        return run.at({parameter: value})
    if parameter == "dim":
        ratios = {name: run.ratios[name] for name in ("tau", "alpha", "kappa")}
        dim = max(1, round(value))
        return run.at({"dim": dim} | sizes_of(dim, ratios))
    return run.at(sizes_of(run.sizes["dim"], {parameter: value}))


def _draw_pulls(ax: Axes, rows: Sequence[RowDeviation], verdict: Verdict) -> None:
    """Draw z by row, with what is accepted."""
    names = [name for name in MEASURED if any(name in row.judged for row in rows)]
    for name, colour in zip(names, COLOURS, strict=False):
        shift = 0.12 * (names.index(name) - (len(names) - 1) / 2)
        judged = [
            (place + shift, row.judged[name].z)
            for place, row in _numbered(rows)
            if name in row.judged
        ]
        ax.plot(*zip(*judged, strict=True), MARKERS[name], color=colour, label=name.upper())
    if single := [row for row in verdict.comparisons if row.of]:
        level = verdict.threshold(single[0])
        ax.axhspan(-level, level, color="0.93", zorder=0, label="accepted")
    ax.axhline(0, color="0.4", linewidth=0.8, zorder=0)
    finish(ax, _noun(rows), "z, in standard errors", legend="")
    _mark_rows(ax, rows)


def _mark_rows(ax: Axes, rows: Sequence[RowDeviation]) -> None:
    """Mark whole numbers of rows only, even of a single one."""
    places = [place for place, _ in _numbered(rows)]
    ax.set_xlim(min(places) - 0.6, max(places) + 0.6)
    ax.locator_params(axis="x", integer=True, min_n_ticks=1)


def _parameter(run: MeasuredRun, name: str) -> Any:
    if name == "estimator":
        return run.estimator
    return run.sizes["dim"] if name == "dim" else round(run.ratios[name], 12)
