"""The prediction by eigenvalues against the one by matrices, and its rules against nodes."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    gamma_rule,
    quadratic_form_variance,
    task_set_law,
)
from iclimit.asymptotics.pretraining.spectral_equivalent import (
    _fraction,
    _query_rule,
    _Summaries,
    spectral_errors,
)

DIFFERENCE = 3.0
"""Largest relative difference of the two predictions, times d^2; measured: 2.0 in 320 points."""


def sphere(rng, tasks, dim):
    w = rng.standard_normal((tasks, dim))
    return w * math.sqrt(dim) / np.linalg.norm(w, axis=1, keepdims=True)


def spectrum(w):
    values, basis = np.linalg.eigh(w.T @ w / len(w))
    return np.maximum(values, 0), (w.mean(axis=0) @ basis) ** 2


def random_run(rng, dim):
    def between(low, high):
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    return {
        "context": round(between(6, 100 * dim)),
        "prompts": round(between(0.1, 10) * dim**2),
        "rho": float(rng.choice([0.0, 0.01, 0.5])),
        "ridge": float(rng.choice([0.0, 1e-6, 0.01, 0.3, 10])),
    }


@pytest.mark.parametrize("dim", [12, 32, 64])
def test_equals_the_prediction_by_matrices(dim):
    rng = np.random.default_rng(dim)
    for _ in range(25):
        run = random_run(rng, dim)
        w = sphere(rng, int(rng.integers(2, 6 * dim)), dim)
        expected = finite_size_errors(dim=dim, tasks=w, **run, approach="moments")
        found = spectral_errors(*spectrum(w), tasks=len(w), **run)
        wanted = (expected.icl.mean, expected.idg.mean)
        assert found == pytest.approx(wanted, rel=DIFFERENCE / dim**2), (len(w), run)


@pytest.mark.parametrize("tasks", [3, 12, 40])
@pytest.mark.parametrize("xi", [1e-3, 0.3, 20.0])
def test_traces_are_those_of_the_matrices(tasks, xi):
    dim = 12
    context = 15
    rho = 0.3
    w = sphere(np.random.default_rng(tasks), tasks, dim)
    law = task_set_law(w, context, rho)
    G = law.second
    A = law.cross
    inverse = np.linalg.inv(G + xi * np.eye(dim + 1))
    gamma = A.T @ inverse
    share = G @ inverse
    fresh = np.diag([2.0] * dim + [3.0])
    best = np.linalg.solve(G, A)
    found = _Summaries(spectrum(w), (float(tasks), context, rho), xi)
    head, column, trace, product = found.weights()
    bare = _Summaries(spectrum(w), (float(tasks), context, rho), 0.0)
    pairs = {
        "inverse": (found.inverse_trace(), np.trace(inverse)),
        "trace": (found.trace(), np.trace(G)),
        "freedom": (found.freedom(), np.trace(share)),
        "second freedom": (found.second_freedom(), np.trace(share @ share)),
        "transfer": (found.transferred(2.0, 3.0), np.trace(fresh @ inverse @ share)),
        "head": (head, np.sum(gamma[:, :-1] ** 2)),
        "column": (column, np.sum(gamma[:, -1] ** 2)),
        "trace of the head": (trace, np.trace(gamma[:, :-1])),
        "product": (product, np.trace(gamma @ A)),
        "misfit": (bare.misfit(), 1 - np.vdot(A, best) / dim),
    }
    for name, (mine, expected) in pairs.items():
        assert mine == pytest.approx(expected, rel=1e-9), name


def test_variance_of_opposite_tasks_of_known_spread():
    """Without a mean task all but the spread over the tasks is exact."""
    dim = 12
    context = 15
    rho = 0.3
    xi = 0.4
    half = sphere(np.random.default_rng(5), 7, dim)
    w = np.concatenate([half, -half])
    law = task_set_law(w, context, rho)
    inverse = np.linalg.inv(law.second + xi * np.eye(dim + 1))
    found = _Summaries(spectrum(w), (14.0, context, rho), xi)
    forms = np.einsum("ki,ij,kj->k", w, inverse[:-1, :-1], w)
    found._spread = lambda: np.var(forms)
    assert found.variance() == pytest.approx(quadratic_form_variance(law, inverse), rel=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("prompts", [300, 4000])
def test_infinitely_many_tasks(prompts, ridge):
    run = {"context": 40, "prompts": prompts, "rho": 0.2, "ridge": ridge, "tasks": math.inf}
    icl, idg = spectral_errors(np.ones(32), np.zeros(32), **run)
    expected = finite_size_errors(dim=32, **run, approach="moments")
    assert icl == pytest.approx(idg, rel=1e-12)
    assert icl == pytest.approx(expected.icl.mean, rel=DIFFERENCE / 32**2)


def test_arrays_and_the_interpolation_threshold():
    w = sphere(np.random.default_rng(0), 10, 16)
    prompts = np.array([[100, 16 * 17], [16 * 17, 400]])
    ridge = np.array([[0.0, 0.0], [1e-3, 0.2]])
    run = {"tasks": 10, "context": 20, "rho": 0.1}
    icl, idg = spectral_errors(*spectrum(w), **run, prompts=prompts, ridge=ridge)
    assert icl.shape == idg.shape == (2, 2)
    assert icl[0, 1] == idg[0, 1] == math.inf
    for place in [(0, 0), (1, 0), (1, 1)]:
        alone = spectral_errors(*spectrum(w), **run, prompts=prompts[place], ridge=ridge[place])
        assert alone == pytest.approx((icl[place], idg[place]), rel=1e-12)


@pytest.mark.parametrize("variance", [1e-3, 0.1, 0.7, 1.5])
@pytest.mark.parametrize("t", [0.0, 1e-3, 0.4, 30.0, 1e6])
def test_the_fraction_is_the_gauss_rule(t, variance):
    u, weight = gamma_rule(variance)
    expected = weight @ (u / (t + u)), weight @ (u / (t + u) ** 2)
    assert _fraction(t, variance) == pytest.approx(expected, rel=1e-12)


def test_the_query_has_a_gauss_rule_of_three_nodes():
    for dim in (2, 12, 400):
        nodes, weights = _query_rule(np.array(float(dim)))
        expected, expected_weights = gamma_rule(2 / dim, 3)
        order = np.argsort(nodes)
        assert nodes[order] == pytest.approx(expected, rel=1e-12)
        assert weights[order] == pytest.approx(expected_weights, rel=1e-11)
