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

from iclimit.array_files import read_arrays
from iclimit.checks import shown
from iclimit.notation import PARAMETERS, Interval, did_you_mean
from iclimit.validation.instruments.forms import (
    columns_of_arrays,
    columns_of_frame,
    columns_of_json,
    columns_of_labelled,
    columns_of_rows,
    refuse_twice,
    without_row_numbers,
)

# Columns that people also write as logarithms.
LOGARITHMIC = ("tau", "alpha", "kappa", "sequence_ratio")

ENDINGS = (".csv", ".json", ".jsonl", ".parquet", ".npz")

# Files of other programs, by their endings or names, and what makes tables of them.
OTHER_FILES = {
    "trainer_state.json": (
        "rows = json.load(open('trainer_state.json'))['log_history']; "
        "pandas.DataFrame(rows).to_csv('curve.csv')"
    ),
    "tfevents": (
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator; "
        "log = EventAccumulator(FOLDER).Reload(); "
        "pandas.DataFrame(log.Scalars('loss')).to_csv('curve.csv')"
    ),
    ".nc": "xarray.open_dataset(FILE).to_dataframe().to_csv('runs.csv')",
    ".pkl": "pandas.read_pickle(FILE).to_csv('runs.csv')",
    ".xlsx": "pandas.read_excel(FILE).to_csv('runs.csv')",
    ".tsv": "pandas.read_csv(FILE, sep='\\t').to_csv('runs.csv')",
}

# Lines of job arrays, "[i, v],": a list that lacks its brackets.
PAIRS = (
    '; lines "[i, v]," become a table by import json, pandas; '
    "rows = json.loads('[' + text.strip().rstrip(',') + ']'); "
    "pandas.DataFrame(rows, columns=['step', 'loss']).to_csv('curve.csv')"
)

# Entries that a Parquet file may hold whatever its size; more of them need as many bytes.
FREE_ENTRIES = 2**23


def read_columns(
    table: object, names: Collection[str] = (), label: str = ""
) -> dict[str, list[Any]]:
    """Columns of a table by the user's names.

    Parameters
    ----------
    table
        Forms and errors are those of `read_table`.
    names : collection of str
        Names that columns may have, which tell them from labels in JSON.
    label : str
        Column for labels of several tables in JSON; without it they are left out.
    """
    return without_row_numbers(_read_columns(table, names, label))


def _read_columns(table: object, names: Collection[str], label: str) -> dict[str, list[Any]]:
    if isinstance(table, (str, os.PathLike)):
        return file_columns(Path(table), names, label)
    if hasattr(table, "to_dataframe") or hasattr(table, "to_frame"):  # xarray, or a series
        return columns_of_labelled(table)
    if isinstance(table, Mapping):
        return columns_of_arrays(_mapped_arrays(table))
    if hasattr(table, "to_pydict"):  # Arrow
        return dict(table.to_pydict())
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        return columns_of_frame(table)
    if isinstance(table, np.ndarray) and table.dtype.names:
        return {name: table[name].tolist() for name in table.dtype.names}
    if isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table):
        return columns_of_rows(table)
    raise TypeError(
        "table must be a file, a mapping of columns, a list of rows that are mappings, or a data "
        f"frame, got {type(table).__name__}"
    )


def _mapped_arrays(table: Mapping[Any, Any]) -> dict[str, Any]:
    """Columns of a mapping as lists or arrays, beside numbers that all rows share."""
    arrays: dict[str, Any] = {}
    for name, entries in table.items():
        single = isinstance(entries, str) or not isinstance(entries, Iterable)
        arrays[str(name)] = entries
        if not single and not isinstance(entries, np.ndarray):
            arrays[str(name)] = list(entries)
    if any(isinstance(entries, (list, np.ndarray)) for entries in arrays.values()):
        return arrays
    for name, entries in arrays.items():
        raise TypeError(f"column {name!r} must be a sequence of entries, got {entries!r}")
    return arrays


def file_columns(path: Path, names: Collection[str] = (), label: str = "") -> dict[str, list[Any]]:
    """Columns of a file, by their names there; ``names`` and ``label`` as in `read_columns`."""
    ending = path.suffix.lower()
    _refuse_other_programs(path)
    if ending not in ENDINGS:
        raise ValueError(f"a table must end in {', '.join(ENDINGS)}, got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}")
    if ending == ".parquet":
        return _parquet_columns(path)
    if ending == ".npz":
        return columns_of_arrays(read_arrays(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} must be text in UTF-8") from None
    if ending == ".csv":
        return _csv_columns(text)
    return columns_of_json(parse_json(text), names, label)


def _refuse_other_programs(path: Path) -> None:
    """Refuse the file of another program, with the lines that make a table of it."""
    for part, lines in OTHER_FILES.items():
        if path.name.endswith(part) or (part == "tfevents" and part in path.name):
            raise ValueError(
                f"a table must end in {', '.join(ENDINGS)}, got {str(path)!r}: make one by "
                f"import json, pandas; {lines}"
            )


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
    # The name that pandas gives to an index without one.
    header = [name or f"__index_level_{place}__" for place, name in enumerate(header)]
    refuse_twice(header)
    for row, ((line, _), entries) in enumerate(zip(numbered, rows, strict=False)):
        if row and len(entries) != len(header):
            raise ValueError(
                f"row {row} (line {line}) must have {len(header)} entries as the header, "
                f"got {len(entries)}"
            )
    return {name: [row[place] for row in rows[1:]] for place, name in enumerate(header)}


def parse_json(text: str) -> Any:
    """Parse JSON, or JSON line by line.

    Raises
    ------
    ValueError
        If it is none, or a mapping has a name twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_no_name_twice)
    except json.JSONDecodeError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith("{") for line in lines):
            return [parse_json(line) for line in lines]
        pairs = PAIRS if text.lstrip().startswith("[") else ""
        raise ValueError(f"the file must be JSON: {error}{pairs}") from None
    except RecursionError:
        raise ValueError("the file must be a table in JSON, got lists within lists") from None


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    refuse_twice(name for name, _ in pairs)
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


# Column of the labels of tables by run, where such a column is known.
LABEL = "run"

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
                problem = f"must be {words}, got {value:g}"
                if value < 0 and name in LOGARITHMIC:
                    problem += f"; perhaps {name} is a logarithm"
                raise self.fault(number, name, problem)
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
        A file ends in .csv (lines that start with # are comments), .json or .jsonl (rows,
        columns, pandas' orients, or tables by seed), .parquet, or .npz (arrays of settings, or of
        settings and seeds, and numbers that all share).  A data frame is anything with
        ``columns`` and entries by column; named levels of its index, and coordinates of labelled
        arrays, are columns, too.  Row numbers of pandas are no columns.
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
    names = {*known, *(columns or {}).values(), *ignore}
    given = read_columns(table, names, LABEL if LABEL in known else "")
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
    mapped = _mapped(given, known, columns)
    ignored = [ignore] if isinstance(ignore, str) and ignore != OTHERS else ignore
    for own in ignored if ignore != OTHERS else ():
        if own not in given:
            near = did_you_mean(own, given)
            raise ValueError(f"ignore names {own!r}, but there is no such column{near}")
    kept: dict[str, str] = {}
    unknown = list[str]()
    for own in given:
        name = mapped.get(own, own)
        hidden = own not in mapped and name in columns  # the user maps another column to its name
        if ignore != OTHERS and own in ignored:
            continue
        if name in known and not hidden:
            kept[name] = own
        elif ignore != OTHERS and hidden:
            raise ValueError(_unknown(own, known, columns, hint))
        elif ignore != OTHERS:
            unknown.append(own)
    if unknown:
        raise ValueError(_unknown(unknown[0], known, {}, hint) + _unknown_too(unknown[1:], hint))
    return kept


def _mapped(
    given: Collection[str], known: Collection[str], columns: Mapping[str, str]
) -> dict[str, str]:
    """Names of the notation, by what the user calls those columns that are renamed."""
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
    return mapped


def _unknown_too(names: Sequence[str], hint: Callable[[str], str] | None) -> str:
    """End of a message: further columns that are not known, and what was probably meant."""
    if not names:
        return ""
    words = []
    for name in names:
        meant = hint(name) if hint else ""
        words.append(f"{name} ({meant.removeprefix('; ').rstrip('?')})" if meant else name)
    return f"; unknown, too: {', '.join(words)} (--ignore {OTHERS} ignores all that are not named)"


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
