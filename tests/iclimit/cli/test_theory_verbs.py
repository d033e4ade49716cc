"""The verbs ``learning-rate``, ``schedule`` and ``gdpp``: what their numbers are."""

import csv
import io
import itertools
import json
import math
import shlex

import numpy as np
import pytest
from reference_pictures import assert_looks_as_before
from refusals import refused_command

from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.asymptotics.gdpp import condition_number_schedule
from iclimit.cli import main


def rows(capsys, command):
    """Rows of a command; entries are numbers, None where there is none."""
    assert main([*shlex.split(command), "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    table = csv.DictReader(io.StringIO(captured.out))
    return [{name: float(x) if x else None for name, x in row.items()} for row in table]


@pytest.mark.parametrize("law", ["gaussian", "laplace", "0.08333333333333333,0.0125"])
@pytest.mark.parametrize("normalization", ["mean", "sum"])
def test_learning_rate_takes_laws_lists_and_ranges(law, normalization, capsys):
    flags = "--context 5,20 --dim 2:4:3 --noise-variance 0.1:10:2:log --task-variance 0.5,2"
    settings = list(itertools.product((5, 20), (2, 3, 4), (0.1, 10), (0.5, 2)))
    names = ("context", "dim", "noise_variance", "task_variance")
    moments = tuple(map(float, law.split(","))) if "," in law else law
    command = f"learning-rate {flags} --input-law {law} --normalization {normalization}"
    for row, values in zip(rows(capsys, command), settings, strict=True):
        assert [row[name] for name in names] == pytest.approx(values)
        best = optimal_learning_rate(
            **dict(zip(names, values, strict=True)), input_law=moments, normalization=normalization
        )
        assert (row["rate"], row["loss"]) == pytest.approx((best.rate, best.loss), rel=1e-12)


def test_derivations_are_printed_in_latex(capsys):
    for command, formula in (
        (
            "learning-rate --input-law uniform --normalization sum",
            r"\eta = \frac{15 a^{2}}{5 N a^{2} + 5 a^{2} d - a^{2} + 15 \sigma^{2}}",
        ),
        ("learning-rate --input-law 1,3", "m_{4}"),  # symbols, whatever the numbers
        ("schedule --steps 2 --ratio 0.5", r"\mathcal{L}^* = \frac{c^{2}}{c^{2} + c + 1}"),
        ("schedule --steps 2 --context 20 --dim 10", r"\mathcal{L}^* = \frac{15827}{93957}"),
    ):
        assert main([*command.split(), "--latex"]) == 0
        out = capsys.readouterr().out
        assert formula in out
        assert out.count(r"\[ ") == out.count(r" \]") > 0
        assert out.count("{") == out.count("}")


def test_schedule_at_finite_size_and_methods(capsys):
    size = "--context 20 --dim 10"
    losses = []
    for method in ("optimal", "constant", "chebyshev"):
        table = rows(capsys, f"schedule --steps 2 {size} --method {method}")
        rates = [row["rates"] for row in table]
        assert table[0]["lower_bound"] == pytest.approx(15827 / 93957, rel=1e-12)
        assert (len(set(rates)) == 1) == (method == "constant")
        given = ",".join(map(repr, rates))
        again = rows(capsys, f"schedule --rates {given} {size}")
        assert [row["rates"] for row in again] == rates
        assert again[0]["loss"] == pytest.approx(table[0]["loss"], rel=1e-8)
        losses.append(table[0]["loss"])
    assert losses[0] < losses[1] < losses[2]


def test_schedule_with_noise_and_given_rates(capsys):
    """One step: 1 - 2 eta + eta^2 (1 + c + v), at finite size c = (d + 1)/N."""
    for size, c in (("--ratio 0.5", 0.5), ("--context 20 --dim 10", 0.55)):
        (row,) = rows(capsys, f"schedule --rates 0.4 {size} --noise-ratio 0.05")
        assert row["loss"] == pytest.approx(1 - 0.8 + 0.16 * (1.05 + c), rel=1e-12)
        (row,) = rows(capsys, f"schedule --steps 1 {size} --noise-ratio 0.05")
        assert row["rates"] == pytest.approx(1 / (1.05 + c), rel=1e-12)
        assert row["loss"] == pytest.approx(1 - 1 / (1.05 + c), rel=1e-12)
    huge = "schedule --rates 1e200,1e200 --ratio 0.5 --format json"
    assert main(huge.split()) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["loss"] == "inf"


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
def test_layers_of_gdpp(flags, setting, method, capsys):
    expected = condition_number_schedule(**setting, method=method)
    table = rows(capsys, f"gdpp {flags} --method {method}")
    names = ("condition_number", "excess", "residual", "final_rate")
    assert list(table[0]) == ["step", "gamma", *names]
    assert [row["step"] for row in table] == list(range(len(expected.excess)))
    assert [row["gamma"] for row in table] == [None, *expected.gammas]
    for name in names:
        assert [row[name] for row in table] == getattr(expected, name).tolist()


def test_what_a_float_near_one_cannot_hold_is_printed(capsys):
    assert main(["gdpp", "--condition-number", "10", "--tol", "1e-30"]) == 0
    *_, line, blank, sentence = capsys.readouterr().out.splitlines()
    assert not blank
    assert "condition number 10 to 1, which exceeds 1 by" in sentence
    last = line.split()
    assert last[2] == "1"
    assert 0 < float(last[3]) < 1e-30


def test_losses_of_a_schedule_say_what_they_are_relative_to(capsys):
    """After a step of rate 1 it is the mean of (1 - x)^2 over the law of Marchenko and Pastur."""
    assert main(["schedule", "--rates", "1", "--ratio", "0.25"]) == 0
    sentence = capsys.readouterr().out.splitlines()[-1]
    assert sentence.startswith("1 step: 25 % of the loss of predicting 0; no method")


@pytest.mark.parametrize(
    ("command", "name", "labels"),
    [
        (
            "gdpp --condition-number 1e4 --tol 1e-10",
            "gdpp-excess",
            ("optimal", "monotone (published)", "layers of GD++", "excess", "tolerance"),
        ),
        ("gdpp --condition-number 1 --steps 2", "gdpp-no-excess", ("optimal",)),
    ],
)
def test_pictures(command, name, labels, tmp_path):
    path = tmp_path / "picture.png"
    assert main([*command.split(), "-o", str(path)]) == 0
    assert_looks_as_before(path, name, tmp_path)
    assert main([*command.split(), "-o", str(path.with_suffix(".svg"))]) == 0
    picture = path.with_suffix(".svg").read_text()
    for label in labels:
        assert label in picture
    assert ("tolerance" in picture) == ("--tol" in command)


BAD = {
    "learning-rate": "--context is needed (or --latex)",
    "learning-rate --context 5.5 --dim 3": "--context must be integers, got [5.5]",
    "learning-rate --input-law 1,2,3": "--input-law: must be a law or two moments m2,m4, got",
    "learning-rate --context 5 --latex": "--context must not be given with --latex",
    "schedule": "give either --steps or --rates",
    "schedule --steps 2 --rates 1,2 --ratio 0.5": "give either --steps or --rates",
    "schedule --steps 2": "give either --ratio or --context and --dim\n",
    "schedule --steps 2 --ratio 1 --context 2 --dim 1 --latex": "give either --ratio or --context",
    "schedule --rates 1 --ratio 0.5 --method constant": "--method is for --steps, not for given",
    "schedule --steps 2 --noise-ratio 0.1 --latex": "--latex is for the optimal schedule without",
    "gdpp": "give either --condition-number or --excess\n",
    "gdpp --condition-number 2": "give either --steps or --tol\n",
    "gdpp --condition-number 0.5": "condition_number must be >= 1 and finite, got 0.5",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_status_2(command, capsys):
    """Arguments that contradict each other, or are of no use together."""
    assert BAD[command] in refused_command(capsys, command.split())


def test_a_file_never_takes_the_answer_from_the_terminal(tmp_path, capsys):
    for verb in ("gdpp --condition-number 100 --steps 2", "schedule --steps 2 --ratio 0.5"):
        assert main(verb.split()) == 0
        printed = capsys.readouterr().out
        assert main([*verb.split(), "-o", str(tmp_path / f"{verb.split()[0]}.csv")]) == 0
        assert capsys.readouterr().out == printed


def test_null_is_the_mean_square_of_the_labels(capsys):
    """Labels of random prompts, with the standard error of their mean square."""
    verb = "learning-rate --context 5 --dim 4 --input-law uniform --noise-variance 0.2"
    (row,) = rows(capsys, f"{verb} --task-variance 2")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (10**5, 4))
    w = rng.normal(0, math.sqrt(2), (10**5, 4))
    squares = (np.sum(x * w, axis=1) + rng.normal(0, math.sqrt(0.2), 10**5)) ** 2
    assert abs(np.mean(squares) - row["null"]) < 4 * np.std(squares) / math.sqrt(10**5)
