"""Tables as text, CSV, JSON and HTML."""

import csv
import io
import json
import math

import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.tables import aligned, escaped_table, json_text, plain, rows_text, write_rows

ROWS = [{"name": "=1+1", "value": 1 / 3, "z": math.inf}, {"name": "b", "z": None, "n": 3}]


def test_rows_have_all_columns():
    assert rows_text(ROWS).splitlines() == [
        "name         value    z  n",
        "=1+1  0.3333333333  inf",
        "   b                     3",
    ]
    assert rows_text([]) == "\n"


def test_csv_is_exact_and_computes_nothing():
    header, first, second = csv.reader(io.StringIO(rows_text(ROWS, "csv")))
    assert header == ["name", "value", "z", "n"]
    assert first == ["'=1+1", str(1 / 3), "inf", ""]
    assert second == ["b", "", "", "3"]
    assert rows_text(ROWS, "csv", columns=["n", "z"]) == "n,z\n,inf\n3,\n"


def test_json_is_strict():
    value = {
        "numbers": np.array([1.0, np.inf, np.nan]),
        "estimate": Estimate(1.0, math.inf, 1),
        2: (np.int64(3), np.float32(0.5), None, True),
        "other": math,
    }
    found = json.loads(json_text(value), parse_constant=pytest.fail)
    assert found["numbers"] == [1.0, "inf", "nan"]
    assert found["estimate"] == {"mean": 1.0, "standard_error": "inf"}
    assert found["2"] == [3, 0.5, None, True]
    assert found["other"].startswith("<module 'math'")
    assert plain(value)["numbers"][1] == math.inf


def test_columns_are_aligned_and_cut():
    lines = [["a", "b", "long text"], ["cc", "d\x1b[0m"]]
    assert aligned(lines, "<>") == ["a          b  long text", r"cc  d\x1b[0m"]
    cut = aligned([["a", "1"], ["bb", "x" * 50]], width=30)
    assert cut == [" a  1", f"bb  {'x' * 23}..."]


def test_html_is_escaped():
    page = escaped_table([["<b>"], ["1 & 2"]])
    assert page == "<table><tr><th>&lt;b&gt;</th></tr><tr><td>1 &amp; 2</td></tr></table>"


def test_a_table_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "table.csv"
    write_rows(path, ROWS)
    before = path.read_text()
    with pytest.raises(ValueError, match=r"path must end in \.csv or \.json, got"):
        write_rows(tmp_path / "table.xlsx", ROWS)
    with pytest.raises(TypeError, match="not iterable"):
        write_rows(path, [None])
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir()] == ["table.csv"]
