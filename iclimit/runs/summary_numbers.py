"""The named numbers of a result with their standard errors, for tables of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from iclimit.results import Estimate

_PLAIN = (int, float, np.integer, np.floating)
_ERRORS = ("standard_error", "standard_errors")


def summary_numbers(result: Any) -> dict[str, tuple[float, float | None]]:
    """Named numbers of a result, each with its standard error or None.

    A number alone is called ``value``.  Tuples, dicts and dataclasses are gone through, with names
    joined by dots: ``1.loss`` is ``loss`` of the second of a tuple.  Of a dataclass:

    - an `Estimate` is a number with its standard error;
    - properties or fields ``X_mean`` and ``X_se`` give X; X and ``X_se`` or ``X_error`` likewise;
    - ``standard_error`` or ``standard_errors`` is that of ``mean``, or else of the field before;
    - other fields that are numbers have no standard error.

    Lists and arrays count only where there are standard errors of as many numbers: otherwise they
    are data.  Arguments that a result repeats (``parameters``), truth values and names that begin
    with an underscore are left out.

    Parameters
    ----------
    result : object
        What a cell returned.

    Returns
    -------
    dict of str to (float, float or None)

    Examples
    --------
    >>> from iclimit.simulate.descent import simulate_learning_rate
    >>> from iclimit.runs.summary_numbers import summary_numbers
    >>> found = summary_numbers(simulate_learning_rate(contexts=100, dim=4, context=8, rng=0))
    >>> list(found)
    ['rate']
    >>> summary_numbers((1.5, {"loss": 2}))
    {'0': (1.5, None), '1.loss': (2.0, None)}
    """
    with np.errstate(all="ignore"):
        return {name or "value": number for name, number in _numbers("", result, None)}


def _numbers(
    name: str, value: Any, error: Any
) -> Iterator[tuple[str, tuple[float, float | None]]]:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, Estimate):
        yield name, (value.mean, value.standard_error)
    elif isinstance(value, _PLAIN) and not isinstance(value, bool):
        yield name, (float(value), None if error is None else float(error))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for key, part, spread in _members(value):
            yield from _numbers(_joined(name, key), part, spread)
    elif isinstance(value, dict):
        for key, part in value.items():
            spread = error.get(key) if isinstance(error, dict) else None
            yield from _numbers(_joined(name, key), part, spread)
    elif isinstance(value, (tuple, list, np.ndarray)):
        alike = isinstance(error, (tuple, list, np.ndarray)) and len(error) == len(value)
        if alike or isinstance(value, tuple):
            for index, part in enumerate(value):
                yield from _numbers(_joined(name, index), part, error[index] if alike else None)


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _members(result: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, value and standard error of what a dataclass shows."""
    properties = [
        key for key in dir(type(result)) if isinstance(getattr(type(result), key), property)
    ]
    fields = [field.name for field in dataclasses.fields(result)]
    public = [key for key in (*fields, *properties) if not key.startswith("_")]
    errors: dict[str, str] = {}
    for index, key in enumerate(public):
        stem, _, ending = key.rpartition("_")
        if key in _ERRORS:
            before = (
                "mean"
                if "mean" in public
                else fields[index - 1]
                if 0 < index < len(fields)
                else ""
            )
            errors[before] = key
        elif ending == "se" and f"{stem}_mean" in public:
            errors[f"{stem}_mean"] = key
        elif ending in ("se", "error") and stem in public:
            errors[stem] = key
    for key in public:
        if key in errors or (key in fields and key != "parameters" and key not in errors.values()):
            spread = getattr(result, errors[key]) if key in errors else None
            yield key.removesuffix("_mean") if key in errors else key, getattr(result, key), spread
