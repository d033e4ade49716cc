"""The command line: output, files, exit status, interruption."""

import csv
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import iclimit
from iclimit.cli import main

SETTING = ["--alpha", "1", "--kappa", "0.5", "--rho", "0.01"]


def test_curve_prints_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", "icl_error", "--tau", "0.5:2:4", *SETTING]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["tau"]) for row in rows] == [0.5, 1.0, 1.5, 2.0]
    assert rows[1]["value"] == "inf"
    expected = iclimit.icl_error(tau=2, alpha=1, kappa=0.5, rho=0.01)
    assert float(rows[3]["value"]) == expected


def test_curve_prints_strict_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["curve", "icl_error", "--tau", "0.5:2:4", *SETTING, "--format", "json"]
    assert main(arguments) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert rows[1]["value"] == "inf"


@pytest.mark.parametrize("ending", ["csv", "json", "png", "pdf", "svg"])
def test_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{ending}"
    assert main(["curve", "icl_error", "--tau", "1.5:3:5", *SETTING, "-o", str(path)]) == 0
    assert path.stat().st_size > 100
    axes = ["--x", "alpha=0.1:10:12:log", "--y", "kappa=0.1:10:9:log"]
    other = tmp_path / f"phase.{ending}"
    assert main(["phase", "task_gap", *axes, "--tau", "4", "--rho", "0.1", "-o", str(other)]) == 0
    assert other.stat().st_size > 100


def test_curve_simulates(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--simulate", "d=8,repeats=3,points=2", "--jobs", "1"]
    assert main(["curve", "idg_error", "--tau", "1.5:3:5", *SETTING, *options]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    simulated = [row for row in rows if row["source"] == "simulation"]
    assert [row["d"] for row in simulated] == ["8", "8"]
    assert all(float(row["standard_error"]) > 0 for row in simulated)


def test_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims"]) == 0
    assert "double-descent" in capsys.readouterr().out
    assert main(["claims", "-v"]) == 0
    assert "Source: Lu, Letey" in capsys.readouterr().out


def test_validate_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report"
    assert main(["validate", "solver", "test-error", "--out", str(out), "--jobs", "1"]) == 0
    assert "2 of 2 claims hold" in capsys.readouterr().out
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("curve nothing --tau 1", "quantity must be one of icl_error"),
        ("curve icl_error --tau 5:1:3", "argument --tau: must have start < stop"),
        ("curve icl_error --tau 0:1:3:log", "argument --tau: must have start > 0 for log"),
        ("curve icl_error --tau a", "argument --tau: must be a number, a list"),
        ("curve icl_error --tau 1:2", "argument --tau: must be a number, a list"),
        ("curve icl_error --tau nan", "argument --tau: must not be NaN"),
        ("curve icl_error --tau=-1 --alpha 1 --kappa 1 --rho 0", "tau must be > 0, got -1.0"),
        ("curve icl_error --tau 1", "icl_error needs alpha, kappa, rho"),
        ("curve icl_error --tau 1 --wrong 2", "unrecognized arguments: --wrong 2"),
        ("curve icl_error --tau 1 --simulate d=x", "argument --simulate: must look like d=80"),
        ("curve icl_error --tau 1 --simulate d=8,d=9", "argument --simulate: must look like d=80"),
        (
            "curve icl_error --tau 1 --alpha 1 --kappa 1 --rho 0 --simulate d=0",
            "d of the simulation must be an integer >= 1, got 0",
        ),
        ("curve icl_error --tau 1 -o x.doc", "--output must end in .csv, .json"),
        (
            "curve icl_error --tau 1 -o /none/x.csv",
            "--output must be a file in an existing folder",
        ),
        ("phase icl_error --x beta=1:2:3 --y tau=1:2:3", "argument --x: must be NAME=start:stop"),
        ("phase icl_error --x tau=1:2:3 --y tau=1:2:3 --rho 1", "x and y must be different"),
        ("phase icl_error --x tau=1:2:3", "the following arguments are required: --y"),
        ("figure nothing", "NAME must be one of double-descent"),
        ("validate nothing", "claim must be one of ridgeless"),
        ("validate --jobs 0", "jobs must be >= 1"),
        ("validate --seed -1", "seed must be an integer >= 0"),
        ("validate --preset slow", "argument --preset: invalid choice: 'slow'"),
        ("", "the following arguments are required: VERB"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(arguments.split())
    except SystemExit as stop:
        status = stop.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("verb", ["", "validate", "claims", "curve", "phase", "figure"])
def test_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*verb.split(), "--help"])
    assert stop.value.code == 0
    assert "usage: iclimit" in capsys.readouterr().out


def test_too_many_points_are_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", "icl_error", "--tau", "1:2:1000000000000", *SETTING]) == 1
    assert "not enough memory" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m iclimit.cli curve bayes_error --alpha 1:2:20000 --rho 0.1"
    done = subprocess.run(
        f"set -o pipefail; {command} | head -n 1",
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("source,quantity")
    assert done.stderr == ""
    assert done.returncode == 0


def test_ctrl_c_keeps_finished_claims(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "iclimit.cli", "validate", "solver", "ridgeless",
               "--preset", "full", "--out", str(tmp_path), "--jobs", "2"]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(20)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: the report holds the claims that were finished" in err
    assert "Traceback" not in err
    assert "1 of 2 claims hold" in out
    report = json.loads((tmp_path / "results.json").read_text())
    assert report["missing"] == ["ridgeless"]
