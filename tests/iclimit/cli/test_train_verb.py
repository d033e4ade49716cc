"""The verb ``train linear-transformer``: from flags to numbers, weights and checkpoints."""

import json

import numpy as np
import pytest
from refusals import refused_command

from iclimit.cli import main
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp import held_out_losses, train_linear_transformer
from iclimit.simulate.gdpp.adjusted_loss import Descent
from iclimit.simulate.models.linear_transformer import KINDS
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.networks import load_model
from iclimit.simulate.prompts import draw_prompts, regression_tokens

SMALL = [
    *["train", "linear-transformer", "--noise-law", "uniform:1", "--context", "8", "--dim", "2"],
    *["--contexts", "512", "--starts", "1", "--held-out", "3000"],
]
PROBLEM = Problem(dim=2, context=8, noise_law="uniform:1", scale=1)
COLUMNS = [
    *("kind", "layers", "noise_law", "training_loss", "held_out_loss", "standard_error"),
    *("starts_at_best", "steps", "converged"),
]
OMEGAS = ["layer", "omega_xx", "omega_xy", "omega_yx", "omega_yy"]


@pytest.fixture
def printed(capsys):
    """Standard output of a run that succeeds and has nothing to complain of."""

    def run(*flags):
        assert main([*SMALL, *map(str, flags)]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""  # no progress bar either: this is no terminal
        return captured.out

    return run


def trained(kind="diag", layers=1, **settings):
    more = {"starts": 1, "contexts": 512, "rng": 0}
    return train_linear_transformer(PROBLEM, kind=kind, layers=layers, **more, **settings)


@pytest.mark.parametrize(("kind", "layers"), [("diag", 2), ("gd++", 2), ("axial", 2), ("full", 1)])
def test_json_is_the_training_and_its_losses(kind, layers, printed):
    flags = ["--kind", kind, "--layers", layers]
    data = json.loads(printed(*flags, "--format", "json"), parse_constant=pytest.fail)
    run = trained(kind, layers)
    fresh = held_out_losses(run.model, PROBLEM, contexts=3000, rng=np.random.SeedSequence([0, 1]))
    loss = (run.loss, fresh.loss.mean, fresh.loss.standard_error)
    assert list(data) == [*COLUMNS, "omegas"]
    found = [*(kind, layers, "uniform:1", *loss, 1, run.steps, run.converged)]
    assert [data[name] for name in COLUMNS] == found
    # A few hundred contexts and parameters: the loss on fresh ones is near that of the training.
    assert data["held_out_loss"] < 2 * data["training_loss"]
    tables = printed(*flags).split("\n\n")
    if kind in ("full", "axial"):
        assert data["omegas"] == []
        assert len(tables) == 1
        return
    assert [list(row) for row in data["omegas"]] == [OMEGAS] * layers
    omegas = [[row[name] for name in OMEGAS[1:]] for row in data["omegas"]]
    assert omegas == run.model.omegas.reshape(layers, 4).tolist()
    head, *lines = tables[1].splitlines()
    assert head.split() == OMEGAS
    for layer, (line, row) in enumerate(zip(lines, omegas, strict=True), start=1):
        assert [*map(float, line.split())] == pytest.approx([layer, *row], rel=1e-9)


def test_training_starts_from_weights_files(tmp_path, printed, capsys):
    """Two files at one flag or two: a diagonal layer, and an axial one of the same depth."""
    first = tmp_path / "first.npz"
    second = tmp_path / "second.npz"
    flags = ["--kind", "axial", "--layers", "2", "--steps", "3", "--format", "json"]
    printed("-o", first)
    printed(*flags, "-o", second)
    both = printed(*flags, "--initial", first, second)
    assert printed(*flags, "--initial", first, "--initial", second) == both
    run = trained("axial", 2, initial=[load_model(first), load_model(second)], steps=3)
    assert run.start_losses.size == 1 + 2 + 1
    assert json.loads(both)["training_loss"] == run.loss
    assert json.loads(both)["training_loss"] != json.loads(printed(*flags))["training_loss"]
    for flags, message in (
        (["--layers", "2"], "weights must be of kind 'diag', got other entries"),
        (["--kind", "axial"], "initial must have at most 1 layers, 1 heads and dimension 2"),
        (["--initial", "absent.npz"], "cannot read a file: [Errno 2] No such file"),
    ):
        assert message in refused_command(capsys, [*SMALL, "--initial", second, *flags])


def test_seeds_and_contexts(printed):
    """Seeds differ and repeat; a single context has no standard error."""
    first, again, other = (printed("--seed", seed) for seed in (0, 0, 1))
    assert first == again != other
    flags = ["--held-out", "1", "--format", "json"]
    assert json.loads(printed(*flags), parse_constant=pytest.fail)["standard_error"] == "inf"


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_written_and_predict_the_same(kind, tmp_path, printed):
    path = tmp_path / "weights.npz"
    state = tmp_path / "run.npz"
    flags = ["--kind", kind, "--heads", "2"]
    assert printed(*flags, "-o", path, "--checkpoint", state) == printed(*flags)
    assert sorted(tmp_path.iterdir()) == [state, path]
    model = load_model(path)
    assert (model.kind, model.depth, model.dim) == (kind, 1, 2)
    place = get_backend("numpy")
    tokens = regression_tokens(draw_prompts(PROBLEM, place, np.random.default_rng(3), 20))
    expected = prediction(tokens, trained(kind, heads=2).model.layers)
    np.testing.assert_array_equal(prediction(tokens, model.layers), expected)
    # The adjusted loss of the file is the one that was printed.
    loss = json.loads(printed(*flags, "--format", "json"))["held_out_loss"]
    fresh = held_out_losses(model, PROBLEM, contexts=3000, rng=np.random.SeedSequence([0, 1]))
    assert fresh.loss.mean == loss


def test_a_checkpoint_goes_on_to_the_same_result(tmp_path, printed, monkeypatch, capsys):
    path = tmp_path / "run.npz"
    expected = printed()
    advance = Descent.advance
    count = 0

    def interrupted(self, *args, **kwargs):
        nonlocal count
        count += 1
        if count > 4:
            raise KeyboardInterrupt
        advance(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Descent, "advance", interrupted)
        assert main([*SMALL, "--checkpoint", str(path)]) == 130
    captured = capsys.readouterr()
    assert captured.err == "interrupted: the best so far was measured\n"
    assert captured.out.split()[: len(COLUMNS)] == COLUMNS
    assert captured.out != expected
    assert printed("--checkpoint", path) == expected
    # A finished training is only measured again.
    monkeypatch.setattr(Descent, "advance", pytest.fail)
    assert printed("--checkpoint", path) == expected
    assert main([*SMALL, "--checkpoint", str(path), "--layers", "2"]) == 2
    assert "checkpoint must be of the same training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--noise-law 3", "noise_law must be fixed:SIGMA, uniform:SIGMA_MAX or categorical:"),
        ("--checkpoint x", "checkpoint: must end in .npz, got 'x'"),
        ("-o x.npz --checkpoint ./x.npz", "--output and --checkpoint must be two files, got "),
    ],
)
def test_bad_input_is_one_line_and_status_2(flags, message, monkeypatch, capsys):
    monkeypatch.setattr(Descent, "advance", pytest.fail)  # before any work
    assert message in refused_command(capsys, [*SMALL, *flags.split()])
