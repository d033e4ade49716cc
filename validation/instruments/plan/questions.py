r"""Questions about runs, as contrasts of what two theories predict, and what repeats tell of them.

A question turns the points that are run, and a second theory, into the contrast of their errors
that answers it (`Design`).

A contrast c is a combination of measured errors, such as the difference of two.  With R repeats
its standard error is :math:`s = \sqrt{V/R + F}`: V is the variance of one repeat, F that of the
predicted mean.  Predictions at finite size may be off by u, in any direction.

* *Two theories* predict values of c that differ by :math:`\delta`.  The wrong one is excluded if
  :math:`|c - c_0| > z s_0 + u`, at a significance of z standard errors, so the power is

  .. math:: \Phi\Bigl(\frac{|\delta| - u - z s_0}{s_1}\Bigr),

  the smaller of the two values that either theory gives as the true one.
* *Precision* :math:`\delta`: the probability that the mean is that close to what is measured is
  :math:`2\Phi((\delta - u)/s) - 1`.
"""

import inspect
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri

from iclimit.checks import check_choice
from iclimit.experiment import Experiment, Point
from iclimit.validation.instruments.least_squares import Precision
from iclimit.validation.instruments.plan.points import (
    RATIOS,
    TESTS,
    NotProposed,
    PlannedRun,
    Planner,
    Setting,
    check_ratio,
    run_at,
)
from iclimit.validation.instruments.runs.fitting import forecaster
from iclimit.validation.instruments.runs.measured import ESTIMATORS
from iclimit.validation.instruments.runs.predictions import Prediction, predict

# Repeats for which degeneracies are stated.
MANY = 100

# Errors of single runs are skewed if their standard deviation is a larger share of the mean.
SKEWED = 0.1

# Warning for skewed errors.
SCATTER = (
    "single runs scatter by more than a tenth of the error: judge means of ten or more, or "
    "logarithms."
)
SKEWED_NOTE = f"Where skewed says yes, {SCATTER}"

# More repeats than this are never proposed.
MOST_REPEATS = 10**9

# Part of the largest mean below which a bend is rounding.
ROUNDING = 1e-12

# A second theory: parameters that differ, another setting, a Bayes estimator, or a function of the
# parameters.
Against = Mapping[str, float] | Setting | str | Callable[..., float]

# From the repeats to the standard errors if the first or the second theory is true.
Errors = Callable[[float], tuple[float, float]]


def scatter(variances: tuple[float, float], floor: float = 0.0) -> Errors:
    """Standard errors for these variances of a repeat, and that of the predicted mean."""

    def errors(repeats: float) -> tuple[float, float]:
        first, second = variances
        return math.sqrt(first / repeats + floor), math.sqrt(second / repeats + floor)

    return errors


@dataclass(frozen=True)
class Contrast:
    r"""A combination of measured errors, and what it should tell (module docstring).

    Attributes
    ----------
    change : float
        What is to be noticed, :math:`|\delta|`, or the precision.
    doubt : float
        Largest systematic error of the prediction, u.
    errors : callable
        From the repeats to the standard errors if the first or the second theory is true.
    interval : bool
        Whether it is a precision.
    """

    change: float
    doubt: float
    errors: Errors
    interval: bool = False

    def power(self, repeats: float, significance: float) -> float:
        """Probability of the right answer with so many repeats."""
        first, second = self.errors(repeats)
        room = self.change - self.doubt
        if self.interval:
            return max(2 * float(ndtr(room / first)) - 1, 0.0)
        pairs = ((first, second), (second, first))
        return min(float(ndtr((room - significance * s0) / s1)) for s1, s0 in pairs)

    def significance(self, repeats: float, power: float) -> float:
        """Standard errors at which the wrong theory is excluded with this probability."""
        first, second = self.errors(repeats)
        room = self.change - self.doubt
        z = float(ndtri(power))
        return min((room - z * s1) / s0 for s1, s0 in ((first, second), (second, first)))

    def least_repeats(self, significance: float, power: float) -> int | None:
        """Fewest repeats with this power; None if no number of repeats has it."""
        repeats = 1 + bisect_left(
            range(1, MOST_REPEATS), True, key=lambda n: self.power(n, significance) >= power
        )
        return repeats if repeats < MOST_REPEATS else None


@dataclass(frozen=True)
class Design:
    """Runs that answer a question at a dimension.

    Attributes
    ----------
    points : sequence of Point
        Settings that are run, all of them equally often.
    others : callable
        From the effect to what is to be told from the predicted means.
    contrast : callable
        From the effect to the contrast.  Where theory fixes the effect, it plays no part.
    forecast : callable, optional
        From the repeats to what a fit will resolve.
    notes : sequence of str
        What the runs cannot tell.
    """

    points: Sequence[PlannedRun]
    others: Callable[[Any], Sequence[float]]
    contrast: Callable[[Any], Contrast]
    forecast: Callable[[float], Precision] | None = None
    notes: Sequence[str] = ()

    @property
    def paired(self) -> bool:
        """Whether several tests are made of the same runs."""
        return same_runs(self.points)

    @property
    def runs(self) -> int:
        """Runs of one repeat."""
        return 1 if self.paired else len(self.points)

    @property
    def cost(self) -> float:
        """Cost of one repeat."""
        return sum(point.cost for point in self.points[: self.runs])

    @property
    def skewed(self) -> bool:
        """Whether errors of single runs are skewed."""
        return max(point.relative_spread for point in self.points) > SKEWED

    @property
    def heavy(self) -> int:
        """Runs from which on their mean is nearly normal, where their law has a heavy tail."""
        return max(point.fewest for point in self.points)


def same_runs(points: Sequence[PlannedRun]) -> bool:
    """Whether points are tests of the same runs."""
    return len({point.run.experiment.with_(test=None) for point in points}) == 1


def precision(points: Sequence[PlannedRun]) -> Design:
    """Measure an error to a relative precision."""
    (point,) = points
    variances = point.variance, point.variance

    def contrast(effect: float) -> Contrast:
        change = effect * abs(point.mean)
        return Contrast(change, point.doubt, scatter(variances, point.floor), interval=True)

    return Design(points, lambda effect: [point.mean * (1 + effect)], contrast)


def difference(planner: Planner, points: Sequence[PlannedRun]) -> Design:
    """Tell the errors of two settings from each other; of a single one, a gap from zero."""
    means = [point.mean for point in points]
    others = means[::-1] if len(means) > 1 else [0.0]
    doubt = sum(point.doubt for point in points)
    variance = sum(point.variance for point in points)
    floor = sum(point.floor for point in points)
    change = abs(means[0] - others[0])
    if len(points) > 1 and same_runs(points):  # predictions are multiples of the same one
        floor = points[0].floor * (change / means[0]) ** 2
        variance = planner.paired_variance(points)
    contrast = Contrast(change, doubt, scatter((variance, variance), floor))
    return Design(points, lambda _: others, lambda _: contrast)


def theories(
    planner: Planner, points: Sequence[PlannedRun], against: Setting | str | Callable[..., float]
) -> Design:
    """Tell two theories of the same runs from each other."""
    (point,) = points
    if isinstance(against, Point | Experiment):
        rival = planner.at(run_at(against, point.run.sizes["dim"]))
    elif isinstance(against, str):
        rival = point.under(predict(point.run.at({"estimator": against}), planner.theory))
    else:
        rival = point.under(own_prediction(against, point))
    change = abs(point.mean - rival.mean)
    doubt = point.doubt + rival.doubt
    variances = (point.variance, rival.variance)
    floor = point.floor + rival.floor
    contrast = Contrast(change, doubt, scatter(variances, floor))
    return Design(points, lambda _: [rival.mean], lambda _: contrast)


def own_prediction(function: Callable[..., float], point: PlannedRun) -> Prediction:
    """Prediction of a function of ratios and sizes.

    One that takes no size is a limit: it may be off by as much as that of linear attention is.
    """
    given = {**point.ratios, **point.run.sizes}
    named = inspect.signature(function).parameters.values()
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in named):
        taken = [
            parameter.name
            for parameter in named
            if parameter.default is parameter.empty or parameter.name in given
        ]
        if unknown := [name for name in taken if name not in given]:
            raise ValueError(
                f"against may take {', '.join(given)}, got a function of {unknown[0]}"
            )
        given = {name: given[name] for name in taken}
    value = float(function(**given))
    if not math.isfinite(value):
        raise ValueError(f"against must return a finite number, got {value!r}")
    means = point.prediction.mean.copy()
    place = int(point.quantity == "idg")
    means[place] = value + means[1] if point.quantity == "gap" else value
    doubts = np.zeros((2, 2))
    if not point.run.sizes.keys() & given.keys():
        doubts[place, place] = abs(value * (point.mean / float(point.limit({})) - 1)) / 2
    return Prediction(means, doubts=doubts)


def transition(points: Sequence[PlannedRun], along: str) -> Design:
    """Tell a curve from the same curve, shifted along a parameter by a relative effect.

    The contrast has the weights of a matched filter: differences over variances.  Between the
    points, ratios of predictions to the limit are interpolated.
    """
    first = points[0]
    x = _places(points, along)
    means = np.array([point.mean for point in points])
    variances = np.array([point.variance for point in points])
    floors = np.array([point.floor for point in points])
    doubts = np.array([point.doubt for point in points])
    ratio = PchipInterpolator(np.log(x), means / first.limit({along: x}))

    def shifted(effect: float) -> np.ndarray:
        moved = x * (1 + effect)
        limits = first.limit({along: moved})
        return np.asarray(limits * ratio(np.log(np.clip(moved, x[0], x[-1]))))

    def contrast(effect: float) -> Contrast:
        changes = shifted(effect) - means
        weights = changes / variances
        change = float(weights @ changes)
        doubt = float(abs(weights) @ doubts)
        variance = float(weights**2 @ variances)
        floor = float(weights**2 @ floors)
        return Contrast(change, doubt, scatter((variance, variance), floor))

    return Design(points, lambda effect: shifted(effect).tolist(), contrast)


def bend(points: Sequence[PlannedRun], along: str) -> Design:
    r"""Tell a curve from the same curve without its bend, a straight line in the logarithm.

    The line is the one that is closest to the curve, in standard deviations of a run.  The weights
    are the distances over the variances, so that no straight line changes the contrast; they are
    scaled such that it is the largest distance.
    """
    x = _places(points, along)
    means = np.array([point.mean for point in points])
    variances = np.array([point.variance for point in points])
    slope, height = np.polyfit(np.log(x), means, 1, w=variances**-0.5)
    line = height + slope * np.log(x)
    distances = means - line
    weights = distances / variances
    change = float(np.max(np.abs(distances)))
    if change <= ROUNDING * np.max(np.abs(means)):
        raise NotProposed(f"theory has no bend along {along} there")
    weights *= change / float(weights @ distances)
    variance = float(weights**2 @ variances)
    floor = float(weights**2 @ [point.floor for point in points])
    doubt = float(abs(weights) @ [point.doubt for point in points])
    contrast = Contrast(change, doubt, scatter((variance, variance), floor))
    return Design(points, lambda _: line.tolist(), lambda _: contrast)


def _places(points: Sequence[PlannedRun], along: str) -> np.ndarray:
    """Values of the parameter of a sweep."""
    x = np.array([point.ratios[along] for point in points])
    if np.any(np.diff(x) <= 0):
        raise NotProposed(f"values of {along} are not told apart by integers")
    return x


def forecast(planner: Planner, points: Sequence[PlannedRun], free: Sequence[str]) -> Design:
    """Fit parameters, the worst of them to a relative standard error."""
    runs = [point.run for point in points]
    at = forecaster(runs, free, planner.theory, measured=[planner.quantity])

    def errors(repeats: float) -> tuple[float, float]:
        worst = max(at(repeats).standard_errors.values())
        return worst, worst

    def contrast(effect: float) -> Contrast:
        return Contrast(effect, 0.0, errors, interval=True)

    return Design(points, lambda _: [], contrast, at, at(MANY).degeneracies)


@dataclass(frozen=True)
class Terms:
    """What a question is about.

    Attributes
    ----------
    settings : sequence of Point or Experiment
        What is run.
    along : str
        Parameter that has several values in these, if it is one.
    second : Point, Experiment, str, callable or None
        Second setting or theory; a setting that is run is one of the settings, too.
    free : sequence of str
        Parameters that a fit will leave free.
    """

    settings: Sequence[Setting]
    along: str
    second: Any
    free: Sequence[str]


# Which parameters have several values: none, that of a sweep, or any, one for each planned run.
NO_SWEEP = "no parameter"
SWEEP = "exactly one parameter"
LISTS = "any parameter"


@dataclass(frozen=True)
class Question:
    """What can be asked about runs.

    Attributes
    ----------
    design : callable
        From a planner, what is expected at a dimension, and the terms, to the design there.
    promise : str
        What the runs do, with braces for the runs, the ending of the verb, the effect, the
        significance and the parameter of a sweep.
    one, other : str
        What the runs should show, and what they exclude, in the legend, with braces for the
        effect, the parameter of a sweep, and what is stated of the second setting or theory.
    takes_effect : bool
        Whether the effect is stated; otherwise theory fixes it.
    interval : bool
        Whether it is a precision, without significance.
    takes_second, runs_second : bool
        Whether it has a second setting or theory, and whether that is run, too.
    takes_free : bool
        Whether it is about a fit with free parameters.
    swept : str
        Which parameters have several values.
    """

    design: Callable[[Planner, Sequence[PlannedRun], Terms], Design]
    promise: str
    one: str = "theory"
    other: str = ""
    takes_effect: bool = False
    interval: bool = False
    takes_second: bool = False
    runs_second: bool = False
    takes_free: bool = False
    swept: str = NO_SWEEP


# Questions of `plan_runs`.
QUESTIONS = {
    "precision": Question(
        lambda _, points, __: precision(points),
        "{runs} measure{s} the limit to {effect}",
        other="allowed deviation: {effect}",
        takes_effect=True,
        interval=True,
    ),
    "difference": Question(
        lambda planner, points, _: difference(planner, points),
        "{runs} separate{s} these errors ({effect} apart){z}",
        "as stated",
        "{against}",
        takes_second=True,
        runs_second=True,
    ),
    "theories": Question(
        lambda planner, points, terms: theories(planner, points, terms.second),
        "{runs} separate{s} these theories ({effect} apart){z}",
        "linear attention",
        "{against}",
        takes_second=True,
    ),
    "transition": Question(
        lambda _, points, terms: transition(points, terms.along),
        "With {runs}, a {effect} shift along {along} is found{z}",
        other="the same, shifted by {effect} along {along}",
        takes_effect=True,
        swept=SWEEP,
    ),
    "bend": Question(
        lambda _, points, terms: bend(points, terms.along),
        "{runs} tell{s} the curve along {along} from a straight line in its logarithm, "
        "which it leaves by up to {effect} of its first error,{z}",
        other="straight line in ln {along}",
        swept=SWEEP,
    ),
    "forecast": Question(
        lambda planner, points, terms: forecast(planner, points, terms.free),
        "{runs} fix{s} every parameter to {effect}",
        takes_effect=True,
        interval=True,
        takes_free=True,
        swept=LISTS,
    ),
}


def second_of(question: str, against: Any, setting: Setting, quantity: str) -> Any:
    """The second setting or theory, if the question takes it.

    Raises
    ------
    ValueError
        If it does not, or needs another.
    """
    if not QUESTIONS[question].takes_second:
        allowed = "left out"
        fits = against is None
    elif isinstance(against, Point | Experiment):
        return against
    elif isinstance(against, Mapping):
        return changed(setting, against)
    elif QUESTIONS[question].runs_second:
        allowed = "parameters that differ, or left out for the gap"
        fits = against is None and quantity == "gap"
    else:
        allowed = "parameters that differ, dmmse, ridge or a function"
        fits = callable(against)
        if isinstance(against, str):
            check_choice("against", against, ESTIMATORS[1:])
            numbers = setting.limit
            fits = numbers["rho"] > 0 and not any(name in numbers for name in TESTS)
            allowed = "used with rho > 0 and the tests of the training"
    if not fits:
        raise ValueError(f"against must be {allowed} for {question}, got {against!r}")
    return against


def changed(setting: Setting, numbers: Mapping[str, float]) -> Setting:
    """The setting with other numbers.

    Raises
    ------
    ValueError
        If a name is unknown, a number outside its range, or the setting is a run of integers.
    """
    for name, value in numbers.items():
        check_choice("against", name, RATIOS)
        check_ratio(name, value)
    if isinstance(setting, Experiment):
        raise ValueError("against must be another Experiment for one, got parameters that differ")
    changes: dict[str, Any] = dict(numbers)
    return replace(setting, **changes)
