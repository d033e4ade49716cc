"""Numbers of runs as tables: CSV for any program, NetCDF for xarray."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.extras import import_xarray
from iclimit.results import attributes, column
from iclimit.runs.store import StoredBatch
from iclimit.runs.summary_numbers import Number
from iclimit.tables import column_names, write_rows
from iclimit.tables import write_netcdf as write_dataset

# Columns of a table with a row per number.
NUMBER = ("number", "value", "standard_error")


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
    ``X_standard_error``.  A number that is named like a parameter gets the ending ``_result``.
    Symbols and meanings of `iclimit.notation` are attributes.
    """
    xarray = import_xarray("NetCDF")
    rows = list(map(_columns, runs))
    coordinates = {
        name: ("run", column([row.get(name) for row in rows]), _attributes(name))
        for name in column_names(rows)
    }
    variables = {}
    for name in dict.fromkeys(name for numbers in runs.values() for name in numbers):
        key = name.replace("/", "_")  # NetCDF takes no slashes in names
        key = f"{key}_result" if key in coordinates else key
        entries = [numbers.get(name, (None, None)) for numbers in runs.values()]
        values, errors = np.array(entries, dtype=float).T
        variables[key] = ("run", values, _attributes(name))
        if not np.all(np.isnan(errors)):
            variables[f"{key}_standard_error"] = ("run", errors, {"units": "1"})
    write_dataset(path, xarray.Dataset(variables, coords=coordinates))


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
    derived = {name: np.asarray(value).tolist() for name, value in run.derived_values.items()}
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
