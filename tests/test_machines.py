"""The matrix of machines: its rows, what a processor can run, and how far results agree."""

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from iclimit.results import Estimate

FOLDER = Path(__file__).parent
machines = SimpleNamespace(**runpy.run_path(FOLDER / "machines.py"))
stores = SimpleNamespace(**runpy.run_path(FOLDER / "compare_stores.py"))

# Features that NumPy dispatches on, of a processor with AVX-512 and of one without.
NEW = ["X86_V3", "X86_V4", "AVX512_ICL"]
OLD_WITHOUT = ["SSE42", "AVX", "FMA3", "AVX2"]


@pytest.mark.parametrize("name", ["kernel", "simd", "threads", "versions"])
def test_every_value_occurs_twice(name):
    values = [getattr(row, name) for row in machines.ROWS]
    assert min(values.count(value) for value in values) >= 2


@pytest.mark.parametrize(
    ("features", "expected"),
    [(NEW, "AVX512"), (NEW[:1], "AVX2"), (OLD_WITHOUT, "AVX2"), (OLD_WITHOUT[:2], "baseline")],
)
def test_level_of_features(features, expected):
    assert machines.level(features) == expected


def test_rows_that_a_processor_without_avx512_cannot_run(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    native = {"features": OLD_WITHOUT, "kernels": ["Haswell"]}
    lacking = [row.number for row in machines.ROWS if machines.missing(row, native)]
    assert lacking == [row.number for row in machines.ROWS if row.kernel == "SkylakeX"]


def test_other_processors_run_no_row(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    native = {"features": ["ASIMD"], "kernels": ["neoversen1"]}
    assert all(machines.missing(row, native) for row in machines.ROWS)


def test_nothing_can_be_chosen_without_openblas():
    native = {"features": [], "kernels": ["unknown"]}
    assert all(machines.missing(row, native) for row in machines.ROWS)


def test_environments_switch_off_what_is_above():
    native = {"features": NEW}
    names = "NPY_DISABLE_CPU_FEATURES"
    disabled = {row.simd: machines.environment_of(row, native).get(names) for row in machines.ROWS}
    assert disabled == {"AVX512": None, "AVX2": "X86_V4,AVX512_ICL", "baseline": ",".join(NEW)}


def test_a_row_that_is_not_what_it_says():
    row = machines.ROWS[0]
    found = {"kernels": [row.kernel], "threads": [row.threads], "features": ["X86_V3"]}
    assert not machines.mismatch(row, found)
    for name, wrong in (("kernels", ["Zen"]), ("threads", [1, 2]), ("features", NEW)):
        assert machines.mismatch(row, found | {name: wrong})


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("9 passed, 0 failed, 1 skipped", True),
        ("9 passed, 1 failed, 0 skipped", False),
        ("9 passed, 10 failed, 0 skipped", False),
        ("0 passed, 0 failed, 0 skipped, exit status 5", False),
        ("63 hold, 0 do not", True),
        ("60 hold, 3 do not", False),
        ("53 hold, 10 do not", False),
        ("63 hold, 0 do not, exit status 1", False),
        ("no report: exit status 2", False),
    ],
)
def test_what_is_green(outcome, expected):
    assert machines.green(outcome) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (2.0, 1.0, 0.5),
        ({"a": (np.array([1.0, 4.0]), "text")}, {"a": (np.array([2.0, 4.0]), "other")}, 0.25),
        (Estimate(1.0, 0.5, 3), Estimate(1.0, 0.25, 3), 0.5),
        (1e-13, 3e-13, pytest.approx(2e-7)),
        ([math.nan, math.inf], [math.nan, math.inf], 0.0),
        ([1.0], [math.inf], math.inf),
        ([1.0], [1.0, 2.0], math.inf),
        (np.ones(2), np.ones(3), math.inf),
        (np.empty(0, dtype=int), np.empty(0, dtype=int), 0.0),
    ],
)
def test_deviation(first, second, expected):
    assert stores.deviation(first, second) == expected


def test_comparison_of_two_stores():
    def cell(value, repeats=1):
        return stores.Stored("f", "{}", repeats, value, {})

    first = {"a": cell(1.0), "b": cell(1.0), "c": cell(1.0), "d": cell(1.0)}
    second = {"a": cell(1.0), "b": cell(1.1), "c": cell(1.0, repeats=2), "e": cell(1.0)}
    comparison = stores.compare({1: first, 2: second})
    [[rows, both, alone, repeats, *counts]] = comparison.lines
    assert (rows, both, alone, repeats) == ("1 and 2", 3, 2, 1)
    assert counts == [1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert comparison.alone == ["row 1: f({})", "row 2: f({})"]
    assert comparison.differing == {"f": {"b": pytest.approx(0.1 / 1.1)}}
