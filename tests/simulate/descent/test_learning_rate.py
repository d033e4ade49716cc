"""Learning rates from data against fits, replications, the bootstrap and a scan of the loss."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from iclimit.problem import COORDINATE_VARIANCE, Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import (
    LearningRateEstimate,
    estimate_learning_rate,
    learning_rate,
    simulate_learning_rate,
)
from iclimit.simulate.descent.learning_rate import search_learning_rate
from iclimit.simulate.prompts import draw_prompts

ROUNDING = 1e-12  # relative
Z_LIMIT = 4.0  # 24 comparisons: one beyond in 600 seeds
NUMPY = get_backend("numpy")
N, D = 6, 4
SETTING = {"context": N, "dim": D, "scale": 0.9, "noise_variance": 0.3, "task_variance": 1.4}
SMALL_SAMPLE = {"gaussian": 0.93, "uniform": 0.96, "rademacher": 0.975, "laplace": 0.805}
"""Known gap: sandwich error over the spread at 200 tasks, to .02 (three seeds).  It closes with
more tasks: at 1000 it is .98, .98, 1.00 and .89, at 4000 the Laplace ratio is .93 to 1."""
MOMENTS = {"gaussian": (1, 3), "uniform": (1 / 3, 1 / 5), "rademacher": (1, 1), "laplace": (2, 24)}


def draw(tasks, law="gaussian", seed=1):
    return draw_prompts(
        Problem(**SETTING, input_law=law), NUMPY, np.random.default_rng(seed), tasks
    )


def part(prompts, kept):
    return prompts[kept]


def pair(estimate):
    return estimate.mean, estimate.standard_error


def assert_same_rate(found, expected, factor=1):
    assert found.rate.mean == pytest.approx(factor * expected.rate.mean, rel=ROUNDING)
    error = factor * expected.rate.standard_error
    assert found.rate.standard_error == pytest.approx(error, rel=1e-9)


def slopes(prompts, normalization):
    """Predictions with the rate 1, pair by pair."""
    g = np.zeros(len(prompts.query_label))
    for m in range(len(g)):
        for x, y in zip(prompts.inputs[m], prompts.labels[m], strict=True):
            g[m] += y * (x @ prompts.query[m])
    return g / N if normalization == "mean" else g


def test_estimate_equals_a_fit_on_all_data():
    """Least squares through the origin, and the sandwich (A^-1 B A^-1) written as such."""
    for normalization, law in itertools.product(["mean", "sum"], COORDINATE_VARIANCE):
        prompts = draw(200, law)
        g = slopes(prompts, normalization)
        y = prompts.query_label
        (rate,), *_ = np.linalg.lstsq(g[:, None], y)
        found = estimate_learning_rate(prompts, normalization=normalization)
        assert found.rate.repeats == 200
        assert found.rate.mean == pytest.approx(rate, rel=ROUNDING)
        curvature = np.mean(2 * g**2)
        scores = 2 * g * (y - rate * g)
        sandwich = np.mean(scores**2) / curvature**2 / 200
        assert found.rate.standard_error == pytest.approx(math.sqrt(sandwich), rel=1e-10)
        for tried in (None, 0.0, 0.7 * rate, -3.0, np.float64(2 * rate)):
            errors = (y - (rate if tried is None else tried) * g) ** 2
            loss = found.loss(tried)
            assert loss.mean == pytest.approx(np.mean(errors), rel=1e-10)
            # Fourth powers of y - eta g summed as a polynomial lose some digits.
            expected = np.std(errors, ddof=1) / math.sqrt(200)
            assert loss.standard_error == pytest.approx(expected, rel=1e-8)


def test_any_split_into_batches_gives_the_same():
    for cuts in ([], [1], [199], [3, 4, 5], [50, 100, 150], list(range(1, 200))):
        prompts = draw(200, "laplace")
        whole = estimate_learning_rate(prompts)
        ends = [0, *cuts, 200]
        batches = (part(prompts, slice(a, b)) for a, b in itertools.pairwise(ends))
        found = estimate_learning_rate(batches)
        assert found.rate.repeats == 200
        assert_same_rate(found, whole)
        assert pair(found.loss(0.2)) == pytest.approx(pair(whole.loss(0.2)), rel=1e-10)


def test_empty_batches_do_not_count():
    prompts = draw(20)
    empty = part(prompts, slice(0, 0))
    assert estimate_learning_rate([empty, prompts, empty]) == estimate_learning_rate(prompts)


@pytest.mark.parametrize("law", COORDINATE_VARIANCE)
def test_standard_errors_are_the_spread_over_replications(law):
    count = 1000
    tasks = 200
    prompts = draw(count * tasks, law, seed=2)
    found = [
        estimate_learning_rate(part(prompts, slice(k * tasks, (k + 1) * tasks)))
        for k in range(count)
    ]
    rates = np.array([each.rate.mean for each in found])
    errors = np.array([each.rate.standard_error for each in found])
    ratio = math.sqrt(np.mean(errors**2)) / np.std(rates)
    assert ratio == pytest.approx(SMALL_SAMPLE[law], abs=0.06)
    losses = np.array([pair(each.loss(0.3)) for each in found])
    ratio = math.sqrt(np.mean(losses[:, 1] ** 2)) / np.std(losses[:, 0])
    assert ratio == pytest.approx(1.0, abs=0.1)
    m2, m4 = (m * SETTING["scale"] ** p for m, p in zip(MOMENTS[law], (2, 4), strict=True))
    a2 = SETTING["task_variance"]
    sigma2 = SETTING["noise_variance"]
    expected = N * a2 * m2 / (a2 * (m4 + (N + D - 2) * m2**2) + sigma2 * m2)
    whole = estimate_learning_rate(prompts)
    assert abs(whole.rate.z(expected)) < Z_LIMIT
    assert whole.rate.standard_error < 0.01 * expected  # the comparison sees one part in 25


def test_line_search_agrees():
    for normalization, law in itertools.product(["mean", "sum"], COORDINATE_VARIANCE):
        prompts = draw(300, law)
        expected = estimate_learning_rate(prompts, normalization=normalization).rate.mean
        for tolerance in (1e-2, 1e-5):
            found, evaluations = search_learning_rate(
                prompts, tolerance=tolerance, normalization=normalization
            )
            assert found == pytest.approx(expected, rel=2 * tolerance)
            # A golden section shrinks the bracket by .618, after a few steps to find it.
            assert evaluations < 20 + math.log(1 / tolerance) / math.log(1.618)


def collected(monkeypatch, **arguments):
    """Batches that a simulation estimates from."""
    seen = []

    def estimate(batches, **_):
        seen.extend(batches)
        return LearningRateEstimate(Estimate(0.0, 0.0, 0), {})

    with monkeypatch.context() as patch:
        patch.setattr(learning_rate, "estimate_learning_rate", estimate)
        simulate_learning_rate(**arguments)
    return seen


@pytest.mark.machine
def test_more_tasks_extend_fewer(monkeypatch):
    monkeypatch.setattr(learning_rate, "BLOCK_NUMBERS", 7 * D * (N + 1))
    law = {"input_law": "uniform", "rng": 5, **SETTING}
    few, many = (collected(monkeypatch, contexts=tasks, **law) for tasks in (10, 25))
    assert [len(batch.labels) for batch in few] == [7, 3]
    assert [len(batch.labels) for batch in many] == [7, 7, 7, 4]
    for name in ("inputs", "labels", "query", "query_label"):
        short, long = (np.concat([getattr(b, name) for b in batches]) for batches in (few, many))
        np.testing.assert_array_equal(short, long[:10])
        assert len(np.unique(long)) == long.size  # no batch repeats another
    found = simulate_learning_rate(contexts=25, **law)
    assert found == estimate_learning_rate(many)
    assert found == simulate_learning_rate(contexts=25, **law | {"rng": np.random.SeedSequence(5)})
    assert found != simulate_learning_rate(contexts=25, **law | {"rng": 6})


def test_mean_rate_is_the_sum_rate_times_the_context():
    mean, total = (
        simulate_learning_rate(contexts=100, rng=7, normalization=normalization, **SETTING)
        for normalization in ("mean", "sum")
    )
    assert_same_rate(mean, total, factor=N)
    assert pair(mean.loss()) == pytest.approx(pair(total.loss()), rel=1e-10)


def test_errors():
    for call, message in (
        (lambda: estimate_learning_rate([]), "samples must hold at least 2 tasks .*, got 0"),
        (lambda: estimate_learning_rate(draw(1)), "samples must hold at least 2 tasks .*, got 1"),
        (
            lambda: estimate_learning_rate(replace(draw(3), labels=np.zeros((3, N)))),
            "samples must not all have vanishing labels or inputs",
        ),
        (
            lambda: estimate_learning_rate(replace(draw(3), labels=np.full((3, N), math.nan))),
            "samples must be finite",
        ),
        (
            lambda: estimate_learning_rate(replace(draw(3), labels=np.full((3, N), 1e90))),
            "samples must be finite, and their fourth powers within float64",
        ),
        (
            lambda: simulate_learning_rate(contexts=2, rng=0, context=0, dim=2),
            "context must be an integer >= 1, got 0",
        ),
        (
            lambda: search_learning_rate(draw(3), tolerance=0.0),
            "tolerance must be a number > 0 and finite, got 0.0",
        ),
        (
            lambda: search_learning_rate(draw(3), normalization="none"),
            "normalization must be one of mean, sum, got 'none'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
