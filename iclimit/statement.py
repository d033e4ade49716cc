"""Statements: what a person says of a run, which makes its name and its seed.

A run is called by a name that its function declares, and by the arguments that a person states:
numbers, texts, and arrays.  Floats that are *computed*, such as the optimum of a search, differ
in their last digits from one processor to another.  They are handed to the function as `Derived`
values, and stand in the statement by what they are, not by their digits.  So a run has the same
name, the same seed and the same random numbers on every machine.

Arguments that have their default are left out.  The defaults stand in the table ``cells.csv``, by
the name of the run, and not in the signature: a function can be renamed, moved, or get its
arguments in another form, and its runs keep their seeds.  Functions of users that are not in the
table have the defaults of their signature.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from iclimit.notation import read_table

Function = TypeVar("Function", bound=Callable[..., Any])

# Attribute of a function that holds the name it declares for its runs.
_NAME = "__cell_name__"

# Hexadecimal digits of the digest of an array: 128 bits.
_DIGITS = 32

# Largest deviation of derived values that are the same, relative to the largest entry of an array.
# Optima of searches are known to about 1e-8, the root of the rounding.
AGREEMENT = 1e-5


@dataclass(frozen=True, eq=False)
class Derived:
    """A computed argument: what it is, which counts, and its value, which does not.

    Parameters
    ----------
    value : float, array, or tuple of these
        What the function gets.
    statement : str, number, array, or tuple of these
        What a person states of it, such as "best rate".  With the other arguments of the run it
        must determine the value up to rounding: two runs of equal statements whose values differ
        are refused.

    Examples
    --------
    >>> from iclimit.statement import Derived, canonical
    >>> canonical(Derived(0.6357930546, "best inverse temperature"))
    {'derived': 'best inverse temperature'}
    """

    value: Any
    statement: Any


def named_cell(name: str) -> Callable[[Function], Function]:
    """Declare the name of a function's runs, from which their seeds come, once and for all.

    Parameters
    ----------
    name : str
        Stays as it is when the function is renamed or moved.

    Examples
    --------
    >>> from iclimit.statement import cell_name, named_cell
    >>> @named_cell("simulate_widths")
    ... def simulate(*, width, rng):
    ...     return width
    >>> cell_name(simulate)
    'simulate_widths'
    """

    def declare(function: Function) -> Function:
        setattr(function, _NAME, name)
        return function

    return declare


def cell_name(function: Callable[..., Any]) -> str:
    """Declared name of a function's runs; its qualified name if it declares none."""
    return str(getattr(function, _NAME, function.__qualname__))


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    """Defaults in canonical JSON, by name of the run and argument."""
    table: dict[str, dict[str, str]] = {}
    for row in read_table("cells.csv"):
        table.setdefault(row["cell"], {})[row["argument"]] = row["default"]
    return table


@cache
def _defaults(function: Callable[..., Any]) -> Mapping[str, str]:
    """Defaults of a function: those of the table, or for a user's function of its signature."""
    declared = _table().get(cell_name(function))
    if declared is not None:
        return declared
    defaults = {}
    for parameter in inspect.signature(function).parameters.values():
        with suppress(TypeError):  # a default that no run can state
            defaults[parameter.name] = json.dumps(canonical(parameter.default))
    return defaults


def statement(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Canonical arguments of a run, sorted by name, without those that have their default.

    An experiment is stated by its own arguments, among the others, where the function is one of
    the table ``cells.csv``; functions of users may have other arguments of these names.

    Parameters
    ----------
    function : callable
        What is run; its declared name leads to the defaults.
    arguments : mapping
        Numbers, strings, None, arrays, `Derived` values, objects with a ``statement`` of their
        own, and tuples of these.

    Returns
    -------
    dict
        Of values that JSON can write.

    Raises
    ------
    TypeError
        If an argument has no canonical form.
    """
    defaults = _defaults(function)
    declared = cell_name(function) in _table()
    stated = dict[str, Any]()
    for name, value in arguments.items():
        flat = declared and callable(getattr(value, "statement", None))
        stated |= canonical(value) if flat else {name: canonical(value)}
    return {
        name: value
        for name, value in sorted(stated.items())
        if json.dumps(value) != defaults.get(name)
    }


def canonical(value: object) -> Any:
    """The same JSON value for arguments that are equal.

    Raises
    ------
    TypeError
        If the value is of another kind than those of `statement`.
    """
    if isinstance(value, Derived):
        return {"derived": canonical(value.statement)}
    if isinstance(value, np.ndarray):
        return _canonical_array(value)
    if isinstance(value, (tuple, list)):
        return [canonical(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # of -0.0 as well, which is 0
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    own = getattr(value, "statement", None)
    if callable(own):  # of a run
        own = own()
    if isinstance(own, Mapping):
        return own
    raise TypeError(
        "arguments of a cell must be numbers, strings, None, arrays, derived values, cells or "
        f"tuples, got {value!r}"
    )


def _canonical_array(array: np.ndarray) -> Any:
    """Shape and digest of an array of numbers, by the bytes of its float64."""
    if array.ndim == 0:
        return canonical(array.item())
    if array.dtype.kind not in "iuf":
        return canonical(array.tolist())
    numbers = np.ascontiguousarray(array, dtype="<f8") + 0.0  # -0.0 becomes 0.0
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()[:_DIGITS]
    return {"array": list(array.shape), "digest": digest}


def without_statements(value: Any) -> Any:
    """An argument as a function gets it: derived values are unwrapped, also within tuples."""
    if isinstance(value, Derived):
        return value.value
    if isinstance(value, tuple):
        return tuple(map(without_statements, value))
    return value


def derived_values(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the derived values within an argument, each with the place where it stands."""
    if isinstance(value, Derived):
        yield path, value.value
    elif isinstance(value, tuple):
        for place, entry in enumerate(value):
            yield from derived_values(f"{path}[{place}]", entry)


def disagreement(
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    *,
    where: tuple[str, str] = ("in one", "in the other"),
) -> str:
    """Where derived values of two runs differ by more than rounding explains, in words.

    Parameters
    ----------
    first, second : mapping
        Values by the place where they stand, as `derived_values` gives them.
    where : (str, str)
        Words for the two runs.

    Returns
    -------
    str
        Names the argument and both values; empty if they agree to `AGREEMENT` of the largest
        entry of each array.
    """
    for path in dict.fromkeys([*first, *second]):
        if path in first and path in second and _agree(first[path], second[path]):
            continue
        values = (
            f"{_short(values[path]) if path in values else 'missing'} {place}"
            for values, place in zip((first, second), where, strict=True)
        )
        return f"{path} is {' and '.join(values)}"
    return ""


def _agree(first: Any, second: Any) -> bool:
    numbers = np.asarray(first, dtype=float)
    others = np.asarray(second, dtype=float)
    if numbers.shape != others.shape:
        return False
    finite = np.isfinite(numbers) & np.isfinite(others)
    if not np.array_equal(numbers[~finite], others[~finite], equal_nan=True):
        return False
    size = max(np.max(abs(numbers[finite]), initial=0.0), np.max(abs(others[finite]), initial=0.0))
    return bool(np.all(abs(numbers[finite] - others[finite]) <= AGREEMENT * size))


def _short(value: Any) -> str:
    with np.printoptions(threshold=6, edgeitems=2, precision=9):
        text = str(np.asarray(value)) if np.ndim(value) else f"{value:.9g}"
    return " ".join(text.split())
