"""Runs as data: what they say, how they are called, and what the simulator makes of them."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import type_error, value_error

import iclimit
from iclimit import (
    SGD,
    AllPositions,
    Descent,
    Experiment,
    Flow,
    LastPosition,
    Point,
    Problem,
    RandomLength,
    Reduced,
    Ridge,
    Test,
    cost,
    predict,
    sample,
)
from iclimit.notation import sizes_of
from iclimit.runs import Cell
from iclimit.simulate.pretraining import estimate_cost, simulate_errors
from iclimit.statement import statement

LAW = Problem(8, 6, tasks=5, noise_variance=0.2, task_law="sphere")
RUN = Experiment(LAW, prompts=60, training=Ridge(0.1))

# The same run in flat keywords.
FLAT = {"dim": 8, "context": 6, "tasks": 5, "prompts": 60, "rho": 0.2, "ridge": 0.1}

# What flat keywords add, and the same in parts.
COVARIANCE = np.linspace(0.2, 1.8, 8)
GATES = np.linspace(0.1, 1, 6)
FRESH = LAW.with_fresh_tasks()
CHANGES = {
    "gates": ({"gates": GATES}, {"model": Reduced(GATES)}),
    "longer tests": (
        {"test_context": 9, "test_rho": 0.5},
        {"test": Test(LAW.with_fresh_tasks(context=9, noise_variance=0.5))},
    ),
    "gates of tests": (
        {"gates": GATES, "test_gates": np.ones(6)},
        {"model": Reduced(GATES), "test": Test(FRESH, np.ones(6))},
    ),
    "drifting tests": (
        {"test_drift": 0.5, "test_prompts": 40},
        {"test": Test(LAW.with_fresh_tasks(drift=0.5), prompts=40)},
    ),
    "tests of a covariance": (
        {"test_covariance": COVARIANCE},
        {"test": Test(LAW.with_fresh_tasks(task_covariance=COVARIANCE, task_law="gaussian"))},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_parts_and_keywords_make_the_same_run(name):
    flat, parts = CHANGES[name]
    run = RUN.with_(**parts)
    stated = Experiment.of(**FLAT, **flat)
    assert run == stated != RUN
    assert hash(run) == hash(stated)
    again = Experiment.of(**run.keywords())
    assert again == run
    assert again.statement() == run.statement()
    numbers = {"rng": 3, "repeats": 2}
    by_parts = sample(run, **numbers)
    by_keywords = simulate_errors(**FLAT, **flat, **numbers)
    np.testing.assert_array_equal(by_parts.icl.samples, by_keywords.icl.samples)
    np.testing.assert_array_equal(by_parts.idg.samples, by_keywords.idg.samples)
    assert by_parts.parameters == by_keywords.parameters


@pytest.mark.parametrize("name", CHANGES)
def test_a_statement_is_that_of_the_flat_keywords(name):
    """So runs of both have the same name and the same seed."""
    flat, parts = CHANGES[name]
    assert RUN.with_(**parts).statement() == statement(simulate_errors, FLAT | flat)


def test_defaults_are_no_part_of_a_statement():
    usual = RUN.with_(balanced=False, model=Reduced(None), training=Ridge(0.1), test=None)
    assert usual == RUN
    assert RUN.statement() == dict(sorted(FLAT.items()))
    assert RUN.with_(test=Test(FRESH)) == RUN
    assert RUN.with_(training=Ridge()).statement().keys() == FLAT.keys() - {"ridge"}
    gaussian = Experiment(Problem(8, 6, tasks=5, noise_variance=0.2), prompts=60)
    assert gaussian.statement()["task_law"] == "gaussian"


def test_a_run_prints_what_makes_it():
    run = RUN.with_(balanced=True, model=Reduced(GATES), test=Test(LAW.with_fresh_tasks(drift=1)))
    names = {"Problem": Problem, "Experiment": Experiment, "Ridge": Ridge, "Reduced": Reduced}
    again = eval(repr(run), names | {"Test": Test, "array": np.array, "inf": math.inf})
    assert again == run
    assert repr(RUN) == f"Experiment({LAW!r}, prompts=60, training=Ridge(ridge=0.1))"


def test_tests_take_the_gates_of_training_where_they_fit():
    assert RUN.tests.gates is None
    np.testing.assert_array_equal(RUN.with_(model=Reduced(GATES)).tests.gates, GATES)
    longer = RUN.with_(model=Reduced(GATES), test=Test(LAW.with_fresh_tasks(context=9)))
    value_error("gates must have shape", getattr, longer, "tests")


@given(
    dim=st.integers(1, 500),
    tau=st.floats(1e-3, 10),
    alpha=st.floats(1e-3, 10),
    kappa=st.floats(1e-3, 10) | st.just(math.inf),
    rho=st.floats(0, 10),
)
def test_a_run_of_a_point_is_near_it(dim, tau, alpha, kappa, rho):
    run = Point(tau=tau, alpha=alpha, kappa=kappa, rho=rho).at(dim)
    limit = run.limit
    assert limit["rho"] == pytest.approx(rho, rel=1e-12)
    for name, value, step in (("tau", tau, dim**-2), ("alpha", alpha, 1 / dim)):
        assert abs(limit[name] - value) <= 0.5001 * step or limit[name] == step
    if kappa < math.inf:
        assert abs(limit["kappa"] - kappa) <= 0.5001 / dim or limit["kappa"] == 1 / dim
    else:
        assert limit["kappa"] == math.inf
    again = sizes_of(dim, {name: limit[name] for name in ("tau", "alpha", "kappa")})
    problem = run.problem
    sizes = {"prompts": run.prompts, "context": problem.context, "tasks": problem.tasks}
    assert again == sizes
    assert run.at(dim) == run


def test_points_of_a_sweep():
    sweep = Point(tau=2, alpha=1, kappa=(0.5, 1, 2), rho=0.1, ridge=0.05, test_alpha=2)
    runs = sweep.at(20)
    assert [run.problem.tasks for run in runs] == [10, 20, 40]
    assert [run.limit["test_alpha"] for run in runs] == [2.0, 2.0, 2.0]
    np.testing.assert_array_equal(sweep.limit["kappa"], [0.5, 1, 2])
    assert runs[1].at(40).prompts == 3200
    for first, second in itertools.pairwise(runs):
        assert first != second
    value_error("at most one tuple", Point, tau=(1, 2), alpha=(1, 2))
    value_error("tau must be", Point, tau=-1, alpha=1)


def test_wrong_parts_are_named():
    type_error("problem must be a Problem", Experiment, 8, prompts=60)
    type_error("training must be a Ridge", Experiment, LAW, prompts=60, training=0.1)
    value_error("prompts must be", Experiment, LAW, prompts=0)
    value_error("ridge must be", Ridge, -1.0)
    value_error("problem of a test must have fresh tasks", Test, LAW)
    other = Problem(9, 6, task_law="sphere")
    value_error("test must have the dim of the run, 8, got 9", RUN.with_, test=Test(other))
    scaled = LAW.with_fresh_tasks(scale=1.0)
    value_error("test must be in the units of the run", RUN.with_, test=Test(scaled))
    value_error("another dim only if it was made from a Point", RUN.at, 20)
    type_error("an Experiment needs rho", Experiment.of, dim=8, context=6, tasks=5, prompts=60)
    type_error("an Experiment has no colour", Experiment.of, **FLAT, colour=1)


def test_the_simulator_refuses_what_it_does_not_know():
    type_error("run must be an Experiment", sample, LAW, rng=0)
    value_error("run must not be balanced", sample, RUN.with_(balanced=True), rng=0)
    noisy = Problem(8, 6, noise_law="uniform:1")
    value_error("problem must have noise_law = None", sample, Experiment(noisy, prompts=9), rng=0)
    type_error("run must be an Experiment", cost, LAW)


def test_cost_of_a_run():
    stated = estimate_cost(**FLAT)
    own = cost(RUN)
    assert (own.method, own.memory_bytes) == (stated.method, stated.memory_bytes)


def test_a_run_is_an_argument_of_a_cell():
    """It is called by its statement, whatever made it."""
    cell = Cell.of(sample, run=RUN, repeats=2)
    assert cell.statement["arguments"] == RUN.statement()
    again = Cell.of(sample, run=Experiment.of(**FLAT), repeats=2, sampler="auto")
    assert cell.identity(0, "numpy") == again.identity(0, "numpy")
    other = Cell.of(sample, run=RUN.with_(balanced=True), repeats=2)
    assert cell.identity(0, "numpy") != other.identity(0, "numpy")
    tokens = Cell.of(sample, run=RUN, sampler="tokens")
    assert tokens.statement["arguments"] == RUN.statement() | {"sampler": "tokens"}

    def own(*, run, dim):
        return run, dim

    assert Cell.of(own, run=RUN, dim=3).statement["arguments"] == {
        "dim": 3,
        "run": RUN.statement(),
    }


def test_a_time_makes_the_training_a_flow():
    point = Point(tau=2, alpha=1, kappa=1, rho=0.1, ridge=0.1, time=3.0, start_variance=0.2)
    run = point.at(dim=8)
    assert run.training == Flow(3.0, ridge=0.1, start_variance=0.2)
    assert run.limit | {"time": 3.0, "start_variance": 0.2, "ridge": 0.1} == run.limit
    assert point.limit["time"] == 3.0
    assert Experiment.of(**run.keywords()) == run
    assert run != run.with_(training=Flow(3.0, ridge=0.1))
    assert run.with_(training=Flow(0.0)) != run.with_(training=Ridge(0.0))
    assert "training=Flow(time=3.0, ridge=0.1, start_variance=0.2)" in repr(run)
    assert [each.training.time for each in replace(point, time=(1, 2)).at(dim=8)] == [1, 2]
    assert "time" not in Point(tau=2, alpha=1, rho=0.1).limit


def test_sequences_are_stated_over_the_dimension():
    stated = {"alpha": 1.5, "alpha_min": 0.5, "kappa": 0.5, "rho": 0.1, "ridge": 0.2}
    point = Point(sequence_ratio=2.0, normalization="length", **stated)
    run = point.at(dim=8)
    assert run.prompts == 16
    assert run.loss == AllPositions(first=4)
    assert run.model.normalization == "length"
    assert Experiment.of(**run.keywords()) == run
    assert point.limit == {**stated, "sequence_ratio": 2.0, "normalization": "length"}
    assert [own.prompts for own in replace(point, sequence_ratio=(1, 4)).at(dim=8)] == [8, 32]
    assert "alpha_min" not in Point(tau=2, alpha=1).limit


def test_a_point_has_prompts_or_sequences():
    type_error("tau, .* or sequence_ratio, .* got neither", Point, alpha=1)
    type_error("not both", Point, tau=1, sequence_ratio=1, alpha=1)
    type_error("alpha_min needs a sequence_ratio", Point, tau=1, alpha=1, alpha_min=0.5)
    type_error("normalization needs", Point, tau=1, alpha=1, normalization="length")
    value_error("normalization must be", Point, sequence_ratio=1, alpha=1, normalization="sum")
    value_error("sequence_ratio must be", Point, sequence_ratio=-1, alpha=1)
    stated = {"sequence_ratio": 1, "alpha": 1}
    value_error("alpha_min must be below alpha, got 2", Point, **stated, alpha_min=2)
    value_error("alpha_min must be below alpha, got 1 at", Point, **stated, alpha_min=(0.5, 1))
    value_error("time must be left out beside sequence_ratio", Point, **stated, time=2.0)
    value_error("link must be left out beside", Point, **stated, link="sign")
    value_error("sequence_ratio must be .* got \\(\\)", Point, sequence_ratio=(), alpha=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": -1.0}, "time must be >= 0, or inf, got -1"),
        ({"time": 1.0, "start_variance": -0.1}, "start_variance must be from 0 to "),
        ({"time": 1.0, "ridge": -0.1}, "ridge must be >= 0"),
    ],
)
def test_flows_that_are_none(change, message):
    with pytest.raises(ValueError, match=message):
        Experiment.of(dim=4, context=4, tasks=4, prompts=9, rho=0.1, **change)


def test_steps_that_are_none():
    with pytest.raises(ValueError, match="learning_rate must be > 0"):
        Flow.of_steps(steps=10, learning_rate=-0.1, dim=4)
    with pytest.raises(ValueError, match="steps must be an integer"):
        Flow.of_steps(steps=1.5, learning_rate=0.1, dim=4)
    assert Flow.of_steps(steps=10, learning_rate=0.1, dim=4, ridge=0.2) == Flow(0.5, ridge=0.2)


def test_steps_make_the_training_a_descent():
    sizes = {"dim": 4, "context": 4, "tasks": 4, "prompts": 9, "rho": 0.1}
    run = Experiment.of(steps=20, learning_rate=0.1, momentum=0.5, ridge=0.2, **sizes)
    assert run.training == Descent(20, 0.1, ridge=0.2, momentum=0.5)
    assert Experiment.of(**run.keywords()) == run
    assert run != run.with_(training=Descent(20, 0.1, ridge=0.2))
    assert run.limit["time"] == run.training.time(4)
    assert Experiment.of(learning_rate=0.1, steps=None, momentum=0.0, **sizes).training == SGD(0.1)


def test_the_time_of_a_descent_is_what_its_rates_count():
    training = Descent(3, 0.2, momentum=0.5)
    # The first rate counts 1 + 1/2 + 1/4 times, the second 1 + 1/2 times, the last once.
    assert training.time(8) == pytest.approx(2 * 0.2 / 8 * (1.75 + 1.5 + 1))
    assert Descent(40, 0.2).time(8) == Flow.of_steps(steps=40, learning_rate=0.2, dim=8).time


def test_descents_that_are_none():
    sizes = {"dim": 4, "context": 4, "tasks": 4, "prompts": 9, "rho": 0.1}
    with pytest.raises(TypeError, match="steps needs a learning_rate"):
        Experiment.of(steps=20, **sizes)
    with pytest.raises(TypeError, match="momentum needs steps"):
        Experiment.of(learning_rate=0.1, momentum=0.5, **sizes)
    with pytest.raises(TypeError, match="no time or batch; SGD counts prompts"):
        Experiment.of(steps=20, learning_rate=0.1, batch=3, **sizes)
    with pytest.raises(ValueError, match="momentum must be >= 0 and < 1"):
        Descent(20, 0.1, momentum=1.0)
    with pytest.raises(ValueError, match="steps must be"):
        Descent(0, 0.1)


def test_a_start_needs_a_time_and_training_a_kind():
    with pytest.raises(TypeError, match="start_variance needs a time"):
        Experiment.of(dim=4, context=4, tasks=4, prompts=9, rho=0.1, start_variance=0.1)
    with pytest.raises(
        TypeError, match="training must be a Ridge or Flow or Descent or SGD, got 'Adam'"
    ):
        Experiment(Problem(4, 8), prompts=9, training="Adam")


def test_losses_and_their_keywords():
    loss = AllPositions(first=3, weights=(1, 1, 1, 2))
    run = RUN.with_(loss=loss, model=Reduced(normalization="length"))
    flat = {"first_position": 3, "position_weights": [1, 1, 1, 2], "normalization": "length"}
    assert run == Experiment.of(**FLAT, **flat) == Experiment.of(**run.keywords()) != RUN
    assert run.statement().items() >= flat.items()
    assert "loss=AllPositions(first=3, weights=(1.0, 1.0, 1.0, 2.0))" in repr(run)
    assert "model=Reduced(normalization='length')" in repr(run)
    np.testing.assert_allclose(loss.shares(6), [0.2, 0.2, 0.2, 0.4], rtol=1e-12)
    np.testing.assert_array_equal(loss.positions(6), [3, 4, 5, 6])
    assert run.limit["sequence_ratio"] == 60 / 8
    lengths = RandomLength((2, 6), (0.25, 0.75))
    run = RUN.with_(loss=lengths)
    flat = {"lengths": (2, 6), "length_probabilities": (0.25, 0.75)}
    assert run == Experiment.of(**FLAT, **flat) == Experiment.of(**run.keywords())
    np.testing.assert_array_equal(RandomLength((2, 6)).shares(), [0.5, 0.5])
    assert RUN.with_(loss=LastPosition()).statement() == RUN.statement()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda: AllPositions(0), "first must be an integer >= 1, got 0"),
        (lambda: AllPositions(7), "first must be at most the context of 6, got 7"),
        (lambda: AllPositions(weights=(1, 2)), "weights must be one number for each of the 6"),
        (lambda: AllPositions(weights=(-1,)), "weights must be numbers >= 0"),
        (lambda: RandomLength((3, 3)), "lengths must be different integers"),
        (lambda: RandomLength((0, 3)), "lengths must be an integer >= 1, got 0"),
        (lambda: RandomLength((3, 7)), "lengths must be at most the context of 6, got 7"),
        (lambda: RandomLength((3, 6), (1.0,)), "probabilities must be one number for each of 2"),
    ],
)
def test_losses_that_are_none(loss, message):
    with pytest.raises(ValueError, match=message):
        RUN.with_(loss=loss())


def test_losses_without_their_keywords():
    type_error(
        "position_weights needs a first_position", Experiment.of, **FLAT, position_weights=1
    )
    type_error("length_probabilities needs lengths", Experiment.of, **FLAT, length_probabilities=1)
    both = {"first_position": 1, "lengths": (2,)}
    type_error("give one of them", Experiment.of, **FLAT, **both)
    value_error("normalization must be 'mean'", RUN.with_, model=Reduced(normalization="length"))


def test_rooms_that_know_one_loss_refuse_others_by_name():
    run = RUN.with_(loss=AllPositions())
    lengths = RUN.with_(loss=RandomLength((2, 6)))
    value_error("loss must be LastPosition or AllPositions here, got RandomLength", cost, lengths)
    short = run.with_(training=SGD(0.1))
    value_error(
        "loss must be LastPosition here", iclimit.pretraining.simulate_one_pass, short, rng=0
    )
    value_error("training must be Ridge here", predict, short)
