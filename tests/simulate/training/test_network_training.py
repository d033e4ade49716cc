"""Training of networks: what a checkpoint restores, what is refused, what comes back."""

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.problem import Problem
from iclimit.simulate.networks import AttentionNetwork, train_network
from iclimit.simulate.prompts import sample_prompts
from iclimit.simulate.softmax import MergedHeads
from iclimit.simulate.training import networks

PROBLEM = Problem(dim=3, context=5, noise_variance=0.1, scale=1)
HEADS = MergedHeads(dim=3, heads=2)


@pytest.mark.machine
def test_blocks_change_nothing(monkeypatch):
    whole = train_network(HEADS, PROBLEM, steps=1, batch=30, rng=0, held_out=64)
    monkeypatch.setattr(networks, "BLOCK_NUMBERS", 6 * 4 * 30)
    blocks = train_network(HEADS, PROBLEM, steps=1, batch=30, rng=0, held_out=64)
    np.testing.assert_array_equal(blocks.losses, whole.losses)


def test_wide_networks_take_fewer_prompts_at_a_time():
    """At most 8 million numbers between the layers; a perceptron of 4096 units has 6 tokens."""
    wide = AttentionNetwork(dim=3, width=8, mlp=4096)
    assert networks.most_prompts(wide, 5) == 2**23 // (6 * 4096)
    assert networks.most_prompts(HEADS, 5) == 2**21 // (6 * 4)
    assert networks.most_prompts(HEADS, 3000) == 1
    many = sample_prompts(PROBLEM, 1000, rng=0)
    run = train_network(wide, PROBLEM, steps=1, batch=2, held_out=2, rng=0)
    asked = many.inputs, many.labels, many.query
    whole, _ = wide.forward(run.weights, many)
    np.testing.assert_allclose(run(*asked), whole, rtol=1e-9, atol=1e-12)


def test_what_is_no_network_is_refused():
    type_error("network must be a Network, got 3", train_network, 3, PROBLEM, rng=0)


def test_network_and_problem_have_one_dimension():
    with pytest.raises(ValueError, match="the dimension of the problem, 4, got 3"):
        train_network(HEADS, Problem(dim=4, context=5, scale=1), rng=0)


def test_problems_are_told_apart_by_all_their_numbers(tmp_path):
    """Long arrays are shortened where they are shown."""
    tasks = np.ones((400, 3))
    settings = {"steps": 1, "batch": 4, "held_out": 9, "rng": 0}
    settings["checkpoint"] = tmp_path / "a.npz"
    train_network(HEADS, Problem(dim=3, context=5, tasks=tasks, scale=1), **settings)
    tasks[200] = 2
    with pytest.raises(ValueError, match="another problem"):
        train_network(HEADS, Problem(dim=3, context=5, tasks=tasks, scale=1), **settings)


def test_training_is_on_the_pretraining_tasks():
    """The null loss of tasks (2, 0, 0) is 4, where that of fresh ones is 3."""
    problem = Problem(dim=3, context=5, tasks=[[2.0, 0.0, 0.0]], scale=1)
    run = train_network(HEADS, problem, steps=100, batch=64, learning_rate=0.05, rng=0)
    assert abs(run.null_loss - 4) < 6 * 4 * np.sqrt(2 / 20_000)
    assert abs(run.losses[0] - 4) < 6 * 4 * np.sqrt(2 / 64)


def test_noise_levels_that_vary_are_trained_on():
    problem = Problem(dim=3, context=5, noise_law="categorical:0,2", scale=1)
    noisy = {"query_noise": True, "steps": 1, "batch": 20_000, "held_out": 20_000}
    run = train_network(MergedHeads(3, init_scale=1e-6), problem, rng=0, **noisy)
    # Signal 3 and noise of variance 0 or 4; the held-out loss is without noise.
    assert abs(run.losses[0] - 5) < 0.3
    assert abs(run.held_out.mean - 3) < 0.2


def test_arrays_of_other_shapes_are_named():
    for shapes, message in (
        (((2, 5, 4), (2, 5), (2, 4)), r"inputs must have shape \(any, any, 3\), got \(2, 5, 4\)"),
        (((2, 5, 3), (2, 4), (2, 3)), r"labels must have shape \(2, 5\), got \(2, 4\)"),
        (((2, 5, 3), (2, 5), (3,)), r"query must have shape \(2, 3\), got \(3,\)"),
    ):
        run = train_network(HEADS, PROBLEM, steps=1, batch=4, rng=0, held_out=10)
        value_error(message, run, *map(np.zeros, shapes))


def test_entries_that_are_no_numbers_are_named():
    for labels, message in (
        (np.full((2, 5), np.nan), "labels must be finite"),
        (np.ma.masked_array(np.zeros((2, 5)), mask=True), "labels must have no masked entries"),
        ("none", "labels must be an array of real numbers, got 'none'"),
    ):
        run = train_network(HEADS, PROBLEM, steps=1, batch=4, rng=0, held_out=10)
        value_error(message, run, np.zeros((2, 5, 3)), labels, np.zeros((2, 3)))


def test_missing_cupy_is_named():
    with pytest.raises(RuntimeError, match="backend 'cupy' "):
        train_network(HEADS, PROBLEM, rng=0, backend="cupy")


def steps_of(**settings):
    """Changes of all weights in each of six steps of Adam."""
    call = {"steps": 6, "batch": 8, "snapshots": range(1, 7), "held_out": 2, "rng": 0, **settings}
    run = train_network(HEADS, PROBLEM, **call)
    start = HEADS.initial(np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0,))))
    path = [HEADS.pack(start), *(HEADS.pack(run.snapshots[step]) for step in range(1, 7))]
    return np.diff(path, axis=0)


def test_the_rate_rises_over_the_warm_up():
    plain = steps_of(patience=None)
    warm = steps_of(patience=None, warmup=4)
    np.testing.assert_allclose(warm[0], plain[0] / 4, rtol=1e-9)
    # The first step of Adam changes each weight by the rate.
    np.testing.assert_allclose(np.max(abs(warm[0])), 0.003 / 4, rtol=1e-6)


def test_the_rate_is_constant_without_patience():
    """With patience it falls over the last third: to one half in the last of six steps."""
    constant = steps_of(patience=None)
    falling = steps_of(patience=100)
    np.testing.assert_allclose(falling[:5], constant[:5], rtol=1e-12)
    np.testing.assert_allclose(falling[5], constant[5] / 2, rtol=1e-9)


def test_bad_warm_up():
    value_error("warmup must be an integer >= 0", train_network, HEADS, PROBLEM, warmup=-1, rng=0)
