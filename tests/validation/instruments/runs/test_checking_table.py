"""Tables in all forms are one table; every fault is named with its row and column."""

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.validation.instruments.reading import read_table

pd = pytest.importorskip("pandas")

KNOWN = ("dim", "icl", "rho", "tasks")
CSV = "# made by hand\ndim, icl ,tasks\n10,1.5,inf\n\n# more\n20,2e-1,7\n"


def same(table, **more):
    """Whether the table is that of CSV."""
    found = read_table(table, KNOWN, **more)
    return (
        len(found) == 2
        and found.numbers("dim") == [10, 20]
        and found.numbers("icl", "(-inf, inf)") == [1.5, 0.2]
        and found.numbers("tasks") == [math.inf, 7]
        and "rho" not in found
    )


def test_files_frames_columns_and_rows_are_one_table(tmp_path, monkeypatch):
    columns = {"dim": [10, 20], "icl": [1.5, 0.2], "tasks": ["inf", 7]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "table.csv").write_text(CSV)
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    for name in ("table.csv", "rows.json", "columns.json"):
        assert same(tmp_path / name)
        assert same(str(tmp_path / name))
    assert same(columns)
    assert same(rows)
    assert same({name: np.array(values, dtype=object) for name, values in columns.items()})
    numbers = np.array([(10, 1.5, np.inf), (20, 0.2, 7)], dtype="i4,f8,f8")
    numbers.dtype.names = tuple(columns)
    assert same(numbers)
    assert same(pd.DataFrame(columns))
    assert same(SimpleNamespace(to_pydict=lambda: columns))
    # Parquet, through whichever of two libraries there is.
    parquet = tmp_path / "table.parquet"
    parquet.write_bytes(b"")
    frame = pd.DataFrame(columns)
    for missing in ("pandas", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, missing, None)
    value_error("Parquet files need pyarrow, or pandas", read_table, parquet, KNOWN)
    reader = SimpleNamespace(read_parquet=lambda _: frame)
    monkeypatch.setitem(sys.modules, "pandas", reader)
    assert same(parquet)
    arrow = SimpleNamespace(
        read_table=lambda _: SimpleNamespace(to_pydict=lambda: columns),
        read_metadata=lambda _: SimpleNamespace(num_rows=2, num_columns=len(columns)),
    )
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=arrow))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", arrow)
    assert same(parquet)


def test_columns_are_renamed_and_ignored_only_on_demand():
    theirs = {"d": [10, 20], "loss": [1.5, 0.2], "tasks": ["inf", 7]}
    names = {"dim": "d", "icl": "loss"}
    assert same(theirs, columns=names)
    assert same(theirs | {"seed": [1, 2]}, columns=names, ignore=["seed"])
    assert same(theirs | {"seed": [1, 2]}, columns=names, ignore="seed")
    assert same(theirs | {"seed": [1, 2], "icl": [0, 0]}, columns=names, ignore=["seed", "icl"])
    assert same(theirs | {"seed": [1, 2]}, columns=names, ignore="others")


def test_faulty_columns():
    for table, options, message in (
        ({"d": [1]}, {}, r"unknown column 'd'; did you mean dim \(.*\)\? name it \(columns="),
        ({"seed": [1]}, {}, r"unknown column 'seed'; name it .* --ignore seed\); known are dim, "),
        ({"dim": [1]}, {"columns": {"dmi": "dim"}}, "columns must map one of dim, .*mean dim"),
        ({"dimm": [1]}, {"columns": {"dim": "dims"}}, "no such column; did you mean dimm?"),
        ({"dim": [1]}, {"ignore": ["sed"]}, "ignore names 'sed', but there is no such column"),
        ({"a": [1], "icl": [1]}, {"columns": {"icl": "a"}}, "there is a column 'icl', too: ign"),
        ({"a": [1]}, {"columns": {"icl": "a", "rho": "a"}}, "maps icl and rho to the same column"),
        ({"dim": [1], "icl": [1, 2]}, {}, "same length, got 1 entries of 'dim' and 2 of 'icl'"),
        ({"dim": []}, {}, "no rows"),
        ([], {}, "no rows"),
    ):
        value_error(message, read_table, table, KNOWN, **options)


def test_faulty_entries_are_named_with_row_and_column():
    for entry, message in (
        (None, "is missing"),
        ("", "is missing"),
        ("NaN", "is missing"),
        (math.nan, "is missing"),
        (pd.NA, "is missing"),
        (np.ma.masked, "is missing"),
        ("3 %", "must be a number, got '3 %'"),
        ("1,5", "must be a number, got '1,5'"),
        ("1_000", "must be a number, got '1_000'"),
        (True, "must be a number, got True"),
        ((1,), r"must be a number, got \(1,\)"),
        (-0.5, "must be >= 0 and finite, got -0.5"),
        ("inf", "must be >= 0 and finite, got inf"),
    ):
        table = read_table({"noise": [0.1, entry]}, KNOWN, columns={"rho": "noise"})
        value_error(rf"row 2: noise \(rho\) {message}", table.numbers, "rho")
        with pytest.raises(ValueError, match=rf"row 2: rho {message}"):
            read_table([{"rho": 0.1}, {"rho": entry}], KNOWN).numbers("rho")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", r"must end in .csv, .json, .jsonl, .parquet, .npz, got"),
        ("a.csv", "", "no header"),
        ("a.csv", "dim;icl\n1;2\n", "separated by commas"),
        ("a.csv", "dim,dim\n1,2\n", "column names must differ, got 'dim' twice"),
        ("a.csv", "# c\ndim,icl\n1,2\n\n1,2,3\n", r"row 2 \(line 5\) must have 2 entries"),
        ("a.json", "{", "must be JSON"),
        ("a.json", 100_000 * "[", "got lists within lists"),
        ("a.json", "3", "a list of rows or a mapping of columns"),
        ("a.json", '{"dim": 3}', "a list of rows or a mapping of columns"),
        ("a.json", '[{"dim": 3, "dim": 4}]', "column names must differ, got 'dim' twice"),
    ],
)
def test_faulty_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    value_error(message, read_table, tmp_path / name, KNOWN)


def test_what_is_no_table_is_refused(tmp_path):
    value_error(r"there is no file .*nothing.csv", read_table, tmp_path / "nothing.csv", KNOWN)
    (tmp_path / "latin.csv").write_bytes(b"dim\n\xe9\n")
    value_error("must be text in UTF-8", read_table, tmp_path / "latin.csv", KNOWN)
    for wrong in (3, [1, 2], np.eye(2)):
        type_error("table must be a file, a mapping of columns", read_table, wrong, KNOWN)
    type_error("column 'dim' must be a sequence of entries, got 3", read_table, {"dim": 3}, KNOWN)
    with pytest.raises(ValueError, match="column names must differ, got 'dim' twice"):
        read_table(pd.DataFrame([[1, 2]], columns=["dim", "dim"]), KNOWN)
