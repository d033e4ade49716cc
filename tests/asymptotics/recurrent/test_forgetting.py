"""Regression with forgetting: exact averages given inputs, the ridge curve, finer rules."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from stationary import assert_least

from iclimit.asymptotics.pretraining import bayes_error
from iclimit.asymptotics.recurrent import forgetting, forgetting_error, optimal_memory

ROUNDING = 1e-12


def exact_error(dim, alpha, rho, penalty, omega, theta, rng):
    """Error in one context, averaged over tasks, noise and queries."""
    context = int(alpha * dim)
    x = rng.standard_normal((context, dim)) / np.sqrt(dim)
    ages = np.arange(context, 0, -1) / dim
    gates = np.exp(-omega * (ages - 1 / dim))
    # The memory is B y.
    B = np.linalg.solve(x.T @ (gates[:, None] * x) + penalty * np.eye(dim), x.T * gates)
    kernel = np.exp(-theta * abs(ages[:, None] - ages))
    second = np.sum((B.T @ B) * (kernel * (x @ x.T) + rho * np.eye(context)))
    first = np.sum(B.T * x * np.exp(-theta * ages)[:, None])
    return rho + 1 - 2 * first / dim + second / dim


@pytest.mark.parametrize(
    "setting", [(1.5, 0.6, 0.15, 1.2, 0.5), (3.0, 0.05, 0.05, 0.4, 0.8), (2.5, 0.2, 0.4, 0.7, 0.0)]
)
def test_regressions_approach_the_limit(setting):
    """Three sizes; what is left of an extrapolation in 1/d is far below its change."""
    rng = np.random.default_rng(7)
    means = [
        np.mean([exact_error(dim, *setting, rng) for _ in range(count)])
        for dim, count in ((20, 400), (40, 120), (80, 40))
    ]
    alpha, rho, penalty, omega, theta = setting
    limit = forgetting_error(alpha=alpha, rho=rho, penalty=penalty, forgetting=omega, drift=theta)
    fit = np.polynomial.Polynomial.fit([1 / 20, 1 / 40, 1 / 80], means, 1)
    assert fit(0.0) == pytest.approx(limit, rel=4e-3)


def test_without_forgetting_it_is_the_ridge_curve():
    alpha = np.array([0.3, 1.0, 4.0])
    rho = np.array([[0.01], [1.0]])
    bayes = bayes_error(alpha=alpha, rho=rho)
    found = forgetting_error(alpha=alpha, rho=rho, penalty=rho)
    assert found == pytest.approx(bayes, rel=ROUNDING)
    best = optimal_memory(alpha=alpha, rho=rho)
    assert best.error == pytest.approx(bayes, rel=ROUNDING)
    assert not np.any(best.forgetting)
    assert np.array_equal(best.penalty, np.broadcast_to(rho, (2, 3)))


def test_without_penalty():
    """Least squares beyond alpha = 1; interpolation below, where weights do not matter."""
    alpha = np.array([0.4, 1.0, 3.0])
    rho = 0.2
    expected = rho + np.array([0.6 + 0.08 / 0.6, np.inf, 0.1])
    plain = forgetting_error(alpha=alpha, rho=rho, penalty=0)
    assert plain == pytest.approx(expected, rel=ROUNDING)
    weighted = forgetting_error(alpha=alpha, rho=rho, penalty=0, forgetting=1.0)
    assert weighted[:2] == pytest.approx(expected[:2], rel=ROUNDING)
    assert weighted[2] > expected[2]
    assert forgetting_error(alpha=1, rho=0, penalty=0) == 0
    near = forgetting_error(alpha=[0.4, 3.0], rho=rho, penalty=1e-9, forgetting=1.0, drift=0.3)
    at = forgetting_error(alpha=[0.4, 3.0], rho=rho, penalty=0, forgetting=1.0, drift=0.3)
    assert near == pytest.approx(at, rel=1e-7)


def test_drift_is_continuous_at_zero():
    setting = {"alpha": 2.0, "rho": 0.2, "penalty": 0.1, "forgetting": [0.0, 0.8]}
    small = forgetting_error(drift=1e-9, **setting)
    assert small == pytest.approx(forgetting_error(**setting), rel=1e-8)
    assert np.all(small > forgetting_error(**setting))


def test_rule_has_converged(monkeypatch):
    """Against half as many panels with more nodes, for rates of all orders."""
    rng = np.random.default_rng(8)
    names = ("alpha", "rho", "penalty", "forgetting", "drift")
    ends = ((-1, 2), (-2, 1), (-4, 1), (-2, 1), (-2, 1))
    setting = {name: 10 ** rng.uniform(*end, 200) for name, end in zip(names, ends, strict=True)}
    coarse = forgetting_error(**setting)
    monkeypatch.setattr(forgetting, "_NODES", 32)
    monkeypatch.setattr(forgetting, "_PANELS", 24)
    forgetting._rule.cache_clear()
    fine = forgetting_error(**setting)
    forgetting._rule.cache_clear()
    assert coarse == pytest.approx(fine, rel=1e-10)


def test_best_memory_is_unbeaten():
    setting = {"alpha": 3.0, "rho": 0.3, "drift": 0.4}
    best = optimal_memory(**setting)

    def least(omega):
        def error(logarithm):
            return forgetting_error(forgetting=omega, penalty=np.exp(logarithm), **setting)

        return minimize_scalar(error, bounds=(-6, 2), method="bounded").fun

    scan = [least(omega) for omega in np.linspace(0.5, 1.5, 5) * best.forgetting]
    assert min(scan) >= best.error - 1e-10
    assert min(scan) == pytest.approx(best.error, rel=1e-6)


@pytest.mark.parametrize(("alpha", "rho", "drift"), [(1.6, 0.3, 0.2), (4.2, 0.8, 0.7)])
def test_best_memory_is_stationary(alpha, rho, drift):
    setting = {"alpha": alpha, "rho": rho, "drift": drift}
    best = optimal_memory(**setting)

    def error(penalty, omega):
        return forgetting_error(**setting, penalty=penalty, forgetting=omega)

    assert_least(error, [best.penalty, best.forgetting], best.error)
