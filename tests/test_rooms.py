"""Who may import whom, under which name, and at what cost."""

import ast
import graphlib
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from iclimit import asymptotics, simulate

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("asymptotics", "simulate", "validation")
MAY_IMPORT = {
    "asymptotics": {"asymptotics"},
    "simulate": {"simulate"},
    "validation": {"validation", "asymptotics", "simulate", "runs", "published"},
    "runs": {"runs"},
}
"""Rooms that each room may import, besides the ground."""

FLOORS = {
    "asymptotics": asymptotics.SHELVES,
    "simulate": (*simulate.SHELVES, "probing", "devices"),
    "validation": (
        "instruments",
        "reference",
        "rows",
        "standard_figure",
        "claim",
        "claims",
        "report",
    ),
    "validation.claims": (*asymptotics.SHELVES, "networks"),
}
"""Shelves from below to above: each imports only those before it, and the ground of its room."""


def modules():
    """Files of the package by their full names."""
    files = {}
    for room in (*ROOMS, "iclimit"):
        for file in (ROOT / room).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            if parts[0] == "iclimit" and parts[1] in ROOMS:  # links to the rooms
                continue
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            files[".".join(parts if parts[0] == "iclimit" else ("iclimit", *parts))] = file
    return files


MODULES = modules()


@cache
def imported_names(file):
    """Absolute names of all that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@cache
def imports():
    """Modules of the package that each of them imports."""
    graph = {}
    for module, file in MODULES.items():
        names = {
            name if name in MODULES else name.rpartition(".")[0] for name in imported_names(file)
        }
        graph[module] = names & MODULES.keys()
    return graph


@cache
def ground():
    """Modules of ``iclimit/`` that import nothing but one another."""
    rooms = {f"iclimit.{room}" for room in (*ROOMS, "runs")}
    lower = {name for name in MODULES if name.count(".") == 1} - rooms
    while raised := {name for name in lower if not imports()[name] <= lower}:
        lower -= raised
    return lower


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_only_what_they_may(room):
    for module in MODULES:
        if module.split(".")[1:2] != [room]:
            continue
        for name in imported_names(MODULES[module]):
            top, _, rest = name.partition(".")
            assert top not in ROOMS, f"{module} imports {name} under its bare name"
            if top == "iclimit":
                below = f"iclimit.{rest.split('.')[0]}" in ground()
                allowed = below or rest.split(".")[0] in MAY_IMPORT[room]
                assert allowed, f"{module} imports {name}"


@pytest.mark.parametrize("room", FLOORS)
def test_shelves_import_only_those_before_them(room):
    """What is no shelf is the ground of its room, and imports none of them."""
    home = f"iclimit.{room}."
    floors = {shelf: floor for floor, shelf in enumerate(FLOORS[room])}
    for module, names in imports().items():
        if not module.startswith(home):
            continue
        floor = floors.get(module.removeprefix(home).split(".")[0], -1)
        for name in names:
            if name.startswith(home):
                below = floors.get(name.removeprefix(home).split(".")[0], -1) <= floor
                assert below, f"{module} imports {name}, which is above it: {FLOORS[room]}"


def test_no_file_imports_itself_by_a_detour():
    try:
        graphlib.TopologicalSorter(imports()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"these files import one another in a circle: {error.args[1]}")


def test_benchmarks_and_examples_import_what_there_is():
    """Their functions import what they need when they run, which the tests do not wait for."""
    for folder in ("benchmarks", "docs/examples"):
        for file in (ROOT / folder).rglob("*.py"):
            for name in imported_names(file):
                if name.startswith("iclimit."):
                    pkgutil.resolve_name(name)


@pytest.mark.parametrize("room", ROOMS)
def test_bare_names_refuse_to_be_imported(room):
    if not (ROOT / room / "__init__.py").exists():
        pytest.skip(f"{room} is not a package yet")
    run = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert f"import this package as iclimit.{room}" in run.stderr


def test_theory_loads_no_library_before_it_is_used():
    for library in ("sympy", "mpmath", "matplotlib"):
        code = f"import sys, iclimit.asymptotics; sys.exit({library!r} in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
