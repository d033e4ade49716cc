"""Search for the parameters of a theory that is expanded about a place: of runs and of curves.

An expansion holds near its centre only.  It sees minima, which may be far away, and another one
may be lower by an expansion of its own.  So all minima that are seen from a place are visited,
lowest first, until each has been seen from where it is, and they are compared by their own
expansions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from iclimit.validation.instruments.least_squares import (
    Bounds,
    Precision,
    Profile,
    differ,
    minima,
    profile,
)

# Theory is expanded at so many places at most.
PLACES = 12

# Minima that are higher than the lowest one by more than this are not followed: expansions at
# another place may be wrong by as much.
TOO_HIGH = 25.0


class Expansion(Protocol):
    """What was measured, with a theory that is expanded about parameters.

    Parameters are logarithms, over what is stated, of all but offsets.
    """

    @property
    def centre(self) -> np.ndarray:
        """Parameters (p,) where theory is expanded."""

    @property
    def bounds(self) -> Bounds:
        """Range of the parameters."""

    @property
    def count(self) -> int:
        """Number of measured values."""

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """Residuals (..., n) at parameters (..., p): their squares are -2 ln(likelihood)."""

    def height(self, x: np.ndarray) -> float:
        """Minus twice the logarithm of the likelihood, up to a constant of all expansions."""

    def chi_square(self, x: np.ndarray) -> float:
        """Weighted sum of squared deviations."""

    def precision(self, x: np.ndarray) -> Precision:
        """What is known of the parameters."""

    def reach(self, errors: np.ndarray) -> np.ndarray:
        """How far (p,) from the centre it is used, where parameters have these errors (p,)."""


Expanded = TypeVar("Expanded", bound=Expansion)


@dataclass(frozen=True, eq=False)
class Solution(Generic[Expanded]):
    """Best parameters by an expansion about one place.

    Attributes
    ----------
    data : Expansion
        What was measured, with theory about that place.
    x : ndarray (p,)
        The best parameters near it.
    height : float
        Minus twice the logarithm of the likelihood, up to a constant of all solutions.
    precision : Precision
        What is known of the parameters there.
    """

    data: Expanded
    x: np.ndarray
    height: float
    precision: Precision

    @classmethod
    def of(cls, data: Expanded, x: np.ndarray) -> Solution[Expanded]:
        """Solution at these parameters."""
        return cls(data, x, data.height(x), data.precision(x))

    @property
    def standard_errors(self) -> np.ndarray:
        """Standard errors (p,) of the parameters."""
        return np.array(list(self.precision.standard_errors.values()))

    @property
    def settled(self) -> bool:
        """Whether theory was expanded where it is."""
        return self.near(self.data.centre)

    def near(self, x: np.ndarray) -> bool:
        """Whether a place is so near that theory need not be expanded anew."""
        return bool(np.all(abs(self.x - x) < self.data.reach(self.standard_errors)))

    def profile(self, index: int) -> Profile:
        """Profile of the likelihood over a parameter."""
        error = float(self.standard_errors[index])
        return profile(self.data.residuals, self.x, index, error, self.data.bounds)


def solve(
    expand: Callable[[np.ndarray], Expanded], start: np.ndarray, furthest: float = math.inf
) -> list[Solution[Expanded]]:
    """All minima of the likelihood that are found, each by theory there; the lowest first.

    Parameters
    ----------
    expand : callable
        Expand theory about parameters.
    start : ndarray (p,)
        Where theory is expanded first.
    furthest : float
        Minima are looked for at this distance from a place, in each parameter.

    Raises
    ------
    ValueError
        If theory cannot be expanded.
    """
    waiting = [(0.0, start)]
    visited: list[np.ndarray] = []
    solutions: list[Solution[Expanded]] = []
    seen: list[Solution[Expanded]] = []
    failure: ValueError | None = None
    while waiting and len(visited) < PLACES:
        _, x = waiting.pop(0)
        visited.append(x)
        try:
            data = expand(x)
        except ValueError as error:  # there is no prediction
            failure = error
            continue
        low, high = data.bounds
        bounds = np.maximum(low, x - furthest), np.minimum(high, x + furthest)
        ends = minima(data.residuals, x, bounds, TOO_HIGH)
        seen = [Solution.of(data, end) for end in ends]
        solutions += seen
        lowest = min(s.height for s in solutions if s.settled or s in seen)
        followed = [solution for solution in seen if solution.height < lowest + TOO_HIGH]
        waiting = _with_new(waiting, visited, followed)
    different = _different([solution for solution in solutions if solution.settled])
    if not different and failure is not None:
        raise failure
    # Otherwise expansions go to and fro by the scatter of what they are made of.
    return different or seen[:1]


def _with_new(
    waiting: Sequence[tuple[float, np.ndarray]],
    visited: Sequence[np.ndarray],
    solutions: Sequence[Solution[Expanded]],
) -> list[tuple[float, np.ndarray]]:
    """Heights and places that wait to be visited, with those of new solutions, lowest first."""
    places = list(waiting)
    for solution in solutions:
        if not any(map(solution.near, [*visited, *(place for _, place in places)])):
            places.append((solution.height, solution.x))
    return sorted(places, key=lambda place: place[0])


def _different(solutions: Sequence[Solution[Expanded]]) -> list[Solution[Expanded]]:
    """Solutions that are further than a standard error from lower ones, behind a barrier."""
    kept: list[Solution[Expanded]] = []
    for solution in sorted(solutions, key=lambda solution: solution.height):
        data = solution.data
        apart = (
            np.any(abs(other.x - solution.x) > solution.standard_errors)
            and differ(data.residuals, other.x, solution.x, data.bounds)
            for other in kept
        )
        if all(apart):
            kept.append(solution)
    return kept
