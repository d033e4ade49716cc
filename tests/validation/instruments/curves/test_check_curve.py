"""Training curves against theory: agreement, planted mistakes, and curves that cannot be used.

Curves come from simulated descent and flow, which share nothing with the theory.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import type_error, value_error

import iclimit
from benchmarks.curve_calibration import otherwise, random_setting
from iclimit.problem import Problem
from iclimit.published import settings
from iclimit.simulate.dynamics import simulate_gradient_descent, simulate_gradient_flow
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.validation.instruments.curves.rows import CurveRow
from iclimit.validation.instruments.curves.setting import least_merged_loss, mixture_losses
from iclimit.validation.instruments.curves.theory import find_fluctuations
from iclimit.validation.reference.curves import CURVES
from tests.shared.trained_curves import (
    CONTEXT,
    LAM,
    LAW,
    MERGED,
    PROBLEM,
    SEPARATE,
    merged_descents,
    separate_flow,
)


@pytest.fixture
def merged():
    return merged_descents(6)


@pytest.fixture
def separate():
    return separate_flow()


def rows_of(check):
    return {(row.quantity, row.learned): row for row in check.comparisons}


def table_of(run):
    return {"step": run.recorded_at, **{f"loss_{k}": row for k, row in enumerate(run.losses)}}


# Agreement


def test_noise_that_hides_all_labels_is_named():
    """The final weights are then smaller than those at the start."""
    table = {"step": range(6), "loss": [1.0, 0.9, 0.8, 0.7, 0.6, 0.6]}
    law = {"noise_variance": 1e9, "context": 10, "eigenvalues": [1.0] * 5}
    setting = {"heads": 2, "init_scale": 1e-3, "learning_rate": 0.01}
    value_error("init_scale must be so small", iclimit.check_curve, table, **law, **setting)


def test_descent_of_merged_attention_agrees(merged):
    check = iclimit.check_curve(merged, **MERGED, **LAW)
    assert check.holds, str(check)
    assert check.verdict.kind == "agrees"
    rows = rows_of(check)
    found = [("initial loss", 0), ("half-drop", 3), ("duration", 3), ("final loss", 3)]
    assert list(rows) == found
    # Without the steps of finite length all but the start is known: the durations are the same.
    assert rows["duration", 3].spread < 1e-3
    assert abs(rows["duration", 3].deviation) < rows["duration", 3].allowance
    # The law of the start: six runs have one sixth of the variance of one.
    first = {"step": merged.recorded_at, "loss": merged.losses[0]}
    single = iclimit.check_curve(first, **MERGED, **LAW)
    ratio = rows_of(single)["half-drop", 3].standard_error / rows["half-drop", 3].standard_error
    assert ratio == pytest.approx(math.sqrt(6))


def test_flow_of_separate_attention_agrees_with_and_without_its_weights(separate):
    table, weights = separate
    sharp = iclimit.check_curve(table, **SEPARATE, initial=weights)
    assert sharp.holds, str(sharp)
    found = rows_of(sharp)
    # The first head is by itself until it learns: its time is exact up to the size of the weights.
    assert abs(found["half-drop", 1].deviation) < 1e-3
    assert found["half-drop", 1].standard_error == 0
    for m in (1, 2):
        # A drop has its duration even if other heads hold small weights.
        assert abs(found["duration", m].deviation) < 0.02
        assert abs(found["plateau", m].deviation) < 1e-4
    law = iclimit.check_curve(table, **SEPARATE, draws=6)
    assert law.holds, str(law)
    assert rows_of(law)["half-drop", 1].standard_error > 0.1
    assert [row.estimate for row in law.comparisons[:-1]] == [
        row.estimate for row in sharp.comparisons
    ]


@pytest.mark.parametrize(
    ("index", "least"),
    [(0, 4), (1, 4), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((2, 8), (3, 12)))],
)
def test_published_curves_agree(index, least):
    steps, losses = CURVES[index].read().T
    setting = dict(settings[CURVES[index].setting])
    dim = setting.pop("dim")
    _ = setting.pop("steps")
    lam = np.arange(dim, 0, -1) / (dim * (dim + 1) / 2)
    more = setting | {"eigenvalues": lam, "context": 31, "standardize": True, "draws": 6}
    check = iclimit.check_curve({"step": steps, "loss": losses}, **more)
    assert check.holds, str(check)
    assert len(check.comparisons) >= least


# Planted mistakes

MISTAKES = {
    "the learning rate is twice what is stated": {"learning_rate": 0.025},
    "the learning rate is half of what is stated": {"learning_rate": 0.1},
    "the learning rate counts N times": {"learning_rate": 0.05 / CONTEXT},
    "the learning rate counts 1/N^2 times": {"learning_rate": 0.05 * CONTEXT**2},
    "there is momentum 0.9, which makes steps count ten times": {"learning_rate": 0.005},
    "the loss that is trained on and recorded has the factor 1": {"loss_factor": 0.5},
    "losses are recorded with twice the stated factor": {"loss_factor": 0.5, "learning_rate": 0.1},
    "there are 20 pairs besides the query": {"context": 19},
    "the eigenvalues have the sum 1": {"eigenvalues": tuple(3 * each for each in LAM)},
    "scores are divided by N (normalization mean)": {"normalization": "sum"},
    "init_scale is a variance": {"init_scale": 1e-8},
    # Values that are found: the true ones are within their intervals.
    "steps count 0.3": {"learning_rate": 0.05 / 0.3},
    "losses are recorded with 1.4 times": {"loss_factor": 1 / 1.4, "learning_rate": 0.07},
    "init_scale is": {"init_scale": 0.01},
    "there are 20 pairs": {"context": 30},
}


@pytest.mark.parametrize("fits", MISTAKES)
def test_a_mistake_is_named(merged, fits):
    stated = MERGED | LAW | MISTAKES[fits]
    two = {"step": merged.recorded_at, "loss_0": merged.losses[0], "loss_1": merged.losses[1]}
    check = iclimit.check_curve(two, **stated)
    assert check.verdict.kind == "contradicts"
    assert [fit[: len(fits)] for fit in check.fits] == [fits]
    assert f"fits if: {fits}" in str(check)


def test_white_inputs_are_named():
    white = Problem(dim=3, context=CONTEXT, input_covariance=(0.5,) * 3, scale=1)
    run = {"training_set": math.inf, "repeats": 2, "rng": 1}
    curves = simulate_gradient_descent(white, steps=1000, record=4, **run, **MERGED)
    check = iclimit.check_curve(curves, **MERGED, **LAW)
    assert check.fits == ("the inputs are white, of variance 0.5",)


def test_half_drops_that_are_all_late_contradict_together():
    """Each is within its law over starts."""
    stated = SEPARATE | {"heads": 6, "eigenvalues": (0.6, 0.4, 0.25), "draws": 10}
    times = np.arange(0, 30000, 10.0)
    theory = iclimit.check_curve({"time": times, "loss": 1.25 - times / 1e6}, **stated).theory
    late = replace(theory, half_drops=2 * theory.half_drops).loss(times)
    check = iclimit.check_curve({"time": times, "loss": late}, **stated)
    assert [row.quantity for row in check.verdict.outliers] == ["half-drops"]
    z = [row.z for row in check.comparisons if row.quantity == "half-drop"]
    assert len(z) == 3
    assert all(1.5 < each < 3 for each in z)


def test_what_would_have_been_noticed_is_noticed(merged):
    check = iclimit.check_curve(merged, **MERGED, **LAW)
    for sign in (1, -1):
        rate = MERGED["learning_rate"] * (1 + 1.1 * check.verdict.resolutions["time"]) ** sign
        wrong = iclimit.check_curve(merged, **MERGED | {"learning_rate": rate}, **LAW)
        assert wrong.verdict.kind == "contradicts"
        # One curve has errors that are larger by the root of six.
        losses = merged.losses[0] * (1 + 5 * check.verdict.resolutions["loss"]) ** sign
        table = {"step": merged.recorded_at, "loss": losses}
        assert iclimit.check_curve(table, **MERGED, **LAW).verdict.kind == "contradicts"
    assert "would have been noticed: a wrong factor of losses" in str(check)


def test_mistakes_of_noise_are_named():
    law = LAW | {"noise_variance": 0.25}
    times = np.arange(0, 120, 1.0)
    curve = iclimit.dynamics.merged_attention_curve(times, init_scale=1e-4, **law)
    more = {"heads": 4, "init_scale": 1e-4}
    assert iclimit.check_curve({"time": times, "loss": curve}, **more, **law).holds
    quiet = {"time": times, "loss": curve - 0.25}
    assert iclimit.check_curve(quiet, **more, **law, query_noise=False).holds
    check = iclimit.check_curve(quiet, **more, **law)
    assert check.fits == ("recorded losses are of labels with no noise",)
    check = iclimit.check_curve(
        {"time": times, "loss": curve}, **more, **law | {"noise_variance": 0.5}
    )
    assert check.fits == ("noise_variance is a standard deviation",)


def test_mistakes_about_the_model_are_named(merged, separate):
    table, _ = separate
    check = iclimit.check_curve(table, **SEPARATE | {"model": "merged"}, draws=6)
    assert check.fits == ("key and query are separate",)
    assert "within the single drop of model 'merged'" in check.verdict.unexpected[0]
    check = iclimit.check_curve(merged, model="separate", **MERGED, **LAW, draws=4)
    assert "key and query are merged" in check.fits


# Mixtures of tasks, and other training than full-batch descent

MIXED = {"fresh_fraction": 0.6, "shared_task": (1.0, -1.0, 0.5)}


@pytest.mark.parametrize("model", ["merged", "cubic"])
def test_mixtures_of_tasks(model):
    problem = replace(PROBLEM, **MIXED)
    run = {"training_set": math.inf, "repeats": 2, "rng": 1}
    stated = MERGED | {"model": model, "init_scale": 1e-3}
    curves = simulate_gradient_descent(problem, steps=12000, record=10, **run, **stated)
    check = iclimit.check_curve(curves, **stated, **LAW, **MIXED)
    assert check.holds, str(check)
    assert [row.quantity for row in check.comparisons] == ["initial loss", "growth", "final loss"]
    if model == "cubic":
        fast = iclimit.check_curve(curves, **stated | {"learning_rate": 0.1}, **LAW, **MIXED)
        assert fast.fits == ("the learning rate is half of what is stated",)
    else:
        wrong = iclimit.check_curve(curves, **stated, **LAW)
        assert wrong.verdict.kind == "contradicts"
        assert not wrong.fits


def test_the_least_loss_of_the_narrow_model_is_that_of_the_best_predictor():
    problem = replace(PROBLEM, **MIXED)
    moments = population_moments(problem)
    narrow = [
        place
        for place, (i, j, _) in enumerate(
            (i, j, k) for i in range(4) for j in range(i, 4) for k in range(3)
        )
        if (i < 3) == (j == 3) and i < 3
    ]
    second = moments.second[np.ix_(narrow, narrow)]
    cross = moments.cross[narrow]
    best = moments.label - cross @ np.linalg.solve(second, cross)
    assert mixture_losses(problem) == pytest.approx([moments.label, best])
    assert least_merged_loss(problem) < best


@pytest.mark.parametrize("rule", ["momentum", "adam"])
@pytest.mark.parametrize("seed", [8, 9])  # of merged and of separate attention
def test_losses_of_other_optimizers_agree(rule, seed):
    table, stated = otherwise(random_setting(np.random.default_rng(seed)), seed, rule)
    check = iclimit.check_curve(table, **stated)
    assert check.holds, str(check)
    assert not {"half-drop", "duration"} & {row.quantity for row in check.comparisons}
    assert "the theory is of gradient flow" in str(check)
    assert iclimit.check_curve(
        table | {"loss": 1.01 * np.array(table["loss"])}, **stated
    ).verdict.outliers


def test_curves_of_minibatches_are_smoothed():
    batches = {"training_set": 3000, "standardize": False, "repeats": 2}
    run = simulate_gradient_descent(
        PROBLEM, steps=1600, record=2, batch=64, rng=3, **batches, **MERGED
    )
    check = iclimit.check_curve(run, training_set=3000, **MERGED, **LAW)
    assert check.holds, str(check)
    assert iclimit.check_curve(
        run, training_set=3000, **MERGED | {"learning_rate": 0.2}, **LAW
    ).verdict.outliers


# Curves in which there is little to see


def test_a_curve_that_has_not_dropped_yet(merged):
    early = {"step": merged.recorded_at[:40], "loss": merged.losses[0, :40]}
    check = iclimit.check_curve(early, **MERGED, **LAW)
    assert check.verdict.kind == "unusable"
    assert not check.holds
    assert "made by no curve before the end at 156" in str(check)
    # If theory expects the drop long before the end, its absence contradicts.
    check = iclimit.check_curve(early, **MERGED | {"learning_rate": 0.5}, **LAW)
    row = rows_of(check)["half-drop", 3]
    assert row.upper_bound
    assert row.estimate == 156
    assert check.verdict.kind == "contradicts"
    assert ">= 156" in str(check)
    # A drop that comes after the end has nothing against it.
    check = iclimit.check_curve(early, **MERGED | {"learning_rate": 0.01}, **LAW)
    assert check.verdict.kind == "unusable"


def test_coarse_records_are_named(separate):
    table, weights = separate
    coarse = {name: column[::60] for name, column in table.items()}
    check = iclimit.check_curve(coarse, **SEPARATE, initial=weights)
    assert check.holds, str(check)
    assert "its duration is not known of all curves, as there are too few records" in str(check)


def test_plateaus_that_merge_are_named():
    lam = (0.51, 0.49)
    problem = Problem(dim=2, context=CONTEXT, input_covariance=lam, scale=1)
    model = {"model": "separate", "heads": 2, "rank": 2, "init_scale": 0.01}
    flow = simulate_gradient_flow(problem, **model, duration=1000.0, rtol=1e-6, rng=2)
    times = np.arange(0, 1000, 0.5)
    table = {"time": times, "loss": flow.at(times)}
    check = iclimit.check_curve(table, **model, eigenvalues=lam, context=CONTEXT, draws=4)
    assert "plateau with 1 learned: none found, as the drops beside it merge" in check.remarks


def test_a_diverged_run_is_left_out_and_named(merged):
    table = table_of(merged)
    table["loss_1"] = np.where(np.arange(len(merged.recorded_at)) < 50, table["loss_1"], np.nan)
    table["loss_2"] = table["loss_2"] * np.linspace(1, 1e5, len(merged.recorded_at))
    check = iclimit.check_curve(table, **MERGED, **LAW)
    assert check.holds
    assert [each.label for each in check.curves] == ["loss_0", "loss_3", "loss_4", "loss_5"]
    assert "loss_1 diverged: its loss is nan at 200" in check.remarks
    assert "loss_2 diverged" in str(check)
    message = "no curve can be used: the curve diverged: its loss is nan"
    with pytest.raises(ValueError, match=message):
        iclimit.check_curve({"step": table["step"], "loss": table["loss_1"]}, **MERGED, **LAW)


SHAPES = {
    "constant": np.ones(200),
    "rising": np.linspace(1, 3, 200),
    "falling": np.linspace(1, 0.1, 200),
    "noise": np.random.default_rng(0).uniform(0.1, 1, 200),
    "to zero": np.maximum(1 - np.arange(200) / 60, 0),
    "zero": np.zeros(200),
    "tiny": np.full(200, 1e-200),
    "one jump": np.where(np.arange(200) < 100, 1.0, 0.2),
    "below from the second record": np.append(1.0, np.full(199, 0.2)),
}


@pytest.mark.parametrize("model", ["merged", "separate"])
@pytest.mark.parametrize("shape", SHAPES)
def test_curves_of_any_shape_have_a_verdict(model, shape):
    table = {"step": 5 * np.arange(200), "loss": SHAPES[shape]}
    check = iclimit.check_curve(table, **MERGED | LAW | {"model": model, "draws": 5})
    assert check.verdict.kind in ("contradicts", "unusable")
    assert not any(math.isnan(row.z) for row in check.comparisons)
    assert json.dumps(check.to_dict())
    assert str(check)


def test_noisy_records_are_smoothed(merged):
    noise = np.random.default_rng(0).normal(1, 0.05, merged.losses[:, ::1].shape)
    table = {"step": merged.recorded_at} | {
        f"loss_{k}": row for k, row in enumerate(merged.losses * noise)
    }
    check = iclimit.check_curve(table, **MERGED, **LAW)
    assert check.holds, str(check)
    assert 1e-3 < rows_of(check)["initial loss", 0].standard_error < 2e-2


def test_rounded_losses_are_no_contradiction(merged):
    table = {"step": merged.recorded_at, "loss": merged.losses[0].round(3)}
    check = iclimit.check_curve(table, **MERGED, **LAW)
    assert check.holds, str(check)
    assert rows_of(check)["final loss", 3].allowance > 5e-4


# Errors of the theory


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize("runs", [1, 4])
def test_z_of_a_skewed_law_is_normal(heads, runs):
    """Logarithms of chi-square variables, as times of merged attention have them."""
    from scipy.special import polygamma

    logs = np.log(np.random.default_rng(1).chisquare(heads, (4000, runs))) / 2
    variance = polygamma(1, heads / 2) / 4
    third = polygamma(2, heads / 2) / 8
    mean = (polygamma(0, heads / 2) + math.log(2)) / 2
    error = math.sqrt(variance / runs)
    skewness = float(third / runs**2 / error**3)
    z = [
        CurveRow("", math.exp(mean), math.exp(log), error, skewness=skewness).z
        for log in logs.mean(axis=1)
    ]
    assert abs(np.mean(z)) < 0.07  # 4 standard errors
    assert abs(np.std(z) - 1) < 0.05
    # Normal shares are 0.27 % and 2.3 %, with standard errors of 0.08 % and 0.24 %.
    assert np.mean(np.abs(z) > 3) < 0.006
    assert 0.013 < np.mean(np.array(z) > 2) < 0.033


def test_fluctuations_of_a_training_set_against_moments():
    """Labels are normal given the query: their fourth moment is 3 E|x|^4."""
    lam = np.array(LAM)
    more = {"model": "cubic", "training_set": 2000}
    setting = iclimit.check_curve(CURVE, **more, **MERGED, **LAW).theory.setting
    found = find_fluctuations(setting)
    variance = 3 * (lam.sum() ** 2 + 2 * np.sum(lam**2)) - lam.sum() ** 2
    # A standard deviation from 80 sets has a standard error of 8 %.
    assert found.losses[0] == pytest.approx(math.sqrt(variance / 2000), rel=0.25)
    run = simulate_gradient_descent(
        PROBLEM,
        model="cubic",
        heads=4,
        init_scale=0.1,
        learning_rate=0.5,
        steps=300,
        record=300,
        training_set=300,
        standardize=False,
        repeats=40,
        rng=3,
    )
    level = setting.levels[-1]
    gap = 1 - float(run.losses[:, -1].mean()) / level
    assert gap == pytest.approx(found.bias * 2000 / 300, abs=4 * 0.14 / math.sqrt(40))
    expected = found.losses[-1] * math.sqrt(2000 / 300)
    assert np.std(run.losses[:, -1]) / level == pytest.approx(expected, rel=0.45)


def test_finite_training_sets_agree_within_their_fluctuations():
    more = {"model": "cubic", "training_set": 500, "standardize": False}
    recorded = {"steps": 800, "record": 4, "repeats": 4, "rng": 2}
    run = simulate_gradient_descent(PROBLEM, **recorded, **more, **MERGED)
    check = iclimit.check_curve(run, **more, **MERGED, **LAW)
    assert check.holds, str(check)
    assert "500 training sequences: losses vary" in str(check)
    # Without them the curves are not those of the law of the data.
    assert iclimit.check_curve(run, model="cubic", **MERGED, **LAW).verdict.kind == "contradicts"


# Tables


def test_tables_of_all_forms_give_the_same(merged, tmp_path):
    expected = [row.estimate for row in iclimit.check_curve(merged, **MERGED, **LAW).comparisons]
    wide = table_of(merged)
    rows = [
        {"iter": int(step), "mse": float(loss), "seed": k}
        for k, losses in enumerate(merged.losses)
        for step, loss in zip(merged.recorded_at, losses, strict=True)
    ]
    names = {"step": "iter", "loss": "mse", "run": "seed"}
    file = tmp_path / "curves.json"
    file.write_text(json.dumps(rows))
    bare = {name: column for name, column in wide.items() if name != "step"}
    checks = [
        iclimit.check_curve(wide, **MERGED, **LAW),
        iclimit.check_curve(rows[::-1], columns=names, **MERGED, **LAW),
        iclimit.check_curve(file, columns=names, **MERGED, **LAW),
        iclimit.check_curve(bare, record=4, **MERGED, **LAW),
        iclimit.check_curve(wide | {"host": ["a"] * 401}, ignore="host", **MERGED, **LAW),
    ]
    for check in checks:
        assert [row.estimate for row in check.comparisons] == pytest.approx(expected)


CURVE = {"step": list(range(10)), "loss": [1.0] * 9 + [0.9]}


def test_what_cannot_be_used_is_named():
    for table, more, message in (
        ({"step": [1], "train_loss": [1]}, {}, "unknown column 'train_loss'; did you mean loss"),
        ({"iter": [1, 2], "loss": [1, 1]}, {}, "unknown column 'iter'; did you mean step"),
        ({"loss": [1.0] * 10}, {}, "the table must have a column step or time"),
        ({"step": [1, 2]}, {}, "the table must have a column loss"),
        (CURVE | {"time": range(10)}, {}, "the table has both step and time"),
        (CURVE, {"record": 10}, "record must not be given, as the table has a column step"),
        (CURVE | {"loss": ["x"] * 10}, {}, "row 1: loss must be a number, got 'x'"),
        (CURVE | {"loss": np.ones(10) + 1j}, {}, r"row 1: loss must be a number, got \(1\+1j\)"),
        (CURVE | {"loss": [None] * 10}, {}, "the curve has 0 records, fewer than 5"),
        (CURVE | {"step": [0] * 10}, {}, "the curve has 0 twice as step or time: a column run"),
        (CURVE | {"step": range(-1, 9)}, {}, r"row 1: step must be >= 0 and < 1e\+100, got -1"),
        (CURVE | {"loss": [-1.0] * 10}, {}, "the curve is no mean squared error: its loss is -1"),
        ({"step": [0, 1], "loss": [1, 1]}, {}, "the curve has 2 records, fewer than 5"),
        (CURVE, {"model": "seperate"}, "model must be one of .*'seperate'; did you mean separate"),
        (CURVE, {"normalization": "none"}, "normalization must be one of mean, sum, got 'none'"),
        (CURVE, {"learning_rate": None}, "learning_rate must be given for a table with steps"),
        (CURVE, {"eigenvalues": [1.0, 0.0]}, "eigenvalues must be > 0 and finite, got 0.0"),
        (CURVE, {"eigenvalues": []}, "eigenvalues must be a list of numbers > 0"),
        (
            CURVE,
            {"eigenvalues": [1e150]},
            "eigenvalues must be from 1e-20 to 1e\\+20, got 1e\\+150",
        ),
        (CURVE, {"learning_rate": 1e200}, "learning_rate must be from 1e-20 to 1e\\+20"),
        (CURVE, {"heads": 0}, "heads must be an integer >= 1"),
        (CURVE, {"rank": 2}, "rank must be 1 for model 'merged'"),
        (CURVE, {"loss_factor": 0}, "loss_factor must be > 0"),
        (CURVE, {"training_set": 0.5}, "training_set must be"),
        (CURVE, {"init_scale": 3.0}, "init_scale must be so small that the weights grow before"),
        (CURVE, {"init_scale": 3.0, "model": "separate", "draws": 2}, "the loss drops, got 3"),
        (CURVE, {"draws": 1}, "draws must be an integer >= 2, got 1"),
        (CURVE, {"initial": {"value": [1]}}, "initial must hold value, key_query for model 'mer"),
        (
            CURVE,
            {"initial": {"value": np.ones(3), "key_query": np.ones((4, 3, 3))}},
            r"initial\['value'\] must have shape \(1, 4\) or \(4,\), got \(3,\)",
        ),
        ("no.csv", {}, "there is no file 'no.csv'"),
    ):
        value_error(message, iclimit.check_curve, table, **MERGED | LAW | more)


@pytest.mark.parametrize("changes", [{"step": 1e90}, {"step": 1e90, "model": "separate"}])
def test_times_of_any_order_are_judged(changes):
    steps = np.arange(200.0)
    curve = {
        "step": steps * changes.pop("step", 1.0),
        "loss": 0.2 + 1 / (1 + np.exp(steps / 5 - 12)),
    }
    assert not iclimit.check_curve(curve, **MERGED | LAW | changes).holds


def test_times_take_no_learning_rate():
    with pytest.raises(ValueError, match="learning_rate must not be given with times, got 0"):
        iclimit.check_curve({"time": range(10), "loss": [1.0] * 10}, **MERGED, **LAW)
    type_error("rng must be an integer", iclimit.check_curve, CURVE, **MERGED, **LAW, rng=None)


# What is shown


def test_check_as_text_json_and_figure(merged):
    check = iclimit.check_curve(merged, **MERGED, **LAW)
    text = str(check)
    assert text.startswith("Agrees with the theory (6 curves)\n")
    for words in ("initial loss", "step of half the drop", "steps of the drop", "final loss", "z"):
        assert words in text
    found = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert found["verdict"]["kind"] == "agrees"
    value = [row.quantity for row in check.comparisons]
    assert [row["quantity"] for row in found["rows"]] == value
    assert found["rows"][1]["z"] == check.comparisons[1].z
    ax = check.plot()
    lines = {line.get_label(): np.array(line.get_data()) for line in ax.lines}
    np.testing.assert_array_equal(lines["found"], [merged.recorded_at, merged.losses[0]])
    half = rows_of(check)["half-drop", 3].theory
    middle = float(np.mean(check.theory.levels))
    steps, losses = lines["theory"]
    assert np.interp(-middle, -losses, steps) == pytest.approx(half, 1e-2)
    first = {"step": merged.recorded_at, "loss": merged.losses[0]}
    single = iclimit.check_curve(first, **MERGED, **LAW)
    assert json.loads(json.dumps(single.to_dict(), allow_nan=False))["rows"][0]["spread"] is None


def test_deviations_without_a_random_part_have_no_z():
    """On new sequences the duration of a drop is exact: its deviation is within or beyond."""
    steps = np.arange(200)
    table = {"step": steps, "loss": np.exp(-steps / 50)}
    text = str(iclimit.check_curve(table, **LAW, **MERGED))
    assert "beyond" in text
    assert " with an allowance of " in text
    assert "inf" not in text
