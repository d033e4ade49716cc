"""The named numbers of a result with their standard errors, for tables of runs."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from iclimit.errors import Errors
from iclimit.results import Estimate

# A value and its standard error, None if it has none.
Number = tuple[float, float | None]


def summary_numbers(result: object) -> dict[str, Number]:
    """Named numbers of a result, each with its standard error or None.

    An `Estimate` is a number with its standard error, any other number has none.  `Errors` have
    their estimates by name.  Tuples, dicts and dataclasses are gone through, with names joined by
    dots: ``1.loss`` is ``loss`` of the second of a tuple.  A number alone is called ``value``.
    Lists and arrays are data.  Arguments that a result repeats (``parameters``), truth values and
    private names are left out.

    Parameters
    ----------
    result : object
        What a cell returned.

    Returns
    -------
    dict of str to (float, float or None)

    Examples
    --------
    >>> from iclimit.runs.summary_numbers import summary_numbers
    >>> summary_numbers((1.5, {"loss": 2}))
    {'0': (1.5, None), '1.loss': (2.0, None)}
    """
    return dict(_numbers((), result))


def _numbers(path: tuple[str, ...], value: object) -> Iterator[tuple[str, Number]]:
    name = ".".join(path) or "value"
    if isinstance(value, Estimate):
        yield name, (value.mean, value.standard_error)
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        yield name, (float(value), None)
    else:
        for key, part in _parts(value):
            if not str(key).startswith("_") and key != "parameters":
                yield from _numbers((*path, str(key)), part)


def _parts(value: object) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Errors):
        return value.printed().items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, tuple) else ()
