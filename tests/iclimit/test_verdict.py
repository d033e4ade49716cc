"""Pooled comparisons and resolutions, against brute force with made-up runs."""

import math

import numpy as np
import pytest
from scipy import stats

from iclimit.comparison import compare
from iclimit.pooling import pool
from iclimit.results import Estimate
from iclimit.statistics import extrapolate_runs
from iclimit.verdict import Verdict
from iclimit.words import sharpness

TRIALS = 500
THEORY = (1.0, 5.0, 0.2, 3.0)


def verdict(rows):
    return Verdict(rows, lambda _: None)


def skewed(rng, repeats, *, shared, size=0.2):
    """Runs of all quantities with the skewed scatter of errors near a threshold."""
    common = rng.standard_exponential(repeats)
    return [
        mean * (1 + size * ((common if shared else rng.standard_exponential(repeats)) - 1))
        + 1e-3 * mean * rng.standard_normal(repeats)
        for mean in THEORY
    ]


@pytest.mark.parametrize("shared", [False, True])
def test_pooled_z_is_standard_normal_though_the_runs_are_skewed(shared):
    rng = np.random.default_rng(5)
    found = []
    for _ in range(TRIALS):
        runs = skewed(rng, 100, shared=shared)
        rows = [
            compare("x", mean, Estimate.of(run), of="f", draws=0 if shared else None)
            for mean, run in zip(THEORY, runs, strict=True)
        ]
        (pooled,) = pool(rows)
        assert pooled.pooled == 4
        found.append(pooled.z)
    # A mean of 100 exponential numbers still has a skewness of 0.2, which moves the mean of a
    # Student t by a tenth.
    assert abs(np.mean(found)) < 0.1 + 4 / math.sqrt(TRIALS)
    assert np.std(found) == pytest.approx(1, abs=4 / math.sqrt(2 * TRIALS) + 0.03)
    if not shared:
        assert stats.kstest(found, "norm").pvalue > 1e-3


def test_runs_of_one_name_without_samples_count_as_fully_correlated():
    estimates = [Estimate(1.0, 0.1, 10), Estimate(1.0, 0.1, 10)]

    def error(draws):
        rows = [
            compare("x", 1.0, each, of="f", draws=d)
            for each, d in zip(estimates, draws, strict=True)
        ]
        return pool(rows)[0].standard_error

    assert error([1, 1]) == pytest.approx(0.1)
    assert error([1, 2]) == error([None, None]) == pytest.approx(0.1 / math.sqrt(2))


def test_what_is_pooled():
    one = compare("x", 1.0, Estimate(1.0, 0.1, 10), of="f")
    others = [
        compare("bound", 1.0, Estimate(0.5, 0.1, 10), of="f", upper_bound=True),
        compare("zero", 0.0, Estimate(0.0, 0.1, 10), of="f"),
        compare("exact", 1.0, 1.0, of="f"),
        compare("another", 1.0, Estimate(1.0, 0.1, 10), of="g"),
        compare("of no function", 1.0, Estimate(1.0, 0.1, 10)),
    ]
    assert pool([one, *others]) == []
    (pooled,) = pool([one, one, *others])
    assert (pooled.of, pooled.pooled) == ("f", 2)


@pytest.mark.parametrize("repeats", [8, 200])
@pytest.mark.parametrize("allowance", [0.0, 0.01])
def test_a_change_by_the_resolution_is_noticed_nineteen_times_in_twenty(repeats, allowance):
    rng = np.random.default_rng(repeats)
    noticed = []
    for _ in range(TRIALS):
        run = Estimate.of(2 * (1 + 0.1 * rng.standard_normal(repeats)))
        judged = verdict([compare("x", 2.0, run, relative=allowance, of="f")])
        reach = judged.resolutions["f"]
        noticed.append(not judged.scaled("f", 1 + reach).holds)
    # The resolution is estimated, too: from 8 runs with an error of a quarter.
    slack = 0.06 if repeats == 8 else 0.0
    assert np.mean(noticed) == pytest.approx(0.95, abs=4 * math.sqrt(0.05 * 0.95 / TRIALS) + slack)


def test_resolutions_of_other_comparisons():
    assert compare("exact", 2.0, 2.0, allowance=0.01, of="f").resolution(3.0) == 0.005
    assert compare("of nothing", 2.0, Estimate(2.0, 0.1, 9)).resolution(3.0) == math.inf
    assert compare("zero", 0.0, Estimate(0.1, 0.1, 9), of="f").resolution(3.0) == math.inf
    bound = compare("bound", 2.0, 1.0, of="f", upper_bound=True)
    assert bound.resolution(3.0) == 0.5
    unknown = compare("one run", 2.0, Estimate.of([1.0]), of="f", degrees=math.inf)
    assert unknown.resolution(3.0) == math.inf
    assert math.isnan(unknown.z)


def test_the_sharpest_comparison_gives_the_resolution_of_a_function():
    rows = [compare("x", 1.0, Estimate(1.0, s, 10**6), of="f.loss") for s in (0.1, 0.01, 0.02)]
    judged = verdict(rows)
    assert judged.resolutions["f.loss"] < min(judged.resolution(row) for row in rows)
    assert [row.pooled for row in judged.evidence] == [3, 0, 0, 0]


def test_pooled_comparisons_can_fail_alone():
    """Each of 100 deviates by one standard error, in the same direction."""
    rows = [compare("x", 1.0, Estimate(1.01, 0.01, 10**6), of="f") for _ in range(100)]
    assert [row.pooled for row in verdict(rows).failures] == [100]


def test_limits_of_skewed_runs_are_not_biased():
    """Weights from the scatter of the runs would move the mean of z by a half."""
    rng = np.random.default_rng(8)
    sizes = (16, 24, 32)
    pulls = []
    for _ in range(TRIALS):
        runs = [
            np.array(skewed(rng, 4000 // d, shared=True, size=3 / d)) * (1 + 2 / d) for d in sizes
        ]
        fit = extrapolate_runs(sizes, runs, order=1)
        pulls.append((fit.value - THEORY) / fit.standard_error)
    z = np.array(pulls)
    assert np.all(abs(z.mean(axis=0)) < 4 / math.sqrt(TRIALS) + 0.05)
    assert np.all(abs(z.std(axis=0) - 1) < 4 / math.sqrt(2 * TRIALS) + 0.03)


def test_exact_comparisons_state_their_tolerance():
    """Where the sharpest comparison has no standard error, nothing was measured."""
    measured = compare("x", 1.0, Estimate(1.0, 0.01, 10**6), of="f")
    exact = [
        compare("x", 2.0, 2.0, relative=error, of=of) for error, of in ((1e-9, "f"), (0.1, "g"))
    ]
    judged = verdict([measured, *exact])
    assert judged.sharpest == dict(zip("fg", exact, strict=True))
    words = [sharpness(judged.resolution(row), row.standard_error == 0) for row in judged.evidence]
    assert words == ["4.9 %", "within 1e-09", "within 10 %"]
    assert sharpness(math.inf, True) == "-"


def test_shares_of_what_is_accepted_say_what_holds():
    rng = np.random.default_rng(0)
    rows = [
        compare(
            str(k),
            1.0,
            Estimate.of(rng.normal(1 + rng.choice([0, 0.1, 0.4]), 0.1, size=rng.integers(3, 30))),
            allowance=rng.choice([0, 0.1]),
            upper_bound=bool(k % 3),
            of="f",
        )
        for k in range(200)
    ]
    rows += [compare("exact", 1.0, 1.0 + step, allowance=0.1) for step in (0, 0.05, -0.2)]
    judged = verdict(rows)
    failing = {row.label for row in judged.failures if not row.pooled}
    assert 10 < len(failing) < 190
    assert {row.label for row in rows if abs(judged.share(row)) > 1} >= failing
    assert judged.share(rows[-3]) == 0
    assert judged.share(rows[-2]) == pytest.approx(0.5)
    assert judged.share(rows[-1]) == pytest.approx(-2)
    assert all(abs(judged.share(row)) <= 1 for row in rows[:200] if row.label not in failing)
