"""The command line: output, files, exit status, interruption."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import pytest
from refusals import refused_command

import iclimit
from iclimit.cli import main
from iclimit.validation import CLAIMS, ClaimResult, ValidationRun
from iclimit.validation.report.record import read_record
from iclimit.verdict import Verdict

SETTING = ["--alpha", "1", "--kappa", "0.5", "--rho", "0.01"]
FIGURES = [claim.name for claim in CLAIMS.values() if claim.figure]


def test_curve_prints_csv(capsys):
    assert main(["curve", "icl_error", "--tau", "0.5:2:4", *SETTING]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["tau"]) for row in rows] == [0.5, 1.0, 1.5, 2.0]
    assert rows[1]["value"] == "inf"
    expected = iclimit.icl_error(tau=2, alpha=1, kappa=0.5, rho=0.01)
    assert float(rows[3]["value"]) == expected


def test_points_that_the_time_did_not_suffice_for_are_status_1(capsys):
    options = ["--simulate", "dim=8,repeats=3,points=2", "--jobs", "1", "--time-limit", "0.001s"]
    with pytest.warns(RuntimeWarning, match="0 of 2 points"):
        assert main(["curve", "idg_error", "--tau", "1.5:3:5", *SETTING, *options]) == 1
    error = capsys.readouterr().err
    assert error.endswith("iclimit curve: no point was simulated in 0.001 s\n")


def test_theory_needs_no_place_for_runs(monkeypatch, capsys):
    """The folder of the default store cannot be made where there is a file."""
    monkeypatch.delenv("ICLIMIT_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null")
    curve = ["curve", "icl_error", "--tau", "2", *SETTING]
    assert main(curve) == 0
    assert capsys.readouterr().err == ""
    assert main([*curve, "--simulate", "dim=8"]) == 1
    assert "cannot be made: Not a directory; name another file with" in capsys.readouterr().err


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "iclimit", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"iclimit {iclimit.__version__}\n"


def test_claims_are_listed(capsys):
    assert main(["claims"]) == 0
    assert "double-descent" in capsys.readouterr().out
    assert main(["claims", "-v"]) == 0
    assert "Source: Lu, Letey" in capsys.readouterr().out


def test_validate_writes_a_report(tmp_path, capsys):
    out = tmp_path / "report"
    assert main(["validate", "solver", "test-error", "--out", str(out), "--jobs", "1"]) == 0
    assert "2 of 2 claims hold" in capsys.readouterr().out
    assert (out / "report.html").exists()


def test_validate_holds_a_run_against_one_on_record(tmp_path, capsys, monkeypatch):
    command = ["validate", "solver", "--out", str(tmp_path), "--jobs", "1", "--compare", "medium"]
    assert main(command) == 0
    assert "12 comparisons are on record; 0 others are not" in capsys.readouterr().out
    known = {
        key: replace(row, comparison=replace(row.comparison, theory=row.comparison.theory + 1))
        for key, row in read_record("medium").items()
    }
    monkeypatch.setattr("iclimit.validation.report.record.read_record", lambda _: known)
    assert main(command) == 1
    out = capsys.readouterr().out
    assert "12 disagree with the record" in out
    assert "theory of solver: Gamma at n=80 ridge=0: on record" in out


@pytest.mark.parametrize("name", [FIGURES[0], FIGURES[-1]])
def test_figures_are_those_of_the_claims(name, tmp_path, monkeypatch, capsys):
    """Names reach the claims; what is simulated is not at stake."""

    def draw(figure):
        figure.set_size_inches(2, 1)
        figure.text(0.5, 0.5, "drawn")

    def simulated(claims, **options):
        assert [claim.name for claim in claims] == [name]
        assert options["preset"] == "full"
        verdict = Verdict((), draw)
        return ValidationRun([ClaimResult(claims[0], verdict)], "full", 0, "numpy", 0.0)

    monkeypatch.setattr("iclimit.validation.validate", simulated)
    monkeypatch.chdir(tmp_path)
    assert main(["figure", name, "--preset", "full"]) == 0
    assert capsys.readouterr().out == f"{name}.png\n"
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_every_figure_is_listed(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["figure", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(FIGURES)


def test_a_figure_is_drawn(tmp_path):
    path = tmp_path / "lstm.svg"
    assert main(["figure", "lstm", "-o", str(path), "--jobs", "1"]) == 0
    assert path.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("curve nothing --tau 1", "quantity must be one of icl_error"),
        ("curve icl_error --tau 5:1:3", "argument --tau: must have start < stop"),
        ("curve icl_error --tau 0:1:3:log", "argument --tau: must have start > 0 for log"),
        ("curve icl_error --tau a", "argument --tau: must be a number, a list"),
        ("curve icl_error --tau nan", "argument --tau: must not be NaN"),
        ("curve icl_error --tau 1", "icl_error needs --alpha, --kappa, --rho"),
        ("curv icl_error", "did you mean curve?"),
        ("train netwrok", "did you mean network?"),
        ("train softmax --heads 2", "(choose from 'network'); now it is iclimit train network"),
        ("dynamics merged", "; now it is merged_attention_drop and separate_attention_staircase"),
        ("curve icl_eror --tau 1", "got 'icl_eror'; did you mean icl_error?"),
        ("validate rigeless", "got 'rigeless'; did you mean ridgeless?"),
        ("figure double-decent", "got 'double-decent'; did you mean double-descent?"),
        ("curve icl_error --kapa 1", "curve: error: unrecognized arguments: --kapa 1; did"),
        (
            "curve gated_error --dim 20",
            "--dim 20; the parameters here are --alpha, --rho, --forgetting, --drift",
        ),
        (
            "curve icl_error --time 1 --tau 1",
            "computed)? icl_error has no time, which is a parameter of ",
        ),
        ("curve icl_error --l 1", "did you mean --alpha (context length over dimension)?"),
        ("learning-rate --N 10 --dim 3", "did you mean --context (context length)?"),
        ("train network --dim 2 --context 3 --init-scal 1", "did you mean --init-scale?"),
        ("curve icl_error --tau 1 --simulate dim=x", "argument --simulate: must look like dim=80"),
        (
            "curve icl_error --tau 1 --simulate dim=8,dim=9",
            "argument --simulate: must look like dim=80",
        ),
        (
            "curve icl_error --tau 1:2:3 --alpha 1 --kappa 1 --rho 0 --simulate d=20,n=3",
            "got d, n; did you mean dim (dimension of the inputs)?",
        ),
        (
            "curve icl_error --tau 1 --time-limit 10x",
            "argument --time-limit: must look like 90s, 10m",
        ),
        ("curve icl_error --tau 1 --target-relative-error %", "error: must look like 0.01 or 1%"),
        ("curve icl_error --tau 1 --target-standard-error 0.1", "error needs --simulate"),
        ("phase icl_error --x beta=1:2:3 --y tau=1:2:3", "icl_error takes tau, "),
        ("phase icl_error --x tau=1:2:3 --y rho=0:1:3 --refine 1", "--refine needs --simulate"),
        ("phase icl_error --x tau=1:2:3 --y tau=1:2:3 --rho 1", "x and y must be different"),
        ("phase icl_error --x tau=1:2:3", "the following arguments are required: --y"),
        ("validate --jobs 0", "jobs must be >= 1"),
        ("validate --seed -1", "--seed: must be an integer >= 0"),
        ("", "the following arguments are required: VERB"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, capsys):
    assert message in refused_command(capsys, arguments.split())


def test_too_many_points_are_no_traceback(capsys):
    message = refused_command(
        capsys, ["curve", "icl_error", "--tau", "1:2:1000000000000", *SETTING]
    )
    assert "must have 2 to 1000000 points, got '1:2:1000000000000'" in message


def test_claims_and_citations_go_to_files(tmp_path, capsys):
    table = tmp_path / "claims.csv"
    entries = tmp_path / "papers.bib"
    assert main(["claims", "-o", str(table)]) == 0
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == list(CLAIMS)
    assert main(["cite", "icl_error", "-o", str(entries)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["cite", "icl_error"]) == 0
    assert capsys.readouterr().out == entries.read_text(encoding="utf-8")
