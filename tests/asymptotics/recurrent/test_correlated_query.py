"""Correlated queries: a dense operator on spectral nodes, exact cases, many digits."""

import mpmath
import numpy as np
import pytest
from dense_operator import dense_errors, sums_over_tokens

from iclimit.asymptotics.pretraining import icl_error, idg_error
from iclimit.asymptotics.recurrent import correlated_query_errors, effective_context

SETTINGS = [
    {"tau": 2, "alpha": 3, "kappa": 1.5, "rho": 0.1, "ridge": 0.05, "correlation": 0.6},
    {"tau": 0.5, "alpha": 2, "kappa": 0.7, "rho": 0.2, "ridge": 0.1, "correlation": -0.4},
    {"tau": 0.6, "alpha": 1.5, "kappa": 2, "rho": 0.3, "correlation": 0.8},
    {"tau": 3, "alpha": 4, "kappa": 0.8, "rho": 0.1, "correlation": 0.5, "forgetting": 0.8},
    {"tau": 0.6, "alpha": 1.5, "kappa": 2, "rho": 0.3, "ridge": 0.05, "correlation": 0.6},
]


def test_against_a_dense_operator():
    """Not divided by the signal a, with sums over tokens at d = 4000."""
    for setting in SETTINGS:
        found = correlated_query_errors(**setting)
        icl, idg = dense_errors(**setting)
        assert found.icl == pytest.approx(icl, rel=2e-3)
        assert found.idg == pytest.approx(idg, rel=2e-3)


def test_independent_tokens_are_those_of_pretraining():
    setting = {"tau": np.array([0.5, 2.0]), "kappa": 1.5, "rho": 0.1, "ridge": [0.0, 0.3]}
    found = correlated_query_errors(alpha=3, **setting, correlation=0)
    assert found.icl == pytest.approx(icl_error(alpha=3, **setting), rel=1e-12)
    assert found.idg == pytest.approx(idg_error(alpha=3, **setting), rel=1e-12)
    # Gates rescale the summary: a ridge of a^2 lambda acts as lambda.
    alpha = effective_context(alpha=3, rho=0.1, forgetting=0.7)
    signal = -np.expm1(-2.1) / 2.1
    gated = correlated_query_errors(
        tau=2, alpha=3, kappa=1.5, rho=0.1, correlation=0, ridge=0.3 * signal**2, forgetting=0.7
    )
    expected = icl_error(tau=2, alpha=alpha, kappa=1.5, rho=0.1, ridge=0.3)
    assert gated.icl == pytest.approx(expected, rel=1e-12)


def test_many_prompts_and_tasks_leave_the_best_matrix():
    """The best multiple of the identity, by its normal equation."""
    a, q, f1, f2 = sums_over_tokens(2.0, 0.1, 0.7, 0.0)
    best = 1.1 - (a + f2) ** 2 / (a**2 + q + f1 + 2 * a * f2)
    found = correlated_query_errors(tau=np.inf, alpha=2, kappa=np.inf, rho=0.1, correlation=0.7)
    assert found.icl == pytest.approx(best, rel=1e-3)
    assert found.idg == pytest.approx(found.icl, rel=1e-12)


def test_to_many_digits():
    setting = {"tau": 0.5, "alpha": 2, "kappa": 0.7, "rho": 0.2, "ridge": 0.1, "correlation": 0.4}
    with mpmath.workdps(40):
        exact = correlated_query_errors(**{k: mpmath.mpf(v) for k, v in setting.items()})
    found = correlated_query_errors(**setting)
    assert found.icl == pytest.approx(float(exact.icl), rel=1e-12)
    assert found.idg == pytest.approx(float(exact.idg), rel=1e-12)


def test_the_query_helps():
    """A correlated query is answered better than an independent one after the same tokens."""
    setting = {"tau": 4, "kappa": 10, "rho": 0.01}
    for r in (0.3, 0.9):
        alpha = effective_context(alpha=4, rho=0.01, correlation=r)
        found = correlated_query_errors(**setting, alpha=4, correlation=r).icl
        assert found < icl_error(**setting, alpha=alpha)


def test_the_threshold_without_a_ridge():
    """Both errors are infinite at tau = 1 and grow as its inverse distance beside it."""
    rng = np.random.default_rng(0)
    setting = {
        "alpha": 10 ** rng.uniform(-1, 2, 200),
        "kappa": 10 ** rng.uniform(-1, 2, 200),
        "rho": rng.uniform(0, 2, 200),
        "correlation": rng.uniform(-0.95, 0.95, 200),
        "forgetting": rng.uniform(0, 3, 200),
    }
    found = correlated_query_errors(tau=1, **setting)
    assert np.all(np.isposinf([found.icl, found.idg]))
    for tau in (1 + 1e-9, 1 - 1e-9):
        near = correlated_query_errors(tau=tau, **setting)
        for place in (0, 57, 123):
            with mpmath.workdps(50):
                point = {name: mpmath.mpf(each[place]) for name, each in setting.items()}
                exact = correlated_query_errors(tau=mpmath.mpf(tau), **point)
            assert near.icl[place] == pytest.approx(float(exact.icl), rel=1e-12)
            assert near.idg[place] == pytest.approx(float(exact.idg), rel=1e-12)
    with mpmath.workdps(30):
        point = {name: mpmath.mpf(each[0]) for name, each in setting.items()}
        assert correlated_query_errors(tau=mpmath.mpf(1), **point).idg == mpmath.inf
