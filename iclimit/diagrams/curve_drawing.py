"""Pictures of families of curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.diagrams.axes import log_axis
from iclimit.diagrams.dense_lines import Line, dense_line
from iclimit.diagrams.legends import place_legend, setting_lines, stated, write_title
from iclimit.diagrams.simulated_points import LEAST_SIZES
from iclimit.drawing import draw_points, log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from iclimit.diagrams.curves import Curves

# Integers along a curve up to which they are marked.
_FEW = 60

# Ratio of the largest to the least value from which the values are on a logarithmic axis.
_RANGE = 20

# Values that are drawn are within this factor of 1, the order of all quantities, if they go far
# beyond it on both sides or one.
_FARTHEST = 1e8

# Characters of an axis label that names several quantities.
_LONGEST = 60


def draw(
    curves: Curves, ax: Axes, label: str | None, color: Any, legend: bool | str, title: str | None
) -> None:
    """Draw theory, finite-size predictions and simulated points, label the axes, and so on."""
    known, others = curves.quantity.all_parameters, bool(ax.lines)
    colours = _colours(color, len(curves.family))
    for index, (parameters, values) in enumerate(zip(curves.family, curves.values, strict=True)):
        name = _label(curves, parameters, label, others)
        colour = _draw_theory(ax, curves, parameters, values, name, next(colours))
        if curves.finite_size:
            _draw_finite_size(ax, curves, index, colour)
        if curves.simulated:
            _draw_simulated(ax, curves, index, colour)
    _explain(ax, curves)
    log_axis(ax, "x", curves.grid)
    low, high = ax.dataLim.intervaly
    if 0 < _RANGE * low < high < math.inf:
        if high > low * _FARTHEST**2:
            ax.set_ylim(max(low, 1 / _FARTHEST), min(high, _FARTHEST))
        log_scale(ax, "y")
    ax.set_xlabel(known[curves.x].label)
    _name_values(ax, curves.quantity.label)
    write_title(ax, title, setting_lines(curves.quantity, curves.fixed))
    all_finite = np.all(np.any(np.isfinite(curves.values), axis=1))
    place_legend(ax, legend, least=2 if all_finite and not label else 1)


def _colours(color: Any, count: int) -> Iterator[Any]:
    """Colours of the curves: the one or those given, else the next ones of the axes."""
    if isinstance(color, list) and len(color) < count:
        raise ValueError(f"color must be one colour or {count} of them, got {color!r}")
    return iter(color) if isinstance(color, list) else itertools.repeat(color)


def _label(curves: Curves, parameters: dict[str, float], label: str | None, others: bool) -> str:
    """Entry of a curve in the legend: what is given, else the quantity if there are others."""
    varied = {name: parameters[name] for name in curves.varied}
    parts = [label] if label else [curves.quantity.label] if others or not varied else []
    parts.append(stated(curves.quantity.all_parameters, varied))
    return ", ".join(filter(None, parts))


def _draw_theory(
    ax: Axes,
    curves: Curves,
    parameters: dict[str, float],
    values: np.ndarray,
    label: Any,
    colour: Any,
) -> Any:
    """Draw the limit; return its colour."""
    style: dict[str, Any] = {}
    if not np.any(np.isfinite(values)):
        label = f"{label}: infinite"
    if curves.quantity.by_points(curves.x) or values.size == 1:
        finite = np.where(np.isfinite(values), values, np.nan)
        line = Line(curves.grid, finite, finite)
        if values.size <= _FEW:
            style = {"marker": "o", "markersize": 3}
    else:
        line = dense_line(
            lambda x: curves.quantity.evaluate(parameters | {curves.x: x}), curves.grid, values
        )
    (drawn,) = ax.plot(line.x, line.framed, color=colour, label=label, **style)
    drawn.set_ydata(line.y)  # the limits of the axes are those without the divergences
    return drawn.get_color()


def _draw_finite_size(ax: Axes, curves: Curves, index: int, colour: Any) -> None:
    """Draw the finite-size prediction, where it is finite."""
    runs = [value.runs[-1] for value in curves.simulated[index]]
    predictions = [*curves.finite_size[index], *runs]
    at = {each.parameters[curves.x]: each.prediction.mean for each in predictions}
    x = np.array(sorted(at))
    y = np.array([at[each] for each in x.tolist()])
    y = np.where(np.isfinite(y), y, np.nan)
    # It diverges near where the limit does.  What leaves the picture must not set its limits.
    limit = np.where(np.isfinite(curves.values[index]), curves.values[index], np.nan)
    (drawn,) = ax.plot(x, np.where(y > np.nanmax(limit), np.nan, y), "--", color=colour)
    drawn.set(ydata=y, linewidth=0.7 * drawn.get_linewidth())


def _draw_simulated(ax: Axes, curves: Curves, index: int, colour: Any) -> None:
    values = curves.simulated[index]
    errors = [value.estimate.standard_error for value in values]
    bars = [error if math.isfinite(error) else 0 for error in errors]
    at = [value.parameters[curves.x] for value in values]
    draw_points(ax, at, [value.estimate.mean for value in values], bars, colour)


def _explain(ax: Axes, curves: Curves) -> None:
    """Say in the legend what lines, dashes and points are, once for each in the axes."""
    value = next(itertools.chain(*curves.simulated), None)
    if value is None:
        return
    sizes = ", ".join(map(str, value.sizes))
    limit = {"limit": "-"} if len(curves.family) > 1 else {}
    entries = limit | {f"prediction, $d = {value.sizes[-1]}$": "--"}
    points = f"simulation, $d = {value.sizes[-1]}$"
    if len(value.sizes) >= LEAST_SIZES:
        entries = limit
        points = f"extrapolated from $d = {sizes}$"
    present = ax.get_legend_handles_labels()[1]
    for name, style in (entries | {points: "o"}).items():
        if name not in present:
            ax.plot([], [], style, color="0.4", markersize=4, label=name)


def _name_values(ax: Axes, label: str) -> None:
    """Label the axis of the values with all quantities that are drawn, if that is no long list."""
    present = ax.get_ylabel()
    if label not in present.split(", "):
        longer = f"{present}, {label}" if present else label
        ax.set_ylabel(longer if len(longer) < _LONGEST else "")
