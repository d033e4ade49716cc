"""The command line: output, files, exit status, interruption."""

import csv
import io
import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import iclimit
from iclimit.cli import main
from iclimit.validation import CLAIMS, Claim, ClaimResult, ValidationRun, Verdict

SETTING = ["--alpha", "1", "--kappa", "0.5", "--rho", "0.01"]
FIGURES = [claim.name for claim in CLAIMS.values() if claim.figure]


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


STARTS = {
    "csv": b"source,quantity,tau",
    "json": b'[\n {\n  "source": "theory"',
    "png": b"\x89PNG",
    "pdf": b"%PDF",
    "svg": b"<?xml",
}


@pytest.mark.parametrize("ending", STARTS)
def test_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{ending}"
    assert main(["curve", "icl_error", "--tau", "1.5:3:5", *SETTING, "-o", str(path)]) == 0
    assert path.read_bytes().startswith(STARTS[ending])
    assert list(tmp_path.iterdir()) == [path]


def test_curve_simulates(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--simulate", "dim=8,repeats=3,points=2", "--jobs", "1"]
    assert main(["curve", "idg_error", "--tau", "1.5:3:5", *SETTING, *options]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    simulated = [row for row in rows if row["source"] == "simulation"]
    assert [row["dim"] for row in simulated] == ["8", "8"]
    assert all(float(row["standard_error"]) > 0 for row in simulated)


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "iclimit", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"iclimit {iclimit.__version__}\n"


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


def printed_text(capsys: pytest.CaptureFixture[str]) -> list[dict[str, float]]:
    """Rows of a table in columns."""
    head, *lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in [head, *lines]}) == 1  # aligned
    return [dict(zip(head.split(), map(float, line.split()), strict=True)) for line in lines]


def exact_step(
    N: float, d: float, m2: Fraction, m4: Fraction, noise: float = 0, task: float = 1
) -> tuple[float, float]:
    """Rate of the mean over the context and loss, from the moments of a product."""
    slope = task * N * d * m2**2  # E g y
    square = N * d * m2 * (task * (m4 + (N + d - 2) * m2**2) + noise * m2)  # E g^2
    rate = slope / square
    return float(N * rate), float(noise + task * d * m2 - slope**2 / square)


LAWS = {
    "gaussian": (Fraction(1), Fraction(3)),
    "uniform": (Fraction(1, 3), Fraction(1, 5)),
    "rademacher": (Fraction(1), Fraction(1)),
    "laplace": (Fraction(2), Fraction(24)),
}


@pytest.mark.parametrize("law", LAWS)
def test_learning_rate_prints_text(law: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learning-rate", "--context", "10", "--dim", "6", "--input-law", law]) == 0
    (row,) = printed_text(capsys)
    rate, loss = exact_step(10, 6, *LAWS[law])
    assert row == pytest.approx(
        {
            "context": 10,
            "dim": 6,
            "noise_variance": 0,
            "task_variance": 1,
            "rate": rate,
            "loss": loss,
        },
        rel=1e-9,
    )


def test_learning_rate_takes_lists_and_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--context",
        "5,20",
        "--dim",
        "2:4:3",
        "--noise-variance",
        "0.1:10:2:log",
        "--task-variance",
        "0.5,2",
    ]
    assert main(["learning-rate", *arguments, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    settings = list(itertools.product((5, 20), (2, 3, 4), (0.1, 10), (0.5, 2)))
    assert len(rows) == len(settings) == 24
    names = ("context", "dim", "noise_variance", "task_variance")
    for row, (N, d, noise, task) in zip(rows, settings, strict=True):
        assert [float(row[name]) for name in names] == pytest.approx([N, d, noise, task])
        expected = exact_step(N, d, *LAWS["gaussian"], noise, task)
        assert (float(row["rate"]), float(row["loss"])) == pytest.approx(expected, rel=1e-12)


def test_learning_rate_formats_agree(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["learning-rate", "--context", "5,7", "--dim", "3", "--input-law", "laplace"]
    assert main([*arguments, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert main([*arguments, "--format", "csv"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{name: float(value) for name, value in row.items()} for row in table] == rows
    assert main(arguments) == 0
    for found, expected in zip(printed_text(capsys), rows, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)


def test_learning_rate_of_other_laws_and_of_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    moments = ["--moments", "0.083333333333333333,0.0125", "--normalization", "sum"]
    assert main(["learning-rate", "--context", "20", "--dim", "10", *moments]) == 0
    (row,) = printed_text(capsys)
    rate, loss = exact_step(20, 10, Fraction(1, 12), Fraction(1, 80))
    assert (row["rate"], row["loss"]) == pytest.approx((rate / 20, loss), rel=1e-9)


def test_learning_rate_prints_latex(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["learning-rate", "--input-law", "uniform", "--normalization", "sum", "--latex"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert r"\eta = \frac{15 a^{2}}{5 N a^{2} + 5 a^{2} d - a^{2} + 15 \sigma^{2}}" in out
    assert out.count(r"\[ ") == out.count(r" \]") == 4
    assert out.count("{") == out.count("}")
    assert main(["learning-rate", "--moments", "1,3", "--latex"]) == 0
    assert "m_{4}" in capsys.readouterr().out  # symbols, whatever the numbers


def printed_schedule(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    lines = (line.split() for line in capsys.readouterr().out.splitlines())
    return {name: [float(number) for number in numbers] for name, *numbers in lines}


def test_schedule_in_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "--steps", "4", "--ratio", "0.5"]) == 0
    found = printed_schedule(capsys)
    rates = sorted(1 / (1.5 + math.sqrt(2) * math.cos(math.pi * k / 5)) for k in range(1, 5))
    assert found["rates"] == pytest.approx(rates, rel=1e-9)
    assert found["loss"] == found["lower_bound"] == pytest.approx([1 / 31], rel=1e-9)


def test_schedule_at_finite_size_and_methods(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--context", "20", "--dim", "10"]
    assert main(["schedule", "--steps", "2", *size, "--format", "json"]) == 0
    best = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert best["loss"] == pytest.approx(15827 / 93957, rel=1e-12)
    losses = []
    for method in ("optimal", "constant", "chebyshev"):
        assert main(["schedule", "--steps", "2", *size, "--method", method]) == 0
        found = printed_schedule(capsys)
        assert found["lower_bound"] == pytest.approx([best["loss"]], rel=1e-9)
        assert (len(set(found["rates"])) == 1) == (method == "constant")
        rates = ",".join(map(repr, found["rates"]))
        assert main(["schedule", "--rates", rates, *size]) == 0
        again = printed_schedule(capsys)
        assert set(again) == {"rates", "loss"}
        assert again["rates"] == found["rates"]
        assert again["loss"] == pytest.approx(found["loss"], rel=1e-8)
        losses += found["loss"]
    assert losses[0] < losses[1] < losses[2]


def test_schedule_with_noise_and_given_rates(capsys: pytest.CaptureFixture[str]) -> None:
    """One step: 1 - 2 eta + eta^2 (1 + c + v), at finite size c = (d + 1)/N."""
    for size, c in ((["--ratio", "0.5"], 0.5), (["--context", "20", "--dim", "10"], 0.55)):
        noisy = [*size, "--noise-ratio", "0.05"]
        assert main(["schedule", "--rates", "0.4", *noisy]) == 0
        expected = 1 - 0.8 + 0.16 * (1.05 + c)
        assert printed_schedule(capsys)["loss"] == pytest.approx([expected], rel=1e-9)
        assert main(["schedule", "--steps", "1", *noisy]) == 0
        found = printed_schedule(capsys)
        assert found["rates"] == pytest.approx([1 / (1.05 + c)], rel=1e-9)
        assert found["loss"] == pytest.approx([1 - 1 / (1.05 + c)], rel=1e-9)


def test_schedule_prints_strict_json(capsys: pytest.CaptureFixture[str]) -> None:
    huge = ["schedule", "--rates", "1e200,1e200", "--ratio", "0.5"]
    assert main([*huge, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"rates": [1e200, 1e200], "loss": "inf"}
    assert main(huge) == 0
    assert printed_schedule(capsys)["loss"] == [math.inf]


def test_schedule_prints_latex(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", "--steps", "2", "--ratio", "0.5", "--latex"]) == 0
    assert r"\mathcal{L}^* = \frac{c^{2}}{c^{2} + c + 1}" in capsys.readouterr().out
    assert main(["schedule", "--steps", "2", "--context", "20", "--dim", "10", "--latex"]) == 0
    out = capsys.readouterr().out
    assert r"\mathcal{L}^* = \frac{15827}{93957}" in out
    assert out.count("{") == out.count("}")


@pytest.mark.parametrize("verb", ["learning-rate", "schedule"])
def test_examples_of_the_help_run(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    lines = [line.strip() for line in capsys.readouterr().out.split("examples:")[1].splitlines()]
    examples = [line.removeprefix("iclimit ") for line in lines if line]
    assert len(examples) >= 4
    for example in examples:
        assert main(example.split()) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", [FIGURES[0], FIGURES[-1]])
def test_figures_are_those_of_the_claims(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names reach the claims; what is simulated is not at stake."""

    def draw(figure: Any) -> None:
        figure.set_size_inches(2, 1)
        figure.text(0.5, 0.5, "drawn")

    def simulated(claims: list[Claim], **options: Any) -> ValidationRun:
        assert [claim.name for claim in claims] == [name]
        assert options["preset"] == "full"
        verdict = Verdict((), draw)
        return ValidationRun([ClaimResult(claims[0], verdict)], "full", 0, "numpy", 0.0)

    monkeypatch.setattr("iclimit.validation.validate", simulated)
    monkeypatch.chdir(tmp_path)
    assert main(["figure", name, "--preset", "full"]) == 0
    assert capsys.readouterr().out == f"{name}.png\n"
    assert (tmp_path / f"{name}.png").read_bytes().startswith(STARTS["png"])


def test_every_figure_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["figure", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(FIGURES)


def test_a_figure_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "constructions.svg"
    assert main(["figure", "gd-constructions", "-o", str(path), "--jobs", "1"]) == 0
    assert "softmax copying" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("curve nothing --tau 1", "quantity must be one of icl_error"),
        ("curve icl_error --tau 5:1:3", "argument --tau: must have start < stop"),
        ("curve icl_error --tau 0:1:3:log", "argument --tau: must have start > 0 for log"),
        ("curve icl_error --tau a", "argument --tau: must be a number, a list"),
        ("curve icl_error --tau 1:2", "argument --tau: must be a number, a list"),
        ("curve icl_error --tau nan", "argument --tau: must not be NaN"),
        (
            "curve icl_error --tau=-1 --alpha 1 --kappa 1 --rho 0",
            "tau must be > 0, or inf, got -1.0",
        ),
        ("curve icl_error --tau 1", "icl_error needs alpha, kappa, rho"),
        ("curve icl_error --tau 1 --wrong 2", "unrecognized arguments: --wrong 2"),
        ("curv icl_error", "did you mean curve?"),
        ("train atention", "did you mean attention?"),
        ("curve icl_eror --tau 1", "did you mean icl_error?"),
        ("validate rigeless", "did you mean ridgeless?"),
        ("figure double-decent", "did you mean double-descent?"),
        ("curve icl_error --kapa 1", "curve: error: unrecognized arguments: --kapa 1; did"),
        ("curve icl_error --kapa=1", "did you mean --kappa?"),
        ("curve ridge_risk --noise-variance 1", "did you mean --set noise_variance=VALUES?"),
        ("curve icl_error --l 1", "did you mean --alpha (context length over dimension)?"),
        ("learning-rate --N 10 --dim 3", "did you mean --context (context length)?"),
        ("learning-rate --cont 10 --dim 3", "did you mean --context?"),
        ("train attention --init-scal 1", "did you mean --init-scale?"),
        ("curve icl_error --tau 1 --simulate dim=x", "argument --simulate: must look like dim=80"),
        (
            "curve icl_error --tau 1 --simulate dim=8,dim=9",
            "argument --simulate: must look like dim=80",
        ),
        (
            "curve icl_error --tau 1 --alpha 1 --kappa 1 --rho 0 --simulate dim=0",
            "dim must be an integer >= 1, got 0",
        ),
        (
            "curve icl_error --tau 1:2:3 --alpha 1 --kappa 1 --rho 0 --simulate dim=8,points=1",
            "points of the simulation must be an integer >= 2, got 1",
        ),
        (
            "curve icl_error --tau 1:2:3 --alpha 1 --kappa 1 --rho 0 --simulate d=20,n=3",
            "got d, n; did you mean dim (dimension of the inputs)?",
        ),
        ("curve icl_error --tau 1 --time 10x", "argument --time: must look like 90s, 10m"),
        ("curve icl_error --tau 1 --target-relative-error %", "error: must look like 0.01 or 1%"),
        ("curve icl_error --tau 1 --target-standard-error 0.1", "error needs --simulate"),
        ("curve icl_error --tau 1 -o x.doc", "output: must end in .csv, .json"),
        ("curve icl_error --tau 1 -o /none/x.csv", "output: must be a file in an existing folder"),
        ("phase icl_error --x beta=1:2:3 --y tau=1:2:3", "icl_error takes tau, "),
        ("phase icl_error --x tau=1:2:3 --y rho=0:1:3 --refine 1", "--refine needs --simulate"),
        ("phase icl_error --x tau=1:2:3 --y tau=1:2:3 --rho 1", "x and y must be different"),
        ("phase icl_error --x tau=1:2:3", "the following arguments are required: --y"),
        ("figure nothing", "NAME must be one of double-descent"),
        (
            "figure gd-nothing",
            "gd-constructions, gdpp-spectrum, gdpp-layers, gdpp-error, noisy-baselines",
        ),
        ("figure noisy-nothing", "spectra-samples, spectra-free, got"),
        ("figure gd-training -o x.doc", "output: must end in .png, .pdf, .svg, got 'x.doc'"),
        ("figure gd-training --seed -1", "(--seed) must be an integer >= 0"),
        ("learning-rate", "--context is needed (or --latex)"),
        ("learning-rate --context 10", "--dim is needed (or --latex)"),
        ("learning-rate --context 0 --dim 3", "context must be >= 1 and finite, got 0.0"),
        ("learning-rate --context 5 --dim inf", "dim must be >= 1 and finite, got inf"),
        ("learning-rate --context nan --dim 3", "argument --context: must not be NaN"),
        ("learning-rate --context 5: --dim 3", "argument --context: must be a number, a list"),
        (
            "learning-rate --context 5 --dim 3 --noise-variance -1",
            "noise_variance must be >= 0 and finite, got -1.0",
        ),
        (
            "learning-rate --context 5 --dim 3 --task-variance 0",
            "task_variance must be > 0 and finite, got 0.0",
        ),
        (
            "learning-rate --context 5 --dim 3 --input-law cauchy",
            "argument --input-law: invalid choice: 'cauchy'",
        ),
        (
            "learning-rate --context 5 --dim 3 --input-law uniform --moments 1,3",
            "argument --moments: not allowed with argument --input-law",
        ),
        (
            "learning-rate --context 5 --dim 3 --moments 1",
            "argument --moments: must be two numbers m2,m4, got '1'",
        ),
        ("learning-rate --moments 1,2,3", "argument --moments: must be two numbers m2,m4"),
        (
            "learning-rate --context 5 --dim 3 --moments 0,1",
            "second moment of input_law must be > 0 and finite, got 0.0",
        ),
        (
            "learning-rate --context 5 --dim 3 --moments 1,0.5",
            "fourth moment of input_law, over the square of the second, must be >= 1",
        ),
        (
            "learning-rate --context 5 --dim 3 --normalization max",
            "argument --normalization: invalid choice: 'max'",
        ),
        ("learning-rate --format xml", "argument --format: invalid choice: 'xml'"),
        ("learning-rate --context 5 --dim 3 -o x.csv", "unrecognized arguments: -o x.csv"),
        ("schedule", "give either --steps or --rates"),
        ("schedule --ratio 0.5", "give either --steps or --rates"),
        ("schedule --latex", "give either --steps or --rates"),
        ("schedule --steps 2 --rates 1,2 --ratio 0.5", "give either --steps or --rates"),
        ("schedule --steps 2", "give either ratio or context and dim"),
        ("schedule --steps 2 --context 20", "give either ratio or context and dim"),
        (
            "schedule --steps 2 --ratio 0.5 --context 20 --dim 10",
            "give either ratio or context and dim",
        ),
        ("schedule --steps 0 --ratio 0.5", "steps must be an integer >= 1, got 0"),
        ("schedule --steps 2.5 --ratio 0.5", "argument --steps: invalid int value: '2.5'"),
        ("schedule --steps 2 --ratio 0", "ratio must be from 1e-100 to 1e+100, got 0.0"),
        ("schedule --steps 2 --ratio nan", "ratio must be from 1e-100 to 1e+100, got nan"),
        ("schedule --steps 2 --context 0 --dim 3", "context must be an integer >= 1, got 0"),
        (
            "schedule --steps 2 --ratio 1 --noise-ratio -1",
            "noise_ratio must be >= 0 and finite, got -1.0",
        ),
        (
            "schedule --steps 2 --ratio 1 --noise-ratio inf",
            "noise_ratio must be >= 0 and finite, got inf",
        ),
        ("schedule --rates inf --ratio 0.5", "rates must be finite, got inf"),
        ("schedule --rates 1,x --ratio 0.5", "argument --rates: must be a number, a list"),
        (
            "schedule --rates 1 --ratio 0.5 --method constant",
            "--method is for --steps, not for given --rates",
        ),
        ("schedule --steps 2 --ratio 1 --method x", "argument --method: invalid choice: 'x'"),
        ("schedule --steps 2 --ratio 1 --format csv", "argument --format: invalid choice: 'csv'"),
        (
            "schedule --steps 2 --noise-ratio 0.1 --latex",
            "--latex is for the optimal schedule without noise",
        ),
        (
            "schedule --steps 2 --method constant --latex",
            "--latex is for the optimal schedule without noise",
        ),
        ("schedule --rates 1 --latex", "--latex is for the optimal schedule without noise"),
        ("validate nothing", "claim must be one of ridgeless"),
        ("validate ridgles", "got 'ridgles'; did you mean ridgeless?"),
        ("figure double-decent", "got 'double-decent'; did you mean double-descent?"),
        ("curve icl_eror --tau 1", "got 'icl_eror'; did you mean icl_error?"),
        ("validate --jobs 0", "jobs must be >= 1"),
        ("validate --seed -1", "(--seed) must be an integer >= 0"),
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


@pytest.mark.parametrize(
    "verb",
    [
        "",
        "validate",
        "claims",
        "curve",
        "phase",
        "figure",
        "learning-rate",
        "schedule",
        "gdpp",
        "train",
        "train linear-transformer",
    ],
)
def test_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*verb.split(), "--help"])
    assert stop.value.code == 0
    assert "usage: iclimit" in capsys.readouterr().out


def test_too_many_points_are_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curve", "icl_error", "--tau", "1:2:1000000000000", *SETTING]) == 1
    assert "not enough memory" in capsys.readouterr().err
