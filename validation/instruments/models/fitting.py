r"""Fits of families of algorithms to the answers of a model.

**The fit.**  Parameters minimise the mean squared distance to the answers of the model on the
first prompts: a grid on few of them, then least squares from its best point.  Whole numbers, such
as that of the steps, are searched by going to the better neighbour.  The fit is judged on other
prompts.

**Intervals.**  The covariance of the parameters is White's, with the derivatives J of the answers
and the residuals r (over one minus the leverage of a prompt):
:math:`(J^\top J)^{-1} J^\top \operatorname{diag}(r^2) J (J^\top J)^{-1}`.  A whole number is
within its interval if its residuals are not significantly larger than those of the best one.  The
interval of another parameter is then the union over these whole numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.sampling import concatenate_fields
from iclimit.statistics import z_threshold
from iclimit.validation.instruments.models.algorithm import (
    Algorithm,
    Baseline,
    Examples,
    Parameter,
)
from iclimit.validation.instruments.models.sections import Section
from iclimit.validation.instruments.ratios import (
    FLOAT64,
    ROUNDING,
    best_weights,
    bounded_weights,
    larger,
    quantile,
    ratio,
)
from iclimit.words import measured

# Numbers in all inputs of the prompts that parameters are fitted to.
FIT_NUMBERS = 3 * 2**18

# Prompts that parameters are fitted to even if they have more numbers than that.
FEWEST = 200

# The first prompts, on which the start of the search is chosen.
FIRST = 200

# When a fit is solved.
SOLVED = {"xtol": 1e-11, "ftol": 1e-12, "gtol": 1e-13, "max_nfev": 20}

# Prompts that say what a fit leaves unexplained, at most, over those that it was fitted to.
JUDGED = 2

# Largest answer whose square is compared: descent with too large a rate overflows.
LARGEST = 1e50

# Step of central differences in the coordinates of the search, which are of order 1.
STEP = 1e-5

# Probability with which the intervals of all parameters hold.
COVERAGE = 0.99

# Interval of what the answers do not tell.
NOTHING = -math.inf, math.inf

# A parameter that is known to no better than this, in these coordinates, is not determined.
VAGUE = 1.5

# A factor whose standard error exceeds it, in words: another parameter makes up for it.
UNDETERMINED = "a factor that is not determined"

# Mean square of answers over that of the labels below which no family is fitted.
LEAST_SQUARE = 1e-60


@dataclass(frozen=True)
class Fit:
    """A family with the parameters that are nearest to a model.

    Attributes
    ----------
    family, name, title : str
        The family, this member of it, and what that is in English.
    parameters : mapping of str to Estimate
        Its parameters, whole numbers and the factor too.
    intervals : mapping of str to tuple of float
        Intervals that hold together with 99 %; without limits where the answers do not tell.
    unexplained : Estimate
        Share of the mean square of the answers that it leaves, on prompts it was not fitted to.
    """

    family: str
    name: str
    title: str
    parameters: Mapping[str, Estimate]
    intervals: Mapping[str, tuple[float, float]]
    unexplained: Estimate


def fit_size(problem: Problem, count: int) -> int:
    """Number of prompts, the first of so many, that families are fitted to."""
    most = max(FEWEST, FIT_NUMBERS // (problem.context * problem.dim))
    return min(most, count // 2)


def finite_answers(
    algorithm: Algorithm, examples: Examples, values: Mapping[str, float]
) -> np.ndarray:
    """Answers of a member of a family, where it overflows with a finite size."""
    with np.errstate(all="ignore"):
        answers = algorithm.answer(examples, **values)
    return np.clip(np.nan_to_num(answers, nan=LARGEST), -LARGEST, LARGEST)


@dataclass
class _Search:
    """Least squares of the answers of one algorithm."""

    algorithm: Algorithm
    examples: Examples
    model: np.ndarray

    def __post_init__(self) -> None:
        units = self.examples.units
        whole = self.algorithm.whole
        self.parameters = {name: start(units) for name, start in self.algorithm.parameters.items()}
        self.counts = (0,) if whole is None else whole.values(units)
        self.few = Examples(self.examples.prompts[:FIRST], self.examples.problem)
        self.weight = bounded_weights(self.model)
        bounded = self.weight * self.model
        self.size = math.sqrt(float(np.mean(bounded**2)))
        self.model = bounded / self.size
        self.solved: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def names(self) -> list[str]:
        """Numbers that derivatives are taken by: the factor, if it has one, and the parameters."""
        factor = self.algorithm.factor
        return [factor, *self.parameters] if factor else list(self.parameters)

    def answers(self, examples: Examples, count: int, free: np.ndarray) -> np.ndarray:
        """Answers without the factor, at coordinates of the search."""
        values = {
            name: parameter.from_free(x)
            for (name, parameter), x in zip(self.parameters.items(), free, strict=True)
        }
        if self.algorithm.whole is not None:
            values[self.algorithm.whole.name] = count
        answers = finite_answers(self.algorithm, examples, values)
        return self.weight[: len(examples)] * answers / self.size

    def residual(self, free: np.ndarray, count: int, examples: Examples) -> np.ndarray:
        """What is left of the answers of the model with the best factor."""
        model = self.model[: len(examples)]
        answers = self.answers(examples, count, free)
        return model - self.factor(model, answers) * answers

    def factor(self, model: np.ndarray, answers: np.ndarray) -> float:
        """The best factor of the algorithm, 1 where it has none."""
        size = float(np.mean(answers**2))
        return float(np.mean(model * answers)) / size if self.algorithm.factor and size else 1.0

    def solve(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the best parameters with a whole number, and their residuals."""
        if count not in self.solved:
            values = itertools.product(
                *(
                    map(parameter.to_free, parameter.start)
                    for parameter in self.parameters.values()
                )
            )
            grid = map(np.array, values)
            start = min(grid, key=lambda x: float(np.sum(self.residual(x, count, self.few) ** 2)))
            free = start
            if len(start):
                options = {"args": (count, self.examples), "bounds": self.bounds(), **SOLVED}
                free = least_squares(self.residual, start, **options).x
            self.solved[count] = free, self.residual(free, count, self.examples)
        return self.solved[count]

    def bounds(self) -> tuple[list[float], list[float]]:
        """Bounds of the coordinates, far beyond the grid."""
        ends = [
            sorted(map(parameter.to_free, (parameter.start[0], parameter.start[-1])))
            for parameter in self.parameters.values()
        ]
        return [low - 5 for low, _ in ends], [high + 5 for _, high in ends]

    def left(self, count: int) -> float:
        """Mean square of what is left."""
        return float(np.mean(self.solve(count)[1] ** 2))

    def best_count(self) -> int:
        """The best whole number: of those tried first, then of neighbours.

        Steps that diverge turn the sign of the answers each time: numbers of one parity are near.
        """
        best = min(self.counts, key=self.left)
        while self.algorithm.whole is not None:
            least = self.counts[0]
            most = self.counts[-1]
            near = [best + by for by in (-2, -1, 1, 2) if least <= best + by <= most]
            better = min(near, key=self.left, default=best)
            if self.left(better) >= self.left(best):
                break
            best = better
        return best

    def possible_counts(self, best: int) -> list[int]:
        """The best whole number, and others that are not significantly further away."""
        _, least = self.solve(best)
        limit = quantile(len(self.solved))
        return [best] + [
            count
            for count, (_, left) in self.solved.items()
            if count != best and not larger(left**2, least**2, limit, ROUNDING**2)
        ]

    def derivatives(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Factor and coordinates of the best parameters, and derivatives of the answers (n, m)."""
        free, _ = self.solve(count)
        answers = self.answers(self.examples, count, free)
        factor = self.factor(self.model, answers)
        columns = [answers] if self.algorithm.factor else []
        for step in STEP * np.eye(len(free)):
            sides = [self.answers(self.examples, count, free + move) for move in (step, -step)]
            columns.append(factor * (sides[0] - sides[1]) / (2 * STEP))
        whole = np.concatenate([[factor] if self.algorithm.factor else [], free])
        return whole, np.reshape(columns, (len(columns), -1)).T

    def estimates(self, count: int) -> dict[str, _Estimated]:
        """Parameters with a whole number, with their standard errors and intervals."""
        if not self.names:
            return {}
        free, derivatives = self.derivatives(count)
        _, residual = self.solve(count)
        lengths = np.linalg.norm(derivatives, axis=0)
        scaled = derivatives / np.where(lengths > 0, lengths, 1.0)
        _, covariance = best_weights(residual, scaled)
        errors = np.sqrt(np.diag(covariance)) / np.where(lengths > 0, lengths, 1.0)
        limit = z_threshold(len(self.names), 1 - COVERAGE)
        # Answers that change by less than this tell nothing of a parameter.
        least = ROUNDING * math.sqrt(len(residual))
        estimates = {}
        for name, x, error, length in zip(self.names, free, errors, lengths, strict=True):
            if name == self.algorithm.factor:
                estimates[name] = _factor_estimate(x, error, limit, len(residual))
            else:
                vague = length < least or limit * error > VAGUE
                error = math.inf if vague else error
                parameter = self.parameters[name]
                estimates[name] = _parameter_estimate(parameter, x, error, limit, len(residual))
        return estimates


@dataclass(frozen=True)
class _Estimated:
    """A parameter with its standard error and its interval."""

    value: Estimate
    ends: tuple[float, float]


def _factor_estimate(factor: float, error: float, limit: float, count: int) -> _Estimated:
    ends = (factor - limit * error, factor + limit * error)
    return _Estimated(_rounded(factor, error, count), ends)


def _parameter_estimate(
    parameter: Parameter, free: float, error: float, limit: float, count: int
) -> _Estimated:
    """A parameter from its coordinate and the standard error of that."""
    slope = (parameter.from_free(free + STEP) - parameter.from_free(free - STEP)) / (2 * STEP)
    value = _rounded(parameter.from_free(free), abs(slope) * error, count)
    return _Estimated(value, _ends(parameter, free, limit * error))


def _rounded(mean: float, error: float, count: int) -> Estimate:
    """Estimate in which what is below rounding of float64 is none."""
    known = error if error > FLOAT64 * abs(mean) else 0.0
    return Estimate(float(f"{mean:.12g}"), known, count)


def fit_family(
    algorithm: Algorithm, examples: Examples, model: np.ndarray
) -> tuple[Fit, Baseline]:
    """Fit the parameters of an algorithm to the answers of a model.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm.
    examples : Examples
        Prompts.
    model : array (n,)
        Answers of the model to them.

    Returns
    -------
    Fit
        The nearest parameters.
    Baseline
        The algorithm with these parameters.
    """
    search = _Search(algorithm, examples, model)
    best = search.best_count()
    possible = search.possible_counts(best)
    estimated = [search.estimates(count) for count in possible]
    parameters = {name: estimate.value for name, estimate in estimated[0].items()}
    intervals = {
        name: _union([estimates[name].ends for estimates in estimated]) for name in parameters
    }
    optimum = algorithm.optimum(examples.units)
    texts = {
        name: _stated(value, intervals[name], optimum.get(name))
        for name, value in parameters.items()
    }
    if algorithm.factor:
        factor = parameters[algorithm.factor]
        if factor.standard_error > abs(factor.mean):
            texts[algorithm.factor] = UNDETERMINED
    if algorithm.whole is not None:
        whole = algorithm.whole
        intervals[whole.name] = (min(possible), max(possible))
        parameters[whole.name] = Estimate(best, 0.0, len(model))
        texts[whole.name] = whole.words(best)
    numbers = ", ".join(f"{value.mean:.3g}" for value in parameters.values())
    name = f"{algorithm.name}({numbers})"
    title = algorithm.words.format(**texts)
    share = ratio(search.solve(best)[1] ** 2, search.model**2)
    fit = Fit(algorithm.name, name, title, parameters, intervals, share)
    contains = algorithm.contains
    if algorithm.limit and best == search.counts[-1]:
        contains = (*contains, algorithm.limit)
    return fit, _member(algorithm, fit, contains, examples.problem)


def _member(
    algorithm: Algorithm, fit: Fit, contains: tuple[str, ...], problem: Problem
) -> Baseline:
    """The algorithm with fitted parameters."""
    values = {name: value.mean for name, value in fit.parameters.items()}
    factor = values.pop(algorithm.factor, 1.0)

    def predict(prompts: Prompts | Examples) -> np.ndarray:
        known = prompts if isinstance(prompts, Examples) else Examples(prompts, problem)
        return factor * finite_answers(algorithm, known, values)

    return Baseline(
        fit.name,
        fit.title,
        predict,
        title=fit.title,
        parameters=algorithm.size,
        contains=contains,
        family=algorithm.name,
    )


def _union(ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Interval that has several inside."""
    return float(min(low for low, _ in ends)), float(max(high for _, high in ends))


def _ends(parameter: Parameter, free: float, half: float) -> tuple[float, float]:
    """Interval of a parameter from that of its coordinate."""
    if math.isfinite(half):
        return parameter.from_free(free - half), parameter.from_free(free + half)
    return {"log": (0.0, math.inf), "logit": (0.0, 1.0)}.get(parameter.scale, NOTHING)


def _stated(estimate: Estimate, ends: tuple[float, float], best: float | None) -> str:
    """A parameter in words, beside the best one for the problem where that is known."""
    vague = not math.isfinite(estimate.standard_error)
    text = f"about {estimate.mean:.2g}" if vague else measured(estimate)
    if best is None or vague:
        return text
    close = ends[0] <= best * (1 + ROUNDING) and best * (1 - ROUNDING) <= ends[1]
    return f"{text} ({'the best' if close else f'{estimate.mean / best:.3g} times the best'})"


@dataclass(frozen=True)
class _Judged:
    """A fit, its member, and the squares (n,) that it leaves on prompts it was not fitted to."""

    fit: Fit
    member: Baseline
    squares: np.ndarray


def fit_families(
    algorithms: Iterable[Algorithm], section: Section, model: np.ndarray, tolerance: float
) -> tuple[list[Fit], list[Baseline]]:
    """Fit algorithms to the answers of a model.

    Parameters
    ----------
    algorithms : iterable of Algorithm
        Those whose parameters are fitted.
    section : Section
        The prompts, of which the first `fit_size` are fitted to.
    model : array (n,)
        Answers of the model.
    tolerance : float
        Share of their mean square that may be left unexplained.

    Returns
    -------
    list of Fit
        The algorithms with their parameters, in the order of what they leave unexplained.
    list of Baseline
        Of these the nearest one and those that may be within the tolerance.  One that contains
        another within the tolerance counts if it is significantly nearer.
    """
    used = fit_size(section.problem, len(model))
    last = min(used + JUDGED * used, len(model))
    prompts = concatenate_fields(replace(section, drawn=last).blocks())
    first = Examples(prompts[:used], section.problem)
    later = Examples(prompts[used:], section.problem)
    judged = list[_Judged]()
    square = model[used:last] ** 2
    # Answers that are nothing beside the labels would overflow when they are divided by.
    if np.mean(model**2) > LEAST_SQUARE * np.mean(prompts.labels**2):
        for algorithm in algorithms:
            fit, member = fit_family(algorithm, first, model[:used])
            squares = (model[used:last] - member.predict(later)) ** 2
            fit = replace(fit, unexplained=ratio(squares, square))
            judged.append(_Judged(fit, member, squares))
    judged.sort(key=lambda entry: entry.fit.unexplained.mean)
    rounding = ROUNDING**2 * float(np.mean(square))
    return [entry.fit for entry in judged], _near(judged, rounding, tolerance)


def _near(judged: Sequence[_Judged], rounding: float, tolerance: float) -> list[Baseline]:
    """The nearest member, and others that may be within the tolerance and are no simpler one."""
    limit = quantile(len(judged))
    within = {
        entry.fit.family: entry.squares
        for entry in judged
        if entry.fit.unexplained.mean + limit * entry.fit.unexplained.standard_error < tolerance
    }
    near = list[Baseline]()
    for entry in judged:
        share = entry.fit.unexplained
        simpler = [within[name] for name in entry.member.contains if name in within]
        new = all(
            squares is entry.squares or larger(squares, entry.squares, limit, rounding)
            for squares in simpler
        )
        if new and (not near or share.mean - limit * share.standard_error < tolerance):
            near.append(entry.member)
    return near
