"""The verb ``iclimit gdpp``."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from reference_pictures import assert_looks_as_before

from iclimit.asymptotics.gdpp import condition_number_schedule
from iclimit.cli import main

COLUMNS = ["step", "gamma", "condition_number", "excess", "residual", "final_rate"]


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out, parse_constant=pytest.fail)


@pytest.mark.parametrize("method", ["optimal", "monotone"])
@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        ("--condition-number 1e4 --tol 1e-10", {"condition_number": 1e4, "tol": 1e-10}),
        ("--excess 1e-3 --steps 3", {"excess": 1e-3, "steps": 3}),
        (
            "--condition-number 1e6 --steps 4 --cap 100 --margin 0.02",
            {"condition_number": 1e6, "steps": 4, "cap": 100.0, "margin": 0.02},
        ),
    ],
)
def test_table(
    flags: str, setting: dict[str, Any], method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = ["gdpp", *flags.split(), "--method", method]
    expected = condition_number_schedule(**setting, method=method)
    assert main([*verb, "--format", "json"]) == 0
    rows = printed(capsys)
    assert [list(row) for row in rows] == [COLUMNS] * len(expected.excess)
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert [row["gamma"] for row in rows] == [None, *expected.gammas]
    for name in COLUMNS[2:]:
        assert [row[name] for row in rows] == getattr(expected, name).tolist()
    assert main([*verb, "--format", "csv"]) == 0
    table = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert table[0]["gamma"] == ""
    assert [float(row["excess"]) for row in table] == expected.excess.tolist()
    assert main(verb) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == COLUMNS
    assert len(set(map(len, lines))) == 1
    assert float(lines[-1].split()[3]) == pytest.approx(expected.excess[-1], rel=1e-9)


def test_what_a_float_near_one_cannot_hold_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gdpp", "--condition-number", "10", "--tol", "1e-30"]) == 0
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[2] == "1"
    assert 0 < float(last[3]) < 1e-30


@pytest.mark.parametrize(
    "flags", ["--condition-number 1e4 --tol 1e-10", "--condition-number 1 --steps 2"]
)
@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_plot(flags: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"layers.{ending}"
    assert main(["gdpp", *flags.split(), "--plot", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.split()[: len(COLUMNS)] == COLUMNS
    if ending == "png":
        name = "gdpp-excess" if "--tol" in flags else "gdpp-no-excess"
        assert_looks_as_before(path, name, tmp_path)
    if ending == "pdf":
        assert path.read_bytes().startswith(b"%PDF")
    if ending == "svg":
        picture = path.read_text()
        for label in ("optimal", "monotone (published)", "layers of GD++", "excess"):
            assert label in picture
        assert ("tolerance" in picture) == ("--tol" in flags)


def test_examples_of_the_help_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["gdpp", "--help"])
    assert stop.value.code == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("examples:")[1].splitlines()]
    examples = [line.removeprefix("iclimit ") for line in lines if line]
    assert len(examples) >= 4
    for example in examples:
        assert main(example.split()) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give either steps or tol, got steps=None, tol=None"),
        ("--condition-number 2", "give either steps or tol, got steps=None, tol=None"),
        (
            "--condition-number 2 --steps 1 --tol 0.1",
            "give either steps or tol, got steps=1, tol=0.1",
        ),
        (
            "--steps 1",
            "give either condition_number or excess, got condition_number=None, excess=None",
        ),
        (
            "--condition-number 2 --excess 1 --steps 1",
            "give either condition_number or excess, got condition_number=2.0, excess=1.0",
        ),
        ("--condition-number 0.5 --steps 1", "condition_number must be >= 1 and finite, got 0.5"),
        ("--condition-number nan --steps 1", "condition_number must be >= 1 and finite, got nan"),
        ("--condition-number inf --steps 1", "condition_number must be >= 1 and finite, got inf"),
        (
            "--condition-number x --steps 1",
            "argument --condition-number: invalid float value: 'x'",
        ),
        ("--excess=-1 --steps 1", "excess must be >= 0 and finite, got -1.0"),
        ("--condition-number 2 --tol 0", "tol must be > 0 and finite, got 0.0"),
        ("--condition-number 2 --steps -1", "steps must be an integer >= 0, got -1"),
        ("--condition-number 2 --steps 1.5", "argument --steps: invalid int value: '1.5'"),
        (
            "--condition-number 2 --steps 100000",
            "steps must be fewer, got 100000: the spectrum shrinks",
        ),
        ("--condition-number 2 --steps 1 --cap 0.5", "cap must be >= 1, or inf, got 0.5"),
        ("--condition-number 2 --steps 1 --margin -1", "margin must be >= 0 and finite, got -1.0"),
        ("--condition-number 2 --steps 1 --method x", "argument --method: invalid choice: 'x'"),
        (
            "--condition-number 2 --steps 1 --format xml",
            "argument --format: invalid choice: 'xml'",
        ),
        (
            "--condition-number 2 --steps 1 --plot x.doc",
            "argument --plot: must end in .png, .pdf, .svg, got 'x.doc'",
        ),
        (
            "--condition-number 2 --steps 1 --plot /none/x.png",
            "argument --plot: must be a file in an existing folder, got '/none/x.png'",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["gdpp", *arguments.split()])
    except SystemExit as stop:
        status = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
