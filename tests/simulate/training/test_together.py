"""Networks that are trained as one batch end as if each were alone."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from cupy_stand_in import stand_in

from iclimit.losses import AllPositions
from iclimit.problem import Problem
from iclimit.simulate.models.stack import AttentionNetwork, CausalNetwork
from iclimit.simulate.networks import train_repeats
from iclimit.simulate.training import loop, together
from iclimit.simulate.training.networks import Options, begin_training
from iclimit.simulate.training.together import networks_at_once, train_together, trains

PROBLEM = Problem(dim=2, context=3, tasks=4, noise_variance=0.1, scale=1)
SETTINGS = {"steps": 24, "batch": 8, "held_out": 20, "patience": 4, "learning_rate": 0.05}
SMALL = AttentionNetwork(2, layers=2, width=4, mlp=6, layer_norm=True)
NETWORKS = [
    (SMALL, {"clip": 0.5, "snapshots": (3,)}),
    (
        AttentionNetwork(
            2,
            layers=2,
            heads=2,
            attention=("linear", "softmax"),
            shared=True,
            tokens="separate",
            positions=2,
            embedding_mlp=3,
        ),
        {"query_noise": True, "warmup": 5},
    ),
    (CausalNetwork(2, layers=2, width=4, positions=2), {"loss": AllPositions()}),
]

# Sums in another order; the products of BLAS were the same to the last bit.
ROUNDING = 1e-12


def loaded():
    """Modules of the package that have been imported."""
    return [module for name, module in sys.modules.items() if name.startswith("iclimit.")]


def assert_same(run, alone):
    assert (run.steps, run.ending.kind) == (alone.steps, alone.ending.kind)
    np.testing.assert_allclose(run.losses, alone.losses, rtol=ROUNDING)
    for name, weight in alone.weights.items():
        np.testing.assert_allclose(run.weights[name], weight, rtol=ROUNDING, atol=ROUNDING)
    assert run.snapshots.keys() == alone.snapshots.keys()
    assert run.held_out.mean == pytest.approx(alone.held_out.mean, rel=ROUNDING)


@pytest.mark.parametrize(("network", "changes"), NETWORKS)
def test_together_is_one_by_one(network, changes, monkeypatch):
    settings = SETTINGS | changes
    made = train_repeats(network, PROBLEM, repeats=3, rng=0, **settings)
    monkeypatch.setattr(together, "CACHED", 0)
    alone = train_repeats(network, PROBLEM, repeats=3, rng=0, **settings)
    for run, other in zip(made.runs, alone.runs, strict=True):
        assert_same(run, other)


def test_cells_of_a_sweep_have_their_own_law_rate_and_end():
    """The second diverges at once, the others end on plateaus of their own or at the last step."""
    laws = [PROBLEM, PROBLEM, replace(PROBLEM, tasks=np.inf), replace(PROBLEM, tasks=1)]
    options = Options.of(**SETTINGS)
    rates = [(0.05, 20), (1e200, 20), (0.01, 22), (0.2, 20)]
    own = [replace(options, learning_rate=rate, steps=steps) for rate, steps in rates]
    cells = list(zip(laws, own, range(4), strict=True))
    made = train_together([begin_training(SMALL, *cell, None) for cell in cells])
    assert made[1] is None
    for number in (0, 2, 3):
        assert_same(made[number], begin_training(SMALL, *cells[number], None).run())
    assert len({run.steps for run in made if run}) > 1


@trains
def trained_twice(*, tasks, width, rng, backend="numpy"):
    """A network is trained, and another one from where the first has ended."""
    options = Options.of(**SETTINGS | {"steps": 3}, backend=backend)
    network = AttentionNetwork(2, layers=2, width=width)
    law = replace(PROBLEM, tasks=tasks)
    [first] = yield [begin_training(network, law, options, rng, None)]
    second = yield [begin_training(network, law, options, first.steps + rng, None)] * (tasks > 2)
    return [run.held_out.mean for run in (first, *second)]


def test_calls_of_a_function_train_equal_shapes_together(monkeypatch):
    """One call has another shape, one trains once, and one is wrong."""
    calls = [
        {"tasks": tasks, "width": width, "rng": seed}
        for seed, (tasks, width) in enumerate([(4, 4), (3, 4), (4, 5), (2, 4), (-1, 4)])
    ]
    alone = [trained_twice(**call) for call in calls[:-1]]
    sizes = []

    def counted(trainings):
        sizes.append(len(trainings))
        return train_together(trainings)

    monkeypatch.setattr(together, "train_together", counted)
    with stand_in(loaded()):
        made = trained_twice.together([call | {"backend": "cupy"} for call in calls])
    for losses, expected in zip(made, alone, strict=False):
        np.testing.assert_allclose(losses, expected, rtol=ROUNDING)
    assert sizes == [3, 1, 2, 1]
    assert "tasks must be" in str(made[-1])
    with pytest.raises(ValueError, match="tasks must be"):
        trained_twice(**calls[-1])


def test_ctrl_c_leaves_all_of_them_to_go_on_from(tmp_path, monkeypatch):
    settings = SETTINGS | {"checkpoint": tmp_path / "a.npz", "rng": 0}
    advance = loop.TrainingLoop.advance
    moves = 0

    def interrupted(self, state):
        nonlocal moves
        moves += 1
        if moves == 8:
            raise KeyboardInterrupt
        advance(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(loop.TrainingLoop, "advance", interrupted)
        made = train_repeats(SMALL, PROBLEM, repeats=3, **settings)
    assert made.interrupted
    assert [(run.steps, run.interrupted) for run in made.runs if run] == [
        (3, True),
        (2, True),
        (2, True),
    ]
    # One of them goes on alone, and the others from where they are.
    train_repeats(SMALL, PROBLEM, repeats=1, **settings)
    again = train_repeats(SMALL, PROBLEM, repeats=3, **settings)
    del settings["checkpoint"]
    whole = train_repeats(SMALL, PROBLEM, repeats=3, **settings)
    for run, other in zip(again.runs, whole.runs, strict=True):
        assert_same(run, other)


def test_batches_fit_into_cache_or_memory():
    """A perceptron of 128 units has 5 * 128 numbers for each of 32 prompts."""
    wide = AttentionNetwork(4, layers=3, width=64, mlp=128)
    law = Problem(4, 4, scale=1)

    def size(network=wide, **settings):
        options = Options.of(**{"batch": 32} | settings)
        return networks_at_once(begin_training(network, law, options, 0, None))

    assert size() == 2**17 // (5 * 128 * 32) == 6
    assert size(batch=256) == size(optimizer="lbfgs") == 1
    with stand_in(loaded()):
        assert size(backend="cupy", batch=256) == 2**23 // (5 * 128 * 256) == 51


def test_a_gpu_trains_them_together():
    settings = SETTINGS | {"steps": 3}
    expected = train_repeats(SMALL, PROBLEM, repeats=2, rng=0, **settings)
    with stand_in(loaded()):
        made = train_repeats(SMALL, PROBLEM, repeats=2, rng=0, backend="cupy", **settings)
    for run, other in zip(made.runs, expected.runs, strict=True):
        assert_same(run, other)
