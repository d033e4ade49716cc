"""What a row of a run store is, whoever has written it; what reads one can rely on this.

A row whose digest fits was written as it is, though perhaps by another program.  What cannot be
shown, added up or compared is no record, and is treated like a row that has been damaged.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from iclimit.runs.encoding import decode

# UTC, of fixed width, so that times sort as text.
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"

# Most lists and objects within each other among the parameters.  A cell that needs another adds
# three, and what shows them takes four calls for each, of the thousand that Python allows.
DEPTH = 100


def check_record(row: Mapping[str, Any]) -> None:
    """Raise a ValueError unless a row by column is one that `StoredBatch.of` can have made."""
    for name, value in row.items():
        kind = _OTHER_KINDS.get(name, str)
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be of another type, got {value!r}")
    if not row["result"].isascii():
        raise ValueError("result must be ASCII")
    if row["first"] < 0 or row["count"] < 1:
        raise ValueError(f"repeats must be there, got {row['count']} from {row['first']}")
    if not 0 <= row["seconds"] < math.inf:
        raise ValueError(f"seconds must be finite and >= 0, got {row['seconds']}")
    _check_time(row["finished"])
    if _depth(_object("parameters", row["parameters"])) > DEPTH:
        raise ValueError(f"parameters must have at most {DEPTH} levels")
    for library, version in _object("versions", row["versions"]).items():
        if not isinstance(version, str):
            raise ValueError(f"version of {library} must be text, got {version!r}")
    for name, number in _object("numbers", row["numbers"]).items():
        _check_number(name, number)
    _check_derived(row["derived"])


# Types of the columns that are not text.
_OTHER_KINDS: dict[str, Any] = {
    "first": int,
    "count": int,
    "seconds": float,
    "residual": float | None,
}


def _check_time(finished: str) -> None:
    """Raise a ValueError unless a time sorts as text and can be shown in local time."""
    try:
        moment = datetime.fromisoformat(finished)
        moment.astimezone()
    except OverflowError as error:
        raise ValueError(
            f"finished must be within the years 1 to 9999, got {finished!r}"
        ) from error
    if moment.astimezone(UTC).strftime(TIME_FORMAT) != finished:
        raise ValueError(f"finished must be a time in UTC, got {finished!r}")


def _object(name: str, text: str) -> dict[str, Any]:
    """Content of a column of JSON, which is an object."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{name} must be read with few levels") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, got {text[:20]}")
    return value


def _depth(value: Any) -> int:
    """Number of lists and objects within each other."""
    depth = 0
    level = [value]
    while level := [part for part in level if isinstance(part, (list, dict))]:
        depth += 1
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
        ]
    return depth


def _check_number(name: str, number: Any) -> None:
    """Raise a ValueError unless this is a number with its standard error, or None for that."""
    if not isinstance(number, list) or len(number) != 2:
        raise ValueError(f"{name} must be a number with its error, got {number!r}")
    value, error = number
    numbers = [value] if error is None else [value, error]
    if not all(isinstance(number, float) for number in numbers):
        raise ValueError(f"{name} must be of real numbers, got {number!r}")
    if error is not None and error < 0:
        raise ValueError(f"{name} must have a standard error >= 0, got {error}")


def _check_derived(text: str) -> None:
    """Raise a ValueError unless these are arrays of numbers by the place where they stand."""
    values = decode(text)
    if not isinstance(values, dict) or not all(isinstance(place, str) for place in values):
        raise ValueError(f"derived must be values by place, got {text[:20]}")
    for place, value in values.items():
        try:
            np.asarray(value, dtype=float)
        except TypeError as error:
            raise ValueError(f"{place} must be numbers, got {value!r}") from error
