"""Correlated queries: a dense operator on spectral nodes, exact cases, many digits."""

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import icl_error, idg_error
from iclimit.asymptotics.recurrent import correlated_query_errors, effective_context

SETTINGS = [
    {"tau": 2, "alpha": 3, "kappa": 1.5, "rho": 0.1, "ridge": 0.05, "correlation": 0.6},
    {"tau": 0.5, "alpha": 2, "kappa": 0.7, "rho": 0.2, "ridge": 0.1, "correlation": -0.4},
    {"tau": 0.6, "alpha": 1.5, "kappa": 2, "rho": 0.3, "correlation": 0.8},
    {"tau": 3, "alpha": 4, "kappa": 0.8, "rho": 0.1, "correlation": 0.5, "forgetting": 0.8},
    {"tau": 0.6, "alpha": 1.5, "kappa": 2, "rho": 0.3, "ridge": 0.05, "correlation": 0.6},
]
SIZE = 600


def spectrum(kappa):
    """Eigenvalues of the Marchenko-Pastur law and their weights."""
    edges = (1 + np.array([-1, 1]) / np.sqrt(kappa)) ** 2
    angle = (np.arange(SIZE) + 0.5) * np.pi / SIZE
    c = edges.mean() + np.cos(angle) * np.ptp(edges) / 2
    weight = kappa * (np.sin(angle) * np.ptp(edges) / 2) ** 2 / (2 * c) / SIZE
    if kappa < 1:
        c, weight = np.append(c, 0.0), np.append(weight, 1 - kappa)
    return c, weight


def sums_over_tokens(alpha, rho, r, omega, dim=4000):
    """Signal a, noise q and spike f1 and f2 from their definitions, for a long context."""
    ages = np.arange(1, round(alpha * dim) + 1)
    gates = np.exp(-omega * (ages - 1) / dim)
    near = slice(0, 400)  # tokens further away do not see the query
    g, k = gates[near], r ** ages[near]
    K = float(r) ** np.abs(ages[near][:, None] - ages[near])
    f1 = (g * k) @ (K + rho * np.eye(len(k))) @ (g * k) / alpha**2
    f2 = g @ k**2 / alpha
    lags = np.arange(400)
    pairs = [gates[lag:] @ gates[: len(gates) - lag] * r ** (2 * lag) for lag in lags]
    q = (2 * sum(pairs) - pairs[0] + rho * pairs[0]) / alpha**2 / dim
    return np.mean(gates), q, f1, f2


def dense_errors(*, tau, alpha, kappa, rho, correlation, ridge=0.0, forgetting=0.0):
    """Ridge regression on the operator as a matrix; its coordinates are those on eigenvectors."""
    a, q, f1, f2 = sums_over_tokens(alpha, rho, correlation, forgetting)
    c, p = spectrum(kappa)
    G = a**2 * c + q
    features = np.diag(G) + np.outer(np.ones_like(c), p * (a * f2 * c + f1))
    features += np.outer(a * f2 * c, p)

    def excess(log_xi):
        xi = np.exp(log_xi)
        return tau * (1 - ridge / xi) - p @ (G / (G + xi))

    xi = 0.0 if ridge == 0 and tau > 1 else np.exp(brentq(excess, -30, 5, xtol=1e-14))
    target = a * c + f2
    X = np.linalg.solve(features + xi * np.eye(len(c)), target)
    df2 = p @ (G / (G + xi)) ** 2 / tau
    idg = (1 + rho - 2 * p @ (target * X) + p @ (X * (features @ X))) / (1 - df2)
    trace, square = p @ X, p @ X**2
    icl = 1 + rho - 2 * (a + f2) * trace + (a**2 + q) * square + (f1 + 2 * a * f2) * trace**2
    return icl + idg * (a**2 + q) * (p @ (G / (G + xi) ** 2)) / tau, idg


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
    alpha, signal = effective_context(alpha=3, rho=0.1, forgetting=0.7), -np.expm1(-2.1) / 2.1
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
