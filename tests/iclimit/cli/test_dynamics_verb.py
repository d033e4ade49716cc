"""The verb ``iclimit dynamics``."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_pictures import assert_looks_as_before

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_curve,
    merged_curve_drop_time,
    plateau_losses,
    separate_attention_staircase,
)
from iclimit.cli import main
from iclimit.simulate.dynamics.attention_models import AttentionModel, initial_weights

LAM = np.array([0.4, 0.3, 0.2, 0.1])
SEPARATE = ["learned", "loss", "eigenvalue", "head", "half_drop_time"]
MERGED = ["effective_scale", "initial_loss", "half_drop_time", "std_over_seeds", "final_loss"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Parsed JSON; NaN and infinite numbers fail."""
    assert main(["dynamics", *arguments, "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out, parse_constant=pytest.fail)


def staircase(lam: np.ndarray, seed: int, init: float, heads: int, rank: int = 1) -> Any:
    model = AttentionModel("separate", len(lam), heads, rank)
    value, key, query = initial_weights(model, init, rng=seed)
    return separate_attention_staircase(
        value[:, -1], key[..., :-1], query, eigenvalues=lam, context=31
    )


def test_merged_over_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = printed(capsys, "merged", "--heads", "5", "--init-scale", "1e-5")
    assert list(row) == MERGED
    law, losses = effective_init_scale_moments(5), plateau_losses(LAM, context=31)
    scale = 1e-5 * np.exp(law.mean)
    assert row["effective_scale"] == pytest.approx(scale)
    assert row["std_over_seeds"] == pytest.approx(law.std / np.sqrt(0.4**4 + 0.3**4 + 17e-4))
    assert [row["initial_loss"], row["final_loss"]] == pytest.approx([losses[0], losses[-1]])
    time = merged_curve_drop_time(eigenvalues=LAM, context=31, init_scale=scale)
    assert row["half_drop_time"] == pytest.approx(time)


def test_merged_of_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    law = ["--eigenvalues", "0.5,2", "--context", "7", "--noise-variance", "0.25"]
    flags = ["merged", *law, "--init-scale", "1e-4", "--heads", "3", "--seed", "2"]
    (row,) = printed(capsys, *flags)
    assert list(row) == [name for name in MERGED if name != "std_over_seeds"]
    lam = np.array([0.5, 2.0])
    value, lookup = initial_weights(AttentionModel("merged", 2, 3), 1e-4, rng=2)
    scale = effective_init_scale(value[:, -1], lookup[:, :-1], eigenvalues=lam)
    assert row["effective_scale"] == pytest.approx(scale)
    assert row["initial_loss"] == pytest.approx(2.75)
    points = printed(capsys, *flags, "--curve", "5")
    times = [point["time"] for point in points]
    assert times == pytest.approx(np.linspace(0, 4, 5) * row["half_drop_time"])
    expected = merged_attention_curve(
        np.array(times), eigenvalues=lam, context=7, init_scale=scale, noise_variance=0.25
    )
    assert [point["loss"] for point in points] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("flags", "lam"),
    [
        ("", LAM),
        ("--dim 2", np.array([2, 1]) / 3),
        ("--white 3", np.full(3, 1 / 3)),
        ("--eigenvalues 0.1,0.9", np.array([0.1, 0.9])),
        ("--eigenvalues 0.2:0.6:3", np.array([0.2, 0.4, 0.6])),
    ],
)
def test_separate(flags: str, lam: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    flags += " --heads 4 --init-scale 1e-2 --seed 3"
    rows = printed(capsys, "separate", *flags.split())
    assert [list(row) for row in rows] == [SEPARATE] * (len(lam) + 1)
    steps = staircase(lam, 3, 1e-2, 4)
    assert [row["learned"] for row in rows] == list(range(len(lam) + 1))
    assert [row["loss"] for row in rows] == pytest.approx(steps.losses)
    assert [row["loss"] for row in rows] == pytest.approx(plateau_losses(lam, context=31))
    assert list(rows[0].values())[2:] == [None] * 3
    for name, values in (
        ("eigenvalue", np.sort(lam)[::-1]),
        ("head", steps.heads),
        ("half_drop_time", steps.drop_times),
    ):
        assert [row[name] for row in rows[1:]] == pytest.approx(values)
    points = printed(capsys, "separate", *flags.split(), "--curve", "9")
    times = np.array([point["time"] for point in points])
    assert times == pytest.approx(np.linspace(0, 1.3, 9) * steps.times[-1])
    assert [point["loss"] for point in points] == pytest.approx(steps.loss(times))


def test_seed_zero_is_the_default_of_separate(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["separate", "--dim", "2", "--heads", "2"]
    own = printed(capsys, *small)
    assert own == printed(capsys, *small, "--seed", "0")
    assert own != printed(capsys, *small, "--seed", "1")


def test_fewer_heads_than_directions(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["separate", "--heads", "2", "--init-scale", "1e-2"]
    rows = printed(capsys, *flags)
    assert [row["half_drop_time"] for row in rows[3:]] == ["inf", "inf"]
    assert [row["head"] for row in rows[3:]] == [None, None]
    assert sorted(row["head"] for row in rows[1:3]) == [0, 1]
    assert main(["dynamics", *flags, "--format", "csv"]) == 0
    table = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["half_drop_time"] for row in table[3:]] == ["inf", "inf"]
    assert [row["head"] for row in table[3:]] == ["", ""]
    assert main(["dynamics", *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == SEPARATE
    assert len(set(map(len, lines))) == 1
    assert lines[-1].split()[-1] == "inf"
    points = printed(capsys, *flags, "--curve", "20")
    assert points[-1]["loss"] == pytest.approx(plateau_losses(LAM, context=31)[2])


def test_the_curve_holds_what_a_head_learns_last(capsys: pytest.CaptureFixture[str]) -> None:
    """A head of rank above one is not done when it escapes."""
    flags = ["separate", "--eigenvalues", "1,0.3,0.01", "--heads", "1", "--rank", "3"]
    rows = printed(capsys, *flags)
    assert rows[-1]["half_drop_time"] > 10 * rows[1]["half_drop_time"]
    points = printed(capsys, *flags, "--curve", "50")
    assert points[-1]["time"] == pytest.approx(1.3 * rows[-1]["half_drop_time"])
    # In the time that is left after half of the drop it comes within a fifth of its end.
    assert points[-1]["loss"] - rows[-1]["loss"] < 0.2 * (rows[-2]["loss"] - rows[-1]["loss"])


@pytest.mark.parametrize("model", ["merged", "separate"])
@pytest.mark.parametrize("ending", ["png", "pdf", "svg", "csv", "json"])
def test_files(
    model: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"x.{ending}"
    flags = [model, "--dim", "2", "--heads", "2", "--init-scale", "1e-2", "--curve", "40"]
    # The format is that of the file, whatever stdout would get.
    assert main(["dynamics", *flags, "-o", str(path), "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    if ending == "json":
        assert json.loads(path.read_text()) == printed(capsys, *flags)
    elif ending == "csv":
        table = list(csv.DictReader(path.read_text().splitlines()))
        rows = [{k: float(v) for k, v in row.items()} for row in table]
        assert rows == printed(capsys, *flags)
    if ending == "png":
        assert_looks_as_before(path, f"dynamics-{model}", tmp_path)
    if ending == "pdf":
        assert path.read_bytes().startswith(b"%PDF-")
    if ending == "svg":
        assert "time" in path.read_text()
        assert "loss" in path.read_text()


def test_a_table_without_a_curve_is_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    assert main(["dynamics", "separate", "-o", str(path)]) == 0
    assert json.loads(path.read_text()) == printed(capsys, "separate")


def test_examples_of_the_help_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["dynamics", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for unit in ("units of the time constant", "mean squared errors", "standard deviation"):
        assert unit in " ".join(text.split())
    lines = [line.strip() for line in text.split("examples:")[1].splitlines()]
    examples = [line.removeprefix("iclimit ") for line in lines if line]
    assert len(examples) >= 4
    for example in examples:
        assert main(example.split()) == 0
        assert capsys.readouterr().err == ""
    assert {path.name for path in tmp_path.iterdir()} == {"curve.csv", "staircase.png"}


def test_without_division_by_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    """The factors in the help, against gradient descent on unnormalised scores."""
    N, init = 31, 1e-4
    rate = {"merged": 5e-4, "separate": 2e-2}
    train = ["train", "attention", "--white", "1", "--training-set", "inf", "--seed", "4"]
    train += ["--heads", "2", "--normalization", "sum", "--record", "1", "--format", "json"]
    for model, power, scale in (("merged", 1, init), ("separate", 2 / 3, 20 * init)):
        flags = ["--model", model, "--init-scale", str(scale), "--learning-rate", str(rate[model])]
        assert main([*train, *flags]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        *_, row = printed(
            capsys,
            model,
            "--white",
            "1",
            "--heads",
            "2",
            "--seed",
            "4",
            "--init-scale",
            str(scale * N ** (power / 2)),
        )
        time = 2 * rate[model] * N**power * found["half_drop_step"]
        # Merged is exact up to steps, separate to first order in the weights.
        assert time == pytest.approx(row["half_drop_time"], rel=0.02)


BAD = [
    ("", "the following arguments are required: model"),
    ("both", "argument model: invalid choice: 'both'"),
    ("merged --rank 2", "rank must be 1 for model 'merged', got 2"),
    ("separate --rank 5", "rank must be at most the dimension 4, got 5"),
    ("separate --rank 0", "rank must be an integer >= 1, got 0"),
    ("separate --eigenvalues 0,1", "eigenvalues must be > 0 and finite, got 0.0"),
    ("separate --seed x", "argument --seed: invalid int value: 'x'"),
    (
        "separate --init-scale 1",
        "init_scale must be so small that heads wait for longer than they learn",
    ),
    (
        "separate --init-scale 1e50",
        "init_scale must be so small that heads wait for longer than they learn",
    ),
    (
        "merged --init-scale 1",
        "init_scale must be so small that the loss at the start is near 1, got 1.0",
    ),
    (
        "merged --init-scale 1e50",
        "init_scale must be so small that the loss at the start is near 1",
    ),
]
BAD_OF_BOTH = [
    ("--heads 0", "heads must be an integer >= 1, got 0"),
    ("--heads 0 --seed 1", "heads must be an integer >= 1, got 0"),
    ("--init-scale 0", "init_scale must be > 0 and finite, got 0.0"),
    ("--init-scale=-1", "init_scale must be > 0 and finite, got -1.0"),
    ("--init-scale nan", "init_scale must be > 0 and finite, got nan"),
    ("--init-scale inf", "init_scale must be > 0 and finite, got inf"),
    ("--init-scale 1e-320", "init_scale must be from 1e-50 to 1e+50, got 1e-320"),
    ("--init-scale x", "argument --init-scale: invalid float value: 'x'"),
    ("--eigenvalues=-1,1", "eigenvalues must be 0 or from 1e-50 to 1e+50, got -1.0"),
    ("--eigenvalues inf,1", "eigenvalues must be 0 or from 1e-50 to 1e+50, got inf"),
    ("--eigenvalues 1e-200,1", "eigenvalues must be 0 or from 1e-50 to 1e+50, got 1e-200"),
    ("--eigenvalues 0,0", "eigenvalues must not all be 0"),
    ("--eigenvalues nan", "argument --eigenvalues: must not be NaN"),
    ("--eigenvalues ,", "argument --eigenvalues: must be a number, a list a,b,c or a range"),
    ("--eigenvalues 1 --dim 2", "argument --dim: not allowed with argument --eigenvalues"),
    ("--dim 0", "dim must be an integer >= 1, got 0"),
    ("--dim 2.5", "argument --dim: invalid int value: '2.5'"),
    ("--white -1", "--white must be an integer >= 1, got -1"),
    ("--context 0", "context must be an integer >= 1, got 0"),
    ("--noise-variance=-1", "noise_variance must be >= 0 and finite, got -1.0"),
    ("--noise-variance nan", "noise_variance must be >= 0 and finite, got nan"),
    ("--seed -1", "--seed must be an integer >= 0, got -1"),
    ("--curve 1", "--curve must be an integer >= 2, got 1"),
    ("--curve x", "argument --curve: invalid int value: 'x'"),
    ("--format xml", "argument --format: invalid choice: 'xml'"),
    ("-o x.txt", "output: must end in .csv, .json, .png, .pdf, .svg, got 'x.txt'"),
    ("-o x", "output: must end in .csv, .json, .png, .pdf, .svg, got 'x'"),
    ("-o /none/x.png", "output: must be a file in an existing folder, got '/none/x.png'"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [*BAD, *((f"{model} {a}", m) for a, m in BAD_OF_BOTH for model in ("merged", "separate"))],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["dynamics", *arguments.split()])
    except SystemExit as stop:
        status = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("model", ["merged", "separate"])
@pytest.mark.parametrize(
    "flags",
    [
        "--init-scale 1e-50",
        "--eigenvalues 1e50,1 --init-scale 1e-48",
        "--eigenvalues 1e-50,1",
        "--eigenvalues 1e-50",
        "--dim 1 --heads 1",
        "--context 1000000000",
    ],
)
def test_extremes_are_numbers(model: str, flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = printed(capsys, model, *flags.split())[-1]
    assert 0 < row["half_drop_time"] < np.inf


def test_merged_does_not_need_all_directions(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = printed(capsys, "merged", "--eigenvalues", "0,1")
    (without,) = printed(capsys, "merged", "--eigenvalues", "1")
    assert row == pytest.approx(without)
