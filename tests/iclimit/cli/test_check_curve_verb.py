"""The verb ``iclimit check-curve``."""

import csv
import json

import numpy as np
import pytest
from refusals import refused_command

from iclimit.cli import main
from iclimit.problem import Problem
from iclimit.simulate.dynamics import AttentionModel, initial_weights, simulate_gradient_descent

LAM = (0.6, 0.4)
STATED = ["--eigenvalues", "0.6,0.4", "--context", "10", "--heads", "3", "--init-scale", "1e-4"]
RATE = ["--learning-rate", "0.05"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two curves of merged attention in the columns repeat, step and loss, and their weights."""
    folder = tmp_path_factory.mktemp("curves")
    run = simulate_gradient_descent(
        Problem(dim=len(LAM), context=10, input_covariance=LAM, scale=1),
        heads=3,
        init_scale=1e-4,
        learning_rate=0.05,
        training_set=np.inf,
        steps=600,
        record=3,
        repeats=2,
        rng=1,
    )
    with (folder / "curves.csv").open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["repeat", "step", "loss"])
        for repeat, losses in enumerate(run.losses):
            writer.writerows((repeat, *row) for row in zip(run.recorded_at, losses, strict=True))
    model = AttentionModel("merged", 2, 3)
    starts = [initial_weights(model, 1e-4, rng=1, first_repeat=k) for k in range(2)]
    np.savez(
        folder / "weights.npz",
        value=[value[:, -1] for value, _ in starts],
        key_query=[lookup[:, :2] for _, lookup in starts],
    )
    return folder / "curves.csv"


def checked(file, *flags):
    return main(["check-curve", str(file), "--columns", "run=repeat", *STATED, *flags])


def test_agreement_is_status_0(file, capsys):
    assert checked(file, *RATE) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("Agrees with the theory (2 curves)\n")
    assert "step of half the drop" in captured.out
    assert "error of the theory: initial weights are not known" in captured.out


def test_contradiction_is_status_1_and_explained(file, capsys):
    assert checked(file, "--learning-rate", "0.1", "--format", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"]["kind"] == "contradicts"
    assert found["fits"] == ["the learning rate is half of what is stated"]
    assert "steps of the drop" in found["outliers"]


def test_known_initial_weights(file, capsys):
    weights = str(file.with_name("weights.npz"))
    assert checked(file, *RATE, "--initial", weights, "--format", "csv") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    (half,) = (row for row in rows if row["quantity"] == "half-drop")
    assert float(half["standard_error"]) == 0
    # What is left are steps of finite length, which delay the drop.
    assert 0 < float(half["deviation"]) < float(half["allowance"]) < 0.03


@pytest.mark.parametrize("ending", [".csv", ".json", ".png"])
def test_files(ending, file, tmp_path, capsys):
    path = tmp_path / f"check{ending}"
    assert checked(file, *RATE, "-o", str(path)) == 0
    assert capsys.readouterr().out.startswith("Agrees with the theory")
    if ending == ".json":
        found = [*("initial loss", "half-drop", "duration", "final loss")]
        assert [row["quantity"] for row in json.loads(path.read_text())["rows"]] == found
    assert path.stat().st_size > 200


def test_a_curve_without_a_drop_is_status_2(file, tmp_path, capsys):
    lines = file.read_text().splitlines()
    short = tmp_path / "short.csv"
    short.write_text("\n".join(lines[:30]))
    assert checked(short, *RATE) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("Too little to compare (1 curve)")
    found = captured.err
    assert found == ("iclimit check-curve: error: nothing but the initial loss can be compared\n")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ignore", "loss"], "the table must have a column loss"),
        (["--initial", "none.npz"], "there is no file 'none.npz'"),
        (["--dim", "2"], "not allowed with argument"),
    ],
)
def test_bad_input_is_one_line_and_status_2(flags, message, file, capsys):
    words = ["check-curve", file, "--columns", "run=repeat", *STATED, *RATE, *flags]
    assert message in refused_command(capsys, words)


def test_weights_that_would_run_code_are_refused(file, tmp_path, capsys):
    path = tmp_path / "weights.npz"
    np.savez(path, value=np.array([{}], dtype=object))
    assert checked(file, *RATE, "--initial", str(path)) == 2
    assert "must be an array of numbers, got object" in capsys.readouterr().err
    path.write_text("nothing")
    assert checked(file, *RATE, "--initial", str(path)) == 2
