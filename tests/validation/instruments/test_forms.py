"""The files that pandas, NumPy and loggers write are read as the table that was saved."""

import json

import numpy as np
import pytest
from refusals import value_error

from iclimit.validation.instruments.curves.table import read_curves
from iclimit.validation.instruments.reading import read_table

pd = pytest.importorskip("pandas")

KNOWN = ("dim", "context", "icl", "estimator")
COLUMNS = {"dim": [10, 10, 20], "context": [5, 7, 9], "icl": [1.5, 0.25, 0.125]}


def entries(table, **reading):
    """Entries of a table by name, as numbers."""
    read = read_table(table, KNOWN, **reading)
    return {name: [float(entry) for entry in read.entries[name]] for name in read.entries}


def same(table, **reading):
    """Whether the table is that of COLUMNS."""
    return entries(table, **reading) == COLUMNS


@pytest.mark.parametrize("orient", ["columns", "index", "records", "split", "table"])
@pytest.mark.parametrize("index", [None, ["a", "b", "c"], [7, 3, 5]])
def test_json_of_pandas(tmp_path, orient, index):
    path = tmp_path / "runs.json"
    pd.DataFrame(COLUMNS, index=index).to_json(path, orient=orient)
    assert same(path)


def test_json_line_by_line_and_without_names(tmp_path):
    path = tmp_path / "runs.jsonl"
    frame = pd.DataFrame(COLUMNS)
    frame.to_json(path, orient="records", lines=True)
    assert same(path)
    path = tmp_path / "runs.json"
    frame.to_json(path, orient="values")
    value_error(r"names of columns, .*orient='records'", read_table, path, KNOWN)
    path.write_text("[0, 0.5],\n[1, 0.25],\n")
    value_error(r"must be JSON.*pandas.DataFrame\(rows", read_table, path, KNOWN)


def test_row_numbers_of_pandas_are_no_column(tmp_path):
    path = tmp_path / "runs.csv"
    frame = pd.DataFrame(COLUMNS)
    frame.to_csv(path)
    assert same(path)
    frame[frame.dim > 0].iloc[::-1].iloc[::-1].to_csv(path)
    again = pd.read_csv(path)
    assert same(again)
    again.to_csv(path)
    assert same(path)
    frame.set_index(np.array([3, 8, 1])).to_parquet(tmp_path / "runs.parquet")
    assert same(tmp_path / "runs.parquet")
    # What is not a number of a row is not dropped.
    frame.set_index(np.array(["a", "b", "c"])).to_csv(path)
    value_error(r"must have a name, got none above 'a'.*index=False", read_table, path, KNOWN)
    frame.set_index(np.array([3, 3, 1])).to_csv(path)
    value_error(r"must have a name, got none above '3'", read_table, path, KNOWN)


def test_levels_of_an_index_are_columns(tmp_path):
    frame = pd.DataFrame(COLUMNS)
    levels = frame.set_index(["dim", "context"])
    assert same(levels)
    assert same(levels.icl)
    levels.to_csv(tmp_path / "runs.csv")
    assert same(tmp_path / "runs.csv")
    twice = pd.concat([frame, frame]).groupby(["dim", "context"])[["icl"]].agg(["mean", "sem"])
    assert entries(twice, columns={"icl": "icl_mean"}, ignore=["icl_sem"])["icl"] == [
        1.5,
        0.25,
        0.125,
    ]
    kept = frame.set_index("dim", drop=False)
    value_error("column names must differ, got 'dim' twice", read_table, kept, KNOWN)
    value_error("a series must have a name", read_table, levels.icl.rename(None), KNOWN)


def test_coordinates_of_labelled_arrays_are_columns():
    xarray = pytest.importorskip("xarray")
    errors = np.arange(12.0).reshape(2, 3, 2)
    coordinates = {"dim": [10, 20], "context": [5, 7, 9]}
    array = xarray.DataArray(errors, coordinates, ("dim", "context", "seed"), "icl")
    expected = {
        "dim": np.repeat([10.0, 20.0], 6).tolist(),
        "context": np.tile(np.repeat([5.0, 7.0, 9.0], 2), 2).tolist(),
        "icl": errors.ravel().tolist(),
    }
    assert entries(array) == expected
    assert entries(array.to_dataset()) == expected
    value_error("a labelled array must have a name", read_table, array.rename(None), KNOWN)


def test_arrays_of_settings_and_seeds(tmp_path):
    path = tmp_path / "runs.npz"
    errors = np.arange(6.0).reshape(2, 3)
    stated = {"dim": np.array(10), "context": np.array([5, 7]), "estimator": np.array("ridge")}
    expected = {"dim": [10] * 6, "context": [5, 5, 5, 7, 7, 7], "icl": [0, 1, 2, 3, 4, 5]}
    expected["estimator"] = ["ridge"] * 6
    for icl in (errors, errors.T):
        np.savez(path, icl=icl, **stated)
        rows = {name: read_table(path, KNOWN).entries[name] for name in expected}
        pairs = sorted(zip(*rows.values(), strict=True))
        assert pairs == sorted(zip(*expected.values(), strict=True))
        assert read_table({"icl": icl} | stated, KNOWN).entries == read_table(path, KNOWN).entries
    square = np.arange(4.0).reshape(2, 2)
    np.savez(path, icl=square, **stated)
    value_error(r"'context' has 2 entries beside .*save it as \(2, 1\)", read_table, path, KNOWN)
    np.savez(path, icl=square, **(stated | {"context": np.array([[5, 7]])}))
    assert read_table(path, KNOWN).entries["context"] == [5, 7, 5, 7]
    for wrong, message in (
        ({"context": np.arange(5)}, "'context' must have 2 entries, one for each setting, or 3"),
        ({"context": np.zeros((4, 3))}, r"'icl' of shape \(2, 3\)"),
        ({"context": np.zeros((2, 3, 1))}, "must be settings, or settings by seeds"),
    ):
        np.savez(path, **(stated | wrong | {"icl": errors}))
        value_error(message, read_table, path, KNOWN)


def test_json_by_seed(tmp_path):
    path = tmp_path / "runs.json"
    settings = {"dim": 10, "context": [5, 7]}
    icl = {"0": [1.0, 2.0], "1": [3.0, 4.0], "2": [5.0, 6.0]}
    expected = sorted([(10, 5, 1), (10, 5, 3), (10, 5, 5), (10, 7, 2), (10, 7, 4), (10, 7, 6)])
    by_setting = [
        {"dim": 10, "context": 5, "icl": [1.0, 3.0, 5.0]},
        {"dim": 10, "context": 7, "icl": {"0": 2.0, "1": 4.0, "2": 6.0}},
    ]
    tables = {f"seed {seed}": settings | {"icl": losses} for seed, losses in icl.items()}
    rows = {
        seed: [{"dim": 10, "context": 5, "icl": first}, {"dim": 10, "context": 7, "icl": second}]
        for seed, (first, second) in icl.items()
    }
    for content in (settings | {"icl": icl}, by_setting, tables, rows):
        path.write_text(json.dumps(content))
        read = entries(path)
        assert sorted(zip(*(read[name] for name in COLUMNS), strict=True)) == expected
    path.write_text(json.dumps({"icl": [[1.0, 2.0], [3.0]]}))
    value_error("equally many seeds in each setting", read_table, path, KNOWN)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("events.out.tfevents.17.host", "EventAccumulator"),
        ("trainer_state.json", "log_history"),
        ("runs.nc", "xarray.open_dataset"),
        ("runs.xlsx", "pandas.read_excel"),
    ],
)
def test_files_of_other_programs_are_answered_with_pandas(tmp_path, name, lines):
    value_error(rf"must end in .*make one by .*{lines}", read_table, tmp_path / name, KNOWN)


STEPS = np.arange(0, 60, 5)
LOSSES = {"warm-up": 1 / (1 + STEPS), "long - run": 2 / (1 + STEPS)}


def curves_of(table, **reading):
    curves, remarks = read_curves(table, record=None, **reading)
    return {
        curve.label: (curve.steps.tolist(), curve.losses.tolist()) for curve in curves
    }, remarks


def test_chart_of_wandb(tmp_path):
    """Each run with its mean, least and largest value; empty where it was not logged."""
    path = tmp_path / "wandb.csv"
    frame = pd.DataFrame({"Step": STEPS})
    for run, losses in LOSSES.items():
        for ending in ("", "__MIN", "__MAX"):
            frame[f"{run} - train/loss{ending}"] = losses
            frame[f"{run} - _step{ending}"] = STEPS
    frame.loc[1::2, "warm-up - train/loss"] = np.nan
    frame.loc[9:, "long - run - train/loss"] = np.nan  # a run that ended earlier
    frame.to_csv(path, index=False)
    expected = {
        "run warm-up": (STEPS[::2].tolist(), LOSSES["warm-up"][::2].tolist()),
        "run long - run": (STEPS[:9].tolist(), LOSSES["long - run"][:9].tolist()),
    }
    found, remarks = curves_of(path)
    assert found == expected
    assert remarks == ["Step of wandb is taken as step, and train/loss as loss"]
    assert curves_of(path, columns={"step": "Step", "loss": "train/loss"}) == (expected, [])
    named = {"step": "Step", "loss_0": "warm-up - train/loss", "loss_1": "long - run - train/loss"}
    wide, _ = curves_of(path, columns=named, ignore="others")
    assert list(wide.values()) == list(expected.values())
    frame["warm-up - val/loss"] = frame["warm-up - val/loss__MIN"] = 1.0
    frame["warm-up - val/loss__MAX"] = 1.0
    value_error("unknown column 'Step'.*train/loss", curves_of, frame)


def test_log_of_lightning_in_alternate_rows(tmp_path):
    path = tmp_path / "metrics.csv"
    losses = LOSSES["warm-up"]
    train = pd.DataFrame({"step": STEPS, "train_loss": losses})
    both = pd.concat([train, pd.DataFrame({"step": STEPS, "val_loss": 2 * losses})])
    both.sort_values("step", kind="stable").to_csv(path, index=False)
    for table in (path, pd.read_csv(path)):
        for name, factor in (("train_loss", 1), ("val_loss", 2)):
            found, _ = curves_of(table, columns={"loss": name}, ignore="others")
            # Older versions of pandas do not read the last digit of a number.
            expected = pytest.approx((factor * losses).tolist(), rel=1e-14)
            assert found == {"the curve": (STEPS.tolist(), expected)}
    value_error("unknown, too: val_loss.*--ignore others", curves_of, path)


def test_losses_that_diverge_are_no_blanks():
    """NaN that stays is a loss that diverged; NaN between two numbers was not logged."""
    losses = LOSSES["warm-up"].copy()
    losses[1::2] = np.nan
    found, _ = curves_of({"step": STEPS, "loss": losses})
    assert found["the curve"][0] == STEPS[::2].tolist()
    losses[4:] = np.nan
    value_error("diverged: its loss is nan at 15", curves_of, {"step": STEPS, "loss": losses})


def test_tables_by_run_are_several_curves(tmp_path):
    path = tmp_path / "curves.json"
    content = {
        run: {"step": STEPS.tolist(), "loss": loss.tolist()} for run, loss in LOSSES.items()
    }
    path.write_text(json.dumps(content))
    found, _ = curves_of(path)
    assert list(found) == ["run warm-up", "run long - run"]
    assert found["run warm-up"][1] == LOSSES["warm-up"].tolist()
