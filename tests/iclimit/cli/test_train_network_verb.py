"""The verb ``iclimit train network``, and the probe of what it writes."""

import csv
import io
import json

import numpy as np
import pytest
from refusals import refused_command

import iclimit
from iclimit.cli import main
from iclimit.simulate.networks import AttentionNetwork, load_model, train_repeats
from iclimit.simulate.softmax import MergedHeads
from iclimit.simulate.training import loop, repeats
from iclimit.softmax import optimal_softmax
from iclimit.validation.instruments.models.algorithms import ALGORITHMS

PROBLEM = iclimit.Problem(dim=2, context=6, scale=1)
SIZE = ["--dim", "2", "--context", "6"]
# Settings with which every network below is trained in a third of a second.
GOOD = ["--batch", "128", "--learning-rate", "0.02", "--patience", "100"]
SHORT = ["--steps", "3", "--batch", "8", "--held-out", "50"]


def train(*flags):
    return main(["train", "network", *SIZE, *flags])


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.npz"
    assert main(["prompts", *SIZE, "--test-prompts", "1000", "-o", str(path)]) == 0
    return path


@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (["--seed", "3"], "It is a softmax head of inverse temperature -1."),
        (["--attention", "linear"], "It is one gradient step of rate 0."),
    ],
)
def test_trained_networks_are_what_the_theory_says(
    flags, verdict, prompts, tmp_path, capsys, monkeypatch
):
    for name in ("gdpp_2", "gdpp_3"):  # a search that takes seconds
        monkeypatch.delitem(ALGORITHMS, name)
    path = tmp_path / "network.npz"
    assert train(*flags, *GOOD, "--format", "json", "-o", str(path)) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert not run["failed"]
    # The mean over 20,000 prompts has an error of 2 %; the network is at most 2 % above the best.
    assert -4 * run["standard_error"] < run["held_out_loss"] - run["best_loss"]
    assert run["held_out_loss"] < 1.02 * run["best_loss"] + 4 * run["standard_error"]
    few = ["--baselines", "null,one_step,softmax_1,softmax_minus,softmax_2"]
    assert main(["probe", str(prompts), "--model", str(path), *few]) == 0
    assert capsys.readouterr().out.startswith(verdict)


def test_the_verb_is_the_training_of_all_seeds(capsys, tmp_path, monkeypatch):
    path = tmp_path / "best.npz"
    flags = [*GOOD, "--context", "8", "--repeats", "3", "--seed", "2"]
    assert train(*flags, "--format", "json", "-o", str(path)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""  # no progress bar either: this is no terminal
    found = json.loads(printed.out, parse_constant=pytest.fail)
    problem = iclimit.Problem(dim=2, context=8, scale=1)
    best = optimal_softmax(context=8, dim=2).loss
    settings = {"batch": 128, "learning_rate": 0.02, "rng": 2}
    settings |= {"repeats": 1, "first_repeat": 1}
    [run] = train_repeats(AttentionNetwork(dim=2), problem, **settings).runs
    assert run is not None
    row = found["runs"][1]
    assert row["held_out_loss"] == run.held_out.mean
    assert row["standard_error"] == run.held_out.standard_error
    assert (row["null_loss"], row["steps"]) == (run.null_loss, run.steps)
    for row in found["runs"]:
        assert row["best_loss"] == pytest.approx(best, rel=1e-9)
        assert row["failed"] == (row["held_out_loss"] > best + (row["null_loss"] - best) / 10)
    good = [row["held_out_loss"] for row in found["runs"] if not row["failed"]]
    assert (len(good), found["failures"]) == (2, 1)
    assert found["mean_loss"] == pytest.approx(np.mean(good))
    assert load_model(path).held_out.mean == min(good)

    # What is on record is not computed again, also in another number and in other formats.
    monkeypatch.setattr(repeats, "train_together", pytest.fail)
    assert train(*flags) == 0
    table, sentence = capsys.readouterr().out.split("\n\n")
    assert len(table.splitlines()) == 4
    assert sentence.endswith(f", {found['failures']} of 3 runs failed\n")
    assert train(*flags, "--repeats", "2", "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    value = [str(row["held_out_loss"]) for row in found["runs"][:2]]
    assert [row["held_out_loss"] for row in rows] == value


def test_flags_describe_the_network_and_the_problem(tmp_path, capsys):
    path = tmp_path / "network.npz"
    out = ["-o", str(path), *SHORT]
    tasks = tmp_path / "tasks.npy"
    np.save(tasks, np.ones((2, 2)))
    law = ["--noise-law", "categorical:0,1", "--input-spectrum", "exponential:3", "--tasks"]
    many = ["--layers", "2", "--attention", "linear,softmax", "--width", "4", "--mlp", "3"]
    many += ["--embedding-mlp", "5", "--positions", "2", "--init-scale", "0.5", "--layer-norm"]
    assert train(*out, *many, "--include-query", *law, str(tasks)) == 0
    model = load_model(path)
    assert model.network == AttentionNetwork(
        dim=2,
        layers=2,
        width=4,
        attention=("linear", "softmax"),
        mlp=3,
        layer_norm=True,
        include_query=True,
        positions=2,
        embedding_mlp=5,
        init_scale=0.5,
    )
    assert "noise_law=" in model.parameters["problem"]
    assert "tasks=[[1.0, 1.0]" in model.parameters["problem"]
    assert "best_loss" not in capsys.readouterr().out
    assert train(*out, "--optimizer", "lbfgs", "--query-noise") == 1
    model = load_model(path)
    assert (model.parameters["optimizer"], model.parameters["query_noise"]) == ("lbfgs", True)


def test_a_trained_network_is_probed_in_python():
    run = train_repeats(MergedHeads(2), PROBLEM, batch=128, learning_rate=0.02, repeats=1, rng=3)
    assert run.best is not None
    few = ["null", "softmax_1", "softmax_minus"]
    report = iclimit.probe(run.best, PROBLEM, test_prompts=1000, baselines=few)
    assert report.verdict.names[0].startswith("softmax(-0.7")


def test_ctrl_c_leaves_what_is_there_and_goes_on(tmp_path, monkeypatch, capsys):
    flags = [*SHORT, "--repeats", "3"]
    state = ["--checkpoint", str(tmp_path / "state.npz")]
    out = ["-o", str(tmp_path / "best.npz")]
    assert train(*flags, "--no-store") == 1  # three steps teach nothing
    expected = capsys.readouterr().out
    moves = 0
    move = loop.TrainingLoop.advance

    def interrupted(run, weights):
        nonlocal moves
        moves += 1
        if moves == 5:
            raise KeyboardInterrupt
        move(run, weights)

    for more in ([], state):
        moves = 0
        with monkeypatch.context() as patch:
            patch.setattr(loop.TrainingLoop, "advance", interrupted)
            assert train(*flags, *more, *out) == 130
        printed = capsys.readouterr()
        assert len(printed.out.split("\n\n")[0].splitlines()) == 3  # two runs
        assert printed.err == "interrupted: the last run was measured where it was\n"
        assert (tmp_path / "best.npz").exists()
        assert train(*flags, *more) == 1
        again = capsys.readouterr()
        assert again.out == expected
        assert again.err == "every run failed: none has learned what can be learned\n"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["best.npz", "state-1.npz", "state-2.npz", "state.npz"]


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--hidden", "2"], 2, "unrecognized arguments: --hidden 2"),
        (["--attention", "linear,softmax"], 2, "attention must be one kind or one for"),
        (["--repeats", "0"], 2, "repeats must be an integer >= 1, got 0"),
        (["--backend", "cupy"], 1, "backend 'cupy' "),
        (["--learning-rate", "1e300", *SHORT], 1, "every training diverged"),
        (["--checkpoint", "a.npz", "-o", "a.npz"], 2, "must be two files"),
        (["--units", "lu2026"], 2, "lu2026"),
    ],
)
def test_what_cannot_be_trained_is_one_line(flags, status, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in refused_command(capsys, ["train", "network", *SIZE, *flags], status)


def test_models_that_cannot_be_probed_are_one_line(prompts, tmp_path, capsys):
    path = tmp_path / "network.npz"
    assert main(["train", "network", "--dim", "3", "--context", "4", *SHORT, "-o", str(path)]) == 1
    capsys.readouterr()
    for flags, message in (
        (["--model", str(path)], "model must have the dimension of the prompts, 2, got 3 in"),
        (["--model", "absent.npz"], "there is no file 'absent.npz'"),
        (["--model", str(prompts)], "path must be a file of save_model"),
        ([], "PREDICTIONS or --model must be given, and not both"),
        ([str(prompts), "--model", str(path)], "PREDICTIONS or --model must be given"),
    ):
        assert message in refused_command(capsys, ["probe", prompts, *flags])
