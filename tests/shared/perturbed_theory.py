"""The theory with other last digits, and the names of the cells that are asked for then.

Another processor changes the last digits of what the theory computes.  Here every public function
and method of it returns its floats times 1 + 1e-5 u, u = 1 or -1 anew for each float: no name and
no seed of a cell may change.  Run as a script it prints the cells of presets, so that constants
that modules compute when they are imported are perturbed as well, and so that what claims keep of
the theory is not kept for other tests.  The slowest searches have made-up results there, which are
perturbed alike:

    python -m perturbed_theory exact medium full
    python -m perturbed_theory perturbed medium full
"""

import inspect
import json
import sys
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from importlib import import_module

import numpy as np
from made_up_searches import made_up_searches

from iclimit import asymptotics
from iclimit.runs.cell import Cell

SIZE = 1e-5
"""Relative size of the perturbation: a thousand times what differs between processors."""


@contextmanager
def perturbed_theory():
    """Every public function and method of the theory returns perturbed floats within."""
    signs = np.random.default_rng(0)
    depth = [0]
    undo = []

    def perturbed(function):
        @wraps(function)
        def call(*arguments, **named):
            depth[0] += 1
            try:
                value = function(*arguments, **named)
            finally:
                depth[0] -= 1
            # What the theory asks of itself is left alone: its searches would not end.
            return value if depth[0] else with_noise(value, signs)

        return call

    try:
        for owner, name, function in _public_functions():
            undo.append((owner, name, function))
            _exchange(owner, name, perturbed(function))
        yield
    finally:
        for owner, name, function in undo:
            _exchange(owner, name, function)


def _public_functions():
    """Owner, name and function: closures of exported functions, and classes with their methods."""
    classes = {}
    for subject in asymptotics.SHELVES:
        shelf = import_module(f"iclimit.asymptotics.{subject}")
        for name in shelf.__all__:
            item = getattr(shelf, name)
            if inspect.isfunction(item):
                names = item.__code__.co_freevars
                cell = dict(zip(names, item.__closure__, strict=True))["function"]
                yield cell, "cell_contents", cell.cell_contents
            elif inspect.isclass(item):
                classes.update(dict.fromkeys(item.__mro__))
    structure = import_module("iclimit.asymptotics.pretraining.structure")
    joint = import_module("iclimit.asymptotics.pretraining.joint_spectrum")
    classes.update(dict.fromkeys([structure.Structure, joint.RankFunction]))
    for owner in classes:
        if owner.__module__.startswith("iclimit.asymptotics"):
            for name, function in list(vars(owner).items()):
                if inspect.isfunction(function) and not name.startswith("_"):
                    yield owner, name, function


def _exchange(owner, name, function):
    setattr(owner, name, function)


# Modules of the results of the theory.
THEORY = ("iclimit.asymptotics", "iclimit.prediction")


def with_noise(value, signs):
    """A value whose floats are multiplied by 1 + SIZE or 1 - SIZE."""
    if isinstance(value, float | np.floating):
        return type(value)(value * (1 + SIZE * signs.choice([-1, 1])))
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return value * (1 + SIZE * signs.choice([-1, 1], size=value.shape))
    if type(value) in (list, tuple):
        return type(value)(with_noise(entry, signs) for entry in value)
    if isinstance(value, dict):
        return {key: with_noise(entry, signs) for key, entry in value.items()}
    if is_dataclass(value) and type(value).__module__.startswith(THEORY):
        changed = copy(value)
        for field in fields(value):
            noisy = with_noise(getattr(value, field.name), signs)
            object.__setattr__(changed, field.name, noisy)
        return changed
    return value


def cells_of_presets(*presets):
    """Function, statement and seed of all cells of the claims, those that others need too."""
    from iclimit.validation import CLAIMS
    from iclimit.validation.claim import Effort
    from iclimit.validation.rows import cells_of

    waiting = [
        cell
        for preset in presets
        for claim in CLAIMS.values()
        for cell in cells_of(list(claim.rows(Effort(preset))))
    ]
    names = set()
    while waiting:
        cell = waiting.pop()
        waiting.extend(cell.needs)
        place = f"{cell.function.__module__}:{cell.function.__qualname__}"
        names.add((place, cell.arguments, str(cell.seed(0).spawn_key)))
    return names


@contextmanager
def recorded_cells():
    """Collect the names and arguments of the cells that are asked for within."""
    names = set()
    identity = Cell.identity

    def recorded(cell, *where):
        names.add((cell.function.__name__, cell.arguments))
        return identity(cell, *where)

    Cell.identity = recorded
    try:
        yield names
    finally:
        Cell.identity = identity


def listed_cells(digits, *presets):
    """Cells of presets with exact or perturbed digits.

    The perturbation comes first, since claims are imported when their searches are replaced.
    """
    if digits == "exact":
        with made_up_searches():
            return cells_of_presets(*presets)
    noise = partial(with_noise, signs=np.random.default_rng(1))
    with perturbed_theory(), made_up_searches(noise):
        return cells_of_presets(*presets)


if __name__ == "__main__":
    json.dump(sorted(listed_cells(*sys.argv[1:])), sys.stdout)
