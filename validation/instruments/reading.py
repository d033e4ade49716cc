"""Tables of a user's results: files, data frames, columns or rows, with every fault located.

Nothing is guessed.  Columns have the names of the notation, or the names that the user maps to
them; any other column is refused, with the name that was probably meant, unless it is ignored.
Entries are numbers; a missing entry is an error.  Errors name the row, counted from 1, and the
column as the user calls it.
"""

import csv
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.checks import shown
from iclimit.notation import PARAMETERS, Interval, did_you_mean

ENDINGS = (".csv", ".json", ".parquet")

# Entries that a Parquet file may hold whatever its size; more of them need as many bytes.
FREE_ENTRIES = 2**23


def read_columns(table: object) -> dict[str, list[Any]]:
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
    except RecursionError:
        raise ValueError("the file must be a table in JSON, got lists within lists") from None
    if isinstance(content, list) and all(isinstance(row, dict) for row in content):
        return _from_rows(content)
    if isinstance(content, dict) and all(isinstance(column, list) for column in content.values()):
        return content
    raise ValueError("JSON must be a list of rows or a mapping of columns")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_twice(name for name, _ in pairs)
    return dict(pairs)


def _parquet_columns(path: Path) -> dict[str, list[Any]]:
    _check_entries(path)
    for library, function in (("pyarrow.parquet", "read_table"), ("pandas", "read_parquet")):
        try:
            return read_columns(getattr(import_module(library), function)(path))
        except ImportError:  # of the library, or of what pandas reads Parquet with
            continue
    raise ValueError(
        "Parquet files need pyarrow, or pandas with fastparquet: pip install 'iclimit[parquet]', "
        f"or save the table as CSV, got {str(path)!r}"
    )


def _check_entries(path: Path) -> None:
    """Raise a ValueError if a file says that it holds far more than its bytes can tell apart."""
    try:
        content = import_module("pyarrow.parquet").read_metadata(path)
    except ImportError:
        return
    entries = content.num_rows * content.num_columns
    size = path.stat().st_size
    if entries > max(FREE_ENTRIES, size):
        raise ValueError(
            f"a Parquet file must not hold more entries than bytes, got {entries} in the {size} "
            f"bytes of {str(path)!r}"
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


# Word of ``ignore`` for all columns that are not known.
OTHERS = "others"

# Entries that count as missing, in lower case.
MISSING = {"", "na", "n/a", "nan", "none", "null", "<na>", "nat", "--"}


@dataclass(frozen=True)
class Table:
    """Columns of a user's table by the names of the notation.

    Attributes
    ----------
    entries : dict
        Lists of entries as they were given.
    names : dict
        What the user calls these columns.
    length : int
        Number of rows.
    """

    entries: Mapping[str, list[Any]]
    names: Mapping[str, str]
    length: int

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def __len__(self) -> int:
        return self.length

    def numbers(self, name: str, allowed: str | None = None) -> list[float]:
        """Entries of a column as numbers.

        Parameters
        ----------
        name : str
            Name of the notation.
        allowed : str, optional
            Interval of allowed numbers, such as ``"(0, inf)"``; by default that of the notation.

        Raises
        ------
        ValueError
            With row and column, if an entry is missing, is no number or is not allowed.
        """
        interval = PARAMETERS[name].range if allowed is None else Interval.parse(allowed)
        values = []
        for number, entry in enumerate(self.entries[name], 1):
            value = _number(entry)
            if value is None:
                raise self.fault(number, name, "is missing")
            if math.isnan(value):
                raise self.fault(number, name, f"must be a number, got {shown(entry, 40)}")
            whole = allowed or not PARAMETERS[name].integer or value == np.round(value)
            if not whole or (interval is not None and value not in interval):
                words = str(interval) if allowed else PARAMETERS[name].allowed
                raise self.fault(number, name, f"must be {words}, got {value:g}")
            values.append(value)
        return values

    def words(self, name: str, choices: Sequence[str]) -> list[str]:
        """Entries of a column of words; errors are those of `numbers`."""
        for number, entry in enumerate(self.entries[name], 1):
            if entry not in choices:
                words = f"one of {', '.join(choices)}, got {shown(entry, 40)}"
                raise self.fault(number, name, f"must be {words}")
        return list(self.entries[name])

    def fault(self, row: int, name: str, problem: str) -> ValueError:
        """Error that names the row and the column as the user calls it."""
        own = self.names.get(name, name)
        return ValueError(f"row {row}: {own}{f' ({name})' if own != name else ''} {problem}")


def read_table(
    table: object,
    known: Collection[str],
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    hint: Callable[[str], str] | None = None,
) -> Table:
    """Read a table of results.

    Parameters
    ----------
    table : path, mapping of columns, sequence of mappings or data frame
        A file ends in .csv (lines that start with # are comments), .json (a list of rows or a
        mapping of columns) or .parquet.  A data frame is anything with ``columns`` and entries by
        column.
    known : collection of str
        Names that columns may have.
    columns : mapping of str, optional
        What the user's columns are called: ``{"icl": "test_loss"}``.
    ignore : sequence of str or "others"
        Columns that are not used; ``"others"``: all that are not known.
    hint : callable, optional
        From an unknown name to the end of a message that says what was probably meant.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If the file cannot be read as a table, a column is unknown or occurs twice, or rows differ
        in length.
    TypeError
        If it is no table.
    """
    named = isinstance(columns, Mapping) and all(isinstance(own, str) for own in columns.values())
    if columns is not None and not named:
        raise TypeError(f"columns must map names to those of the table, got {columns!r}")
    given = read_columns(table)
    kept = _names(given, known, columns or {}, ignore, hint)
    (first, entries), *others = given.items() or [("", [])]
    for own, column in others:
        if len(column) != len(entries):
            raise ValueError(
                f"columns must have the same length, got {len(entries)} entries of {first!r} and "
                f"{len(column)} of {own!r}"
            )
    if not entries:
        raise ValueError("the table has no rows")
    return Table({name: given[own] for name, own in kept.items()}, kept, len(entries))


def _names(
    given: Collection[str],
    known: Collection[str],
    columns: Mapping[str, str],
    ignore: Sequence[str] | str,
    hint: Callable[[str], str] | None,
) -> dict[str, str]:
    """What the user calls the columns that are used."""
    mapped: dict[str, str] = {}
    for name, own in columns.items():
        if name not in known:
            meant = did_you_mean(name, known)
            raise ValueError(f"columns must map one of {', '.join(known)}, got {name!r}{meant}")
        if own not in given:
            near = did_you_mean(own, given)
            raise ValueError(f"columns maps {name} to {own!r}, but there is no such column{near}")
        if own in mapped:
            raise ValueError(f"columns maps {mapped[own]} and {name} to the same column {own!r}")
        mapped[own] = name
    ignored = [ignore] if isinstance(ignore, str) and ignore != OTHERS else ignore
    for own in ignored if ignore != OTHERS else ():
        if own not in given:
            near = did_you_mean(own, given)
            raise ValueError(f"ignore names {own!r}, but there is no such column{near}")
    kept: dict[str, str] = {}
    for own in given:
        name = mapped.get(own, own)
        hidden = own not in mapped and name in columns  # the user maps another column to its name
        if ignore != OTHERS and own in ignored:
            continue
        if name in known and not hidden:
            kept[name] = own
        elif ignore != OTHERS:
            raise ValueError(_unknown(own, known, columns if hidden else {}, hint))
    return kept


def _unknown(
    own: str, known: Collection[str], columns: Mapping[str, str], hint: Callable[[str], str] | None
) -> str:
    """Message about a column that is neither known nor ignored."""
    ignore_it = f"ignore it (ignore=[{own!r}], --ignore {own})"
    if own in columns:
        return (
            f"columns maps {own} to {columns[own]!r}, but there is a column {own!r}, too: "
            f"{ignore_it}"
        )
    meant = did_you_mean(own, known) if hint is None else hint(own)
    name_it = f"name it (columns={{NAME: {own!r}}}, --columns NAME={own})"
    return (
        f"unknown column {own!r}{meant or ';'} {name_it} or {ignore_it}; known are "
        f"{', '.join(known)}"
    )


def _number(entry: Any) -> float | None:
    """Entry as a float; None if it is missing, NaN if it is no number."""
    if entry is None or entry is np.ma.masked or str(entry).strip().lower() in MISSING:
        return None
    # NumPy would drop the imaginary part, and Python reads 1_000.
    odd = isinstance(entry, (bool, np.bool_, complex, np.complexfloating))
    if odd or (isinstance(entry, str) and "_" in entry):
        return math.nan
    try:
        return float(entry)
    except (TypeError, ValueError):
        return math.nan
