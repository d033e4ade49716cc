"""Errors of runs as functions of effective parameters: against predictions that are made there."""

import math
from dataclasses import replace

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread
from iclimit.validation.yours.runs.fitting import FREE, check_free, forecast_precision
from iclimit.validation.yours.runs.measured import MeasuredRun
from iclimit.validation.yours.runs.predictions import Theory

SIZES = {"dim": 16, "context": 32, "tasks": math.inf, "prompts": 500}
RUN = MeasuredRun((1,), SIZES, rho=0.2, ridge=0.1, errors={}, runs=8)
THEORY = Theory(draws=4)


def predicted(**changes):
    setting = {**SIZES, "rho": RUN.rho, "ridge": RUN.ridge} | changes
    run = finite_size_errors(**setting, rng=0, draws=1)
    return np.array([run.icl.mean, run.idg.mean]), run.uncertainty


def covariance():
    """Of the logarithms of the two errors over eight runs, with the doubt of the theory."""
    means, doubt = predicted()
    spread = finite_size_spread(**SIZES, rho=RUN.rho, ridge=RUN.ridge, rng=0).covariance
    shared = np.array([[1, 0.7], [0.7, 1]]) * (doubt / 2) ** 2
    return spread / np.outer(means, means) / 8 + shared


@pytest.mark.parametrize("name", ["tau", "rho", "ridge", "factor", "offset"])
def test_forecast_is_that_of_differences_of_finite_size_predictions(name):
    h, (means, _) = 0.1, predicted()
    ends = {
        "tau": [{"prompts": round(500 * math.exp(s))} for s in (h, -h)],
        "rho": [{"rho": 0.2 * math.exp(s)} for s in (h, -h)],
        "ridge": [{"ridge": 0.1 * math.exp(s)} for s in (h, -h)],
    }
    if name in ends:
        high, low = (np.log(predicted(**end)[0]) for end in ends[name])
        slope = (high - low) / (2 * h)
    else:
        slope = np.ones(2) if name == "factor" else 1 / means
    expected = 1 / math.sqrt(slope @ np.linalg.solve(covariance(), slope))
    error = forecast_precision([RUN], [name], THEORY).standard_errors[name]
    # Corrections of the limit have the slopes of mean moments: 4 % where the ridge hardly matters.
    assert error == pytest.approx(expected, rel=0.05)


def test_more_runs_tell_more_until_the_doubt_of_the_theory():
    errors = [
        forecast_precision([replace(RUN, runs=runs)], ["rho"], THEORY).standard_errors["rho"]
        for runs in (1, 4, 10**9)
    ]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)
    assert 0 < errors[2] < errors[1]


def test_one_error_cannot_tell_two_parameters():
    precision = forecast_precision([RUN], ["rho", "factor"], THEORY, measured=["icl"])
    assert "hardly told apart" in precision.degeneracies[0]


def test_names_of_free_parameters():
    assert check_free("rho") == ("rho",)
    with pytest.raises(ValueError, match="did you mean kappa"):
        check_free(["kapa"])
    for wrong in ([], ["rho", "rho"]):
        with pytest.raises(ValueError, match="free must be one or more different names"):
            check_free(wrong)
    assert set(FREE) > {"tau", "alpha", "kappa", "rho", "ridge", "factor", "offset"}
