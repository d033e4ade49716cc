"""Errors for inputs that are not Gaussian: against a direct solution, and brute force."""

import math

import numpy as np
import pytest
from plain_runs import plain_errors
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining.input_law import input_law_factors

UNIFORM = -1.2


def fresh_task_error(*, tau, q, rho, ridge, variance):
    """Error for fresh tasks if r is 1 + sqrt(variance) or 1 - sqrt(variance), each with 1/2.

    Each coordinate of summary and task has the covariance [[1 + q, 1], [1, 1]].  The error above
    the noise is the derivative of the mean resolvent by the weight s of the task's coordinate,
    with which the ridge is ridge + s rho / tau: a difference of solutions of the fixed point.
    """
    moments = np.array([[1 + q, 1.0], [1.0, 1.0]])
    values = 1 + math.sqrt(variance) * np.array([-1.0, 1.0])

    def resolvent(weight, s):
        scale = np.diag([1.0, s])
        return np.trace(moments @ np.linalg.solve(np.eye(2) + weight * scale @ moments, scale))

    def test_error(s):
        level = ridge + s * rho / tau

        def excess(log_weight):
            weight = math.exp(log_weight)
            parts = values / (level + values * resolvent(weight, s) / tau)
            return log_weight - math.log(np.mean(parts))

        weight = math.exp(brentq(excess, -30, 30, xtol=1e-15, rtol=1e-15))
        return np.trace(
            moments
            @ np.linalg.solve(np.eye(2) + weight * np.diag([1.0, s]) @ moments, np.diag([1.0, s]))
        )

    step = 1e-4
    return rho + (test_error(step) - test_error(-step)) / (2 * step)


@pytest.mark.parametrize("ridge", [0.01, 0.3])
@pytest.mark.parametrize("tau", [0.4, 1.5, 4.0])
def test_factor_of_fresh_tasks_is_that_of_a_direct_solution(tau, ridge):
    """To first order: the dimension is so large that the second one is below 1e-3 of it."""
    alpha = 1.5
    rho = 0.3
    dim = 10_000
    point = {"tau": tau, "rho": rho, "ridge": ridge}
    factors = input_law_factors(
        dim=dim, alpha=alpha, kappa=math.inf, excess_kurtosis=UNIFORM, **point
    )
    assert factors[0] == pytest.approx(factors[1], rel=1e-12)
    # A larger variance by 1e-4 instead of a smaller one, as a variance has a sign.
    variance = 1e-4
    q = (1 + rho) / alpha
    shift = UNIFORM / dim
    here = fresh_task_error(q=q, variance=0.0, **point)
    query = math.log(fresh_task_error(q=q, variance=variance, **point) / here) / variance
    context = math.log(fresh_task_error(q=q + shift / alpha, variance=0.0, **point) / here)
    assert math.log(factors[0]) == pytest.approx(context + shift * query, rel=2e-3)


def test_gaussian_inputs_need_no_factor():
    point = {"tau": 1.5, "alpha": 2.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.01}
    assert input_law_factors(dim=10, excess_kurtosis=0.0, **point).tolist() == [1, 1]


def test_factors_of_an_infinite_limit_are_one():
    point = {"tau": 1.0, "alpha": 2.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.0}
    assert input_law_factors(dim=10, excess_kurtosis=UNIFORM, **point).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("prompts", "ridge", "runs"),
    [(400, 0.01, 40), pytest.param(50, 0.02, 1000, marks=pytest.mark.slow)],
)
def test_ratio_of_uniform_and_gaussian_inputs_in_a_plain_simulation(prompts, ridge, runs):
    sizes = {"dim": 10, "context": 10, "tasks": 10, "prompts": prompts, "rho": 0.1, "ridge": ridge}
    logs = []
    for seed, law in enumerate(("uniform", "gaussian")):
        rng = np.random.default_rng(seed)
        logs.append(np.log([plain_errors(rng, **sizes, law=law) for _ in range(runs)]))
    ratio = np.mean(logs[0], axis=0) - np.mean(logs[1], axis=0)
    error = np.sqrt(sum(np.var(each, axis=0) for each in logs) / runs)
    point = {"tau": prompts / 110, "alpha": 1.0, "kappa": 1.0, "rho": 0.1, "ridge": ridge}
    factors = np.log(input_law_factors(dim=10, excess_kurtosis=UNIFORM, **point))
    assert np.all(factors < -0.02)
    # What is left is of order 1/d^2; with few prompts it is as large as the correction.
    left = (UNIFORM / 10) ** 2 + (abs(factors) if prompts < 110 else 0.0)
    assert np.all(abs(ratio - factors) < 3 * error + left)
    assert np.all(ratio < -3 * error) or runs < 100
