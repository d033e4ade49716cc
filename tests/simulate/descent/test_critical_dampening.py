"""Quantiles of the critical dampening factor against the worst of T tasks, drawn and exact."""

import math

import numpy as np
import pytest
from scipy import stats

from iclimit.simulate.descent import simulate_critical_dampening
from iclimit.simulate.descent.schedules import largest_eigenvalues

Z_LIMIT = 4.0  # 15 comparisons against draws, 15 of a bias: one beyond in 500 seeds
QUANTILES = [0.1, 0.25, 0.5, 0.75, 0.9]
SIZE = {"context": 4, "dim": 3}


def numbers(found):
    """Quantiles and their standard errors."""
    pairs = [(quantile.mean, quantile.standard_error) for quantile in found.quantiles]
    values, errors = np.array(pairs).T
    return values, errors


@pytest.mark.parametrize("law", ["gaussian", "uniform", "laplace"])  # signs: steps, see below
def test_quantiles_are_those_of_the_worst_of_many_tasks(law):
    tasks = 40
    sets = 2500
    rate = 0.6
    scale = 0.7
    generator = np.random.default_rng(len(law))
    shape = (sets, tasks, 4, 3)
    laws = {
        "gaussian": generator.standard_normal,
        "uniform": lambda shape: generator.uniform(-1, 1, shape),
        "laplace": lambda shape: generator.laplace(size=shape),
    }
    top = np.linalg.svd(scale * laws[law](shape), compute_uv=False)[..., 0] ** 2 / 4
    critical = np.sort(2 / (rate * np.max(top, axis=1)))
    found = simulate_critical_dampening(
        QUANTILES,
        rate=rate,
        **SIZE,
        test_tasks=tasks,
        input_law=law,
        scale=scale,
        contexts=100_000,
        rng=1,
    )
    for p, quantile in zip(QUANTILES, found.quantiles, strict=True):
        spread = math.sqrt(p * (1 - p) * sets)
        low, high = (np.interp(p * sets + s * spread, np.arange(sets), critical) for s in (-1, 1))
        expected = np.interp(p * sets, np.arange(sets) + 0.5, critical)
        error = math.hypot(quantile.standard_error, (high - low) / 2)
        assert abs(quantile.mean - expected) < Z_LIMIT * error


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "contexts"), [(1, 2000), (20, 3000), (100, 5000)])
def test_standard_errors_are_honest(tasks, contexts):
    """One pair in one dimension: the eigenvalue is chi-square, so the quantiles are known."""
    p = np.array(QUANTILES)
    exact = 2 / (0.5 * stats.chi2.ppf((1 - p) ** (1 / tasks), 1))
    runs = [
        simulate_critical_dampening(
            p, rate=0.5, context=1, dim=1, test_tasks=tasks, contexts=contexts, rng=seed
        )
        for seed in range(400)
    ]
    found, errors = (np.stack(each) for each in zip(*map(numbers, runs), strict=True))
    spread = np.std(found, axis=0)
    # A spread over 400 is known to 3.5 %; five eigenvalues beyond a quantile are few.
    np.testing.assert_allclose(np.sqrt(np.mean(errors**2, axis=0)) / spread, 1, atol=0.15)
    z = np.abs(found - exact) / errors
    # The tail of z is that of an error known from few eigenvalues; measured: .05, .01, .002.
    assert np.all(np.mean(z > 2, axis=0) < 0.1)
    assert np.all(np.mean(z > 3, axis=0) < 0.025)
    assert np.mean(z > 4) < 0.005
    assert np.all(np.abs(np.mean(found, axis=0) - exact) < 0.15 * spread + Z_LIMIT * spread / 20)


def test_signs_of_one_pair_have_one_eigenvalue():
    options = {"rate": 0.5, "context": 1, "dim": 3, "test_tasks": 7, "input_law": "rademacher"}
    found = simulate_critical_dampening([0.3, 0.5], **options, scale=2.0, contexts=1000, rng=0)
    quantiles, errors = numbers(found)
    np.testing.assert_allclose(quantiles, 2 / (0.5 * 4 * 3), rtol=1e-12)
    np.testing.assert_allclose(errors, 0, atol=1e-12)


def test_factors_fall_with_the_rate_the_scale_and_the_number_of_tasks():
    def median(rate=0.5, tasks=30, scale=1.0):
        found = simulate_critical_dampening(
            [0.5], rate=rate, **SIZE, test_tasks=tasks, scale=scale, contexts=5000, rng=2
        )
        return found.quantiles[0].mean

    assert median(rate=1.0) == pytest.approx(median() / 2, rel=1e-12)
    assert median(scale=2.0) == pytest.approx(median() / 4, rel=1e-12)
    assert median(tasks=100) < median() < median(tasks=3)


def test_one_task_has_the_quantiles_of_the_eigenvalue():
    p = np.array(QUANTILES)
    found = simulate_critical_dampening(
        p, rate=0.5, **SIZE, test_tasks=1, input_law="uniform", contexts=4000, rng=4
    )
    top = largest_eigenvalues(**SIZE, input_law="uniform", contexts=4000, rng=4)
    np.testing.assert_allclose(numbers(found)[0], np.quantile(4 / top, p), rtol=2e-3)


def test_errors():
    for changes, message in (
        ({"probability": [[0.5]]}, r"probability must have shape \(any,\), got \(1, 1\)"),
        ({"probability": []}, r"probability must have shape \(any,\), got \(0,\)"),
        # Nothing lies on the other side of this quantile: its error would be zero.
        (
            {"probability": [1 - 1e-9], "test_tasks": 1},
            "contexts must be >= 50000000.. for these quantiles, got 1000",
        ),
        ({"probability": [1e-300]}, "contexts must be >= inf for these quantiles, got 1000"),
    ):
        setting = {"probability": [0.5], "rate": 0.5, "test_tasks": 20, **SIZE}
        setting |= {"contexts": 1000, "rng": 0} | changes
        with pytest.raises(ValueError, match=message):
            simulate_critical_dampening(setting.pop("probability"), **setting)


def test_the_contexts_asked_for_are_enough():
    setting = {"rate": 0.5, "test_tasks": 20, **SIZE, "rng": 0}
    simulate_critical_dampening([0.5], contexts=147, **setting)
    with pytest.raises(ValueError, match="contexts must be >= 147"):
        simulate_critical_dampening([0.5], contexts=140, **setting)
