"""How far the runs of several stores agree, cell by cell: the step ``compare`` of machines.py."""

import csv
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import numpy as np

from iclimit.runs.store import RunStore

# Columns of the table: pairs of results that deviate by at most this much.
EDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, math.inf)

# Deviations above it are named by their functions.
NAMED = 1e-6

# Least size to which a deviation is related: a residual of 1e-13 may well be another one.
LEAST_SIZE = 1e-6


@dataclass(frozen=True)
class Stored:
    """A cell of a store: what computed it, how many repeats, the result and derived arguments."""

    function: str
    parameters: str
    repeats: int
    result: object
    derived: object


@dataclass
class Comparison:
    """What comes of all pairs of stores.

    Attributes
    ----------
    lines : list of list
        For each pair: its numbers, cells in both, cells in one, cells with other repeats, and
        how many deviate by at most each of `EDGES`, each counted once.
    alone : list of str
        Cells that one store of a pair has.
    differing : dict
        By function: the largest deviation of each cell that deviates by more than `NAMED`.
    """

    lines: list[list[object]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    differing: dict[str, dict[str, float]] = field(default_factory=dict)


def stored_cells(path: Path) -> dict[str, Stored]:
    """All cells of a store by their identity, the batches of each in one."""
    cells = {}
    with RunStore(path, readonly=True) as store:
        for run in store.runs():
            batches = store.find(run.identity)
            values = [batch.value for batch in batches]
            cells[run.identity] = Stored(
                function=run.function,
                parameters=run.parameters,
                repeats=sum(batch.count for batch in batches),
                result=reduce(lambda first, more: first.concatenate(more), values),
                derived=batches[0].derived_values,
            )
    return cells


def compare(stores: Mapping[int, Mapping[str, Stored]]) -> Comparison:
    """Compare stores two by two."""
    comparison = Comparison()
    for first, second in itertools.combinations(sorted(stores), 2):
        compare_two(comparison, first, stores[first], second, stores[second])
    return comparison


def compare_two(
    comparison: Comparison,
    first: int,
    ours: Mapping[str, Stored],
    second: int,
    others: Mapping[str, Stored],
) -> None:
    """Add a pair of stores to a comparison."""
    for identity in sorted(ours.keys() ^ others.keys()):
        number = first if identity in ours else second
        cell = ours.get(identity) or others[identity]
        comparison.alone.append(f"row {number}: {cell.function}({cell.parameters})")
    counts = [0] * len(EDGES)
    other_repeats = 0
    both = ours.keys() & others.keys()
    for identity in both:
        cell = ours[identity]
        other = others[identity]
        if cell.repeats != other.repeats:
            other_repeats += 1
            continue
        size = max(deviation(cell.result, other.result), deviation(cell.derived, other.derived))
        counts[next(index for index, edge in enumerate(EDGES) if size <= edge)] += 1
        if size > NAMED:
            cells = comparison.differing.setdefault(cell.function, {})
            cells[identity] = max(size, cells.get(identity, 0.0))
    alone = len(ours.keys() ^ others.keys())
    comparison.lines.append([f"{first} and {second}", len(both), alone, other_repeats, *counts])


def deviation(first: object, second: object) -> float:
    """Largest deviation of two results, of each array relative to its largest entry.

    It is infinite where they have other parts, shapes, or numbers that are not finite.
    """
    ours = dict(arrays(first))
    others = dict(arrays(second))
    if ours.keys() != others.keys():
        return math.inf
    return max((_deviation(ours[place], others[place]) for place in ours), default=0.0)


def _deviation(array: np.ndarray, other: np.ndarray) -> float:
    if array.shape != other.shape:
        return math.inf
    finite = np.isfinite(array) & np.isfinite(other)
    if not np.array_equal(array[~finite], other[~finite], equal_nan=True):
        return math.inf
    sizes = abs(np.concatenate([array[finite], other[finite]]))
    distances = abs(array[finite] - other[finite])
    return float(np.max(distances, initial=0.0) / np.max(sizes, initial=LEAST_SIZE))


def arrays(value: object, place: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yield all numbers of a result as arrays, each with the place where it stands."""
    if dataclasses.is_dataclass(value):
        parts = [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, (tuple, list)):
        parts = list(enumerate(value))
    else:
        array = np.asarray(value)
        if array.dtype.kind in "iufc":
            yield place, array.astype(complex if array.dtype.kind == "c" else float)
        return
    for name, part in parts:
        yield from arrays(part, f"{place}.{name}")


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Print a comparison, and write it as ``comparison.csv`` and ``differing.csv``."""
    header = ["rows", "in both", "in one", "other repeats", "equal"]
    header += [f"<= {edge:g}" for edge in EDGES[1:-1]] + ["more"]
    differing = [
        [function, len(cells), f"{max(cells.values()):.2g}"]
        for function, cells in sorted(comparison.differing.items())
    ]
    tables = {
        "comparison.csv": [header, *comparison.lines],
        "differing.csv": [["function", "cells", "largest deviation"], *differing],
    }
    for name, table in tables.items():
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
        print(f"\n{name}")
        for line in table:
            print("  " + "  ".join(str(value) for value in line))
    for cell in comparison.alone:
        print(f"only in {cell}")
