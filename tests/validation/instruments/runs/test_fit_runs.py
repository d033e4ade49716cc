"""Effective parameters of tables: those that predictions or simulations were made with."""

import json
import math
from functools import cache

import numpy as np
import pytest
from refusals import type_error, value_error

import iclimit
from iclimit.cli import main
from iclimit.experiment import Experiment
from iclimit.validation.instruments.runs.fitting import forecast_precision
from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory

PROMPTS = (150, 300, 500)
TRUE = {"dim": 16, "context": 32, "tasks": math.inf, "rho": 0.2, "ridge": 0.1}


@cache
def true_errors(prompts):
    return iclimit.finite_size_errors(**TRUE, prompts=prompts, rng=0)


def table_of(errors=lambda icl, idg: (icl, idg), bar=0.01, **stated):
    """Rows with exact predictions at the true parameters, and what the table says of these."""
    rows = []
    for prompts in PROMPTS:
        run = true_errors(prompts)
        pair = dict(zip(("icl", "idg"), errors(run.icl.mean, run.idg.mean), strict=True))
        bars = {f"{name}_se": bar * abs(value) for name, value in pair.items()}
        rows.append({**TRUE, "prompts": prompts, **pair, **bars, **stated})
    return rows


@pytest.mark.parametrize(
    ("name", "stated", "true", "errors"),
    [
        ("rho", {"rho": 0.05}, 0.2, None),
        ("ridge", {"ridge": 0}, 0.1, None),
        ("alpha", {"context": 24}, 2, None),
        ("factor", {}, 0.5, lambda icl, idg: (icl / 2, idg / 2)),
        ("offset", {}, -0.2, lambda icl, idg: (icl - 0.2, idg - 0.2)),
        ("task_norm", {"rho": 0.3, "ridge": 0.15}, 1.5, lambda icl, idg: (1.5 * icl, 1.5 * idg)),
    ],
)
def test_true_parameter_is_found(name, stated, true, errors):
    fit = iclimit.fit_runs(table_of(errors, **stated) if errors else table_of(**stated), name)
    (found,) = fit.parameters
    # Corrections are found at the fitted integers: what is left is rounding and their curvature.
    assert abs(found.value - true) < 0.15 * found.standard_error
    assert found.low_95 < found.low_68 < true < found.high_68 < found.high_95
    assert found.high_95 - found.low_95 == pytest.approx(3.92 * found.standard_error, rel=0.05)
    assert fit.holds
    assert fit.chi_square < 0.1


def test_tau_of_a_table_with_several_is_a_factor():
    rows = [row | {"prompts": 2 * row["prompts"]} for row in table_of()]
    (found,) = iclimit.fit_runs(rows, "tau").parameters
    assert found.factor
    assert found.start == 1
    assert found.value == pytest.approx(0.5, abs=0.2 * found.standard_error)


def test_tasks_are_found_although_their_number_is_small():
    true = {"dim": 16, "context": 32, "rho": 0.2, "ridge": 0.1, "prompts": 500}
    run = iclimit.finite_size_errors(**true, tasks=12, rng=0, draws=200)
    row = true | {"tasks": 8, "icl": run.icl.mean, "idg": run.idg.mean}
    fit = iclimit.fit_runs([row | {"icl_se": 0.003, "idg_se": 0.003}], "kappa")
    assert fit.values["kappa"] == pytest.approx(0.75, rel=0.06)


def test_two_parameters_and_the_missing_column():
    rows = [{k: v for k, v in row.items() if k != "rho"} for row in table_of(ridge=0.03)]
    fit = iclimit.fit_runs(rows, ["rho", "ridge"])
    assert fit.values == pytest.approx({"rho": 0.2, "ridge": 0.1}, rel=0.01)
    assert fit.degrees == 4
    true = iclimit.finite_size_errors(**TRUE, prompts=400)
    lacking = {"dim": [16], "context": [32], "tasks": [math.inf], "prompts": [400]}
    for table in (lacking, lacking | {"rho": [0.1], "ridge": [0.03]}):
        (row,) = fit.predict(table).rows()
        assert {"rho": row["rho"], "ridge": row["ridge"]} == pytest.approx(fit.values, rel=1e-12)
        assert row["icl"] == pytest.approx(true.icl.mean, rel=3e-3)


def test_band_of_a_prediction_is_the_error_of_the_factor():
    fit = iclimit.fit_runs(table_of(lambda icl, idg: (3 * icl, 3 * idg)), "factor")
    (row,) = fit.predict([{**TRUE, "prompts": 400}]).rows()
    true = iclimit.finite_size_errors(**TRUE, prompts=400).idg.mean
    assert row["idg"] == pytest.approx(3 * true, rel=1e-3)
    relative = fit.parameters[0].standard_error / fit.parameters[0].value
    assert row["idg_se"] / row["idg"] == pytest.approx(relative, rel=1e-4)


def test_single_runs_have_the_predicted_scatter():
    """The interval is that of the forecast, and it narrows as runs are added."""
    rows = []
    for prompts in PROMPTS:
        run = iclimit.simulate_errors(**TRUE, prompts=prompts, rng=prompts, repeats=6)
        pairs = zip(run.icl.samples, run.idg.samples, strict=True)
        rows += [{**TRUE, "prompts": prompts, "icl": icl, "idg": idg} for icl, idg in pairs]
    fit = iclimit.fit_runs([row | {"rho": 0.1} for row in rows])
    (found,) = fit.parameters
    settings = [TRUE | {"prompts": n, "rho": found.value, "ridge": 0.1} for n in PROMPTS]
    planned = [MeasuredRun((1,), Experiment.of(**each), {}, runs=6) for each in settings]
    expected = forecast_precision(planned, ["rho"], Theory()).standard_errors["rho"]
    assert found.standard_error / found.value == pytest.approx(expected, rel=0.02)
    assert abs(found.value - 0.2) < 3 * found.standard_error
    assert fit.p_value > 1e-3


# Four single runs of different contexts, at prompts on one side of the peak at n = d (d + 1).
PEAKED = {"dim": 14, "tasks": 14, "ridge": 0.1}
TRUTH = {"rho": 0.25, "tau": 1.8}


@cache
def peaked_runs(tables):
    """Simulated ICL and IDG errors (4 contexts, 2, tables), and their settings as stated."""
    prompts = round(TRUTH["tau"] * 14**2)
    contexts = (7, 14, 28, 56)
    runs = [
        iclimit.simulate_errors(
            **PEAKED, context=context, prompts=prompts, rho=TRUTH["rho"], rng=row, repeats=tables
        )
        for row, context in enumerate(contexts)
    ]
    stated = [{**PEAKED, "context": context, "prompts": 490, "rho": 0.15} for context in contexts]
    return [(run.icl.samples, run.idg.samples) for run in runs], stated


def peaked_fit(table, tables):
    samples, stated = peaked_runs(tables)
    rows = [
        row | {"icl": icl[table], "idg": idg[table]}
        for row, (icl, idg) in zip(stated, samples, strict=True)
    ]
    return iclimit.fit_runs(rows, list(TRUTH))


def test_the_lower_of_two_minima_on_both_sides_of_the_peak_is_found():
    """Errors are alike before and behind the peak; from the stated values the wrong side is lower.

    This one ended at tau = 0.72, with an interval of 95 % up to 0.86, when other minima were only
    looked for with corrections at the stated values.
    """
    for parameter in peaked_fit(13, 24).parameters:
        assert parameter.low_95 < TRUTH[parameter.name] < parameter.high_95


def test_another_minimum_is_reported():
    """Errors of two contexts, which are nearly the same before and behind the peak."""
    sizes = {"dim": 10, "tasks": math.inf, "prompts": 200, "rho": 0.25, "ridge": 0.1}
    rows = []
    for context in (5, 10):
        error = iclimit.finite_size_errors(**sizes, context=context).icl.mean
        rows.append({**sizes, "context": context, "icl": error, "icl_se": 0.1 * error})
    fit = iclimit.fit_runs(rows, "tau")
    (other,) = fit.other_minima
    (tau,) = fit.parameters
    assert (tau.value - 1.1) * (other["tau"] - 1.1) < 0  # n = d (d + 1) is tau = 1.1
    assert 0 <= other["rise"] < 5
    assert (tau.low_95 < other["tau"] < tau.high_95) == (other["rise"] < 3.84)
    assert f"There is another minimum at tau = {other['tau']:.4g}" in str(fit)
    assert fit.to_dict()["other_minima"] == [other]


def test_what_no_value_explains_does_not_hold():
    rows = table_of()
    rows[1]["idg"] *= 1.2
    fit = iclimit.fit_runs(rows, "rho")
    assert not fit.holds
    assert "no values explain the table" in str(fit)


def test_where_no_values_explain_a_table_nothing_is_said_of_intervals():
    """Errors in per cent: both parameters run to the ends of their ranges."""
    rows = [row | {"icl": 100 * row["icl"], "icl_se": 100 * row["icl_se"]} for row in table_of()]
    rows = [{name: row[name] for name in row if not name.startswith("idg")} for row in rows]
    fit = iclimit.fit_runs(rows, ["rho", "ridge"])
    assert not fit.holds
    text = str(fit)
    assert text.endswith(
        "no values explain the table.\niclimit check says which mistake would explain it."
    )
    for word in ("68 %", "95 %", "above", "below", "bounds", "not fixed", "told apart"):
        assert word not in text
    axes = fit.plot()
    assert [ax.get_xlabel() for ax in axes] == ["row"]
    words = axes[0].figure.get_suptitle() + axes[0].figure.get_supxlabel()
    assert words == "".join(fit.conclusions)


def test_what_is_not_told_apart_is_said():
    fit = iclimit.fit_runs(table_of()[:1], ["rho", "factor", "ridge"])
    assert fit.degrees == -1
    text = str(fit)
    assert "nothing is left to contradict them" in text
    assert "hardly told apart" in text or "not fixed" in text


def test_gap_alone_is_fitted_as_it_is():
    sizes = {**TRUE, "tasks": 8, "prompts": 500}
    run = iclimit.finite_size_errors(**sizes, rng=0, draws=100)
    row = {**sizes, "rho": 0.05, "gap": run.gap.mean, "gap_se": 0.02}
    fit = iclimit.fit_runs([row], "rho")
    assert abs(fit.values["rho"] - 0.2) < 0.5 * fit.parameters[0].standard_error


def test_results_and_figures(tmp_path, capsys):
    fit = iclimit.fit_runs(table_of(), ["rho", "ridge"])
    assert [row["name"] for row in fit.rows()] == ["rho", "ridge"]
    assert json.loads(json.dumps(fit.to_dict()))["holds"] is True
    axes = fit.plot()
    assert [ax.axison for ax in axes] == [True, False, True, True, True]
    assert axes[0].figure.get_suptitle() == fit.conclusions[0]
    words = axes[1].get_legend().get_title().get_text()
    ridge = fit.parameters[1]
    assert rf"$\lambda$: {ridge.low_95:.4g} to {ridge.high_95:.4g}" in words
    assert "joint regions: likelihood" in words
    file = tmp_path / "runs.csv"
    names = list(table_of()[0])
    lines = [",".join(names), *(",".join(map(str, row.values())) for row in table_of(rho=0.1))]
    file.write_text("\n".join(lines))
    assert main(["fit", str(file), "-o", str(tmp_path / "fit.png")]) == 0
    assert "the theory explains the table" in capsys.readouterr().out
    assert (tmp_path / "fit.png").stat().st_size > 10_000


def region_of(ax):
    """Smallest and largest values within the outer region of a pair that is drawn."""
    [lines] = [drawn for drawn in ax.collections if not drawn.get_fill() and drawn.get_paths()]
    vertices = lines.get_paths()[-1].vertices
    return np.min(vertices, axis=0), np.max(vertices, axis=0)


def test_the_region_of_two_parameters_that_are_known_well_is_that_of_normal_errors():
    """Two normal numbers are within it at 95 %: -2 ln 0.05 is the square of its radius."""
    fit = iclimit.fit_runs(table_of(bar=0.001), ["rho", "ridge"])
    reach = math.sqrt(-2 * math.log(0.05))
    found = region_of(fit.plot()[2])
    for sign, ends in zip((-1, 1), found, strict=True):
        for parameter, end in zip(fit.parameters, ends, strict=True):
            expected = parameter.value + sign * reach * parameter.standard_error
            # Bent by less than a tenth of the distance.
            assert end == pytest.approx(expected, abs=0.1 * reach * parameter.standard_error)


def test_three_parameters_have_ellipses_and_say_so():
    axes = iclimit.fit_runs(table_of(), ["rho", "ridge", "factor"]).plot()
    key = axes[2].get_legend()
    assert key.get_title().get_text().endswith("joint regions: ellipses")
    assert [text.get_text() for text in key.get_texts()][:2] == ["68 %", "95 %"]


def test_regions_that_are_not_drawn_say_why():
    row = {"dim": 16, "context": 32, "tasks": 16, "prompts": 300, "rho": 0.1, "ridge": 0.05}
    row |= {"icl": 1.4, "icl_se": 0.01}
    two = iclimit.fit_runs([row], ["rho", "alpha"]).plot()
    assert two[2].get_title() == "region: as thin as the lines"
    three = iclimit.fit_runs([row], ["rho", "alpha", "factor"]).plot()
    assert three[3].get_title().startswith("no region: ")


def test_a_parameter_at_the_end_of_its_range_is_drawn_as_a_bound():
    """The ellipse of a ridge that is not fixed reached to 1e301, and rounding set the digits."""
    sizes = {"dim": 8, "context": 8, "tasks": 16, "rho": 0.1}
    rows = []
    # The largest error near the threshold is larger than without a ridge.
    for prompts, factor in ((32, 1), (56, 1.1), (256, 1), (512, 1)):
        run = iclimit.finite_size_errors(**sizes, prompts=prompts, ridge=0, rng=0)
        error = factor * run.icl.mean
        rows.append(sizes | {"prompts": prompts, "icl": error, "icl_se": 0.03 * error})
    fit = iclimit.fit_runs(rows, ["rho", "ridge"])
    by_label = {ax.get_xlabel() + ax.get_ylabel(): ax for ax in fit.plot()}
    ridge = fit.parameters[1]
    profile = by_label[r"$\lambda$rise of chi-square"]
    assert profile.get_title() == rf"$\lambda$: below {ridge.high_68:.4g} (68 %)"
    pair = by_label[r"$\rho$$\lambda$"]
    assert pair.get_ylim()[1] < 100 * ridge.high_95
    # The region begins at the end of the range, and reaches further than the interval of one.
    low, high = region_of(pair)
    assert low[1] == pytest.approx(pair.get_ylim()[0])
    assert ridge.high_95 < high[1] < 3 * ridge.high_95


def test_a_noise_that_is_0_is_bounded_whether_the_table_has_a_column_of_it_or_not():
    """Without a column it could not come below .002, which no data asked for."""
    sizes = {"dim": 24, "context": 48, "tasks": 24, "ridge": 0.05}
    rows = []
    for prompts in (576, 1152, 2304):
        run = iclimit.finite_size_errors(**sizes, prompts=prompts, rho=0, rng=0)
        # Lower than without noise, by a standard error or less.
        rows.append(sizes | {"prompts": prompts, "icl": 0.99 * run.icl.mean, "icl_se": 0.01})
    [rho] = iclimit.fit_runs(rows, "rho").parameters
    [stated] = iclimit.fit_runs([row | {"rho": 0} for row in rows], "rho").parameters
    assert rho.value < 1e-4
    assert rho.high_95 == pytest.approx(stated.high_95, rel=1e-3)
    assert "below" in str(iclimit.fit_runs(rows, "rho"))


def test_refusals(capsys):
    rows = table_of()
    value_error("did you mean ridge", iclimit.fit_runs, rows, "rigde")
    type_error("free must be a name or several names, got 3", iclimit.fit_runs, rows, 3)
    type_error("roundng", iclimit.fit_runs, rows, roundng="nearest")
    with pytest.raises(ValueError, match="estimator must be 'attention' in all rows"):
        iclimit.fit_runs([row | {"estimator": "ridge"} for row in rows])
    threshold = [row | {"prompts": 16 * 17, "ridge": 0} for row in rows[:1]]
    value_error("there is no finite prediction", iclimit.fit_runs, threshold)
    unbarred = [{k: v for k, v in threshold[0].items() if not k.endswith("_se")}]
    unbarred[0]["prompts"] += 2
    value_error("neither error bars nor a predicted scatter", iclimit.fit_runs, unbarred)
    assert main(["fit", "none.csv"]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_fitted_values_are_in_the_units_of_the_library():
    rows = table_of(lambda icl, idg: (icl / 2, idg / 2))
    fit = iclimit.fit_runs(rows, "factor")
    other = iclimit.fit_runs(
        [
            {k: v for k, v in row.items() if k not in ("rho", "ridge")}
            | {"noise_variance": 0.2, "ridge": 0.1}
            for row in rows
        ],
        "factor",
    )
    assert other.values == pytest.approx(fit.values)
    assert np.isfinite(fit.precision.fisher).all()
