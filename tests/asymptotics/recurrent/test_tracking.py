"""Tasks that change: stationary points of the recursion, and a search for better memories."""

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from stationary import assert_least

from iclimit.asymptotics.recurrent import (
    delta_rule_error,
    optimal_tracking,
    recurrent_errors,
    tracking_error,
)

ROUNDING = 1e-12


def test_stationary_error_is_the_end_of_the_recursion():
    """At two sizes, extrapolated in 1/d."""
    for forgetting, step in ((0.0, 0.6), (1.3, 0.6), (1.5, 2.4)):
        drift = 0.5
        rho = 0.2
        ends = []
        for dim in (100, 200):
            layer = {"gates": np.exp(-forgetting / dim), "step_sizes": step}
            setting = {"context": 20 * dim, "drift": drift, "rho": rho}
            ends.append(recurrent_errors("gated-delta", dim=dim, **setting, **layer).error[-1])
        error = tracking_error(drift=drift, rho=rho, step_size=step, forgetting=forgetting)
        assert 2 * ends[1] - ends[0] == pytest.approx(error, rel=2e-3)


def test_long_contexts_are_stationary():
    setting = {"rho": 0.2, "drift": 0.5, "step_size": [0.1, 1.0, 2.1]}
    expected = delta_rule_error(alpha=200, **setting)
    assert tracking_error(**setting) == pytest.approx(expected, rel=ROUNDING)


def test_unstable_memories():
    errors = tracking_error(drift=0.5, rho=0, step_size=[2.4, 2.5], forgetting=0.5)
    assert np.array_equal(np.isinf(errors), [False, True])


@pytest.mark.parametrize(("drift", "rho"), [(0.01, 0.3), (0.2, 0.25), (3.0, 5.0), (0.5, 0.0)])
def test_best_memory_is_unbeaten(drift, rho):
    best = optimal_tracking(drift=drift, rho=rho)
    setting = {"drift": drift, "rho": rho}
    at = {"step_size": best.step_size, "forgetting": best.forgetting}
    assert tracking_error(**setting, **at) == pytest.approx(best.error, rel=ROUNDING)

    def error(logarithms):
        step, gate = np.exp(logarithms)
        return float(tracking_error(**setting, step_size=step, forgetting=gate))

    start = np.log([0.5, 1.0])
    options = {"xatol": 1e-7, "fatol": 1e-14, "maxiter": 2000}
    found = minimize(error, start, method="Nelder-Mead", options=options)
    assert found.fun >= best.error * (1 - 1e-14)
    assert found.fun == pytest.approx(best.error, rel=1e-9)


def test_many_digits():
    for drift, rho in ((1e-8, 1e-8), (1e-3, 1e6), (30.0, 1.0), (1.0, 1e-9)):
        with mpmath.workdps(40):
            exact = optimal_tracking(drift=mpmath.mpf(drift), rho=mpmath.mpf(rho))
            loss = exact.error - rho
            # The root of the stationary equation at the best step.
            wrong = 2 * mpmath.mpf(drift) * (1 - loss) - loss**2 / (loss + rho)
            assert abs(wrong) < 1e-30
        found = optimal_tracking(drift=drift, rho=rho).error
        assert found == pytest.approx(float(exact.error), rel=ROUNDING)


@pytest.mark.parametrize(("drift", "rho"), [(0.2, 0.3), (0.9, 0.8)])
def test_best_memory_is_stationary(drift, rho):
    best = optimal_tracking(drift=drift, rho=rho)

    def error(step, forgetting):
        return tracking_error(drift=drift, rho=rho, step_size=step, forgetting=forgetting)

    assert_least(error, [best.step_size, best.forgetting], best.error)
