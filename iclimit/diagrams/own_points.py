"""Points of one's own on curves and phase diagrams: a table, read and compared with the theory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from iclimit.asymptotics.pretraining import predict
from iclimit.diagrams.quantities import Quantity
from iclimit.diagrams.simulated_points import is_near
from iclimit.drawing import Axes
from iclimit.experiment import Experiment
from iclimit.notation import RATIOS, did_you_mean, ratios_of
from iclimit.results import PlainRows, Result
from iclimit.validation.instruments.reading import Table, read_table

# Integers of a run, of which a table may have the dimension and some others in place of ratios.
SIZES = ("dim", "context", "tasks", "prompts")

# Task sets of predictions at finite size.
DRAWS = 32

# What other columns of errors than standard_error are called.
ERROR_ENDING = "_se"


@dataclass(frozen=True)
class OwnPoint:
    """A value of the user's beside the theory.

    Attributes
    ----------
    parameters : dict
        Parameters of the quantity.
    mean : float
        The value.
    standard_error : float
        Its standard error; NaN if it is not known.
    theory : float
        The limit, or the prediction for the integers if the table has the dimension.
    z : float
        Deviation in standard errors; NaN if none is known.
    """

    parameters: dict[str, float]
    mean: float
    standard_error: float
    theory: float
    z: float

    def row(self, column: str) -> dict[str, Any]:
        """Row of a table, with the value in this column."""
        numbers = {column: self.mean, "standard_error": self.standard_error}
        numbers |= {"theory": self.theory, "z": self.z}
        known = {name: None if math.isnan(value) else value for name, value in numbers.items()}
        return {**self.parameters, **known}


@dataclass(frozen=True)
class OwnPoints:
    """Points of the user's that belong to a picture.

    Attributes
    ----------
    points : list of OwnPoint
        The points.
    others : int
        How many others the table has.
    """

    points: list[OwnPoint]
    others: int

    @property
    def label(self) -> str:
        """Entry of the legend."""
        count = len(self.points)
        return f"yours ({count} of {count + self.others})" if self.others else "yours"

    def table(self, column: str) -> PlainRows:
        """Points beside the theory, with the values in this column."""
        return PlainRows([point.row(column) for point in self.points])


@dataclass(frozen=True, repr=False)
class PointsTaker(Result):
    """Base of pictures of a quantity in which points of the user's are drawn.

    Subclasses say in `_places` where points belong.
    """

    quantity: Quantity
    _own: OwnPoints | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _places(self) -> tuple[Mapping[str, np.ndarray], Mapping[str, Sequence[float]]]:
        """Grids along the axes, and values of the other parameters."""
        raise NotImplementedError

    def with_points(
        self,
        points: object,
        *,
        columns: Mapping[str, str] | None = None,
        ignore: Sequence[str] | str = (),
    ) -> Self:
        """Picture with points of your own.

        On curves they have bars, in the colour of their curve.  In a diagram they are rings, which
        are filled with the colour of their value; the colour around is that of their z, blue below
        the theory and red above.

        Parameters
        ----------
        points : path, data frame, mapping of columns or sequence of rows
            With columns of the parameters, or dim, context, tasks and prompts in their place, a
            column ``value`` (or icl_error, icl, ...) and perhaps ``standard_error`` (``icl_se``).
            A parameter that is the same in the whole picture may be left out.
        columns, ignore
            What columns are called, and which are not used, as of `iclimit.check_runs`.

        Raises
        ------
        ValueError
            If the table cannot be read, or none of its points belongs to the picture.
        """
        axes, others = self._places()
        own = read_points(points, self.quantity, axes, others, columns=columns, ignore=ignore)
        return replace(self, _own=own)

    @property
    def own_points(self) -> PlainRows:
        """Points of your own beside the theory, with z."""
        if self._own is None:
            raise ValueError("the picture has no points of your own: give them to with_points")
        return self._own.table(self.quantity.column)

    def plot(self, ax: Axes | None = None, *, points: object = None, **line: Any) -> Any:
        """Draw into axes, or into a new figure, perhaps with points of your own.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        points : table, optional
            Points of your own, as of `with_points`.
        **line
            Keywords of ``draw``.
        """
        drawn = self if points is None else self.with_points(points)
        return super(PointsTaker, drawn).plot(ax, **line)


def read_points(
    table: object,
    quantity: Quantity,
    axes: Mapping[str, np.ndarray],
    others: Mapping[str, Sequence[float]],
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
) -> OwnPoints:
    """Read points, and place those that belong to a picture.

    Parameters
    ----------
    table : path, data frame, mapping of columns or sequence of rows
        Columns are the parameters of the quantity, or dim with context, tasks and prompts in their
        place; the value (``value``, or what the quantity is called: icl_error, icl); and perhaps
        its standard error (``standard_error``, ``icl_se``).
    quantity : Quantity
        What is drawn.
    axes : mapping of arrays
        Parameters that every row must have, with their grids: rows beyond these do not belong to
        the picture.
    others : mapping of sequences
        Values of the other parameters in the picture, for those that the table leaves out.  A row
        belongs to the picture if its parameters are near some of these.
    columns, ignore
        As of `read_table`.

    Raises
    ------
    ValueError
        If the table cannot be read, a column is missing, or no row belongs to the picture.
    """
    names = list(dict.fromkeys(["value", quantity.name, *filter(None, [quantity.part])]))
    errors = ["standard_error", *(f"{name}{ERROR_ENDING}" for name in names)]
    parameters = list(dict.fromkeys([*quantity.all_parameters, *SIZES]))
    known = [*parameters, *(name for name in (*names, *errors) if name not in parameters)]
    entries = read_table(
        table, known, columns=columns, ignore=ignore, hint=lambda name: did_you_mean(name, known)
    )
    values = _numbers_of(entries, names)
    if values is None:
        raise ValueError(f"the table must have a column {names[-1]} (columns={{'value': ...}})")
    scatter = _numbers_of(entries, errors, "[0, inf)")
    numbers = {name: entries.numbers(name) for name in parameters if name in entries}
    _refuse_unplaced(numbers.keys() - {*axes, *others, *SIZES}, entries)
    points = []
    for row, value in enumerate(values):
        given = {name: column[row] for name, column in numbers.items()}
        given |= _ratios(given)
        placed = _placed(given, axes, others)
        if placed is not None:
            error = math.nan if scatter is None else scatter[row]
            points.append(_compared(quantity, placed, given, value, error))
    if not points:
        stated = ", ".join(f"{name} = {values[0]:g}" for name, values in others.items())
        raise ValueError(f"no row of the table belongs to the picture, which has {stated}")
    return OwnPoints(points, len(values) - len(points))


def _refuse_unplaced(names: Collection[str], entries: Table) -> None:
    """Refuse parameters that the picture does not have."""
    for name in names:
        raise ValueError(
            f"the picture has no {name}: compute it with one, or ignore the column "
            f"{entries.names[name]!r}"
        )


def _numbers_of(
    entries: Table, names: Sequence[str], allowed: str = "(-inf, inf)"
) -> list[float] | None:
    """Numbers of the one column that has one of these names, if there is one."""
    present = [name for name in names if name in entries]
    if len(present) > 1:
        raise ValueError(f"the table has both {present[0]} and {present[1]}: ignore one of them")
    return entries.numbers(present[0], allowed) if present else None


def _ratios(given: Mapping[str, float]) -> dict[str, float]:
    """Parameters that the integers of a row stand for."""
    if "dim" not in given:
        return {}
    sizes = {name: given[name] for name in SIZES[1:] if name in given}
    return ratios_of(int(given["dim"]), sizes)


def _placed(
    given: Mapping[str, float],
    axes: Mapping[str, np.ndarray],
    others: Mapping[str, Sequence[float]],
) -> dict[str, float] | None:
    """Parameters of the place of a row in a picture; None if it does not belong there."""
    if missing := [name for name in axes if name not in given]:
        raise ValueError(
            f"the table must have a column {missing[0]} (columns={{{missing[0]!r}: ...}})"
            + (", or dim with context, tasks and prompts" if missing[0] in RATIOS else "")
        )
    place = {name: given[name] for name in axes}
    if not all(grid[0] <= place[name] <= grid[-1] for name, grid in axes.items()):
        return None
    for name, values in others.items():
        value = given.get(name, values[0])
        if name not in given and len(values) > 1:
            raise ValueError(
                f"the table must have a column {name}, which has several values in the picture"
            )
        nearest = min(values, key=lambda other: abs(other - value))
        if not is_near(value, nearest):
            return None
        place[name] = nearest
    return place


def _compared(
    quantity: Quantity,
    place: Mapping[str, float],
    given: Mapping[str, float],
    value: float,
    error: float,
) -> OwnPoint:
    """A point beside the theory: that of its integers, if it has them, otherwise the limit."""
    own = {name: given.get(name, number) for name, number in place.items()}
    doubt = 0.0
    known = quantity.part in ("icl", "idg", "gap") and quantity.structure is None
    if set(SIZES) <= given.keys() and known:
        setting: dict[str, Any] = {
            name: given[name] if math.isinf(given[name]) else int(given[name]) for name in SIZES
        }
        setting |= {name: own[name] for name in ("rho", "ridge", "flips") if name in own}
        if quantity.link is not None:
            setting["link"] = quantity.link
        predicted = predict(Experiment.of(**setting), draws=DRAWS, rng=0)
        estimate = getattr(predicted, quantity.part)
        theory = float(estimate.mean)
        doubt = math.hypot(estimate.standard_error, predicted.uncertainty / 2 * theory)
    else:
        theory = float(quantity.evaluate(own))
    total = math.hypot(error, doubt)
    z = (value - theory) / total if error > 0 and math.isfinite(theory) else math.nan
    return OwnPoint(dict(place), value, error, theory, z)
