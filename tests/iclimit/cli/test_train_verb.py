"""The verb ``iclimit train``: a small training from flags to numbers, weights and checkpoints."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iclimit import simulate
from iclimit.cli import main
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp import (
    HeldOutLosses,
    TrainedTransformer,
    held_out_losses,
    train_linear_transformer,
)
from iclimit.simulate.gdpp.adjusted_loss import Descent
from iclimit.simulate.gdpp.linear_transformer import KINDS
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.networks import load_model
from iclimit.simulate.prompts import draw_prompts, regression_tokens

MODEL = ["train", "linear-transformer"]
SMALL = [
    *MODEL,
    "--noise-law",
    "uniform:1",
    "--context",
    "8",
    "--dim",
    "2",
    "--contexts",
    "512",
    "--starts",
    "1",
    "--held-out",
    "3000",
]
PROBLEM = Problem(dim=2, context=8, noise_law="uniform:1", scale=1)
COLUMNS = [
    "kind",
    "layers",
    "noise_law",
    "training_loss",
    "held_out_loss",
    "standard_error",
    "starts_at_best",
    "steps",
    "converged",
]
OMEGAS = ["layer", "omega_xx", "omega_xy", "omega_yx", "omega_yy"]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Standard output of a run that succeeds and has nothing to complain of."""

    def run(*flags: str) -> str:
        assert main([*SMALL, *flags]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""  # no progress bar either: this is no terminal
        return captured.out

    return run


def trained(kind: str = "diag", layers: int = 1, **settings: Any) -> TrainedTransformer:
    return train_linear_transformer(
        PROBLEM, kind=kind, layers=layers, starts=1, contexts=512, rng=0, **settings
    )


@pytest.mark.parametrize(("kind", "layers"), [("diag", 2), ("gd++", 2), ("axial", 2), ("full", 1)])
def test_json_is_the_training_and_its_losses(
    kind: str, layers: int, printed: Callable[..., str]
) -> None:
    flags = ["--kind", kind, "--layers", str(layers), "--format", "json"]
    found = json.loads(printed(*flags), parse_constant=pytest.fail)
    run = trained(kind, layers)
    fresh = held_out_losses(run.model, PROBLEM, contexts=3000, rng=np.random.SeedSequence([0, 1]))
    assert list(found) == [*COLUMNS, "omegas"]
    assert [found[name] for name in COLUMNS] == [
        kind,
        layers,
        "uniform:1",
        run.loss,
        fresh.loss.mean,
        fresh.loss.standard_error,
        1,
        run.steps,
        run.converged,
    ]
    # A few hundred contexts and parameters: the loss on fresh ones is near that of the training.
    assert found["held_out_loss"] < 2 * found["training_loss"]
    if kind in ("full", "axial"):
        assert found["omegas"] == []
        return
    assert [list(row) for row in found["omegas"]] == [OMEGAS] * layers
    assert [row["layer"] for row in found["omegas"]] == list(range(1, layers + 1))
    omegas = [[row[name] for name in OMEGAS[1:]] for row in found["omegas"]]
    assert omegas == run.model.omegas.reshape(layers, 4).tolist()


def test_formats_agree(printed: Callable[..., str]) -> None:
    data = json.loads(printed("--format", "json"))
    (row,) = csv.DictReader(io.StringIO(printed("--format", "csv")))
    assert list(row) == COLUMNS
    assert row == {name: str(data[name]) for name in COLUMNS}
    model, omegas = printed().split("\n\n")
    for text, rows in ((model, [data]), (omegas, data["omegas"])):
        head, *lines = text.splitlines()
        assert len({len(line) for line in [head, *lines]}) == 1  # aligned
        for line, expected in zip(lines, rows, strict=True):
            for name, word in zip(head.split(), line.split(), strict=True):
                value = expected[name]
                if isinstance(value, float):
                    assert float(word) == pytest.approx(value, rel=1e-9)
                else:
                    assert word == str(value)


@pytest.mark.parametrize("kind", ["full", "axial"])
def test_other_weights_have_no_table_of_scalars(kind: str, printed: Callable[..., str]) -> None:
    assert len(printed("--kind", kind).splitlines()) == 2


def test_training_starts_from_weights_files(tmp_path: Path, printed: Callable[..., str]) -> None:
    """Two files at one flag or two: a diagonal layer, and an axial one of the same depth."""
    first, second = str(tmp_path / "first.npz"), str(tmp_path / "second.npz")
    flags = ["--kind", "axial", "--layers", "2", "--steps", "3", "--format", "json"]
    printed("-o", first)
    printed(*flags, "-o", second)
    found = printed(*flags, "--initial", first, second)
    assert printed(*flags, "--initial", first, "--initial", second) == found
    models = [load_model(first), load_model(second)]
    run = trained("axial", 2, initial=models, steps=3)
    assert run.start_losses.size == 1 + 2 + 1
    assert json.loads(found)["training_loss"] == run.loss
    assert json.loads(found)["training_loss"] != json.loads(printed(*flags))["training_loss"]


def test_weights_files_that_are_no_start(
    tmp_path: Path, printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "axial.npz"
    printed("--kind", "axial", "--layers", "2", "--steps", "1", "-o", str(path))
    for flags, message in (
        (["--layers", "2"], "weights must be of kind 'diag', got other entries"),
        (["--kind", "axial"], "initial must have at most 1 layers, 1 heads and dimension 2"),
        (["--initial", "absent.npz"], "cannot read a file: [Errno 2] No such file"),
    ):
        assert main([*SMALL, "--initial", str(path), *flags]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.err.count("\n") == 1
        assert captured.out == ""


def test_seeds_differ_and_repeat(printed: Callable[..., str]) -> None:
    first, again, other = (printed("--seed", seed) for seed in ("0", "0", "1"))
    assert first == again != other


def test_infinite_errors_are_strict_json(printed: Callable[..., str]) -> None:
    """A single context has no standard error."""
    flags = ["--held-out", "1", "--format", "json"]
    assert json.loads(printed(*flags), parse_constant=pytest.fail)["standard_error"] == "inf"


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_written_and_predict_the_same(
    kind: str, tmp_path: Path, printed: Callable[..., str]
) -> None:
    path = tmp_path / "weights.npz"
    flags = ["--kind", kind, "--heads", "2"]
    assert printed(*flags, "-o", str(path)) == printed(*flags)
    assert list(tmp_path.iterdir()) == [path]
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


def test_a_checkpoint_goes_on_to_the_same_result(
    tmp_path: Path,
    printed: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "run.npz"
    expected = printed()
    advance, count = Descent.advance, 0

    def interrupted(self: Descent, *args: Any, **kwargs: Any) -> None:
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
    assert printed("--checkpoint", str(path)) == expected
    # A finished training is only measured again.
    monkeypatch.setattr(Descent, "advance", pytest.fail)
    assert printed("--checkpoint", str(path)) == expected


def test_a_checkpoint_of_another_training_is_refused(
    tmp_path: Path, printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.npz"
    printed("--checkpoint", str(path))
    assert main([*SMALL, "--checkpoint", str(path), "--layers", "2"]) == 2
    error = capsys.readouterr().err
    assert "checkpoint must be of the same training" in error
    assert error.endswith("with another layers\n")
    path.write_text("nothing")
    assert main([*SMALL, "--checkpoint", str(path)]) == 2
    assert "checkpoint must be a training's own file" in capsys.readouterr().err


def test_weights_and_checkpoint_in_two_files(tmp_path: Path, printed: Callable[..., str]) -> None:
    weights, checkpoint = tmp_path / "weights.npz", tmp_path / "run.npz"
    flags = ["-o", str(weights), "--checkpoint", str(checkpoint)]
    assert printed(*flags) == printed()
    assert load_model(weights).depth == 1
    # Both are as they should be: the checkpoint is gone on with, the weights are written again.
    weights.unlink()
    assert printed(*flags) == printed()
    assert sorted(tmp_path.iterdir()) == [checkpoint, weights]


@pytest.mark.parametrize("terminal", [False, True])
def test_flags_reach_the_training(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    measured: dict[str, Any] = {}

    def train(problem: Problem, **settings: Any) -> TrainedTransformer:
        seen.update(settings, problem=problem)
        return trained()

    def measure(model: Any, problem: Problem, **settings: Any) -> HeldOutLosses:
        measured.update(settings, problem=problem)
        return held_out_losses(model, PROBLEM, contexts=10, rng=settings["rng"])

    monkeypatch.setattr(simulate.gdpp, "train_linear_transformer", train)
    monkeypatch.setattr(simulate.gdpp, "held_out_losses", measure)
    monkeypatch.setattr("iclimit.simulate.arrays.get_backend", lambda _: None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert main([*MODEL, "--noise-law", "fixed:2"]) == 0
    assert seen == {
        "problem": Problem(dim=10, context=20, noise_law="fixed:2", scale=1),
        "kind": "diag",
        "layers": 1,
        "heads": 1,
        "starts": 16,
        "contexts": 2**15,
        "steps": 80,
        "initial": [],
        "rng": 0,
        "backend": "numpy",
        "checkpoint": None,
        "progress": terminal,
    }
    assert measured["problem"] == seen["problem"]
    assert (measured["contexts"], measured["backend"]) == (100_000, "numpy")
    flags = "--kind gd++ --layers 2 --heads 3 --context 7 --dim 4 --starts 5 --contexts 600"
    more = "--steps 9 --held-out 44 --seed 6 --backend cupy --checkpoint run.npz"
    assert main([*MODEL, "--noise-law", "categorical:1,3", *flags.split(), *more.split()]) == 0
    assert seen == {
        "problem": Problem(dim=4, context=7, noise_law="categorical:1,3", scale=1),
        "kind": "gd++",
        "layers": 2,
        "heads": 3,
        "starts": 5,
        "contexts": 600,
        "steps": 9,
        "initial": [],
        "rng": 6,
        "backend": "cupy",
        "checkpoint": Path("run.npz"),
        "progress": terminal,
    }
    assert measured["problem"] == seen["problem"]
    assert (measured["contexts"], measured["backend"]) == (44, "cupy")


def test_help_and_its_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*MODEL, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for word in (
        "--noise-law LAW",
        "2402.14180",
        "--initial FILE",
        "--checkpoint FILE",
        "default 32768",
    ):
        assert word in " ".join(text.split())
    examples = [line.strip() for line in text.split("examples:")[1].splitlines() if line]
    assert len(examples) >= 4
    # They train for minutes: here only what they ask for is at stake.
    monkeypatch.setattr(
        simulate.gdpp, "train_linear_transformer", lambda *_, kind, **__: trained(kind)
    )
    monkeypatch.setattr(
        simulate.gdpp,
        "held_out_losses",
        lambda model, *_, **__: held_out_losses(model, PROBLEM, contexts=10, rng=0),
    )
    monkeypatch.chdir(tmp_path)
    for example in examples:
        assert main(example.removeprefix("iclimit ").split()) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        assert captured.out.split()[0] == "kind"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: MODEL"),
        ("nothing", "argument MODEL: invalid choice: 'nothing'"),
        ("linear-transformer", "the following arguments are required: --noise-law"),
        (
            "MODEL 3",
            "noise_law must be fixed:SIGMA, uniform:SIGMA_MAX or categorical:SIGMA,SIGMA,...",
        ),
        ("MODEL uniform:-1", "with levels from 0 to 1e+100, got 'uniform:-1'"),
        ("MODEL fixed:1,2", "got 'fixed:1,2'"),
        ("MODEL fixed:nan", "got 'fixed:nan'"),
        ("MODEL fixed:1 --kind dense", "argument --kind: invalid choice: 'dense'"),
        ("MODEL fixed:1 --layers 0", "layers must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --layers 1.5", "argument --layers: invalid int value: '1.5'"),
        ("MODEL fixed:1 --heads 0", "heads must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --context 0", "context must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --dim 0", "dim must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --starts 0", "starts must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --contexts 0", "contexts must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --steps 0", "steps must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --held-out 0", "--held-out must be an integer >= 1, got 0"),
        ("MODEL fixed:1 --seed -1", "(--seed) must be an integer >= 0, got -1"),
        ("MODEL fixed:1 --backend torch", "argument --backend: invalid choice: 'torch'"),
        ("MODEL fixed:1 --format xml", "argument --format: invalid choice: 'xml'"),
        ("MODEL fixed:1 -o x", "output: must end in .npz, got 'x'"),
        ("MODEL fixed:1 -o x.csv", "output: must end in .npz, got 'x.csv'"),
        (
            "MODEL fixed:1 -o /none/x.npz",
            "output: must be a file in an existing folder, got '/none/x.npz'",
        ),
        ("MODEL fixed:1 --checkpoint x", "checkpoint: must end in .npz, got 'x'"),
        (
            "MODEL fixed:1 --checkpoint /none/x.npz",
            "checkpoint: must be a file in an existing folder, got '/none/x.npz'",
        ),
        (
            "MODEL fixed:1 -o x.npz --checkpoint x.npz",
            "--output must not be the checkpoint, got 'x.npz'",
        ),
        (
            "MODEL fixed:1 -o x.npz --checkpoint ./x.npz",
            "--output must not be the checkpoint, got 'x.npz'",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Descent, "advance", pytest.fail)  # before any work
    arguments = arguments.replace("MODEL", "linear-transformer --noise-law")
    try:
        status = main(["train", *arguments.split()])
    except SystemExit as stop:
        status = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_folder_without_permission_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked of the system, which lets an administrator write anywhere."""
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(SystemExit, match="2"):
        main([*SMALL, "-o", "x.npz"])
    message = "output: must be a file that can be written, got 'x.npz'\n"
    assert capsys.readouterr().err.endswith(message)
