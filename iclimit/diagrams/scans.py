"""A quantity along one parameter or over two of them, with simulated points."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import error_spread
from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.axes import at_least, parse_axis
from iclimit.checks import check_choice, check_integers
from iclimit.diagrams.curves import Curves
from iclimit.diagrams.phase_points import points_to_simulate
from iclimit.diagrams.phases import PhaseDiagram
from iclimit.diagrams.planning import Plan
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.diagrams.simulated_points import LEAST_SIZES
from iclimit.diagrams.simulation import (
    parse_simulation,
    points_at_sizes,
    predict_lines,
    simulate_values,
)
from iclimit.links import LinkLike, link_text
from iclimit.notation import explaining
from iclimit.runs.store import RunStore

# Between neighbours on the grid a smooth curve changes by less than this factor; beside a pole the
# values of three neighbours differ by more.
_POINTED = 1.5

# Places at which a turn of a curve is looked for, for each simulated point.
_CANDIDATES = 4

# Part of its neighbours' value that a minimum must not exceed.
_CLEAR = 1 - 1e-4


@explaining
def curve(
    quantity: str | Callable[..., Any],
    *,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
    link: LinkLike | None = None,
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
    link : str, (str, number), (number, number) or callable, optional
        Labels that are a function of the linear ones, as in `effective_labels`, for icl_error,
        idg_error, task_gap, accuracies and median_squared_error, which then take ``flips``.
    band : int, optional
        Dimension of runs: a band around each curve shows how much one run scatters (icl_error,
        idg_error and task_gap of isotropic data; the limit of the scatter, see `error_spread`).
    simulation : mapping, optional
        Simulate points of the curves (errors, also at a time, their gap, and accuracies): ``dim``,
        the dimension or several of them, three or more being extrapolated; optionally ``repeats``
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
    chosen = get_quantity(quantity, parameters, structure, link)
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
    settings, points = parse_simulation(
        chosen,
        simulation,
        12,
        rng=rng,
        jobs=jobs,
        backend=backend,
        scheduler=scheduler,
        store=store,
        progress=progress,
        announce=announce,
    )
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
    predicted = predict_lines(chosen, x, grid, family, settings)
    finite_size = []
    for line, simulations in zip(predicted, simulated, strict=False):
        # Simulated points have predictions of their own, which are more precise.
        known = {value.runs[-1].parameters[x] for value in simulations}
        finite_size.append([sized for sized in line if sized.parameters[x] not in known])
    return replace(curves, simulated=simulated, finite_size=finite_size)


def _run_sd(quantity: Quantity, at: Mapping[str, np.ndarray], dim: int) -> np.ndarray:
    """Predicted standard deviation of one run at a dimension."""
    if quantity.link is not None:
        raise ValueError(
            f"link must not be given with a band, got {link_text(quantity.link)}: the scatter of "
            "runs is known for linear labels"
        )
    if quantity.structure is not None or quantity.part not in ("icl", "idg", "gap"):
        which = "icl_error, idg_error or task_gap of isotropic data"
        raise ValueError(f"quantity must be {which} for a band, got {quantity.name!r}")
    check_integers(band=dim)
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
    chosen = _even(grid.size, points)
    inner = chosen[1:-1]
    for turn in _turns(values, points):
        if inner.size:
            inner[np.argmin(abs(inner - turn))] = turn
    return grid[np.unique(chosen)].tolist()


def _even(size: int, points: int) -> np.ndarray:
    """Numbers of the grid points that are spread most evenly."""
    return np.linspace(0, size - 1, min(points, size)).round().astype(int)


def _turns(values: np.ndarray, points: int) -> np.ndarray:
    """Numbers of the grid points where a curve turns, to a fraction of the distance of the points.

    Next to its turn a curve is flat: which of two neighbours on a fine grid is lower would hang on
    the last digits of their values.
    """
    size = np.where(np.isfinite(values), abs(values), np.inf)
    places = np.unique(_even(size.size, _CANDIDATES * points))
    at = size[places[1:-1]]
    before = size[places[:-2]]
    after = size[places[2:]]
    turns = places[1:-1]
    clear = (at < _CLEAR * np.minimum(before, after)) | (at * _CLEAR > np.maximum(before, after))
    neighbours = np.stack([size[turns - 1], size[turns], size[turns + 1]])
    smooth = np.max(neighbours, axis=0) < _POINTED * np.min(neighbours, axis=0)
    return turns[clear & smooth]


@explaining
def phase_diagram(
    quantity: str | Callable[..., Any],
    *,
    x: str,
    y: str,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
    link: LinkLike | None = None,
    simulation: Mapping[str, Any] | None = None,
    refine: int = 0,
    rng: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    scheduler: str | None = None,
    store: RunStore | None = None,
    progress: bool = False,
    announce: Callable[[Plan], None] | None = None,
    **parameters: Any,
) -> PhaseDiagram:
    r"""Compute a quantity over two of its parameters.

    Parameters
    ----------
    quantity : str or callable
        Name of a quantity (``iclimit phase --list`` lists them); or a function that takes its
        parameters as keyword arguments and broadcasts, of the theory or of your own.
    x, y : str
        Names of the parameters along the axes.
    task_spectrum, test_spectrum, input_spectrum : str, SpectralMeasure or array (n,), optional
        Structured data, as of `iclimit.asymptotics.pretraining.structure.Structure`, for
        icl_error, idg_error, task_gap, misalignment_error, scalar_error and null_error, which then
        take ``test_alpha`` and ``test_rho`` too; and for the losses of deep linear attention
        (tied_loss, tied_flow_loss, untied_loss) without a test spectrum.
        A million points take minutes, with an input spectrum hours.
    normalize : bool
        Divide each spectrum by its mean.
    link : str, (str, number), (number, number) or callable, optional
        Labels that are a function of the linear ones, as in `effective_labels`, for icl_error,
        idg_error, task_gap, accuracies and median_squared_error, which then take ``flips``.
    simulation : mapping, optional
        Simulate points of the diagram (errors, also at a time, their gap, and accuracies):
        ``dim``, the dimension or several of them, three or more being extrapolated; optionally
        ``points``, the number along each axis or both numbers (default 6), ``repeats`` (default
        10), ``target_standard_error``, ``target_relative_error`` and ``time_limit`` as in
        `iclimit.diagrams.simulation.Simulation`.  Points are left out instead of extrapolated if
        integers at one of the sizes miss them by more than a tenth, or lie on the other side of
        the interpolation threshold.
    refine : int >= 0
        How often the rectangles between simulated points are split in four where a boundary
        passes or the quantity changes most.
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
        The quantity's parameters: ascending sequences for x and y, numbers for the rest.

    Returns
    -------
    PhaseDiagram
        With ``.values``, ``.boundaries``, ``.simulated``, ``.rows()``, ``.to_pandas()``,
        ``.to_xarray()``, ``.plot(ax=None)`` and ``.plot(errors=True)``.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import iclimit
    >>> diagram = iclimit.phase_diagram(
    ...     "task_gap", x="alpha", y="kappa", alpha=np.geomspace(0.1, 100, 16),
    ...     kappa=np.geomspace(0.1, 10, 12), tau=4, rho=0.1,
    ... )
    >>> diagram.values.shape
    (12, 16)
    >>> for label, lines in diagram.boundaries.items():
    ...     print(label, [line.shape for line in lines])
    $\kappa = 1$: memorisation transition, sharp as $\alpha \to \infty$ [(4, 2)]
    """
    if x == y:
        raise ValueError(f"x and y must be different parameters, got {x!r} for both")
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum, normalize)
    chosen = get_quantity(quantity, parameters, structure, link)
    grids, fixed = _parse_plane(x, y, parameters)
    values = chosen.evaluate(fixed | {x: grids[x][None, :], y: grids[y][:, None]})
    values = np.broadcast_to(values, (grids[y].size, grids[x].size))
    diagram = PhaseDiagram(chosen, x, y, grids[x], grids[y], fixed, values)
    if simulation is None:
        return diagram
    settings, shape = parse_simulation(
        chosen,
        simulation,
        6,
        rng=rng,
        jobs=jobs,
        backend=backend,
        scheduler=scheduler,
        store=store,
        progress=progress,
        announce=announce,
    )
    lines = [line for lines in diagram.boundaries.values() for line in lines]
    points = points_to_simulate(chosen, grids, fixed, lines, shape, refine)
    [points] = points_at_sizes([points], settings.sizes, (x, y))
    simulated = simulate_values(chosen, points, settings)
    return replace(diagram, simulated=tuple(value for value in simulated if value is not None))


def _parse_plane(
    x: str, y: str, parameters: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Grids of the two parameters of a diagram, and the numbers of the others."""
    for axis, name in (("x", x), ("y", y)):
        check_choice(axis, name, parameters)
    given = {name: parse_axis(name, value) for name, value in parameters.items()}
    grids = {name: given.pop(name) for name in (x, y)}
    for name, grid in grids.items():
        if grid.size < 2 or not np.all(np.diff(grid) > 0):
            raise ValueError(f"{name} must be an ascending sequence of at least two numbers")
    for name in given:
        if np.ndim(parameters[name]):
            value = parameters[name]
            raise ValueError(f"{name} must be a number (x is {x}, y is {y}), got {value!r}")
    return grids, {name: float(value[0]) for name, value in given.items()}
