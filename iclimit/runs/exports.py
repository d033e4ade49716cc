"""Numbers of runs as tables: CSV for any program, NetCDF for xarray."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.runs.store import StoredRun

FACTS = ("run", "function", "root_seed", "backend", "repeats", "seconds", "finished", "code")
"""Columns that every run has."""


@dataclass(frozen=True)
class RunTable:
    """Runs with their parameters and numbers, by column.

    Attributes
    ----------
    facts : dict of str to list
        One entry per run for each of FACTS.
    parameters : dict of str to list
        By name; None where a run has no such parameter.  Tuples and cells are JSON text.  A name
        that is one of FACTS gets the ending ``_parameter``.
    numbers : dict of str to list
        By name, (value, standard error or None); None where a run has no such number.
    """

    facts: dict[str, list[Any]]
    parameters: dict[str, list[Any]]
    numbers: dict[str, list[tuple[float, float | None] | None]]


def run_table(runs: Mapping[StoredRun, Mapping[str, tuple[float, float | None]]]) -> RunTable:
    """Build the table from runs and their numbers."""
    given = [run.arguments for run in runs]
    facts = [
        (
            run.identity,
            run.function,
            run.seed,
            run.backend,
            own.pop("repeats", run.repeats),
            run.seconds,
            run.finished,
            run.code,
        )
        for run, own in zip(runs, given, strict=True)
    ]
    parameters = [
        {_apart(name, FACTS, "parameter"): _plain(value) for name, value in own.items()}
        for own in given
    ]
    return RunTable(
        dict(zip(FACTS, map(list, zip(*facts, strict=True)), strict=True)),
        _columns(parameters),
        _columns(list(runs.values())),
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _apart(name: str, taken: Any, ending: str) -> str:
    return f"{name}_{ending}" if name in taken else name


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def write_csv(table: RunTable, path: Path) -> None:
    """Write a row per run and number; missing entries are empty, infinity is ``inf``."""
    names = [*table.facts, *table.parameters, "number", "value", "standard_error"]
    apart = [*table.facts, *(_apart(name, names[-3:], "parameter") for name in table.parameters)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*apart, *names[-3:]])
        columns = [*table.facts.values(), *table.parameters.values()]
        for index, start in enumerate(zip(*columns, strict=True)):
            for name, entries in table.numbers.items():
                if (entry := entries[index]) is not None:
                    writer.writerow([*start, name, *entry])


def write_netcdf(table: RunTable, path: Path) -> None:
    """Write a data set over the dimension ``run``.

    Parameters are coordinates; numbers are variables, with their standard errors beside them as
    ``X_se``.  A number that is named like a parameter gets the ending ``_result``.
    """
    import xarray

    coordinates = {
        _netcdf(name): ("run", _array(entries))
        for name, entries in (table.facts | table.parameters).items()
    }
    variables: dict[str, Any] = {}
    for name, entries in table.numbers.items():
        given = [entry or (np.nan, None) for entry in entries]
        key = _apart(_netcdf(name), coordinates, "result")
        variables[key] = ("run", np.array([value for value, _ in given]))
        if any(error is not None for _, error in given):
            errors = [np.nan if error is None else error for _, error in given]
            variables[f"{key}_se"] = ("run", np.array(errors))
    data = xarray.Dataset(variables, coords=coordinates)
    data.to_netcdf(path, engine="h5netcdf")


def _netcdf(name: str) -> str:
    """NetCDF takes no slashes in names."""
    return name.replace("/", "_")


def _array(entries: Sequence[Any]) -> np.ndarray:
    """Numbers as numbers, with NaN for what is missing; anything else as text."""
    given = {type(entry) for entry in entries if entry is not None}
    if given == {int} and None not in entries and max(map(abs, entries)) < 2**63:
        return np.array(entries, dtype=np.int64)
    if given and given <= {int, float}:
        return np.array([np.nan if entry is None else entry for entry in entries], dtype=float)
    return np.array(["" if entry is None else str(entry) for entry in entries], dtype=object)
