"""The verbs ``learning-rate``, ``schedule``, ``gdpp`` and ``dynamics``: what their numbers are."""

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
from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_curve,
    merged_curve_drop_time,
    plateau_losses,
    separate_attention_staircase,
)
from iclimit.asymptotics.gdpp import condition_number_schedule
from iclimit.cli import main
from iclimit.simulate.dynamics.attention_models import AttentionModel, initial_weights

LAM = np.array([0.4, 0.3, 0.2, 0.1])


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
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last[2] == "1"
    assert 0 < float(last[3]) < 1e-30


@pytest.mark.parametrize(
    ("command", "name", "labels"),
    [
        (
            "gdpp --condition-number 1e4 --tol 1e-10",
            "gdpp-excess",
            ("optimal", "monotone (published)", "layers of GD++", "excess", "tolerance"),
        ),
        ("gdpp --condition-number 1 --steps 2", "gdpp-no-excess", ("optimal",)),
        *(
            (
                f"dynamics {model} --dim 2 --heads 2 --init-scale 1e-2 --curve 40",
                f"dynamics-{model}",
                ("time", "loss"),
            )
            for model in ("merged", "separate")
        ),
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


def staircase(lam, seed, init, heads):
    model = AttentionModel("separate", len(lam), heads)
    value, key, query = initial_weights(model, init, rng=seed)
    return separate_attention_staircase(
        value[:, -1], key=key[..., :-1], query=query, eigenvalues=lam, context=31
    )


def test_merged_over_seeds(capsys):
    (row,) = rows(capsys, "dynamics merged --heads 5 --init-scale 1e-5")
    law = effective_init_scale_moments(5)
    losses = plateau_losses(LAM, context=31)
    scale = 1e-5 * np.exp(law.mean)
    assert row == pytest.approx(
        {
            "effective_scale": scale,
            "initial_loss": losses[0],
            "half_drop_time": merged_curve_drop_time(
                eigenvalues=LAM, context=31, init_scale=scale
            ),
            "std_over_seeds": law.std / np.sqrt(0.4**4 + 0.3**4 + 17e-4),
            "final_loss": losses[-1],
        }
    )


def test_merged_of_a_seed(capsys):
    law = "--eigenvalues 0.5,2 --context 7 --noise-variance 0.25"
    command = f"dynamics merged {law} --init-scale 1e-4 --heads 3 --seed 2"
    (row,) = rows(capsys, command)
    assert "std_over_seeds" not in row
    lam = np.array([0.5, 2.0])
    value, lookup = initial_weights(AttentionModel("merged", 2, 3), 1e-4, rng=2)
    scale = effective_init_scale(value[:, -1], key_query=lookup[:, :-1], eigenvalues=lam)
    assert row["effective_scale"] == pytest.approx(scale)
    assert row["initial_loss"] == pytest.approx(2.75)
    points = rows(capsys, f"{command} --curve 5")
    times = [point["time"] for point in points]
    assert times == pytest.approx(np.linspace(0, 4, 5) * row["half_drop_time"])
    more = {"context": 7, "init_scale": scale, "noise_variance": 0.25}
    expected = merged_attention_curve(np.array(times), eigenvalues=lam, **more)
    assert [point["loss"] for point in points] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("flags", "lam"),
    [
        ("", LAM),
        ("--dim 2", np.array([2, 1]) / 3),
        ("--white 3", np.full(3, 1 / 3)),
        ("--eigenvalues 0.2:0.6:3", np.array([0.2, 0.4, 0.6])),
    ],
)
def test_separate(flags, lam, capsys):
    command = f"dynamics separate {flags} --heads 4 --init-scale 1e-2 --seed 3"
    table = rows(capsys, command)
    steps = staircase(lam, 3, 1e-2, 4)
    assert [row["learned"] for row in table] == list(range(len(lam) + 1))
    assert [row["loss"] for row in table] == pytest.approx(plateau_losses(lam, context=31))
    assert list(table[0].values())[2:] == [None] * 3
    for name, values in (
        ("eigenvalue", np.sort(lam)[::-1]),
        ("head", steps.heads),
        ("half_drop_time", steps.drop_times),
    ):
        assert [row[name] for row in table[1:]] == pytest.approx(values)
    points = rows(capsys, f"{command} --curve 9")
    times = np.array([point["time"] for point in points])
    assert times == pytest.approx(np.linspace(0, 1.3, 9) * steps.times[-1])
    assert [point["loss"] for point in points] == pytest.approx(steps.loss(times))


def test_heads_that_are_missing_or_learn_much(capsys):
    """Seed 0 is the default; a head of rank above one is not done when it escapes."""
    command = "dynamics separate --heads 2 --init-scale 1e-2"
    table = rows(capsys, command)
    assert table == rows(capsys, f"{command} --seed 0") != rows(capsys, f"{command} --seed 1")
    assert [row["half_drop_time"] for row in table[3:]] == [math.inf, math.inf]
    assert [row["head"] for row in table[3:]] == [None, None]
    assert sorted(row["head"] for row in table[1:3]) == [0, 1]
    points = rows(capsys, f"{command} --curve 20")
    assert points[-1]["loss"] == pytest.approx(plateau_losses(LAM, context=31)[2])
    command = "dynamics separate --eigenvalues 1,0.3,0.01 --heads 1 --rank 3"
    table = rows(capsys, command)
    points = rows(capsys, f"{command} --curve 50")
    assert points[-1]["time"] == pytest.approx(1.3 * table[-1]["half_drop_time"])
    # In the time that is left after half of the drop it comes within a fifth of its end.
    assert points[-1]["loss"] - table[-1]["loss"] < 0.2 * (table[-2]["loss"] - table[-1]["loss"])


def test_merged_does_not_need_all_directions(capsys):
    (row,) = rows(capsys, "dynamics merged --eigenvalues 0,1")
    (without,) = rows(capsys, "dynamics merged --eigenvalues 1")
    assert row == pytest.approx(without)


@pytest.mark.parametrize("model", ["merged", "separate"])
def test_extremes_are_numbers(model, capsys):
    for flags in (
        "--init-scale 1e-50",
        "--eigenvalues 1e50,1 --init-scale 1e-48",
        "--eigenvalues 1e-50,1",
        "--eigenvalues 1e-50",
        "--dim 1 --heads 1",
        "--context 1000000000",
    ):
        row = rows(capsys, f"dynamics {model} {flags}")[-1]
        assert 0 < row["half_drop_time"] < np.inf


def test_without_division_by_the_context(capsys):
    """The factors in the help, against gradient descent on unnormalised scores."""
    N = 31
    init = 1e-4
    rate = {"merged": 5e-4, "separate": 2e-2}
    law = "--white 1 --heads 2 --seed 4"
    train = f"train descent {law} --training-set inf --normalization sum --record 1"
    for model, power, scale in (("merged", 1, init), ("separate", 2 / 3, 20 * init)):
        flags = f"--model {model} --init-scale {scale} --learning-rate {rate[model]}"
        (run,) = rows(capsys, f"{train} {flags}")
        *_, row = rows(capsys, f"dynamics {model} {law} --init-scale {scale * N ** (power / 2)}")
        time = 2 * rate[model] * N**power * run["half_drop_step"]
        # Merged is exact up to steps, separate to first order in the weights.
        assert time == pytest.approx(row["half_drop_time"], rel=0.02)


SMALL = "init_scale must be so small that "
BAD = {
    "learning-rate": "--context is needed (or --latex)",
    "learning-rate --context 5.5 --dim 3": "--context must be integers, got [5.5]",
    "learning-rate --input-law 1,2,3": "--input-law: must be a law or two moments m2,m4, got",
    "learning-rate --context 5 --latex": "--context must not be given with --latex",
    "schedule": "give either --steps or --rates",
    "schedule --steps 2 --rates 1,2 --ratio 0.5": "give either --steps or --rates",
    "schedule --steps 2": "give either ratio or context and dim",
    "schedule --steps 2 --ratio 1 --context 2 --dim 1 --latex": "give either --ratio or --context",
    "schedule --rates 1 --ratio 0.5 --method constant": "--method is for --steps, not for given",
    "schedule --steps 2 --noise-ratio 0.1 --latex": "--latex is for the optimal schedule without",
    "gdpp": "give either steps or tol, got steps=None, tol=None",
    "dynamics": "the following arguments are required: model",
    "dynamics merged --rank 2": "rank must be 1 for model 'merged', got 2",
    "dynamics separate --init-scale 1": f"{SMALL}heads wait for longer than they learn, got 1.0",
    "dynamics merged --init-scale 1": f"{SMALL}the loss at the start is near 1, got 1.0",
    "dynamics merged --init-scale nan": "--init-scale: must be a number from 1e-50 to 1e50",
    "dynamics merged --eigenvalues=-1,1": "eigenvalues: must be 0 or from 1e-50 to 1e+50, got -1",
    "dynamics merged --eigenvalues 0,0": "eigenvalues: must not all be 0",
    "dynamics merged --eigenvalues 1 --dim 2": "not allowed with argument",
    "dynamics merged --curve 1": "--curve must be an integer >= 2, got 1",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_line_and_status_2(command, capsys):
    """Arguments that contradict each other, or are of no use together."""
    assert BAD[command] in refused_command(capsys, command.split())
