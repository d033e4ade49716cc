"""Errors of runs as functions of effective parameters: against predictions that are made there."""

import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import value_error

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread
from iclimit.experiment import Experiment
from iclimit.results import Estimate
from iclimit.validation.instruments.fitted_parameters import check_free
from iclimit.validation.instruments.runs.fitting import forecast_precision, measurements
from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory, predict
from iclimit.validation.instruments.runs.run_model import FREE, RunModel

SIZES = {"dim": 16, "context": 32, "tasks": math.inf, "prompts": 500}
RUN = MeasuredRun((1,), Experiment.of(**SIZES, rho=0.2, ridge=0.1), errors={}, runs=8)
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


def test_forecast_is_that_of_differences_of_finite_size_predictions():
    for name in ("tau", "rho", "ridge", "factor", "offset"):
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
        # Corrections of the limit have the slopes of mean moments: 4 % where the ridge is small.
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
    assert check_free("rho", FREE) == ("rho",)
    value_error("did you mean kappa", check_free, ["kapa"], FREE)
    for wrong in ([], ["rho", "rho"]):
        value_error("free must be one or more different names", check_free, wrong, FREE)
    assert set(FREE) > {"tau", "alpha", "kappa", "rho", "ridge", "factor", "offset"}


def single_run(**changes):
    """A single run with the errors of the prediction at other parameters."""
    means, _ = predicted(**changes)
    errors = {"icl": Estimate(means[0], math.inf, 0), "idg": Estimate(means[1], math.inf, 0)}
    return replace(RUN, errors=errors, runs=1)


def test_predicted_scatter_follows_the_parameters():
    """The weights of deviations at another ridge are those of a prediction there."""
    runs = [single_run(), replace(single_run(), rows=(2,))]
    model = RunModel.of(runs, ("ridge",), None).centred(np.zeros(1), lambda r: predict(r, THEORY))
    data = measurements(model, one_set=False)
    x = np.array([math.log(5.0)])
    growth = np.sqrt(np.diag(data.scatter))
    weights = []
    for place in (np.zeros(1), x):
        # The residual of the first value is its deviation over the standard deviation.
        shift = 1e-3 * np.eye(len(data.values))[0]
        moved = replace(data, values=data.values + shift)
        change = data.residuals(place)[0] - moved.residuals(place)[0]
        weights.append(change / 1e-3)
    spreads = [
        finite_size_spread(**SIZES, rho=RUN.rho, ridge=ridge, rng=0).icl
        / predicted(ridge=ridge)[0][0]
        for ridge in (0.1, 0.5)
    ]
    assert growth[0] == pytest.approx(spreads[0], rel=0.02)
    # The change is that of the limit, which is off by a term of order 1/d: 6 % of a factor of 1.6.
    assert weights[1] / weights[0] == pytest.approx(spreads[0] / spreads[1], rel=0.08)


def test_two_errors_of_fresh_tasks_are_one_measurement():
    """With infinitely many tasks the two errors of a run are the same number."""
    model = RunModel.of([single_run()], ("rho",), None)
    model = model.centred(np.zeros(1), lambda run: predict(run, THEORY))
    assert len(measurements(model, one_set=False).values) == 1
    told = replace(single_run(), errors={n: Estimate(1.0, 0.1, 1) for n in ("icl", "idg")})
    assert len(measurements(replace(model, runs=[told]), one_set=False).values) == 2
