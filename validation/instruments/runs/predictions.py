r"""What runs should show: the finite-size prediction at their integers.

A prediction task by task takes a tenth of a second at d = 100, one from mean moments a tenth of
that.  Both depend on the task set alike: their ratio varies ten times less than either.  So the
spread over task sets, and most of the mean, comes from many cheap predictions.  These are
multiplied by the mean ratio over a few sets.

These predictions are for Gaussian inputs.  For other inputs they are multiplied by the factors of
`iclimit.asymptotics.pretraining.input_law`, which are right to order 1/d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from iclimit.asymptotics.gdpp import ridge_risk
from iclimit.asymptotics.pretraining import predict as predicted_errors
from iclimit.asymptotics.pretraining.finite_flow_spread import predicted_flow_spread
from iclimit.asymptotics.pretraining.finite_size_spread import predicted_spread
from iclimit.asymptotics.pretraining.input_law import input_law_factors
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.errors import Errors
from iclimit.experiment import SGD, Experiment, Ridge
from iclimit.losses import LastPosition
from iclimit.problem import Problem
from iclimit.simulate.pretraining import sample, simulate_estimator
from iclimit.validation.instruments.runs.limits import linked_limit
from iclimit.validation.instruments.runs.measured import (
    ACCURACIES,
    ACCURACY,
    ATTENTION,
    MEASURED,
    SIZES,
    MeasuredRun,
    Setting,
    sizes_of_run,
)
from iclimit.validation.instruments.runs.positions import position_deviations, position_prediction

# Fewest and most task sets that are predicted task by task.
FULL_SETS = (2, 4)

# Limit of the number of these task sets times dimension squared, or times dimension and tasks.
FULL_SIZE = 10_000

# Fewest and most task sets of predictions from mean moments.
SETS = (10, 100)

# The same after a time of training, where each takes five times as long.
TRAINED_SETS = (10, 24)

# Limit of the number of these task sets times dimension squared.
SETS_SIZE = 100_000

# Fewest and most task sets of predictions that are only compared with each other.
PAIRED_SETS = (1, 1)

# Above this dimension the prediction comes from mean moments: task by task it takes minutes.
LARGEST_DIM = 256

# Largest dimension with a prediction: above it takes minutes and gigabytes.
MOST_DIM = 1500

# Most numbers in a task set with a prediction, for the same reason.
MOST_NUMBERS = 5_000_000

# Fewest and most simulated task sets of dMMSE.
ESTIMATOR_SETS = (20, 100)

# Limit of the number of these task sets times context and dimension, or times context and tasks.
ESTIMATOR_SIZE = 200_000

# Test prompts of each of these task sets.
ESTIMATOR_PROMPTS = 100

# Fewest and most simulated runs of a predicted accuracy, limit of their number times prompts and
# dimension, and largest dimension.
ACCURACY_RUNS = (10, 100)
ACCURACY_NUMBERS = 2_000_000
ACCURACY_DIM = 48

# Correlation of the prediction's errors of ICL and IDG, from the runs of
# ``benchmarks/finite_size.csv``: 0.67 over all that state less than 5 %.
SHARED_DOUBT = 0.7
_SHARING = np.linalg.cholesky([[1.0, SHARED_DOUBT], [SHARED_DOUBT, 1.0]])

# Task sets over which the predicted scatter of runs is averaged; it hardly differs between them.
SCATTER_SETS = 2

# Range of the central 68 % of a normal law of variance 1.
CENTRAL = 0.15865525393145707, 0.8413447460685429

# Share of the draws that are the tail of a law.
TAIL = 0.025

# Least logarithm of a probability: it must not underflow.
LEAST_LOG = -700.0

# Most runs whose mean is drawn; the law of a mean of more is narrower by the root of their ratio.
MOST_DRAWN = 300


@dataclass(frozen=True)
class Theory:
    """Options of the theory that runs are compared with.

    Attributes
    ----------
    task_law : {"sphere", "gaussian"}
        Law of the tasks.
    balanced : bool
        Whether all tasks have the same number of prompts.
    structure : Structure or None
        Spectra of tasks, tests and inputs.
    draws : int or None
        Task sets of a prediction, unless it is cheap; None: 10 to 100, the more the smaller the
        dimension.
    root : int
        Root of the random numbers.
    cheap : bool
        Whether predictions come from mean moments only, and runs with the same number of tasks
        get the same task sets, so that their predictions can be compared.
    excess_kurtosis : float
        Of the coordinates of the inputs; 0 for Gaussian ones.
    scattered : bool
        Whether the scatter of runs is predicted, which takes longer than the errors themselves.
    """

    task_law: str = "sphere"
    balanced: bool = False
    structure: Structure | None = None
    draws: int | None = None
    root: int = 0
    cheap: bool = False
    excess_kurtosis: float = 0.0
    scattered: bool = True

    def of(self, run: Experiment) -> Experiment:
        """A run with these laws of tasks, inputs and numbers of prompts."""
        law: dict[str, Any] = {"task_law": self.task_law}
        if self.structure is not None:
            law = self.structure.covariances(run.dim)
        return Experiment.of(**run.keywords() | law | {"balanced": self.balanced})


@dataclass(frozen=True)
class Prediction:
    """Predicted errors of a run.

    Attributes
    ----------
    mean : ndarray (2,)
        ICL and IDG error, means over the task sets; NaN where there is no prediction.
    covariance : ndarray (2, 2)
        Of these means.
    spread : ndarray (2, 2)
        Covariance of the errors over task sets.
    doubts : ndarray (2, 2)
        Loadings of the errors of the theory at finite size, whose covariance is their square:
        nearly all runs are within two standard deviations.
    degrees : float
        Degrees of freedom of covariance and spread.
    scatter : ndarray (2, 2)
        Covariance of the errors of a run over prompts, for one task set; not finite where it is
        not known.
    law : ndarray (runs, 2)
        Errors of drawn runs less the mean where their law has a heavy tail; otherwise empty.
    drawn : ndarray (runs, 2)
        The same of simulated runs, of all positions of a sequence; otherwise empty.
    """

    mean: np.ndarray
    covariance: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    spread: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    doubts: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    degrees: float = math.inf
    scatter: np.ndarray = field(default_factory=lambda: np.full((2, 2), math.inf))
    law: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    drawn: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))

    @classmethod
    def of(cls, errors: Errors, uncertainty: float | None = None) -> Prediction:
        """Return the prediction by these errors, with their relative uncertainty or another."""
        icl = errors.icl
        idg = errors.idg
        mean = np.array([icl.mean, idg.mean])
        count = len(icl.samples)
        if uncertainty is None:
            uncertainty = getattr(errors, "uncertainty", 0.0)
        if not np.all(np.isfinite(mean)):
            return cls(mean)
        doubts = mean[:, None] * _SHARING * uncertainty / 2
        if count < 2:
            return cls(mean, doubts=doubts)
        spread = np.cov([icl.samples, idg.samples])
        return cls(mean, spread / count, spread, doubts, count - 1.0)

    @property
    def finite(self) -> bool:
        """Whether there is a finite prediction of both errors."""
        return bool(np.all(np.isfinite(self.mean)))

    def value(self, name: str) -> float:
        """Predicted error of this name, or the gap; infinite or NaN where the errors are."""
        return float(np.dot(MEASURED[name], self.mean)) if self.finite else float(self.mean[0])

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Prediction:
        """Prediction of two functions of the errors, with errors to first order."""
        step = 1e-20
        with np.errstate(invalid="ignore"):
            slopes = [function(self.mean + 1j * step * unit).imag / step for unit in np.eye(2)]
            J = np.transpose(slopes)
            covariance = J @ self.covariance @ J.T
            spread = J @ self.spread @ J.T
            scatter = J @ self.scatter @ J.T
            doubts = J @ self.doubts
            mean = function(self.mean)
        at = mean, covariance, spread, doubts, self.degrees, scatter
        return Prediction(*at, law=self.law @ J.T, drawn=self.drawn @ J.T)

    def scaled(self, factors: np.ndarray) -> Prediction:
        """Prediction of multiples of the two errors."""
        return self.mapped(lambda errors: errors * factors)

    def doubted(self, uncertainty: np.ndarray) -> Prediction:
        """The prediction with more relative uncertainty (2,) of the theory."""
        own = 2 * np.linalg.norm(self.doubts, axis=1) / self.mean
        both = np.hypot(own, uncertainty)
        return replace(self, doubts=(self.mean * both)[:, None] * _SHARING / 2)

    @property
    def heavy(self) -> bool:
        """Whether the law of runs has a heavy tail."""
        return len(self.law) > 0

    def law_of_mean(self, weights: np.ndarray, runs: float) -> np.ndarray:
        """Deviations (draws, m) of means over runs, of combinations with weights (m, 2)."""
        single = self.law @ weights.T
        rng = np.random.default_rng(0)
        drawn = min(int(runs), MOST_DRAWN)
        if drawn <= 1:
            return np.asarray(single)
        total = sum(single[rng.integers(len(single), size=len(single))] for _ in range(drawn))
        return np.asarray(total / math.sqrt(drawn * runs))

    def covariance_of_mean(
        self, weights: np.ndarray, runs: float, *, one_set: bool = False
    ) -> np.ndarray:
        """Covariance of means over runs; of a heavy law, that of its central 68 %."""
        if not self.heavy:
            single = self.scatter + (0.0 if one_set else self.spread)
            with np.errstate(invalid="ignore"):
                return np.asarray(weights @ single @ weights.T / runs)
        drawn = self.law_of_mean(weights, runs)
        low, high = np.quantile(drawn, CENTRAL, axis=0)
        ranks = np.argsort(np.argsort(drawn, axis=0), axis=0)
        correlations = np.corrcoef(ranks.T).reshape(len(weights), -1)
        return np.asarray(correlations * np.outer(high - low, high - low) / 4)


def predict(run: MeasuredRun, theory: Theory) -> Prediction:
    """Predict the errors of a run at exactly its integers, and their scatter.

    Raises
    ------
    ValueError
        If there is no prediction at this setting.
    """
    try:
        return _prediction(run.setting, theory)
    except ValueError as error:
        raise ValueError(f"{run.label}: {error}") from None


@lru_cache(maxsize=10_000)
def _prediction(setting: Setting, theory: Theory) -> Prediction:
    """Predict the errors at a setting once: a table may have many rows of it, and explanations."""
    estimator, run, penalty = setting
    dim = run.dim
    tasks = run.problem.task_count
    size = dim * tasks if tasks < math.inf else 0
    if dim > MOST_DIM or size > MOST_NUMBERS:
        most = f"a dimension of {MOST_DIM} or task sets of {MOST_NUMBERS:,} numbers"
        raise ValueError(f"predictions go up to {most}")
    if estimator == ATTENTION:
        prediction = _attention_prediction(run, theory)
    elif estimator == ACCURACY:
        prediction = _accuracy_prediction(run, theory)
    else:
        prediction = _estimator_prediction(estimator, run, penalty, theory)
    if not (theory.excess_kurtosis and prediction.finite):
        return prediction
    return _with_input_law(prediction, estimator, run, theory)


def _with_input_law(
    prediction: Prediction, estimator: str, run: Experiment, theory: Theory
) -> Prediction:
    """Prediction for inputs that are not Gaussian, from that for Gaussian ones."""
    shift = theory.excess_kurtosis / run.dim
    plain = estimator == ATTENTION and theory.structure is None and run.test is None
    plain = plain and run.problem.has_linear_labels
    plain = plain and isinstance(run.loss, LastPosition)
    if not (plain and isinstance(run.training, Ridge)):
        return prediction.doubted(np.full(2, abs(shift)))
    # As everywhere in this room, the threshold is where that of the runs is.
    dim = run.dim
    limit = {name: run.limit[name] for name in ("alpha", "kappa", "rho", "ridge")}
    limit["tau"] = run.prompts / (dim * (dim + 1))
    factors = input_law_factors(dim=dim, **limit, excess_kurtosis=theory.excess_kurtosis)
    # With uniform inputs at d = 10 what is left is 1.3 % or less where prompts outnumber features,
    # after corrections of 4 to 8 %.  With half as many prompts as features it is 3.8 % after 2.9 %
    # for contexts of d pairs, and 1.2 % after 3.0 % for those of 2 d.
    doubt = abs(np.log(factors)) + shift**2
    return prediction.scaled(factors).doubted(doubt)


def _attention_prediction(run: Experiment, theory: Theory) -> Prediction:
    """Predict the errors of linear attention, and their scatter."""
    if not isinstance(run.loss, LastPosition):
        return _position_prediction(run, theory)
    prediction = _predicted_means(run, theory)
    unscattered = theory.cheap or not theory.scattered or isinstance(run.training, SGD)
    unscattered = unscattered or not run.problem.has_linear_labels
    if run.dim > LARGEST_DIM or unscattered or not prediction.finite:
        return prediction
    draws = 1 if run.problem.task_count == math.inf else SCATTER_SETS
    seed = _seed(theory, run, SIZES)
    try:
        if isinstance(run.training, Ridge):
            spread = predicted_spread(theory.of(run), rng=seed, draws=draws)
        else:
            means = prediction.mean
            spread = predicted_flow_spread(theory.of(run), means, rng=seed, draws=draws)
    except ArithmeticError:  # next to a threshold with hardly any ridge
        return prediction
    law = spread.deviations
    if spread.heavy:
        law = law * (prediction.mean / spread.mean)
    return replace(prediction, scatter=spread.prompts, law=law)


def _position_prediction(run: Experiment, theory: Theory) -> Prediction:
    """Predict the errors of a run at a position of its sequences, and simulate their scatter."""
    if theory.structure is not None:
        raise ValueError("runs on all positions are predicted for isotropic data")
    approach = "moments" if theory.cheap else "tasks"
    mean, uncertainty = position_prediction(theory.of(run), theory.root, approach)
    prediction = Prediction(mean, doubts=(mean * uncertainty)[:, None] * _SHARING / 2)
    if theory.cheap or not theory.scattered:
        return prediction
    drawn = mean * position_deviations(theory.of(run), theory.root)
    if not len(drawn):
        return prediction
    return replace(prediction, scatter=np.cov(drawn.T), drawn=drawn)


def _seed(theory: Theory, run: Experiment, names: Sequence[str]) -> np.random.SeedSequence:
    """Seed of task sets that are the same wherever these sizes are."""
    integers = sizes_of_run(run)
    sizes = [integers[name] for name in names]
    numbers = [0 if size == math.inf else int(size) for size in sizes]
    return np.random.SeedSequence([theory.root, *numbers])


def _predicted_means(run: Experiment, theory: Theory) -> Prediction:
    """Predict the errors of linear attention and their spread over task sets."""
    dim = run.dim
    tasks = run.problem.task_count
    seed = _seed(theory, run, ("dim", "tasks") if theory.cheap else SIZES)
    run = theory.of(run)
    trained = not isinstance(run.training, Ridge)
    sets = TRAINED_SETS if trained else SETS
    draws = theory.draws or _between(sets, SETS_SIZE // dim**2)
    draws = _between(PAIRED_SETS, FULL_SIZE // dim**2) if theory.cheap else draws
    draws = 1 if tasks == math.inf else draws
    full = 1 if draws == 1 else _between(FULL_SETS, int(FULL_SIZE // (dim * max(dim, tasks))))
    full = min(full, draws)
    try:
        cheap = predicted_errors(run, rng=seed, approach="moments", draws=draws)
        exact = cheap
        if dim <= LARGEST_DIM and not theory.cheap:
            exact = predicted_errors(run, rng=seed, draws=full)
    except ArithmeticError as error:
        raise ValueError(str(error)) from None
    prediction = Prediction.of(cheap, exact.uncertainty)
    if exact is cheap or not prediction.finite:
        return prediction
    ratios = np.array(exact.over_tasks.T / cheap.over_tasks.T[:, :full], order="C")
    ratio = np.mean(ratios, axis=1)
    scatter = np.outer(prediction.mean, prediction.mean) * (np.cov(ratios) if full > 1 else 0.0)
    prediction = prediction.scaled(ratio)
    parts = prediction.covariance, scatter / full
    degrees = welch_degrees([float(np.trace(part)) for part in parts], [draws - 1, full - 1])
    return replace(
        prediction,
        covariance=parts[0] + parts[1],
        spread=prediction.spread + scatter,
        degrees=degrees,
    )


def numbers_of_labels(problem: Problem) -> list[int]:
    """Link and flips as integers of a seed; none for linear labels."""
    text = repr(sorted(problem.labels.items()))
    return [] if problem.has_linear_labels else list(text.encode())


def _accuracy_prediction(run: Experiment, theory: Theory) -> Prediction:
    """Accuracies on fresh and on pretraining tasks, simulated: at finite size there is no theory.

    The pair takes the place of the two errors.  Cheap ones, which are only compared with each
    other, are limits.
    """
    if theory.cheap:
        limit = Prediction(np.array(linked_limit(ACCURACY, run, threshold_of_runs=True)))
        if limit.finite:
            return limit
    if run.dim > ACCURACY_DIM:
        raise ValueError(f"accuracies are simulated, up to d = {ACCURACY_DIM}")
    if run.problem.has_linear_labels:
        raise ValueError("accuracies are of labels with a link other than identity, or with flips")
    count = ACCURACY_NUMBERS // (run.prompts * run.dim)
    # Of a mistake that is tried the scatter of runs is not asked, and few runs are simulated.
    few = theory.cheap or not theory.scattered
    repeats = ACCURACY_RUNS[0] if few else _between(ACCURACY_RUNS, count)
    # Rows that differ in noise, ridge or labels alone must not share their draws.
    levels = np.array([run.problem.noise_variance, run.ridge], float).view(np.uint64)
    sizes = [0 if size == math.inf else int(size) for size in sizes_of_run(run).values()]
    numbers = [*sizes, *levels.tolist(), *numbers_of_labels(run.problem)]
    seed = np.random.SeedSequence([theory.root, *numbers])
    try:
        runs = sample(theory.of(run), rng=seed, repeats=repeats, accuracies=True)
    except ArithmeticError as error:
        raise ValueError(str(error)) from None
    accuracies = np.stack([runs[name].samples for name in ACCURACIES.values()])
    scatter = np.cov(accuracies)
    return Prediction(
        np.mean(accuracies, axis=1), scatter / repeats, degrees=repeats - 1.0, scatter=scatter
    )


def _estimator_prediction(
    estimator: str, run: Experiment, penalty: float | None, theory: Theory
) -> Prediction:
    """Errors of ridge regression, exact, or of dMMSE, simulated: its theory is less sharp.

    The penalty of ridge regression is for inputs of variance 1; by default it is the best one.
    """
    dim = run.dim
    context = run.problem.context
    tasks = run.problem.tasks
    rho = run.problem.noise_variance
    if theory.structure is not None or not (rho or penalty is not None):
        which = "isotropic data and rho > 0"
        raise ValueError(f"Bayes estimators are predicted for {which}")
    if estimator == "ridge" or tasks == math.inf:
        variance = rho * dim  # for inputs of variance 1
        penalty = variance if penalty is None else penalty
        risk = 2 * ridge_risk(penalty, noise_variance=variance, context=context, dim=dim) / dim
        return Prediction(np.full(2, rho + float(risk)))
    sets = _between(ESTIMATOR_SETS, ESTIMATOR_SIZE // (context * max(dim, tasks)))
    errors = simulate_estimator(
        "dmmse",
        dim=dim,
        context=context,
        tasks=tasks,
        rho=rho,
        rng=np.random.SeedSequence([theory.root, dim, context, tasks]),
        repeats=ESTIMATOR_SETS[0] if theory.cheap else theory.draws or sets,
        test_prompts=ESTIMATOR_PROMPTS,
        task_law=theory.task_law,
    )
    return Prediction.of(errors)


def normal_score(deviation: float, drawn: np.ndarray) -> float:
    """Standard normal number as improbable as a deviation from a drawn law.

    The upper tail is a power law with the index of Hill.  Below all draws the number grows in
    proportion to the distance from their median.
    """
    ordered = np.sort(drawn)
    count = len(ordered)
    ordered = ordered - np.median(ordered)
    place = deviation - float(np.median(drawn))
    tail = ordered[-math.ceil(TAIL * count) :]
    if place < ordered[0]:
        return float(-ndtri(0.5 / count) * place / abs(ordered[0]))
    if place > tail[0] > 0:
        decay = float(np.mean(np.log(tail / tail[0])))
        log_chance = math.log(TAIL) - math.log(place / tail[0]) / decay
        return float(-ndtri(math.exp(max(log_chance, LEAST_LOG))))
    scores = ndtri((np.arange(count) + 0.5) / count)
    return float(np.interp(place, ordered, scores))


def _between(ends: tuple[int, int], count: int) -> int:
    return min(max(count, ends[0]), ends[1])


def welch_degrees(variances: Sequence[float], degrees: Sequence[float]) -> float:
    """Degrees of freedom of a sum of estimated variances, as Welch and Satterthwaite have them."""
    lost = sum(v**2 / n for v, n in zip(variances, degrees, strict=True) if n > 0)
    return float(sum(variances) ** 2 / lost) if lost > 0 else math.inf
