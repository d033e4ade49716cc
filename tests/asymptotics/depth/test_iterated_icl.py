"""Iterated linear attention against one-step errors, sampled matrices and the ladder."""

import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.optimize import brentq

from iclimit.asymptotics import depth
from iclimit.asymptotics.depth.iterated_icl import _Mean
from iclimit.asymptotics.pretraining import icl_error
from iclimit.asymptotics.spectra import MarchenkoPastur

# Two routes in float64; measured 2e-14.
ROUNDING = 1e-12


@pytest.mark.parametrize("kappa", [0.3, 1.0, 4.0, math.inf])
@pytest.mark.parametrize(("tau", "ridge"), [(0.4, 0.0), (3.0, 0.0), (1.0, 0.3), (math.inf, 0.1)])
@pytest.mark.parametrize("alpha", [0.2, 40.0])
def test_one_step_is_the_icl_error(alpha, tau, ridge, kappa):
    setting = {"tau": tau, "alpha": alpha, "kappa": kappa, "ridge": ridge}
    errors = depth.iterated_icl_errors(steps=3, noise_variance=0.2, **setting)
    assert errors[0] == pytest.approx(1.2)
    assert errors[1] == pytest.approx(icl_error(**setting, rho=0.2), rel=ROUNDING)


def test_one_step_is_the_icl_error_at_extremes():
    for extreme in (
        {"alpha": 1e-300},
        {"alpha": 1e308, "kappa": math.inf},
        {"tau": 1e300},
        {"kappa": 1e-30},
        {"kappa": 1e33},
        {"noise_variance": 1e300},
    ):
        setting = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "noise_variance": 0.0} | extreme
        errors = depth.iterated_icl_errors(steps=3, **setting)
        rho = setting.pop("noise_variance")
        assert errors[1] == pytest.approx(icl_error(**setting, rho=rho), rel=ROUNDING)


def test_what_float64_cannot_hold_is_refused():
    for extreme in ({"tau": 1e-300}, {"alpha": 5e-324}, {"kappa": 1e-300}):
        with pytest.raises(ArithmeticError, match="too extreme for float64, got tau = "):
            depth.iterated_icl_errors(
                **{"tau": 2.0, "alpha": 1.0, "kappa": 1.0} | extreme, steps=2
            )
    errors = depth.iterated_icl_errors(tau=2, alpha=1, kappa=1, dampening=1e300, steps=2)
    assert errors.tolist() == [1, math.inf, math.inf]


@pytest.mark.parametrize(("alpha", "tau", "factor"), [(4.0, 4.0, 1.0), (0.6, 2.3, 0.8)])
def test_fresh_tasks_without_ridge_are_weight_prediction(alpha, tau, factor):
    """Without noise n = tau d^2 labels tell as much as tau d whole weight vectors."""
    labels = depth.iterated_icl_errors(
        tau=tau, alpha=alpha, kappa=math.inf, noise_variance=0, dampening=factor, steps=40
    )
    weights = depth.test_time_errors(alpha=alpha, tau=tau, dampening=factor, steps=40)
    assert labels == pytest.approx(weights, rel=ROUNDING)


def test_infinite_data_is_gradient_descent_with_the_mean_matrix():
    """Infinite tau and fresh tasks: no E, and K is a number."""
    setting = {"tau": math.inf, "alpha": 3.0, "noise_variance": 0.4}
    many = depth.iterated_icl_errors(**setting, kappa=math.inf, steps=30)
    weights = depth.test_time_errors(**setting, steps=30)
    assert many - 0.4 == pytest.approx(weights, rel=ROUNDING)


def test_errors_with_sampled_matrices():
    """The sums of the module docstring with traces of sampled matrices, extrapolated in 1/d."""
    alpha = 1.5
    kappa = 0.8
    nu = 0.7
    steps = 4
    noise = 0.3
    means = []
    variances = []
    for d, draws in ((25, 80), (50, 40)):
        runs = []
        for seed in range(draws):
            rng = np.random.default_rng([d, seed])
            tasks = rng.standard_normal((d, int(kappa * d)))
            inputs = rng.standard_normal((d, int(alpha * d)))
            C = tasks @ tasks.T / int(kappa * d)
            S = inputs @ inputs.T / int(alpha * d)
            F = np.linalg.inv(C + nu * np.eye(d))
            runs.append(sums_of_traces(C @ F, 0.2 * F @ F, S, steps, noise))
        means.append(np.mean(runs, axis=0))
        variances.append(np.var(runs, axis=0) / draws)
    # The same functions of the eigenvalues of C in the limit, 400 nodes.
    nodes, share = MarchenkoPastur(1 / kappa).quadrature(400)
    mean = _Mean(nodes / (nodes + nu), 0.2 / (nodes + nu) ** 2, share, alpha, 2 * steps + 1)
    theory = mean.errors(steps, noise)
    standard_error = np.sqrt(4 * variances[1] + variances[0])[1:]
    z = (2 * means[1] - means[0] - theory)[1:] / standard_error
    assert np.all(np.abs(z) < 4)
    assert np.all(2 * standard_error < [0.04, 0.06, 0.09, 0.13] * theory[1:])  # what is resolved


def sums_of_traces(K, Q, S, steps, noise):
    """Errors from explicit powers of matrices."""
    d = len(S)
    P = np.eye(d) - K @ S
    powers = [np.linalg.matrix_power(P, j) for j in range(steps + 1)]
    V = np.zeros((steps, steps))
    for j in range(steps):
        for i in range(steps):
            own = noise * np.trace(Q @ powers[j].T @ S @ powers[i])
            V[j, i] = (np.trace(Q @ S @ powers[j] @ powers[i].T @ S) + own) / d
            for a in range(j):
                for b in range(i):
                    left = powers[j - 1 - a]
                    right = powers[i - 1 - b]
                    V[j, i] += np.trace(Q @ S @ left @ right.T @ S) / d * V[a, b]
    errors = []
    for j in range(steps + 1):
        through = sum((K @ np.linalg.matrix_power(P.T, i) for i in range(j)), np.zeros((d, d)))
        error = np.trace(powers[j] @ powers[j].T) + noise * np.trace(through @ S @ through.T)
        for a in range(j):
            for b in range(j):
                error += np.trace(powers[j - 1 - a] @ powers[j - 1 - b].T) * V[a, b]
        errors.append(error / d)
    return np.array(errors)


def test_ratio_is_that_of_weight_prediction_without_noise_and_ridge():
    alpha = np.array([0.3, 0.8, 1.5, 6.0])[:, None]
    tau = np.array([1.1, 2.0, 9.0])
    found = depth.overthinking_ratio(tau=tau, alpha=alpha, noise_variance=0.0)
    threshold = depth.overthinking_threshold(alpha=alpha)
    assert found == pytest.approx((threshold - 1) / (tau - 1), rel=1e-10)
    damped = depth.overthinking_ratio(tau=2.0, alpha=3.0, noise_variance=0.0, dampening=0.6)
    assert damped == pytest.approx(depth.overthinking_threshold(alpha=3.0, dampening=0.6) - 1)
    exact = depth.overthinking_ratio(
        tau=sympy.Integer(2), alpha=sympy.Integer(4), noise_variance=sympy.Integer(0)
    )
    assert exact == sympy.Rational(7, 12)
    with mpmath.workdps(40):
        point = {"tau": 0.7, "alpha": 5.0, "noise_variance": 0.3, "ridge": 0.2}
        many = depth.overthinking_ratio(**{k: mpmath.mpf(v) for k, v in point.items()})
    assert depth.overthinking_ratio(**point) == pytest.approx(float(many), rel=ROUNDING)
    assert depth.overthinking_ratio(tau=1.0, alpha=5.0, noise_variance=0.3) == math.inf
    # Infinite data: no noise in the matrix, whose mean may still make steps that are too long.
    assert depth.overthinking_ratio(tau=math.inf, alpha=2.0) == 0
    assert depth.overthinking_ratio(tau=math.inf, alpha=2.0, dampening=2.0) == math.inf


def test_window_of_convergence_with_few_prompts():
    """At tau < 1 without ridge: (1 - tau)(2 tau - 1) > 1/alpha."""
    tau = np.linspace(0.05, 0.95, 19)
    for alpha in (6.0, 8.5, 12.0, 100.0):
        ratio = depth.overthinking_ratio(tau=tau, alpha=alpha, noise_variance=0.0)
        np.testing.assert_array_equal(ratio < 1, (1 - tau) * (2 * tau - 1) > 1 / alpha)


@pytest.mark.parametrize(
    ("alpha", "rho", "ridge", "factor"),
    [(2.0, 0.1, 0.5, 1.0), (4.0, 0.2, 0.1, 1.0), (0.4, 0.3, 0.2, 0.7)],
)
def test_errors_grow_where_the_ratio_says(alpha, rho, ridge, factor):
    """On both sides of the tau at which the ratio is 1."""
    setting = {"alpha": alpha, "noise_variance": rho, "ridge": ridge, "dampening": factor}
    critical = brentq(lambda tau: depth.overthinking_ratio(**setting, tau=tau) - 1, 0.5, 50.0)
    few, many = (
        depth.iterated_icl_errors(**setting, tau=tau, kappa=math.inf, steps=60)[[-20, -1]]
        for tau in (0.8 * critical, 1.6 * critical)
    )
    assert few[1] > 1.5 * few[0]
    assert many[1] < 1.02 * many[0]


def test_diverges_and_refuses():
    setting = {"alpha": 1.0, "kappa": 2.0, "noise_variance": 0.1}
    errors = depth.iterated_icl_errors(tau=1.0, steps=2, **setting)
    assert errors[0] == pytest.approx(1.1)
    assert errors[1:].tolist() == [math.inf, math.inf]
    with pytest.raises(ArithmeticError, match="alpha is too large for so few tasks"):
        depth.iterated_icl_errors(tau=2.0, alpha=1e13, kappa=1.0, steps=2)
