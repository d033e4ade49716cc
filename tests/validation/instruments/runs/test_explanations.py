"""Mistakes planted by scripts in plain NumPy are named, and effective values are called so."""

import math
from dataclasses import replace

import numpy as np
import pytest
from plain_runs import plain_errors
from refusals import value_error
from scipy.stats import chi2

import iclimit
from iclimit.cli import main
from iclimit.experiment import Experiment
from iclimit.results import Estimate
from iclimit.simulate.pretraining import sample
from iclimit.simulate.pretraining.variants import Variant, _Draws, _prompts, variant_errors
from iclimit.validation import check_runs
from iclimit.validation.instruments.runs import explanations
from iclimit.validation.instruments.runs.explanations import Fit
from iclimit.validation.instruments.runs.judgement import ChiSquare
from iclimit.validation.instruments.runs.mistakes import mistakes
from iclimit.validation.instruments.runs.scatter import ScatterRatio

NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")
SETTINGS = (
    (10, 20, 5, 180, 0.1, 0.05),
    (10, 10, 5, 200, 0.2, 0.1),
    (10, 20, 20, 300, 0.1, 0.05),
    (10, 40, 5, 300, 0.1, 0.1),
    (10, 10, 20, 400, 0.3, 0.05),
    (10, 30, 10, 250, 0.2, 0.2),
)
RUNS = 24


@pytest.fixture
def only(monkeypatch):
    """Tries only mistakes that begin with these words."""

    def choose(*words):
        def chosen(*arguments, **options):
            tried = mistakes(*arguments, **options)
            return [row for row in tried if any(row.text.startswith(word) for word in words)]

        monkeypatch.setattr(explanations, "mistakes", chosen)

    return choose


def contexts(rng, tasks, context, rho, inputs):
    """Summaries of one context of each task (m, d + 1)."""
    count, dim = tasks.shape
    x = inputs(rng, (count, context, dim))
    y = np.einsum("mld,md->ml", x, tasks) + math.sqrt(rho) * rng.normal(size=(count, context))
    products = dim / context * np.einsum("ml,mld->md", y, x)
    return np.concatenate([products, np.mean(y**2, axis=1)[:, None]], axis=1)


def gaussian(rng, shape):
    return rng.normal(size=shape) / math.sqrt(shape[-1])


def on_a_sphere(rng, shape):
    x = rng.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def on_sphere(rng, count, dim):
    return math.sqrt(dim) * on_a_sphere(rng, (count, dim))


def script(rng, setting, *, inputs=gaussian, columns=slice(None), noise=1.0, longer=1):
    """ICL and IDG error of one run, written as people write it."""
    dim, context, tasks, prompts, rho, ridge = setting
    known = on_sphere(rng, tasks, dim)
    drawn = known[rng.integers(tasks, size=prompts)]
    h = contexts(rng, drawn, context, rho, inputs)[:, columns]
    q = inputs(rng, (prompts, dim))
    y = np.sum(q * drawn, axis=1) + noise * math.sqrt(rho) * rng.normal(size=prompts)
    features = np.einsum("ni,nj->nij", q, h).reshape(prompts, -1)
    normal = features.T @ features + ridge * prompts / dim * np.eye(features.shape[1])
    gamma = np.linalg.solve(normal, features.T @ y).reshape(dim, -1)
    errors = []
    for tested in (on_sphere(rng, 300, dim), known[rng.integers(tasks, size=300)]):
        h = contexts(rng, tested, longer * context, rho, inputs)[:, columns]
        errors.append(np.mean(np.sum((tested - h @ gamma.T) ** 2, axis=1)) / dim + rho)
    return errors


def planted(seed, seeds=1, **change):
    """Table of means of runs of a script, of which each is the best of so many seeds."""
    rng = np.random.default_rng(seed)
    rows = []
    for setting in SETTINGS:
        runs = np.array([script(rng, setting, **change) for _ in range(RUNS * seeds)])
        runs = runs.reshape(RUNS, seeds, 2).min(axis=1)
        row = dict(zip(NAMES, setting, strict=True)) | {"runs": RUNS}
        for name, values in zip(("icl", "idg"), runs.T, strict=True):
            row |= {name: values.mean(), f"{name}_se": values.std(ddof=1) / math.sqrt(RUNS)}
        rows.append(row)
    return rows


# What a script does, the mistake that it is, and values that look like it.
SCRIPTS = {
    "inputs on a sphere": (
        {"inputs": on_a_sphere},
        "inputs are uniform on a sphere",
        "contexts are",
    ),
    "no squared labels": ({"columns": slice(-1)}, "Gamma has no column of squared", "there are"),
    "queries without noise": ({"noise": 0.0}, "labels of queries have no noise", "there are"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_experiments_without_a_theory_are_simulated_and_named(only, name):
    change, words, like = SCRIPTS[name]
    only(words, like)
    check = check_runs(planted(1, **change))
    assert not check.holds
    best = check.fits[0]
    assert words in best.text
    assert best.likelihood == 1
    assert best.simulated >= 8
    assert all(fit.effective and fit.likelihood < 0.1 for fit in check.fits[1:])
    assert "simulated runs of a row" in str(check)


@pytest.mark.slow
def test_another_length_of_test_contexts_is_found_with_its_value(only):
    only("test contexts are", "contexts are")
    check = check_runs(planted(2, longer=2))
    best = check.fits[0]
    assert best.text.startswith("test contexts are")
    assert 2 * (best.lower - best.value) < 2 - best.value < 2 * (best.upper - best.value)
    assert best.effective
    assert best.likelihood < 1


@pytest.mark.slow
def test_the_only_effective_value_never_has_the_likelihood_one(only):
    only("contexts are")
    check = check_runs(planted(3, inputs=on_a_sphere), draws=10)
    (fit,) = check.fits
    assert "contexts are effectively 1." in fit.text
    assert fit.likelihood < 0.1
    assert "may stand for: inputs of fixed norm" in str(check)
    assert "they say how it differs, not why" in str(check)


@pytest.mark.slow
def test_the_best_of_four_seeds_is_named_before_a_larger_ridge(only):
    only("each run is the best", "the ridge is")
    check = check_runs(planted(6, seeds=4))
    best = check.fits[0]
    assert "best of effectively" in best.text
    assert best.lower < 4 < best.upper
    assert best.likelihood < 1


def fit(text, misfit, z, **options):
    return Fit(text, ChiSquare(1.0, len(z), len(z)), misfit, z=tuple(z), **options)


def test_explanations_that_a_table_does_not_tell_apart_are_one_group():
    fits = [
        fit("far", 1.0, [4.0, 0.0]),
        fit("like the first", 5.0, [0.0, 3.0]),
        fit("the first", 0.0, [0.0, 0.0]),
        fit("wider bars", 2.0, [0.0, 0.0], weak=True),
    ]
    ordered = explanations._in_groups(fits, 1.0)
    assert [row.text for row in ordered] == ["the first", "like the first", "far", "wider bars"]
    assert [row.like for row in ordered] == ["", "the first", "", ""]
    # Deviations that are correlated say less: all three differ by a chi-square below 10.
    ordered = explanations._in_groups(fits, 0.5)
    assert [row.like for row in ordered] == ["", "the first", "the first", ""]


def test_what_an_effective_value_beats_clearly_settles_nothing():
    """As uniform inputs of d = 10, which look like longer contexts, and less like a factor."""
    half = fit("errors are divided by the variance", -38.1, [0.0, 0.0])
    longer = fit("contexts are longer", -37.1, [0.0], effective="inputs", searched=10.5)
    assert explanations._settled([half])
    assert not explanations._settled([half, longer])
    assert explanations._settled([half, replace(longer, searched=4.0)])
    assert not explanations._settled([])


@pytest.mark.parametrize("degrees", [4.0, 8.0, 30.0])
def test_error_bars_are_blamed_by_the_odds_of_their_scatter(degrees):
    """Against the law of the logarithm of the root of chi-square over its degrees of freedom."""
    law = chi2(degrees)
    step = 1e-4
    for ratio in (0.0, 0.4, 0.7, 1.0, 1.3, 2.0):
        ends = degrees * (ratio * np.exp([-step / 2, step / 2])) ** 2
        odds = np.diff(law.cdf(ends))[0] / step * math.log(100)
        row = ScatterRatio(ratio, degrees, 0.1, 24, 0, 0.5, "standard errors")
        assert explanations._odds_of_runs(row) == pytest.approx(odds, rel=1e-5, abs=1e-12)


def test_plain_code_without_a_difference_has_the_errors_of_other_plain_code():
    setting = {"dim": 6, "context": 9, "tasks": 4, "prompts": 70, "rho": 0.2, "ridge": 0.1}
    run = Experiment.of(**setting, task_law="gaussian")
    ours = variant_errors([(run, Variant())], rng=1, repeats=150)[0]
    rng = np.random.default_rng(2)
    theirs = np.array([plain_errors(rng, **setting, law="gaussian") for _ in range(150)])
    for first, second in zip(ours.T, theirs.T, strict=True):
        one = Estimate.of(first)
        other = Estimate.of(second)
        z = (one.mean - other.mean) / math.hypot(one.standard_error, other.standard_error)
        assert abs(z) < 4
    value_error(
        "dim must be <= 32 for dense code, got 40",
        variant_errors,
        [(Experiment.of(**setting | {"dim": 40}), Variant())],
        rng=0,
        repeats=1,
    )


def test_plain_code_with_a_link_has_the_errors_of_runs_by_the_law_of_contexts():
    labels = {"link": "relu", "flips": 0.1}
    setting = {"dim": 6, "context": 9, "tasks": 4, "prompts": 70, "rho": 0.2, "ridge": 0.1}
    run = Experiment.of(**setting, **labels)
    ours = variant_errors([(run, Variant())], rng=1, repeats=150)[0]
    theirs = sample(run, rng=2, repeats=600)
    for errors, other in zip(ours.T, (theirs.icl, theirs.idg), strict=True):
        one = Estimate.of(errors)
        z = (one.mean - other.mean) / math.hypot(one.standard_error, other.standard_error)
        assert abs(z) < 4


@pytest.mark.parametrize(("law", "extra"), [("gaussian", 1), ("sphere", -1), ("rademacher", -1)])
def test_products_of_a_context_have_the_norm_of_their_law(law, extra):
    """|E h|^2/d is 1 + (d + 1 + rho d)/l, or 1 + (d - 1 + rho d)/l where inputs have |x| = 1."""
    dim, context, rho = 8, 5, 0.3
    tasks = on_sphere(np.random.default_rng(0), 20_000, dim)
    problem = iclimit.Problem(dim, context, noise_variance=rho)
    summaries = _prompts(_Draws(3), "icl", tasks, problem, Variant(law)).summaries
    norms = Estimate.of(np.sum(summaries[:, :dim] ** 2, axis=1) / dim)
    expected = 1 + (dim + extra + rho * dim) / context
    assert abs(norms.mean - expected) < 4 * norms.standard_error


def test_two_wrong_rows_are_named_together(only):
    only("no such mistake")
    rows = planted(4)
    rows[2] |= {"icl": 1.6 * rows[2]["icl"]}
    rows[5] |= {"idg": 0.7 * rows[5]["idg"]}
    check = check_runs(rows, draws=10)
    assert check.fits[0].left_out == (3, 6)
    assert check.fits[0].text == "rows 3 and 6 are left out"
    assert check.fits[0].likelihood < 1
    assert "width" not in str(check)  # of z of a table that contradicts the theory


# What is in the table instead of an error, and the mistake that it is.
REPORTED = {
    "errors are in per cent": lambda e, _: 100 * e,
    "errors are R^2, one minus error over 1 + rho": lambda e, rho: 1 - e / (1 + rho),
    "errors are in dB, 10 times the logarithm to base 10": lambda e, _: 10 * np.log10(e),
    "errors are natural logarithms": lambda e, _: np.log(e),
    "errors are divided by the dimension": lambda e, _: e / 10,
}


@pytest.mark.parametrize("text", REPORTED)
def test_numbers_of_another_kind_are_named(only, text):
    only("errors are")
    rng = np.random.default_rng(5)
    rows = []
    for setting in SETTINGS:
        runs = np.array([script(rng, setting)[0] for _ in range(RUNS)])
        values = REPORTED[text](runs, setting[4])
        row = dict(zip(NAMES, setting, strict=True)) | {"runs": RUNS, "icl": values.mean()}
        rows.append(row | {"icl_se": values.std(ddof=1) / math.sqrt(RUNS)})
    check = check_runs(rows, draws=10)
    # Rows of nearly the same noise hardly tell kinds of R^2.
    assert text in [fit.text for fit in check.fits if fit.likelihood > 0.1]
    assert check.fits[0].text[:13] == text[:13]


def test_error_bars_over_batches_of_one_run_are_named(only):
    only("each row is one trained run", "standard deviations are")
    rng = np.random.default_rng(11)
    rows = []
    for setting in SETTINGS:
        error = script(rng, setting)[0]
        batches = error * (1 + 0.04 * rng.normal(size=10))
        row = dict(zip(NAMES, setting, strict=True)) | {"icl": batches.mean()}
        rows.append(row | {"icl_sd": batches.std(ddof=1), "runs": 10})
    check = check_runs(rows, draws=10)
    assert not check.holds
    assert any("each row is one trained run" in fit.text for fit in check.fits)


@pytest.mark.slow
def test_ratios_that_are_upside_down_are_named(only):
    only("alpha is")
    rows = planted(7)
    for row in rows:
        row["alpha"] = row["dim"] / row.pop("context")
    check = check_runs(rows, draws=10, rounding="nearest")
    assert check.fits[0].text == "alpha is upside down, d/l"


def test_impossible_errors_are_named_first(only):
    only("no such mistake")
    rows = planted(8)
    rows[0] |= {"icl": -0.2}
    rows[3] |= {"idg": 0.05, "idg_se": 0.004}  # below the label noise
    # Below ridge regression, the Bayes estimator on fresh tasks, but possible with the noise.
    rows[4] |= {"icl": 0.55, "icl_se": 0.01}
    check = check_runs(rows, draws=10)
    assert not check.holds
    labels = [row.label[:5] for row in check.impossible]
    assert sorted(labels) == ["row 1", "row 4", "row 5"]
    causes = {row.label[:5]: row.cause for row in check.impossible}
    assert "a logarithm, in dB" in causes["row 1"]
    assert "the label noise of the query was left out" in causes["row 5"]
    assert check.conclusions[0].startswith("Impossible")
    assert not check_runs(planted(8), draws=10).impossible


def ridge_regression(rng, dim, context, rho, penalty, prompts=4000):
    """Squared errors of ridge regression on a context, inputs of variance 1."""
    x = rng.normal(size=(prompts, context, dim))
    w = rng.normal(size=(prompts, dim))
    y = np.einsum("mld,md->ml", x, w) + math.sqrt(rho * dim) * rng.normal(size=(prompts, context))
    normal = np.einsum("mli,mlj->mij", x, x) + penalty(context) * np.eye(dim)
    fitted = np.linalg.solve(normal, np.einsum("mli,ml->mi", x, y)[..., None])[..., 0]
    return np.sum((fitted - w) ** 2, axis=1) / dim + rho


PENALTIES = {
    "the penalty is 1, scikit-learn's default, for inputs of variance 1": lambda _: 1.0,
    "the penalty is beside the mean squared error, so l times as large": lambda length: (
        0.25 * length
    ),
}


@pytest.mark.parametrize("text", PENALTIES)
def test_penalties_of_ridge_regression_are_named_or_stated(tmp_path, capsys, text):
    rng = np.random.default_rng(9)
    penalty = PENALTIES[text]
    lines = ["dim,context,rho,icl,icl_se,penalty"]
    for context in (4, 8, 16, 32):
        error = Estimate.of(ridge_regression(rng, 8, context, 0.25 / 8, penalty), keep=False)
        # Inputs of the library have the variance 1/d.
        stated = penalty(context) / 8
        lines.append(f"8,{context},{0.25 / 8},{error.mean},{error.standard_error},{stated}")
    path = tmp_path / "ridge.csv"
    path.write_text("\n".join(lines))
    options = ["check", str(path), "--estimator", "ridge"]
    assert main(options) == 0
    printed = capsys.readouterr().out
    assert "The ridge is 0" not in printed
    assert main([*options, "--ignore", "penalty"]) == 1
    assert f"- if {text}" in capsys.readouterr().out
    value_error(
        "penalty is one of ridge regression, so estimator must be ridge",
        check_runs,
        [{**dict(zip(NAMES, SETTINGS[0], strict=True)), "icl": 1.0, "penalty": 1.0}],
    )


def test_plain_squared_errors_of_normal_inputs_have_a_convention():
    rows = planted(10)
    for row in rows:
        dim = row["dim"]
        noise = row.pop("rho") * dim
        row |= {name: dim * row[name] for name in ("icl", "icl_se", "idg", "idg_se")}
        # The mean loss plus ridge times the squared norm of Gamma in these units.
        row |= {"noise_variance": noise, "ridge": row["ridge"] / dim}
        row |= {"ridge": row["ridge"] * dim}
    for row in rows:
        row["ridge"] = (
            iclimit.units.CONVENTIONS["garg2022"]
            .units(dim=row["dim"], context=row["context"])
            .from_library("ridge", row["ridge"])
        )
    assert check_runs(rows, convention="garg2022", task_law="sphere", draws=10).holds
    for row in rows:
        row |= {name: row[name] - row["noise_variance"] for name in ("icl", "idg")}
    assert check_runs(rows, convention="ahn2023", task_law="sphere", draws=10).holds
