"""Identities of cells, and the code versions in them."""

import importlib
import math
import subprocess
import sys

import numpy as np
import pytest

from iclimit.runs import code_version as module
from iclimit.runs.cell import Cell
from iclimit.runs.code_version import code_version
from iclimit.simulate.descent import simulate_learning_rate
from iclimit.simulate.pretraining import simulate_errors

SMALL = {"dim": 4, "context": 4, "tasks": 2, "prompts": 30, "rho": 0.1}

MAIN = '''
"""Module."""
import math
from tinypackage.helpers import SCALE, double as twice
from tinypackage import fetched, other, shelf

LIMIT = 3

def simulate(*, size, rng):
    """Docstring."""
    from tinypackage.late import late
    # comment
    total = inner(size) * SCALE + twice(size) + other.used(size) + late(size) + math.pi
    return total + fetched(size)

def inner(size):
    return Shape(size).area() + LIMIT

class Shape:
    """Docstring."""
    def __init__(self, size):
        self.size = size
    def area(self):
        return self.size

def unused():
    return 5
'''
FILES = {
    "__init__": """
def __getattr__(name):
    if name != "fetched":
        raise AttributeError(name)
    from tinypackage.fetching import fetched
    return fetched
""",
    "fetching": "def fetched(x):\n    return x + 9\n",
    "main": MAIN,
    "helpers": """
BASE = 2
SCALE = BASE + 1
def double(x):
    return 2 * x
def idle():
    return 1
""",
    "other": "def used(x):\n    return x + 1\ndef idle(x):\n    return x + 1\n",
    "late": "def late(x):\n    return x + 7\n",
    "shelf/__init__": "BASE = 1\n",
    "shelf/book": "def opened(x):\n    return x + 2\n",
    "strange": "def unused(x):\n    return x + 1\n",
}


@pytest.fixture
def version_of(tmp_path, monkeypatch):
    """Version of simulate() of a small package with some texts in its files replaced."""
    monkeypatch.setattr(module, "_PACKAGE", "tinypackage")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "tinypackage"
    (folder / "shelf").mkdir(parents=True)

    def version(file="main", old="", new=""):
        for name, text in FILES.items():
            if name == file:
                assert old in text
                text = text.replace(old, new, 1) if old else text
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        for name in [name for name in sys.modules if name.partition(".")[0] == "tinypackage"]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        clear_caches()
        return code_version(importlib.import_module("tinypackage.main").simulate)

    yield version
    clear_caches()


def clear_caches():
    for function in (module._source, module._version):
        function.cache_clear()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("main", "Docstring.", "Another text."),
        ("main", "# comment", "# another comment\n\n"),
        ("main", "total = inner(size) *", "total = (inner(size)) *"),
        ("strange", "x + 1", "x + 2"),
    ],
)
def test_edits_without_effect_leave_the_version(version_of, file, old, new):
    assert version_of(file, old, new) == version_of()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("main", "LIMIT = 3", "LIMIT = 4"),
        ("main", "* SCALE +", "+ SCALE +"),
        ("main", "return self.size", "return -self.size"),
        ("main", "def simulate(*, size", "def simulate(*, size=1"),
        ("helpers", "BASE = 2", "BASE = 3"),
        ("helpers", "return 2 * x", "return 3 * x"),
        ("other", "return x + 1", "return x + 2"),
        ("main", "return 5", "return 6"),
        ("helpers", "return 1", "return 2"),
        ("late", "x + 7", "x + 8"),
        ("shelf/__init__", "BASE = 1", "BASE = 2"),
        ("shelf/book", "x + 2", "x + 3"),
        ("fetching", "x + 9", "x + 8"),
    ],
)
def test_edits_of_modules_that_are_used_change_the_version(version_of, file, old, new):
    assert version_of(file, old, new) != version_of()


def test_functions_without_a_file_have_no_version():
    with pytest.raises(ValueError, match="function must be defined in a module's file"):
        code_version(len)


def test_versions_do_not_depend_on_the_process():
    code = (
        "from iclimit.simulate.pretraining import simulate_errors;"
        "from iclimit.runs.code_version import code_version;"
        "print(code_version(simulate_errors))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == code_version(simulate_errors)


def test_equal_arguments_are_one_cell():
    cells = [
        Cell.of(simulate_errors, **SMALL),
        Cell.of(simulate_errors, **dict(reversed(SMALL.items()))),
        Cell.of(simulate_errors, **{**SMALL, "dim": 4.0, "prompts": np.int64(30)}),
        Cell.of(simulate_errors, **{**SMALL, "rho": np.float64(0.1)}),
        Cell.of(simulate_errors, **SMALL, ridge=0, sampler="auto", repeats=7),  # the defaults
    ]
    assert len({cell.identity(3, "numpy") for cell in cells}) == 1
    assert len({tuple(cell.seed(3).generate_state(4)) for cell in cells}) == 1
    assert len({cell.arguments for cell in cells}) == 1


def test_whatever_differs_changes_the_identity():
    cell = Cell.of(simulate_errors, **SMALL)
    others = [
        cell.identity(1, "numpy"),
        cell.identity(0, "cupy"),
        *(
            Cell.of(simulate_errors, **{**SMALL, **change}).identity(0, "numpy")
            for change in (
                {"dim": 5},
                {"rho": 0.1 + 1e-16},
                {"tasks": math.inf},
                {"tasks": None},
                {"tasks": "2"},
                {"ridge": 0.5},
                {"tasks": ((2.0,),)},
            )
        ),
        Cell.of(simulate_learning_rate, **SMALL).identity(0, "numpy"),
    ]
    assert len({cell.identity(0, "numpy"), *others}) == len(others) + 1


def test_the_identity_has_the_code_version(monkeypatch):
    before = Cell.of(simulate_errors, **SMALL)
    after = Cell.of(simulate_errors, **SMALL)
    assert before.identity(0, "numpy") == after.identity(0, "numpy")
    monkeypatch.setattr("iclimit.runs.cell.code_version", lambda _: "changed")
    changed = Cell.of(simulate_errors, **SMALL)
    assert changed.identity(0, "numpy") != before.identity(0, "numpy")
    assert changed.seed(0).spawn_key == before.seed(0).spawn_key


def test_repeats_do_not_count_where_they_can_be_extended():
    few, many = (Cell.of(simulate_errors, repeats=count, **SMALL) for count in (2, 5))
    assert few.identity(0, "numpy") == many.identity(0, "numpy")
    assert (few.repeats, many.repeats) == (2, 5)
    assert few != many
    rest = many.run(0, extra={"first_repeat": 2, "repeats": 3})
    joined = few.run(0).concatenate(rest)
    assert joined.icl.samples.tobytes() == many.run(0).icl.samples.tobytes()
    assert many.run(0).head(2).idg.samples.tobytes() == few.run(0).idg.samples.tobytes()


def needing(*, other, rng):
    """Cell that needs the result of another."""
    del rng
    return other


def test_the_backend_does_not_count_where_there_is_no_choice():
    cell = Cell.of(needing, other=1)
    assert not cell.takes_backend
    assert cell.identity(0, "numpy") == cell.identity(0, "cupy")


def test_cells_among_the_arguments_count_with_their_own():
    inner = Cell.of(simulate_learning_rate, contexts=20, dim=3, context=6)
    cell = Cell.of(needing, other=(1, inner))
    assert cell.needs == (inner,)
    assert set(cell.version.split("-")) == {code_version(needing), inner.version}
    assert cell.run(0, results={inner: "found"}) == (1, "found")
    other = Cell.of(
        needing, other=(1, Cell.of(simulate_learning_rate, contexts=21, dim=3, context=6))
    )
    assert other.identity(0, "numpy") != cell.identity(0, "numpy")


def test_arguments_that_have_no_canonical_form_are_named():
    with pytest.raises(TypeError, match="arguments of a cell must be numbers"):
        _ = Cell.of(simulate_errors, tasks={1, 2}).arguments
