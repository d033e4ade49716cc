"""Columns of a user's table as they stand in a file, a data frame, a mapping or rows."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ENDINGS = (".csv", ".json", ".parquet")


def read_columns(table: Any) -> dict[str, list[Any]]:
    """Columns of a table by the user's names; forms and errors are those of `read_table`."""
    if isinstance(table, (str, os.PathLike)):
        return file_columns(Path(table))
    if isinstance(table, Mapping):
        for name, entries in table.items():
            if isinstance(entries, str) or not isinstance(entries, Iterable):
                raise TypeError(f"column {name!r} must be a sequence of entries, got {entries!r}")
        return {str(name): list(entries) for name, entries in table.items()}
    if hasattr(table, "to_pydict"):  # Arrow
        return dict(table.to_pydict())
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        names = list(table.columns)
        _refuse_twice(map(str, names))
        return {str(name): list(table[name]) for name in names}
    if isinstance(table, np.ndarray) and table.dtype.names:
        return {name: table[name].tolist() for name in table.dtype.names}
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        return _from_rows(table)
    raise TypeError(
        "table must be a file, a mapping of columns, a list of rows that are mappings, or a data "
        f"frame, got {type(table).__name__}"
    )


def file_columns(path: Path) -> dict[str, list[Any]]:
    """Columns of a file, by their names there."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"a table must end in {', '.join(ENDINGS)}, got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}")
    if ending == ".parquet":
        return _parquet_columns(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} must be text in UTF-8") from None
    return _csv_columns(text) if ending == ".csv" else _json_columns(text)


def _csv_columns(text: str) -> dict[str, list[Any]]:
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    try:
        rows = list(csv.reader([line for _, line in numbered], skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"the file must be CSV: {error}") from None
    if not rows:
        raise ValueError("the table has no header")
    header = [name.strip() for name in rows[0]]
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise ValueError(f"columns must be separated by commas, got the header {header[0]!r}")
    _refuse_twice(header)
    for row, ((line, _), entries) in enumerate(zip(numbered, rows, strict=False)):
        if row and len(entries) != len(header):
            raise ValueError(
                f"row {row} (line {line}) must have {len(header)} entries as the header, "
                f"got {len(entries)}"
            )
    return {name: [row[place] for row in rows[1:]] for place, name in enumerate(header)}


def _json_columns(text: str) -> dict[str, list[Any]]:
    try:
        content = json.loads(text, object_pairs_hook=_no_name_twice)
    except json.JSONDecodeError as error:
        raise ValueError(f"the file must be JSON: {error}") from None
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        return _from_rows(content)
    if isinstance(content, dict) and all(isinstance(each, list) for each in content.values()):
        return content
    raise ValueError("JSON must be a list of rows or a mapping of columns")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_twice(name for name, _ in pairs)
    return dict(pairs)


def _parquet_columns(path: Path) -> dict[str, list[Any]]:
    for library, function in (("pyarrow.parquet", "read_table"), ("pandas", "read_parquet")):
        try:
            return read_columns(getattr(import_module(library), function)(path))
        except ImportError:  # of the library, or of what pandas reads Parquet with
            continue
    raise ValueError(
        "Parquet files need pyarrow, or pandas with fastparquet: pip install 'iclimit[parquet]', "
        f"or save the table as CSV, got {str(path)!r}"
    )


def _from_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns of rows; what a row lacks is missing there."""
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _refuse_twice(names: Iterable[str]) -> None:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise ValueError(f"column names must differ, got {name!r} twice")
        seen.add(name)
