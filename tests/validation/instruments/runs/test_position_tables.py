"""Tables of runs that were trained on every position of their sequences, by position.

Planted by the plain NumPy of `sequence_runs`, and by runs here that make a mistake.
"""

import math

import numpy as np
import pytest
from refusals import value_error
from sequence_runs import draw_tasks, exact_errors, features_of, sequence_run

from iclimit import Experiment
from iclimit.units import CONVENTIONS
from iclimit.validation import check_runs, fit_runs
from iclimit.validation.instruments.runs import explanations
from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.mistakes import mistakes
from iclimit.validation.instruments.runs.positions import (
    loss_from,
    position_hints,
    position_mistakes,
)
from iclimit.validation.instruments.runs.table import read_runs

# Setting of the planted runs.
SIZES = {"dim": 16, "context": 24, "prompts": 64, "tasks": 16, "rho": 0.1, "ridge": 0.3}
RUNS = 16

# Positions in the table.
PLACES = (3, 6, 12, 24)


def ridge_regression(features, labels, ridge, dim):
    """Matrix (d, d + 1) of the least squares of rows with a penalty."""
    gram = features.T @ features / len(features) + ridge / dim * np.eye(features.shape[1])
    gamma = np.linalg.solve(gram, features.T @ labels / len(features))
    return gamma.reshape(dim, dim + 1)


def drawn(rng):
    """Inputs and labels of all sequences, and the task set."""
    dim = SIZES["dim"]
    task_set, used = draw_tasks(rng, dim, SIZES["prompts"], SIZES["tasks"], False)
    shape = (SIZES["prompts"], SIZES["context"] + 1, dim)
    x = rng.standard_normal(shape) / math.sqrt(dim)
    noise = math.sqrt(SIZES["rho"]) * rng.standard_normal(shape[:2])
    return x, np.einsum("nld,nd->nl", x, used) + noise, task_set


def errors_of(gamma, task_set):
    """Errors (positions, 2) of a matrix."""
    return np.array([exact_errors(gamma, task_set, place, SIZES["rho"]) for place in PLACES])


def honest(rng):
    errors, _ = sequence_run(
        rng,
        positions=range(1, SIZES["context"] + 1),
        normalization="mean",
        balanced=False,
        **{name: SIZES[name] for name in ("dim", "prompts", "tasks", "rho", "ridge")},
    )
    return errors[np.array(PLACES) - 1]


def summed(rng):
    """The stated ridge beside a loss that is the sum over positions, a mean over sequences."""
    x, y, task_set = drawn(rng)
    seen = np.arange(1, SIZES["context"] + 1)
    features, labels = features_of(x, y, seen, "mean")
    rows = features.reshape(-1, features.shape[-1])
    dim = SIZES["dim"]
    gram = rows.T @ rows / SIZES["prompts"] + SIZES["ridge"] / dim * np.eye(rows.shape[1])
    gamma = np.linalg.solve(gram, rows.T @ labels.ravel() / SIZES["prompts"])
    return errors_of(gamma.reshape(dim, dim + 1), task_set)


def on_random_lengths(rng):
    """One label of each prompt, after a random number of examples."""
    x, y, task_set = drawn(rng)
    seen = np.arange(1, SIZES["context"] + 1)
    features, labels = features_of(x, y, seen, "mean")
    chosen = rng.integers(SIZES["context"], size=SIZES["prompts"])
    rows = np.arange(SIZES["prompts"])
    gamma = ridge_regression(
        features[rows, chosen], labels[rows, chosen], SIZES["ridge"], SIZES["dim"]
    )
    return errors_of(gamma, task_set)


def on_last(rng):
    """The last label of each prompt alone."""
    x, y, task_set = drawn(rng)
    features, labels = features_of(x, y, np.array([SIZES["context"]]), "mean")
    gamma = ridge_regression(features[:, 0], labels[:, 0], SIZES["ridge"], SIZES["dim"])
    return errors_of(gamma, task_set)


def table_of(one_run, seed=1):
    """Rows of means over runs, by position."""
    runs = np.array([one_run(np.random.default_rng((seed, number))) for number in range(RUNS)])
    means = np.mean(runs, axis=0)
    bars = np.std(runs, axis=0, ddof=1) / math.sqrt(RUNS)
    rows = []
    for place, mean, bar in zip(PLACES, means, bars, strict=True):
        row = SIZES | {"position": place, "icl": mean[0], "idg": mean[1], "runs": RUNS}
        rows.append(row | {"icl_se": bar[0], "idg_se": bar[1]})
    return rows


EVERYWHERE = {"first_position": 1}


@pytest.fixture(scope="module")
def table():
    return table_of(honest)


def test_a_table_by_position_agrees_where_it_is_stated(table):
    check = check_runs(table, parameters=EVERYWHERE)
    assert check.holds, str(check)
    assert max(check.resolutions.values()) < 0.3
    assert any("position alone" in note for note in check.notes)
    assert all(row["icl_limit"] is None for row in check.rows())


@pytest.fixture
def few(monkeypatch):
    """Tries only mistakes in the loss, and two others: all of them take seconds."""

    def chosen(runs, theory, **options):
        kept = {text for text, _ in position_mistakes(runs)}
        kept |= {"errors are half the squared errors", "the ridge is twice as large"}
        return [row for row in mistakes(runs, theory, **options) if row.text in kept]

    monkeypatch.setattr(explanations, "mistakes", chosen)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("one_run", "words"),
    [
        (summed, "the loss is summed, not averaged over positions"),
        (on_random_lengths, "each prompt has one label, after a random length"),
        (on_last, "the runs were trained on the last position alone"),
    ],
)
def test_another_loss_is_named(one_run, words):
    check = check_runs(table_of(one_run), parameters=EVERYWHERE)
    assert not check.holds
    assert any(fit.text.startswith(words) for fit in check.fits), str(check)


@pytest.mark.usefixtures("few")
def test_training_on_all_positions_is_named(table):
    check = check_runs(table, parameters={"first_position": SIZES["context"]})
    assert not check.holds
    assert check.fits[0].text == "the runs were trained on all positions", str(check)


def mistakes_of(rows):
    """Mistakes that are tried on a table."""
    check = check_runs(rows, parameters=EVERYWHERE)
    return mistakes([row.run for row in check.deviations], check.theory, one_set=False)


def test_each_mistake_of_positions_changes_the_run(table):
    tried = mistakes_of(table)
    words = [row.text for row in tried]
    assert "prompts counts the labels of all sequences, not the sequences" in words
    assert len(set(words)) == len(words)
    assert "the runs were trained on all positions" not in words
    assert not [row for row in tried if row.free]  # limits of sequences are not fitted


def test_units_of_another_paper(table):
    """Inputs and tasks N(0, I): noise, ridge and errors are d times as large."""
    units = CONVENTIONS["garg2022"].units(dim=SIZES["dim"], context=SIZES["context"])
    rows = []
    for row in table:
        theirs = {name: row[name] for name in ("dim", "context", "prompts", "tasks", "position")}
        theirs["noise_variance"] = units.from_library("noise_variance", row["rho"])
        theirs["ridge"] = units.from_library("ridge", row["ridge"])
        theirs["icl"] = units.from_library("error", row["icl"])
        theirs["icl_se"] = units.from_library("difference", row["icl_se"])
        rows.append(theirs)
    check = check_runs(rows, parameters=EVERYWHERE, convention="garg2022")
    plain = check_runs(
        [{k: v for k, v in row.items() if not k.startswith("idg")} for row in table],
        parameters=EVERYWHERE,
    )
    assert check.holds
    for ours, theirs in zip(plain.rows(), check.rows(), strict=True):
        assert theirs["icl_prediction"] == pytest.approx(ours["icl_prediction"])
        # Tasks of random norms are in doubt by 0.4/d more.
        assert theirs["icl_uncertainty"] > ours["icl_uncertainty"]


def test_what_is_not_known_is_refused(table):
    for changes, parameters, words in (
        ({}, {}, "first_position, or one as a parameter"),
        ({"position": 0}, EVERYWHERE, "position"),
        ({}, {"first_position": 0}, "1 is the loss of all labels"),
        ({"position": 2.5}, EVERYWHERE, "position must be an integer"),
        ({}, {"first_position": SIZES["context"] + 1}, "at most the context"),
        ({"test_context": 8}, EVERYWHERE, "test_context must not be given"),
        ({"time": 2.0}, EVERYWHERE, "time"),
        ({"normalization": "sum"}, EVERYWHERE, "one of mean, length"),
        ({"estimator": "dmmse"}, EVERYWHERE, "only attention"),
    ):
        rows = [row | changes for row in table]
        value_error(words, check_runs, rows, parameters=parameters)
    stated = {"parameters": EVERYWHERE}
    value_error("task_sets must be 'many'", check_runs, table, task_sets="one", **stated)
    value_error("did you mean sequence_ratio", fit_runs, table, free="tau", **stated)
    plain = [row | {"position": row["context"]} for row in table]
    for row in plain:
        del row["position"]
    value_error("needs a column position", fit_runs, plain, free="sequence_ratio")
    value_error(
        "left out beside prompts", check_runs, [table[0] | {"sequence_ratio": 4}], **stated
    )


def test_rows_without_a_prediction_are_said():
    rows = table_of(honest)[:2]
    check = check_runs([row | {"ridge": 0.0} for row in rows], parameters=EVERYWHERE)
    assert check.holds is None
    assert any("ridge must be > 0" in note for note in check.notes)


@pytest.fixture(scope="module")
def small():
    """Rows of planted runs at d = 8, which are quick to fit."""
    sizes = {"dim": 8, "prompts": 32, "tasks": 16, "rho": 0.1, "ridge": 0.3}
    law = {"positions": range(2, 17), "normalization": "mean", "balanced": False}
    rngs = [np.random.default_rng((2, number)) for number in range(RUNS)]
    runs = np.array([sequence_run(rng, **law, **sizes)[0] for rng in rngs])
    rows = []
    for place in (4, 8, 16):
        row = sizes | {"context": 16, "position": place, "first_position": 2}
        for column, name in enumerate(("icl", "idg")):
            errors = runs[:, place - 2, column]
            row[name] = np.mean(errors)
            row[f"{name}_se"] = np.std(errors, ddof=1) / math.sqrt(RUNS)
        rows.append(row)
    return rows


def test_the_number_of_sequences_is_fitted(small):
    """Where the search begins at twice that of the planted runs."""
    fit = fit_runs([row | {"prompts": 64} for row in small], free="sequence_ratio")
    (parameter,) = fit.parameters
    assert parameter.start == pytest.approx(8)
    assert parameter.low_95 < 4 < parameter.high_95 < 2 * parameter.low_95


def test_a_first_position_between_integers():
    """The position before it counts for a part of the others: runs between two integers."""
    for first in (1.0, 3.0, 3.4, 7.999, 24.0):
        keywords = SIZES | loss_from(first, SIZES["context"])
        run = MeasuredRun((1,), Experiment.of(**keywords), {})
        assert run.first_position == pytest.approx(first)
    assert loss_from(0.3, 5) == {"first_position": 1, "position_weights": None}
    assert loss_from(9, 5) == {"first_position": 5, "position_weights": None}


def test_where_the_loss_begins_is_fitted(small):
    """A table that does not say it, with the number of sequences by their ratio."""
    left_out = ("prompts", "first_position")
    rows = [{name: row[name] for name in row if name not in left_out} for row in small]
    shared = {"sequence_ratio": 4}
    fit = fit_runs(rows, free="first_position", parameters=shared)
    (parameter,) = fit.parameters
    assert parameter.low_95 < 2 < parameter.high_95 < 8
    (line,) = fit.predict(rows[:1]).rows()
    assert line["position"] == 4
    assert line["icl"] == pytest.approx(small[0]["icl"], rel=0.1)


@pytest.mark.parametrize(
    ("context", "words"), [(17, ["one before the context"]), (16, []), (15, ["one beyond"])]
)
def test_positions_that_end_one_off(small, context, words):
    """Garg's sequences of 17 labels have positions 0 to 16."""
    runs = read_runs(
        [row | {"context": context} for row in small], convention=CONVENTIONS["lu2025"]
    )
    hints = list(position_hints(runs))
    assert len(hints) == len(words)
    assert all(word in hint for word, hint in zip(words, hints, strict=True))
