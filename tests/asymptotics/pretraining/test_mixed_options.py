"""Predictions of finite runs against simulation: structures, timed contexts, short contexts."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.simulate.pretraining import simulate_errors

DIM = 16
STANDARD_ERRORS = 3.5
EIGENVALUES = np.linspace(0.2, 1.8, DIM)
RUN = {"dim": DIM, "context": 20, "tasks": 20, "prompts": 200, "rho": 0.1, "ridge": 0.02}


def turned(seed):
    """A covariance that does not commute with diagonal ones."""
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((DIM, DIM)))
    return basis @ np.diag(np.geomspace(0.3, 2.5, DIM)) @ basis.T


def deviations(run, repeats, draws=10, test_prompts=3000):
    """Relative deviations of the simulated errors from the predicted ones, and their errors."""
    predicted = finite_size_errors(**run, rng=0, draws=draws)
    runs = simulate_errors(**run, rng=1, repeats=repeats, test_prompts=test_prompts)
    found = []
    for name in ("icl", "idg"):
        expected = getattr(predicted, name)
        estimate = getattr(runs, name)
        error = math.hypot(expected.standard_error, estimate.standard_error)
        found.append((estimate.mean / expected.mean - 1, error / expected.mean))
    return np.array(found), predicted.uncertainty


@pytest.mark.parametrize("context", [5, 20, 80])
def test_structured_fresh_tasks(context):
    """Mean moments, with a Gamma law of the quadratic form, were 22, 11 and 5 % too high here."""
    run = RUN | {"context": context, "tasks": math.inf, "task_covariance": EIGENVALUES}
    (icl, _), stated = deviations(run | {"ridge": 0.01}, 150)
    assert abs(icl[0]) < stated + STANDARD_ERRORS * icl[1]
    assert stated < 0.013


MIXED = {
    "tasks, drift, gates": {
        "task_covariance": EIGENVALUES,
        "drift": 1.0,
        "gates": np.linspace(0.2, 1, 20),
    },
    "fresh tasks, drift, correlation": {
        "task_covariance": EIGENVALUES,
        "drift": 1.0,
        "correlation": 0.5,
        "tasks": math.inf,
    },
    "inputs": {"input_covariance": turned(0)},
    "inputs, sphere, fresh": {"input_covariance": turned(0), "tasks": math.inf},
    "inputs, drift": {
        "input_covariance": turned(0),
        "drift": 1.0,
        "gates": np.linspace(0.2, 1, 20),
    },
    "all": {
        "input_covariance": turned(0),
        "task_covariance": EIGENVALUES,
        "tasks": math.inf,
        "drift": 0.7,
        "correlation": 0.5,
        "gates": np.linspace(0.2, 1, 20),
    },
    "Gaussian tasks, drift": {"task_law": "gaussian", "drift": 1.0, "tasks": math.inf},
    "fast drift": {"drift": 10.0},
    "strong correlation": {"correlation": -0.95, "ridge": 0.05},
    "few prompts a task": {
        "task_covariance": EIGENVALUES,
        "tasks": 400,
        "prompts": 300,
        "context": 10,
    },
}


@pytest.mark.parametrize("name", MIXED)
def test_options_together(name):
    run = RUN | MIXED[name]
    found, stated = deviations(run, 15)
    assert np.all(np.abs(found[:, 0]) < stated + STANDARD_ERRORS * found[:, 1])
    assert stated < 0.04


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
def test_options_together_sharply(name):
    run = RUN | MIXED[name]
    found, stated = deviations(run, 80, draws=40)
    assert np.all(np.abs(found[:, 0]) < stated + STANDARD_ERRORS * found[:, 1])


# (d, context, tasks, prompts, rho, ridge): the correction for real matrices was twice too large.
SHORT = [(12, 3, 30, 170, 0.2, 1e-3), (12, 4, 30, 170, 0.2, 1e-3)]


@pytest.mark.parametrize("row", SHORT)
def test_short_contexts_next_to_the_threshold(row):
    run = dict(zip(("dim", "context", "tasks", "prompts", "rho", "ridge"), row, strict=True))
    found, stated = deviations(run, 500, draws=20)
    assert np.all(np.abs(found[:, 0]) < stated + STANDARD_ERRORS * found[:, 1])
    assert stated < 0.04


# The correction for shared prompts loses its solution at the fifth of these noises.
@pytest.mark.parametrize(("tasks", "least"), [(12, 0.22), (24, 0.1)])
def test_predictions_do_not_jump_with_the_noise(tasks, least):
    """Between noise of .16 and .18 they fell by 3 %, with a stated uncertainty of 100 %."""
    run = {"dim": 18, "context": 4, "tasks": tasks, "prompts": 360, "ridge": 1e-3}
    noise = least + 0.02 * np.arange(7)
    errors = [finite_size_errors(**run, rho=rho, rng=0, draws=2) for rho in noise]
    means = np.array([each.icl.mean for each in errors])
    assert np.max(np.abs(np.diff(means, 2))) < 0.002 * means[0]
    assert max(each.uncertainty for each in errors) < 0.04


def test_fast_drift_of_tasks_with_a_covariance_is_in_doubt():
    """Errors are too low there; 2.457(15) was simulated in 400 runs, 2.395 is predicted."""
    eigenvalues = np.exp(np.linspace(math.log(0.05), math.log(2.5), 17))
    run = {"dim": 17, "context": 25, "tasks": math.inf, "prompts": 132, "rho": 0.1}
    run |= {"ridge": 0.0457, "correlation": 0.73, "drift": 4.0, "rng": 0}
    structured = {"task_covariance": eigenvalues / np.mean(eigenvalues)}
    predicted = finite_size_errors(**run, **structured)
    assert 2.457 / predicted.icl.mean - 1 == pytest.approx(0, abs=predicted.uncertainty)
    assert predicted.uncertainty < 0.07
    # Neither isotropic tasks nor tasks that do not drift are.
    assert finite_size_errors(**run).uncertainty < 0.012
    assert finite_size_errors(**run | {"drift": 0.0}, **structured).uncertainty < 0.012
