"""Numbers of runs as tables: CSV for any program, NetCDF for xarray."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.extras import import_xarray
from iclimit.files import printable
from iclimit.results import attributes, column
from iclimit.runs.store import StoredBatch
from iclimit.runs.summary_numbers import Number
from iclimit.tables import column_names, plain, write_rows
from iclimit.tables import write_netcdf as write_dataset

# Columns of a table with a row per number.
NUMBER = ("number", "value", "standard_error")

# Largest integer that is written as a number.
_LARGEST = int(np.finfo(float).max)


def write_csv(runs: Mapping[StoredBatch, Mapping[str, Number]], path: Path) -> None:
    """Write a row per run and number; missing entries are empty, infinity is ``inf``."""
    heads = list(map(_columns, runs))
    rows = [
        head | dict(zip(NUMBER, (name, value, error), strict=True))
        for head, numbers in zip(heads, runs.values(), strict=True)
        for name, (value, error) in numbers.items()
    ]
    write_rows(path, rows, columns=[*column_names(heads), *NUMBER])


def write_netcdf(runs: Mapping[StoredBatch, Mapping[str, Number]], path: Path) -> None:
    """Write a data set over the dimension ``run``.

    Parameters are coordinates; numbers are variables, with their standard errors beside them as
    ``X_standard_error``.  A number that is named like another column gets the ending ``_result``.
    Symbols and meanings of `iclimit.notation` are attributes.
    """
    xarray = import_xarray("NetCDF")
    rows = list(map(_columns, runs))
    coordinates: dict[str, Any] = {}
    for name in column_names(rows):
        key = _variable(name, coordinates, "_parameter")
        coordinates[key] = ("run", _column([row.get(name) for row in rows]), _attributes(name))
    variables: dict[str, Any] = {}
    for name in dict.fromkeys(name for numbers in runs.values() for name in numbers):
        key = _variable(name, coordinates | variables, "_result")
        entries = [numbers.get(name, (None, None)) for numbers in runs.values()]
        values, errors = np.array(entries, dtype=float).T
        variables[key] = ("run", values, _attributes(name))
        if not np.all(np.isnan(errors)):
            variables[f"{key}_standard_error"] = ("run", errors, {"units": "1"})
    write_dataset(path, xarray.Dataset(variables, coords=coordinates))


def _variable(name: str, taken: Mapping[str, Any], ending: str) -> str:
    """A name that is not taken, and that NetCDF takes: not empty, of one line, without slashes."""
    key = printable(name).replace("/", "_").replace("\n", " ") or "unnamed"
    while key in taken or f"{key}_standard_error" in taken:
        key += ending
    return key


def _column(entries: list[Any]) -> np.ndarray:
    """Entries as numbers, or as text that NetCDF takes."""
    kept = [str(entry) if _is_long(entry) else entry for entry in entries]
    return column([printable(entry) if isinstance(entry, str) else entry for entry in kept])


def _is_long(entry: object) -> bool:
    """Whether an integer is beyond floats."""
    return isinstance(entry, int) and abs(entry) > _LARGEST


def _columns(run: StoredBatch) -> dict[str, Any]:
    """What is known of a run; parameters named like something else are ``X_parameter``."""
    arguments = run.arguments
    facts = {
        "run": run.identity,
        "function": run.function,
        "root_seed": run.seed,
        "backend": run.backend,
        "repeats": arguments.pop("repeats", run.count),
        "seconds": run.seconds,
        "finished": run.finished,
        "code": run.code,
    }
    derived = {name: plain(value) for name, value in run.derived_values.items()}
    return facts | {
        f"{name}_parameter" if name in {*facts, *NUMBER} else name: (
            json.dumps(value) if isinstance(value, (list, dict)) else value
        )
        for name, value in (arguments | derived).items()
    }


def _attributes(name: str) -> dict[str, str]:
    if name == "seconds":
        return {"long_name": "time of the computation", "units": "s"}
    return attributes(name)
