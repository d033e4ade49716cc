"""Contexts with gates, drift and correlated inputs: moments, quadrature, predicted runs."""

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread
from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    quadratic_form_variance,
    task_set_law,
)
from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts
from iclimit.simulate.pretraining import simulate_errors

D, RHO = 4, 0.3
GATES = (0.4, 1.0, 0.7, 0.2, 0.9, 1.0)
STANDARD_ERRORS = 4.5
# Correlations by distance, of no autoregression of first order.
KERNEL = (1.0, 0.5, 0.1, -0.15)
# All of drift, correlated inputs and gates, and correlated inputs alone, which have other draws.
CASES = {
    **{"drifting": (0.8, 0.5), "steady": (0.0, 0.6)},
    **{"drifting kernel": (0.8, KERNEL), "kernel": (0.0, KERNEL)},
}


def sampled(contexts, tasks, seed=0, innovations=None):
    """Summaries of prompts of those tasks (count, d), by matrices of covariances of the tokens."""
    drift = contexts.drift
    gates = np.array(contexts.gates)
    rng, length, (count, D) = np.random.default_rng(seed), len(gates), tasks.shape
    times = np.arange(length + 1)
    apart = np.abs(times[:, None] - times)
    kernel = np.zeros(length)
    if isinstance(contexts.correlation, tuple):
        kernel[: len(KERNEL)] = contexts.correlation
    else:
        kernel = contexts.correlation ** times[:length]
    x = np.einsum(
        "ij,njd->nid",
        np.linalg.cholesky(toeplitz(kernel)),
        rng.standard_normal((count, length, D)) / math.sqrt(D),
    )
    kept = np.exp(-drift / D * (length - times[:length]))
    covariance = np.exp(-drift / D * apart[:length, :length]) - kept[:, None] * kept
    root = np.linalg.cholesky(covariance + 1e-14 * np.eye(length))
    changes = rng.standard_normal((count, length, D))
    if innovations is not None:
        changes = changes @ np.linalg.cholesky(innovations).T
    changed = np.einsum("ij,njd->nid", root, changes)
    y = np.sum(x * (kept[:, None] * tasks[:, None] + changed), axis=2)
    y += math.sqrt(RHO) * rng.standard_normal((count, length))
    head = D * np.mean((gates * y)[:, :, None] * x, axis=1)
    return np.column_stack([head, np.mean(gates * y**2, axis=1)])


def assert_mean(samples, expected):
    deviation = samples.std(axis=0) + 1e-12
    z = (samples.mean(axis=0) - expected) / (deviation / math.sqrt(len(samples)))
    assert np.max(np.abs(z)) < STANDARD_ERRORS


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("structured", [False, True])
def test_moments_against_contexts(case, structured):
    """Of tasks on the sphere, and of tasks of any norm and drift of any covariance."""
    rng = np.random.default_rng(3)
    tasks = rng.standard_normal((2, D))
    innovations = None
    mean = 1.0
    if structured:
        innovations = np.diag([2.0, 0.3, 0.8, 0.5]) + 0.2
        mean = np.trace(innovations) / D
    else:
        tasks *= math.sqrt(D) / np.linalg.norm(tasks, axis=1, keepdims=True)
    own = tasks[rng.integers(0, 2, 50_000)]
    contexts = TimedContexts(D, RHO, GATES, *CASES[case], innovation=mean)
    h = sampled(contexts, own, innovations=innovations)
    law = task_set_law(tasks, len(GATES), RHO, contexts, innovations)
    assert_mean(h[:, :, None] * h[:, None, :], law.second)
    assert_mean(h[:, :, None] * own[:, None, :], law.cross)
    assert law.label == pytest.approx(np.mean(np.sum(tasks**2, axis=1)) / D + RHO, rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_variance_of_a_quadratic_form_against_contexts(case):
    """In contexts of a usual length, to the accuracy of their draws."""
    rng = np.random.default_rng(4)
    d = 8
    contexts = TimedContexts(d, RHO, tuple(np.linspace(0.5, 1, 24)), *CASES[case])
    task = rng.standard_normal((1, d))
    task *= math.sqrt(d) / np.linalg.norm(task)
    h = sampled(contexts, np.repeat(task, 20_000, axis=0))
    form = np.linalg.inv(h.T @ h / len(h) + 0.1 * np.eye(d + 1))
    values = np.einsum("ni,ij,nj->n", h, form, h)
    found = quadratic_form_variance(task_set_law(task, 24, RHO, contexts), form)
    # Measured: at most 5 %, of which 2 % are the sampling of either.
    assert found == pytest.approx(values.var() / values.mean() ** 2, rel=0.08)


@pytest.mark.parametrize(
    ("tasks", "ridge", "shift"),
    [
        (24, 0.05, {}),
        (math.inf, 0.05, {}),
        (24, 0.01, {"test_drift": 0.0, "test_correlation": 0.2, "test_rho": 0.3}),
    ],
)
def test_predicts_runs(tasks, ridge, shift):
    """Test prompts with fresh tasks may have other gates, drift and correlation."""
    dim = 16
    context = 48
    run = {"dim": dim, "context": context, "tasks": tasks, "prompts": 400, "rho": 0.1}
    run |= {"ridge": ridge, "drift": 0.3, "correlation": 0.5}
    run["gates"] = 0.95 ** np.arange(context - 1, -1, -1.0)
    if shift:
        shift = shift | {"test_context": 64, "test_gates": np.linspace(0, 1, 64)}
    predicted = finite_size_errors(**run, **shift, rng=0, draws=10)
    runs = simulate_errors(**run, **shift, rng=0, repeats=40)
    assert predicted.uncertainty < 0.03
    for name in ("icl", "idg"):
        expected = getattr(predicted, name)
        estimate = getattr(runs, name)
        error = math.hypot(expected.standard_error, estimate.standard_error)
        allowed = predicted.uncertainty * expected.mean + 3 * error
        assert abs(estimate.mean - expected.mean) < allowed
        assert allowed < 0.08 * expected.mean


@pytest.mark.parametrize("setting", [{}, {"drift": 0.3}, {"correlated_query": True}])
def test_predicts_runs_of_any_kernel(setting):
    """Also of one that has no Cholesky factor: its least eigenvalue is 0 but for rounding."""
    run = {"dim": 12, "context": 30, "tasks": 18, "prompts": 250, "rho": 0.1, "ridge": 0.1}
    smooth = np.exp(-(np.arange(30.0) ** 2) / 18)
    for kernel in (KERNEL, smooth)[: 1 if setting else 2]:
        run |= setting | {"correlation": kernel, "gates": np.linspace(0.3, 1, 30)}
        predicted = finite_size_errors(**run, rng=0, draws=20)
        runs = simulate_errors(**run, rng=0, repeats=60)
        for name in ("icl", "idg"):
            expected = getattr(predicted, name)
            estimate = getattr(runs, name)
            error = math.hypot(expected.standard_error, estimate.standard_error)
            allowed = predicted.uncertainty * expected.mean + 3 * error
            assert abs(estimate.mean - expected.mean) < allowed
            assert allowed < 0.08 * expected.mean


@pytest.mark.parametrize("setting", [{}, {"drift": 0.3}, {"correlated_query": True}])
def test_an_autoregression_by_distance_is_its_number(setting):
    run = {"dim": 8, "context": 20, "tasks": 12, "prompts": 100, "rho": 0.1, "ridge": 0.05}
    run |= setting | {"gates": np.linspace(0.3, 1, 20)}
    pairs = [(-0.6, (-0.6) ** np.arange(30)), (0.3, 0.3 ** np.arange(21))]
    for first, second in zip(*pairs, strict=True):
        kernels = {"correlation": first, "test_correlation": second}
        errors = finite_size_errors(**run, **kernels, rng=0, draws=2)
        sampled = simulate_errors(**run, **kernels, rng=0, repeats=2)
        pairs.append([getattr(each, n) for each in (errors, sampled) for n in ("icl", "idg")])
    for number, by_distance in zip(*pairs[2:], strict=True):
        np.testing.assert_allclose(by_distance.samples, number.samples, rtol=1e-9)


def test_two_pairs_that_count_are_interpolated():
    gates = [0, 0, 0, 0.5, 1]
    run = {"dim": 8, "context": 5, "tasks": 4, "prompts": 40, "rho": 0.1, "gates": gates}
    assert finite_size_errors(**run, rng=0, draws=2).icl.mean == math.inf
    assert finite_size_spread(**run, rng=0, draws=2).icl == math.inf


RUN = {"dim": 8, "context": 5, "tasks": 4, "prompts": 100, "rho": 0.1}
QUERY = {"correlation": 0.2, "correlated_query": True}


def test_refuses_what_it_does_not_know():
    for setting, message in (
        ({"gates": [0.5] * 4}, "gates must have shape"),
        ({"gates": [0.5] * 4 + [1.5]}, "gates must be"),
        ({"gates": [0.0] * 5}, "gates must not all be zero"),
        ({"correlation": 1.0}, "correlation must be"),
        (
            {"correlation": [0.5, 0.2]},
            "correlation must be a number or begin with 1, that of a token with itself",
        ),
        ({"correlation": [1, 0.9]}, "correlation must have no negative eigenvalue over 5 tokens"),
        ({"correlation": [1, math.nan]}, "correlation must be finite"),
        ({"correlation": np.eye(5)}, "correlation must have shape"),
        ({"test_correlation": [1, -0.9]}, "test_correlation must have no negative"),
        ({"drift": -1}, "drift must be"),
        ({"gates": [0.5] * 5, "test_context": 6}, "gates must have shape"),
        ({**QUERY, "task_law": "gaussian"}, "task_law must be sphere"),
        ({**QUERY, "input_covariance": np.ones(8)}, "input_covariance must be None"),
        ({**QUERY, "tasks": np.ones((2, 8)) / 2}, "tasks must have squared norm 8"),
    ):
        with pytest.raises(ValueError, match=message):
            finite_size_errors(**(RUN | setting), rng=0, draws=1)
