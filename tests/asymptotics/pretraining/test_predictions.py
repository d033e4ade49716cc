"""Runs that go in as an experiment, against the keywords and against simulation."""

import math

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit import Experiment, Point, Problem, Ridge, Test, predict, sample
from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread

# Standard errors by which a simulation may be off.
STANDARD_ERRORS = 4

FLAT = {"dim": 12, "context": 10, "tasks": 9, "prompts": 300, "rho": 0.2, "ridge": 0.1}
CHANGES = {
    "plain": {},
    "fresh tasks": {"tasks": math.inf},
    "covariances": {
        "task_covariance": np.linspace(0.2, 1.8, 12),
        "input_covariance": np.linspace(1.5, 0.5, 12),
    },
    "gates and other tests": {
        "gates": np.linspace(0.1, 1, 10),
        "test_context": 20,
        "test_gates": np.ones(20),
        "test_rho": 0.5,
    },
    "drift": {"drift": 0.5, "test_drift": 0.0},
    "balanced": {"balanced": True},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_is_predicted_as_its_keywords_are(name):
    flat = FLAT | CHANGES[name]
    prediction = predict(Experiment.of(**flat), rng=0, draws=4)
    errors = finite_size_errors(**flat, rng=0, draws=4)
    np.testing.assert_array_equal(prediction.over_tasks, errors.over_tasks)
    assert prediction["icl"] == errors.icl
    assert prediction.uncertainty == errors.uncertainty > 0
    assert (prediction.idg.standard_error == 0) == (name == "fresh tasks")


def test_the_scatter_is_that_of_simulated_runs():
    run = Point(tau=2, alpha=1, kappa=0.75, rho=0.2, ridge=0.1).at(dim=12)
    prediction = predict(run, rng=0, draws=40, spread=True)
    samples = sample(run, rng=0, repeats=400)
    for name, estimate in (("icl", samples.icl), ("idg", samples.idg)):
        expected = prediction[name].mean
        allowed = prediction.uncertainty * expected + STANDARD_ERRORS * estimate.standard_error
        assert abs(estimate.mean - expected) < allowed
    simulated = np.cov([samples.icl.samples, samples.idg.samples])
    # A standard deviation of 400 runs is known to 3.5 %.
    expected = [prediction.scatter.icl, prediction.scatter.idg]
    assert np.sqrt(np.diag(simulated)) == pytest.approx(expected, rel=0.15)
    spread = finite_size_spread(**run.keywords(), rng=0)
    np.testing.assert_array_equal(prediction.scatter.covariance, spread.covariance)
    assert not prediction.scatter.heavy


def test_a_prediction_prints_its_means_and_what_they_scatter_by():
    run = Experiment.of(**FLAT)
    lines = str(predict(run, rng=0, spread=True)).splitlines()
    assert [line.split()[0] for line in lines] == ["icl", "idg"]
    assert all("theory" in line and "scatter of a run" in line for line in lines)
    plain = predict(run, rng=0)
    assert "scatter" not in str(plain)
    assert plain.scatter is None
    value_error("name must be", plain.__getitem__, "train")


def test_infinite_errors_are_infinite():
    run = Experiment.of(dim=20, context=1, tasks=math.inf, prompts=200, rho=0.1)
    prediction = predict(run)
    assert [row["mean"] for row in prediction.rows()] == [math.inf, math.inf]
    assert prediction.gap.mean == math.inf
    assert prediction.uncertainty == 0.0


def test_what_is_not_known_is_refused():
    type_error("run must be an Experiment", predict, FLAT)
    law = Problem(12, 10, tasks=9, noise_variance=0.2, task_law="sphere")
    for changes, message in (
        ({"input_law": "uniform"}, "problem must have input_law = gaussian"),
        ({"scale": 1.0}, "problem must have scale = None"),
    ):
        wrong = Problem(12, 10, tasks=9, noise_variance=0.2, task_law="sphere", **changes)
        value_error(message, predict, Experiment(wrong, prompts=300))
    covariance = np.linspace(1.5, 0.5, 12)
    test = Test(law.with_fresh_tasks(input_covariance=covariance))
    run = Experiment(law, prompts=300, training=Ridge(0.1), test=test)
    value_error("test must have the input_covariance of training", predict, run)
