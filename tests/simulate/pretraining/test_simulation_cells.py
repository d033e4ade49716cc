"""One simulated cell: reproducibility, samplers, input laws, statistics and argument checks."""

import math
import re

import numpy as np
import pytest
from refusals import value_error
from sampled_means import ALLOWANCE, P_VALUE, assert_same_mean
from scipy import stats

from iclimit.problem import TASK_LAWS
from iclimit.samples import Samples
from iclimit.simulate.pretraining import cells, simulate_errors, simulate_estimator
from iclimit.simulate.pretraining import ridge as ridge_module
from iclimit.simulate.prompts import summaries

SMALL = {"dim": 5, "context": 6, "tasks": 4, "prompts": 80, "rho": 0.2, "rng": 1}


def run(**changes):
    """The small cell with changes."""
    return simulate_errors(**(SMALL | changes))


# Seeds.


def test_same_seed_same_numbers():
    first = run(repeats=3)
    second = run(repeats=3)
    np.testing.assert_array_equal(first.icl.samples, second.icl.samples)
    np.testing.assert_array_equal(first.idg.samples, second.idg.samples)
    assert first.repeats == 3
    assert len(set(first.icl.samples)) == 3
    assert not np.any(run(rng=2, repeats=3).icl.samples == first.icl.samples)


@pytest.mark.machine
@pytest.mark.parametrize("changes", [{}, {"input_law": "uniform", "test_prompts": 50}])
def test_more_repeats_extend_fewer(changes):
    few = run(repeats=2, **changes)
    many = run(repeats=5, **changes)
    np.testing.assert_array_equal(many.icl.samples[:2], few.icl.samples)
    np.testing.assert_array_equal(many.idg.samples[:2], few.idg.samples)


def test_run_is_continued_bit_for_bit():
    for changes in (
        {},
        {"prompts": 10},
        {"rng": np.random.SeedSequence(5)},
        {"input_law": "laplace", "test_prompts": 50},
    ):
        whole = run(repeats=12, **changes)
        joined = run(repeats=8, **changes).concatenate(run(first_repeat=8, repeats=4, **changes))
        assert_same_run(joined, whole)
        assert_same_run(whole.head(8), run(repeats=8, **changes))
        assert_same_run(whole.head(12), whole)


def assert_same_run(found, expected):
    """Every number of every repeat is the same."""
    pairs = [
        (found.icl.samples, expected.icl.samples),
        (found.idg.samples, expected.idg.samples),
        (found.residuals, expected.residuals),
        (found.iteration_counts, expected.iteration_counts),
    ]
    for first, second in pairs:
        np.testing.assert_array_equal(first, second)
        assert first.dtype == second.dtype
        assert len(first) == expected.repeats
    assert found.parameters == expected.parameters
    assert found.residual == max(expected.residuals)
    assert found.iterations == max(expected.iteration_counts)


def test_runs_without_a_solve_are_joined():
    cell = {key: value for key, value in SMALL.items() if key != "prompts"}
    found = simulate_estimator("dmmse", **cell, repeats=2, test_prompts=10)
    joined = found.concatenate(found)
    np.testing.assert_array_equal(joined.icl.samples, np.tile(found.icl.samples, 2))
    assert (joined.residual, joined.iterations) == (0.0, 0)


def test_other_runs_are_not_joined():
    with pytest.raises(ValueError, match=r"other must have the parameters \{'dim': 5.*'rho': 0.3"):
        run().concatenate(run(rho=0.3))


def test_count_of_leading_repeats():
    for count, message in (
        (3, "count must be at most the 2 repeats, got 3"),
        (0, "count must be an integer >= 1, got 0"),
    ):
        value_error(message, run(repeats=2).head, count)


# What is simulated.


@pytest.mark.parametrize("tasks", [3, math.inf])
@pytest.mark.parametrize("law", TASK_LAWS)
def test_samplers_agree(tasks, law):
    """Summaries from their exact law and from tokens give errors of one distribution."""
    cell = {"tasks": tasks, "task_law": law, "ridge": 0.02, "repeats": 100}
    fast = run(sampler="summaries", **cell)
    slow = run(sampler="tokens", rng=2, **cell)
    for first, second in (
        (fast.icl.samples, slow.icl.samples),
        (fast.idg.samples, slow.idg.samples),
    ):
        assert_same_mean(first, second)
        assert stats.ks_2samp(first, second).pvalue > P_VALUE
    assert fast.parameters["sampler"] == "summaries"
    assert slow.parameters["sampler"] == "tokens"


def test_token_blocks_cover_all_prompts(monkeypatch):
    monkeypatch.setattr(summaries, "TOKEN_BLOCK", 7 * 5 * 7)  # seven prompts of five times seven
    drawn = run(sampler="tokens", ridge=0.1, repeats=40)
    monkeypatch.undo()
    expected = run(sampler="tokens", ridge=0.1, repeats=40, rng=2).icl.samples
    assert_same_mean(drawn.icl.samples, expected)


@pytest.mark.parametrize("tasks", [4, math.inf])
@pytest.mark.parametrize("law", ["uniform", "rademacher"])
def test_other_inputs_by_monte_carlo(law, tasks):
    found = run(input_law=law, tasks=tasks, ridge=0.1, repeats=4, test_prompts=500)
    assert found.parameters["sampler"] == "tokens"
    assert found.parameters["input_law"] == law
    for errors in (found.icl.samples, found.idg.samples):
        assert np.all(np.isfinite(errors))
        # Between the noise and the error of predicting zero, with room for 500 test prompts.
        assert 0.5 * 0.2 < np.mean(errors) < 2 * 1.2


def test_given_tasks():
    tasks = np.array([[2.0, 0, 0, 0, 1.0], [0, 1.0, -1.0, 0, 0]])
    found = run(tasks=tasks, ridge=0.01, prompts=4000, repeats=2)
    assert found.parameters["tasks"] == 2
    assert found.parameters["kappa"] == pytest.approx(0.4)
    # The largest ridge predicts zero: the variance of labels of these very tasks is left.
    null = run(tasks=tasks.tolist(), ridge=1e9)
    assert null.idg.mean == pytest.approx((5 + 2) / 2 / 5 + 0.2, rel=1e-6)
    assert null.icl.mean == pytest.approx(1.2, rel=1e-6)


@pytest.mark.machine
def test_one_task_without_noise():
    """Summaries of one noiseless task lie in a hyperplane: the least-norm solution is taken."""
    found = run(tasks=1, rho=0.0, prompts=500, repeats=5)
    assert np.all(np.isfinite(found.icl.samples))
    assert np.all(found.idg.samples < 0.5)


def test_zero_tasks_have_noise_only():
    found = run(tasks=np.zeros((1, 5)), ridge=0.1, prompts=4000)
    assert 0.2 <= found.idg.mean < 0.21  # overfitting adds p/n = 30/4000 of the noise at most


def test_infinitely_many_tasks_have_no_gap():
    found = run(tasks=math.inf, ridge=0.01, repeats=3)
    np.testing.assert_array_equal(found.icl.samples, found.idg.samples)
    assert found.parameters["kappa"] == math.inf


def test_ridge_limits():
    """Errors are continuous at ridge 0, and a huge ridge predicts zero."""
    for prompts in (20, 200):  # below and above d (d + 1) = 30
        limit = run(prompts=prompts, repeats=2)
        near = run(prompts=prompts, repeats=2, ridge=1e-8)
        np.testing.assert_allclose(near.icl.samples, limit.icl.samples, rtol=1e-3)
        np.testing.assert_allclose(near.idg.samples, limit.idg.samples, rtol=1e-3)
        far = run(prompts=prompts, repeats=2, ridge=1e10)
        np.testing.assert_allclose(far.icl.samples, 1.2, rtol=1e-6)
        np.testing.assert_allclose(far.idg.samples, 1.2, rtol=1e-6)


def test_single_dimension_and_single_pair():
    found = run(dim=1, context=1, tasks=1, prompts=50, ridge=0.1)
    assert np.isfinite(found.icl.mean)


def test_parameters_are_those_simulated():
    found = run(task_law="gaussian", ridge=0.3)
    assert found.parameters == {
        "dim": 5,
        "context": 6,
        "tasks": 4,
        "prompts": 80,
        "tau": 80 / 25,
        "alpha": 6 / 5,
        "kappa": 4 / 5,
        "rho": 0.2,
        "ridge": 0.3,
        "task_law": "gaussian",
        "sampler": "summaries",
        "backend": "numpy",
    }


def test_solve_is_reported(monkeypatch):
    assert run().iterations == 0  # direct
    monkeypatch.setattr(ridge_module, "DENSE_NORMAL", 0)
    found = run(repeats=3)
    assert 0 < found.residual <= cells.TOLERANCE
    assert found.iterations > 0
    assert run(prompts=10).iterations == 0  # direct


def test_unreachable_solve_raises():
    """Two coordinates of +-1 repeat themselves within five prompts: a singular Gram matrix."""
    with pytest.raises(ArithmeticError, match="relative residual"):
        run(dim=2, context=1, tasks=2, prompts=5, rho=0.0, input_law="rademacher", rng=0)


# Statistics of a run.


def test_standard_errors_and_correlation():
    icl = np.array([1.0, 1.5, 1.2, 2.0])
    idg = np.array([0.5, 0.9, 0.55, 0.8])
    found = Samples(("icl", "idg"), np.column_stack([icl, idg]), {})
    assert found.repeats == 4
    assert found.icl.mean == pytest.approx(1.425)
    assert found.idg.mean == pytest.approx(0.6875)
    squares = [(v - 1.425) ** 2 for v in icl]
    assert found.icl.standard_error == pytest.approx(math.sqrt(sum(squares) / 3 / 4))
    assert found.idg.standard_error == pytest.approx(stats.sem(idg))
    assert found.gap.mean == pytest.approx(1.425 - 0.6875)
    assert found.gap.standard_error == pytest.approx(stats.sem(icl - idg))
    assert found.correlation == pytest.approx(stats.pearsonr(icl, idg).statistic)


def test_statistics_of_one_repeat_and_of_equal_values():
    one = Samples(("icl", "idg"), np.array([[1.0, 2.0]]), {})
    assert one.icl.standard_error == one.idg.standard_error == math.inf
    assert one.correlation == 0.0
    same = Samples(("icl", "idg"), np.array([[1.0, 2.0], [1.0, 3.0]]), {})
    assert same.icl.standard_error == 0.0
    assert same.correlation == 0.0


def test_standard_error_is_honest():
    """Means of independent runs scatter as their standard errors say."""
    runs = [run(prompts=20, ridge=0.1, repeats=10, rng=seed) for seed in range(100)]
    means = np.array([r.icl.mean for r in runs])
    reported = math.sqrt(np.mean([r.icl.standard_error**2 for r in runs]))
    # The ratio of the two has a relative standard deviation of about 1/sqrt(2 * 99).
    assert np.std(means, ddof=1) / reported == pytest.approx(1.0, abs=ALLOWANCE / math.sqrt(198))


def test_errors_of_one_run_are_correlated():
    assert run(tasks=40, repeats=40).correlation > 0.5


# Arguments.


def test_numpy_integers_are_integers():
    found = run(dim=np.int64(5), tasks=np.int32(4), repeats=np.int64(1))
    np.testing.assert_array_equal(found.icl.samples, run().icl.samples)


def test_other_arguments_are_checked():
    for changes, message in (
        (
            {"input_law": "uniform", "sampler": "summaries"},
            "sampler must be 'tokens' for such prompts, got 'summaries'",
        ),
        (
            {"input_law": "uniform", "input_covariance": np.eye(5)},
            "input_law must be gaussian where input_covariance is given, got 'uniform'",
        ),
        ({"tasks": np.ones((3, 4))}, "tasks must have shape (any, 5), got (3, 4)"),
        ({"tasks": np.ones(5)}, "tasks must have shape (any, 5), got (5,)"),
        ({"tasks": np.ones((0, 5))}, "tasks must have shape (any, 5), got (0, 5)"),
    ):
        value_error(re.escape(message), run, **changes)


def test_gates_that_do_nothing_change_nothing():
    plain = run(sampler="tokens", task_law="sphere")
    gated = run(sampler="tokens", gates=np.ones(SMALL["context"]), task_law="sphere")
    np.testing.assert_allclose(gated.icl.samples, plain.icl.samples, rtol=1e-9)
    np.testing.assert_allclose(gated.idg.samples, plain.idg.samples, rtol=1e-9)


def test_bad_gates_are_named():
    for more, message in (
        ({"gates": [1.0]}, r"gates must have shape \("),
        ({"gates": 1.5 * np.ones(SMALL["context"])}, "gates must be from 0 to 1, got 1.5"),
        ({"gates": np.ones(SMALL["context"]), "test_context": 9}, "gates must have shape"),
        ({"drift": 0.5, "sampler": "summaries"}, "sampler must be 'tokens' for such prompts"),
    ):
        value_error(message, run, **more)
