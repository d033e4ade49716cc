"""Bounds, monotonicity and broadcasting of the ICL and IDG errors, for random parameters."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclimit.asymptotics.blocks import BLOCK
from iclimit.asymptotics.pretraining import (
    bayes_error,
    icl_error,
    idg_error,
    optimal_ridge,
    task_gap,
)

# float64 is within 4.1e-15 of exact values (test_icl_tables); comparisons allow the promise.
ROUNDING = 1e-12


def log_uniform(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


SETTINGS = st.fixed_dictionaries(
    {
        "tau": log_uniform(-2, 6),
        "alpha": log_uniform(-3, 8),
        "kappa": log_uniform(-3, 4),
        "rho": st.one_of(st.just(0.0), st.floats(1e-3, 10)),
    }
)
RIDGES = st.one_of(st.just(0.0), log_uniform(-10, 2))


@given(SETTINGS, RIDGES)
def test_no_error_below_the_noise(setting, ridge):
    for function in (icl_error, idg_error):
        assert function(**setting, ridge=ridge) >= setting["rho"] * (1 - ROUNDING)


@given(SETTINGS, RIDGES)
def test_fresh_tasks_are_not_easier_than_for_the_bayes_estimator(setting, ridge):
    bound = bayes_error(alpha=setting["alpha"], rho=setting["rho"])
    assert icl_error(**setting, ridge=ridge) >= bound * (1 - ROUNDING)


@given(SETTINGS, RIDGES, st.floats(0.01, 100))
def test_errors_are_positive_and_finite_away_from_the_threshold(setting, ridge, factor):
    setting["tau"] *= factor
    if abs(setting["tau"] - 1) > 1e-9:
        assert np.isfinite(icl_error(**setting, ridge=ridge))
        assert 0 < idg_error(**setting, ridge=ridge) < np.inf


@given(SETTINGS, RIDGES)
def test_gap_is_the_difference(setting, ridge):
    point = {**setting, "ridge": ridge}
    icl = icl_error(**point)
    idg = idg_error(**point)
    assert task_gap(**point) == (icl - idg if np.isfinite(icl) else np.inf)


def random_settings(count):
    rng = np.random.default_rng(1)
    return {
        "tau": 10 ** rng.uniform(-2, 6, count),
        "alpha": 10 ** rng.uniform(-3, 8, count),
        "kappa": 10 ** rng.uniform(-3, 4, count),
        "rho": rng.uniform(0, 10, count) * (rng.random(count) < 0.7),
    }


@pytest.mark.parametrize(("objective", "function"), [("icl", icl_error), ("idg", idg_error)])
def test_optimal_ridge_beats_random_ridges_and_the_null_predictor(objective, function):
    settings = random_settings(1000)
    best = optimal_ridge(**settings, objective=objective)
    ridges = np.concatenate([[0.0], np.geomspace(1e-9, 1e9, 37)])
    errors = function(**{name: v[:, None] for name, v in settings.items()}, ridge=ridges)
    assert np.all(best.error <= errors.min(axis=1) * (1 + ROUNDING))
    assert np.all(best.error <= (1 + settings["rho"]) * (1 + ROUNDING))


@pytest.mark.parametrize("objective", ["icl", "idg"])
def test_optimally_regularised_errors_decrease_with_more_prompts(objective):
    """At a fixed effective ridge both errors decrease in tau, and more of them are admissible."""
    settings = {name: v[:, None] for name, v in random_settings(100).items()}
    settings["tau"] = np.geomspace(1e-2, 1e6, 30)
    errors = optimal_ridge(**settings, objective=objective).error
    assert np.all(np.diff(errors, axis=1) <= ROUNDING * errors[:, 1:])


@given(SETTINGS.filter(lambda s: s["tau"] < 0.99 or s["tau"] > 1.01), st.floats(1.1, 10))
def test_ridgeless_training_error_grows_with_noise(setting, factor):
    """At a fixed q = (1 + rho)/alpha the noise enters linearly with a positive coefficient."""
    noise = setting["rho"] + 0.1
    q = (1 + noise) / setting["alpha"]
    louder = noise * factor
    point = {"tau": setting["tau"], "kappa": setting["kappa"]}
    low = [f(**point, rho=noise, alpha=(1 + noise) / q) for f in (icl_error, idg_error)]
    high = [f(**point, rho=louder, alpha=(1 + louder) / q) for f in (icl_error, idg_error)]
    assert high[0] > low[0]
    assert high[1] > low[1]


@pytest.mark.parametrize("ridge", [0.0, 0.05, np.geomspace(1e-8, 10, 50)])
def test_blocks_change_no_bit(ridge):
    rng = np.random.default_rng(0)
    tau = 10 ** rng.uniform(-2, 2, (500, 1))
    others = {"alpha": 10 ** rng.uniform(-2, 2, (3, 1, 50)), "kappa": 0.5, "rho": 0.1}
    for function in (icl_error, idg_error):
        whole = function(tau=tau, **others, ridge=ridge)
        assert whole.size > BLOCK
        parts = [function(tau=part, **others, ridge=ridge) for part in np.split(tau, 10)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_memory_beyond_results_does_not_grow_with_the_points():
    """Without blocks the root search holds some 60 numbers a point: 150 MB here."""
    ridge = np.geomspace(1e-6, 10, 300_000)
    tracemalloc.start()
    icl_error(tau=1.5, alpha=1.0, kappa=0.5, rho=0.1, ridge=ridge)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - 2 * ridge.nbytes < 60e6
