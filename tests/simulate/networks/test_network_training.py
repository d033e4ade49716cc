"""Training of networks: what a checkpoint restores, what is refused, what comes back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iclimit.simulate import optimizers
from iclimit.simulate.networks import train_network, training
from iclimit.simulate.probing.problem import Problem
from iclimit.simulate.softmax import MergedHeads

PROBLEM = Problem(context=5, dim=3, noise_variance=0.1)
HEADS = MergedHeads(dim=3, heads=2)
SETTINGS: dict[str, dict[str, Any]] = {
    "adam": {"optimizer": "adam", "steps": 60, "batch": 32, "patience": 10},
    "lbfgs": {"optimizer": "lbfgs", "steps": 30, "batch": 200, "query_noise": True},
}


@pytest.mark.parametrize("optimizer", SETTINGS)
def test_interrupted_training_ends_in_the_same_bits(
    optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SETTINGS[optimizer] | {"rng": 3, "held_out": 100}
    whole = train_network(HEADS, PROBLEM, **settings)
    monkeypatch.setattr(training, "SAVE_SECONDS", 0.0)
    calls, draw = 0, optimizers.Run.move

    def interrupted(run: optimizers.Run, weights: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 17:
            raise KeyboardInterrupt
        draw(run, weights)

    monkeypatch.setattr(optimizers.Run, "move", interrupted)
    path = tmp_path / "state.npz"
    assert train_network(HEADS, PROBLEM, checkpoint=path, **settings).interrupted
    assert path.exists()
    resumed = train_network(HEADS, PROBLEM, checkpoint=path, **settings)
    assert not resumed.interrupted
    assert resumed.steps == whole.steps
    np.testing.assert_array_equal(resumed.losses, whole.losses)
    for name, weights in whole.weights.items():
        np.testing.assert_array_equal(resumed.weights[name], weights)
    assert resumed.held_out == whole.held_out


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train_network(HEADS, PROBLEM, steps=1, batch=30, rng=0, held_out=64)
    monkeypatch.setattr(training, "BLOCK_NUMBERS", 6 * 4 * 30)
    assert train_network(HEADS, PROBLEM, steps=1, batch=30, rng=0, held_out=64).losses == (
        whole.losses
    )


def test_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    settings = SETTINGS["adam"] | {"rng": 3, "held_out": 100, "checkpoint": tmp_path / "a.npz"}
    train_network(HEADS, PROBLEM, **settings)
    with pytest.raises(ValueError, match="another network"):
        train_network(MergedHeads(dim=3), PROBLEM, **settings)


def test_trained_network_answers_like_a_function() -> None:
    run = train_network(HEADS, PROBLEM, steps=5, batch=16, rng=0, held_out=100)
    drawn = PROBLEM.sample(7, rng=1)
    assert run(drawn.inputs, drawn.labels, drawn.query).shape == (7,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"optimizer": "sgd"}, "optimizer must be one of adam, lbfgs, got 'sgd'"),
        ({"held_out": 1}, "held_out must be an integer"),
        ({"batch": 0}, "batch must be an integer"),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_network(HEADS, PROBLEM, rng=0, **wrong)


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(TypeError, match="network must be a Network, got 3"):
        train_network(3, PROBLEM, rng=0)  # type: ignore[arg-type]
