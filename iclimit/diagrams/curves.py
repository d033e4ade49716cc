"""Families of curves of a quantity, with simulated points over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.asymptotics.pretraining import error_spread
from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.diagrams import curve_drawing
from iclimit.diagrams.axes import at_least, parse_axis
from iclimit.diagrams.labelled_arrays import labelled_values
from iclimit.diagrams.planning import Plan
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.diagrams.simulated_points import LEAST_SIZES, SimulatedValue, SizedPrediction
from iclimit.diagrams.simulation import (
    parse_simulation,
    points_at_sizes,
    predict_lines,
    simulate_values,
)
from iclimit.results import Result
from iclimit.runs.store import RunStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Between neighbours on the grid a smooth curve changes by less than this factor; beside a pole the
# values of three neighbours differ by more.
_POINTED = 1.5


@dataclass(frozen=True, repr=False)
class Curves(Result):
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
        Predictions along each curve for the integers at the largest size; empty if nothing was
        simulated, or if simulations are extrapolated to infinite size.
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
        """Theory, finite-size prediction and simulation as rows of a table, in long form."""
        known = self.quantity.all_parameters
        columns = [name for name in known if name == self.x or name in self.family[0]]
        extra: tuple[str, ...] = ("standard_error", "dim", "repeats") if self.simulated else ()
        bands = [[]] * len(self.values) if self.run_sd is None else self.run_sd.tolist()

        def row(source: str, at: Mapping[str, Any], value: float, *more: Any) -> dict[str, Any]:
            head = {"source": source, "quantity": self.quantity.name, **self.quantity.spectra}
            place = {name: at[name] for name in columns}
            numbers = dict.fromkeys(extra) | dict(zip(extra, more, strict=False))
            return {**head, **place, self.quantity.column: value, **numbers}

        rows = [
            row("theory", parameters | {self.x: x}, value) | ({"run_sd": sd} if band else {})
            for parameters, line, band in zip(self.family, self.values, bands, strict=True)
            for x, value, sd in itertools.zip_longest(self.grid.tolist(), line.tolist(), band)
        ]
        for value in itertools.chain(*self.simulated):
            for run in value.runs:
                at, dim, estimate = run.parameters, run.parameters["dim"], run.estimate
                rows.append(row("finite_size", at, run.prediction.mean, None, dim))
                numbers = estimate.mean, estimate.standard_error, dim, estimate.repeats
                rows.append(row("simulation", at, *numbers))
            if len(value.runs) >= LEAST_SIZES:
                estimate = value.estimate
                at = value.parameters
                rows.append(row("extrapolation", at, estimate.mean, estimate.standard_error))
        for each in itertools.chain(*self.finite_size):
            at = each.parameters
            rows.append(row("finite_size", at, each.prediction.mean, None, at["dim"]))
        return rows

    @property
    def varied(self) -> dict[str, np.ndarray]:
        """Values of the parameters in which the curves differ."""
        values = {
            name: list(dict.fromkeys(p[name] for p in self.family)) for name in self.family[0]
        }
        return {name: np.array(each) for name, each in values.items() if len(each) > 1}

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
        axes = self.varied | {self.x: self.grid}
        values = self.values.reshape([grid.size for grid in axes.values()])
        simulated = list(itertools.chain(*self.simulated))
        predicted = list(itertools.chain(*self.finite_size))
        columns = {f"predicted_{name}": [p.parameters[name] for p in predicted] for name in axes}
        columns["predicted_value"] = [each.prediction.mean for each in predicted]
        columns["predicted_standard_error"] = [e.prediction.standard_error for e in predicted]
        more: dict[str, Any] = {
            name: ("prediction", column) for name, column in columns.items() if predicted
        }
        if self.run_sd is not None:
            more["run_sd"] = tuple(axes), self.run_sd.reshape(values.shape)
        return labelled_values(self.quantity, axes, self.fixed, values, simulated, **more)

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
        look: dict[str, Any] = {"label": label, "color": color, "marker": marker}
        curve_drawing.draw(self, ax, **look, ylabel=ylabel, legend=legend, title=title)


def curve(
    quantity: str | Callable[..., Any],
    *,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
    band: int | None = None,
    simulation: Mapping[str, Any] | None = None,
    rng: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    scheduler: str | None = None,
    store: RunStore | None = None,
    progress: bool = False,
    announce: Callable[[Plan], None] | None = None,
    **parameters: Any,
) -> Curves:
    """Compute a quantity along one parameter, for every combination of the others.

    Parameters
    ----------
    quantity : str or callable
        Name of a quantity (``iclimit phase --list`` lists them); or a function that takes its
        parameters as keyword arguments and broadcasts, of the theory or of your own.
    task_spectrum, test_spectrum, input_spectrum : str, SpectralMeasure or array (n,), optional
        Structured data, as of `iclimit.asymptotics.pretraining.structure.Structure`, for
        icl_error, idg_error, task_gap, misalignment_error, scalar_error and null_error, which then
        take ``test_alpha`` and ``test_rho`` too; and for the losses of deep linear attention
        (tied_loss, tied_flow_loss, untied_loss) without a test spectrum.
    normalize : bool
        Divide each spectrum by its mean.
    band : int, optional
        Dimension of runs: a band around each curve shows how much one run scatters (icl_error,
        idg_error and task_gap of isotropic data; the limit of the scatter, see `error_spread`).
    simulation : mapping, optional
        Simulate points of the curves (icl_error, idg_error and task_gap only): ``dim``, the
        dimension or several of them, three or more being extrapolated; optionally ``repeats``
        (default 10), ``points`` per curve (default 12; some of them where it turns) or a list of
        places along it, ``target_standard_error``, ``target_relative_error`` and ``time_limit`` as
        in `iclimit.diagrams.simulation.Simulation`.
    rng : int
        Root seed of the simulation.
    jobs, backend, scheduler, store
        As in `iclimit.validation.validate`.
    progress : bool
        Show a progress bar for the simulation.
    announce : callable, optional
        Gets the estimated cost of the simulation, a `iclimit.diagrams.planning.Plan`, before it
        starts.
    **parameters : number or sequence
        The quantity's parameters.  The longest sequence runs along the curves; every other
        sequence multiplies them.

    Returns
    -------
    Curves
        With ``.rows()``, ``.to_pandas()``, ``.to_xarray()``, ``.plot(ax=None)`` and
        ``.write(path)``.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> curves = iclimit.curve(
    ...     "icl_error", tau=np.linspace(1.5, 5, 8), alpha=[1, 10], kappa=0.5, rho=0.01
    ... )
    >>> curves.x, curves.values.shape
    ('tau', (2, 8))
    """
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum, normalize)
    chosen = get_quantity(quantity, parameters, structure)
    values = {name: parse_axis(name, value) for name, value in parameters.items()}
    x = max(values, key=lambda name: values[name].size)
    others = {name: list(dict.fromkeys(v.tolist())) for name, v in values.items() if name != x}
    family = [
        dict(zip(others, combination, strict=True))
        for combination in itertools.product(*others.values())
    ]
    columns = {name: np.array([p[name] for p in family])[:, None] for name in others}
    grid = values[x]
    theory = chosen.evaluate(columns | {x: grid[None, :]})
    theory = np.broadcast_to(theory, (len(family), grid.size))
    run_sd = None if band is None else _run_sd(chosen, columns | {x: grid[None, :]}, band)
    curves = Curves(chosen, x, grid, family, theory, run_sd=run_sd, band=band)
    if simulation is None:
        return curves
    where = {"rng": rng, "jobs": jobs, "backend": backend, "scheduler": scheduler, "store": store}
    where |= {"progress": progress, "announce": announce}
    settings, points = parse_simulation(chosen, simulation, 12, **where)
    lines = [
        [parameters | {x: place} for place in _places(chosen, x, grid, line, parameters, points)]
        for parameters, line in zip(family, theory, strict=True)
    ]
    lines = points_at_sizes(lines, settings.sizes, (x,))
    each_value = iter(simulate_values(chosen, list(itertools.chain(*lines)), settings))
    simulated = [
        [value for value in itertools.islice(each_value, len(points)) if value is not None]
        for points in lines
    ]
    if len(settings.sizes) >= LEAST_SIZES:
        return replace(curves, simulated=simulated)
    finite_size = predict_lines(chosen, x, grid, family, settings)
    return replace(curves, simulated=simulated, finite_size=finite_size)


def _run_sd(quantity: Quantity, at: Mapping[str, np.ndarray], dim: int) -> np.ndarray:
    """Predicted standard deviation of one run at a dimension."""
    if quantity.structure is not None or not quantity.simulated:
        which = "icl_error, idg_error or task_gap of isotropic data"
        raise ValueError(f"quantity must be {which} for a band, got {quantity.name!r}")
    if not at_least(1, dim):
        raise ValueError(f"band must be an integer >= 1, got {dim!r}")
    spread = getattr(error_spread(**at), quantity.part)
    return (
        np.asarray(np.broadcast_to(spread, np.broadcast_shapes(*map(np.shape, at.values())))) / dim
    )


def _places(
    quantity: Quantity,
    x: str,
    grid: np.ndarray,
    values: np.ndarray,
    parameters: Mapping[str, float],
    points: Any,
) -> list[float]:
    """Places along a curve to simulate: those given, or a number of them on its grid.

    A number of points is spread evenly, and the next one moves to where the curve turns.
    """
    if np.ndim(points) == 1:
        given = parse_axis("points of the simulation", points)
        quantity.evaluate({**parameters, x: given})  # which refuses what is out of range
        return given.tolist()
    if not at_least(2, points):
        allowed = f"an integer >= 2, or values of {x}"
        raise ValueError(f"points of the simulation must be {allowed}, got {points!r}")
    chosen = np.linspace(0, grid.size - 1, min(points, grid.size)).round().astype(int)
    inner, size = chosen[1:-1], np.where(np.isfinite(values), abs(values), np.inf)
    low, high = (pick(size[:-2], size[2:]) for pick in (np.minimum, np.maximum))
    smooth = np.maximum(high, size[1:-1]) < _POINTED * np.minimum(low, size[1:-1])
    for turn in 1 + np.flatnonzero(smooth & ((size[1:-1] < low) | (size[1:-1] > high))):
        if inner.size:
            inner[np.argmin(abs(inner - turn))] = turn
    return grid[np.unique(chosen)].tolist()
