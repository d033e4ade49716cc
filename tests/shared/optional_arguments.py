"""Which optional arguments of the theory claims make use of, as their calls show it.

Claims may run in several processes: each writes down what it gave, and whichever is the last one
knows what all of them gave.
"""

import csv
import inspect
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from pathlib import Path

from iclimit.validation.report.coverage import SHELVES, theory_functions, uncovered_reason

TABLE = Path(__file__).with_suffix(".csv")
"""Columns: a function, arguments of it that no claim gives, and why."""


def excused():
    """Optional arguments that no claim gives, as ``function.argument``, for a reason."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            f"{row['function']}.{argument}"
            for row in csv.DictReader(file)
            for argument in row["arguments"].split()
        }


def given_by_all(folder, name, given, names):
    """Arguments that all claims gave; None before the last of them.

    A folder that the processes of a session share has the arguments of each claim so far.
    """
    folder.mkdir(exist_ok=True)
    unfinished = folder / f".{name}"
    unfinished.write_text("\n".join(sorted(given)), encoding="utf-8")
    unfinished.rename(folder / name)
    files = [folder / other for other in names]
    if not all(file.exists() for file in files):
        return None
    return {line for file in files for line in file.read_text(encoding="utf-8").splitlines()}


@cache
def judged_functions():
    """Public functions of the theory that claims judge, by name."""
    shelves = [import_module(f"iclimit.asymptotics.{subject}") for subject in SHELVES]
    return {
        name: getattr(shelf, name)
        for shelf, subject in zip(shelves, SHELVES, strict=True)
        for name in theory_functions(subject)
        if not uncovered_reason(name)
    }


def optional_arguments():
    """All optional arguments of these functions."""
    return {
        f"{name}.{each.name}"
        for name, function in judged_functions().items()
        for each in inspect.signature(function).parameters.values()
        if each.default is not each.empty
    }


@cache
def _parameters(function):
    """Parameters of a function, whose signature takes long to read."""
    return inspect.signature(function).parameters


@contextmanager
def recording():
    """Collect the optional arguments that are given within, with other values than the default.

    Calls from within the theory do not count.  Every public function is a wrapper; what it wraps
    is exchanged, so that all who have imported it are seen.
    """
    given = set()
    depth = [0]
    cells = []

    def recorded(function):
        parameters = _parameters(function)

        @wraps(function)
        def call(*arguments, **named):
            if not depth[0]:
                passed = dict(zip(parameters, arguments, strict=False)) | named
                given.update(
                    f"{function.__name__}.{name}"
                    for name, value in passed.items()
                    if name in parameters and not _is_default(value, parameters[name].default)
                )
            depth[0] += 1
            try:
                return function(*arguments, **named)
            finally:
                depth[0] -= 1

        return call

    for function in judged_functions().values():
        cell = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))[
            "function"
        ]
        cells.append((cell, cell.cell_contents))
        cell.cell_contents = recorded(cell.cell_contents)
    try:
        yield given
    finally:
        for cell, function in cells:
            cell.cell_contents = function


def _is_default(value, default):
    simple = isinstance(value, int | float | str | None)
    return default is inspect.Parameter.empty or value is default or (simple and value == default)
