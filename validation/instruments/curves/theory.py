r"""Theory of a training curve: plateaus, times and durations of drops, and how well it knows them.

**Times.**  Initial weights are random, so the time of a drop has a law over runs.  For merged
attention it follows from the law of the effective scale (`effective_init_scale_moments`).  For
separate attention random starts are drawn, and `separate_attention_staircase` predicts the drops
of each.  Where the initial weights are given, there is no such law.

**Durations** from a quarter to three quarters of a drop do not depend on the start, only on the
unit of time.

**Errors of the theory.**  Times have a relative error of the order of the initial weights.  Steps
that grow the weights by a part h delay them by a relative h/2.  A finite training set changes
losses and rates.

**Finite training sets.**  With P sequences the loss at a plateau and the growth rate before a drop
are means over P sequences, so that they have relative standard deviations of the order
:math:`P^{-1/2}`.  These are found from small training sets drawn at random.  The final training
loss is lower by about a/P, where a is the sandwich of least squares, :math:`E r^2 f^\top E[f
f^\top]^{-1} f` with features f and residual r.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import polygamma

from iclimit.asymptotics import dynamics
from iclimit.asymptotics.dynamics.staircase import HALF
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics import AttentionModel, initial_weights
from iclimit.simulate.dynamics.feature_moments import feature_count
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.training_sets import draw_training_set
from iclimit.validation.instruments.curves.features import QUARTERS
from iclimit.validation.instruments.curves.setting import (
    CurveSetting,
    feature_correlations,
    first_growth_rate,
)

# Training sets that are drawn: their standard deviations are right to 8 %.
SETS = 80

# Least number of sequences in each of them.
SET_SIZE = 300

# Most coordinates of inputs that are drawn for them; longer contexts are cut.
MOST_DRAWN = 10**8

# Contexts up to this one are never cut: what varies over training sets then hardly depends on the
# context (with D = 3 spreads at 100 and 1000 pairs are equal within their 8 %).
LONG_CONTEXT = 100

# Parameters of the fluctuations over training sets, beside the eigenvalues.
FLUCTUATING = (
    *("model", "context", "heads", "rank", "noise_variance", "fresh_fraction", "shared_task"),
    "standardize",
)


@dataclass(frozen=True, eq=False)
class Fluctuations:
    """Relative standard deviations over training sets, and the bias of the final loss.

    Attributes
    ----------
    losses : ndarray (drops + 1,)
        Of the loss at the start, at the plateaus and at the end.
    rates : ndarray (drops,)
        Of the growth rate before each drop.
    bias : float
        How far the final training loss can be below its limit, relative.
    correlations : ndarray (2 drops + 1, 2 drops + 1)
        Of the losses and then the rates.
    """

    losses: np.ndarray
    rates: np.ndarray
    bias: float
    correlations: np.ndarray


def find_fluctuations(setting: CurveSetting) -> Fluctuations:
    """Find what a training set of the size of the setting changes."""
    if math.isinf(setting.training_set):
        count = len(setting.learned)
        return Fluctuations(np.zeros(count), np.zeros(count - 1), 0.0, np.eye(2 * count - 1))
    lam = setting.eigenvalues if setting.mixed else setting.law["eigenvalues"]
    stated = {name: getattr(setting, name) for name in FLUCTUATING}
    size = max(SET_SIZE, 4 * len(lam))
    longest = max(LONG_CONTEXT, MOST_DRAWN // (SETS * size * len(lam)))
    stated["context"] = min(stated["context"], longest)
    small = _small_sets(CurveSetting(eigenvalues=lam, init_scale=1.0, **stated))
    shrink = math.sqrt(size / setting.training_set)
    bias = small.bias / setting.training_set
    return Fluctuations(shrink * small.losses, shrink * small.rates, bias, small.correlations)


@lru_cache(maxsize=32)
def _small_sets(setting: CurveSetting) -> Fluctuations:
    """What small sets change, with the bias times P."""
    dim = len(setting.eigenvalues)
    numpy = get_backend("numpy")
    generator = np.random.default_rng(0)
    size = max(SET_SIZE, 4 * dim)
    standardize = setting.standardize
    sets = [
        _of_set(
            setting,
            draw_training_set(setting.problem, numpy, generator, size, standardize=standardize),
        )
        for _ in range(SETS)
    ]
    losses = [loss for loss, _, _ in sets]
    rates = [rate for _, rate, _ in sets]
    biases = [bias for _, _, bias in sets]
    # All layers but the narrow one also fit the moments of inputs and of labels.
    more = 1 if setting.model == "cubic" else feature_count(dim) / dim**2
    return Fluctuations(
        losses=_relative_spread(losses),
        rates=_relative_spread(rates),
        bias=more * float(np.mean(biases)),
        correlations=np.corrcoef(np.hstack([losses, rates]), rowvar=False),
    )


def _of_set(setting: CurveSetting, drawn: Prompts) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses at the plateaus, growth rates and the bias times P of a training set."""
    problem = setting.problem
    lam = np.diag(problem.covariance_of_inputs)
    cross = feature_correlations(problem)
    inverse = np.linalg.inv(
        cross + (cross + problem.label_square * np.diag(lam)) / setting.context
    )
    beta = np.mean(drawn.labels[..., None] * drawn.inputs, axis=1)
    label = drawn.query_label
    query = drawn.query
    # Residuals with the first directions learned, one column for each plateau.
    answers = (beta @ inverse @ cross / lam) * query
    learned = np.cumsum(np.pad(answers, ((0, 0), (1, 0))), axis=1)
    squares = (label[:, None] - learned[:, list(setting.learned)]) ** 2
    if setting.separate:
        rates = np.mean(label[:, None] * beta * query, axis=0)[: len(setting.learned) - 1]
    else:
        rates = np.mean(label * np.sum(beta @ cross * query, axis=1), keepdims=True)
    leverage = np.sum(beta @ inverse * beta, axis=1) * np.sum(query**2 / lam, axis=1)
    bias = float(np.mean(squares[:, -1] * leverage) / np.mean(squares[:, -1]))
    return np.mean(squares, axis=0), rates, bias


def _relative_spread(values: Sequence[Any]) -> np.ndarray:
    """Standard deviations over their first axis, relative to the means."""
    return np.std(values, axis=0, ddof=1) / np.abs(np.mean(values, axis=0))


# Relative tolerance of predicted waits, far below their spread over starts.
RTOL = 1e-5

# Initial weights for which the shape of the drop of merged attention does not depend on them.
TINY = 1e-8

# Below these initial weights the drop time is logarithmic in them to a relative 1e-6.
SMALL = 1e-3

# Initial weights of a run by name: value, and key_query or key and query.
Weights = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Starts:
    """What is known of initial weights.

    Attributes
    ----------
    weights : sequence of dict
        Those of each run; empty if they are not known, but random.
    draws, seed : int
        Random starts of separate attention from which their law is found, and their seed.
    """

    weights: Sequence[Weights]
    draws: int
    seed: int

    @property
    def known(self) -> bool:
        """Whether the weights are given."""
        return bool(self.weights)


@dataclass(frozen=True, eq=False)
class StartLaw:
    """Law over runs of the logarithms of the times at which half of each drop has happened.

    Attributes
    ----------
    mean : ndarray (drops,)
        Of one run.
    covariance : ndarray (drops, drops)
        Of one run; zero if the initial weights are given.
    third : ndarray (drops,)
        Third cumulant of one run.
    draws : float
        Random starts from which mean and covariance are found; infinite if they are known.
    """

    mean: np.ndarray
    covariance: np.ndarray
    third: np.ndarray
    draws: float = math.inf

    @property
    def variance(self) -> np.ndarray:
        """Variance of each drop, of one run."""
        return np.diag(self.covariance)


def merged_start(setting: CurveSetting, starts: Starts) -> StartLaw:
    """Law of merged attention, or the times of given initial weights."""
    if starts.known:
        scales = [
            float(
                dynamics.effective_init_scale(
                    setting.weight_factor * weights["value"],
                    key_query=setting.weight_factor * weights["key_query"],
                    eigenvalues=setting.eigenvalues,
                )
            )
            for weights in starts.weights
        ]
        logs = [math.log(_merged_time(setting, scale)) for scale in scales]
        return StartLaw(np.array([np.mean(logs)]), np.zeros((1, 1)), np.zeros(1))
    law = dynamics.effective_init_scale_moments(setting.heads)
    time = _merged_time(setting, setting.start * math.exp(law.mean))
    relative = float(law.std) / _merged_growth(setting) / time
    # The time is linear in the logarithm of the scale, which has the law of ln(chi-square)/2; the
    # logarithm of the time is less skewed.
    skewness = -float(polygamma(2, setting.heads / 2)) / (2 * float(law.std)) ** 3 - 3 * relative
    mean = np.array([math.log(time)])
    third = np.array([skewness * relative**3])
    return StartLaw(mean, np.array([[relative**2]]), third)


def separate_start(setting: CurveSetting, starts: Starts) -> StartLaw:
    """Law of separate attention from random starts, or the times of given initial weights."""
    count = len(setting.learned) - 1
    drops = _drop_times(setting, starts)[:, :count]
    if not np.all(drops > 0):
        raise _too_large(setting)
    logs = np.log(drops)
    third = np.zeros(count)
    mean = np.mean(logs, axis=0)
    if starts.known:
        return StartLaw(mean, np.zeros((count, count)), third)
    with np.errstate(invalid="ignore"):  # of drops that never happen
        covariance = np.cov(logs, rowvar=False).reshape(count, count)
    return StartLaw(mean, covariance, third, starts.draws)


def _drop_times(setting: CurveSetting, starts: Starts) -> np.ndarray:
    """Half-drop times (starts, directions) of separate attention."""
    lam = setting.eigenvalues
    top = max(setting.eigenvalues)
    context = setting.law["context"]
    noise_variance = setting.noise_variance
    sizes = None if setting.rank == 1 else (context, noise_variance)
    factor = setting.weight_factor if starts.known else setting.start / TINY
    # Of heads of rank one only escape times are random.  They are one over the scale and the
    # square of the eigenvalues, so that one set of starts serves many settings.
    scale, relative = (
        (factor, lam) if sizes else (1.0, tuple(eigenvalue / top for eigenvalue in lam))
    )
    if starts.known:
        times = [_staircase(relative, scale, weights, sizes) for weights in starts.weights]
    else:
        layer = setting.heads, setting.rank, setting.initialization
        times = _random_staircases(relative, scale, layer, starts.draws, starts.seed, sizes)
    if not sizes:
        values, heads = grown_heads(setting)
        growing = dynamics.time_from_pole(HALF ** (1 / 3) * values, **heads)
        times = [waits / factor / top**2 + growing for waits in times]
    return np.array(times)


def _too_large(setting: CurveSetting) -> ValueError:
    return ValueError(
        "init_scale must be so small that the weights grow before the loss drops, got "
        f"{setting.init_scale!r}"
    )


@lru_cache(maxsize=64)
def _random_staircases(
    eigenvalues: tuple[float, ...],
    factor: float,
    layer: tuple[int, int, str],
    draws: int,
    seed: int,
    sizes: tuple[float, float] | None,
) -> list[np.ndarray]:
    """Times of `_staircase` from random weights of the scale TINY."""
    heads, rank, initialization = layer
    model = AttentionModel("separate", len(eigenvalues), heads, rank)
    starts = (
        initial_weights(model, TINY, initialization, rng=seed, first_repeat=draw)
        for draw in range(draws)
    )
    named = (
        {"value": value[:, -1], "key": key[..., :-1], "query": query}
        for value, key, query in starts
    )
    return [_staircase(eigenvalues, factor, start, sizes) for start in named]


def _staircase(
    eigenvalues: tuple[float, ...],
    factor: float,
    start: Weights,
    sizes: tuple[float, float] | None,
) -> np.ndarray:
    """Half-drop times of weights times a factor, largest eigenvalues first; it takes 0.1 s.

    Without sizes (context and noise variance) the escape times.
    """
    context, noise_variance = sizes or (1, 0.0)
    steps = dynamics.separate_attention_staircase(
        factor * start["value"],
        key=factor * start["key"],
        query=factor * start["query"],
        rtol=RTOL,
        eigenvalues=eigenvalues,
        context=context,
        noise_variance=noise_variance,
    )
    return steps.drop_times if sizes else steps.times


def _merged_time(setting: CurveSetting, scale: float) -> float:
    """Time at which half of the drop of merged attention has happened."""
    law = setting.law
    if scale > SMALL:
        try:
            return merged_half_drop(scale, **law)
        except ValueError:
            raise _too_large(setting) from None
    # Small weights grow exponentially: another scale only shifts the curve.
    time = merged_half_drop(TINY, **law) - math.log(scale / TINY) / _merged_growth(setting)
    if not time > 0:
        raise _too_large(setting)
    return time


def _merged_growth(setting: CurveSetting) -> float:
    """Rate at which small weights of merged attention grow."""
    return float(np.linalg.norm(np.square(setting.law["eigenvalues"])))


@lru_cache(maxsize=512)
def merged_half_drop(scale: float, **law: Any) -> float:
    """Time at which half of the drop has happened, from balanced weights of this scale."""
    return dynamics.merged_curve_drop_time(0.5, init_scale=scale, **law)


def grown_heads(setting: CurveSetting) -> tuple[np.ndarray, dict[str, Any]]:
    """Final values of the heads that learn each direction, and arguments of their growth."""
    sizes = setting.law
    lam = np.array(sizes.pop("eigenvalues"))
    values = dynamics.plateau_head_values(lam, **sizes)
    return values, {"eigenvalue": lam, "trace": float(np.sum(lam)), **sizes}


# Relative standard error of the time at which the j-th head (from 0) learns, in units of j times
# the initial weights.  Measured against flows from random weights of 0.01 to 0.03 with D = 4 and
# 8: root mean squares between 0.3 and 3 of these units.
STAIRCASE_ERROR = 3.0

# Standard deviation of durations over training sets, in units of that of growth rates: the end of
# a drop fluctuates, too.  Measured for cubic features with 2000 and 5000 sequences: 1.49, 1.36.
DURATION_SPREAD = 1.5

# If weights grow by a larger part than this in a step, errors by its length grow as logarithms.
LONG_STEP = 1.0

# The shape of the drop of merged attention is tabulated with even steps from this many growth
# times before its half to as many after it.
SHAPE = 8.0

# From there on the steps grow, up to this many growth times: directions of small eigenvalue are
# learned late.
LONGEST_TAIL = 1e6


@dataclass(frozen=True, eq=False)
class CurveTheory:
    """What theory says of the curves of a setting.

    Attributes
    ----------
    setting : CurveSetting
        The setting.
    levels : ndarray (drops + 1,)
        Losses at the start, at the plateaus and at the end, as they are recorded.
    half_drops : ndarray (drops,)
        Steps at which half of a drop has happened, geometric mean over runs; infinite if it never
        does.
    durations : ndarray (drops,)
        Steps from a quarter to three quarters of a drop; NaN where theory has no sharp value.
    start : StartLaw
        Law of the logarithms of the times over runs.
    staircase_variance : ndarray (drops,)
        Of the error that the prediction itself has for these logarithms.
    growth : ndarray (drops,)
        Part by which weights grow in a step, or in a unit of time.
    delays : ndarray (2, drops)
        Relative errors of half-drop steps and durations because of steps of finite length.
    start_loss : float
        Standard deviation of the loss because initial weights are not zero.
    fluctuations : Fluctuations
        What a finite training set changes.
    """

    setting: CurveSetting
    levels: np.ndarray
    half_drops: np.ndarray
    durations: np.ndarray
    start: StartLaw
    staircase_variance: np.ndarray
    growth: np.ndarray
    delays: np.ndarray
    start_loss: float
    fluctuations: Fluctuations

    def remainder(self, steps: np.ndarray | float, drop: int = -1) -> np.ndarray:
        """Part of a drop that is ahead so many steps after half of it."""
        setting = self.setting
        if not setting.timed:
            return np.zeros(np.shape(steps))
        since = np.asarray(steps, dtype=float) * setting.step_time
        if setting.model != "separate":
            shape = _merged_shape(**setting.law)
            return np.clip(shape(np.clip(since, *shape.x[[0, -1]])), 0, 1)
        values, head = grown_heads(setting)
        at = range(len(self.half_drops))[drop]
        value = values[at]
        head["eigenvalue"] = head["eigenvalue"][at]
        pole = dynamics.time_from_pole(HALF ** (1 / 3) * value, **head)
        return (1 - (dynamics.head_growth(since + pole, **head) / value) ** 3) ** 2

    def loss(self, steps: np.ndarray) -> np.ndarray:
        """Loss of a run whose drops come at the geometric means of their steps."""
        drops = self.levels[:-1] - self.levels[1:]
        losses = np.full(np.shape(steps), self.levels[-1])
        for drop, (size, at) in enumerate(zip(drops, self.half_drops, strict=True)):
            ahead = self.remainder(np.asarray(steps) - at, drop) if math.isfinite(at) else 1.0
            losses = losses + size * ahead
        return losses


def predict_curve(
    setting: CurveSetting, starts: Starts, fluctuations: Fluctuations | None = None
) -> CurveTheory:
    """Predict plateaus and drops.

    Parameters
    ----------
    setting : CurveSetting
        The setting.
    starts : Starts
        What is known of the initial weights.
    fluctuations : Fluctuations, optional
        What a finite training set changes, if it is known.
    """
    if fluctuations is None:
        fluctuations = find_fluctuations(setting)
    count = len(setting.learned) - 1
    separate = setting.model == "separate"
    unknown = np.full(count, np.nan)
    zero = np.zeros(count)
    if setting.timed and separate:
        start = separate_start(setting, starts)
    elif setting.timed:
        start = merged_start(setting, starts)
    else:
        start = StartLaw(unknown, np.zeros((count, count)), zero)
    half_drops = np.exp(start.mean) / setting.step_time
    durations = unknown
    growth = zero
    delays: np.ndarray = np.zeros((2, count))
    variance: np.ndarray = zero
    if setting.timed:
        durations, growth = _durations(setting)
        delays = _delays(setting, half_drops * setting.step_unit, growth / setting.step_unit)
        variance = (STAIRCASE_ERROR * setting.start * (np.arange(count) // setting.rank)) ** 2
    elif setting.mixed and setting.optimizer == "gradient-descent":
        rate = first_growth_rate(setting.problem, setting.model)
        growth = setting.step_time * np.array([rate])
    return CurveTheory(
        setting,
        setting.levels,
        half_drops,
        durations / setting.step_time,
        start,
        variance,
        growth,
        delays,
        _start_loss(setting),
        fluctuations,
    )


def _delays(setting: CurveSetting, half_drops: np.ndarray, growth: np.ndarray) -> np.ndarray:
    """Relative errors (2, drops) of half-drops and durations by steps of finite length.

    In a step weights grow by the factor 1 + h and not exp(h), so that a large h delays them by no
    more than the factor h/ln(1 + h).
    """
    if setting.learning_rate is None:
        return np.zeros((2, len(growth)))
    # Weights that grow as 1/(t_0 - t) are delayed by the logarithm of their growth, in steps.
    wait = max(-math.log(setting.start), 1.0) / half_drops if setting.separate else growth / 2
    large = np.maximum(growth, LONG_STEP)
    half = np.minimum(wait, np.maximum(LONG_STEP / 2, np.log(large / np.log1p(large))))
    duration = np.minimum(growth, np.maximum(LONG_STEP, np.log1p(growth)))
    return np.stack([np.where(growth > LONG_STEP, half, wait), duration])


@lru_cache(maxsize=32)
def _merged_shape(
    eigenvalues: tuple[float, ...], context: float, noise_variance: float
) -> PchipInterpolator:
    """Part of the drop of merged attention that is ahead, by the time since half of it."""
    law: dict[str, Any] = {
        "eigenvalues": eigenvalues,
        "context": context,
        "noise_variance": noise_variance,
    }
    unit = 1 / float(np.linalg.norm(np.square(eigenvalues)))
    half = merged_half_drop(TINY, **law)
    times = unit * np.concatenate(
        [np.linspace(-SHAPE, SHAPE, 400), np.geomspace(SHAPE, LONGEST_TAIL, 200)[1:]]
    )
    losses = dynamics.merged_attention_curve(half + times, init_scale=TINY, **law)
    first, last = dynamics.plateau_losses(**law)[[0, -1]]
    return PchipInterpolator(times, (losses - last) / (first - last))


def _durations(setting: CurveSetting) -> tuple[np.ndarray, np.ndarray]:
    """Times from a quarter to three quarters of each drop, and the growth of weights in a step."""
    lam = np.array(setting.law["eigenvalues"])
    first, last = QUARTERS
    if setting.model != "separate":
        shape = _merged_shape(**setting.law)
        ends = float(shape.x[0]), float(shape.x[-1])
        begin = brentq(lambda t: shape(t) - 1 + first, *ends)
        end = brentq(lambda t: shape(t) - 1 + last, *ends)
        return np.array([end - begin]), setting.step_time * np.array([_merged_growth(setting)])
    count = len(setting.learned) - 1
    values, heads = grown_heads(setting)
    begin = dynamics.time_from_pole(_grown_part(first) * values, **heads)
    end = dynamics.time_from_pole(_grown_part(last) * values, **heads)
    # Other directions of a head of higher rank grow beside its first.
    durations = (end - begin if setting.rank == 1 else np.full(len(lam), np.nan))[:count]
    return durations, (setting.step_time * lam**2 * values)[:count]


def _grown_part(part: float) -> float:
    """Value of a head over its final one after this part of its drop."""
    return float((1 - np.sqrt(1 - part)) ** (1 / 3))


def _start_loss(setting: CurveSetting) -> float:
    r"""Standard deviation of the loss at random initial weights: that of 2 tr(Lambda^2 M)."""
    dim = len(setting.eigenvalues)
    heads = setting.heads
    rank = setting.rank
    scale = setting.start
    weight = math.sqrt(heads) * scale**2
    if setting.model == "separate":
        layer = heads if setting.initialization == "per-layer" else 1
        value = math.sqrt(heads) * (dim + 1) if setting.initialization == "per-layer" else 1
        weight *= scale / value / (layer * math.sqrt(rank) * (dim + 1))
    slope = 2 * setting.loss_unit * setting.loss_factor
    return slope * _merged_growth(setting) * weight
