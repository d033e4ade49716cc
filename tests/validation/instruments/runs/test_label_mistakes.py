"""Labels in tables of results: what a plain script measures is checked, and mistakes are named."""

from functools import cache

import numpy as np
import pytest
from refusals import refuse
from scipy import stats

import iclimit
from iclimit.validation.instruments.runs import label_mistakes
from iclimit.validation.instruments.runs.predictions import numbers_of_labels

DIM = 10
REPEATS = 30
TESTS = 2000

# Contexts, prompts and ridges of the rows.
ROWS = ((10, 100, 0.1), (20, 200, 0.1), (40, 500, 0.1))

LINKS = {"linear": np.asarray, "signs": np.sign, "ReLUs": lambda z: np.maximum(z, 0)}


def draw(rng, number, length, g, flips):
    """Queries, summaries, labels and z of prompts with tasks on a sphere."""
    w = rng.standard_normal((number, DIM))
    w *= np.sqrt(DIM) / np.linalg.norm(w, axis=1, keepdims=True)
    x = rng.standard_normal((number, length + 1, DIM)) / np.sqrt(DIM)
    z = np.einsum("nid,nd->ni", x, w)
    y = np.where(rng.random(z.shape) < flips, -1.0, 1.0) * g(z)
    h = DIM / length * np.einsum("nid,ni->nd", x[:, :-1], y[:, :-1])
    summary = np.column_stack([h, np.mean(y[:, :-1] ** 2, axis=1)])
    return x[:, -1], summary, y[:, -1], z[:, -1]


def trained(rng, length, prompts, ridge, g, flips, columns=DIM + 1):
    """Squared errors and right answers of a model on test prompts, after its training."""
    x, summary, y, _ = draw(rng, prompts, length, g, flips)
    rows = np.einsum("ni,nj->nij", x, summary[:, :columns]).reshape(prompts, -1)
    penalty = prompts / DIM * ridge * np.eye(rows.shape[1])
    gamma = np.linalg.solve(rows.T @ rows + penalty, rows.T @ y).reshape(DIM, columns)
    x, summary, y, z = draw(rng, TESTS, length, g, flips)
    prediction = np.sum(x @ gamma * summary[:, :columns], axis=1)
    return (y - prediction) ** 2, prediction * z > 0


@cache
def measured(labels, flips=0.0, columns=DIM + 1):
    """Squared errors (rows, repeats, tests) and right answers of runs with such labels."""
    rng = np.random.default_rng(7)
    own = LINKS[labels], flips, columns
    runs = [[trained(rng, *row, *own) for _ in range(REPEATS)] for row in ROWS]
    return np.array([[run[0] for run in row] for row in runs]), np.array(
        [[run[1] for run in row] for row in runs]
    )


def table(name, numbers, **more):
    """Means over runs of one number for each, with standard errors, as a table."""
    return [
        {"dim": DIM, "context": length, "tasks": np.inf, "prompts": prompts, "rho": 0.0}
        | {"ridge": ridge, name: np.mean(of_row), f"{name}_se": stats.sem(of_row)}
        | more
        for (length, prompts, ridge), of_row in zip(ROWS, numbers, strict=True)
    ]


def errors_of(labels, **more):
    return table("icl", measured(labels)[0].mean(axis=-1), **more)


def accuracies_of(labels, **more):
    return table("accuracy", measured(labels)[1].mean(axis=-1), **more)


@pytest.mark.parametrize("labels", ["signs", "ReLUs"])
def test_errors_of_such_labels_agree(labels):
    link = {"signs": "sign", "ReLUs": "relu"}[labels]
    check = iclimit.check_runs(errors_of(labels, link=link))
    assert check.holds
    assert check.rows()[0]["link"] == link
    limit = iclimit.icl_error(tau=1, alpha=1, kappa=np.inf, rho=0, ridge=0.1, link=link)
    assert check.rows()[0]["icl_limit"] == limit


def test_accuracies_agree_and_are_printed():
    check = iclimit.check_runs(accuracies_of("signs", link="sign"))
    assert check.holds
    assert "ACCURACY" in str(check)
    assert "compared with simulated runs" in str(check)
    assert set(check.resolutions) == {"accuracy"}
    assert check.rows()[0]["accuracy_limit"] == pytest.approx(
        iclimit.pretraining.pretrained_accuracy(tau=1, alpha=1, kappa=np.inf, ridge=0.1).icl
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "stated", "named"),
    [
        ("signs", "identity", "labels are signs, not identity"),
        ("ReLUs", "sign", "labels are ReLUs, not sign"),
        ("linear", "sign", "labels are linear in the inputs, not sign"),
    ],
)
def test_another_link_is_named(labels, stated, named):
    check = iclimit.check_runs(errors_of(labels, link=stated))
    assert not check.holds
    assert check.fits[0].text == named


@pytest.mark.slow
def test_a_model_without_squared_labels_is_named():
    numbers = measured("signs", columns=DIM)[0].mean(axis=-1)
    check = iclimit.check_runs(table("icl", numbers, link="sign"))
    assert not check.holds
    assert "Gamma has no column of squared labels" in [fit.text for fit in check.fits]


def test_rows_that_differ_in_the_link_alone_have_draws_of_their_own():
    problems = [iclimit.Problem(8, 16, link=link) for link in ("sign", "relu", (0.5, 0.5))]
    assert len({tuple(numbers_of_labels(problem)) for problem in problems}) == 3
    assert numbers_of_labels(iclimit.Problem(8, 16)) == []


@pytest.mark.slow
def test_accuracies_in_per_cent_are_named():
    rows = table("accuracy", 100 * measured("signs")[1].mean(axis=-1), link="sign")
    check = iclimit.check_runs(rows)
    assert check.fits[0].text == "accuracies are in per cent"


SUMMARIES = {
    "medians of the squared errors": lambda squares: np.median(squares, axis=-1),
    "means of the absolute errors": lambda squares: np.mean(np.sqrt(squares), axis=-1),
    "means of the logarithms of the squared errors": lambda squares: np.mean(
        np.log(squares), axis=-1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("summary", "labels"), list(zip(SUMMARIES, ["linear", "signs", "linear"], strict=True))
)
def test_other_averages_over_test_prompts_are_named(labels, summary):
    numbers = SUMMARIES[summary](measured(labels)[0])
    link = {"signs": "sign", "linear": "identity"}[labels]
    check = iclimit.check_runs(table("icl", numbers, link=link))
    assert not check.holds
    assert f"errors are {summary} of test prompts" in [fit.text for fit in check.fits]


def test_constants_are_those_of_a_chi_square_variable():
    """Moments by draws of a mixture with a relative variance s^2: the constants and the slopes."""
    law = stats.chi2(1)
    averages = [average.of_linear for average in label_mistakes.AVERAGES.values()]
    exact = law.median(), law.expect(np.sqrt), -np.euler_gamma - np.log(2)
    np.testing.assert_allclose(averages, exact, rtol=1e-6)
    rng = np.random.default_rng(0)
    factor = 0.1
    scale = rng.gamma(1 / factor, factor, 2_000_000)
    squares = scale * rng.chisquare(1, scale.size)
    found = np.median(squares), np.mean(np.sqrt(squares)), np.mean(np.log(squares))
    for value, average in zip(found, label_mistakes.AVERAGES.values(), strict=True):
        less = 1 - average.slope * factor
        assert value == pytest.approx(average.function(less, average.of_linear), abs=0.004)


def test_tables_that_say_nothing_of_labels_are_tried_as_before():
    rows = errors_of("signs")
    check = iclimit.check_runs(rows)
    assert not check.holds
    assert not any("labels are" in fit.text and "signs" in fit.text for fit in check.fits)


def test_tables_that_are_refused():
    rows = accuracies_of("signs")
    refuse("accuracy needs a column link", iclimit.check_runs, rows)
    refuse(
        "row 1: link must be one of identity, sign",
        iclimit.check_runs,
        errors_of("signs", link="sing"),
    )
    refuse(
        "must be a name or two moments, got a function",
        iclimit.check_runs,
        errors_of("signs", link=np.sign),
    )
    refuse(
        "only attention has predictions",
        iclimit.check_runs,
        errors_of("signs", link="sign", estimator="ridge"),
    )
    refuse(
        "link must be identity and flips 0",
        iclimit.fit_runs,
        errors_of("signs", link="sign"),
        free="rho",
    )
