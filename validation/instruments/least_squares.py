"""Parameters by weighted least squares: the best values, intervals, and what is not told apart.

Intervals are those of the profile likelihood: a parameter is moved, all others follow to their
best values, and chi-square may rise by 1 (68 %) or 3.84 (95 %).  The Fisher matrix has the same
information to second order.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import minimum_filter
from scipy.optimize import brentq, least_squares
from scipy.special import chdtri

from iclimit.results import Result
from iclimit.words import percent

# A direction of the parameters that is known to no better than this is not fixed.
LOOSE = 0.5

# Relative standard errors from here on are only said to be larger.
LARGE = 2.0

# Two parameters with a larger correlation are hardly told apart.
ALIKE = 0.95

# The direction of two parameters that is known best counts as a named combination if the cosine
# of the angle between the two is larger than this.
SAME = 0.995

# A parameter takes part in a direction if its component is larger than this share of the largest.
TAKES_PART = 0.3

# Confidence of intervals, and by how much chi-square rises at their ends.
LEVELS = {name: float(chdtri(1, 1 - name / 100)) for name in (68, 95)}

# Points with even steps on each side of a profile.
POINTS = 5

# The last of these points is this many standard errors from the best value.
REACH = 3.0

# More points follow, with growing steps, until chi-square has risen by this much.
RISE = 5.0

# A grid over the ranges of the parameters has about so many points.
GRID = 300

# It has at least and at most so many values of each parameter.
AXIS = (3, 33)

# So many of its points are evaluated at once: the covariances of many data would take gigabytes.
AT_ONCE = 99

# So many of the points that are lower than their neighbours are followed to their minimum.
FOLLOWED = 4

# Two ends of searches are different minima if the sum of squares rises by more than this on the
# way between them.
BARRIER = 0.1

# So many places are looked at on the way.
WAY = 6

# Residuals (..., n) at parameters (..., p), and ends of the ranges of these.
Residuals = Callable[[np.ndarray], np.ndarray]
Bounds = tuple[np.ndarray, np.ndarray]

# Combinations of parameters in words, as gradients of their logarithms.
Combinations = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, eq=False, repr=False)
class Precision(Result):
    """What data tell about parameters, to second order.

    Attributes
    ----------
    names : list of str
        The parameters; logarithms unless they are offsets.
    fisher : ndarray (p, p)
        Fisher matrix.
    combinations : mapping
        Combinations that have a name, as gradients of their logarithms.
    """

    names: list[str]
    fisher: np.ndarray
    combinations: Combinations = field(default_factory=dict)

    @property
    def covariance(self) -> np.ndarray:
        """Inverse of the Fisher matrix; enormous along what the data do not fix."""
        scales = np.sqrt(np.maximum(np.diag(self.fisher), 1e-250))
        values, vectors = np.linalg.eigh(self.fisher / np.outer(scales, scales))
        directions = vectors / scales[:, None]
        return np.asarray((directions / np.maximum(values, 1e-12)) @ directions.T)

    @property
    def standard_errors(self) -> dict[str, float]:
        """Standard errors by name: relative ones of what is known by its logarithm."""
        return dict(zip(self.names, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    def error_bars(self, slopes: np.ndarray) -> np.ndarray:
        """Standard errors (n,) of functions of the parameters with these slopes (n, p)."""
        return np.asarray(np.sqrt(np.sum((slopes @ self.covariance) * slopes, axis=1)))

    @property
    def correlations(self) -> np.ndarray:
        """Correlations (p, p)."""
        errors = np.sqrt(np.diag(self.covariance))
        return self.covariance / np.outer(errors, errors)

    @property
    def degeneracies(self) -> list[str]:
        """Which parameters the data do not fix or tell apart, in sentences."""
        names = self.names
        covariance = self.covariance
        sentences = []
        paired = set[str]()
        for i, j in combinations(range(len(names)), 2):
            if abs(self.correlations[i, j]) > ALIKE:
                values, vectors = np.linalg.eigh(covariance[np.ix_([i, j], [i, j])])
                text = self._named((names[i], names[j]), vectors[:, 0])
                sentences.append(
                    f"{names[i]} and {names[j]} are hardly told apart (correlation "
                    f"{self.correlations[i, j]:.3f}): only {text} is fixed, to "
                    f"{percent(math.sqrt(max(values[0], 0.0)), most=LARGE)}."
                )
                paired |= {names[i], names[j]}
        values, vectors = np.linalg.eigh(covariance)
        for value, vector in zip(values, vectors.T, strict=True):
            part = abs(vector) > TAKES_PART * np.max(abs(vector))
            involved = [name for name, takes in zip(names, part, strict=True) if takes]
            if value > LOOSE**2 and not set(involved) <= paired:
                verb = "is" if len(involved) == 1 else "together are"
                words = " and ".join(involved)
                size = percent(math.sqrt(value), most=LARGE)
                sentences.append(f"{words} {verb} not fixed: the standard error is {size}.")
        return sentences

    def _named(self, names: tuple[str, str], direction: np.ndarray) -> str:
        """The combination of two parameters with this gradient, by its name if it has one."""
        for text, gradient in self.combinations.items():
            known = np.array([gradient.get(name, 0.0) for name in names])
            cosine = abs(known @ direction) / max(float(np.linalg.norm(known)), 1e-300)
            if set(names) == set(gradient) and cosine > SAME:
                return text
        powers = direction / direction[np.argmax(abs(direction))]
        shown = [
            name if round(power, 2) == 1 else f"{name}^{power:.2g}"
            for name, power in zip(names, powers, strict=True)
        ]
        return " ".join(shown)

    def __str__(self) -> str:
        """Standard errors, and what is not told apart."""
        errors = self.standard_errors.items()
        return "\n".join(
            [f"{name}: {percent(error, most=LARGE)}" for name, error in errors] + self.degeneracies
        )


def fisher_matrix(slopes: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Fisher matrix (p, p) of data with the slopes (n, p) and a covariance (n, n)."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), slopes)
    return np.asarray(whitened.T @ whitened)


@dataclass(frozen=True, eq=False)
class Profile:
    """Best chi-square at given values of one parameter.

    Attributes
    ----------
    values : ndarray (m,)
        Values of the parameter.
    rises : ndarray (m,)
        Chi-square above its minimum there.
    points : ndarray (m, p)
        All parameters there.
    best : int
        Number of the best one.
    """

    values: np.ndarray
    rises: np.ndarray
    points: np.ndarray
    best: int

    def root(self, values: np.ndarray | float) -> np.ndarray:
        """Signed root of the rise, which is nearly linear in the parameter.

        From an end of the range on it is the rise itself that is nearly linear.
        """
        if self.best in (0, len(self.values) - 1):
            rises = PchipInterpolator(self.values, self.rises)(values)
            return np.sqrt(np.maximum(rises, 0)) * (1 if self.best == 0 else -1)
        sides = np.sign(np.arange(len(self.values)) - self.best)
        return np.asarray(PchipInterpolator(self.values, sides * np.sqrt(self.rises))(values))

    def interval(self, level: int, raised: float = 0.0) -> tuple[float, float]:
        """Ends of an interval of 68 or 95 %; ends of the range where it is open.

        The outermost places count where chi-square is not higher than the level.  ``raised`` is
        how much the whole profile lies above the lowest minimum, less than the level.
        """
        size = math.sqrt(LEVELS[level] - raised)
        inside = np.flatnonzero(np.sqrt(self.rises) <= size)
        low = self.values[inside[0]]
        high = self.values[inside[-1]]
        if inside[0] > 0:
            low = brentq(lambda x: self.root(x) + size, self.values[inside[0] - 1], low)
        if inside[-1] < len(self.values) - 1:
            high = brentq(lambda x: self.root(x) - size, high, self.values[inside[-1] + 1])
        return float(low), float(high)


def follow(residuals: Residuals, start: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Parameters of a minimum of the sum of squares near the start."""
    start = np.clip(start, *bounds)
    if not len(start):
        return start

    @lru_cache(maxsize=2)  # residuals and slopes are asked for one after the other
    def both(x: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        return values_and_slopes(residuals, np.array(x))

    def values(x: np.ndarray) -> np.ndarray:
        return both(tuple(x))[0]

    def slopes(x: np.ndarray) -> np.ndarray:
        return both(tuple(x))[1]

    settings = {"xtol": 1e-6, "max_nfev": 50}
    return least_squares(values, start, jac=slopes, bounds=bounds, **settings).x


def minima(
    residuals: Residuals, start: np.ndarray, bounds: Bounds, within: float = math.inf
) -> list[np.ndarray]:
    """Parameters of different minima of the sum of squares, the lowest first.

    They are the ends of searches from the start and from the lowest places of a grid, unless they
    are higher than the lowest one by more than ``within``.
    """
    starts = [start, *_lowest_places(residuals, bounds)]
    ends = np.array([follow(residuals, place, bounds) for place in starts])
    heights = sums_of_squares(residuals, ends)
    distinct: list[np.ndarray] = []
    for number in np.argsort(heights, kind="stable"):
        end = ends[number]
        high = heights[number] > np.min(heights) + within
        if not high and all(differ(residuals, other, end, bounds) for other in distinct):
            distinct.append(end)
    return distinct


def _lowest_places(residuals: Residuals, bounds: Bounds) -> np.ndarray:
    """Points (m, p) of a grid that are not higher than their neighbours, the lowest first."""
    size = len(bounds[0])
    if not size:
        return np.zeros((0, 0))
    points = min(max(int(GRID ** (1 / size)), AXIS[0]), AXIS[1])
    axes = [np.linspace(low, high, points) for low, high in zip(*bounds, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    heights = heights_at(residuals, grid)
    lowest = heights == minimum_filter(heights, size=3, mode="nearest")
    order = np.argsort(heights[lowest], kind="stable")
    return np.asarray(grid[lowest][order[:FOLLOWED]])


def heights_at(residuals: Residuals, grid: np.ndarray) -> np.ndarray:
    """Sums of squared residuals (...) at many parameters (..., p), some at once."""
    flat = grid.reshape(-1, grid.shape[-1])
    parts = [flat[first : first + AT_ONCE] for first in range(0, len(flat), AT_ONCE)]
    heights = np.concatenate([sums_of_squares(residuals, part) for part in parts])
    return heights.reshape(grid.shape[:-1])


def differ(residuals: Residuals, low: np.ndarray, high: np.ndarray, bounds: Bounds) -> bool:
    """Whether there is a barrier between a minimum and a place that is not lower."""
    limit = float(sums_of_squares(residuals, high)) + BARRIER
    way = np.linspace(low, high, WAY + 2)
    if np.all(sums_of_squares(residuals, way) <= limit):
        return False
    # A valley may be curved: one parameter moves, and all others follow.
    index = int(np.argmax(abs(high - low)))
    x = low
    for value in way[1:, index].tolist():
        x = _best_at(residuals, x, index, value, bounds)
        if sums_of_squares(residuals, x) > limit:
            return True
    return False


def sums_of_squares(residuals: Residuals, x: np.ndarray) -> np.ndarray:
    """Sums of squared residuals (...) at parameters (..., p)."""
    return np.asarray(np.sum(residuals(x) ** 2, axis=-1))


def values_and_slopes(
    function: Residuals, x: np.ndarray, step: float = 1e-4
) -> tuple[np.ndarray, np.ndarray]:
    """Values (n,) and slopes (n, p) of a function of parameters (..., p), in one call of it."""
    moves = step * np.eye(len(x))
    here, low, high = np.split(function(np.vstack([x, x - moves, x + moves])), [1, len(x) + 1])
    return here[0], (high - low).T / (2 * step)


def profile(
    residuals: Residuals, best: np.ndarray, index: int, error: float, bounds: Bounds
) -> Profile:
    """Profile of a parameter around the best values, which has this standard error."""
    least = float(sums_of_squares(residuals, best))
    points = [(0.0, best)]
    for side, ends in zip((-1, 1), bounds, strict=True):
        x = best
        rise = 0.0
        number = 0
        step = side * min(REACH * error, 1.0) / POINTS
        while x[index] != ends[index] and (number < POINTS or rise < RISE):
            number += 1
            step *= 1.0 if number <= POINTS else 1.5
            value = float(np.clip(x[index] + step, bounds[0][index], bounds[1][index]))
            x = _best_at(residuals, x, index, value, bounds)
            rise = max(float(sums_of_squares(residuals, x)) - least, 0.0)
            points.append((rise, x))
    points.sort(key=lambda point: float(point[1][index]))
    rises = np.array([rise for rise, _ in points])
    places = np.array([x for _, x in points])
    number = next(i for i, (_, x) in enumerate(points) if x is best)
    return Profile(places[:, index], rises, places, number)


def _best_at(
    residuals: Residuals, x: np.ndarray, index: int, value: float, bounds: Bounds
) -> np.ndarray:
    """Parameters of which one has a value, and all others follow to their best values."""
    others = np.arange(len(x)) != index
    moved = x.copy()
    moved[index] = value

    def rest(y: np.ndarray) -> np.ndarray:
        points = np.broadcast_to(moved, (*y.shape[:-1], len(x))).copy()
        points[..., others] = y
        return residuals(points)

    moved[others] = follow(rest, x[others], (bounds[0][others], bounds[1][others]))
    return moved
