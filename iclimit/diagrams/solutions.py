"""Where a quantity has a given value, along one of its parameters."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.axes import parse_axis
from iclimit.diagrams.curves import Curves
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.drawing import Axes
from iclimit.notation import explaining
from iclimit.results import Result

# Places of the range at which the quantity is computed; roots between neighbours are found if it
# has another sign there, or turns.
POINTS = 1000

# Most integers of a range.
MOST_INTEGERS = 10**4

# Ratio of the ends of a range from which on its places are even in the logarithm.
WIDE = 10.0

# Where the difference from the target stays larger than this part of the target or of the smaller
# difference beside it, it jumps or diverges, and there is no root.
JUMP = 1e-6

# Roots within this relative distance are the same.
SAME = 1e-9

# Infinite differences count as this.
HUGE = 1e300


@dataclass(frozen=True, repr=False)
class Solution(Result):
    """All places at which a quantity has a value (`solve`).

    Attributes
    ----------
    quantity : Quantity
        The quantity.
    equals : float
        The value.
    x : str
        Parameter that was searched along.
    at : dict
        The other parameters.
    low, high : float
        Range that was searched.
    roots : ndarray (roots,)
        Places, in ascending order; of an integer the first one at or beyond the value.
    values : ndarray (roots,)
        The quantity there.
    least, greatest : float
        Smallest and largest value that was found in the range.
    """

    quantity: Quantity
    equals: float
    x: str
    at: dict[str, float]
    low: float
    high: float
    roots: np.ndarray
    values: np.ndarray
    least: float
    greatest: float
    _curve: Curves = field(repr=False, compare=False)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each root."""
        pairs = zip(self.roots.tolist(), self.values.tolist(), strict=True)
        return [
            {"quantity": self.quantity.name, **self.at, self.x: x, self.quantity.column: value}
            for x, value in pairs
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and lists, also where there is no root."""
        names = ("equals", "x", "at", "low", "high", "roots", "values", "least", "greatest")
        return {"quantity": self.quantity.name} | {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        name = self.quantity.name
        span = f"from {self.x} = {self.low:g} to {self.high:g}"
        reached = f"{name} goes from {self.least:.6g} to {self.greatest:.6g} {span}"
        if not self.roots.size:
            return f"no {self.x} gives {name} = {self.equals:g}: {reached}"
        if self.quantity.all_parameters[self.x].integer:
            pairs = zip(self.roots, self.values, strict=True)
            integers = "; ".join(f"{x:g}, with {value:.6g}" for x, value in pairs)
            head = f"{name} passes {self.equals:g} at {self.x} = {integers}"
        else:
            places = ", ".join(f"{x:.10g}" for x in self.roots)
            head = f"{name} = {self.equals:g} at {self.x} = {places}"
        count = self.roots.size
        return f"{head} ({'the only place' if count == 1 else f'{count} places'}; {reached})"

    def draw(self, ax: Axes) -> None:
        """Draw the quantity as a line, the value as dashes and the roots as points."""
        self._curve.draw(ax)
        ax.axhline(self.equals, color="0.4", linestyle="--", linewidth=0.8)
        ax.plot(self.roots, self.values, "o", color="k", clip_on=False)


@explaining
def solve(
    quantity: str | Callable[..., Any],
    *,
    equals: float,
    at: Mapping[str, Any],
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
) -> Solution:
    """Find where a quantity has a value: which tau gives this error?

    Parameters
    ----------
    quantity, task_spectrum, test_spectrum, input_spectrum, normalize
        As in `iclimit.curve`.
    equals : float
        The value.
    at : mapping
        The quantity's parameters, one number each, but for the one that is searched for: it has
        the two ends of the range, or more numbers between them.

    Returns
    -------
    Solution
        With all ``roots`` in the range; ``print`` says them, or that there is none and how far the
        quantity goes.

    Raises
    ------
    ValueError
        If the quantity or a parameter is unknown, missing or out of range, or not exactly one
        parameter has a range.

    Notes
    -----
    The quantity is computed at a thousand places, even in the logarithm if the ends differ by a
    factor of ten, or at every integer.  Roots are searched between neighbours with differences of
    opposite sign, and beside places where the quantity turns towards the value.  So two roots are
    missed only where the quantity turns twice between neighbours.  Jumps and poles are no roots.

    Examples
    --------
    >>> import iclimit
    >>> setting = {"tau": (1.1, 100), "alpha": 1, "kappa": 0.5, "rho": 0.1}
    >>> solution = iclimit.solve("icl_error", equals=1.2, at=setting)
    >>> solution.roots.round(4)
    array([2.9285])
    >>> print(iclimit.solve("icl_error", equals=0.9, at=setting))
    no tau gives icl_error = 0.9: icl_error goes from 0.913767 to 6.53773 from tau = 1.1 to 100
    """
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum, normalize)
    chosen = get_quantity(quantity, at, structure)
    (wanted,) = parse_axis("equals", equals).tolist()
    if not math.isfinite(wanted):
        raise ValueError(f"equals must be a finite number, got {wanted!r}")
    x, given, fixed = _searched(chosen, at)
    places = _places(chosen, x, given)

    def difference(place: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.clip(chosen.evaluate(fixed | {x: place}) - wanted, -HUGE, HUGE)

    values = chosen.evaluate(fixed | {x: places})
    if np.all(np.isnan(values)):
        raise ValueError(f"{chosen.name} is not defined at any {x} of the range")
    if chosen.all_parameters[x].integer:
        roots = _first_integers(places, difference(places))
    else:
        roots = _roots(difference, places, difference(places), wanted)
    return Solution(
        quantity=chosen,
        equals=wanted,
        x=x,
        at=fixed,
        low=float(places[0]),
        high=float(places[-1]),
        roots=roots,
        values=chosen.evaluate(fixed | {x: roots}) if roots.size else roots,
        least=float(np.nanmin(values)),
        greatest=float(np.nanmax(values)),
        _curve=Curves(chosen, x, places, [fixed], values[None]),
    )


def _searched(
    quantity: Quantity, at: Mapping[str, Any]
) -> tuple[str, np.ndarray, dict[str, float]]:
    """Parameter that is searched for, its range, and the others."""
    values = {name: parse_axis(name, given) for name, given in at.items()}
    several = [name for name, numbers in values.items() if numbers.size > 1]
    if len(several) != 1:
        name = next(iter(quantity.all_parameters))
        raise ValueError(
            f"exactly one parameter must have a range, such as {name}=(1, 10) (--{name} 1:10), "
            f"got {', '.join(several) or 'none'}"
        )
    (x,) = several
    given = values.pop(x)
    return x, given, {name: float(numbers[0]) for name, numbers in values.items()}


def _places(quantity: Quantity, x: str, given: np.ndarray) -> np.ndarray:
    """Places of a range, in ascending order, with those that are given."""
    low = float(np.min(given))
    high = float(np.max(given))
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"{x} must have a finite range, got {low:g} to {high:g}")
    if quantity.all_parameters[x].integer:
        places = np.arange(math.ceil(low), math.floor(high) + 1.0)
        if not 1 < places.size <= MOST_INTEGERS:
            raise ValueError(f"{x} must have 2 to {MOST_INTEGERS} integers, got {places.size}")
        return places
    if quantity.by_points(x):
        return np.unique(given)
    wide = 0 < WIDE * low <= high
    return np.union1d(given, (np.geomspace if wide else np.linspace)(low, high, POINTS))


def _first_integers(places: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """First integers at or beyond the value, wherever it is passed."""
    signs = np.sign(differences)
    passed = (signs[1:] != signs[:-1]) & (signs[:-1] != 0)
    hit = np.append(signs[0] == 0, passed & ~np.isnan(signs[1:] + signs[:-1]))
    return places[hit]


def _roots(
    difference: Callable[[np.ndarray], np.ndarray],
    places: np.ndarray,
    differences: np.ndarray,
    target: float,
) -> np.ndarray:
    """Roots of a difference, from its values at some places."""
    turns = _turns(difference, places, differences)
    x = np.concatenate([places, turns])
    order = np.argsort(x)
    x = x[order]
    y = np.concatenate([differences, difference(turns)])[order]
    between = np.flatnonzero(y[1:] * np.sign(y[:-1]) < 0)
    exact = x[y == 0]
    touched = turns[np.abs(difference(turns)) <= SAME * abs(target)]
    if not between.size:
        return _distinct(np.concatenate([exact, touched]))
    ends = x[between], x[between + 1]
    search = elementwise.find_root(difference, ends, tolerances={"fatol": 0, "frtol": 0})
    beside = np.minimum(np.abs(y[between]), np.abs(y[between + 1]))
    smooth = np.abs(search.f_x) <= JUMP * (abs(target) + beside)
    return _distinct(np.concatenate([exact, touched, search.x[smooth]]))


def _turns(
    difference: Callable[[np.ndarray], np.ndarray], places: np.ndarray, differences: np.ndarray
) -> np.ndarray:
    """Places between others at which the difference turns towards zero."""
    before = differences[:-2]
    middle = differences[1:-1]
    after = differences[2:]
    size = np.abs(middle)
    same_side = (np.sign(before) == np.sign(middle)) & (np.sign(after) == np.sign(middle))
    turning = same_side & (size < np.abs(before)) & (size < np.abs(after)) & (size < HUGE)
    at = np.flatnonzero(turning) + 1
    if not at.size:
        return np.empty(0)
    sides = np.sign(differences[at])
    bracket = places[at - 1], places[at], places[at + 1]
    search = elementwise.find_minimum(lambda x, side: side * difference(x), bracket, args=(sides,))
    return np.asarray(search.x[search.success])


def _distinct(roots: np.ndarray) -> np.ndarray:
    """Roots in ascending order, each of them once."""
    roots = np.sort(roots)
    apart = np.diff(roots) > SAME * np.abs(roots[1:])
    return roots[np.append(True, apart)] if roots.size else roots
