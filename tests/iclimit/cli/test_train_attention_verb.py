"""The verb ``iclimit train attention``."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_pictures import assert_looks_as_before

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.cli import build_parser, dynamics, main
from iclimit.problem import Problem
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.simulate.dynamics.attention_models import MomentLoss

LAM = np.array([0.4, 0.3, 0.2, 0.1])
SMALL = ["train", "attention", "--training-set", "60", "--steps", "60", "--seed", "5"]
DROP = ["half_drop_step", "half_drop_time", "predicted_time"]
COLUMNS = ["repeat", "first_loss", *DROP, "last_step", "last_loss"]
Printed = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Rows of a run that succeeds, from JSON; NaN and infinite numbers fail."""

    def run(*flags: str) -> list[dict[str, Any]]:
        assert main([*SMALL, *flags, "--format", "json"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return json.loads(captured.out, parse_constant=pytest.fail)

    return run


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that a refusal prints, with status 2."""
    try:
        status = main(list(arguments))
    except SystemExit as stop:
        status = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_the_summary_is_that_of_the_simulation(printed: Printed) -> None:
    run = simulate_gradient_descent(
        Problem(dim=len(LAM), context=31, input_covariance=LAM, scale=1),
        model="separate",
        heads=3,
        rank=2,
        init_scale=0.3,
        training_set=60,
        learning_rate=0.1,
        steps=60,
        record=4,
        repeats=2,
        rng=5,
        initialization="per-layer",
    )
    rows = printed(
        "--model",
        "separate",
        "--heads",
        "3",
        "--rank",
        "2",
        "--init-scale",
        "0.3",
        "--learning-rate",
        "0.1",
        "--record",
        "4",
        "--repeats",
        "2",
        "--initialization",
        "per-layer",
    )
    limit = plateau_losses(LAM, context=31)[-1]
    columns = [*COLUMNS[:2], "learned", *COLUMNS[2:], "limit_loss"]
    assert [list(row) for row in rows] == [columns] * 8
    for index, row in enumerate(rows):
        repeat = index // 4
        assert (row["repeat"], row["learned"]) == (repeat, index % 4 + 1)
        assert row["first_loss"] == run.losses[repeat, 0]
        assert row["last_loss"] == run.losses[repeat, -1]
        assert row["last_step"] == 60
        assert row["limit_loss"] == pytest.approx(limit)


def test_half_of_the_drop(printed: Printed, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    flags = ["--init-scale", "0.1", "--learning-rate", "0.2", "--steps", "300", "--record", "1"]
    (row,) = printed(*flags, "--training-set", "inf", "-o", str(path))
    curve = [float(line["loss"]) for line in csv.DictReader(path.read_text().splitlines())]
    middle = (1 + row["limit_loss"]) / 2
    step = row["half_drop_step"]
    assert 0 < step < 300
    assert curve[step] < middle <= curve[step - 1]
    assert printed("--steps", "1")[0]["half_drop_step"] == "inf"


@pytest.mark.parametrize(
    ("model", "power", "small", "rate"),
    [("merged", 1, 1e-4, 0.02), ("separate", 2 / 3, 1e-2, 0.1)],
)
def test_times_are_those_of_the_prediction(
    model: str, power: float, small: float, rate: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each repeat, in the units of ``iclimit dynamics``, whatever the normalization."""

    def printed(*command: str) -> list[dict[str, Any]]:
        setting = ["--eigenvalues", "0.5,1", "--context", "7", "--heads", "3", "--seed", "2"]
        assert main([*command, *setting, "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    scale = str(small * 7 ** (power / 2))
    rows = printed("dynamics", model, "--init-scale", scale)
    expected = [row["half_drop_time"] for row in rows if row["half_drop_time"] is not None]
    long = ["--training-set", "inf", "--steps", "4000", "--record", "1", "--repeats", "2"]
    mean = ["--init-scale", scale, "--learning-rate", str(rate)]
    total = ["--init-scale", str(small), "--learning-rate", str(rate / 7**power)]
    for flags in (mean, [*total, "--normalization", "sum"]):
        found = printed("train", "attention", "--model", model, *long, *flags)
        first = [row for row in found if row["repeat"] == 0]
        assert [row["predicted_time"] for row in first] == pytest.approx(expected)
        for row in found:
            assert row["half_drop_time"] == pytest.approx(2 * rate * row["half_drop_step"])
            # The staircase is the limit of small weights.
            assert row["half_drop_time"] == pytest.approx(row["predicted_time"], rel=0.1)


def test_weights_without_a_prediction(printed: Printed, tmp_path: Path) -> None:
    """Too large, or of a model or tasks that theory does not have: the columns are left out."""
    path = tmp_path / "x.svg"
    (row,) = printed("--init-scale", "3", "-o", str(path))
    assert list(row) == [*(name for name in COLUMNS if name != "predicted_time"), "limit_loss"]
    assert "predicted" not in path.read_text()
    (row,) = printed("--init-scale", "0.01", "-o", str(path))
    assert list(row) == [*COLUMNS, "limit_loss"]
    assert "predicted" in path.read_text()
    (row,) = printed("--model", "cubic")
    assert "predicted_time" not in row


@pytest.mark.parametrize("model", ["merged", "separate", "cubic"])
def test_all_models_and_sets(model: str, printed: Printed) -> None:
    (finite, *_), (law, *_), (plain, *_) = (
        printed("--model", model, "--training-set", size) for size in ("60", "inf", "5")
    )
    # Standardised sets have other mean squares of labels than their law.
    assert law["first_loss"] == pytest.approx(1, abs=1e-2)
    assert 0.3 < finite["first_loss"] < 2
    assert plain["first_loss"] > 0


def test_batches(printed: Printed) -> None:
    assert printed("--batch", "60") != printed()
    assert printed("--batch", "7") == printed("--batch", "7")


def test_normalization(printed: Printed) -> None:
    """Sums are N times means: the same losses from weights smaller by the root of N."""
    root = math.sqrt(31)
    (mean,) = printed("--init-scale", "0.1", "--learning-rate", "0.031")
    (total,) = printed(
        "--init-scale", str(0.1 / root), "--learning-rate", "0.001", "--normalization", "sum"
    )
    for name in ("first_loss", "last_loss"):
        assert total[name] == pytest.approx(mean[name], rel=1e-9)


def test_mixtures(printed: Printed) -> None:
    columns = [name for name in COLUMNS if name not in DROP]
    (row,) = printed("--fresh-fraction", "0.4", "--tests")
    assert list(row) == [*columns, "last_icl_loss", "last_iwl_loss"]
    (alone,) = printed("--fresh-fraction", "0")
    assert list(alone) == columns
    (random,) = printed("--tests")
    assert list(random) == [*COLUMNS, "last_icl_loss", "limit_loss"]
    # All losses of weights near zero are those of the labels, of variance one.
    for name in ("last_icl_loss", "last_iwl_loss"):
        assert row[name] == pytest.approx(1, abs=1e-2)


def test_formats(printed: Printed, capsys: pytest.CaptureFixture[str]) -> None:
    rows = printed("--repeats", "3")
    assert main([*SMALL, "--repeats", "3", "--format", "csv"]) == 0
    table = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [{k: float(v) for k, v in row.items()} for row in table] == [
        {k: float(v) for k, v in row.items()} for row in rows
    ]
    assert main([*SMALL, "--repeats", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [*COLUMNS, "limit_loss"]
    assert len(set(map(len, lines))) == 1
    assert len(lines) == 4


@pytest.mark.parametrize("ending", ["csv", "json", "png", "pdf", "svg"])
def test_files(ending: str, tmp_path: Path, printed: Printed) -> None:
    path = tmp_path / f"x.{ending}"
    flags = ["--fresh-fraction", "0.4", "--tests", "--repeats", "2", "--record", "20"]
    rows = printed(*flags, "-o", str(path))
    if ending in ("csv", "json"):
        text = path.read_text()
        table = list(csv.DictReader(text.splitlines())) if ending == "csv" else json.loads(text)
        found = [{k: float(v) for k, v in row.items()} for row in table]
        assert list(found[0]) == ["repeat", "step", "loss", "icl_loss", "iwl_loss"]
        assert [(row["repeat"], row["step"]) for row in found] == [
            (repeat, step) for repeat in (0, 1) for step in (0, 20, 40, 60)
        ]
        for row, last in zip(rows, found[3::4], strict=True):
            assert row["last_loss"] == last["loss"]
            assert row["last_icl_loss"] == last["icl_loss"]
            assert row["last_iwl_loss"] == last["iwl_loss"]
    if ending == "png":
        assert_looks_as_before(path, "train-attention", tmp_path)
    if ending == "pdf":
        assert path.read_bytes().startswith(b"%PDF-")
    if ending == "svg":
        for label in ("step", "loss", "training", "random tasks", "shared task, noise as labels"):
            assert label in path.read_text()


def test_fewer_steps_than_the_usual_record(printed: Printed) -> None:
    (row,) = printed("--steps", "3")
    assert row["last_step"] == 3


@pytest.mark.parametrize("flags", [[], ["--checkpoint", "run.npz"]])
def test_too_large_a_rate_leaves_what_was_recorded(
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    large = ["--init-scale", "0.5", "--learning-rate", "2", "--record", "1", "-o", "x.csv", *flags]
    assert main([*SMALL, *large]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("iclimit train: training diverged: the loss is ")
    assert captured.err.count("\n") == 1
    assert captured.out.split()[: len(COLUMNS)] == COLUMNS
    table = list(csv.DictReader(Path("x.csv").read_text().splitlines()))
    assert len(table) >= 1
    assert all(math.isfinite(float(row["loss"])) for row in table)


def test_too_large_a_start_records_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    assert main([*SMALL, "--init-scale", "1e4", "-o", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.err.endswith(" after 0 steps: try a smaller init_scale\n")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not path.exists()


def test_interrupted_curves_are_written_and_continued(
    tmp_path: Path,
    printed: Printed,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint, whole, part = (tmp_path / name for name in ("run.npz", "whole.csv", "part.csv"))
    expected = printed("--record", "1", "-o", str(whole))
    exact, count = MomentLoss.__call__, 0

    def interrupted(self: MomentLoss, weights: Any) -> Any:
        nonlocal count
        count += 1
        if count > 30:
            raise KeyboardInterrupt
        return exact(self, weights)

    flags = ["--record", "1", "--checkpoint", str(checkpoint), "-o", str(part)]
    with monkeypatch.context() as patch:
        patch.setattr(MomentLoss, "__call__", interrupted)
        assert main([*SMALL, *flags]) == 130
    captured = capsys.readouterr()
    assert captured.err == "interrupted: the curves end where the training did\n"
    assert captured.out.split()[: len(COLUMNS)] == COLUMNS
    lines = part.read_text().splitlines()
    assert len(lines) == 31
    assert lines == whole.read_text().splitlines()[:31]
    assert printed(*flags) == expected
    assert part.read_text() == whole.read_text()
    # More steps extend a training; fewer, or other settings, are refused.
    extended = [*SMALL, *flags, "--steps", "61"]
    assert main(extended) == 0
    assert len(part.read_text().splitlines()) == 63
    assert "--steps" not in capsys.readouterr().err
    assert "steps must be at least those of" in refused(capsys, *SMALL, *flags)
    for other in ("--init-scale 0.02", "--repeats 2", "--model cubic", "--seed 6", "--tests"):
        line = refused(capsys, *extended, *other.split())
        assert "checkpoint must be of the same training" in line
    checkpoint.write_text("nothing")
    assert "checkpoint must be a training's own file" in refused(capsys, *extended)


@pytest.mark.parametrize("model", ["merged", "separate"])
def test_initial_weights_are_those_of_the_prediction(
    model: str, tmp_path: Path, printed: Printed
) -> None:
    """The same flags and seed; a step too short to change them."""
    state = tmp_path / "run.npz"
    law = ["--dim", "3", "--heads", "5", "--init-scale", "0.02", "--seed", "11"]
    if model == "separate":
        law += ["--rank", "2"]
    printed(
        "--model",
        model,
        *law,
        "--steps",
        "1",
        "--learning-rate",
        "1e-40",
        "--training-set",
        "50",
        "--checkpoint",
        str(state),
    )
    options = build_parser().parse_args(["dynamics", model, *law])
    predicted = dynamics.weights_of(options, 3)
    with np.load(state) as file:
        trained = [file[f"array{i}"] for i in range(len(predicted))]
    for found, expected in zip(trained, predicted, strict=True):
        np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-39)
        assert np.std(expected) > 0


def test_training_follows_the_prediction(
    printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drop of merged attention comes when predicted, and the last of separate before 1.2."""
    law = ["--dim", "2", "--heads", "3", "--seed", "2"]
    for model, init, rate in (("merged", "1e-4", 0.01), ("separate", "2e-2", 0.05)):
        assert main(["dynamics", model, *law, "--init-scale", init, "--format", "json"]) == 0
        half = json.loads(capsys.readouterr().out)[0 if model == "merged" else -1]
        levels = plateau_losses(np.array([2, 1]) / 3, context=31)
        *_, row = printed(
            "--model",
            model,
            *law,
            "--init-scale",
            init,
            "--learning-rate",
            str(rate),
            "--record",
            "1",
            "--steps",
            str(int(1.2 * half["half_drop_time"] / (2 * rate))),
            "--training-set",
            "inf",
        )
        if model == "merged":
            # One step is the time 2 * rate.
            assert 2 * rate * row["half_drop_step"] == pytest.approx(
                half["half_drop_time"], rel=0.02
            )
        else:
            assert row["last_loss"] == pytest.approx(levels[-1], rel=0.1)


def test_examples_of_the_help_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    """They take seconds each: their flags are parsed, and a few steps run."""
    with pytest.raises(SystemExit) as stop:
        main(["train", "attention", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out.split("examples:")[1].replace("\\\n", " ")
    examples = [line.split()[1:] for line in text.splitlines() if line.strip()]
    assert len(examples) >= 4
    for example in examples:
        few = [flag for flag in example if flag != "curves.png"]
        few = [flag for flag in few if flag != "-o"]
        assert build_parser().parse_args(example).what == "attention"
        assert main([*few, "--steps", "2", "--training-set", "100"]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--learning-rate nan", "learning_rate must be > 0 and finite, got nan"),
        ("--learning-rate 0", "learning_rate must be > 0 and finite, got 0.0"),
        ("--learning-rate=-1", "learning_rate must be > 0 and finite, got -1.0"),
        ("--init-scale 0", "init_scale must be > 0 and finite, got 0.0"),
        ("--init-scale nan", "init_scale must be > 0 and finite, got nan"),
        ("--heads 0", "heads must be an integer >= 1, got 0"),
        ("--rank 2", "rank must be 1 for model 'merged', got 2"),
        ("--rank 2 --model cubic", "rank must be 1 for model 'cubic', got 2"),
        ("--rank 5 --model separate", "rank must be at most the dimension 4, got 5"),
        ("--rank 0 --model separate", "rank must be an integer >= 1, got 0"),
        ("--steps 0", "steps must be an integer >= 1, got 0"),
        ("--steps x", "argument --steps: invalid int value: 'x'"),
        ("--record 0", "record must be an integer >= 1, got 0"),
        ("--repeats 0", "repeats must be an integer >= 1, got 0"),
        ("--seed=-1", "--seed must be an integer >= 0, got -1"),
        ("--training-set 0", "training_set must be an integer >= 1, or inf, got 0"),
        ("--training-set=-5", "training_set must be an integer >= 1, or inf, got -5"),
        ("--training-set 3", "training_set must be > 4 to be standardised, got 3"),
        ("--training-set abc", "argument --training-set: must be an integer or inf, got 'abc'"),
        ("--training-set 1.5", "argument --training-set: must be an integer or inf, got '1.5'"),
        ("--training-set nan", "argument --training-set: must be an integer or inf, got 'nan'"),
        ("--batch 0", "batch must be an integer >= 1, got 0"),
        ("--batch 61", "batch must be at most a finite training_set, got 61 of 60"),
        ("--batch 5 --training-set inf", "batch must be at most a finite training_set, got 5 of"),
        ("--fresh-fraction 2", "fresh_fraction must be from 0 to 1, got 2.0"),
        ("--fresh-fraction=-1", "fresh_fraction must be from 0 to 1, got -1.0"),
        ("--fresh-fraction nan", "fresh_fraction must be from 0 to 1, got nan"),
        ("--model mlp", "argument --model: invalid choice: 'mlp'"),
        ("--initialization x", "argument --initialization: invalid choice: 'x'"),
        ("--normalization x", "argument --normalization: invalid choice: 'x'"),
        ("--eigenvalues=-1,1", "eigenvalues must be 0 or from 1e-50 to 1e+50, got -1.0"),
        ("--dim 0", "dim must be an integer >= 1, got 0"),
        ("--white 0", "--white must be an integer >= 1, got 0"),
        ("--context 0", "context must be an integer >= 1, got 0"),
        ("--noise-variance=-1", "noise_variance must be >= 0 and finite, got -1.0"),
        ("-o x.txt", "output: must end in .csv, .json, .png, .pdf, .svg, got 'x.txt'"),
        ("-o /none/x.csv", "output: must be a file in an existing folder, got '/none/x.csv'"),
        ("--checkpoint x.foo", "checkpoint: must end in .npz, got 'x.foo'"),
        ("--checkpoint /none/x.npz", "checkpoint: must be a file in an existing folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *SMALL, *arguments.split())
