"""Cells: pieces of computation with an identity, which can be run anywhere and put on record."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from iclimit.runs.code_version import code_version
from iclimit.statement import (
    Derived,
    canonical,
    cell_name,
    derived_values,
    disagreement,
    statement,
    without_statements,
)

# Number of entries of a tuple that messages show.
SHOWN = 6

# Argument of an extendable function that says how many repeats there are.
_REPEATS = "repeats"

# Argument of an extendable function that says with which repeat it begins.
_FIRST = "first_repeat"


@dataclass(frozen=True, eq=False)
class Cell:
    """One piece of simulation: a function and its arguments, except the seed.

    The function is defined at module level (workers import it) and takes ``rng``, and ``backend``
    if it can choose one.  Arguments are numbers, strings, None, arrays, tuples of these, other
    cells, whose results the function gets in their place, and computed floats as
    `iclimit.statement.Derived`.

    Name, seed and equality of a cell come from the name that its function declares and from what
    is *stated* (`iclimit.statement`): derived values are kept beside the result.  Arrays count by
    the bytes of their float64.

    A cell is *extendable* if its function takes ``repeats`` and ``first_repeat``: repeat r then
    depends on the seed and r only, and results have ``concatenate(other)`` and ``head(count)``.
    Such a cell is the same piece of work whatever the number of repeats.

    Examples
    --------
    >>> from iclimit.runs import Cell
    >>> from iclimit.simulate.descent import simulate_schedule
    >>> from iclimit.statement import Derived
    >>> best = Derived((0.61, 0.83), "best rates")
    >>> cell = Cell.of(simulate_schedule, rates=best, context=20, dim=10, contexts=100)
    >>> cell.arguments
    '{"context": 20, "contexts": 100, "dim": 10, "rates": {"derived": "best rates"}}'
    >>> cell.derived
    {'rates': (0.61, 0.83)}
    """

    function: Callable[..., Any]
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, function: Callable[..., Any], **parameters: object) -> Cell:
        """Build a cell from keyword arguments; lists become tuples."""
        return cls(function, tuple(sorted((k, _frozen(v)) for k, v in parameters.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[Callable[..., Any], str, int | None]:
        return self.function, self.arguments, self.repeats

    @property
    def name(self) -> str:
        """Function and arguments, for messages."""
        arguments = ", ".join(f"{key}={_shown(value)}" for key, value in self.parameters)
        return f"{self.function.__name__}({arguments})"

    @cached_property
    def keywords(self) -> dict[str, Any]:
        """Arguments as the function gets them, but for the results of other cells."""
        return {key: without_statements(value) for key, value in self.parameters}

    @cached_property
    def derived(self) -> dict[str, Any]:
        """Derived values by the place where they stand, with those of the cells it needs."""
        values: dict[str, Any] = {}
        for key, value in self.parameters:
            values.update(derived_values(key, value))
        for place, need in enumerate(self.needs):
            for path, value in need.derived.items():
                values[f"needs[{place}].{path}"] = value
        return values

    @cached_property
    def repeats(self) -> int | None:
        """Repeats asked for; None if the cell is not extendable."""
        accepted = _parameters(self.function)
        if not {_REPEATS, _FIRST} <= accepted.keys():
            return None
        return int(dict(self.parameters).get(_REPEATS, accepted[_REPEATS].default))

    @cached_property
    def takes_backend(self) -> bool:
        """Whether the function chooses where to compute."""
        return "backend" in _parameters(self.function)

    @cached_property
    def depends_on_backend(self) -> bool:
        """Whether this cell or one that it needs chooses where to compute."""
        return self.takes_backend or any(cell.depends_on_backend for cell in self.needs)

    @property
    def together(self) -> Callable[[Sequence[Mapping[str, Any]]], list[Any]] | None:
        """What computes several calls of the function together, if it declares that.

        Results are values, or the exceptions that the calls raised.
        """
        return getattr(self.function, "together", None)

    @cached_property
    def needs(self) -> tuple[Cell, ...]:
        """Cells whose results are arguments."""
        return tuple(_cells(value for _, value in self.parameters))

    @cached_property
    def arguments(self) -> str:
        """What is stated, as JSON, without defaults and the repeats of an extendable cell."""
        stated = dict(self.parameters)
        if self.repeats is not None:
            stated.pop(_REPEATS, None)
        return json.dumps(statement(self.function, stated))

    @property
    def statement(self) -> dict[str, Any]:
        """What stands for this cell among the arguments of another."""
        return {
            "cell": cell_name(self.function),
            "arguments": json.loads(self.arguments),
            "repeats": self.repeats,
        }

    def seed(self, root: int) -> np.random.SeedSequence:
        """Seed that depends on the root and on this cell only: any cell can be rerun alone."""
        identity = json.dumps([cell_name(self.function), self.arguments])
        digest = hashlib.sha256(identity.encode()).digest()
        return np.random.SeedSequence(root, spawn_key=np.frombuffer(digest, np.uint32).tolist())

    @cached_property
    def version(self) -> str:
        """Version of the code that computes this cell and those it needs."""
        needed = {cell.version for cell in self.needs}
        return "-".join(sorted({code_version(self.function), *needed}))

    def identity(self, root: int, backend: str) -> str:
        """Key of the result: name, arguments, seed, backend and code version, hashed."""
        name = cell_name(self.function)
        chosen = backend if self.depends_on_backend else ""
        text = json.dumps([name, self.arguments, int(root), chosen, self.version])
        return hashlib.sha256(text.encode()).hexdigest()

    def run(
        self,
        root: int,
        results: Mapping[Cell, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the cell, given the results of those it needs; ``extra`` overrides arguments."""
        return self.function(**self.call(root, results or {}, extra or {}))

    def call(
        self, root: int, results: Mapping[Cell, Any], extra: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Arguments with which `run` calls the function."""
        arguments = {key: _filled(value, results) for key, value in self.keywords.items()}
        return arguments | {**extra, "rng": self.seed(root)}


def distinct_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Cells, of equal ones the first.

    Raises
    ------
    ValueError
        If derived values of equal cells differ.
    """
    first: dict[Cell, Cell] = {}
    for cell in cells:
        check_derived(first.setdefault(cell, cell), cell)
    return list(first)


def check_derived(first: Cell, second: Cell) -> None:
    """Raise a ValueError if two cells of one statement have different derived values."""
    if first is second or not first.derived:
        return
    if difference := disagreement(first.derived, second.derived):
        raise ValueError(
            f"cells with different arguments must state what differs: {difference}, "
            f"and both are called {first.name}"
        )


@lru_cache(maxsize=512)
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Parameters of a function, which thousands of cells may ask for."""
    return inspect.signature(function).parameters


def _frozen(value: object) -> object:
    if isinstance(value, np.ndarray):
        if value.ndim and value.dtype.kind in "iuf":
            return value.copy()  # what is done to it later must not change the cell
        value = value.tolist()
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


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
        return tuple(_filled(entry, results) for entry in value)
    return value


def _shown(value: object) -> str:
    if isinstance(value, Derived):
        return _shown(value.statement)
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape} ({canonical(value)['digest'][:8]})"
    if isinstance(value, tuple):
        shown = list(map(_shown, value[:SHOWN]))
        if len(value) > SHOWN:
            shown.append("...")
        return f"({', '.join(shown)})"
    return value.name if isinstance(value, Cell) else str(value)
