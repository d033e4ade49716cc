"""Plans of runs: what they promise at one size, by other routes, and how they refuse."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import value_error
from scipy.optimize import minimize

import iclimit
from iclimit.cli import main
from iclimit.experiment import Experiment
from iclimit.validation import check_runs
from iclimit.validation.instruments.plan.points import NotProposed, Planner
from iclimit.validation.instruments.plan.questions import bend, transition
from iclimit.validation.instruments.runs.fitting import forecast_precision
from iclimit.validation.instruments.runs.measured import SIZES, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory

SETTING = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.2, "ridge": 0.3}
THEORY = Theory(draws=6)


def count(dim, _context, _tasks, prompts):
    """Cost by the number of operations, which no machine changes."""
    return prompts * dim**2 / 1e6


def planned(question, **changes):
    return iclimit.plan_runs(question, **SETTING | {"dim": 12, "cost": count} | changes)


def test_precision_follows_simulated_scatter():
    """Runs to reach 3 %: those that the scatter of 400 simulated runs asks for.

    The standard deviation has an error of 3.5 %, and as much may be missing in the prediction.
    """
    best = planned("precision", effect=0.03, dim=16).best
    (point,) = best.design.points
    run = iclimit.simulate_errors(**point.run.arguments, rng=1, repeats=400)
    assert math.sqrt(point.variance) == pytest.approx(np.std(run.icl.samples), rel=0.1)
    assert abs(run.icl.mean - point.mean) < point.doubt + 3 * run.icl.standard_error
    room = 0.03 * point.mean - point.doubt
    error = math.sqrt(point.variance / best.repeats + point.floor)
    found = room / math.sqrt(point.variance / (best.repeats - 1) + point.floor)
    assert room / error >= 1.96 > found


def test_solving_for_one_thing_and_back():
    repeats = planned("precision", effect=0.03, power=0.9).best.repeats
    back = planned("precision", effect=0.03, repeats=repeats).best
    assert 0.9 <= back.power < 0.91
    effect = planned("precision", power=0.9, repeats=repeats).best.effect
    assert effect == pytest.approx(0.03, rel=0.02)
    other = {"against": {"kappa": 2.0}}
    best = planned("theories", **other, significance=3.0).best
    assert planned("theories", **other, repeats=best.repeats).best.significance == 5.0
    significance = planned("theories", **other, repeats=best.repeats, power=0.95).best.significance
    assert significance == pytest.approx(3.0, abs=0.1)
    cost = best.cost
    found = planned("theories", **other, significance=3.0, max_cost=cost).best.repeats
    assert found == best.repeats


def test_two_settings_take_twice_the_variance_of_two_theories():
    other = {"against": {"rho": 0.4}, "repeats": 10, "significance": 3.0}
    one = planned("theories", **other).best
    two = planned("difference", **other).best
    first, second = two.design.points
    assert one.contrast.change == pytest.approx(two.contrast.change, rel=1e-9)
    expected = first.variance + second.variance + first.floor + second.floor
    assert two.contrast.errors(1)[0] ** 2 == pytest.approx(expected)
    scatter = [error**2 - (first.floor + second.floor) for error in one.contrast.errors(1)]
    assert scatter == pytest.approx([first.variance, second.variance])
    assert two.cost == pytest.approx(2 * one.cost)


def test_gap_of_the_same_runs_is_paired():
    best = planned("difference", quantity="gap", repeats=3).best
    (point,) = best.design.points
    covariance = point.covariance
    expected = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert point.variance == pytest.approx(expected)
    assert point.variance < covariance[0, 0] + covariance[1, 1]
    assert best.contrast.change == pytest.approx(point.mean)


def test_tests_of_the_same_runs_are_paired():
    """The scatter of the difference over 200 runs, whose standard error is 5 %."""
    best = planned("difference", against={"test_alpha": 3.0}, repeats=4).best
    first, second = best.design.points
    runs = [
        iclimit.simulate_errors(**point.run.arguments, rng=3, repeats=200).icl.samples
        for point in (first, second)
    ]
    predicted = math.sqrt(
        4 * (best.contrast.errors(4)[0] ** 2 - best.contrast.errors(1e9)[0] ** 2)
    )
    assert predicted == pytest.approx(np.std(runs[0] - runs[1]), rel=0.2)
    assert predicted < 0.5 * math.sqrt(first.variance + second.variance)
    assert best.cost == pytest.approx(4 * first.cost)
    assert best.row()["runs"] == 4


@pytest.fixture(scope="module")
def sweep():
    """Transition over numbers of tasks that are powers of two."""
    planner = Planner("icl", count, THEORY)
    runs = iclimit.Point(**SETTING | {"kappa": (0.5, 1.0, 2.0, 4.0)}).at(12)
    points = [planner.at(run) for run in runs]
    return transition(points, "kappa")


def test_a_plan_of_a_transition_is_one_sentence():
    plan = planned("transition", kappa=(0.5, 1.0, 2.0, 4.0), effect=0.4, dim=12)
    [row] = plan.rows()
    words = f"With {row['repeats']} runs per setting at d = 12, a 40 % shift along kappa is found "
    assert plan.sentence == f"{words}at 5σ with {100 * row['power']:.1f} % power."


def test_shifted_curve_meets_its_own_points(sweep):
    """A curve at powers of two that is shifted by a factor two has the next points."""
    means = [point.mean for point in sweep.points]
    np.testing.assert_allclose(sweep.others(1.0)[:3], means[1:], rtol=1e-12)


def test_no_weights_are_better_than_those_of_a_transition(sweep):
    contrast = sweep.contrast(0.2)
    changes = np.array(sweep.others(0.2)) - [point.mean for point in sweep.points]
    variances = np.array([point.variance + point.floor for point in sweep.points])
    best = contrast.change / contrast.errors(1)[0]
    assert best == pytest.approx(math.sqrt(np.sum(changes**2 / variances)), rel=1e-3)
    for weights in np.random.default_rng(0).standard_normal((20, 4)):
        assert abs(weights @ changes) / math.sqrt(weights**2 @ variances) < best


def test_a_bend_is_what_no_straight_line_explains(sweep):
    """The contrast is the least chi-square of straight lines, which a general search finds."""
    points = sweep.points
    found = bend(points, "kappa")
    contrast = found.contrast(None)
    means = np.array([point.mean for point in points])
    variances = np.array([point.variance for point in points])
    logs = np.log([point.ratios["kappa"] for point in points])

    def chi_square(line):
        return float(np.sum((means - line[0] - line[1] * logs) ** 2 / variances))

    least = minimize(chi_square, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9})
    scattered = contrast.errors(1)[0] ** 2 - contrast.errors(1e12)[0] ** 2
    assert contrast.change**2 / scattered == pytest.approx(least.fun, rel=1e-4)
    assert contrast.change == pytest.approx(np.max(np.abs(means - found.others(None))))
    # Of a straight line nothing is left, but perhaps rounding.
    straight = [
        replace(point, prediction=replace(point.prediction, mean=np.full(2, 1 + 0.1 * log)))
        for point, log in zip(points, logs, strict=True)
    ]
    with pytest.raises(NotProposed, match="theory has no bend along kappa there"):
        bend(straight, "kappa")


def test_a_bend_is_planned_without_an_effect():
    plan = planned("bend", kappa=[0.25, 1.0, 4.0, 16.0], dim=24, significance=2.0)
    assert "straight line" in plan.sentence
    assert plan.best.design.runs == 4


def test_costs_are_counted_and_not_measured(monkeypatch):
    def measured(*_, **__):
        raise AssertionError

    monkeypatch.setattr("timeit.repeat", measured)
    plan = planned("precision", effect=0.05, dim=[12, 24], cost=None)
    assert [row["dim"] for row in plan.rows()] == [24, 12]
    assert "Costs assume a core of" in plan.notes[-1]


def test_forecast_is_that_of_the_runs_by_hand():
    changes = {"alpha": [0.5, 2.0], "free": ["rho", "tau"], "dim": 16}
    best = planned("forecast", **changes, effect=0.2).best
    runs = [
        MeasuredRun(
            (1,),
            Experiment.of(**dict(zip(SIZES, sizes, strict=True)), rho=0.2, ridge=0.3),
            {},
            runs=best.repeats,
        )
        for sizes in ((16, 8, 8, 512), (16, 32, 8, 512))
    ]
    theory = Theory(draws=30, root=1)  # other task sets
    errors = forecast_precision(runs, ["rho", "tau"], theory, measured=["icl"]).standard_errors
    row = best.row()
    assert [row["rho_se"], row["tau_se"]] == pytest.approx(list(errors.values()), rel=0.05)
    assert 1.959964 * max(row["rho_se"], row["tau_se"]) <= 0.2
    fewer = best.design.forecast(best.repeats - 1).standard_errors
    assert 1.959964 * max(fewer.values()) > 0.2
    found = planned("forecast", **changes, repeats=best.repeats).best.effect
    assert found == pytest.approx(1.959964 * max(row["rho_se"], row["tau_se"]), rel=0.02)


def test_forecast_names_what_is_not_told_apart():
    plan = planned("forecast", free=["rho", "alpha"], effect=0.1)
    assert "rho and alpha are hardly told apart" in str(plan)


def test_own_theory_of_sizes_has_no_doubt_and_a_limit_has():
    def sized(dim, context):
        return 1.0 + 0.1 * context / dim

    own = planned("theories", against=sized, repeats=5).best
    (point,) = own.design.points
    assert own.design.others(None) == [pytest.approx(1.1)]
    assert own.contrast.doubt == pytest.approx(point.doubt)
    limit = planned("theories", against=iclimit.bayes_error, repeats=5).best
    asymptotic = float(iclimit.icl_error(**SETTING))
    (value,) = limit.design.others(None)
    shift = abs(value) * abs(point.mean / asymptotic - 1)
    assert limit.contrast.doubt == pytest.approx(point.doubt + shift, rel=1e-6)


def test_tests_on_other_contexts_have_other_errors():
    longer = planned("precision", effect=0.05, test_alpha=4.0, test_rho=0.1).best
    (point,) = longer.design.points
    sizes = {"dim": 12, "context": 12, "tasks": 6, "prompts": 288}
    arguments = sizes | {"rho": 0.2, "ridge": 0.3, "test_context": 48, "test_rho": 0.1}
    assert point.run.arguments == arguments
    run = iclimit.simulate_errors(**arguments, rng=2, repeats=200)
    assert abs(run.icl.mean - point.mean) < point.doubt + 3 * run.icl.standard_error


def test_skewed_errors_get_ten_repeats():
    plan = planned("precision", ridge=0.0, tau=1.5, effect=0.5)
    assert plan.best.skewed
    assert plan.best.repeats >= 10
    assert "skewed" in str(plan)


def test_infinite_variance_is_not_proposed():
    plan = planned("precision", ridge=0.0, tau=1.0 + 1 / 12, effect=0.5)
    assert plan.proposals == []
    assert "infinite" in str(plan)
    value_error("no size is proposed", plan.runs)


def test_equal_theories_are_not_told_apart():
    plan = planned("theories", against={"kappa": 0.5})
    assert "not sharp enough" in str(plan)


def test_proposals_are_ranked_by_cost():
    plan = planned("precision", effect=0.05, dim=[12, 16, 24])
    costs = [row["cost"] for row in plan.rows()]
    assert costs == sorted(costs)
    assert {row["dim"] for row in plan.rows()} == {12, 16, 24}
    expected = plan.best.repeats * count(*plan.best.design.points[0].run.sizes.values())
    assert plan.rows()[0]["cost"] == pytest.approx(expected)


def test_table_of_runs_is_read_back(tmp_path):
    plan = planned("difference", against={"rho": 0.4}, significance=3.0)
    plan.write_runs(tmp_path / "runs.csv")
    check = check_runs(tmp_path / "runs.csv", draws=10)
    assert check.holds
    assert check.judged == 2


def test_commands_make_the_runs():
    plan = planned("precision", kappa=math.inf, effect=0.1)
    (command,) = plan.commands
    estimate = eval(command, {"iclimit": iclimit})
    assert estimate.repeats == plan.best.repeats
    assert abs(estimate.mean / plan.best.design.points[0].mean - 1) < 0.2


def test_figure_has_power_and_theories(tmp_path):
    sweep = planned("transition", kappa=[0.5, 1.0, 2.0, 4.0], repeats=20)
    sweep.write(tmp_path / "plan.png")
    left, right = sweep.plot()
    assert left.get_xlabel() == "estimated cost of all runs [s]"
    assert "kappa" in right.get_xlabel()
    fit = planned("forecast", free=["rho"], effect=1.0)
    _, right = fit.plot()
    assert legend_of(right) == [r"$\rho$", "allowed deviation: 100 %"]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lines_of(ax, **look):
    """Lines of axes by what these methods return."""
    return [
        line
        for line in ax.lines
        if all(getattr(line, f"get_{name}")() == value for name, value in look.items())
    ]


def test_the_star_is_at_the_best_proposal_and_named():
    plan = planned("theories", against="dmmse", dim=(12, 16, 24), significance=4.0)
    left, right = plan.plot()
    best = plan.rows()[0]
    [star] = lines_of(left, marker="*")
    assert (star.get_xdata(), star.get_ydata()) == ([best["cost"]], [best["power"]])
    words = [text.get_text().strip() for text in left.texts]
    assert words[-1] == f"{best['repeats']} runs at d = {best['dim']}"
    [star] = lines_of(right, marker="*")
    assert star.get_xdata() == [best["dim"]]
    assert star.get_ydata() == [plan.runs()[0]["icl"]]
    assert "dMMSE" in legend_of(right)


def test_lines_stand_in_the_legend_from_left_to_right_and_lighter_with_their_size():
    plan = planned("theories", against={"kappa": 2.0}, dim=(12, 16, 20, 24), significance=3.0)
    left, _ = plan.plot()
    lines = lines_of(left, marker="o")
    half = [line.get_xdata()[np.argmax(line.get_ydata() > 0.5)] for line in lines]
    assert half == sorted(half)
    assert legend_of(left) == [line.get_label() for line in lines]
    ordered = sorted(lines, key=lambda line: int(line.get_label()))
    greys = [np.dot(line.get_color()[:3], (0.299, 0.587, 0.114)) for line in ordered]
    assert greys == sorted(greys)


@pytest.mark.parametrize(
    ("options", "power", "cost"),
    [
        ({"effect": 1.0, "power": 0.9}, 0.9, None),
        ({"power": 0.9, "max_cost": 4.0}, 0.9, 4.0),
        ({"effect": 1.0, "max_cost": 4.0}, None, 4.0),
    ],
)
def test_what_is_asked_for_is_drawn(options, power, cost):
    left, _ = planned("transition", kappa=[0.5, 1.0, 2.0, 4.0], **options).plot()
    lines = lines_of(left, linestyle="--")
    heights = [line.get_ydata()[0] for line in lines if line.get_xdata() == [0, 1]]
    places = [line.get_xdata()[0] for line in lines if line.get_ydata() == [0, 1]]
    assert heights == ([power] if power else [])
    assert places == ([cost] if cost else [])
    words = " ".join(text.get_text() for text in left.texts)
    assert ("asked:\n90 %" in words) == bool(power)
    assert ("largest cost: 4 s" in words) == bool(cost)


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("precision", {"effect": 0.05, "dim": (12, 16)}),
        ("theories", {"against": {"kappa": 2.0}, "dim": (12,)}),
        ("difference", {"against": {"test_alpha": 3.0}, "dim": (12,)}),
    ],
)
def test_a_point_is_what_its_numbers_are(question, options):
    point = iclimit.Point(**SETTING)
    stated = iclimit.plan_runs(question, point, cost=count, **options)
    assert stated.rows() == planned(question, **options).rows()


def test_a_point_with_several_numbers_is_a_sweep():
    sweep = iclimit.Point(**SETTING | {"kappa": (0.5, 1.0, 2.0, 4.0)})
    stated = iclimit.plan_runs("transition", sweep, effect=0.4, dim=12, cost=count)
    numbers = planned("transition", kappa=[0.5, 1.0, 2.0, 4.0], effect=0.4)
    assert stated.rows() == numbers.rows()
    assert stated.along == "kappa"


def test_an_experiment_of_integers_has_its_own_dimension():
    law = iclimit.Problem(12, 12, tasks=6, noise_variance=0.2, task_law="sphere")
    run = iclimit.Experiment(law, prompts=288, training=iclimit.Ridge(0.3))
    stated = iclimit.plan_runs("precision", run, effect=0.05, cost=count)
    assert stated.rows() == planned("precision", effect=0.05).rows()
    value_error("dim must be that of the run, 12, got 16", _precision, run, dim=16)
    against = {"question": "theories", "effect": None, "against": {"kappa": 1.0}}
    value_error("against must be another Experiment for one", _precision, run, **against)
    gated = run.with_(model=iclimit.Reduced(gates=np.full(12, 0.9)))
    value_error("plans know no gates of a run", _precision, gated)
    other = run.with_(
        problem=iclimit.Problem(12, 24, tasks=6, noise_variance=0.2, task_law="sphere")
    )
    plan = iclimit.plan_runs("difference", run, against=other, cost=count)
    longer = planned("difference", against={"alpha": 2.0})
    assert plan.rows() == longer.rows()


def _precision(run, **options):
    options = {"question": "precision", "effect": 0.05, "cost": count} | options
    return iclimit.plan_runs(run=run, **options)


def test_a_setting_is_stated_once():
    point = iclimit.Point(**SETTING)
    with pytest.raises(TypeError, match="tau must be left out beside a run"):
        _precision(point, tau=2.0)
    with pytest.raises(TypeError, match="needs kappa, rho, or a Point"):
        _precision(None, tau=2.0, alpha=1.0)
    with pytest.raises(TypeError, match="run must be a Point or an Experiment, got 3"):
        _precision(3)


def test_refusals_name_the_argument():
    for question, changes, message in (
        ("precission", {"effect": 0.1}, "did you mean precision"),
        ("precision", {}, "one of effect, repeats and max_cost must be given for precision"),
        ("precision", {"effect": 0.1, "significance": 3.0}, "significance must be left out"),
        ("precision", {"effect": 0.1, "repeats": 4, "power": 0.9}, "must be left out"),
        (
            "precision",
            {"effect": 0.1, "repeats": 4, "max_cost": 1.0},
            "repeats or max_cost must be left out",
        ),
        (
            "precision",
            {"effect": 0.1, "against": "dmmse"},
            "against must be left out for precision",
        ),
        ("precision", {"effect": 0.1, "tau": [1.0, 2.0]}, "no parameter may have several values"),
        ("precision", {"effect": 0.1, "tau": math.inf}, "tau must be finite for runs, got inf"),
        ("precision", {"effect": 0.1, "dim": [12, 0]}, "dim must be an integer >= 1, got 0"),
        ("precision", {"effect": 0.1, "cost": lambda *_: -1.0}, "cost must return a number > 0"),
        ("theories", {}, "against must be parameters that differ, dmmse, ridge or a function"),
        ("theories", {"against": "dmse"}, "did you mean dmmse"),
        ("theories", {"against": {"kapa": 1.0}}, "did you mean kappa"),
        (
            "theories",
            {"against": {"kappa": 1.0}, "effect": 0.1},
            "effect must be left out for theories",
        ),
        ("theories", {"against": lambda depth: depth}, "got a function of depth"),
        (
            "theories",
            {"against": lambda dim: dim * math.nan},
            "must return a finite number, got nan",
        ),
        ("difference", {"against": "dmmse"}, "against must be parameters that differ"),
        ("forecast", {"effect": 0.1, "free": ["kapa"]}, "did you mean kappa"),
        ("forecast", {"effect": 0.1, "free": ["ridge"], "ridge": 0.0}, "ridge must be > 0 to be"),
        ("forecast", {"effect": 0.1, "free": ["rho"], "test_rho": 0.1}, "test_rho must be left"),
        (
            "forecast",
            {"effect": 0.1, "free": ["rho"], "tau": [1, 2], "rho": [1, 2, 3]},
            "tau and rho must have the same number of values",
        ),
        ("precision", {"effect": 0.1, "free": ["rho"]}, "free must be left out for precision"),
        ("theories", {"against": "dmmse", "test_rho": 0.1}, "the tests of the training"),
        ("transition", {"effect": 0.1}, "exactly one parameter may have several"),
        ("transition", {"effect": 0.1, "tau": [1, 2, 4]}, "tau must be one number, or 4 or more"),
    ):
        value_error(message, planned, question, **changes)


ARGUMENTS = ["--tau", "2", "--alpha", "1", "--kappa", "0.5", "--rho", "0.2", "--ridge", "0.3"]


def test_verb_prints_and_writes(tmp_path, capsys):
    (tmp_path / "money.py").write_text(
        "def euros(dim, context, tasks, prompts):\n    return dim / 4\n"
    )
    more = ["--dim", "12", "--cost", f"{tmp_path / 'money.py'}:euros", "--unit", "euros"]
    theories = ["plan", "theories", *ARGUMENTS, *more, "--against", "bayes_error"]
    assert main([*theories, "--runs", str(tmp_path / "runs.csv")]) == 0
    assert "cost [euros]" in capsys.readouterr().out
    assert (tmp_path / "runs.csv").read_text().startswith("dim,context,tasks,prompts,rho,ridge")
    assert main([*theories, "-o", str(tmp_path / "plan.csv")]) == 0
    assert "at d = 12 separate" in capsys.readouterr().out
    assert main([*theories, "--repeats", "2", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["cost"] == 6.0
    assert main(["plan", "theories", *ARGUMENTS, *more, "--against", "kappa=0.5"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["theories"], "--against is needed for theories, for example --against dmmse"),
        (["difference"], "--against is needed for difference, for example --against kappa=1"),
        (["theories", "--against", "bayes_eror"], "did you mean bayes_error"),
        (["theories", "--against", "dmsme"], "did you mean dmmse"),
        (["theories", "--against", "softmax_loss"], "softmax_loss takes inverse_temperature"),
        (["theories", "--against", "kappa=x"], "must be NAME=VALUE"),
        (["precision", "--cost", "nowhere.py:f"], "must be FILE.py:FUNCTION"),
        (["precise", "--effect", "0.1"], "did you mean precision"),
    ],
)
def test_verb_explains_what_it_cannot_use(arguments, message, capsys):
    try:
        status = main(["plan", arguments[0], *ARGUMENTS, "--dim", "12", *arguments[1:]])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert message in capsys.readouterr().err


def test_sequences_take_the_place_of_prompts():
    """The standard error that is promised is that of simulated runs, whose rows check reads."""
    point = iclimit.Point(sequence_ratio=3, alpha=1.5, alpha_min=0.5, rho=0.1, ridge=0.2)
    plan = iclimit.plan_runs("precision", point, effect=0.1, dim=8, repeats=12)
    (row,) = plan.runs()
    runs = iclimit.sample(point.at(dim=8), rng=1, repeats=60).icl
    promised = row["icl_se"] * math.sqrt(row["runs"])
    # Both are standard deviations of 60 runs, each known to 9 %.
    assert np.std(runs.samples, ddof=1) / promised == pytest.approx(1, abs=0.4)
    assert row["first_position"] == 4
    assert iclimit.check_runs([row]).holds
    assert "sequences" in plan.notes[-1]
    assert "iclimit.sample(iclimit.Experiment.of(" in plan.commands[0]


def test_a_shift_along_sequences_is_planned():
    """Their number is a parameter of plans as others are, and tau is none of theirs."""
    setting = {"alpha": 1, "alpha_min": 0.5, "kappa": math.inf, "rho": 0.1, "ridge": 0.3}
    swept = {"sequence_ratio": [1, 2, 4, 8], **setting}
    plan = iclimit.plan_runs("bend", dim=8, repeats=20, **swept)
    assert plan.along == "sequence_ratio"
    assert {point.run.sizes["prompts"] for point in plan.best.design.points} == {8, 16, 32, 64}
    point = iclimit.Point(**setting | {"sequence_ratio": 2})
    value_error(
        "did you mean sequence_ratio",
        iclimit.plan_runs,
        "forecast",
        point,
        free=["tau"],
        effect=0.1,
    )
