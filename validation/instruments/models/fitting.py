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

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.sampling import concatenate_fields
from iclimit.statistics import z_threshold
from iclimit.validation.instruments.models.baselines import Baseline
from iclimit.validation.instruments.models.families import Examples, Family, Parameter
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


def finite_answers(family: Family, examples: Examples, values: Mapping[str, float]) -> np.ndarray:
    """Answers of a member of a family, where it overflows with a finite size."""
    with np.errstate(all="ignore"):
        answers = family.answer(examples, **values)
    return np.clip(np.nan_to_num(answers, nan=LARGEST), -LARGEST, LARGEST)


@dataclass
class _Search:
    """Least squares of the answers of one family."""

    family: Family
    examples: Examples
    model: np.ndarray

    def __post_init__(self) -> None:
        self.few = Examples(self.examples.prompts[:FIRST])
        self.weight = bounded_weights(self.model)
        bounded = self.weight * self.model
        self.size = math.sqrt(float(np.mean(bounded**2)))
        self.model = bounded / self.size
        self.solved: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def answers(self, examples: Examples, count: int, free: np.ndarray) -> np.ndarray:
        """Answers without the factor, at coordinates of the search."""
        values = {
            name: parameter.from_free(x)
            for (name, parameter), x in zip(self.family.parameters.items(), free, strict=True)
        }
        if self.family.count:
            values[self.family.count] = count
        answers = finite_answers(self.family, examples, values)
        return self.weight[: len(examples)] * answers / self.size

    def residual(self, free: np.ndarray, count: int, examples: Examples) -> np.ndarray:
        """What is left of the answers of the model with the best factor."""
        model = self.model[: len(examples)]
        answers = self.answers(examples, count, free)
        return model - self.factor(model, answers) * answers

    def factor(self, model: np.ndarray, answers: np.ndarray) -> float:
        """The best factor of the family, 1 where it has none."""
        size = float(np.mean(answers**2))
        return float(np.mean(model * answers)) / size if self.family.factor and size else 1.0

    def solve(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the best parameters with a whole number, and their residuals."""
        if count not in self.solved:
            parameters = self.family.parameters.values()
            values = itertools.product(
                *(map(parameter.to_free, parameter.start) for parameter in parameters)
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
            for parameter in self.family.parameters.values()
        ]
        return [low - 5 for low, _ in ends], [high + 5 for _, high in ends]

    def left(self, count: int) -> float:
        """Mean square of what is left."""
        return float(np.mean(self.solve(count)[1] ** 2))

    def best_count(self) -> int:
        """The best whole number: of those tried first, then of neighbours.

        Steps that diverge turn the sign of the answers each time: numbers of one parity are near.
        """
        best = min(self.family.counts, key=self.left)
        while self.family.count:
            least = self.family.counts[0]
            most = self.family.counts[-1]
            near = [best + by for by in (-2, -1, 1, 2) if least <= best + by <= most]
            better = min(near, key=self.left, default=best)
            if self.left(better) >= self.left(best):
                break
            best = better
        return best

    def derivatives(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Factor and coordinates of the best parameters, and derivatives of the answers (n, m)."""
        free, _ = self.solve(count)
        answers = self.answers(self.examples, count, free)
        factor = self.factor(self.model, answers)
        columns = [answers] if self.family.factor else []
        for step in STEP * np.eye(len(free)):
            sides = [self.answers(self.examples, count, free + move) for move in (step, -step)]
            columns.append(factor * (sides[0] - sides[1]) / (2 * STEP))
        whole = np.concatenate([[factor] if self.family.factor else [], free])
        return whole, np.reshape(columns, (len(columns), -1)).T


def fit_family(family: Family, examples: Examples, model: np.ndarray) -> tuple[Fit, Baseline]:
    """Fit a family to the answers of a model, and make an algorithm of the best member.

    Parameters
    ----------
    family : Family
        The family.
    examples : Examples
        Prompts.
    model : array (n,)
        Answers of the model to them.
    """
    search = _Search(family, examples, model)
    best = search.best_count()
    _, least = search.solve(best)
    limit = quantile(len(search.solved))
    possible = [best] + [
        count
        for count, (_, left) in search.solved.items()
        if count != best and not larger(left**2, least**2, limit, ROUNDING**2)
    ]
    estimated = [_estimates(search, count) for count in possible]
    values = {name: estimate.mean for name, (estimate, _) in estimated[0].items()}
    parameters = {name: estimate for name, (estimate, _) in estimated[0].items()}
    ends = {name: np.array([estimates[name][1] for estimates in estimated]) for name in values}
    intervals = {
        name: (float(np.min(bounds[:, 0])), float(np.max(bounds[:, 1])))
        for name, bounds in ends.items()
    }
    texts = {
        name: _stated(parameters[name], intervals[name], family.best.get(name)) for name in values
    }
    if family.count:
        singular, many = family.counted
        values[family.count] = best
        intervals[family.count] = (min(possible), max(possible))
        parameters[family.count] = Estimate(best, 0.0, len(model))
        texts[family.count] = singular if best == 1 else many.format(best)
    name = f"{family.name}({', '.join(f'{value:.3g}' for value in values.values())})"
    title = family.words.format(**texts)
    factor = values.pop(family.factor, 1.0)

    def predict(prompts: Prompts | Examples) -> np.ndarray:
        known = prompts if isinstance(prompts, Examples) else Examples(prompts)
        return factor * finite_answers(family, known, values)

    contains = tuple(family.contains)
    if best == family.counts[-1]:
        contains = (*contains, family.limit)
    baseline = Baseline(name, title, predict, None, title, family.size, contains)
    share = ratio(least**2, search.model**2)
    return Fit(family.name, name, title, parameters, intervals, share), baseline


def _estimates(search: _Search, count: int) -> dict[str, tuple[Estimate, tuple[float, float]]]:
    """Parameters with a whole number, with their standard errors and intervals."""
    family = search.family
    estimates = {}
    names = list(family.parameters)
    if family.factor:
        names.insert(0, family.factor)
    if not names:
        return {}
    free, derivatives = search.derivatives(count)
    _, residual = search.solve(count)
    lengths = np.linalg.norm(derivatives, axis=0)
    scaled = derivatives / np.where(lengths > 0, lengths, 1.0)
    _, covariance = best_weights(residual, scaled)
    errors = np.sqrt(np.diag(covariance)) / np.where(lengths > 0, lengths, 1.0)
    limit = z_threshold(len(names), 1 - COVERAGE)
    for name, x, error, length in zip(names, free, errors, lengths, strict=True):
        if name == family.factor:
            mean = x
            ends = (x - limit * error, x + limit * error)
            slope = 1.0
        else:
            parameter = family.parameters[name]
            mean = parameter.from_free(x)
            slope = (parameter.from_free(x + STEP) - parameter.from_free(x - STEP)) / (2 * STEP)
            vague = length < ROUNDING * math.sqrt(len(residual)) or limit * error > VAGUE
            error = math.inf if vague else error
            ends = _ends(parameter, x, limit * error)
        # What is below rounding of float64 is none.
        error = abs(slope) * error if abs(slope) * error > FLOAT64 * abs(mean) else 0.0
        estimates[name] = Estimate(float(f"{mean:.12g}"), error, len(residual)), ends
    return estimates


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


def fit_families(
    rows: Iterable[Family], section: Section, model: np.ndarray, tolerance: float
) -> tuple[list[Fit], list[Baseline]]:
    """Fit families to the answers of a model.

    Parameters
    ----------
    rows : iterable of Family
        The families.
    section : Section
        The prompts, of which the first `fit_size` are fitted to.
    model : array (n,)
        Answers of the model.
    tolerance : float
        Share of their mean square that may be left unexplained.

    Returns
    -------
    list of Fit
        The families with their parameters, in the order of what they leave unexplained.
    list of Baseline
        Of their members, as algorithms, the nearest one and those that may be within the
        tolerance.  A member of a family that contains another one within the tolerance counts if
        it is significantly nearer.
    """
    used = fit_size(section.problem, len(model))
    last = min(used + JUDGED * used, len(model))
    prompts = concatenate_fields(replace(section, drawn=last).blocks())
    first = Examples(prompts[:used])
    later = Examples(prompts[used:])
    fitted = list[tuple[Fit, Baseline, np.ndarray]]()
    square = model[used:last] ** 2
    # Answers that are nothing beside the labels would overflow when they are divided by.
    for family in rows if np.mean(model**2) > LEAST_SQUARE * np.mean(prompts.labels**2) else ():
        fit, member = fit_family(family, first, model[:used])
        residual = (model[used:last] - member.predict(later)) ** 2
        fitted.append((replace(fit, unexplained=ratio(residual, square)), member, residual))
    fitted.sort(key=lambda entry: entry[0].unexplained.mean)
    near = list[Baseline]()
    limit = quantile(len(fitted))
    within = {
        fit.family: residual
        for fit, _, residual in fitted
        if fit.unexplained.mean + limit * fit.unexplained.standard_error < tolerance
    }
    for fit, member, residual in fitted:
        share = fit.unexplained
        simpler = [within[name] for name in member.contains if name in within]
        rounding = ROUNDING**2 * float(np.mean(square))
        new = all(
            other is residual or larger(other, residual, limit, rounding) for other in simpler
        )
        if new and (not near or share.mean - limit * share.standard_error < tolerance):
            near.append(member)
    return [fit for fit, _, _ in fitted], near
