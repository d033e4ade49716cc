"""Families of curves of a quantity, and their pictures."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.axes import log_axis
from iclimit.dense_lines import Line, dense_line
from iclimit.diagrams.labelled_arrays import labelled_values
from iclimit.diagrams.legends import OURS, place_legend, setting_lines, stated, write_title
from iclimit.diagrams.own_points import OwnPoints, PointsTaker
from iclimit.diagrams.quantities import Quantity, find_quantity
from iclimit.diagrams.simulated_points import LEAST_SIZES, SimulatedValue, SizedPrediction
from iclimit.diagrams.smooth_predictions import smooth_limit, smooth_prediction
from iclimit.drawing import Axes, draw_points, log_scale
from iclimit.notation import LABELS, WORDS, axis_label

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


@dataclass(frozen=True, repr=False)
class Curves(PointsTaker):
    """A quantity along one parameter, for a family of values of the others.

    Attributes
    ----------
    quantity : Quantity
        What is drawn, with its name, axis label and parameters.
    x : str
        Parameter along the curves.
    grid : ndarray (points,)
        Its values.
    family : list of dict
        The other parameters, one entry per curve.
    values : ndarray (curves, points)
        Theory.
    simulated : list of lists of SimulatedValue
        Simulation along each curve, empty if none was asked for.
    finite_size : list of lists of SizedPrediction
        Predictions along each curve for the integers at the largest size, beside those of the
        simulated points; empty if nothing was simulated, or if simulations are extrapolated to
        infinite size.
    run_sd : ndarray (curves, points), optional
        Predicted standard deviation of one run at the dimension of a band.
    band : int, optional
        This dimension.
    """

    quantity: Quantity
    x: str
    grid: np.ndarray
    family: list[dict[str, float]]
    values: np.ndarray
    simulated: list[list[SimulatedValue]] = field(default_factory=list)
    finite_size: list[list[SizedPrediction]] = field(default_factory=list)
    run_sd: np.ndarray | None = None
    band: int | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Theory, finite-size prediction and simulation as rows of a table, in long form.

        Errors of structured data have that of predicting zero beside them, as ``null``.
        """
        bands = [[]] * len(self.values) if self.run_sd is None else self.run_sd.tolist()
        rows = [
            self._row("theory", parameters | {self.x: x}, value) | ({"run_sd": sd} if band else {})
            for parameters, line, band in zip(self.family, self.values, bands, strict=True)
            for x, value, sd in itertools.zip_longest(self.grid.tolist(), line.tolist(), band)
        ]
        if self.quantity.structure is not None and self.quantity.part in ("icl", "idg"):
            null = find_quantity("null_error", self.quantity.structure)
            for row in rows:
                at = {name: row[name] for name in null.all_parameters if name in row}
                row["null"] = float(null.evaluate(at))
        for value in itertools.chain(*self.simulated):
            rows.extend(self._simulated_rows(value))
        for sized in itertools.chain(*self.finite_size):
            rows.append(self._prediction_row(sized))
        return rows

    def _prediction_row(self, sized: SizedPrediction) -> dict[str, Any]:
        """Row of a prediction at one size."""
        at = sized.parameters
        predicted = sized.prediction
        return self._row("finite_size", at, predicted.mean, predicted.standard_error, at["dim"])

    def _row(self, source: str, at: Mapping[str, Any], value: float, *more: Any) -> dict[str, Any]:
        """Row of a value; ``more`` are its standard error, dimension and number of repeats."""
        head = {"source": source, "quantity": self.quantity.name, **self.quantity.choices}
        place = {
            name: at[name]
            for name in self.quantity.all_parameters
            if name == self.x or name in self.family[0]
        }
        extra: tuple[str, ...] = ("standard_error", "dim", "repeats") if self.simulated else ()
        numbers = dict.fromkeys(extra) | dict(zip(extra, more, strict=False))
        return {**head, **place, self.quantity.column: value, **numbers}

    def _simulated_rows(self, value: SimulatedValue) -> Iterator[dict[str, Any]]:
        """Rows of a simulated point: those of its runs, and their extrapolation."""
        for run in value.runs:
            at = run.parameters
            dim = at["dim"]
            estimate = run.estimate
            if self.quantity.predicted:
                yield self._prediction_row(run)
            numbers = estimate.mean, estimate.standard_error, dim, estimate.repeats
            yield self._row("simulation", at, *numbers)
        if len(value.runs) >= LEAST_SIZES:
            estimate = value.estimate
            error = estimate.standard_error
            yield self._row("extrapolation", value.parameters, estimate.mean, error)

    @property
    def varied(self) -> dict[str, np.ndarray]:
        """Values of the parameters in which the curves differ."""
        values = {
            name: list(dict.fromkeys(p[name] for p in self.family)) for name in self.family[0]
        }
        return {name: np.array(column) for name, column in values.items() if len(column) > 1}

    @property
    def fixed(self) -> dict[str, float]:
        """Parameters that all curves share."""
        return {name: v for name, v in self.family[0].items() if name not in self.varied}

    def to_xarray(self) -> Any:
        """Curves as an `xarray.Dataset` over the parameters that vary, the one along them last.

        Predictions at finite size have a dimension ``prediction``, with the parameters that their
        integers stand for.  The rest is that of
        `iclimit.diagrams.labelled_arrays.labelled_values`.
        """
        axes = self.varied | {self.x: np.sort(self.grid)}
        values = self.values.reshape([grid.size for grid in axes.values()])
        simulated = list(itertools.chain(*self.simulated))
        predicted = list(itertools.chain(*self.finite_size))
        columns = {f"predicted_{name}": [p.parameters[name] for p in predicted] for name in axes}
        columns["predicted_value"] = [sized.prediction.mean for sized in predicted]
        columns["predicted_standard_error"] = [e.prediction.standard_error for e in predicted]
        more: dict[str, Any] = {
            name: ("prediction", column) for name, column in columns.items() if predicted
        }
        if self.run_sd is not None:
            more["run_sd"] = tuple(axes), self.run_sd.reshape(values.shape)
        return labelled_values(self.quantity, axes, self.fixed, values, simulated, more)

    def _places(self) -> tuple[Mapping[str, np.ndarray], Mapping[str, Sequence[float]]]:
        others: dict[str, Sequence[float]] = {name: [value] for name, value in self.fixed.items()}
        others |= {name: values.tolist() for name, values in self.varied.items()}
        return {self.x: np.sort(self.grid)}, others

    def draw(
        self,
        ax: Axes,
        *,
        label: str | list[str] | None = None,
        color: Any = None,
        marker: str | list[str] | None = None,
        ylabel: str | None = None,
        legend: bool | str | Sequence[str] = True,
        title: str | None = None,
    ) -> None:
        """Draw theory as lines, simulation as points with error bars.

        Lines are drawn on a dense grid and leave the picture where they diverge.  The prediction
        for the size of a simulation is dashed.  A band is one standard deviation of a run wide
        on either side, of its logarithm for errors.  Several calls may draw into the same axes.

        Parameters
        ----------
        ax : Axes
            Where to draw.
        label : str or list of str, optional
            Name of the curves in the legend, before what they differ in; or the whole name of
            each.  Default: the quantity, where there are others.
        color : color or list of them, optional
            Of all curves, or of each; default: the next colours of the axes.
        marker : str or list of str, optional
            Marker of matplotlib for the simulated points, of all curves or of each (default
            ``"o"``).  Without a simulation it marks the points of the grid.
        ylabel : str, optional
            Label of the axis of values; default: the quantities that are drawn.
        legend : bool, str or list of str
            Whether there is one; it stands in a free place, or above the axes if there is none.
            A location of matplotlib such as ``"upper left"`` puts it there.  A list has the
            entries that are shown, in their order; by default the curves come first.
        title : str, optional
            Default: the parameters that all curves share, unless the axes have a title.
        """
        named = label is not None
        others = bool(ax.lines)
        count = len(self.family)
        if label is None or isinstance(label, str):
            label = [_name(self, parameters, label, others) for parameters in self.family]
        names = _one_each("label", label, count)
        colours = _one_each("color", color, count)
        markers = _one_each("marker", marker, count)
        drawn = []
        for index, name in enumerate(names):
            colour = _draw_curve(ax, self, index, name, colours[index], markers[index])
            drawn.append(colour)
        if self._own is not None:
            _draw_own(ax, self, self._own, drawn)
        _explain(ax, self, markers[0] or "o")
        log_axis(ax, "x", self.grid)
        _scale_values(ax)
        ax.set_xlabel(axis_label(self.quantity.all_parameters[self.x]))
        if ylabel is None:
            _name_values(ax, self.quantity)
        else:
            ax.set_ylabel(ylabel)
        write_title(ax, title, setting_lines(self.quantity, self.fixed))
        all_finite = np.all(np.any(np.isfinite(self.values), axis=1))
        explained = named or not all_finite or self.run_sd is not None or self._own is not None
        place_legend(ax, legend, least=1 if explained else 2)


def _scale_values(ax: Axes) -> None:
    """Make the axis of values logarithmic where they differ by large factors."""
    low, high = ax.dataLim.intervaly
    if 0 < _RANGE * low < high < math.inf:
        if high > low * _FARTHEST**2:
            ax.set_ylim(max(low, 1 / _FARTHEST), min(high, _FARTHEST))
        log_scale(ax, "y")


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


def _draw_curve(ax: Axes, curves: Curves, index: int, label: str, colour: Any, marker: Any) -> Any:
    """Draw a curve with its band, finite-size prediction and simulation; return its colour."""
    colour = _draw_theory(ax, curves, index, label, colour, marker)
    if curves.run_sd is not None:
        _draw_band(ax, curves, index, colour)
    if curves.finite_size:
        _draw_finite_size(ax, curves, index, colour)
    if curves.simulated:
        _draw_simulated(ax, curves, index, colour, marker or "o")
    return colour


def _draw_own(ax: Axes, curves: Curves, own: OwnPoints, colours: Sequence[Any]) -> None:
    """Draw points of the user's with bars, in the colours of their curves."""
    for parameters, colour in zip(curves.family, colours, strict=True):
        on_curve = [
            point
            for point in own.points
            if all(point.parameters[name] == value for name, value in parameters.items())
        ]
        bars = [point.standard_error if point.standard_error > 0 else 0.0 for point in on_curve]
        places = [point.parameters[curves.x] for point in on_curve]
        means = [point.mean for point in on_curve]
        style: dict[str, Any] = {"markerfacecolor": "white", "zorder": 4}
        draw_points(ax, places, means, bars, colour, markersize=6, **style)
    ax.plot([], [], "o", color="0.4", markersize=6, mfc="white", label=own.label, gid=OURS)


def _draw_theory(
    ax: Axes, curves: Curves, index: int, label: str, colour: str, marker: Any
) -> Any:
    """Draw the limit; return its colour."""
    parameters = curves.family[index]
    values = curves.values[index]
    if not np.any(np.isfinite(values)):
        label = f"{label}: infinite"
    by_points = curves.quantity.by_points(curves.x)
    if by_points or values.size == 1:
        finite = np.where(np.isfinite(values), values, np.nan)
        line = Line(curves.grid, finite, finite)
    else:
        limit = smooth_limit(curves.quantity, curves.x, parameters, curves.grid)
        line = dense_line(limit, curves.grid, values)
    style: dict[str, Any] = {}
    if not curves.simulated and (marker or (by_points and values.size <= _FEW)):
        style = {"marker": marker or "o", "markersize": 5 if marker else 3}
        style["markevery"] = np.flatnonzero(np.isin(line.x, curves.grid)).tolist()
    (drawn,) = ax.plot(line.x, line.framed, color=colour, label=label, **style)
    drawn.set_ydata(line.y)  # the limits of the axes are those without the divergences
    return drawn.get_color()


def _draw_band(ax: Axes, curves: Curves, index: int, colour: str) -> None:
    """Draw a standard deviation of a run around a curve, that of the logarithm for errors."""
    middle = curves.values[index]
    sd = np.asarray(curves.run_sd)[index]
    with np.errstate(all="ignore"):
        ends = np.array([middle - sd, middle + sd])
        if curves.quantity.part != "gap":
            ends = middle * np.exp(np.array([-sd, sd]) / middle)
    known = np.all(np.isfinite(ends), axis=0)
    low, high = ends
    ax.fill_between(curves.grid, low, high, where=known, color=colour, alpha=_BAND, linewidth=0)


def _draw_finite_size(ax: Axes, curves: Curves, index: int, colour: str) -> None:
    """Draw the finite-size prediction, where it is finite."""
    runs = [value.runs[-1] for value in curves.simulated[index]]
    predictions = [*curves.finite_size[index], *runs]
    at = {sized.parameters[curves.x]: sized.prediction for sized in predictions}
    curve = smooth_prediction(curves.quantity, curves.x, curves.family[index], predictions)
    if curve is None:
        return
    x = np.array(sorted(at))
    line = dense_line(curve, x, curve(x))
    (drawn,) = ax.plot(line.x, line.framed, "--", color=colour)
    drawn.set(ydata=line.y, linewidth=0.7 * drawn.get_linewidth())


def _draw_simulated(ax: Axes, curves: Curves, index: int, colour: str, marker: Any) -> None:
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
    entries = limit
    if curves.quantity.predicted:
        entries = limit | {f"prediction, $d = {value.sizes[-1]}$": "--"}
    points = f"simulation, $d = {value.sizes[-1]}$"
    if len(value.sizes) >= LEAST_SIZES:
        entries = limit
        points = f"extrapolated from $d = {sizes}$"
    for name, style in (entries | {points: marker}).items():
        if name not in present:
            ax.plot([], [], style, color="0.4", markersize=4, label=name, gid=OURS)


def _name_values(ax: Axes, quantity: Quantity) -> None:
    """Label the axis of the values with all quantities that are drawn, if that is no long list.

    One alone is named in words, too.
    """
    parts = ax.get_ylabel().split(", ")
    present = [part for part in parts if part and part not in WORDS.values()]
    if quantity.label not in present:
        alone = LABELS.get(quantity.name, quantity.label)
        longer = ", ".join([*present, quantity.label]) if present else alone
        ax.set_ylabel(longer if len(longer) < _LONGEST else "")
