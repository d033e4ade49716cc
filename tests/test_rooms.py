"""Who may import whom, under which name, and at what cost."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GROUND = {
    "array_files",
    "checks",
    "drawing",
    "extras",
    "figure_files",
    "files",
    "grids",
    "html_parts",
    "interrupts",
    "notation",
    "registry",
    "samples",
    "comparison",
    "errors",
    "experiment",
    "pooling",
    "prediction",
    "problem",
    "results",
    "statement",
    "statistics",
    "tables",
    "threads",
    "units",
    "verdict",
    "versions",
}
MAY_IMPORT = {
    "asymptotics": {"asymptotics", *GROUND},
    "simulate": {"simulate", *GROUND},
    "validation": {"validation", "asymptotics", "simulate", "runs", "published", *GROUND},
}
FOLDERS = {room: ROOT / room for room in MAY_IMPORT} | {"runs": ROOT / "iclimit" / "runs"}
MAY_IMPORT["runs"] = {"runs", *GROUND}


def imported_modules(file):
    """Absolute names of all modules a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("room", FOLDERS)
def test_rooms_import_only_what_they_may(room):
    for file in FOLDERS[room].rglob("*.py"):
        for name in imported_modules(file):
            top, _, rest = name.partition(".")
            assert top not in FOLDERS, f"{file} imports {name} under its bare name"
            if top == "iclimit":
                assert rest.split(".")[0] in MAY_IMPORT[room], f"{file} imports {name}"


def test_benchmarks_and_examples_import_what_there_is():
    """Their functions import what they need when they run, which the tests do not wait for."""
    for folder in ("benchmarks", "docs/examples"):
        for file in (ROOT / folder).rglob("*.py"):
            for name in imported_modules(file):
                if name.startswith("iclimit."):
                    pkgutil.resolve_name(name)


@pytest.mark.parametrize("room", ["asymptotics", "simulate", "validation"])
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
