r"""Measured errors of a table of runs, their covariance, and the fit of effective parameters.

**Covariance.**  Errors are compared by their logarithms; differences, and errors that were
measured as negative or hardly known, as they are.  The covariance has four parts: the scatter of
the runs, by their error bars or as `iclimit.finite_size_spread` predicts it; the spread of the
prediction over task sets; and the doubt of the prediction, which rows that are alike share.

A predicted scatter depends on the parameters, too: with a ridge of 0.4 instead of 0.1 a run
scatters 30 % less.  It is multiplied by the factor that its limit changes by, and the likelihood
has the determinant of the covariance.  With the scatter of the best fit everywhere, intervals
would be too narrow on the side where runs scatter more.  As p parameters follow n errors, these
scatter less about the fit than about the truth, and the fit would prefer parameters of small
scatter.  So the logarithm of the determinant counts (n - p)/n, as in restricted likelihood, where
this is exact for a common factor.  Six single runs and two parameters that are hardly told apart:
intervals of 95 % cover 91 % with the scatter of the best fit, 94 % with the whole determinant, and
95 % so (2000 tables).

**Several minima.**  Errors are alike on both sides of the peak at n = d (d + 1), so the likelihood
has a minimum on either side, and corrections that were made on the wrong one may favour it.  Each
minimum that is seen gets corrections of its own (`iclimit.validation.instruments.fitting`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import block_diag

from iclimit.results import Estimate
from iclimit.validation.instruments.fitted_parameters import check_free
from iclimit.validation.instruments.fitting import Solution, solve
from iclimit.validation.instruments.least_squares import (
    Bounds,
    Precision,
    fisher_matrix,
    sums_of_squares,
    values_and_slopes,
)
from iclimit.validation.instruments.runs.judgement import course_correlations, likeness
from iclimit.validation.instruments.runs.measured import MEASURED, MeasuredRun
from iclimit.validation.instruments.runs.predictions import (
    Prediction,
    Theory,
    normal_score,
    predict,
)
from iclimit.validation.instruments.runs.run_model import FREE, Predict, RunModel

# Range to which predicted errors are clipped before their logarithm is taken.
POSSIBLE = (1e-9, 1e9)

# Largest absolute correlation of two errors.
MOST_ALIKE = 0.999

# Range to which the factor is clipped by which a predicted scatter changes with the parameters.
SCATTERS = (1e-2, 1e2)

# Constant that is added to the logarithm of each variance, so that their sum is positive: within
# `SCATTERS` the logarithm falls by less than this.
LARGEST_LOG = 20.0

# An error that is known to no better than this part of it is compared as it is: its logarithm has
# no normal law.
LOGGED = 0.5

# Correlation of the two errors of a run where it is neither measured nor predicted.
TYPICAL = 0.7

# Task sets of a prediction.
DRAWS = 10

# A search has come back to where its corrections were found if no parameter moves by more than
# this, or by more than this part of its standard error.
MOVED = 0.05
SHARE_OF_ERROR = 0.25

# Even of parameters that are hardly known, corrections are not used further away.
MOST_MOVED = 0.3

# Distance at which minima are looked for where there is no limit but corrections alone.
FURTHEST = 0.7

# Part of the scatter of a row that no other position shares: of the tests, which are finite.  It
# also keeps correlations of few simulated runs from being singular.
UNSHARED = 0.05


@dataclass(frozen=True, eq=False)
class Measurements:
    """Measured errors as one vector, by their logarithms unless these are differences.

    Attributes
    ----------
    model : RunModel
        What they should be at any parameters.
    values : ndarray (n,)
        Logarithms of errors, and differences.
    rows : ndarray (n,)
        Number of the run.
    names : list of str
        What was measured (`MEASURED`).
    logged : ndarray (n,)
        Whether it is a logarithm.
    scatter : ndarray (n, n)
        Covariance of the values because of the scatter of runs.
    doubt : ndarray (n, n)
        Covariance because of the prediction.
    scatters : ndarray (n,)
        Limit of the scatter there if it is predicted, so that it depends on the parameters; NaN
        where it does not.
    """

    model: RunModel
    values: np.ndarray
    rows: np.ndarray
    names: list[str]
    logged: np.ndarray
    scatter: np.ndarray
    doubt: np.ndarray
    scatters: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the values at the centre of the model."""
        return self.scatter + self.doubt

    @property
    def centre(self) -> np.ndarray:
        """Parameters (p,) where corrections were found."""
        return self.model.centre

    @property
    def bounds(self) -> Bounds:
        """Range of the parameters."""
        return self.model.bounds

    @property
    def count(self) -> int:
        """Number of measured values."""
        return len(self.values)

    def chi_square(self, x: np.ndarray) -> float:
        """Weighted sum of squared deviations."""
        return float(np.sum(self.residuals(x)[:-1] ** 2))

    def reach(self, errors: np.ndarray) -> np.ndarray:
        """How far (p,) corrections are used, where parameters have these errors (p,)."""
        return np.clip(SHARE_OF_ERROR * errors, MOVED, MOST_MOVED)

    def predicted(self, x: np.ndarray) -> np.ndarray:
        """Values (..., n) at parameters (..., p)."""
        return self._as_measured(self.linear(x))

    def linear(self, x: np.ndarray) -> np.ndarray:
        """Measured combinations (..., n) of errors at parameters (..., p)."""
        weights = np.array([MEASURED[name] for name in self.names])
        return np.asarray(np.sum(weights * self.model.errors(x)[..., self.rows, :], axis=-1))

    def _as_measured(self, linear: np.ndarray) -> np.ndarray:
        return np.where(self.logged, np.log(np.clip(linear, *POSSIBLE)), linear)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """Deviations (..., n + 1) at parameters (..., p): their squares are -2 ln(likelihood).

        The first n are independent and of variance 1 for true parameters.  The square of the last
        one is the share (n - p)/n of the logarithm of the determinant of the covariance, plus a
        constant.
        """
        linear = self.linear(x)
        growth = self._scatter_growth(x, linear)
        scatter = self.scatter * growth[..., :, None] * growth[..., None, :]
        cholesky = np.linalg.cholesky(scatter + self.doubt)
        # A logarithm is on average lower than that of the mean.
        skews = np.where(self.logged, np.diagonal(scatter, axis1=-2, axis2=-1) / 2, 0.0)
        deviations = self._as_measured(linear) - skews - self.values
        whitened = np.linalg.solve(cholesky, deviations[..., None])
        sizes = np.diagonal(cholesky, axis1=-2, axis2=-1) / np.sqrt(np.diag(self.covariance))
        # Each term is within the logarithms of SCATTERS, unless correlations matter.
        count = len(self.values)
        determinant = 2 * np.sum(np.log(sizes), axis=-1) + LARGEST_LOG * count
        determinant *= max(count - np.shape(x)[-1], 0) / count
        return np.concatenate([whitened[..., 0], np.sqrt(determinant)[..., None]], axis=-1)

    def height(self, x: np.ndarray) -> float:
        """Minus twice the logarithm of the likelihood, up to a constant of all models."""
        share = max(len(self.values) - len(x), 0) / len(self.values)
        sizes = np.log(np.diag(self.covariance))
        return float(sums_of_squares(self.residuals, x) + share * np.sum(sizes))

    def _scatter_growth(self, x: np.ndarray, linear: np.ndarray) -> np.ndarray:
        """Predicted standard deviations (..., n) of values over those at the model's centre."""
        known = np.isfinite(self.scatters)
        if not np.any(known):
            return np.ones((*np.shape(x)[:-1], len(known)))
        growth = self.limit_scatters(x, linear) / np.where(known, self.scatters, 1.0)
        return np.where(known, np.clip(growth, *SCATTERS), 1.0)

    def limit_scatters(self, x: np.ndarray, linear: np.ndarray) -> np.ndarray:
        """Limits of the standard deviations (..., n) of the values of single runs."""
        columns = [list(MEASURED).index(name) for name in self.names]
        scale = np.where(self.logged, np.clip(linear, *POSSIBLE), 1.0)
        return np.asarray(self.model.scatters(x)[..., self.rows, columns] / scale)

    def precision(self, x: np.ndarray) -> Precision:
        """Fisher matrix at these parameters."""
        fisher = fisher_matrix(values_and_slopes(self.predicted, x)[1], self.covariance)
        return Precision(list(self.model.free), fisher, combinations(self.model))


def predictors(theory: Theory) -> tuple[Predict, Predict]:
    """Predictions for a fit: precise ones, and cheap ones for slopes."""
    precise = replace(theory, draws=theory.draws or DRAWS)
    cheap = replace(theory, cheap=True)
    return partial(predict, theory=precise), partial(predict, theory=cheap)


def fit_model(
    model: RunModel, precise: Predict, cheap: Predict, *, one_set: bool
) -> list[Solution[Measurements]]:
    """All minima of the likelihood that are found, each by corrections made there; lowest first.

    Corrections are first found where the table says.
    """

    def expand(x: np.ndarray) -> Measurements:
        return measurements(model.centred(x, precise, cheap), one_set=one_set)

    sequences = any(run.by_position for run in model.runs)
    return solve(expand, model.start, FURTHEST if sequences else math.inf)


def measurements(model: RunModel, *, one_set: bool) -> Measurements:
    """Measured errors of the runs of a centred model, with their covariance there.

    Parameters
    ----------
    model : RunModel
        With predictions.
    one_set : bool
        Whether the runs of a row share a task set.
    """
    names = [_informative(run) for run in model.runs]
    rows = np.repeat(np.arange(len(names)), list(map(len, names)))
    every = [name for informative in names for name in informative]
    weights = np.array([MEASURED[name] for name in every])
    measured = [
        run.errors[name].mean
        for run, informative in zip(model.runs, names, strict=True)
        for name in informative
    ]
    values = np.array(measured)
    bars = np.array(
        [
            0.0 if run.lacks_error_bar(name) else run.errors[name].standard_error
            for run, informative in zip(model.runs, names, strict=True)
            for name in informative
        ]
    )
    logged = (weights[:, 1] >= 0) & ~(values <= 0) & ~(bars > LOGGED * values)
    means = np.array([prediction.mean for prediction in model.predictions])
    scale = np.where(logged, np.sum(weights * means[rows], axis=1), 1.0)
    scatters = []
    sets = []
    loadings = []
    scores = list[float]()
    alike = likeness(model.runs)
    for number, (run, prediction) in enumerate(zip(model.runs, model.predictions, strict=True)):
        here = rows == number
        weight = weights[here]
        unit = scale[here]
        scatters.append(_scatter(run, names[number], prediction, one_set, logged[here], unit))
        scores += _scores(run, names[number], prediction)
        of_sets = prediction.covariance + prediction.spread * one_set
        sets.append(weight @ of_sets @ weight.T / np.outer(unit, unit))
        loadings.append(np.kron(alike[number], weight @ prediction.doubts / unit[:, None]))
    doubts = np.vstack(loadings)
    with np.errstate(invalid="ignore"):
        values = np.where(logged, np.log(np.where(logged, values, 1.0)), values)
        # A value in the tail of a heavy law becomes what is as improbable in a normal one.
        variances = np.concatenate([np.diag(scatter) for scatter in scatters])
        likely = np.log(scale) - variances / 2 + np.sqrt(variances) * scores
        values = np.where(logged & np.isfinite(scores), likely, values)
    data = Measurements(
        model,
        values,
        rows,
        every,
        logged,
        _over_positions(model, scatters, weights, rows)
        if any(len(prediction.drawn) for prediction in model.predictions)
        else _over_times(model.runs, scatters),
        block_diag(*sets) + doubts @ doubts.T,
        np.full(len(rows), np.nan),
    )
    single = np.array([_lacks_error_bars(model.runs[row], names[row]) for row in rows.tolist()])
    if not np.any(single):
        return data
    scatters_there = data.limit_scatters(model.centre, data.linear(model.centre))
    usable = single & (scatters_there > 0)  # the gap of infinitely many tasks does not scatter
    return replace(data, scatters=np.where(usable, scatters_there, np.nan))


def _over_times(runs: Sequence[MeasuredRun], scatters: Sequence[np.ndarray]) -> np.ndarray:
    """Covariance by the scatter of runs, of which times of one training are the same."""
    correlations = course_correlations(runs)
    np.fill_diagonal(correlations, 1.0)
    if np.all(correlations == np.eye(len(runs))):
        return np.asarray(block_diag(*scatters))
    most = max(map(len, scatters))
    roots = [np.linalg.cholesky(own) for own in scatters]
    loadings = np.vstack([np.pad(root, ((0, 0), (0, most - len(root)))) for root in roots])
    rows = np.repeat(np.arange(len(runs)), list(map(len, scatters)))
    return np.asarray(correlations[np.ix_(rows, rows)] * (loadings @ loadings.T))


def _over_positions(
    model: RunModel, scatters: Sequence[np.ndarray], weights: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The same where rows are positions of the same runs, by correlations of simulated ones."""
    scales = np.concatenate([np.sqrt(np.diag(scatter)) for scatter in scatters])
    pairs = zip(rows.tolist(), weights, strict=True)
    drawn = np.array([model.predictions[row].drawn @ weight for row, weight in pairs])
    correlations = (1 - UNSHARED) * np.corrcoef(drawn) + UNSHARED * np.eye(len(rows))
    courses = [model.runs[row].course for row in rows.tolist()]
    same = [[own == other for other in courses] for own in courses]
    return np.where(same, correlations, 0.0) * np.outer(scales, scales)


def _informative(run: MeasuredRun) -> list[str]:
    """Measured errors of which none follows from the others."""
    names = [name for name in MEASURED if name in run.errors][:2]
    same = run.sizes["tasks"] == math.inf and _lacks_error_bars(run, names)
    equal = len({run.errors[name].mean for name in names if name != "gap"}) == 1
    return names[:1] if same and equal else names


def _lacks_error_bars(run: MeasuredRun, names: Sequence[str]) -> bool:
    return any(run.lacks_error_bar(name) for name in names)


def _by_prediction(run: MeasuredRun, prediction: Prediction, names: Sequence[str]) -> bool:
    """Whether the scatter of a run is that of its predicted law."""
    return _lacks_error_bars(run, names) or bool(prediction.heavy and run.runs)


def _scores(run: MeasuredRun, names: Sequence[str], prediction: Prediction) -> list[float]:
    """Normal scores of errors in their predicted law where it is heavy; otherwise NaN."""
    if not (prediction.heavy and _by_prediction(run, prediction, names)):
        return [math.nan] * len(names)
    weights = np.array([MEASURED[name] for name in names])
    drawn = prediction.law_of_mean(weights, run.runs or 1)
    return [
        normal_score(run.errors[name].mean - prediction.value(name), drawn[:, place])
        for place, name in enumerate(names)
    ]


def _scatter(
    run: MeasuredRun,
    names: Sequence[str],
    prediction: Prediction,
    one_set: bool,
    logged: np.ndarray,
    unit: np.ndarray,
) -> np.ndarray:
    """Covariance of the values of a run because of the scatter of its runs."""
    weights = np.array([MEASURED[name] for name in names])
    predicted = prediction.covariance_of_mean(np.eye(2), 1, one_set=one_set)
    known = bool(np.all(np.isfinite(predicted)))
    if _by_prediction(run, prediction, names):
        if not known:
            raise ValueError(f"{run.label}: there are neither error bars nor a predicted scatter")
        of_mean = prediction.covariance_of_mean(weights, run.runs or 1, one_set=one_set)
        return of_mean / np.outer(unit, unit)
    size = np.array([abs(run.errors[name].mean) for name in names])
    errors = [run.errors[name].standard_error for name in names] / np.where(logged, size, 1.0)
    if run.correlation is not None:
        covariance = run.covariance(names)
    else:
        assumed = predicted if known else np.array([[1.0, TYPICAL], [TYPICAL, 1.0]])
        covariance = weights @ assumed @ weights.T
    scales = np.sqrt(np.diag(covariance))
    correlations = np.clip(covariance / np.outer(scales, scales), -MOST_ALIKE, MOST_ALIKE)
    np.fill_diagonal(correlations, 1.0)
    return correlations * np.outer(errors, errors)


def combinations(model: RunModel) -> dict[str, dict[str, float]]:
    """Combinations of parameters that errors depend on, as gradients of their logarithms."""
    rho = float(np.mean([run.rho for run in model.runs]))
    return {
        "q = (1 + rho)/alpha": {"alpha": -1.0, "rho": rho / (1 + rho)},
        "tau/kappa (prompts of a task)": {"tau": 1.0, "kappa": -1.0},
    }


def forecaster(
    runs: Sequence[MeasuredRun],
    free: Sequence[str],
    theory: Theory,
    *,
    measured: Sequence[str] = ("icl", "idg"),
) -> Callable[[float | None], Precision]:
    """Predict what runs will tell about free parameters, as a function of their number.

    Arguments are those of `forecast_precision`; the number is that of each setting, None for the
    numbers that the runs have.
    """
    unknown = {name: Estimate(math.nan, math.inf, 0) for name in measured}
    planned = [replace(run, errors=unknown) for run in runs]
    model = RunModel.of(planned, check_free(free, FREE), theory.structure)
    _, cheap = predictors(theory)
    model = model.centred(model.start, partial(predict, theory=theory), cheap)

    def at(repeats: float | None = None) -> Precision:
        numbers = [run.runs if repeats is None else repeats for run in planned]
        pairs = zip(planned, numbers, strict=True)
        repeated = replace(model, runs=[replace(run, runs=number) for run, number in pairs])
        return measurements(repeated, one_set=False).precision(repeated.start)

    return at


def forecast_precision(
    runs: Sequence[MeasuredRun],
    free: Sequence[str],
    theory: Theory,
    *,
    measured: Sequence[str] = ("icl", "idg"),
) -> Precision:
    """Predict what runs will tell about free parameters, before they are made.

    Parameters
    ----------
    runs : sequence of MeasuredRun
        Planned runs; ``runs`` is their number at each setting, 1 if it is None.
    free : sequence of str
        Names of `FREE`.
    theory : Theory
        Law of the tasks.
    measured : sequence of str
        What will be measured.

    Returns
    -------
    Precision
        Fisher matrix at the parameters of the runs, standard errors and degeneracies.
    """
    return forecaster(runs, free, theory, measured=measured)(None)
