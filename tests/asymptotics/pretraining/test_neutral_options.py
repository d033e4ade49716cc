"""Predictions of finite runs: an option at its neutral value equals the option left out."""

import functools
import math

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread

DIM, CONTEXT = 16, 24
RUNS = {
    "fresh tasks": {"context": 10, "tasks": math.inf, "prompts": 200, "ridge": 0.01},
    "shared tasks": {"context": 10, "tasks": 12, "prompts": 500, "ridge": 0.01},
    "interpolating": {"context": 24, "tasks": 40, "prompts": 200, "ridge": 0.0},
}
# Fixed points are solved to 1e-6.
SAME = 5e-6
# Tasks of a law that is not isotropic are 4000 representatives; of the stated uncertainty.
REPRESENTED = 0.1


def neutral(context):
    """Options that change nothing, and that change next to nothing."""
    return {
        "input_covariance": {"input_covariance": np.ones(DIM)},
        "gates": {"gates": np.ones(context)},
        "correlation": {"correlation": 1e-9},
        "drift": {"drift": 1e-9},
        "correlated_query": {"correlated_query": True},
        "test law": {
            "test_context": context,
            "test_rho": 0.1,
            "test_drift": 0.0,
            "test_correlation": 0.0,
            "test_gates": np.ones(context),
            "gates": np.ones(context),
        },
    }


GAUSSIAN = {
    "task_covariance": {"task_covariance": np.ones(DIM)},
    "test_covariance": {"test_covariance": np.ones(DIM)},
}


def predicted(run, **option):
    errors = finite_size_errors(dim=DIM, rho=0.1, **run, **option, rng=0, draws=3)
    spread = finite_size_spread(dim=DIM, rho=0.1, **run, **option, rng=0, draws=5)
    return errors, np.array([errors.icl.mean, errors.idg.mean, spread.icl, spread.idg])


@pytest.fixture(scope="module")
def gaussian():
    """Predictions for Gaussian tasks without options, by the name of the run."""
    return functools.cache(lambda name: predicted(RUNS[name] | {"task_law": "gaussian"}))


@pytest.mark.parametrize("name", RUNS)
def test_neutral_values_equal_the_option_left_out(name, gaussian):
    run = RUNS[name] | {"task_law": "gaussian"}
    plain, expected = gaussian(name)
    for option in (neutral(run["context"]) | GAUSSIAN).values():
        errors, found = predicted(run, **option)
        assert found == pytest.approx(expected, rel=SAME), option
        assert errors.uncertainty == pytest.approx(plain.uncertainty, rel=1e-3), option


@pytest.mark.parametrize("name", RUNS)
def test_all_neutral_values_together_equal_the_options_left_out(name):
    """Tasks on a sphere, all of one norm, for which timed contexts have nodes of their own."""
    run = RUNS[name] | {"task_law": "sphere"}
    plain, expected = predicted(run)
    options = neutral(run["context"])
    # It is refused together with an input covariance.
    query = options.pop("correlated_query")
    together = {}
    for option in options.values():
        together |= option
    for option in (together, query):
        errors, found = predicted(run, **option)
        assert found == pytest.approx(expected, rel=SAME), option
        assert errors.uncertainty == pytest.approx(plain.uncertainty, rel=1e-3), option


@pytest.mark.parametrize("name", RUNS)
def test_small_changes_have_small_effects(name, gaussian):
    """Nothing jumps next to a neutral value, where other laws and representatives take over."""
    run = RUNS[name] | {"task_law": "gaussian"}
    plain, expected = gaussian(name)
    nearly = 1 + 1e-6 * np.arange(DIM)
    for option in (
        {"task_covariance": nearly},
        {"test_covariance": nearly},
        {"input_covariance": nearly},
        {"drift": 1e-4},
        {"correlation": 1e-3},
        {"gates": 1 - 1e-4 * np.arange(run["context"])},
    ):
        _, found = predicted(run, **option)
        allowed = REPRESENTED * plain.uncertainty
        assert found[:2] == pytest.approx(expected[:2], rel=allowed), option
        # Spreads are stated to some 5 %.
        assert found[2:] == pytest.approx(expected[2:], rel=5e-3), option


@pytest.mark.parametrize("structure", [{}, {"task_covariance": np.linspace(0.2, 1.8, DIM)}])
def test_very_many_tasks_are_fresh_ones(structure):
    run = RUNS["fresh tasks"] | structure
    fresh = finite_size_errors(dim=DIM, rho=0.1, **run, rng=0, draws=3)
    many = finite_size_errors(dim=DIM, rho=0.1, **run | {"tasks": 200_000}, rng=0, draws=1)
    allowed = REPRESENTED * fresh.uncertainty
    expected = fresh.icl.mean, fresh.idg.mean
    assert (many.icl.mean, many.idg.mean) == pytest.approx(expected, rel=allowed)


def test_a_task_of_its_own_for_every_prompt_is_a_fresh_one():
    """Training tasks of balanced runs then have one prompt each."""
    run = RUNS["fresh tasks"]
    fresh = finite_size_errors(dim=DIM, rho=0.1, **run, rng=0, draws=3)
    own = finite_size_errors(
        dim=DIM, rho=0.1, **run | {"tasks": run["prompts"]}, rng=0, draws=20, balanced=True
    )
    assert own.icl.mean == pytest.approx(fresh.icl.mean, rel=REPRESENTED * fresh.uncertainty)
