"""Pictures of families of curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.diagrams.axes import log_axis
from iclimit.diagrams.dense_lines import Line, dense_line
from iclimit.diagrams.legends import OURS, place_legend, setting_lines, stated, write_title
from iclimit.diagrams.simulated_points import LEAST_SIZES
from iclimit.diagrams.smooth_predictions import smooth_prediction
from iclimit.drawing import draw_points, log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from iclimit.diagrams.curves import Curves

# Integers along a curve up to which they are marked.
_FEW = 60

# Ratio of the largest to the least value from which the values are on a logarithmic axis.
_RANGE = 10

# Values that are drawn are within this factor of 1, the order of all quantities, if they go far
# beyond it on both sides or one.
_FARTHEST = 1e8

# Opacity of bands.
_BAND = 0.2

# Characters of an axis label that names several quantities.
_LONGEST = 60


def draw(
    curves: Curves,
    ax: Axes,
    *,
    label: Any,
    color: Any,
    marker: Any,
    ylabel: str | None,
    legend: bool | str | Sequence[str],
    title: str | None,
) -> None:
    """Draw theory, finite-size predictions and simulated points, label the axes, and so on."""
    named = label is not None
    known, others, count = curves.quantity.all_parameters, bool(ax.lines), len(curves.family)
    if label is None or isinstance(label, str):
        label = [_name(curves, parameters, label, others) for parameters in curves.family]
    given = {"label": label, "color": color, "marker": marker}
    names, colours, markers = (_one_each(name, each, count) for name, each in given.items())
    for index, name in enumerate(names):
        colour = _draw_theory(ax, curves, index, name, colours[index], markers[index])
        if curves.run_sd is not None:
            _draw_band(ax, curves, index, colour)
        if curves.finite_size:
            _draw_finite_size(ax, curves, index, colour)
        if curves.simulated:
            _draw_simulated(ax, curves, index, colour, markers[index] or "o")
    _explain(ax, curves, markers[0] or "o")
    log_axis(ax, "x", curves.grid)
    low, high = ax.dataLim.intervaly
    if 0 < _RANGE * low < high < math.inf:
        if high > low * _FARTHEST**2:
            ax.set_ylim(max(low, 1 / _FARTHEST), min(high, _FARTHEST))
        log_scale(ax, "y")
    ax.set_xlabel(known[curves.x].label)
    if ylabel is None:
        _name_values(ax, curves.quantity.label)
    else:
        ax.set_ylabel(ylabel)
    write_title(ax, title, setting_lines(curves.quantity, curves.fixed))
    all_finite = np.all(np.any(np.isfinite(curves.values), axis=1))
    explained = named or not all_finite or curves.run_sd is not None
    place_legend(ax, legend, least=1 if explained else 2)


def _one_each(name: str, given: Any, count: int) -> Sequence[Any]:
    """What each curve has: what is given for all of them, or its own entry of a list."""
    if not isinstance(given, list):
        return [given] * count
    if len(given) < count:
        raise ValueError(f"{name} must be one for all curves or {count} of them, got {given!r}")
    return given


def _name(curves: Curves, parameters: dict[str, float], label: str | None, others: bool) -> str:
    """Entry of a curve in the legend: what is given, else the quantity if there are others."""
    varied = {name: parameters[name] for name in curves.varied}
    parts = [label] if label else [curves.quantity.label] if others or not varied else []
    parts.append(stated(curves.quantity.all_parameters, varied))
    return ", ".join(filter(None, parts))


def _draw_theory(
    ax: Axes, curves: Curves, index: int, label: str, colour: Any, marker: Any
) -> Any:
    """Draw the limit; return its colour."""
    parameters, values = curves.family[index], curves.values[index]
    if not np.any(np.isfinite(values)):
        label = f"{label}: infinite"
    by_points = curves.quantity.by_points(curves.x)
    if by_points or values.size == 1:
        finite = np.where(np.isfinite(values), values, np.nan)
        line = Line(curves.grid, finite, finite)
    else:
        line = dense_line(
            lambda x: curves.quantity.evaluate(parameters | {curves.x: x}), curves.grid, values
        )
    style: dict[str, Any] = {}
    if not curves.simulated and (marker or (by_points and values.size <= _FEW)):
        style = {"marker": marker or "o", "markersize": 5 if marker else 3}
        style["markevery"] = np.flatnonzero(np.isin(line.x, curves.grid)).tolist()
    (drawn,) = ax.plot(line.x, line.framed, color=colour, label=label, **style)
    drawn.set_ydata(line.y)  # the limits of the axes are those without the divergences
    return drawn.get_color()


def _draw_band(ax: Axes, curves: Curves, index: int, colour: Any) -> None:
    """Draw a standard deviation of a run around a curve, that of the logarithm for errors."""
    middle, sd = curves.values[index], np.asarray(curves.run_sd)[index]
    with np.errstate(all="ignore"):
        ends = np.array([middle - sd, middle + sd])
        if curves.quantity.part != "gap":
            ends = middle * np.exp(np.array([-sd, sd]) / middle)
    known = np.all(np.isfinite(ends), axis=0)
    low, high = ends
    ax.fill_between(curves.grid, low, high, where=known, color=colour, alpha=_BAND, linewidth=0)


def _draw_finite_size(ax: Axes, curves: Curves, index: int, colour: Any) -> None:
    """Draw the finite-size prediction, where it is finite."""
    runs = [value.runs[-1] for value in curves.simulated[index]]
    predictions = [*curves.finite_size[index], *runs]
    at = {each.parameters[curves.x]: each.prediction for each in predictions}
    curve = smooth_prediction(curves.quantity, curves.x, curves.family[index], predictions)
    if curve is None:
        return
    x = np.array(sorted(at))
    line = dense_line(curve, x, curve(x))
    (drawn,) = ax.plot(line.x, line.framed, "--", color=colour)
    drawn.set(ydata=line.y, linewidth=0.7 * drawn.get_linewidth())


def _draw_simulated(ax: Axes, curves: Curves, index: int, colour: Any, marker: Any) -> None:
    values = curves.simulated[index]
    errors = [value.estimate.standard_error for value in values]
    bars = [error if math.isfinite(error) else 0 for error in errors]
    at = [value.parameters[curves.x] for value in values]
    means = [value.estimate.mean for value in values]
    draw_points(ax, at, means, bars, colour, fmt=marker)


def _explain(ax: Axes, curves: Curves, marker: Any) -> None:
    """Say in the legend what lines, dashes and points are, once for each in the axes."""
    present = ax.get_legend_handles_labels()[1]
    scatter = f"one run at $d = {curves.band}$: ± one standard deviation"
    if curves.run_sd is not None and scatter not in present:
        ax.plot([], [], color="0.4", alpha=_BAND, linewidth=7, label=scatter, gid=OURS)
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
    for name, style in (entries | {points: marker}).items():
        if name not in present:
            ax.plot([], [], style, color="0.4", markersize=4, label=name, gid=OURS)


def _name_values(ax: Axes, label: str) -> None:
    """Label the axis of the values with all quantities that are drawn, if that is no long list."""
    present = ax.get_ylabel()
    if label not in present.split(", "):
        longer = f"{present}, {label}" if present else label
        ax.set_ylabel(longer if len(longer) < _LONGEST else "")
