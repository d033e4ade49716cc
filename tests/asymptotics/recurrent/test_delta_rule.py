"""The delta rule: its differential equations, many digits, searches for better steps."""

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp
from stationary import assert_least

from iclimit.asymptotics.recurrent import (
    constant_delta_step,
    delta_rule_error,
    optimal_delta_step,
    recurrent_errors,
)

# Rounding, of float64 against 40 digits.
ROUNDING = 1e-12
# Accuracy of numerical integration.
INTEGRATED = 1e-9


@pytest.mark.parametrize(("step", "drift"), [(0.7, 0.0), (1.6, 0.0), (0.7, 0.9), (2.3, 0.1)])
def test_constant_steps_solve_their_equation(step, drift):
    rho = 0.3

    def flow(_, v):
        return 2 * drift * (1 - v) - 2 * step * v + step**2 * (v + rho)

    times = np.array([0.1, 1.0, 3.0])
    solution = solve_ivp(flow, (0, 3), [1.0], t_eval=times, rtol=1e-11, atol=1e-13).y[0]
    error = delta_rule_error(alpha=times, rho=rho, step_size=step, drift=drift)
    assert error - rho == pytest.approx(solution, rel=INTEGRATED)


def test_best_steps_solve_their_equation():
    rho = 0.3
    times = np.array([0.1, 1.0, 3.0])
    accuracy = {"rtol": 1e-11, "atol": 1e-13}
    flow = solve_ivp(lambda _, v: -(v**2) / (v + rho), (0, 3), [1.0], t_eval=times, **accuracy)
    best = optimal_delta_step(alpha=times, rho=rho)
    assert best.error - rho == pytest.approx(flow.y[0], rel=INTEGRATED)
    assert best.step_size == pytest.approx((best.error - rho) / best.error, rel=ROUNDING)


def test_best_steps_to_many_digits():
    """Against Lambert's function, from nearly no noise and no context to much of both."""
    rng = np.random.default_rng(1)
    for rho, alpha in zip(
        10 ** rng.uniform(-12, 2, 60), 10 ** rng.uniform(-8, 6, 60), strict=True
    ):
        with mpmath.workdps(40):
            exact = rho / mpmath.lambertw(rho * mpmath.exp(mpmath.mpf(rho) + alpha)).real
            many = optimal_delta_step(alpha=mpmath.mpf(alpha), rho=mpmath.mpf(rho))
            assert abs(many.error - rho - exact) < 1e-30 * (exact + rho)
            step = float(exact / (exact + rho))
        best = optimal_delta_step(alpha=alpha, rho=rho)
        assert best.error == pytest.approx(float(exact) + rho, rel=ROUNDING)
        assert best.step_size == pytest.approx(step, rel=ROUNDING)


def test_without_noise_and_without_end():
    best = optimal_delta_step(alpha=[0.5, 700.0, np.inf], rho=0)
    assert best.error == pytest.approx(np.exp([-0.5, -700.0, -np.inf]), rel=ROUNDING)
    assert np.array_equal(best.step_size, [1, 1, 1])
    endless = optimal_delta_step(alpha=np.inf, rho=0.2)
    assert (endless.step_size, endless.error) == (0, 0.2)
    alpha = sympy.Symbol("alpha", positive=True)
    assert optimal_delta_step(alpha=alpha, rho=0).error == sympy.exp(-alpha)


def test_best_steps_are_the_limit_of_those_at_finite_size():
    gaps = [
        recurrent_errors("delta", dim=dim, context=2 * dim, rho=0.25).error[-1]
        - optimal_delta_step(alpha=2, rho=0.25).error
        for dim in (40, 80)
    ]
    assert gaps[1] == pytest.approx(gaps[0] / 2, rel=0.03)


def test_constant_steps_to_many_digits():
    """Sizes, drifts and steps of all orders; where both rates nearly vanish, too."""
    rng = np.random.default_rng(2)
    for k in range(60):
        setting = {
            "alpha": 10 ** rng.uniform(-4, 2),
            "rho": 10 ** rng.uniform(-6, 1),
            "step_size": 10 ** rng.uniform(-6, 0.2),
            "drift": 10 ** rng.uniform(-8, 1) * (k % 2),
            "dim": np.inf if k % 3 else 10 ** rng.uniform(0, 6),
        }
        with mpmath.workdps(40):
            exact = delta_rule_error(**{n: mpmath.mpf(v) for n, v in setting.items()})
        # Long growth amplifies the rounding of its rate.
        grown = 1 + abs(np.log(float(exact)))
        assert delta_rule_error(**setting) == pytest.approx(float(exact), rel=ROUNDING * grown)


def test_overflow_is_infinite():
    assert delta_rule_error(alpha=1e4, rho=0, step_size=3) == np.inf
    assert delta_rule_error(alpha=1e4, rho=0.1, step_size=3) == np.inf


@pytest.mark.parametrize("drift", [0.0, 0.4])
def test_best_constant_step_is_unbeaten(drift):
    alpha = np.geomspace(0.01, 300, 7)[:, None]
    rho = np.array([0, 1e-3, 0.3, 20.0])
    best = constant_delta_step(alpha=alpha, rho=rho, drift=drift)
    steps = np.linspace(0, 1.5, 3001)
    scan = delta_rule_error(alpha=alpha[..., None], rho=rho[:, None], drift=drift, step_size=steps)
    assert np.all(best.error <= scan.min(axis=-1) * (1 + 1e-14))
    assert best.error == pytest.approx(scan.min(axis=-1), rel=1e-3)
    # A schedule can only be better.
    if not drift:
        schedule = optimal_delta_step(alpha=alpha, rho=rho).error
        assert np.all(schedule <= best.error * (1 + 1e-14))


@pytest.mark.parametrize(("alpha", "rho", "drift"), [(1.6, 0.3, 0.2), (4.2, 0.8, 0.7)])
def test_best_constant_step_is_stationary(alpha, rho, drift):
    setting = {"alpha": alpha, "rho": rho, "drift": drift}
    best = constant_delta_step(**setting)
    assert_least(
        lambda step: delta_rule_error(**setting, step_size=step), [best.step_size], best.error
    )
