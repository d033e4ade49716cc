r"""How the runs of a table were trained: columns of a time, or of steps, rates and batches.

Without them runs are minimisers.  Steps of full batches follow gradient flow, for the time
:math:`2 \eta/d` each; steps of fresh batches are one pass of SGD.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from iclimit.units import Units
from iclimit.validation.instruments.reading import MISSING, Table

# Columns that say how a run was trained.
TRAININGS = ("time", "start_variance", "steps", "learning_rate", "batch")

# Range of numbers of steps, so that times are finite.
STEPS = "[0, 1e15]"

# Range of rates on the mean squared error.
RATES = "(0, 1e50)"


def prompts_of_steps(table: Table) -> Table:
    """Table with the prompts that steps of fresh batches take, where it states no number."""
    if {"prompts", "tau"} & set(table.entries) or not {"steps", "batch"} <= set(table.entries):
        return table
    pairs = zip(table.numbers("steps", STEPS), table.numbers("batch"), strict=True)
    prompts = [int(steps * batch) for steps, batch in pairs]
    return Table({**table.entries, "prompts": prompts}, table.names, len(table))


def read_trainings(
    table: Table, sizes: Mapping[str, Sequence[float]], units: Sequence[Units]
) -> dict[str, list[Any]]:
    """Keywords of the training of each row; none where all runs are minimisers.

    Parameters
    ----------
    table : Table
        Columns of `TRAININGS`; a row without a time, or without steps, is trained to its end.
    sizes : mapping
        Integers of the rows by name.
    units : sequence of Units
        Units of the rows, in which learning rates are stated.

    Raises
    ------
    ValueError
        If columns do not fit each other, or batches are neither all prompts nor fresh ones.
    """
    stated = [name for name in TRAININGS if name in table]
    if not stated:
        return {}
    if "time" in stated and {"steps", "learning_rate", "batch"} & set(stated):
        raise ValueError("time is that of steps and learning_rate: the table must have either")
    if "time" not in stated and ("steps" in stated) != ("learning_rate" in stated):
        lacking = "learning_rate" if "steps" in stated else "steps"
        if lacking == "learning_rate" or "batch" not in stated:
            raise ValueError(f"the table needs a column {lacking}: steps of which rate, how many?")
    if "batch" in stated and "learning_rate" not in stated:
        raise ValueError("the table needs a column learning_rate beside batch")
    rows = range(1, len(table) + 1)
    columns = {name: _filled(table, name) for name in TRAININGS}
    trained = [_training(table, row, columns, sizes, units[row - 1]) for row in rows]
    names = ("time", "start_variance", "learning_rate", "batch")
    return {name: [training.get(name) for training in trained] for name in names}


def _filled(table: Table, name: str) -> list[float | None]:
    """Numbers of a column; None where it has no entry."""
    if name not in table:
        return [None] * len(table)
    ranges = {"steps": STEPS, "learning_rate": RATES}
    blank = [_is_missing(entry) for entry in table.entries[name]]
    entries = [
        1.0 if missing else entry
        for missing, entry in zip(blank, table.entries[name], strict=True)
    ]
    whole = Table({**table.entries, name: entries}, table.names, len(table))
    values = whole.numbers(name, ranges.get(name))
    return [None if missing else value for missing, value in zip(blank, values, strict=True)]


def _is_missing(entry: Any) -> bool:
    return entry is None or str(entry).strip().lower() in MISSING


def _training(
    table: Table,
    row: int,
    columns: Mapping[str, Sequence[float | None]],
    sizes: Mapping[str, Sequence[float]],
    units: Units,
) -> dict[str, Any]:
    """Keywords of the training of a row."""
    own = {name: column[row - 1] for name, column in columns.items()}
    start = own["start_variance"] or 0.0
    rate = own["learning_rate"]
    steps = own["steps"]
    batch = own["batch"]
    prompts = sizes["prompts"][row - 1]
    dim = sizes["dim"][row - 1]
    if rate is not None:
        rate = float(units.to_library("learning_rate", rate))
    repeated = steps is not None and steps > 1
    if batch is None or (batch == prompts and repeated):
        time = own["time"]
        if rate is not None and steps is not None:
            time = 2 * rate * steps / dim
        if time is None:
            time = math.inf
        return {"time": time, "start_variance": start}
    if steps is not None and steps * batch != prompts:
        problem = (
            f"of {batch:g} in {steps:g} steps makes {steps * batch:g} prompts, got {prompts:g}: "
            "batches must be all prompts in every step, or fresh prompts in every step (several "
            "passes by batches have no theory)"
        )
        raise table.fault(row, "batch", problem)
    if start:
        raise table.fault(row, "start_variance", "must be 0 for one pass of SGD")
    if rate is None:
        raise table.fault(row, "learning_rate", "is missing beside a batch")
    return {"learning_rate": rate, "batch": int(batch)}
