"""Parameters by weighted least squares: the best values, intervals, and what is not told apart.

Intervals are those of the profile likelihood: a parameter is moved, all others follow to their
best values, and chi-square may rise by 1 (68 %) or 3.84 (95 %).  The Fisher matrix has the same
information to second order.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, product

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq, least_squares
from scipy.special import chdtri

from iclimit.results import Result

# A direction of the parameters that is known to no better than this is not fixed.
LOOSE = 0.5

# Two parameters with a larger correlation are hardly told apart.
ALIKE = 0.95

# Cosine from which the best known direction counts as that of a known combination, and the share
# of the largest component from which a parameter takes part in a direction.
SAME, TAKES_PART = 0.995, 0.3

# Confidence of intervals, and by how much chi-square rises at their ends.
LEVELS = {name: float(chdtri(1, 1 - name / 100)) for name in (68, 95)}

# Profiles have so many points on each side, up to this many standard errors, and further out
# until chi-square has risen by so much.
POINTS, REACH, RISE = 5, 3.0, 5.0

# Distance of the starting points from the first one, and how many are followed to their minimum.
FAR, FOLLOWED = 1.5, 3

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
        names, covariance = self.names, self.covariance
        sentences, paired = [], set[str]()
        for i, j in combinations(range(len(names)), 2):
            if abs(self.correlations[i, j]) > ALIKE:
                values, vectors = np.linalg.eigh(covariance[np.ix_([i, j], [i, j])])
                text = self._named((names[i], names[j]), vectors[:, 0])
                sentences.append(
                    f"{names[i]} and {names[j]} are hardly told apart (correlation "
                    f"{self.correlations[i, j]:.3f}): only {text} is fixed, to "
                    f"{_percent(math.sqrt(max(values[0], 0.0)))}."
                )
                paired |= {names[i], names[j]}
        values, vectors = np.linalg.eigh(covariance)
        for value, vector in zip(values, vectors.T, strict=True):
            part = abs(vector) > TAKES_PART * np.max(abs(vector))
            involved = [name for name, takes in zip(names, part, strict=True) if takes]
            if value > LOOSE**2 and not set(involved) <= paired:
                verb = "is" if len(involved) == 1 else "together are"
                words = " and ".join(involved)
                size = _percent(math.sqrt(value))
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
            [f"{name}: {_percent(error)}" for name, error in errors] + self.degeneracies
        )


def _percent(error: float) -> str:
    """A relative standard error in words."""
    return f"{100 * error:.2g} %" if error < 2 else "more than 200 %"


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
        """Signed root of the rise, which is nearly linear in the parameter."""
        sides = np.sign(np.arange(len(self.values)) - self.best)
        return np.asarray(PchipInterpolator(self.values, sides * np.sqrt(self.rises))(values))

    def interval(self, level: int) -> tuple[float, float]:
        """Ends of an interval of 68 or 95 %; ends of the range where it is open."""
        middle, size, ends = self.values[self.best], math.sqrt(LEVELS[level]), []
        for side, end in ((-1, float(self.values[0])), (1, float(self.values[-1]))):
            if side * self.root(end) > size:
                end = brentq(lambda x, side=side: self.root(x) - side * size, middle, end)
            ends.append(float(end))
        return ends[0], ends[1]


def follow(residuals: Residuals, start: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Parameters of a minimum of the sum of squares near the start."""
    start = np.clip(start, *bounds)
    if not len(start):
        return start

    @lru_cache(maxsize=2)  # residuals and slopes are asked for one after the other
    def both(x: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        return values_and_slopes(residuals, np.array(x))

    values, slopes = (lambda x, part=part: both(tuple(x))[part] for part in (0, 1))
    settings = {"xtol": 1e-6, "max_nfev": 50}
    return least_squares(values, start, jac=slopes, bounds=bounds, **settings).x


def minimum(residuals: Residuals, start: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Parameters of the least sum of squares, from several starting points."""
    steps = product((0.0, -FAR, FAR), repeat=min(len(start), 3))
    starts = np.array([start + np.resize(step, len(start)) for step in steps]).clip(*bounds)
    order = np.argsort(_squares(residuals, starts), kind="stable")
    ends = [follow(residuals, starts[i], bounds) for i in order[:FOLLOWED]]
    return ends[int(np.argmin(_squares(residuals, np.array(ends))))]


def _squares(residuals: Residuals, x: np.ndarray) -> np.ndarray:
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
    least, others = float(_squares(residuals, best)), np.arange(len(best)) != index
    free = bounds[0][others], bounds[1][others]
    points = [(0.0, best)]
    for side, ends in zip((-1, 1), bounds, strict=True):
        x, rise, number, step = best, 0.0, 0, side * min(REACH * error, 1.0) / POINTS
        while x[index] != ends[index] and (number < POINTS or rise < RISE):
            number += 1
            step *= 1.0 if number <= POINTS else 1.5
            x = x.copy()
            x[index] = np.clip(x[index] + step, bounds[0][index], bounds[1][index])

            def rest(y: np.ndarray, x: np.ndarray = x) -> np.ndarray:
                moved = np.broadcast_to(x, (*y.shape[:-1], len(x))).copy()
                moved[..., others] = y
                return residuals(moved)

            x[others] = follow(rest, x[others], free)
            rise = max(float(_squares(residuals, x)) - least, 0.0)
            points.append((rise, x))
    points.sort(key=lambda point: float(point[1][index]))
    rises, places = zip(*points, strict=True)
    number = next(i for i, x in enumerate(places) if x is best)
    return Profile(np.array(places)[:, index], np.array(rises), np.array(places), number)
