"""Dampening factors against simulated extremes and dense scans of the loss."""

import math

import numpy as np
import pytest
from stationary import assert_least

from iclimit.asymptotics.descent import (
    constant_schedule,
    critical_dampening,
    divergence_rate,
    optimal_dampening,
    schedule_loss,
)
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.asymptotics.spectra.wishart_eigenvalues import largest_eigenvalue_tail

# The probability comes back as a difference from 1 in float64; measured worst 2e-11, of 1e-6.
ROOT = 1e-10
# Standard errors that the worst of nine simulated probabilities may lie off.
SIGMAS = 4.0
# A scan of 2000 rates misses a quadratic minimum by (1/2000)^2 / 2 times its curvature, of
# order L^2; measured 2e-7.
SCAN = 1e-4


def one_step_rate(context, dim, noise=0.0):
    return context / (context + dim + 1 + noise * context)


def test_simulated_extremes():
    """Share of draws of T tasks whose critical factor lies below the quantiles."""
    for context, dim in ((10, 3), (3, 5), (4, 1)):
        tasks = 20
        draws = 4000
        noise = 0.1
        X = np.random.default_rng(11).standard_normal((draws * tasks, context, dim))
        gram = X @ X.mT if context < dim else X.mT @ X
        largest = np.linalg.eigvalsh(gram)[:, -1] / context
        worst = largest.reshape(draws, tasks).max(axis=1)
        critical = 2 / (one_step_rate(context, dim, noise) * worst)
        for p in (0.05, 0.5, 0.9):
            factor = critical_dampening(
                p, context=context, dim=dim, test_tasks=tasks, noise_ratio=noise
            )
            share = np.mean(critical < factor)
            assert abs(share - p) < SIGMAS * math.sqrt(p * (1 - p) / draws)


@pytest.mark.parametrize(("context", "dim"), [(10, 10), (20, 4), (2, 6), (1, 1)])
@pytest.mark.parametrize("tasks", [1, 50])
def test_inverts_the_distribution_of_the_extreme(context, dim, tasks):
    p = np.array([1e-6, 0.05, 0.5, 0.99])
    factor = critical_dampening(p, context=context, dim=dim, test_tasks=tasks)
    below = largest_eigenvalue_cdf(
        2 / (one_step_rate(context, dim) * factor), context=context, dim=dim
    )
    assert 1 - below**tasks == pytest.approx(p, rel=ROOT, abs=1e-14)


def test_large_and_small_probabilities_and_many_tasks():
    """P(s_max > x) = p to leading order in p: only p/T matters."""
    few = critical_dampening(1e-9, context=6, dim=4, test_tasks=10)
    many = critical_dampening(1e-3, context=6, dim=4, test_tasks=10**7)
    assert few == pytest.approx(many, rel=1e-4)  # 1e-3 relative in p/T, a tenth of it in log x
    assert critical_dampening(1e-300, context=3, dim=2, test_tasks=1) > 0
    found = critical_dampening(0.5, context=10_000, dim=1, test_tasks=10)
    assert found == pytest.approx(2, rel=0.05)


def test_published_settings_are_within_reach():
    """von Oswald et al. dampen by 0.75, Rossi et al. by 0.70, at N = d = 10 (uniform inputs)."""
    low, high = critical_dampening([1e-3, 0.999], context=10, dim=10, test_tasks=10_000)
    assert low < 0.70 < high < 0.78


def test_approaches_the_limit_of_divergence():
    """Large N and d: the critical rate tends to 2/(1 + sqrt c)^2, fluctuations as N^(-2/3)."""
    gaps = []
    for context, dim in ((6, 3), (24, 12)):
        rate = one_step_rate(context, dim) * critical_dampening(
            0.5, context=context, dim=dim, test_tasks=1
        )
        gaps.append(rate / divergence_rate(dim / context) - 1)
    assert gaps[0] > gaps[1] > 0
    assert 2.5 < gaps[0] / gaps[1] < 4  # 4^(2/3), and 1/N for the rate; measured 3.7


@pytest.mark.parametrize(("context", "dim", "noise"), [(10, 10, 0.0), (20, 5, 0.1), (4, 8, 1.0)])
@pytest.mark.parametrize("steps", [2, 5, 12])
def test_optimal_dampening_by_a_dense_scan(context, dim, noise, steps):
    unit = one_step_rate(context, dim, noise)
    factors = np.linspace(0.001, 2, 2000)
    rates = np.repeat((factors * unit)[:, None], steps, axis=1)
    losses = schedule_loss(rates, context=context, dim=dim, noise_ratio=noise)
    best = optimal_dampening(steps=steps, context=context, dim=dim, noise_ratio=noise)
    found = schedule_loss([best * unit] * steps, context=context, dim=dim, noise_ratio=noise)
    assert losses.min() * (1 - SCAN) < found <= losses.min() * (1 + 1e-12)
    assert isinstance(best, float)


@pytest.mark.slow
def test_one_repetition_needs_no_dampening_and_more_need_more():
    for context, dim, noise in ((10, 10, 0.0), (1, 1, 0.0), (3, 7, 2.0), (50, 2, 1e-12)):
        factors = [
            optimal_dampening(steps=s, context=context, dim=dim, noise_ratio=noise)
            for s in (1, 2, 4, 8, 16)
        ]
        assert factors[0] == pytest.approx(1, rel=1e-7)  # a minimum, found to root rounding
        assert np.all(np.diff(factors) < 0)


def test_published_constant_rates():
    """K-step losses of section 8 of the notes are for uniform inputs; the shape agrees."""
    best = constant_schedule(steps=5, context=10, dim=10)
    factor = optimal_dampening(steps=5, context=10, dim=10)
    assert best.rates[0] == pytest.approx(factor * one_step_rate(10, 10), rel=1e-12)


def test_monotone_in_tasks_and_probability():
    p = np.array([0.01, 0.3, 0.7, 0.99])
    previous = np.full(4, np.inf)
    for tasks in (1, 3, 100, 10**6):
        factors = critical_dampening(p, context=7, dim=3, test_tasks=tasks)
        assert np.all(np.diff(factors) > 0)
        assert np.all(factors < previous)
        previous = factors


def test_many_columns_and_few_tasks():
    """The series of an incomplete gamma function is long; evaluations of the law are few."""
    critical = critical_dampening([0.05, 0.5], context=5, dim=83256, test_tasks=100)
    largest = 2 / (critical * one_step_rate(5, 83256))
    # H = X'X/N has the eigenvalues of X X'/N = (d + W d^0.5)/N, W a Gaussian matrix of order one.
    assert np.all(abs(largest * 5 / 83256 - 1) < 12 / 83256**0.5)
    assert critical[0] < critical[1]
    message = r"context and dim must be smaller, got one of 1e\+12"
    with pytest.raises(ArithmeticError, match=message):
        critical_dampening(0.5, context=1, dim=10**12, test_tasks=1)
    # The law of so many eigenvalues would take as long as one waits.
    with pytest.raises(ArithmeticError, match="must be <= 200, got 1000000000"):
        critical_dampening(0.5, context=10**9, dim=10**9, test_tasks=10)


def test_the_law_is_evaluated_a_few_times(monkeypatch):
    calls = []

    def counted(x, context, dim):
        calls.append(x)
        return largest_eigenvalue_tail(x, context, dim)

    monkeypatch.setattr("iclimit.asymptotics.descent.dampening.largest_eigenvalue_tail", counted)
    critical_dampening(0.5, context=12, dim=37, test_tasks=4)
    assert len(calls) <= 8


@pytest.mark.parametrize(("context", "noise"), [(9, 0.1), (25, 0.25)])
def test_optimal_dampening_is_stationary(context, noise):
    setting = {"context": context, "dim": 5, "noise_ratio": noise}
    unit = one_step_rate(context, 5, noise)
    best = optimal_dampening(steps=3, **setting)
    assert_least(lambda factor: schedule_loss([factor * unit] * 3, **setting), [best])
