"""Queries that are correlated with the context: moments and predictions against prompts."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.asymptotics.pretraining.deterministic_equivalent import fresh_task_law, task_set_law
from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts
from iclimit.asymptotics.recurrent import correlated_query_errors
from iclimit.simulate.pretraining import simulate_errors

D, RHO, COUNT = 4, 0.3, 60_000
GATES = np.array([0.4, 1.0, 0.7, 0.2, 0.9, 1.0])
LENGTH = len(GATES)


def sphere(rng, count):
    tasks = rng.standard_normal((count, D))
    return math.sqrt(D) * tasks / np.linalg.norm(tasks, axis=1, keepdims=True)


def drawn(rng, tasks, drift, r):
    """Queries, summaries and labels without noise, by covariance matrices of tokens and tasks."""
    times = np.arange(LENGTH + 1)
    apart = np.abs(times[:, None] - times)

    def path(covariance):
        root = np.linalg.cholesky(covariance)
        return np.einsum("ij,njd->nid", root, rng.standard_normal((COUNT, len(root), D)))

    x = path(r**apart) / math.sqrt(D)
    kept = np.exp(-drift / D * times[:0:-1])
    changed = np.exp(-drift / D * apart[1:, 1:]) - kept[:, None] * kept
    own = kept[:, None] * tasks[:, None] + path(changed + 1e-14 * np.eye(LENGTH))
    y = np.sum(x[:, :-1] * own, axis=2) + math.sqrt(RHO) * rng.standard_normal((COUNT, LENGTH))
    head = D * np.mean((GATES * y)[:, :, None] * x[:, :-1], axis=1)
    h = np.column_stack([head, np.mean(GATES * y**2, axis=1)])
    return x[:, -1], h, np.sum(x[:, -1] * tasks, axis=1)


@pytest.mark.parametrize(("drift", "r"), [(0.0, 0.6), (0.0, 0.95), (0.8, 0.7)])
@pytest.mark.parametrize("given", [False, True])
def test_moments_against_prompts(drift, r, given):
    """Without drift exact, apart from third moments of given tasks, which hardly matter here."""
    rng = np.random.default_rng(5)
    tasks = sphere(rng, 5) if given else None
    own = tasks[rng.integers(0, 5, COUNT)] if given else sphere(rng, COUNT)
    contexts = TimedContexts(D, RHO, tuple(GATES), drift, r, True)
    law = fresh_task_law(D, len(GATES), RHO, "sphere", contexts)
    if given:
        law = task_set_law(tasks, len(GATES), RHO, contexts)
    gamma = 0.4 * rng.standard_normal((D, D + 1)) + 0.5 * np.eye(D, D + 1)
    if drift:
        gamma[:, -1] = 0
    x, h, y = drawn(rng, own, drift, r)
    guess = np.sum((x @ gamma) * h, axis=1)
    features = law.features
    for samples, theory in (
        (guess**2, np.vdot(gamma, features.applied(gamma)) / D),
        (guess * y, np.vdot(gamma, features.target) / D),
        ((guess - y) ** 2 + RHO, features.error(gamma, law.label)),
    ):
        assert abs(samples.mean() - theory) < 4 * samples.std() / math.sqrt(COUNT)


@pytest.mark.machine
def test_best_matrix_solves_the_dense_system():
    rng = np.random.default_rng(2)
    law = task_set_law(
        sphere(rng, 3), len(GATES), RHO, TimedContexts(D, RHO, tuple(GATES), 0.4, 0.7, True)
    )
    basis = np.eye(D * (D + 1)).reshape(-1, D, D + 1)
    dense = np.array([law.features.applied(each).ravel() for each in basis])
    assert dense == pytest.approx(dense.T, abs=1e-14)
    expected = np.linalg.solve(dense + 0.2 * np.eye(len(dense)), law.features.target.ravel())
    assert law.features.best(0.2).ravel() == pytest.approx(expected, rel=1e-8)


RUN = {"dim": 12, "context": 24, "tasks": 18, "prompts": 216, "rho": 0.1, "ridge": 0.1}


@pytest.mark.parametrize(
    "setting",
    [
        {"correlation": 0.6},
        {"correlation": 0.5, "gates": 0.96 ** np.arange(23, -1, -1.0), "test_correlation": 0.2},
        {"correlation": 0.7, "tasks": math.inf},
    ],
)
def test_predicts_runs(setting):
    run = RUN | setting | {"correlated_query": True}
    predicted = finite_size_errors(**run, rng=0, draws=10)
    runs = simulate_errors(**run, rng=1, repeats=80)
    assert predicted.uncertainty < 0.03
    for name in ("icl", "idg"):
        expected = getattr(predicted, name)
        estimate = getattr(runs, name)
        error = math.hypot(expected.standard_error, estimate.standard_error)
        allowed = predicted.uncertainty * expected.mean + 3 * error
        assert abs(estimate.mean - expected.mean) < allowed
        assert allowed < 0.08 * expected.mean


def test_tends_to_the_limit():
    """Extrapolated from two sizes, and of the order 1/d away from it at either."""
    limit = {"tau": 1.5, "alpha": 2, "kappa": 1.5, "rho": 0.1, "ridge": 0.1, "correlation": 0.6}
    expected = correlated_query_errors(**limit)
    setting = {"rho": 0.1, "ridge": 0.1, "correlation": 0.6, "correlated_query": True, "rng": 0}
    near, far = (
        finite_size_errors(
            dim=dim,
            context=2 * dim,
            tasks=3 * dim // 2,
            prompts=3 * dim**2 // 2,
            draws=4,
            approach="moments",
            **setting,
        )
        for dim in (96, 48)
    )
    for name in ("icl", "idg"):
        close, away, at = (getattr(each, name) for each in (near, far, expected))
        assert 2 * close.mean - away.mean == pytest.approx(at, rel=6e-3)
        assert close.mean > 1.01 * at


def test_an_independent_query_is_the_case_of_no_correlation():
    plain, continued = (
        finite_size_errors(**RUN, rng=0, draws=2, correlated_query=value)
        for value in (False, True)
    )
    assert plain == continued
