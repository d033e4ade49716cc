"""Errors by position: evaluations as people write them, planted mistakes, models that know labels.

The evaluation is plain NumPy and shares nothing with the exact errors: its own prompts, its own
baselines, files as the code of Garg et al. writes them.
"""

import json

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.problem import Problem
from iclimit.validation.instruments.positions.check import check_positions

DIM = 6
CONTEXT = 20
PROMPTS = 1280  # as in that code
NOISE = 0.5


def averaging(x, y, query):
    return np.vecdot(np.mean(x * y[..., None], axis=1), query)


def least_squares(x, y, query):
    return np.vecdot((np.linalg.pinv(x) @ y[..., None])[..., 0], query)


def ridge(x, y, query, penalty=NOISE):
    gram = x.mT @ x + penalty * np.eye(x.shape[2])
    return np.vecdot(np.linalg.solve(gram, x.mT @ y[..., None])[..., 0], query)


def squares(predictors, *, noise, seed, query_noise=True, own_label=False):
    """Squared errors (prompts, positions) of predictors by name, on the same prompts."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((PROMPTS, CONTEXT + 1, DIM))
    w = rng.standard_normal((PROMPTS, DIM))
    clean = np.einsum("nld,nd->nl", x, w)
    y = clean + np.sqrt(noise) * rng.standard_normal(clean.shape)
    target = y if query_noise else clean
    found = {}
    for name, predictor in predictors.items():
        answers = np.zeros(y.shape)
        for i in range(CONTEXT + 1):
            seen = i + own_label
            if seen:
                answers[:, i] = predictor(x[:, :seen], y[:, :seen], x[:, i])
        found[name] = (answers - target) ** 2
    return found


def garg(errors, rng):
    """Means, standard deviations and ends of resampled intervals, as that code has them."""
    numbers = {}
    for name, rows in errors.items():
        picked = rng.integers(len(rows), size=(200, len(rows)))
        means = np.sort([np.mean(rows[chosen], axis=0) for chosen in picked], axis=0)
        numbers[name] = {
            "mean": np.mean(rows, axis=0).tolist(),
            "std": np.std(rows, axis=0, ddof=1).tolist(),
            "bootstrap_low": means[10].tolist(),
            "bootstrap_high": means[190].tolist(),
        }
    return numbers


def frame(errors):
    """A long table with standard errors."""
    rows = {"examples": [], "error": [], "error_se": [], "model": []}
    for name, found in errors.items():
        rows["examples"] += range(found.shape[1])
        rows["error"] += np.mean(found, axis=0).tolist()
        rows["error_se"] += (np.std(found, axis=0, ddof=1) / np.sqrt(len(found))).tolist()
        rows["model"] += [name] * found.shape[1]
    return rows


BASELINES = {"averaging": averaging, "OLS_driver=None": least_squares}


def law(noise):
    return Problem(dim=DIM, context=CONTEXT, scale=1, noise_variance=noise)


@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_metrics_of_garg_and_others_agree(tmp_path, noise):
    model = {"gpt2_embd=256_layer=12": ridge}
    errors = squares(BASELINES | model, noise=noise, seed=1)
    numbers = garg(errors, np.random.default_rng(0))
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({"standard": numbers, "scaled": numbers}))
    check = check_positions(path, law(noise))
    assert check.holds, str(check)
    assert check.fits == ()
    assert {curve.algorithm for curve in check.curves} == {"averaging", "least_squares", ""}
    assert check.conclusions[0] == (
        "The known baselines agree with their exact errors: averaging, OLS_driver=None."
    )
    again = check_positions(frame(errors), law(noise))
    assert again.holds
    assert check_positions(path, law(noise), evaluation="scaled").holds
    value_error("evaluation must be one of", check_positions, path, law(noise), evaluation="sca")
    if noise:
        assert "nearest are those of ridge regression" in check.conclusions[1]


def divided(errors):
    return {name: rows / DIM for name, rows in errors.items()}


def halved(errors):
    return {name: rows / 2 for name, rows in errors.items()}


def shifted(errors):
    return {name: np.roll(rows, -1, axis=1)[:, :-1] for name, rows in errors.items()}


@pytest.mark.parametrize(
    ("plant", "options", "fit"),
    [
        (divided, {}, "errors are divided by the dimension"),
        (halved, {}, "errors are halves of squares"),
        (shifted, {}, "examples are one more than stated"),
        (dict, {"query_noise": False}, "errors are of query labels without noise"),
        (dict, {"own_label": True}, "examples are one more than stated"),
    ],
)
def test_planted_mistakes_of_an_evaluation_are_named(plant, options, fit):
    """A leak of the own label is no shift: the query is among the examples."""
    errors = plant(squares(BASELINES, noise=NOISE, seed=2, **options))
    check = check_positions(frame(errors), law(NOISE))
    assert not check.holds
    assert check.conclusions[0].startswith("The known baselines contradict their exact errors")
    if options.get("own_label"):
        assert check.fits == ()
    else:
        assert check.fits == (fit,)
    if options.get("query_noise") is False:
        assert check_positions(frame(errors), law(NOISE), query_noise=False).holds


def test_a_model_that_sees_its_label_is_named_first():
    leak = squares({"net": ridge}, noise=NOISE, seed=3, own_label=True)
    honest = squares(BASELINES, noise=NOISE, seed=3)
    check = check_positions(frame(honest | leak), law(NOISE))
    assert not check.holds
    assert check.conclusions[0].startswith("The known baselines agree")
    assert check.conclusions[1].startswith("net: Impossible: with 0 examples its error is ")
    assert "sees its own label" in check.conclusions[1]
    assert check.impossible["net"][0].least == pytest.approx(DIM + NOISE)
    alone = check_positions(frame(leak), law(NOISE))
    assert alone.conclusions[0].startswith("No known baseline is in the table")
    assert not alone.holds


def agreeing(seeds):
    """How many true evaluations agree."""
    tables = [frame(squares(BASELINES, noise=NOISE, seed=seed)) for seed in seeds]
    return sum(check_positions(table, law(NOISE)).holds for table in tables)


@pytest.mark.slow
def test_true_evaluations_are_not_contradicted():
    """Means after few examples are skewed: by their own error bars a tenth would be refused."""
    assert agreeing(range(100, 120)) >= 19


def test_report_is_a_result(tmp_path):
    errors = squares(BASELINES | {"net": ridge}, noise=NOISE, seed=4)
    check = check_positions(frame(errors), law(NOISE))
    rows = check.rows()
    assert len(rows) == 3 * (CONTEXT + 1)
    content = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert content["holds"]
    assert len(content["rows"]) == len(rows)
    assert "least possible" in str(check)
    check.write(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 0


def test_what_cannot_be_used_is_named():
    table = frame(squares({"ours": averaging}, noise=0.0, seed=5))
    problem = law(0.0)
    named = check_positions(table, problem, baselines={"averaging": "ours"})
    assert named.curves[0].algorithm == "averaging"
    for change, options, message in (
        ({}, {"baselines": {"averging": "ours"}}, "baselines must be of .*mean averaging"),
        ({}, {"baselines": {"averaging": "our"}}, "there are ours; did you mean ours"),
        ({"examples": [0] * (CONTEXT + 1)}, {}, "ours has 0 examples twice"),
        ({"examples": [100, *range(1, CONTEXT + 1)]}, {}, "context of the problem must be >= 100"),
        ({"examples": [0.5, *range(1, CONTEXT + 1)]}, {}, "examples must be integers, got 0.5"),
    ):
        value_error(message, check_positions, table | change, problem, **options)
    bare = {name: table[name] for name in ("examples", "error")}
    value_error("must have a column error_se or error_sd", check_positions, bare, problem)
    bare["error_sd"] = table["error_se"]
    value_error("test_prompts must be given", check_positions, bare, problem)
    type_error("problem must be an iclimit.Problem", check_positions, table, 3)
    no_ends = {"standard": {"net": {"mean": [1.0, 0.5]}}}
    value_error("net must have bootstrap_", check_positions, no_ends, problem)
