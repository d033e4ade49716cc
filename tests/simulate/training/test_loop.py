"""What all trainers owe to one loop: they are cut, go on, diverge and report alike."""

import inspect
import math
import sys
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.notation import PARAMETERS
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.depth import train_depth
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.dynamics.attention_models import MomentLoss, SequenceLoss
from iclimit.simulate.dynamics.gradient_descent import simulate_gradient_descent
from iclimit.simulate.gdpp.adjusted_loss import BLOCK, AdjustedLoss, Descent
from iclimit.simulate.gdpp.transformer_training import train_linear_transformer
from iclimit.simulate.models import linear_attention
from iclimit.simulate.models.linear_attention import LinearAttention
from iclimit.simulate.models.merged_heads import MergedHeads
from iclimit.simulate.training import loop, rules
from iclimit.simulate.training.checkpoints import read_tree, write_tree
from iclimit.simulate.training.loop import UnstableTraining
from iclimit.simulate.training.networks import train_network

UNIFORM = Problem(dim=2, context=6, input_law="uniform", scale=1)
MIXED = Problem(
    dim=2,
    context=6,
    input_covariance=[[0.7, 0.1], [0.1, 0.4]],
    fresh_fraction=0.5,
    shared_task=[1.0, -0.5],
    scale=1,
)


@dataclass(frozen=True)
class Trainer:
    """A trainer with small settings, what diverges, and the function that each step calls."""

    train: Any
    problem: Any
    settings: dict[str, Any]
    step: tuple[Any, str]
    diverging: dict[str, Any] | None = None

    def __call__(self, **changes):
        return self.train(*self.problem, **self.settings | changes)


SMALL = {"rng": 3, "held_out": 50, "init_scale": 0.3, "layers": 2}
NETWORK = {"rng": 3, "held_out": 50}
LBFGS = {"optimizer": "lbfgs", "steps": 12, "batch": 200}
CURVES = {"training_set": 20, "init_scale": 0.2, "learning_rate": 0.05, "steps": 60, "record": 7}
CURVES |= {"repeats": 2, "rng": 10, "tests": True}
BATCHES = CURVES | {"batch": 4, "model": "separate", "rank": 2}
FAST, LARGE = {"learning_rate": 1e200}, {"init_scale": 1e200}
PROMPTS = Problem(dim=3, context=5, noise_variance=0.1, scale=1)
NOISY = Problem(dim=2, context=6, noise_law="uniform:2", scale=1)
HEADS = MergedHeads(3, 2), PROMPTS
ONE = (UNIFORM,)
GRADIENT = "loss_and_gradient"
MOMENTS = linear_attention, "readout_loss"
SHARED = SMALL | {"steps": 40, "batch": 20, "patience": 10, "shared": True}
MINIBATCHES = NETWORK | {"steps": 60, "batch": 32, "patience": 10}
SINGLE = SMALL | LBFGS | {"layers": 1}
ROUNDS = {"starts": 3, "contexts": 200, "steps": 6, "rng": 20, "layers": 2}
TRIALS = {"starts": 2, "contexts": 100, "steps": 4, "rng": 21, "kind": "gd++"}
TRAINERS = {
    "attention, adam": Trainer(train_attention, ONE, SHARED, (LinearAttention, GRADIENT), FAST),
    "attention, lbfgs": Trainer(
        train_attention, ONE, SMALL | LBFGS, (LinearAttention, GRADIENT), LARGE
    ),
    "attention, moments": Trainer(train_attention, ONE, SINGLE, MOMENTS, LARGE),
    "network, adam": Trainer(train_network, HEADS, MINIBATCHES, (MergedHeads, GRADIENT), FAST),
    "network, lbfgs": Trainer(
        train_network, HEADS, NETWORK | LBFGS | {"query_noise": True}, (MergedHeads, GRADIENT)
    ),
    "descent": Trainer(
        simulate_gradient_descent, (MIXED,), CURVES, (MomentLoss, "__call__"), FAST
    ),
    "descent, batches": Trainer(
        simulate_gradient_descent,
        (MIXED,),
        BATCHES,
        (SequenceLoss, "__call__"),
        {"init_scale": 1e3},
    ),
    "transformer": Trainer(train_linear_transformer, (NOISY,), ROUNDS, (Descent, "advance")),
    "transformer, trials": Trainer(
        train_linear_transformer, (NOISY,), TRIALS, (AdjustedLoss, "loss")
    ),
}
SETTING = {"depth": 2, "eigenvalues": np.ones(3), "batch": 2, "learning_rate": 0.1}
DEPTH = Trainer(train_depth, (), SETTING | {"steps": 5, "rng": 0}, ())


def parts(value):
    """Arrays and numbers of a result, without how the training ended and what it was told."""
    if hasattr(value, "shape") or isinstance(value, (int, float, str)) or value is None:
        return [value]
    if isinstance(value, dict):
        return [part for key in value for part in (key, *parts(value[key]))]
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in parts(each)]
    names = (each.name for each in fields(value))
    kept = [name for name in names if name not in ("parameters", "interrupted", "samples")]
    return [part for name in kept for part in parts(getattr(value, name))]


def assert_same(found, expected):
    """The same training to the last bit."""
    found = parts(found)
    expected = parts(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


class Cut:
    """Raises what Ctrl-C raises at a call of the function of a step."""

    def __init__(self, patch, trainer):
        self.patch, (self.owner, self.name) = patch, trainer.step
        self.function = getattr(self.owner, self.name)
        self.calls = 0

    def at(self, number):
        self.calls = 0

        def counted(*args, **kwargs):
            self.calls += 1
            if self.calls == number:
                raise KeyboardInterrupt
            return self.function(*args, **kwargs)

        self.patch.setattr(self.owner, self.name, counted)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_training_that_is_cut_anywhere_ends_in_the_same_bits(name, tmp_path, monkeypatch):
    trainer = TRAINERS[name]
    path = tmp_path / "run"
    cut = Cut(monkeypatch, trainer)
    cut.at(0)
    whole = trainer()
    count = cut.calls
    assert not whole.interrupted
    # A checkpoint at every step, or only where the training is cut.
    for seconds, numbers in ((0.0, (2, count // 2, count)), (1e9, (3, count // 3))):
        monkeypatch.setattr(loop, "SAVE_SECONDS", seconds)
        for number in numbers:
            path.unlink(missing_ok=True)
            cut.at(number)
            try:
                first = trainer(checkpoint=path)
            except KeyboardInterrupt:  # nothing is there yet
                assert name.startswith("transformer")
                assert number <= 3
            else:
                assert first.interrupted
                assert first.steps < number
                assert path.exists() == (first.steps > 0)
            cut.at(0)
            assert_same(trainer(checkpoint=str(path)), whole)
    assert list(tmp_path.iterdir()) == [path]
    # One that is finished is read, without a step.
    cut.at(1)
    assert_same(trainer(checkpoint=path), whole)
    path.unlink()
    for _ in range(count):
        cut.at(max(10, count // 6))
        run = trainer(checkpoint=path)
        if not run.interrupted:
            break
    assert_same(run, whole)


@pytest.mark.parametrize("name", ["attention, adam", "network, lbfgs", "descent"])
def test_ctrl_c_before_the_first_step_leaves_the_start(name, tmp_path, monkeypatch):
    trainer = TRAINERS[name]
    Cut(monkeypatch, trainer).at(1)
    run = trainer(checkpoint=tmp_path / "run")
    assert run.interrupted
    assert not run.converged
    assert run.steps == 0
    assert run.losses.shape[-1] == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", TRAINERS)
def test_ctrl_c_while_a_checkpoint_is_written_keeps_the_old_one(name, tmp_path, monkeypatch):
    trainer = TRAINERS[name]
    path = tmp_path / "run"
    whole = trainer()
    saves = []
    save = loop.save_checkpoint
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "SAVE_SHARE", 0)

    def interrupted(*arguments):
        saves.append(1)
        if len(saves) == 3:
            raise KeyboardInterrupt
        save(*arguments)

    monkeypatch.setattr(loop, "save_checkpoint", interrupted)
    assert trainer(checkpoint=path).interrupted
    assert_same(trainer(checkpoint=path), whole)


@pytest.mark.parametrize("name", ["network, adam", "descent"])
def test_ctrl_c_after_a_record_does_not_repeat_it(name, tmp_path, monkeypatch):
    trainer = TRAINERS[name]
    path = tmp_path / "run"
    whole = trainer()
    rule = rules.Adam if "adam" in name else rules.GradientDescent
    cut = Cut(monkeypatch, replace(trainer, step=(rule, "step")))
    cut.at(15)  # of these steps the 15th, after 14, is recorded by both
    assert trainer(checkpoint=path).steps == 14
    cut.at(0)
    assert_same(trainer(checkpoint=path), whole)


@pytest.mark.parametrize("name", ["network, adam", "network, lbfgs", "descent"])
def test_states_that_no_training_writes_are_refused(name, tmp_path):
    trainer = TRAINERS[name]
    path = tmp_path / "run"
    trainer(checkpoint=path)
    tree = read_tree(path)
    state = tree["state"]
    records = state["records"]
    [first, *others] = state["weights"]
    changes = [{"steps": steps} for steps in (-5, 2.5, True, "x", None, [3], 10**400)]
    changes += [{"converged": converged} for converged in (1, "x", None)]
    weights = [np.full_like(first, np.nan), first[..., :-1], first.astype(str), 3, None]
    changes += [{"weights": [each, *others]} for each in weights]
    changes += [{"weights": each} for each in ([], [*others], [first, *others, first], 3, first)]
    changes += [{"memory": memory} for memory in ({"first": "x"}, [1], 3, None)]
    changes += [
        {"kept": kept} for kept in (3, [[-1, state["weights"]]], [[1, [first[:0]]]], [[1]])
    ]
    changes += [{"records": each} for each in (3, {"loss": np.ones(2)}, {"steps": np.arange(3)})]
    columns = [records["steps"][::-1], records["steps"] - 1, records["steps"][:-1], "x", 3]
    changes += [{"records": records | {"steps": column}} for column in columns]
    changes += [{"records": records | {"loss": each}} for each in (records["loss"][1:], "x", 3)]
    changes += [{"more": 1}]
    for change in changes:
        write_tree(path, tree | {"state": state | change})
        value_error("checkpoint must be a training's own file, got ", trainer, checkpoint=path)
    for part in state:
        missing = {key: value for key, value in state.items() if key != part}
        write_tree(path, tree | {"state": missing})
        value_error("checkpoint must be a training's own file, got ", trainer, checkpoint=path)


@pytest.mark.parametrize("name", TRAINERS)
def test_checkpoints_of_other_trainings_are_refused(name, tmp_path):
    """Every setting tells trainings apart, but for those that choose what is shown or kept."""
    trainer = TRAINERS[name]
    path = tmp_path / "run"
    trainer(checkpoint=path)
    before = path.read_bytes()
    others = {"rng": np.random.SeedSequence(trainer.settings["rng"], spawn_key=(1,))}
    for other, default in numbers_of(trainer).items():
        if name.startswith("descent") and other == "steps":
            continue  # more steps extend a training
        value = trainer.settings.get(other, default)
        if isinstance(value, bool) or value is None or value == math.inf:
            continue
        others[other] = value + 1 if isinstance(value, int) else 1.01 * value
    for other, value in others.items():
        if name == "descent, batches" and other == "rank":
            continue
        message = "must be of the same training" if other != "rank" else "rank must be 1"
        value_error(message, trainer, checkpoint=path, **{other: value})
    *models, problem = trainer.problem
    moved = replace(problem, context=7)
    with pytest.raises(ValueError, match=r"of the same training, got .* another problem"):
        replace(trainer, problem=(*models, moved))(checkpoint=path)
    path.write_bytes(before[:-9])
    value_error("checkpoint must be a training's own file", trainer, checkpoint=path)
    with pytest.raises(FileNotFoundError, match="checkpoint must be a file that can be written"):
        trainer(checkpoint=tmp_path / "absent" / "run")


def arguments_of(trainer):
    """Arguments of a trainer by name, with those that it passes on."""
    parameters = dict(inspect.signature(trainer.train).parameters)
    if "settings" in parameters:
        parameters |= inspect.signature(train_network).parameters
    return {name: each for name, each in parameters.items() if name not in ("network", "settings")}


def numbers_of(trainer):
    """Defaults of the arguments of a trainer that are numbers with a range."""
    numbers = {}
    for name, each in arguments_of(trainer).items():
        row = PARAMETERS.get(name)
        # In older versions of NumPy the annotation of arrays is a union with numbers, too.
        types = set(get_args(each.annotation) or [each.annotation])
        if row and row.range and types & {int, float} and types <= {int, float, type(None)}:
            numbers[name] = each.default
    return numbers


@pytest.mark.parametrize("name", [*TRAINERS, "depth"])
def test_wrong_arguments_are_named(name):
    trainer = TRAINERS.get(name, DEPTH)
    for argument in numbers_of(trainer):
        row = PARAMETERS[argument]
        least = row.range.lower if row.range.open_lower else row.range.lower - 1
        wrong = [least, math.nan, "a", True, *([1.5] if row.integer else [])]
        for value in wrong:
            value_error(rf"^{argument} must be .*, got {value!r}", trainer, **{argument: value})
    for argument, each in arguments_of(trainer).items():
        if isinstance(each.default, str):
            with pytest.raises(ValueError, match=rf"^{argument} must be one of .*, got 'other'"):
                trainer(**{argument: "other"})
    type_error("rng must be an int, SeedSequence or Generator, got None", trainer, rng=None)
    if trainer.problem:
        with pytest.raises(TypeError, match=r"problem must be a Problem.*, got 'x'"):
            replace(trainer, problem=(*trainer.problem[:-1], "x"))()


@pytest.mark.parametrize("name", [name for name in TRAINERS if TRAINERS[name].diverging])
def test_divergence_is_an_error_without_warnings(name):
    trainer = TRAINERS[name]
    with pytest.raises(UnstableTraining, match=r"diverged: the loss .* after [01] steps: try"):
        trainer(**trainer.diverging)


def test_divergence_in_depth_and_of_lbfgs():
    with pytest.raises(UnstableTraining, match=r"learning_rate = 50.0 or initial is too large"):
        DEPTH(learning_rate=50.0, steps=60)
    large = replace(TRAINERS["network, lbfgs"], problem=(MergedHeads(3, 2, 1e200), PROMPTS))
    with pytest.raises(UnstableTraining, match=r"diverged: the loss is .* after 0 steps"):
        large()


@pytest.mark.parametrize("name", [*TRAINERS, "depth"])
def test_progress_and_seeds(name, capsys):
    trainer = TRAINERS.get(name, DEPTH)
    run = trainer()
    assert capsys.readouterr() == ("", "")
    seed = np.random.SeedSequence(trainer.settings["rng"])
    assert_same(trainer(rng=seed, progress=True), run)
    assert "step" in capsys.readouterr().err
    other = parts(trainer(rng=99))
    assert any(np.any(one != two) for one, two in zip(parts(run), other, strict=False))


def test_snapshots_are_the_weights_of_shorter_runs():
    for name in ("attention, adam", "attention, lbfgs", "network, lbfgs"):
        trainer = TRAINERS[name]
        run = trainer(steps=6, snapshots=(3, 1, 2, 6, 99))
        assert set(run.snapshots) == {1, 2, 3, 6}
        for steps in (1, 2, 3):  # Adam's rate has not begun to fall in either run
            shorter = trainer(steps=steps)
            assert shorter.snapshots == {}
            assert_same(run.snapshots[steps], shorter.weights)
        assert_same(run.snapshots[6], run.weights)
        assert_same(trainer(steps=6).weights, run.weights)


def test_snapshots_survive_an_interruption(tmp_path, monkeypatch):
    trainer = TRAINERS["network, lbfgs"]
    path = tmp_path / "run"
    cut = Cut(monkeypatch, trainer)
    cut.at(8)
    run = trainer(snapshots=range(1, 99), checkpoint=path)
    assert run.interrupted
    assert list(run.snapshots) == list(range(1, run.steps + 1))
    # The weights after the last whole step, not those of a trial of the line search.
    assert_same(run.snapshots[run.steps], run.weights)
    cut.at(0)
    assert_same(trainer(steps=run.steps).weights, run.weights)
    again = trainer(snapshots=range(1, 99), checkpoint=path)
    assert list(again.snapshots) == list(range(1, again.steps + 1))


@pytest.mark.machine
def test_losses_are_those_before_the_steps_and_after_the_last():
    """At a rate that moves nothing each is the loss of the start, on the prompts of its step."""
    trainer = TRAINERS["network, adam"]
    run = trainer(learning_rate=1e-30, steps=5)
    assert run.losses.shape == (6,)
    assert len(set(run.losses)) == 6
    few = trainer(steps=20).losses
    more = trainer(steps=30).losses
    np.testing.assert_array_equal(few[:14], more[:14])  # the last third has smaller rates


def test_checkpoints_are_rarer_where_they_are_slow(tmp_path, monkeypatch):
    """A step takes 10 s here and a checkpoint 15: one in 300 s, and one at the end."""
    clock = 0.0
    saved = []
    advance = loop.TrainingLoop.advance
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock)

    def slow(self, state):
        nonlocal clock
        clock += 10.0
        advance(self, state)

    def save(*_):
        nonlocal clock
        saved.append(clock)
        clock += 15.0

    monkeypatch.setattr(loop.TrainingLoop, "advance", slow)
    monkeypatch.setattr(loop, "save_checkpoint", save)
    TRAINERS["network, adam"](checkpoint=tmp_path / "run", steps=59, patience=100)
    assert saved == [10.0, 325.0, 620.0]


STRICT = {name: trainer for name, trainer in TRAINERS.items() if "trials" not in name}


@pytest.mark.parametrize("name", STRICT)
def test_training_runs_on_any_arrays(name, strict_backend, tmp_path, monkeypatch):
    trainer = STRICT[name]
    path = tmp_path / "run"
    cut = Cut(monkeypatch, trainer)
    cut.at(0)
    expected = trainer()
    count = cut.calls
    numpy = get_backend("numpy")
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("iclimit.simulate"):
            if hasattr(module, "get_backend"):
                monkeypatch.setattr(
                    module, "get_backend", lambda name: strict_backend if name == "cupy" else numpy
                )
            if hasattr(module, "to_host"):
                monkeypatch.setattr(module, "to_host", np.asarray)
    monkeypatch.setitem(BLOCK, "strict", 16)
    monkeypatch.setitem(BLOCK, "cupy", 10)
    cut.at(count // 2)
    assert trainer(checkpoint=path, backend="cupy").interrupted
    cut.at(0)
    found = trainer(checkpoint=path, backend="cupy")
    for one, other in zip(parts(found), parts(expected), strict=True):
        if hasattr(other, "dtype"):
            assert isinstance(one, np.ndarray)
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
