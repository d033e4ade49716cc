r"""Measured errors that no predictor has.

An error is a mean of squares, so it is not negative.  It has the label noise of the query, which
no predictor knows.  On fresh Gaussian tasks it is at least that of ridge regression with the
penalty :math:`\sigma^2`, the Bayes estimator, whose error is known exactly.  On tasks of fixed
norm a predictor may be better by a part of 2/d of what exceeds the noise.  On the pretraining
tasks it is at least that of dMMSE, which is simulated where an error is near it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iclimit.asymptotics.gdpp import ridge_risk
from iclimit.asymptotics.pretraining import bayes_error
from iclimit.validation.instruments.runs.judgement import RowDeviation
from iclimit.validation.instruments.runs.measured import ACCURACY, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory, predict

# An error is impossible if it is below the least one by more standard errors than this.
MOST_BELOW = 5.0

# Fixed norm of the tasks lowers the least error by up to this part over d.
DOUBT_OF_NORM = 2.0

# The least error is above its limit by less than this factor: by 1.1 at d = l = 10.
CLEARLY_ABOVE = 1.5

# Relative precision of numbers in a table.
ROUNDING = 1e-4


@dataclass(frozen=True)
class _Bound:
    """Least error that is possible, and the doubt of it as a standard error."""

    value: float
    doubt: float = 0.0


@dataclass(frozen=True)
class Impossible:
    """A measured error that no predictor has.

    Attributes
    ----------
    name : {"icl", "idg"}
        Which error.
    label : str
        Row and parameters in words.
    measured, least : float
        The error, and the least one that is possible.
    z : float
        Their difference in standard errors.
    cause : str
        What usually causes it.
    """

    name: str
    label: str
    measured: float
    least: float
    z: float
    cause: str

    @property
    def sentence(self) -> str:
        """What is impossible, and what usually causes it."""
        what = "below 0, but squared errors are not"
        if self.least > 0:
            what = f"below {self.least:.4g}, the least error that any predictor has there"
        return (
            f"Impossible: {self.name.upper()} {self.label} is {self.measured:.4g}, {what}. "
            f"{self.cause}."
        )


def impossible_errors(rows: Sequence[RowDeviation], theory: Theory) -> list[Impossible]:
    """Errors of a table that no predictor has, the most impossible first.

    Parameters
    ----------
    rows : sequence of RowDeviation
        The rows of a table.
    theory : Theory
        Laws of the tasks.
    """
    below = [error for row in rows for error in _of_row(row, theory)]
    return sorted(below, key=lambda error: error.z)


def _of_row(row: RowDeviation, theory: Theory) -> Iterator[Impossible]:
    run = row.run
    if run.estimator == ACCURACY:
        return
    for name in ("icl", "idg"):
        error = row.errors.get(name)
        if error is None or not math.isfinite(error.standard_error):
            continue
        if _score(error.mean, error.standard_error, _Bound(0.0)) < -MOST_BELOW:
            yield _impossible(name, row, _Bound(0.0))
            continue
        noise = run.tests.get("test_rho", run.rho) if name == "icl" else run.rho
        least = _Bound(noise)
        if _score(error.mean, error.standard_error, least) >= -MOST_BELOW:
            # What is predicted is possible, so an error that is not below it is.
            possible = _Bound(row.prediction.value(name))
            if _score(error.mean, error.standard_error, possible) >= -MOST_BELOW:
                continue
            least = _least_error(name, run, theory)
        if _score(error.mean, error.standard_error, least) < -MOST_BELOW:
            yield _impossible(name, row, least)


def _score(mean: float, standard_error: float, least: _Bound) -> float:
    """Difference to a least error in standard errors."""
    doubt = math.hypot(standard_error, least.doubt, ROUNDING * least.value)
    return (mean - least.value) / max(doubt, 1e-300)


def _least_error(name: str, run: MeasuredRun, theory: Theory) -> _Bound:
    """Least error that is possible, with its doubt; 0 where it is not known."""
    unknown = _Bound(0.0)
    if theory.structure is not None or theory.excess_kurtosis or not run.rho or not run.linear:
        return unknown
    dim = run.sizes["dim"]
    if name == "icl" or run.sizes["tasks"] == math.inf:
        rho = run.tests.get("test_rho", run.rho)
        variance = rho * dim
        context = run.tests.get("test_context", run.sizes["context"])
        limit = float(bayes_error(alpha=context / dim, rho=rho))
        if run.errors[name].mean > CLEARLY_ABOVE * limit:
            return _Bound(rho)  # the exact law of a large context takes time
        try:
            risk = ridge_risk(variance, noise_variance=variance, context=context, dim=dim)
        except ArithmeticError:  # at sizes where the exact law takes minutes
            return _Bound(rho)
        excess = 2 * float(risk) / dim
        doubt = excess * DOUBT_OF_NORM / dim if theory.task_law == "sphere" else 0.0
        return _Bound(rho + excess - doubt)
    if run.errors["idg"].mean > 2 * run.rho:
        return unknown  # dMMSE is simulated, which takes time
    prediction = predict(run.at({"estimator": "dmmse"}), theory)
    return _Bound(float(prediction.mean[1]), math.sqrt(prediction.spread[1, 1]))


def _impossible(name: str, row: RowDeviation, least: _Bound) -> Impossible:
    """An impossible error with what usually causes it."""
    run = row.run
    error = row.errors[name]
    if error.mean < 0:
        cause = "Usually it is a logarithm, in dB, an R^2, or something was subtracted"
    elif _score(error.mean + run.rho, error.standard_error, least) >= -MOST_BELOW:
        cause = "Usually the label noise of the query was left out, or the error has other units"
    else:
        cause = (
            "Usually the model sees the label that it predicts, the error has other units (half, "
            "per dimension), or the noise is smaller than stated"
        )
    score = _score(error.mean, error.standard_error, least)
    return Impossible(name, run.label, error.mean, least.value, score, cause)
