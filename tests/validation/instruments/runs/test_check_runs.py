"""Checks of tables: simulated ones agree, planted mistakes are found and named."""

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from plain_runs import plain_errors
from refusals import type_error, value_error

import iclimit
from benchmarks.check_calibration import MISTAKES, exchanged, is_named
from iclimit.cli import main
from iclimit.drawing import new_figure
from iclimit.experiment import Experiment
from iclimit.results import Estimate
from iclimit.units import CONVENTIONS
from iclimit.validation import check_runs
from iclimit.validation.instruments.runs import explanations
from iclimit.validation.instruments.runs.explanations import Explanations
from iclimit.validation.instruments.runs.judgement import (
    ZDistribution,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.mistakes import ERRORS, mistakes
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict
from iclimit.validation.instruments.runs.table import read_runs, with_oracle

CHECK = "iclimit.validation.instruments.runs.check"
SETTINGS = (
    # dim, context, tasks, prompts, rho, ridge
    (16, 32, 12, 400, 0.2, 0.02),
    (16, 16, math.inf, 200, 0.3, 0.1),
    (16, 60, math.inf, 300, 0.4, 0.02),
    (16, 40, math.inf, 500, 0.2, 0.05),
)
NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")


def simulated(seed, repeats, settings=SETTINGS):
    """Samples of the errors at the settings."""
    found = []
    for number, values in enumerate(settings):
        setting = dict(zip(NAMES, values, strict=True))
        run = iclimit.simulate_errors(**setting, rng=seed + number, repeats=repeats)
        found.append(setting | {"icl": run.icl.samples, "idg": run.idg.samples})
    return found


@pytest.fixture(scope="module")
def table():
    """Means of simulated errors with their standard errors."""
    rows = []
    for found in simulated(0, 60):
        setting = {name: found[name] for name in NAMES}
        means = {name: Estimate.of(found[name]) for name in ("icl", "idg")}
        rows.append(
            setting
            | {name: each.mean for name, each in means.items()}
            | {f"{name}_se": each.standard_error for name, each in means.items()}
        )
    return rows


def test_simulated_means_agree(table):
    check = check_runs(table)
    assert check.holds
    assert check.judged == 8
    assert not check.fits
    assert not check.tried
    assert 1e-3 < check.chi_square.p_value < 1
    assert all(0 < each < 0.2 for each in check.resolutions.values())
    assert "The table agrees with the theory." in str(check)


# Settings of tables whose errors are predicted ones with deviations of one standard error.
TRUE = (
    (8, 16, 6, 100, 0.2, 0.05),
    (8, 12, 24, 60, 0.3, 0.2),
    (10, 40, 5, 300, 0.1, 0.02),
    (12, 24, 12, 120, 0.4, 0.1),
    (12, 12, 6, 500, 0.2, 0.3),
)
DEVIATIONS = (0.8, -1.1, 0.3, 1.2, -0.6)
PRECISION = 0.005
# As `check_runs` predicts with few draws, so that deviations are those planted.
THEORY = Theory(draws=10, root=int(np.random.default_rng(0).integers(2**62)))


@cache
def true_errors(values, estimator):
    """Predicted errors of a setting."""
    run = Experiment.of(**dict(zip(NAMES, values, strict=True)))
    return predict(MeasuredRun((1,), run, {}, estimator=estimator), THEORY).mean


def reported(plant=lambda row: row, estimator="attention"):
    """Rows of a table with a mistake."""
    rows = []
    for values, z in zip(TRUE, DEVIATIONS, strict=True):
        row = dict(zip(NAMES, values, strict=True))
        errors = true_errors(values, estimator) * (1 + PRECISION * z)
        row = plant(row | dict(zip(BOTH, errors, strict=True)))
        rows.append(row | {f"{name}_se": PRECISION * row[name] for name in BOTH})
    return rows


BOTH = ("icl", "idg")


@pytest.fixture
def tried(monkeypatch):
    """Tries only mistakes with one of these words, and all that take no further predictions."""

    def only(*words):
        def chosen(*arguments, **options):
            return [
                each
                for each in mistakes(*arguments, **options)
                if each in ERRORS or any(word in each.text for word in words)
            ]

        monkeypatch.setattr(explanations, "mistakes", chosen)

    return only


# These tables do not resolve 5 % of the noise, and dMMSE has a test of its own.
OTHERS = ("0.952", "dMMSE")
PLANTED = {text: each for text, each in MISTAKES.items() if not any(x in text for x in OTHERS)}
PLANTED |= {
    "rho is {0.1} times as large": (lambda row: row | {"rho": 10 * row["rho"]}, {}),
    "the columns alpha and kappa are exchanged": (
        lambda row: row | {"context": row["tasks"], "tasks": row["context"]},
        {},
    ),
    "there are {0.8} times as many prompts": (
        lambda row: row | {"prompts": round(1.25 * row["prompts"])},
        {},
    ),
    "there are {0.5} times as many pretraining tasks": (
        lambda row: row | {"tasks": 2 * row["tasks"]},
        {},
    ),
}
# What else is tried, as well as the mistakes in what was reported.
RIVALS = ("the ridge is", "rho is", "products", "tasks have", "tau counts", "the columns", "there")


@pytest.mark.parametrize("text", PLANTED)
def test_planted_mistakes_are_named(tried, text):
    plant, options = PLANTED[text]
    tried(*(words for words in RIVALS if words in text))
    rows = reported(plant)
    check = check_runs(exchanged(rows) if "rows" in text else rows, **options, draws=10)
    assert check.holds is False
    assert is_named(check.fits[0], text)
    # Where a value was searched, something else may look like it.
    searched = check.fits[0].value is not None
    assert check.fits[0].exact is not searched
    assert (check.fits[0].likelihood == 1) is not searched
    assert f"- if {check.fits[0].text}: chi-square" in str(check)
    assert ("effectively" in str(check)) is any(fit.effective for fit in check.fits)
    # Only what agrees is offered.
    assert all(fit.chi_square.p_value > 1e-3 for fit in check.fits)


def test_a_row_that_does_not_belong_there_is_found(tried):
    tried()
    rows = reported()
    rows[2] |= {"icl": 2 * rows[2]["icl"], "idg": 0.7 * rows[2]["idg"]}
    assert check_runs(rows, draws=10).fits[0].text == "row 3 is left out"


def test_errors_of_bayes_estimators_are_told_from_those_of_attention(tried):
    tried("errors are those of")
    rows = reported(estimator="dmmse")
    check = check_runs(rows, draws=20)
    assert [fit.text[:29] for fit in check.fits] == ["errors are those of dMMSE, th"]
    for row in rows:
        del row["prompts"], row["ridge"]
    again = check_runs([row | {"estimator": "dmmse"} for row in rows], draws=20)
    assert again.holds
    assert again.rows()[0]["icl_limit"] > again.rows()[0]["idg_limit"]
    ridge = check_runs(reported(estimator="ridge"), parameters={"estimator": "ridge"})
    assert ridge.holds


def test_wider_error_bars_explain_no_deviations_of_one_sign(tried):
    tried("standard errors")

    def widened(factors):
        rows = []
        for row, factor in zip(reported(), factors, strict=True):
            bars = {f"{name}_sd": 0.06 * row[name] for name in BOTH}
            changed = {name: row[name] * (1 + 0.08 * factor) for name in BOTH}
            kept = {name: value for name, value in row.items() if not name.endswith("_se")}
            rows.append(kept | changed | bars | {"runs": 25})
        return check_runs(rows, draws=10)

    text = "standard deviations are standard errors of the mean"
    assert text in [fit.text for fit in widened([0.9, -1.0, 0.4, -0.8, 0.7]).fits]
    assert text not in [fit.text for fit in widened([1, 1.1, 0.9, 1, 1.2]).fits]


def test_scatter_far_below_the_error_bars_is_said():
    rows = [row | {f"{name}_se": 0.05 * row[name] for name in BOTH} for row in reported()]
    check = check_runs(rows, draws=10)
    assert check.holds
    assert "The scatter is far below the error bars" in check.hints[0]
    assert not check_runs(reported(), draws=10).hints


def test_errors_of_the_theory_are_shared_by_rows_that_are_alike():
    """A deviation of one and a half stated errors, in forty rows of one kind, is no surprise."""
    loadings = np.array([[0.01, 0.0], [0.007, 0.00714]])

    def table(dims):
        prediction = Prediction(np.ones(2), doubts=loadings)
        errors = {name: Estimate(1.015, 0.001, 0) for name in BOTH}
        return [
            compare_run(
                MeasuredRun((1,), Experiment.of(**SMALL | {"dim": dim, "context": dim}), errors),
                prediction,
                one_set=False,
            )
            for dim in dims
        ]

    assert verdict(table(range(400, 440))).holds
    one, two = (chi_square(table(dims)).degrees for dims in ([200], [200, 210]))
    assert two == pytest.approx(one, rel=0.02)
    far = table([3**k for k in range(33)])
    assert not verdict(far).holds
    assert chi_square(far).degrees > 20


SIZES = {"dim": 4, "context": 4, "tasks": 4, "prompts": 4}
SMALL = SIZES | {"rho": 0.1}


@pytest.mark.slow
def test_the_wrong_law_of_tasks_is_noticed_and_named():
    """Sphere and Gaussian tasks differ by 3 % where tasks are few and contexts long."""
    rows = []
    for context, prompts in ((64, 1000), (200, 600)):
        setting = {"dim": 16, "context": context, "tasks": 16, "prompts": prompts}
        setting |= {"rho": 0.05, "ridge": 0.02}
        run = iclimit.simulate_errors(**setting, rng=1, repeats=120)
        rows += [
            setting | {"icl": icl, "idg": idg}
            for icl, idg in zip(run.icl.samples, run.idg.samples, strict=True)
        ]
    assert check_runs(rows).holds
    check = check_runs(rows, task_law="gaussian")
    assert not check.holds
    assert check.fits[0].text == "tasks are of squared norm d"


PUBLISHED = Path(iclimit.validation.__file__).parent / "reference/lu_letey_linear_simulations.csv"


@pytest.mark.slow
def test_the_published_table_agrees(monkeypatch, capsys):
    """The command of the documentation."""
    monkeypatch.chdir(PUBLISHED.parent)
    command = (
        "check lu_letey_linear_simulations.csv --ddof 0 --balanced --ignore tau,kappa "
        "--columns dim=d,tau=tau_eff,kappa=kappa_eff,ridge=lam "
        "--columns icl=icl_mean,icl_sd=icl_std,idg=idg_mean,idg_sd=idg_std --format json"
    )
    assert main(command.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["judged"] == 46
    assert found["chi_square"]["p_value"] > 0.05
    assert all(0.6 < each["width"] < 1.4 for each in found["z"].values())


def test_single_runs_are_taken_together_with_their_pairing():
    samples = simulated(7, 12, SETTINGS[:1])[0]
    rows = [
        {name: samples[name] for name in NAMES} | {"icl": icl, "idg": idg}
        for icl, idg in zip(samples["icl"], samples["idg"], strict=True)
    ]
    check = check_runs(rows, draws=4)
    (row,) = check.deviations
    gap = Estimate.of(samples["icl"] - samples["idg"])
    assert row.run.rows == tuple(range(1, 13))
    assert row.run.errors["gap"].standard_error == pytest.approx(gap.standard_error)
    names = ["icl", "idg", "gap"]
    found = [samples["icl"], samples["idg"], gap.samples]
    np.testing.assert_allclose(row.run.covariance(names), np.cov(found) / 12, rtol=1e-9)
    assert "12 single runs of one setting are taken together." in check.notes
    # The same as means, the correlation being known from the error of the difference.
    means = {name: Estimate.of(each) for name, each in zip(names, found, strict=True)}
    table = {name: [samples[name]] for name in NAMES} | {"runs": [12]}
    table |= {name: [each.mean] for name, each in means.items()}
    table |= {f"{name}_sd": [float(np.std(each.samples))] for name, each in means.items()}
    again = check_runs(table, ddof=0, draws=4)
    assert again.chi_square.value == pytest.approx(check.chi_square.value, rel=1e-9)
    assert again.chi_square.degrees == pytest.approx(check.chi_square.degrees, rel=1e-9)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_tables_in_other_units_give_the_same_z(table, name):
    there = []
    for row in table[2:3]:
        units = CONVENTIONS[name].units(dim=row["dim"], context=row["context"])
        variance = units.from_library("noise_variance", row["rho"])
        units = with_oracle(replace(units, noise_variance=variance))
        changed = {key: row[key] for key in NAMES if key != "rho"} | {"noise_variance": variance}
        changed["ridge"] = units.from_library("ridge", row["ridge"])
        for key in ("icl", "idg"):
            changed[key] = units.from_library("error", row[key])
            changed[f"{key}_se"] = units.from_library("difference", row[f"{key}_se"])
        there.append(changed)
    options = {"task_law": "sphere", "draws": 2}
    expected = check_runs(table[2:3], **options).rows()[0]
    convention = replace(CONVENTIONS[name], input_law="gaussian")  # that of the table
    found = check_runs(there, convention=convention, **options).rows()[0]
    for key in ("icl_z", "idg_z", "icl_prediction", "icl_limit"):
        assert found[key] == pytest.approx(expected[key], rel=1e-6)


def test_one_task_set_adds_the_spread_over_task_sets(table):
    many, one = (check_runs(table[:1], task_sets=sets) for sets in ("many", "one"))
    row = many.deviations[0]
    added = one.deviations[0].comparisons["icl"].standard_error ** 2
    added -= row.comparisons["icl"].standard_error ** 2
    assert added == pytest.approx(row.prediction.spread[0, 0])
    # Against the spread of predictions task by task for single task sets.
    errors = iclimit.finite_size_errors(
        **{name: table[0][name] for name in NAMES}, rng=1, draws=30
    )
    spread = np.std(errors.icl.samples, ddof=1)
    assert math.sqrt(row.prediction.spread[0, 0]) == pytest.approx(spread, rel=0.6)


def test_predictions_are_those_of_the_finite_size_errors():
    """The ratio of two approaches, averaged over a few task sets, has the mean of many."""
    sizes = {"dim": 32, "context": 64, "tasks": 10, "prompts": 1500}
    run = MeasuredRun((1,), Experiment.of(**sizes, rho=0.1, ridge=0.01), {})
    found = predict(run, Theory())
    direct = iclimit.finite_size_errors(**sizes, rho=0.1, ridge=0.01, rng=5, draws=12)
    for place, name in enumerate(("icl", "idg")):
        mean = getattr(direct, name)
        error = math.hypot(mean.standard_error, math.sqrt(found.covariance[place, place]))
        assert abs(found.mean[place] - mean.mean) < 4 * error
        expected = np.std(mean.samples, ddof=1)
        assert math.sqrt(found.spread[place, place]) == pytest.approx(expected, rel=0.8)


def test_structured_tables_are_predicted_from_spectra():
    setting = {"dim": 16, "context": 32, "tasks": 16, "prompts": 512}
    setting |= {"rho": 0.1, "ridge": 0.1}
    values = np.repeat([0.4, 1.6], 8)
    run = iclimit.simulate_errors(
        **setting, task_covariance=values, test_covariance=values[::-1], rng=3, repeats=30
    )
    row = setting | {"icl": run.icl.mean, "icl_se": run.icl.standard_error}
    spectra = {"task_spectrum": "atoms:0.4,1.6", "test_spectrum": "reversed"}
    check = check_runs([row], **spectra, draws=20)
    assert check.holds
    del row["icl_se"]
    isotropic = check_runs([row], draws=2)
    assert abs(check.rows()[0]["icl_deviation"]) < 0.1 < abs(isotropic.rows()[0]["icl_deviation"])
    limit = check.rows()[0]["icl_limit"]
    parameters = {"tau": [2.0], "alpha": 2, "kappa": 1, "rho": 0.1, "ridge": 0.1}
    expected = iclimit.curve("icl_error", **parameters, **spectra)
    assert limit == pytest.approx(expected.values.item())


def deviation(z, correlation):
    """Row of two errors with these deviations, in units of their standard errors."""
    errors = {
        name: Estimate(1 + value, 1.0, 0) for name, value in zip(("icl", "idg"), z, strict=True)
    }
    prediction = Prediction(np.ones(2))
    run = MeasuredRun((1,), Experiment.of(**SMALL), errors, correlation)
    return compare_run(run, prediction, one_set=False)


@pytest.mark.parametrize(("correlation", "known"), [(0.9, True), (0.9, False), (0.0, True)])
def test_p_values_of_correlated_rows_are_right_or_too_large(correlation, known):
    """With the correlation known the mean and the tail are right; unknown, none is too small."""
    rng = np.random.default_rng(1)
    covariance = np.array([[1, correlation], [correlation, 1]])
    p_values = []
    for _ in range(200):
        z = rng.multivariate_normal([0, 0], covariance, size=5)
        rows = [deviation(each, correlation if known else None) for each in z]
        p_values.append(chi_square(rows).p_value)
    share = float(np.mean(np.array(p_values) < 0.05))
    assert share < 0.05 + 3 * math.sqrt(0.05 / 200)
    if known:
        assert share > 0.05 - 3 * math.sqrt(0.05 / 200)
        assert abs(np.mean(p_values) - 0.5) < 3 * 0.29 / math.sqrt(200) + 0.01


def test_the_distribution_of_z_is_told_from_others():
    from scipy.stats import kstest

    rng = np.random.default_rng(2)
    z = rng.standard_normal(40)
    law = ZDistribution.of([*z, math.nan])
    assert law.count == 40
    assert law.mean == pytest.approx(np.mean(z))
    assert law.p_value == pytest.approx(kstest(z, "norm").pvalue, abs=0.02)
    assert ZDistribution.of([*(2 * z + 1)]).p_value < 1e-3
    assert ZDistribution.of([math.nan]) == ZDistribution(0, None, None, 1.0)


def test_rows_without_error_bars_are_judged_by_the_predicted_scatter(table, monkeypatch):
    monkeypatch.setattr(f"{CHECK}.explain", lambda *_, **__: Explanations([], 0, []))
    rows = [{key: row[key] for key in (*NAMES, "icl")} for row in table]
    check = check_runs(rows, draws=10)
    assert check.judged == 4
    assert check.holds
    # Means of 60 runs have error bars of single runs, and deviate by far less.
    assert max(abs(row["icl_z"]) for row in check.rows()) < 1
    for row in check.rows():
        sizes = {name: row[name] for name in NAMES}
        spread = iclimit.pretraining.finite_size_spread(**sizes, rng=0)
        assert row["icl_se"] == pytest.approx(spread.icl, rel=0.1)
    assert "The error bars of 4 rows are predicted" in str(check)
    many = check_runs([row | {"runs": 60} for row in rows], draws=10)
    assert many.rows()[0]["icl_se"] == pytest.approx(check.rows()[0]["icl_se"] / 60**0.5)
    # A relative deviation of three standard deviations, as a logarithm.
    wrong = check_runs([rows[0] | {"icl": 1.6 * rows[0]["icl"]}], draws=10)
    first = wrong.rows()[0]
    spread = first["icl_se"] / first["icl_prediction"]
    expected = (math.log(first["icl"] / first["icl_prediction"]) + spread**2 / 2) / spread
    assert first["icl_z"] == pytest.approx(expected, rel=0.02)
    assert not wrong.holds


def test_error_bars_below_rounding_count_as_rounding():
    """Errors of dMMSE are those of the noise where all tasks are told apart: 0.1(3e-18) here."""
    row = {"dim": 4, "context": 64, "tasks": 2, "rho": 0.01, "estimator": "dmmse"}
    exact = row | {"idg": 0.01 * (1 + 1e-14), "idg_se": 3e-19}
    assert check_runs([exact], draws=10).holds
    wrong = check_runs([exact | {"idg": 0.02}], draws=10)
    assert not wrong.holds
    assert wrong.tried > 10


def test_means_of_one_setting_are_not_called_runs():
    row = GOOD | {"icl": 0.9}
    check = check_runs([row, row], draws=2)
    assert "2 means of one setting are taken together." in check.notes


def test_what_has_no_predicted_scatter_is_not_judged():
    # Ridge regression is exact, and the scatter of a user's estimates of it is unknown.
    setting = {"dim": 8, "context": 10, "tasks": 5, "prompts": 90, "rho": 0.1}
    check = check_runs([setting | {"icl": 0.4, "estimator": "ridge"}], draws=2)
    assert (check.judged, check.holds) == (0, None)
    assert check.rows()[0]["icl_z"] is None
    assert "No row has a standard error" in str(check)
    # At the threshold there is no finite prediction, and next to it no finite scatter.
    setting = {"dim": 4, "context": 6, "tasks": 3, "rho": 0.1}
    check = check_runs([setting | {"prompts": 20, "icl": 3.0, "icl_se": 0.1}], draws=2)
    assert check.judged == 0
    assert any("threshold" in note for note in check.notes)
    assert check_runs([setting | {"prompts": 22, "icl": 3.0}], draws=2).judged == 0


def test_single_runs_that_follow_the_theory_agree():
    runs = simulated(50, 6)
    rows = [row | {"icl": row["icl"][k], "idg": row["idg"][k]} for row in runs for k in range(6)]
    check = check_runs(rows, draws=20)
    assert check.holds
    assert check.judged == 9  # both errors, and the gap where tasks are shared
    # Where both errors are known, their correlation is predicted.
    for row in check.deviations[:1]:
        spread = iclimit.pretraining.finite_size_spread(
            **row.run.sizes, rho=row.run.rho, ridge=row.run.ridge, rng=0
        )
        assert row.correlations[0, 1] == pytest.approx(spread.correlation, abs=0.05)


# Runs of a row, and what a table says of their scatter.
RUNS = 20


def scattered(**change):
    """Rows with the mean and the standard deviation of drawn runs, and what is changed."""
    rng = np.random.default_rng(3)
    rows = []
    for values in SETTINGS:
        setting = dict(zip(NAMES, values, strict=True))
        run = iclimit.simulate_errors(**setting, rng=rng, repeats=RUNS)
        row = setting | {"runs": RUNS}
        for name in ("icl", "idg"):
            samples = getattr(run, name).samples
            samples = change.get("samples", lambda values, _: values)(samples, rng)
            bar = np.std(samples, ddof=1) * change.get("factor", 1.0)
            row |= {name: np.mean(samples), f"{name}_{change.get('given', 'sd')}": bar}
        rows.append(row | change.get("row", {}))
    return rows


def test_the_predicted_scatter_holds():
    check = check_runs(scattered(), draws=10)
    assert check.scatter["icl"].holds
    assert check.scatter["idg"].holds
    assert not check.hints


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"factor": RUNS**-0.5}, "standard deviations are standard errors of the mean"),
        ({"given": "se"}, "standard errors are standard deviations of single runs"),
        ({"given": "se", "factor": RUNS**-0.5, "row": {"runs": 200}}, "times as many runs"),
        (
            # Squared Gaussian residuals of 40 test prompts have the relative variance 2/40.
            {"samples": lambda values, rng: values * rng.chisquare(40, len(values)) / 40},
            "test prompts",
        ),
        ({"factor": 0.45}, "runs share prompts or seeds"),
    ],
)
def test_a_scatter_unlike_the_predicted_one_is_named(change, says, monkeypatch):
    monkeypatch.setattr(f"{CHECK}.explain", lambda *_, **__: Explanations([], 0, []))
    rows = scattered(**change)
    check = check_runs(rows, draws=10)
    hints = [each for each in check.hints if each.startswith(("ICL", "IDG"))]
    assert len(hints) == 2
    assert all(says in each for each in hints)
    if says == "test prompts":
        for each in hints:
            assert 20 < float(each.rpartition(" about ")[2].split()[0]) < 80


def test_copies_of_runs_are_found():
    runs = simulated(60, 5)
    rows = [
        row | {name: row[name][k % 5] for name in ("icl", "idg")} for row in runs for k in range(8)
    ]
    check = check_runs(rows, draws=5)
    assert check.scatter["icl"].copies == 3 * len(runs)
    assert any("12 single ICL errors repeat another one" in each for each in check.hints)


@pytest.mark.machine
def test_a_row_that_cannot_be_predicted_leaves_the_others(table):
    # A ridge beside which float64 loses all else.  Moments that are singular, those of one task
    # without noise, would depend on rounding: not every processor notices that they are.
    setting = {"dim": 4, "context": 6, "tasks": 1, "prompts": 20, "rho": 0.1, "ridge": 1e17}
    rows = [*table[:2], dict.fromkeys(table[0], 1.0) | setting | {"icl": 1.0}]
    check = check_runs(rows, ignore="others", draws=2)
    assert check.rows()[2]["icl_z"] is None
    assert check.judged == check_runs(table[:2], ignore="others", draws=2).judged > 0
    [note] = [note for note in check.notes if "not judged" in note]
    assert note.startswith("row 3")


GOOD = {"dim": 10, "alpha": 1.0, "kappa": 0.5, "tau": 2.0, "rho": 0.1, "icl": 1.0, "icl_se": 0.1}


def test_nothing_is_guessed():
    for changes, options, message in (
        ({"alpha": 1.23}, {}, r"row 1: alpha gives 12.3 context, which is no integer: give"),
        ({"alpha": 0.01}, {"rounding": "floor"}, "row 1: alpha gives 0.1 context, but there must"),
        ({"dim": 10.5}, {}, r"row 1: dim must be an integer >= 1, got 10.5"),
        ({"context": 15}, {}, r"row 1: alpha gives 10 context, but the column context has 15"),
        ({"dim": None}, {}, "row 1: dim is missing"),
        ({"rho": ...}, {}, "needs a column rho or noise_variance, one of them"),
        ({"noise_variance": 0.1}, {}, "needs a column rho or noise_variance, only one of them"),
        ({"kappa": ...}, {}, "needs a column tasks or kappa"),
        ({"dim": ...}, {}, "needs a column dim, or dim among the parameters"),
        (
            {"icl": ..., "icl_se": ...},
            {},
            "needs a column icl, idg, gap, accuracy, idg_accuracy: what was measured",
        ),
        ({"icl_se": 0}, {}, "row 1: icl_se must be > 0 and finite, got 0"),
        ({"icl_sd": 1}, {}, "icl_se and icl_sd say the same: ignore one of them"),
        ({"icl_se": ..., "icl_sd": 0.1}, {}, "icl_sd needs a column runs"),
        ({"icl_se": ..., "icl_sd": 0.1, "runs": 1}, {}, "row 1: runs must be from 2 to"),
        ({"icl": 1e300}, {}, r"row 1: icl must be > -1e\+50 and < 1e\+50, got 1e\+300"),
        ({"icl": "3 %"}, {}, "row 1: icl must be a number, got '3 %'"),
        ({"tau": -1}, {}, "row 1: tau must be > 0 and finite, got -1; perhaps tau is a logarithm"),
        ({"seed": 1}, {}, "unknown column 'seed'"),
        ({"icl_std": 1}, {}, "unknown column 'icl_std'; did you mean icl_sd?"),
        ({"idg_stderr": 1}, {}, "unknown column 'idg_stderr'; did you mean idg_se?"),
        ({"idg_mean": 1}, {}, "unknown column 'idg_mean'; did you mean idg?"),
        ({"numavg": 1}, {}, "unknown column 'numavg'; did you mean runs"),
        ({"lam": 1}, {}, r"unknown column 'lam'; did you mean ridge \(ridge of pretraining\)"),
        ({}, {"convention": "lu"}, "convention must be one of lu2025, .*, got 'lu'"),
        ({}, {"rounding": "up"}, "rounding must be one of exact, nearest, floor, ceil, got 'up'"),
        ({}, {"ddof": 2}, "ddof must be 0 or 1, got 2"),
        ({}, {"task_sets": "several"}, "task_sets must be one of many, one, got 'several'"),
        ({}, {"task_law": "cube"}, "task_law must be one of sphere, gaussian, got 'cube'"),
        ({}, {"draws": 0}, "draws must be an integer >= 1, got 0"),
        ({}, {"draws": 1, "task_sets": "one"}, "draws must be >= 2 for the spread"),
        ({}, {"parameters": {"rho": 1}}, "rho must be a column or among the parameters, not both"),
        ({}, {"parameters": {"rihdge": 1}}, "parameters must name one of .*did you mean ridge?"),
        ({"runs": 2.5}, {}, "row 1: runs must be an integer >= 1, got 2.5"),
        ({"idg": 1, "idg_se": 0.1, "gap": 0, "gap_se": 0.3}, {}, "row 1: gap_se must be an error"),
        ({"icl": 1 + 1j}, {}, r"row 1: icl must be a number, got \(1\+1j\)"),
        ({"icl": np.complex128(1 + 1j)}, {}, "row 1: icl must be a number, got np.complex128"),
        (
            {"estimator": "bayes"},
            {},
            "row 1: estimator must be one of attention, dmmse, ridge, got",
        ),
    ):
        row = {name: value for name, value in (GOOD | changes).items() if value is not ...}
        value_error(message, check_runs, [row], **options)


def test_means_of_one_setting_are_pooled():
    low = GOOD
    high = GOOD | {"icl": 2.0, "icl_se": 0.2}
    (pooled,) = read_runs([low, high], convention=CONVENTIONS["lu2025"])
    assert pooled.rows == (1, 2)
    assert pooled.errors["icl"].mean == pytest.approx(1.2)  # weights 4 and 1
    assert pooled.errors["icl"].standard_error == pytest.approx(1 / math.sqrt(125))
    # As one mean over all runs.
    rows = [low | {"runs": 10}, high | {"runs": 30}]
    (pooled,) = read_runs(rows, convention=CONVENTIONS["lu2025"])
    assert (pooled.runs, pooled.errors["icl"].mean) == (40, 1.75)
    assert pooled.errors["icl"].standard_error == pytest.approx(math.hypot(0.25 * 0.1, 0.75 * 0.2))


def test_extreme_rows_are_not_judged_or_contradict(monkeypatch):
    monkeypatch.setattr(f"{CHECK}.explain", lambda *_, **__: Explanations([], 0, []))
    rows = [GOOD, GOOD | {"dim": 10**9}, GOOD | {"kappa": 1e9, "icl": 0.0}]
    check = check_runs(rows, draws=2)
    assert check.judged == 1
    assert sum("predictions go up to" in note for note in check.notes) == 2
    # As many prompts as no memory holds, and contexts as long if columns are exchanged.
    long = check_runs([GOOD | {"tau": 1e15, "icl": 0.5}], draws=2)
    assert (long.judged, long.holds) == (1, False)
    zero = check_runs([GOOD | {"icl": 0.0}], draws=2)
    assert (zero.judged, zero.holds) == (1, False)
    for columns in (["icl"], {"icl": 3}):
        with pytest.raises(TypeError, match="columns must map names to those of the table, got"):
            check_runs([GOOD], columns=columns)
    type_error("parameters must map names to values, got", check_runs, [GOOD], parameters=["rho"])


def test_command_says_by_its_status_what_the_table_says(tmp_path, table, capsys):
    file = tmp_path / "runs.json"
    row = {key: value for key, value in table[2].items() if key not in ("rho", "idg", "idg_se")}
    row["tasks"] = "inf"
    row["test_loss"] = row.pop("icl")
    file.write_text(json.dumps([row]))
    arguments = ["check", str(file), "--columns", "icl=test_loss", "--draws", "2"]
    assert main([*arguments, "--rho", "0.4"]) == 0
    assert "The table agrees with the theory." in capsys.readouterr().out
    assert main([*arguments, "--rho", "0.04", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["holds"]
    assert found["explanations_tried"] > 10
    for ending in ("csv", "json", "png"):
        target = tmp_path / f"out.{ending}"
        assert main([*arguments, "--rho", "0.4", "-o", str(target)]) == 0
        assert target.stat().st_size > 100
        assert "chi-square" in capsys.readouterr().out
    assert "icl_z" in (tmp_path / "out.csv").read_text()
    assert main([*arguments, "--rho", "0.4", "--format", "csv"]) == 0
    assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "unknown column 'test_loss'"),
        (("--columns", "icl"), "must be NAME=COLUMN"),
        (("--columns", "icl=a", "--columns", "icl=b"), "argument --columns: must name icl once"),
        (("--columns", "icl=test_loss", "--prompts", "9"), "prompts must be a column or among"),
        (
            ("--columns", "icl=test_loss", "--seed", "-1"),
            "--seed: must be an integer >= 0, got '-1'",
        ),
        (("--columns", "icl=test_loss"), "nothing is judged"),
    ],
)
def test_what_cannot_be_used_has_the_status_2(tmp_path, capsys, flags, message):
    file = tmp_path / "runs.csv"
    file.write_text("dim,context,tasks,prompts,rho,test_loss\n8,8,inf,72,0.1,1.0\n")
    try:
        status = main(["check", str(file), *flags])
    except SystemExit as error:
        status = int(str(error.code))
    assert status == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_z_is_standard_normal_for_runs_that_follow_the_theory():
    """120 tables of a row; the prediction is made once.  Twelve runs: Student's t counts."""
    setting = dict(zip(NAMES, (16, 32, 8, 300, 0.2, 0.05), strict=True))
    run = iclimit.simulate_errors(**setting, rng=11, repeats=1440)
    experiment = Experiment.of(**setting)
    prediction = predict(MeasuredRun((1,), experiment, {}), Theory())
    z = []
    for samples in run.icl.samples.reshape(120, 12):
        errors = {"icl": Estimate.of(samples)}
        measured = MeasuredRun((1,), experiment, errors, runs=12)
        z.append(compare_run(measured, prediction, one_set=False).comparisons["icl"].z)
    law = ZDistribution.of(z)
    assert law.p_value > 1e-3
    assert law.width == pytest.approx(1, abs=4 / math.sqrt(2 * 120))
    assert sum(abs(each) > 3.29 for each in z) <= 2  # 0.12 expected


def test_tests_of_other_length_and_noise():
    """Runs that are tested otherwise agree if the table says so: the ICL error doubles by it."""
    setting = {"dim": 16, "context": 32, "tasks": 16, "rho": 0.2, "ridge": 0.1}
    tests = {"test_context": 8, "test_rho": 0.6}
    rows = []
    for prompts in (200, 500):
        run = iclimit.simulate_errors(**setting, **tests, prompts=prompts, rng=1, repeats=40)
        row = {**setting, **tests, "prompts": prompts}
        for name in ("icl", "idg"):
            error = getattr(run, name)
            row |= {name: error.mean, f"{name}_se": error.standard_error}
        rows.append(row)
    check = iclimit.check_runs(rows)
    assert check.holds, str(check)
    assert "test_context=8" in check.deviations[0].run.label
    with pytest.raises(ValueError, match="test_context and test_rho: only attention"):
        iclimit.check_runs([row | {"estimator": "ridge"} for row in rows])
    fit = iclimit.fit_runs([row | {"ridge": 0.2} for row in rows], "ridge")
    (found,) = fit.parameters
    assert abs(found.value - 0.1) < 3.5 * found.standard_error


@pytest.mark.parametrize("bar", [1e-160, 1e160, 5e-324, 1e308])
@pytest.mark.parametrize("row", [1, 2, 3])
def test_error_bars_whose_weights_are_infinite_or_zero_are_refused(bar, row):
    """Two of the rows are of one setting, so that they are weighted."""
    bars = [0.01, 0.01, 0.01]
    bars[row - 1] = bar
    table = {"dim": [40] * 3, "alpha": [2, 2, 1], "tau": [2] * 3, "kappa": [0.5] * 3}
    table |= {"icl": [9.9, 1.19, 1.37], "icl_se": bars, "rho": [0.01] * 3}
    message = re.escape(f"got {bar:g}")
    message = f"row {row}: icl_se must give a standard error from 1e-50 to 1e.50 .*{message}"
    for function in (iclimit.check_runs, iclimit.fit_runs):
        with pytest.raises(ValueError, match=message):
            function(table)


@pytest.mark.parametrize("bar", [1e-49, 1e49])
def test_rows_with_extreme_error_bars_are_judged(tried, bar):
    """A mean that is exactly known contradicts, and one that is not known at all does not."""
    tried()
    table = {"dim": [40] * 2, "alpha": [2, 1], "tau": [2] * 2, "kappa": [0.5] * 2}
    table |= {"icl": [9.9, 1.37], "icl_se": [bar, 0.007], "rho": [0.01] * 2}
    check = iclimit.check_runs(table)
    assert check.judged == 2
    assert check.holds == (bar > 1)
    assert iclimit.fit_runs(table).holds == (bar > 1)


def test_other_numbers_of_rows_that_over_or_underflow_are_refused():
    row = {"dim": 16, "context": 16, "tasks": 16, "prompts": 256, "rho": 0.1}
    row |= {"ridge": 0.1, "icl": 1.0, "icl_se": 0.1, "runs": 3}
    for name, value in (("rho", 1e200), ("ridge", 1e-320), ("ridge", 1e60), ("icl", -1e90)):
        message = f"row 2: {name} must be .*, got {re.escape(str(value))}"
        with pytest.raises(ValueError, match=message):
            iclimit.check_runs([row, row | {name: value}])
    with pytest.raises(ValueError, match=r"row 1: runs must be .*, got 1e\+300"):
        iclimit.check_runs([row | {"runs": 1e300}])
    deviations = {**row, "icl_sd": 1e-49, "runs": 10**15}
    del deviations["icl_se"]
    with pytest.raises(
        ValueError, match=r"row 1: icl_sd must give a standard error .*, got 1e-49"
    ):
        iclimit.check_runs([deviations])


def test_equal_single_runs_are_said_to_share_seeds():
    row = {"dim": 16, "context": 16, "tasks": 16, "prompts": 512, "rho": 0.1, "icl": 1.5}
    assert "runs share prompts and seeds" in str(iclimit.check_runs([row] * 3))


def uniform_table(convention, seed, *, runs, sizes):
    """Means of runs with uniform inputs, in the units of a convention."""
    rows = []
    for dim, context, tasks, prompts in sizes:
        setting = {"dim": dim, "context": context, "tasks": tasks, "prompts": prompts, "rho": 0.1}
        rng = np.random.default_rng([seed, prompts])
        errors = np.array(
            [plain_errors(rng, **setting, ridge=0.02, law="uniform") for _ in range(runs)]
        )
        units = convention.units(dim=dim, context=context)
        values = errors * units.factor("difference")
        means = np.mean(values, axis=0)
        deviations = np.std(values, axis=0, ddof=1)
        row = setting | {"ridge": units.from_library("ridge", 0.02), "runs": runs}
        row |= {"icl": means[0], "idg": means[1], "icl_sd": deviations[0], "idg_sd": deviations[1]}
        rows.append(row)
    return rows


def test_true_table_of_uniform_inputs_agrees(tried):
    """Its errors are some 5 % lower than those of Gaussian inputs."""
    tried()
    convention = CONVENTIONS["blog2024"]
    rows = uniform_table(convention, 1, runs=50, sizes=[(10, 10, 5, 200), (10, 10, 5, 300)])
    check = iclimit.check_runs(rows, convention=convention)
    assert check.holds
    assert "corrected to order 1/d for uniform inputs" in str(check)
    gaussian = replace(convention, input_law="gaussian")
    assert not iclimit.check_runs(rows, convention=gaussian).holds
    (rho,) = iclimit.fit_runs(
        [row | {"rho": 0.08} for row in rows], convention=convention
    ).parameters
    assert rho.low_95 < 0.1 < rho.high_95


@pytest.mark.slow
def test_z_of_true_tables_of_uniform_inputs():
    """Some seventy z, of variance at most 1, as the correction is added to the uncertainty."""
    scores = []
    held = 0
    for seed in range(12):
        convention = CONVENTIONS[("vonoswald2023", "blog2024")[seed % 2]]
        dim, context, tasks = [(10, 10, 5), (10, 20, 10), (12, 24, 12)][seed % 3]
        sizes = [(dim, context, tasks, int(tau * dim**2)) for tau in (0.5, 2, 4)]
        rows = uniform_table(convention, seed, runs=60, sizes=sizes)
        check = iclimit.check_runs(rows, convention=convention)
        held += bool(check.holds)
        scores += [each.z for row in check.deviations for each in row.comparisons.values()]
    assert held >= 11
    assert abs(np.mean(scores)) < 1
    assert np.std(scores) < 1.4
    assert max(map(abs, scores)) < 4


def test_the_figure_of_a_single_run_marks_one_row_and_says_what_it_found():
    run = {"dim": 40, "context": 40, "tasks": 20, "prompts": 3200, "rho": 0.1}
    check = check_runs([run | {"icl": 0.817, "icl_se": 0.004}])
    figure = new_figure()
    for ax in check.draw_figure(figure):
        low, high = ax.get_xlim()
        assert [tick for tick in ax.get_xticks() if low < tick < high] == [1]
    first, second = figure.get_suptitle().split("\n")
    assert first == "The table contradicts the theory, by more than 100 standard errors at worst."
    assert second == "It would agree if errors are half the squared errors."
    assert figure.get_supxlabel().startswith("chi-square")


def test_what_a_table_says_is_said_in_sentences():
    """Deviations that would have been noticed, the law of z, and an assumption."""
    rows = [
        {"dim": 40, "context": 40, "tasks": 20, "prompts": 400 * n, "rho": 0.1, "ridge": 0.1}
        for n in range(4, 10)
    ]
    for row in rows:
        predicted = iclimit.finite_size_errors(**row, rng=0)
        row |= {"icl": predicted.icl.mean, "icl_se": 0.01 * predicted.icl.mean}
        row |= {"idg": predicted.idg.mean, "idg_se": 0.01 * predicted.idg.mean}
    text = str(check_runs(rows))
    assert re.search(
        r"z of ICL over 6 rows: mean -?0\.\d\d, standard deviation 0\.\d\d "
        r"\(expected 0 and 1; p = [\d.e-]+\)",
        text,
    )
    assert re.search(
        r"A deviation of all ICL errors by [\d.]+ % or of all IDG errors by [\d.]+ % "
        r"would have been noticed \(probability 95 %\)\.",
        text,
    )
    assert "ICL and IDG of one row may share their scatter" in text


def test_the_figure_says_the_size_of_the_worst_deviation_without_its_sign():
    run = {"dim": 40, "context": 40, "tasks": 20, "prompts": 3200, "rho": 0.1}
    mean = iclimit.finite_size_errors(**run, rng=0).icl.mean
    check = check_runs([run | {"icl": 0.9 * mean, "icl_se": 0.005 * mean}])
    assert check.verdict.worst.z < 0
    figure = new_figure()
    check.draw_figure(figure)
    head = figure.get_suptitle().split("\n")[0]
    assert re.fullmatch(r".* theory, by \d+\.\d standard errors at worst\.", head)
