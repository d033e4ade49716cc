"""Several seeds: which runs count as failed, and what is averaged."""

from dataclasses import replace

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.results import Ending, Estimate
from iclimit.simulate.networks import TrainedRepeats, train_repeats
from iclimit.simulate.softmax import MergedHeads
from iclimit.simulate.training import loop, repeats

PROBLEM = Problem(dim=2, context=8, scale=1)
HEAD = MergedHeads(dim=2)
SETTINGS = {"steps": 500, "batch": 128, "learning_rate": 0.01, "rng": 0}


@pytest.fixture(scope="module")
def found():
    return train_repeats(HEAD, PROBLEM, repeats=3, **SETTINGS)


def with_losses(run, *losses):
    """Repeats with these held-out losses, where predicting zero has the loss 2."""
    runs = (
        None
        if each is None
        else replace(
            run, held_out=Estimate(each, 0.01, 1000), null_loss=2.0, ending=Ending("step limit")
        )
        for each in losses
    )
    return TrainedRepeats(tuple(runs))


def test_seeds_that_end_elsewhere_are_counted_and_not_averaged(found):
    """The optimum of a head is 0.896; two of these seeds end at 1.5, before they have it."""
    assert found.failed.tolist() == [True, True, False]
    assert found.failures == 2
    best = found.best
    assert best is found.runs[2]
    assert best is not None
    assert abs(best.held_out.mean - 0.896) < 4 * best.held_out.standard_error
    assert found.losses.tolist() == [best.held_out.mean]
    assert str(found) == f"loss {best.held_out.mean:.6g}, 2 of 3 runs failed"
    assert not found.interrupted


@pytest.mark.parametrize(
    ("losses", "failed"),
    [
        ((1.0, 1.09, 1.11), (False, False, True)),  # above 1 + (2 - 1)/10
        ((1.79,), (False,)),
        ((1.81,), (True,)),  # a plateau
        ((1.81, 1.99, 2.3), (True, True, True)),
        ((0.2, None, 0.37, 0.39), (False, True, False, True)),
        ((None, None), (True, True)),
    ],
)
def test_the_rule_of_failure(losses, failed, found):
    made = with_losses(found.runs[0], *losses)
    assert tuple(made.failed) == failed
    good = [each for each, bad in zip(losses, failed, strict=True) if each and not bad]
    assert made.losses.tolist() == good
    assert made.failures == sum(failed)
    if good:
        assert made.loss is not None
        assert made.median is not None
        assert made.loss.mean == pytest.approx(np.mean(good))
        assert made.median.mean == pytest.approx(np.median(good))
    else:
        assert (made.loss, made.median) == (None, None)
        assert str(made).startswith("no loss, ")


def test_a_known_least_loss_takes_the_place_of_the_best_run(found):
    """Above 0.9 + (2 - 0.9)/10; a problem of which little can be learned has no plateau."""
    made = with_losses(found.runs[0], 1.0, 1.02, 1.9)
    assert replace(made, best_loss=0.9).failed.tolist() == [False, True, True]
    made = replace(with_losses(found.runs[0], 1.9, 1.92), best_loss=1.9)
    assert made.failed.tolist() == [False, True]
    assert made.concatenate(made).head(1).best_loss == 1.9


def test_the_error_of_the_median_is_that_of_its_law(found):
    """For n normal losses of deviation s it is s (pi / 2n)^(1/2)."""
    drawn = 1 + 0.01 * np.random.default_rng(0).standard_normal((40, 25))
    errors = []
    for row in drawn:
        median = with_losses(found.runs[0], *row).median
        assert median is not None
        errors.append(median.standard_error)
    assert np.mean(errors) == pytest.approx(0.01 * np.sqrt(np.pi / 50), rel=0.15)
    assert np.mean(errors) == pytest.approx(np.std(np.median(drawn, axis=1)), rel=0.3)


@pytest.mark.machine
def test_repeats_depend_on_seed_and_number_only():
    few = SETTINGS | {"steps": 5, "held_out": 10}
    whole = train_repeats(HEAD, PROBLEM, repeats=3, **few)
    last = train_repeats(HEAD, PROBLEM, repeats=1, first_repeat=2, **few)
    again = train_repeats(HEAD, PROBLEM, repeats=2, **few).concatenate(last)
    assert [run.held_out for run in again.runs if run] == [r.held_out for r in whole.runs if r]
    assert whole.head(2).runs == whole.runs[:2]


def test_an_interruption_leaves_the_runs_before_it(tmp_path, monkeypatch):
    few = SETTINGS | {"steps": 5, "held_out": 1000, "checkpoint": tmp_path / "a.npz"}
    moves = 0
    advance = loop.TrainingLoop.advance

    def interrupted(self, state):
        nonlocal moves
        moves += 1
        if moves == 8:
            raise KeyboardInterrupt
        advance(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(loop.TrainingLoop, "advance", interrupted)
        made = train_repeats(HEAD, PROBLEM, repeats=4, **few)
    assert made.interrupted
    assert len(made.runs) == 2
    assert made.failed.tolist() == [True, False]  # five steps learn nothing; the other is unknown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-1.npz", "a.npz"]
    again = train_repeats(HEAD, PROBLEM, repeats=2, **few)
    assert not again.interrupted
    del few["checkpoint"]
    whole = train_repeats(HEAD, PROBLEM, repeats=2, **few)
    for one, other in zip(again.runs, whole.runs, strict=True):
        assert one is not None
        assert other is not None
        np.testing.assert_array_equal(one.losses, other.losses)


def test_divergence_is_a_failed_run_and_a_mistake_is_none(monkeypatch):
    made = train_repeats(HEAD, PROBLEM, repeats=2, **SETTINGS | {"learning_rate": 1e200})
    assert made.runs == (None, None)
    assert (made.failures, made.best) == (2, None)

    def mistaken(*_, **__):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(repeats, "begin_training", mistaken)
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        train_repeats(HEAD, PROBLEM, repeats=2, rng=0)


def test_bad_repeats_are_named():
    with pytest.raises(ValueError, match="repeats must be an integer >= 1, got 0"):
        train_repeats(HEAD, PROBLEM, repeats=0, rng=0)
    with pytest.raises(ValueError, match="first_repeat must be an integer >= 0, got -1"):
        train_repeats(HEAD, PROBLEM, repeats=1, first_repeat=-1, rng=0)
