"""Files of predictions: every form is read alike, every fault is named."""

from pathlib import Path

import numpy as np
import pytest
from hostile_files import Bomb
from refusals import value_error

from iclimit.problem import Problem
from iclimit.validation.instruments import reading
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.files import PromptFile, read_prompts, write_prompts
from iclimit.validation.instruments.models.model import Model, ask_all
from iclimit.validation.instruments.models.positions import probe_positions
from iclimit.validation.instruments.models.predictions import (
    Recorded,
    read_positions,
    read_predictions,
)
from iclimit.validation.instruments.models.probe import judge_predictions

PROMPTS = PromptFile(
    Problem(dim=20, context=30, noise_variance=0.5, scale=1), test_prompts=40, seed=1, float32=True
)
COUNT = len(PROMPTS)
VALUES = np.random.default_rng(0).standard_normal(COUNT)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16 prompts, for a block is drawn whole."""
    monkeypatch.setattr("iclimit.simulate.prompts.sampling.BLOCK_NUMBERS", 10_000)


def one_step(inputs, labels, query):
    return np.einsum("nlk,nl,nk->n", inputs, labels, query) / labels.shape[1]


def rows(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def saved(folder, values, kind):
    """A file with these predictions."""
    path = folder / f"predictions.{kind}"
    if kind == "npz":
        np.savez(path, predictions=values)
    elif kind == "npy":
        np.save(path, values)
    else:
        rows(path, "prediction", *map(repr, np.asarray(values, dtype=float).tolist()))
    return path


def test_a_model_elsewhere_gets_the_answers_of_one_that_is_called(tmp_path):
    """The same numbers by way of files as by way of a function, section by section."""
    write_prompts(tmp_path / "prompts.npz", PROMPTS)
    with np.load(tmp_path / "prompts.npz") as file:
        asked = [file[name].astype(float) for name in ("inputs", "labels", "query")]
    path = saved(tmp_path, one_step(*asked), "npz")
    prompts = read_prompts(tmp_path / "prompts.npz")
    exact = [Baseline("exact", "the target", lambda drawn: drawn.target)]
    recorded = Recorded(read_predictions(path, prompts), prompts.sections)
    by_file = ask_all(recorded, exact, prompts.sections)
    by_call = ask_all(Model(one_step), exact, prompts.sections)
    assert by_file.keys() == by_call.keys()
    for name, answers in by_file.items():
        assert np.allclose(answers.model, by_call[name].model, atol=1e-12)
        assert np.array_equal(answers.target, by_call[name].target)
        assert np.array_equal(answers.baselines["exact"], answers.target)


@pytest.mark.parametrize("kind", ["npz", "npy", "csv"])
def test_every_form_is_read_alike(tmp_path, kind):
    assert np.array_equal(read_predictions(saved(tmp_path, VALUES, kind), PROMPTS), VALUES)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_single_precision(tmp_path, kind):
    found = read_predictions(saved(tmp_path, VALUES.astype("f4"), kind), PROMPTS)
    assert found.dtype == np.float64
    assert np.array_equal(found, VALUES.astype("f4"))


def test_rows_in_any_order(tmp_path):
    order = np.random.default_rng(1).permutation(COUNT)
    lines = [f"{index},fresh,{float(VALUES[index])!r}" for index in order.tolist()]
    path = rows(tmp_path / "rows.csv", "index,section,prediction", *lines)
    assert np.array_equal(read_predictions(path, PROMPTS), VALUES)
    twice = [*lines[:-1], lines[0]]
    path = rows(tmp_path / "rows.csv", "index,section,prediction", *twice)
    value_error(f"row {COUNT}: index occurs twice: {order[0]}", read_predictions, path, PROMPTS)
    lines[7] = f"0.5,fresh,{VALUES[0]}"
    path = rows(tmp_path / "rows.csv", "index,section,prediction", *lines)
    value_error(r"row 8: index is no integer: 0\.5", read_predictions, path, PROMPTS)


def test_a_table_that_is_larger_than_its_file(tmp_path, monkeypatch):
    """Equal entries take no bytes in Parquet."""
    parquet, pyarrow = map(pytest.importorskip, ("pyarrow.parquet", "pyarrow"))
    path = tmp_path / "predictions.parquet"
    parquet.write_table(pyarrow.table({"prediction": np.zeros(10**5)}), path)
    value_error("one for each prompt, got 100000", read_predictions, path, PROMPTS)
    monkeypatch.setattr(reading, "FREE_ENTRIES", 1000)
    value_error("must not hold more entries than bytes", read_predictions, path, PROMPTS)


def test_parquet(tmp_path):
    parquet, pyarrow = map(pytest.importorskip, ("pyarrow.parquet", "pyarrow"))
    path = tmp_path / "predictions.parquet"
    parquet.write_table(pyarrow.table({"prediction": VALUES}), path)
    assert np.array_equal(read_predictions(path, PROMPTS), VALUES)


@pytest.mark.parametrize("kind", ["npz", "npy", "csv"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_the_first_prediction_that_is_not_finite_is_named(tmp_path, kind, value):
    values = VALUES.copy()
    values[[45, 60]] = value
    message = r"finite .* for prompt 45, in section 'permuted'|row 46: prediction is missing"
    value_error(message, read_predictions, saved(tmp_path, values, kind), PROMPTS)


@pytest.mark.parametrize("kind", ["npz", "npy"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (VALUES[:-1], rf"must have shape \({COUNT},\), one for each prompt, got \({COUNT - 1},\)"),
        (VALUES[:, None], rf"got \({COUNT}, 1\): save predictions\[:, 0\]"),
        (VALUES[0], r"got \(\)"),
        (np.arange(COUNT), "must be floating-point numbers, got int64"),
        (VALUES > 0, "must be floating-point numbers, got bool"),
        (VALUES + 0j, "must be floating-point numbers, got complex128"),
        (VALUES.astype(str), "must be floating-point numbers, got <U"),
        (VALUES.astype(bytes), "must be an array of numbers, got "),
    ],
)
def test_wrong_arrays(tmp_path, kind, values, message):
    value_error(message, read_predictions, saved(tmp_path, values, kind), PROMPTS)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["prediction", "1", "2"], f"must have {COUNT} rows, one for each prompt, got 2 in"),
        (["predicted", "1"], "got 'predicted' in .*; did you mean prediction"),
        (["prediction,idx", "1,0"], "got 'idx' in .*csv; did you mean index"),
        (["index,y_1", "0,0.5"], "must have a column 'prediction', got none in"),
        (["prediction", *["a"] * COUNT], "row 1: prediction must be a number, got 'a'"),
        (["prediction;index", "1;2"], "must be separated by commas"),
    ],
)
def test_wrong_tables(tmp_path, lines, message):
    value_error(message, read_predictions, rows(tmp_path / "rows.csv", *lines), PROMPTS)


def test_other_files(tmp_path):
    write_prompts(tmp_path / "prompts.npz", PROMPTS)
    with pytest.raises(ValueError, match=r"got prompts in .*: the prompts come first"):
        read_predictions(tmp_path / "prompts.npz", PROMPTS)
    value_error("with predictions: it comes first", read_prompts, saved(tmp_path, VALUES, "npz"))
    np.savez(tmp_path / "other.npz", prediction=VALUES)
    with pytest.raises(ValueError, match="got prediction; did you mean prediction"):
        read_predictions(tmp_path / "other.npz", PROMPTS)
    with pytest.raises(ValueError, match=r"in a file \.npz, \.npy, .* got '.*model\.pt'"):
        read_predictions(tmp_path / "model.pt", PROMPTS)
    for ending in ("npz", "npy", "csv"):
        with pytest.raises(FileNotFoundError):
            read_predictions(tmp_path / f"none.{ending}", PROMPTS)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_hostile_files(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, np.array([Bomb()] * COUNT, dtype=object), kind)
    value_error("must be an array of numbers, got object", read_predictions, path, PROMPTS)
    assert not Path("harmed").exists()
    whole = saved(tmp_path, VALUES, kind).read_bytes()
    for length in (0, 5, 60, 200, len(whole) - 200, len(whole) - 1):
        path.write_bytes(whole[:length])
        value_error(r"predictions\.np. must be intact", read_predictions, path, PROMPTS)


def test_a_pickle_is_no_array(tmp_path, monkeypatch):
    import pickle

    monkeypatch.chdir(tmp_path)
    for name in ("a.npy", "a.npz"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ValueError, match="must be intact and without pickle"):
            read_predictions(tmp_path / name, PROMPTS)
    assert not Path("harmed").exists()


def averaging(inputs, labels):
    """One step from the pairs before each position."""
    before = np.cumsum(labels[:, :-1, None] * inputs[:, :-1], axis=1)
    weights = before / np.arange(1, inputs.shape[1])[:, None]
    return np.pad(np.sum(weights * inputs[:, 1:], axis=2), ((0, 0), (1, 0)))


def test_positions_of_a_model_elsewhere(tmp_path):
    """The same errors as those of a function that is called."""
    small = PromptFile(
        Problem(dim=4, context=8, noise_variance=0.5, scale=1), test_prompts=60, seed=1
    )
    write_prompts(tmp_path / "prompts.npz", small)
    with np.load(tmp_path / "prompts.npz") as file:
        asked = [file[name] for name in ("inputs", "labels", "query")]
    inputs = np.concatenate([asked[0], asked[2][:, None, :]], axis=1)[:40]
    labels = np.pad(asked[1], ((0, 0), (0, 1)))[:40]
    predictions = one_step(*asked)
    positions = averaging(inputs, labels)
    path = tmp_path / "predictions.npz"
    np.savez(path, predictions=predictions, positions=positions)
    found = read_positions(path, small, predictions)
    assert found is not None
    names = ["null", "averaging"]
    report = judge_predictions(small, predictions, positions=found, baselines=names)
    fresh = small.sections[0].seed
    called = probe_positions(averaging, small.problem, test_prompts=40, rng=fresh, baselines=names)
    assert report.positions is not None
    for first, second in zip(report.positions.ladders, called.ladders, strict=True):
        for name in names:
            mean = second[name].difference.mean
            assert first[name].difference.mean == pytest.approx(mean, abs=1e-12)
            assert first[name].difference.repeats == 40


def test_a_page_begins_with_what_is_impossible():
    law = Problem(dim=4, context=8, noise_variance=0.5, scale=1)
    file = PromptFile(law, test_prompts=1000, seed=1)
    blocks = [prompts for _, prompts in file.blocks()]
    predictions = np.concatenate([one_step(b.inputs, b.labels, b.query) for b in blocks])
    seen = np.pad(np.concatenate([b.labels for b in blocks])[:1000], ((0, 0), (0, 1)))
    names = ["null", "averaging"]
    for positions, heading in ((seen, "Errors below the least possible ones"), (None, "")):
        report = judge_predictions(file, predictions, positions=positions, baselines=names)
        page = report.page()
        assert page.count("<h1>") == 1
        assert f"<h1>{heading or report.verdict.headline}</h1>" in page
        assert report.verdict.headline in page


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (np.ones((5, 30)), r"of shape \(m, 31\) for the first m <= 40 prompts, got \(5, 30\)"),
        (np.ones((41, 31)), r"got \(41, 31\) of float64"),
        (np.ones((0, 31)), r"got \(0, 31\)"),
        (np.ones(31), r"got \(31,\)"),
        (np.ones((5, 31), dtype=int), "got .* of int64"),
        (np.full((5, 31), np.nan), "got nan at position 0 of prompt 0"),
        (np.zeros((5, 31)), r"must end with the predictions .*, got 0 and the prediction 0\.12"),
    ],
)
def test_wrong_positions(tmp_path, positions, message):
    path = tmp_path / "predictions.npz"
    np.savez(path, predictions=VALUES, positions=positions)
    value_error(message, read_positions, path, PROMPTS, read_predictions(path, PROMPTS))


def test_files_without_positions(tmp_path):
    for kind in ("npz", "npy", "csv"):
        assert read_positions(saved(tmp_path, VALUES, kind), PROMPTS, VALUES) is None
