"""Forms in which results are saved, as columns of a table.

JSON of pandas in all its orients, or by seed; arrays of settings, or of settings and seeds, with
numbers that all of them share; data frames and labelled arrays with what their index says; the
export of a chart of wandb.  Row numbers that pandas adds are no columns.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

Columns = dict[str, list[Any]]

# Names that pandas gives to columns without one.
UNNAMED = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")

# Endings of the columns that wandb writes beside each metric of a run: range over what it bins.
RANGES = ("__MIN", "__MAX")

# What wandb writes between the name of a run and that of a metric.
BETWEEN = " - "

ONLY_VALUES = (
    "JSON must have the names of columns, got a list of lists: save the frame with "
    "to_json(orient='records')"
)


def columns_of_json(content: Any, names: Collection[str], label: str = "") -> Columns:
    """Columns of what a JSON file holds.

    Parameters
    ----------
    content : list or dict
        Rows; columns as lists, as numbers that all rows share, or as mappings by row or seed;
        pandas' orients "split", "table", "index" and "columns"; or tables by seed.
    names : collection of str
        Names that columns may have, which tell columns from labels.
    label : str
        Column for the labels of several tables; without it they are left out.

    Raises
    ------
    ValueError
        If it is no table.
    """
    if isinstance(content, dict) and {"columns", "data"} <= set(content):
        rows = [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]
        return columns_of_rows(rows)
    if isinstance(content, dict) and {"schema", "data"} <= set(content):
        rows = [{k: v for k, v in row.items() if k != "index"} for row in content["data"]]
        return columns_of_rows(rows)
    if isinstance(content, list):
        if content and all(isinstance(row, list) for row in content):
            raise ValueError(ONLY_VALUES)
        if all(isinstance(row, dict) for row in content):
            return columns_of_rows(content)
    elif isinstance(content, dict) and content:
        if _by_label(content, names):
            tables = {key: columns_of_rows(_listed(part)) for key, part in content.items()}
            return _concatenate(tables, label)
        columns = {name: _in_order(name, column) for name, column in content.items()}
        if any(isinstance(column, list) for column in columns.values()):
            return columns_of_arrays(columns)
    raise ValueError("JSON must be a list of rows or a mapping of columns")


def _by_label(content: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether the keys of a mapping are labels of tables or rows, and no names of columns."""
    if any(key in names for key in content):
        return False
    if all(isinstance(part, dict) for part in content.values()):
        return any(key in names for part in content.values() for key in part)
    return all(
        isinstance(part, list) and part and all(isinstance(row, dict) for row in part)
        for part in content.values()
    )


def _listed(part: Any) -> list[Any]:
    """Rows of a table; a mapping is one row, or lists of entries."""
    return part if isinstance(part, list) else [part]


def _in_order(name: str, column: Any) -> Any:
    """Entries of a column that may be a mapping by row or seed."""
    if not isinstance(column, dict):
        return column
    entries = list(column.values())
    if any(isinstance(entry, dict) for entry in entries):
        raise ValueError(
            f"column {name!r} must hold numbers or lists of them, got mappings: errors by "
            "position of several models are for iclimit check-positions"
        )
    return entries


def _concatenate(tables: Mapping[str, Columns], label: str) -> Columns:
    """One table below the other; a column has the label of each."""
    rows: list[dict[str, Any]] = []
    for key, columns in tables.items():
        for entries in zip(*columns.values(), strict=True):
            row = dict(zip(columns, entries, strict=True))
            rows.append({label: key} | row if label else row)
    return columns_of_rows(rows)


def columns_of_rows(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Columns of rows; what a row lacks is missing there.

    A row with a list of values, one for each seed, stands for as many rows.
    """
    single: list[Mapping[str, Any]] = []
    for row in rows:
        entries = {str(name): _in_order(str(name), entry) for name, entry in row.items()}
        if any(_is_several(entry) for entry in entries.values()):
            columns = columns_of_arrays(entries)
            single += [
                dict(zip(columns, values, strict=True))
                for values in zip(*columns.values(), strict=True)
            ]
        else:
            single.append(entries)
    names = dict.fromkeys(name for row in single for name in row)
    return {name: [row.get(name) for row in single] for name in names}


def _is_several(entry: Any) -> bool:
    """Whether an entry of a row is a list or an array of values; a masked number is an array."""
    return isinstance(entry, list) or (isinstance(entry, np.ndarray) and entry.ndim > 0)


def columns_of_arrays(arrays: Mapping[str, Any]) -> Columns:
    """Columns of arrays of settings, or of settings and seeds, and of numbers that all share.

    Parameters
    ----------
    arrays : mapping of str to array
        Shapes (settings,), (settings, seeds) or its transpose, and (): all are repeated to the
        largest.  An array (m,) belongs to the axis of this length; if both have it, it must say
        which, as (m, 1) or (1, m).

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    arrays = {str(name): _array(str(name), entries) for name, entries in arrays.items()}
    if all(array.ndim == 1 for array in arrays.values()):
        return {name: array.tolist() for name, array in arrays.items()}
    shape: tuple[int, ...] = ()
    largest = ""
    for name, array in arrays.items():
        if array.ndim > 2:
            raise ValueError(f"{name!r} must be settings, or settings by seeds, got {array.shape}")
        if array.ndim == 2:
            try:
                shape = np.broadcast_shapes(shape, array.shape)
            except ValueError:
                raise ValueError(
                    f"arrays must be of the same settings and seeds, got {largest!r} of shape "
                    f"{shape} and {name!r} of shape {array.shape}"
                ) from None
            largest = name
    if not shape:
        shape = (max(array.size for array in arrays.values() if array.ndim == 1),)
    columns = Columns()
    for name, array in arrays.items():
        placed = _placed(name, array, shape)
        columns[name] = np.broadcast_to(placed, shape).ravel().tolist()
    return columns


def _array(name: str, entries: Any) -> np.ndarray:
    """Entries as an array; lists of lists must be rectangles."""
    if isinstance(entries, np.ndarray):
        return entries
    if not isinstance(entries, (list, tuple)):
        return np.array(entries, dtype=object)
    if entries and all(isinstance(row, list) for row in entries):
        if len({len(row) for row in entries}) > 1:
            raise ValueError(f"{name!r} must have equally many seeds in each setting")
        return np.array(entries, dtype=object)
    column = np.empty(len(entries), dtype=object)
    column[:] = entries
    return column


def _placed(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array along the axis of its length."""
    if array.ndim != 1 or len(shape) == 1:
        if array.ndim == 1 and len(array) != shape[0]:
            raise ValueError(f"{name!r} must have {shape[0]} entries, got {len(array)}")
        return array
    settings, seeds = shape
    if len(array) == settings == seeds:
        raise ValueError(
            f"{name!r} has {settings} entries beside arrays of shape {shape}: save it as "
            f"({settings}, 1) if it is of the first axis, or (1, {settings}) if of the last"
        )
    if len(array) not in shape:
        raise ValueError(
            f"{name!r} must have {settings} entries, one for each setting, or {seeds}, one for "
            f"each seed, as arrays have shape {shape}, got {len(array)}"
        )
    return array[:, None] if len(array) == settings else array


def columns_of_frame(frame: Any) -> Columns:
    """Columns of a data frame, named levels of its index among them."""
    index = getattr(frame, "index", None)
    levels = [name for name in getattr(index, "names", ()) if name is not None]
    names = [*levels, *frame.columns]
    refuse_twice(map(flat_name, names))
    if levels:
        frame = frame.reset_index(level=levels)
    return {flat_name(name): list(frame[name]) for name in names}


def flat_name(name: Any) -> str:
    """Name of a column; levels of headings are joined, as of the frame of an aggregation."""
    if isinstance(name, tuple):
        return "_".join(str(part) for part in name if part != "")
    return str(name)


def columns_of_labelled(arrays: Any) -> Columns:
    """Columns of a data set, data array or series, which pandas makes a frame of.

    Coordinates and levels of an index are columns; dimensions without coordinates are row numbers.
    """
    if hasattr(arrays, "to_dataframe"):
        if not hasattr(arrays, "data_vars") and arrays.name is None:
            raise ValueError("a labelled array must have a name, what was measured: a.rename(...)")
        bare = [dim for dim in arrays.dims if dim not in arrays.coords]
        frame = arrays.to_dataframe()
        return columns_of_frame(frame.reset_index(level=bare, drop=True) if bare else frame)
    if arrays.name is None:
        raise ValueError("a series must have a name, what was measured: s.rename(...)")
    return columns_of_frame(arrays.to_frame())


def refuse_twice(names: Any) -> None:
    """Raise a ValueError if a name occurs twice."""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise ValueError(f"column names must differ, got {name!r} twice")
        seen.add(name)


def without_row_numbers(columns: Mapping[str, list[Any]]) -> Columns:
    """Columns without those that pandas adds: no name, and numbers of rows.

    Raises
    ------
    ValueError
        If a column without a name holds something else.
    """
    kept = Columns()
    for name, entries in columns.items():
        if not UNNAMED.fullmatch(name.strip()):
            kept[name] = entries
            continue
        words = [str(entry).strip() for entry in entries]
        filled = [word for word in words if word]
        if len(set(filled)) < len(filled) or not all(word.isdecimal() for word in filled):
            raise ValueError(
                f"a column must have a name, got none above {words[0]!r}: name it, or leave the "
                "index of a frame out with to_csv(index=False)"
            )
    return kept


def columns_of_wandb(columns: Columns) -> Columns | None:
    """Rows of runs, from the export of a chart of wandb; None if it is none.

    There each metric of a run is a column ``RUN - METRIC``, beside its least and largest value
    over what was binned; entries are empty where a run was not logged.
    """
    metrics = {
        name: name.rsplit(BETWEEN, 1)
        for name in columns
        if BETWEEN in name and all(f"{name}{ending}" in columns for ending in RANGES)
    }
    if not metrics:
        return None
    of_metrics = {f"{name}{ending}" for name in metrics for ending in ("", *RANGES)}
    shared = [name for name in columns if name not in of_metrics]
    rows = []
    for run in dict.fromkeys(run for run, _ in metrics.values()):
        own = {
            metric: columns[name]
            for name, (of, metric) in metrics.items()
            if of == run and not metric.startswith("_")
        }
        for row in range(len(next(iter(columns.values())))):
            logged = {metric: entries[row] for metric, entries in own.items()}
            if not all(is_blank(entry) for entry in logged.values()):
                rows.append({name: columns[name][row] for name in shared} | {"run": run} | logged)
    return columns_of_rows(rows)


def is_blank(entry: Any) -> bool:
    """Whether an entry is empty: nothing was logged there."""
    return entry is None or str(entry).strip() in ("", "<NA>")
