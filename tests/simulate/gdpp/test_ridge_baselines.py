"""Ridge baselines: spectral losses against explicit solves and against the definition."""

import math

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.asymptotics.gdpp import ridge_baselines as best_ridges
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.gdpp import ridge_baselines
from iclimit.simulate.gdpp.ridge_baselines import simulate_ridge_baselines
from iclimit.simulate.prompts import draw_prompts

ROUNDING = 1e-9  # relative; 1e-12 measured, more where X^T X is close to singular
Z_LIMIT = 4.0  # 42 comparisons
TABLE_DIGITS = 5e-4  # the published table has three decimals

# Published adjusted losses (arXiv:2402.14180, Table 1): ConstRR, AdaRR, TunedRR, of 100,000
# sequences each.
TABLE = {
    "uniform:5": (0.365, 0.068, 0.049),
    "uniform:7": (0.530, 0.092, 0.068),
    "categorical:1,3": (0.222, 0.051, 0.021),
    "categorical:1,3,5": (0.422, 0.084, 0.054),
}
NAMES = ("ConstRR", "AdaRR", "TunedRR")


def explicit_losses(problem, count, seed, constant, factor, top):
    """Adjusted losses of the contexts of a seed, by least squares with pseudo-observations."""
    place = get_backend("numpy")
    drawn = draw_prompts(problem, place, place.generator(seed), count)
    found = {name: [] for name in ("oracle", *NAMES)}
    for x, y, level in zip(drawn.inputs, drawn.labels, np.sqrt(drawn.noise_variance), strict=True):
        _, (rss,), _, _ = np.linalg.lstsq(x, y)
        estimated = rss / (problem.context - problem.dim)

        def weights(ridge, x=x, y=y):
            stacked = np.concat([x, math.sqrt(ridge) * np.eye(problem.dim)])
            return np.linalg.lstsq(stacked, np.concat([y, np.zeros(problem.dim)]))[0]

        oracle = weights(level**2)
        ridges = (constant, estimated, min(factor * estimated, top))
        for name, ridge in zip(NAMES, ridges, strict=True):
            found[name].append(np.sum((weights(ridge) - oracle) ** 2) / 2)
        covariance = level**2 * np.linalg.inv(x.T @ x + level**2 * np.eye(problem.dim))
        found["oracle"].append(np.trace(covariance) / 2)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("noise", ["uniform:4", "fixed:0.3", "categorical:1,3"])
@pytest.mark.parametrize(("context", "dim"), [(20, 10), (7, 4), (3, 1)])
def test_losses_equal_explicit_solves(noise, context, dim):
    problem = Problem(dim=dim, context=context, noise_law=noise, scale=1)
    count = 40
    run = simulate_ridge_baselines(
        problem, contexts=count, rng=3, penalty=2.5, multiplier=1.4, threshold=3.0
    )
    expected = explicit_losses(problem, count, seed_sequences(3, 1)[0], 2.5, 1.4, 3.0)
    assert set(run.losses) == set(expected)
    for name, values in expected.items():
        assert run.losses[name].mean == pytest.approx(np.mean(values), rel=ROUNDING)
        error = np.std(values, ddof=1) / math.sqrt(count)
        assert run.losses[name].standard_error == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("noise", ["uniform:5", "categorical:1,3", "fixed:2"])
@pytest.mark.parametrize(("context", "dim"), [(20, 10), (9, 3)])
def test_conditional_losses_are_those_of_the_definition(noise, context, dim):
    problem = Problem(dim=dim, context=context, noise_law=noise, scale=1)
    tuned = {"multiplier": 1.3, "threshold": 6.0}
    exact = simulate_ridge_baselines(problem, contexts=3000, rng=1, **tuned)
    raw = simulate_ridge_baselines(problem, contexts=6000, rng=2, queries=True, **tuned)
    for name in exact.losses:
        error = math.hypot(exact.losses[name].standard_error, raw.losses[name].standard_error)
        assert abs(exact.losses[name].mean - raw.losses[name].mean) <= Z_LIMIT * error
        if name != "oracle":
            assert exact.losses[name].standard_error <= raw.losses[name].standard_error


def test_oracle_parameters_have_no_adjusted_loss():
    run = simulate_ridge_baselines(
        Problem(dim=10, context=20, noise_law="fixed:2", scale=1), contexts=100, rng=0
    )
    assert run.losses["ConstRR"].mean == 0 < run.losses["AdaRR"].mean
    silent = simulate_ridge_baselines(
        Problem(dim=10, context=20, noise_law="fixed:0", scale=1), contexts=100, rng=0
    )
    assert silent.losses["oracle"].mean == silent.losses["ConstRR"].mean == 0
    assert silent.losses["AdaRR"].mean < 1e-25


def test_which_parameters_are_reported():
    problem = Problem(dim=3, context=8, noise_law="uniform:3", scale=1)
    cell = {"contexts": 50, "rng": 0}
    plain = simulate_ridge_baselines(problem, **cell)
    assert list(plain.losses) == ["oracle", "ConstRR", "AdaRR"]
    assert (plain.losses["AdaRR"].repeats, plain.parameters["penalty"]) == (50, 3.0)
    scaled = simulate_ridge_baselines(problem, multiplier=1.0, **cell)
    assert scaled.losses["TunedRR"].mean == plain.losses["AdaRR"].mean
    unbiased = simulate_ridge_baselines(problem, multiplier=5 / 8, **cell)
    biased = simulate_ridge_baselines(problem, noise_estimate="biased", **cell)
    assert biased.losses["AdaRR"].mean == pytest.approx(unbiased.losses["TunedRR"].mean, rel=1e-12)
    capped = simulate_ridge_baselines(problem, threshold=0.0, penalty=0.0, **cell)
    assert capped.losses["TunedRR"].mean == capped.losses["ConstRR"].mean
    single = simulate_ridge_baselines(problem, contexts=1, rng=0)
    assert single.losses["AdaRR"].standard_error == math.inf


def test_blocks_have_their_own_seeds(monkeypatch):
    monkeypatch.setattr(ridge_baselines, "_BLOCK", 16)
    problem = Problem(dim=3, context=8, noise_law="uniform:3", scale=1)
    run = simulate_ridge_baselines(problem, contexts=40, rng=0)
    parts = [
        explicit_losses(problem, count, seed, 3.0, 1, 1)["AdaRR"]
        for count, seed in zip((16, 16, 8), seed_sequences(0, 3), strict=True)
    ]
    assert run.losses["AdaRR"].mean == pytest.approx(np.mean(np.concat(parts)), rel=ROUNDING)


def test_enormous_noise_overflows_nowhere():
    problem = Problem(dim=3, context=8, noise_law="fixed:1e100", scale=1)
    run = simulate_ridge_baselines(problem, contexts=50, rng=0, penalty=0.0)
    assert 1e198 < run.losses["ConstRR"].mean < math.inf
    assert run.losses["ConstRR"].standard_error == math.inf  # squares of losses overflow
    assert run.losses["AdaRR"].mean < 1e-90


@pytest.mark.parametrize(("noise", "published"), TABLE.items())
def test_published_table(noise, published):
    """Both sides are Monte Carlo: the table's error is that of the definition on 100,000."""
    problem = Problem(dim=10, context=20, noise_law=noise, scale=1)
    best = best_ridges(noise, context=20, dim=10)
    found = simulate_ridge_baselines(
        problem, contexts=6000, rng=5, multiplier=best.multiplier, threshold=best.threshold
    )
    setting = {"contexts": 3000, "rng": 6, "queries": True, "multiplier": best.multiplier}
    raw = simulate_ridge_baselines(problem, **setting, threshold=best.threshold)
    for name, value in zip(NAMES, published, strict=True):
        of_table = raw.losses[name].standard_error * math.sqrt(3000 / 100_000)
        allowance = (
            Z_LIMIT * math.hypot(found.losses[name].standard_error, of_table) + TABLE_DIGITS
        )
        assert abs(found.losses[name].mean - value) < allowance, name


PROBLEM = Problem(dim=2, context=6, noise_law="uniform:1", scale=1)


def test_errors():
    for call, message in (
        (
            lambda: simulate_ridge_baselines(
                Problem(dim=4, context=4, noise_law="fixed:1", scale=1), contexts=2, rng=0
            ),
            "problem must have context > dim, got 4 and 4",
        ),
        (
            lambda: simulate_ridge_baselines(PROBLEM, contexts=0, rng=0),
            "contexts must be an integer >= 1, got 0",
        ),
        (
            lambda: simulate_ridge_baselines(PROBLEM, contexts=2, rng=0, noise_estimate="best"),
            "noise_estimate must be one of unbiased, biased, least-error, got 'best'",
        ),
        (
            lambda: simulate_ridge_baselines(PROBLEM, contexts=2, rng=0, multiplier=-1),
            "multiplier must be >= 0, or inf, got -1",
        ),
        (
            lambda: simulate_ridge_baselines(PROBLEM, contexts=2, rng=0, threshold=math.nan),
            "threshold must be >= 0, or inf, got nan",
        ),
        (
            lambda: simulate_ridge_baselines(PROBLEM, contexts=2, rng=0, penalty=math.inf),
            "penalty must be >= 0 and finite, got inf",
        ),
    ):
        value_error(message, call)


def test_the_problem_must_be_one():
    type_error(
        "problem must be a Problem, got 'uniform:1'",
        simulate_ridge_baselines,
        "uniform:1",
        contexts=2,
        rng=0,
    )
