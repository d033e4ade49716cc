"""Effective contexts: quadrature, token sums, many digits, the best of all gates."""

import mpmath
import numpy as np
import pytest
from stationary import assert_least

from iclimit.asymptotics.pretraining import icl_error
from iclimit.asymptotics.recurrent import (
    effective_context,
    gated_context,
    gated_error,
    optimal_forgetting,
    optimal_gates,
)

ROUNDING = 1e-12
SETTINGS = [
    {"forgetting": 0.8, "drift": 0.3},
    {"forgetting": 0.3, "drift": 0.8, "correlation": -0.5},
    {"forgetting": 0.5, "drift": 0.5},
    {"drift": 0.3},
    {"forgetting": 0.7, "correlation": 0.6},
    {"forgetting": 1e-4, "drift": 1e-5},
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_effective_context_by_quadrature(setting):
    """Of the definitions of a and q, the double integral by triangles."""
    alpha = 2.5
    rho = 0.2
    omega = setting.get("forgetting", 0.0)
    theta = setting.get("drift", 0.0)
    r = setting.get("correlation", 0.0)
    x, mass = np.polynomial.legendre.leggauss(40)
    x = (1 + x) / 2
    mass = mass / 2
    t = alpha * x[:, None]
    weight = alpha * mass[:, None]
    s = t * x
    both = weight * t * mass
    a = np.sum(weight * np.exp(-(omega + theta) * t))
    kernel = np.exp(-omega * (t + s)) * (np.exp(-theta * (t - s)) - np.exp(-theta * (t + s)))
    noise = (1 + r**2) / (1 - r**2) + rho
    q = noise * np.sum(weight * np.exp(-2 * omega * t)) + 2 * np.sum(both * kernel)
    exact = (1 + rho) * a**2 / q
    assert effective_context(alpha=alpha, rho=rho, **setting) == pytest.approx(exact, rel=ROUNDING)


def test_effective_context_is_the_limit_of_token_sums():
    for setting in SETTINGS:
        alpha = 1.5
        rho = 0.2
        sums = []
        given = {name: setting.get(name, 0.0) for name in ("drift", "correlation")}
        for dim in (200, 400):
            ages = np.arange(int(alpha * dim) - 1, -1, -1)
            gates = np.exp(-setting.get("forgetting", 0.0) / dim * ages)
            sums.append(gated_context(gates, dim=dim, rho=rho, **given).alpha)
        limit = effective_context(alpha=alpha, rho=rho, **setting)
        assert 2 * sums[1] - sums[0] == pytest.approx(limit, rel=2e-5)


def test_effective_context_to_many_digits():
    """Decays of all orders, equal and nearly equal ones."""
    rng = np.random.default_rng(4)
    for k in range(120):
        omega = 10 ** rng.uniform(-9, 2)
        drift = (omega, omega * (1 + 1e-9), 10 ** rng.uniform(-9, 2), 0.0)[k % 4]
        setting = {
            "alpha": 10 ** rng.uniform(-3, 9),
            "rho": 10 ** rng.uniform(-6, 1),
            "forgetting": 0.0 if k % 5 == 0 else omega,
            "drift": drift,
            "correlation": rng.uniform(-0.9, 0.9),
        }
        with mpmath.workdps(60):
            exact = effective_context(**{n: mpmath.mpf(v) for n, v in setting.items()})
        assert effective_context(**setting) == pytest.approx(float(exact), rel=ROUNDING)


def test_without_drift_it_is_a_hyperbolic_tangent():
    alpha = np.array([0.5, 3.0])
    omega = np.array([[0.2], [4.0]])
    x = omega * alpha / 2
    expected = alpha * np.tanh(x) / x
    found = effective_context(alpha=alpha, rho=0.3, forgetting=omega)
    assert found == pytest.approx(expected, rel=ROUNDING)


def test_endless_contexts():
    setting = {"rho": 0.2, "correlation": 0.3}
    for omega, drift in ((0.5, 0.2), (0.3, 0.0)):
        endless, long = (
            effective_context(alpha=alpha, forgetting=omega, drift=drift, **setting)
            for alpha in (np.inf, 1e3)
        )
        assert endless == pytest.approx(long, rel=ROUNDING)
        gates = {"forgetting": omega, "drift": drift}
        long = gated_error(alpha=1e3, **gates, **setting)
        assert gated_error(alpha=np.inf, **gates, **setting) == pytest.approx(long, rel=ROUNDING)
    assert effective_context(alpha=np.inf, drift=0.1, **setting) == 0
    assert effective_context(alpha=np.inf, **setting) == np.inf
    assert gated_error(alpha=np.inf, **setting) == 0.2


def test_error_is_that_of_pretraining_on_everything():
    """Without a limit of prompts and tasks, at the effective context."""
    setting = {"alpha": 2.0, "rho": 0.2, "forgetting": 0.8, "drift": 0.3}
    pretrained = icl_error(tau=np.inf, alpha=effective_context(**setting), kappa=np.inf, rho=0.2)
    assert gated_error(**setting) == pytest.approx(pretrained, rel=ROUNDING)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_best_forgetting_is_unbeaten(correlation):
    """By other constant gates, and by any gates at all."""
    setting = {"rho": 0.25, "drift": 0.2, "correlation": correlation}
    best = optimal_forgetting(**setting)
    scan = effective_context(alpha=np.inf, forgetting=np.geomspace(0.01, 10, 2001), **setting)
    assert scan.max() <= best.alpha * (1 + ROUNDING)
    assert scan.max() == pytest.approx(best.alpha, rel=1e-5)
    at_best = gated_error(alpha=np.inf, forgetting=best.forgetting, **setting)
    assert at_best == pytest.approx(best.error, rel=ROUNDING)
    free = [optimal_gates(context=10 * dim, dim=dim, **setting).alpha for dim in (40, 80)]
    assert 2 * free[1] - free[0] == pytest.approx(best.alpha, rel=2e-3)


@pytest.mark.parametrize(("rho", "drift", "correlation"), [(0.2, 0.3, -0.3), (0.9, 0.8, 0.5)])
def test_best_forgetting_is_stationary(rho, drift, correlation):
    setting = {"rho": rho, "drift": drift, "correlation": correlation}
    best = optimal_forgetting(**setting)
    assert_least(
        lambda omega: gated_error(alpha=np.inf, forgetting=omega, **setting),
        [best.forgetting],
        best.error,
    )
