"""The verb ``iclimit train descent``."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from reference_pictures import assert_looks_as_before
from refusals import refused_command

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.cli import main
from iclimit.problem import Problem
from iclimit.simulate.dynamics import AttentionModel, initial_weights, simulate_gradient_descent
from iclimit.simulate.dynamics.attention_models import MomentLoss

LAM = np.array([0.4, 0.3, 0.2, 0.1])
SMALL = "train descent --training-set 60 --steps 60 --seed 5"
DROP = ["half_drop_step", "half_drop_time", "predicted_time"]
COLUMNS = ["repeat", "first_loss", *DROP, "last_step", "last_loss"]


@pytest.fixture
def printed(capsys):
    """Rows of a run that succeeds, from JSON; NaN and infinite numbers fail."""

    def run(flags="", command=SMALL):
        assert main([*command.split(), *flags.split(), "--format", "json"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return json.loads(captured.out, parse_constant=pytest.fail)["rows"]

    return run


def test_the_summary_is_that_of_the_simulation(printed):
    setting = {"model": "separate", "heads": 3, "rank": 2, "init_scale": 0.3, "record": 4}
    setting |= {"learning_rate": 0.1, "repeats": 2, "initialization": "per-layer"}
    problem = Problem(dim=4, context=31, input_covariance=LAM, scale=1)
    more = {"training_set": 60, "steps": 60, "rng": 5}
    run = simulate_gradient_descent(problem, **setting, **more)
    rows = printed(" ".join(f"--{k.replace('_', '-')} {v}" for k, v in setting.items()))
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


def test_half_of_the_drop(printed, tmp_path):
    path = tmp_path / "x.csv"
    flags = "--init-scale 0.1 --learning-rate 0.2 --steps 300 --record 1 --training-set inf"
    (row,) = printed(f"{flags} -o {path}")
    curve = [float(line["loss"]) for line in csv.DictReader(path.read_text().splitlines())]
    middle = (1 + row["limit_loss"]) / 2
    step = row["half_drop_step"]
    assert 0 < step < 300
    assert curve[step] < middle <= curve[step - 1]
    (row,) = printed("--steps 3")  # fewer than the usual record
    assert (row["half_drop_step"], row["last_step"]) == ("inf", 3)


@pytest.mark.parametrize(
    ("model", "power", "small", "rate"),
    [("merged", 1, 1e-4, 0.02), ("separate", 2 / 3, 1e-2, 0.1)],
)
def test_times_are_those_of_the_prediction(model, power, small, rate, printed):
    """Of each repeat, in the units of ``iclimit dynamics``, whatever the normalization."""
    setting = "--eigenvalues 0.5,1 --context 7 --heads 3 --seed 2"
    scale = small * 7 ** (power / 2)
    rows = printed(f"{setting} --init-scale {scale}", f"dynamics {model}")
    expected = [row["half_drop_time"] for row in rows if row["half_drop_time"] is not None]
    long = f"--model {model} --training-set inf --steps 4000 --record 1 --repeats 2"
    mean = f"--init-scale {scale} --learning-rate {rate}"
    total = f"--init-scale {small} --learning-rate {rate / 7**power} --normalization sum"
    for flags in (mean, total):
        rows = printed(f"{setting} {long} {flags}", "train descent")
        first = [row for row in rows if row["repeat"] == 0]
        assert [row["predicted_time"] for row in first] == pytest.approx(expected)
        for row in rows:
            assert row["half_drop_time"] == pytest.approx(2 * rate * row["half_drop_step"])
            # The staircase is the limit of small weights.
            assert row["half_drop_time"] == pytest.approx(row["predicted_time"], rel=0.1)


def test_weights_without_a_prediction(printed, tmp_path):
    """Too large, or of a model or tasks that theory does not have: the columns are left out."""
    path = tmp_path / "x.svg"
    (row,) = printed(f"--init-scale 3 -o {path}")
    assert list(row) == [*(name for name in COLUMNS if name != "predicted_time"), "limit_loss"]
    assert "predicted" not in path.read_text()
    (row,) = printed(f"--init-scale 0.01 -o {path}")
    assert list(row) == [*COLUMNS, "limit_loss"]
    assert "predicted" in path.read_text()
    (row,) = printed("--model cubic")
    assert "predicted_time" not in row


def test_batches(printed):
    assert printed("--batch 60") != printed("--batch 7") == printed("--batch 7")


def test_mixtures(printed, tmp_path):
    columns = [name for name in COLUMNS if name not in DROP]
    (alone,) = printed("--fresh-fraction 0")
    assert list(alone) == columns
    (random,) = printed("--tests")
    assert list(random) == [*COLUMNS, "last_icl_loss", "limit_loss"]
    flags = "--fresh-fraction 0.4 --tests --repeats 2 --record 20"
    path = tmp_path / "x.json"
    rows = printed(f"{flags} -o {path}")
    curves = json.loads(path.read_text())["rows"]
    assert list(curves[0]) == ["repeat", "step", "loss", "icl_loss", "iwl_loss"]
    found = [(repeat, step) for repeat in (0, 1) for step in (0, 20, 40, 60)]
    assert [(row["repeat"], row["step"]) for row in curves] == found
    for row, last in zip(rows, curves[3::4], strict=True):
        assert list(row) == [*columns, "last_icl_loss", "last_iwl_loss"]
        for name in ("loss", "icl_loss", "iwl_loss"):
            assert row[f"last_{name}"] == last[name]
        # All losses of weights near zero are those of the labels, of variance one.
        for name in ("last_icl_loss", "last_iwl_loss"):
            assert row[name] == pytest.approx(1, abs=1e-2)
    for ending in ("png", "svg"):
        printed(f"{flags} -o {path.with_suffix(f'.{ending}')}")
    assert_looks_as_before(path.with_suffix(".png"), "train-attention", tmp_path)
    for label in ("step", "loss", "training", "random tasks", "shared task, noise as labels"):
        assert label in path.with_suffix(".svg").read_text()


@pytest.mark.parametrize("flags", ["", "--checkpoint run.npz"])
def test_too_large_a_rate_leaves_what_was_recorded(flags, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    large = f"{SMALL} --init-scale 0.5 --learning-rate 2 --record 1 -o x.csv {flags}"
    assert main(large.split()) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("iclimit train: training diverged: the loss is ")
    assert captured.err.count("\n") == 1
    assert captured.out.split()[: len(COLUMNS)] == COLUMNS
    table = list(csv.DictReader(Path("x.csv").read_text().splitlines()))
    assert len(table) >= 1
    assert all(math.isfinite(float(row["loss"])) for row in table)


def test_too_large_a_start_records_nothing(tmp_path, capsys):
    path = tmp_path / "x.csv"
    assert main(f"{SMALL} --init-scale 1e4 -o {path}".split()) == 1
    captured = capsys.readouterr()
    assert captured.err.endswith(" after 0 steps: try a smaller init_scale\n")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not path.exists()


def test_interrupted_curves_are_written_and_continued(tmp_path, printed, capsys, monkeypatch):
    checkpoint, whole, part = (tmp_path / name for name in ("run.npz", "whole.csv", "part.csv"))
    expected = printed(f"--record 1 -o {whole}")
    exact = MomentLoss.__call__
    count = 0

    def interrupted(self, weights):
        nonlocal count
        count += 1
        if count > 30:
            raise KeyboardInterrupt
        return exact(self, weights)

    flags = f"--record 1 --checkpoint {checkpoint} -o {part}"
    with monkeypatch.context() as patch:
        patch.setattr(MomentLoss, "__call__", interrupted)
        assert main([*SMALL.split(), *flags.split()]) == 130
    captured = capsys.readouterr()
    assert captured.err == "interrupted: the curves end where the training did\n"
    assert captured.out.split()[: len(COLUMNS)] == COLUMNS
    lines = part.read_text().splitlines()
    assert len(lines) == 31
    assert lines == whole.read_text().splitlines()[:31]
    assert printed(flags) == expected
    assert part.read_text() == whole.read_text()
    # More steps extend a training; fewer, or other settings, are refused.
    assert main([*SMALL.split(), *flags.split(), "--steps", "61"]) == 0
    assert len(part.read_text().splitlines()) == 63
    capsys.readouterr()
    assert "steps must be at least those of" in refused_command(capsys, f"{SMALL} {flags}".split())
    for other in ("--init-scale 0.02", "--model cubic", "--seed 6", "--tests"):
        line = refused_command(capsys, f"{SMALL} {flags} --steps 61 {other}".split())
        assert "checkpoint must be of the same training" in line


@pytest.mark.parametrize("model", ["merged", "separate"])
def test_initial_weights_are_those_of_the_prediction(model, tmp_path, printed):
    """The same flags and seed; a step too short to change them."""
    state = tmp_path / "run.npz"
    rank = 2 if model == "separate" else 1
    law = f"--dim 3 --heads 5 --init-scale 0.02 --seed 11 --rank {rank}"
    short = "--steps 1 --learning-rate 1e-40 --training-set 50"
    printed(f"--model {model} {law} {short} --checkpoint {state}")
    predicted = initial_weights(AttentionModel(model, 3, 5, rank), 0.02, rng=11)
    with np.load(state) as file:
        trained = [file[f"state.weights.{i}"] for i in range(len(predicted))]
    for weights, expected in zip(trained, predicted, strict=True):
        np.testing.assert_allclose(weights[0], expected, rtol=0, atol=1e-39)
        assert np.std(expected) > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--rank 2 --model cubic", "rank must be 1 for model 'cubic', got 2"),
        ("--training-set 3", "training_set must be > 4 to be standardised, got 3"),
        ("--training-set 1.5", "argument --training-set: must be an integer or inf, got '1.5'"),
        ("--batch 61", "batch must be at most a finite training_set, got 61 of 60"),
        ("--checkpoint /none/x.npz", "checkpoint: must be a file in an existing folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(flags, message, capsys):
    assert message in refused_command(capsys, f"{SMALL} {flags}".split())
