"""Cells: pieces of computation with an identity, which can be run anywhere and put on record."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.runs.code_version import code_version

# Number of entries of a tuple that messages show.
SHOWN = 6

_REPEATS, _FIRST = "repeats", "first_repeat"


@dataclass(frozen=True)
class Cell:
    """One piece of simulation: a function and its arguments, except the seed.

    The function is defined at module level (workers import it) and takes ``rng``, and ``backend``
    if it can choose one.  Arguments are numbers, strings, None, tuples of these, or other cells,
    whose results the function gets in their place.

    A cell is *extendable* if its function takes ``repeats`` and ``first_repeat``: repeat r then
    depends on the seed and r only, and results have ``concatenate(other)`` and ``head(count)``.
    Such a cell is the same piece of work whatever the number of repeats.
    """

    function: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, function: Callable[..., Any], **parameters: object) -> Cell:
        """Build a cell from keyword arguments; arrays become tuples."""
        return cls(function, tuple(sorted((k, _frozen(v)) for k, v in parameters.items())))

    @property
    def name(self) -> str:
        """Function and arguments, for messages."""
        arguments = ", ".join(f"{key}={_shown(value)}" for key, value in self.parameters)
        return f"{self.function.__name__}({arguments})"

    @cached_property
    def repeats(self) -> int | None:
        """Repeats asked for; None if the cell is not extendable."""
        accepted = inspect.signature(self.function).parameters
        if not {_REPEATS, _FIRST} <= accepted.keys():
            return None
        return int(dict(self.parameters).get(_REPEATS, accepted[_REPEATS].default))

    @cached_property
    def takes_backend(self) -> bool:
        """Whether the function chooses where to compute."""
        return "backend" in inspect.signature(self.function).parameters

    @cached_property
    def depends_on_backend(self) -> bool:
        """Whether this cell or one that it needs chooses where to compute."""
        return self.takes_backend or any(cell.depends_on_backend for cell in self.needs)

    @cached_property
    def needs(self) -> tuple[Cell, ...]:
        """Cells whose results are arguments."""
        return tuple(_cells(value for _, value in self.parameters))

    @cached_property
    def arguments(self) -> str:
        """Canonical arguments, as JSON, without defaults and the repeats of an extendable cell."""
        known = inspect.signature(self.function).parameters
        return json.dumps(
            {
                key: _canonical(value)
                for key, value in self.parameters
                if not (self.repeats is not None and key == _REPEATS)
                and not (key in known and _is(value, known[key].default))
            }
        )

    def seed(self, root: int) -> np.random.SeedSequence:
        """Seed that depends on the root and on this cell only: any cell can be rerun alone."""
        identity = json.dumps([self.function.__qualname__, self.arguments])
        digest = hashlib.sha256(identity.encode()).digest()
        return np.random.SeedSequence(root, spawn_key=np.frombuffer(digest, np.uint32).tolist())

    @cached_property
    def version(self) -> str:
        """Version of the code that computes this cell and those it needs."""
        needed = {cell.version for cell in self.needs}
        return "-".join(sorted({code_version(self.function), *needed}))

    def identity(self, root: int, backend: str) -> str:
        """Key of the result: function, arguments, seed, backend and code version, hashed."""
        function = f"{self.function.__module__}.{self.function.__qualname__}"
        chosen = backend if self.depends_on_backend else ""
        text = json.dumps([function, self.arguments, int(root), chosen, self.version])
        return hashlib.sha256(text.encode()).hexdigest()

    def run(self, root: int, *, results: Mapping[Cell, Any] | None = None, **extra: Any) -> Any:
        """Run the cell, given the results of those it needs; ``extra`` overrides arguments."""
        arguments = {key: _filled(value, results or {}) for key, value in self.parameters}
        return self.function(**{**arguments, **extra}, rng=self.seed(root))


def _frozen(value: object) -> object:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _is(value: object, default: object) -> bool:
    """Whether an argument is the default; True is not 1 here."""
    return isinstance(value, bool) == isinstance(default, bool) and bool(value == default)


def _cells(values: Iterable[object]) -> Iterator[Cell]:
    for value in values:
        if isinstance(value, Cell):
            yield value
        elif isinstance(value, tuple):
            yield from _cells(value)


def _filled(value: object, results: Mapping[Cell, Any]) -> Any:
    """Argument with cells replaced by their results."""
    if isinstance(value, Cell):
        return results[value]
    if isinstance(value, tuple):
        return tuple(_filled(each, results) for each in value)
    return value


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        shown = [*map(_shown, value[:SHOWN]), *["..."] * (len(value) > SHOWN)]
        return f"({', '.join(shown)})"
    return value.name if isinstance(value, Cell) else str(value)


def _canonical(value: object) -> object:
    """The same JSON value for arguments that are equal."""
    if isinstance(value, Cell):
        return {
            "cell": value.function.__qualname__,
            "arguments": json.loads(value.arguments),
            "repeats": value.repeats,
        }
    if isinstance(value, (tuple, list)):
        return [_canonical(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"arguments of a cell must be numbers, strings, None, cells or tuples, got {value!r}"
    )
