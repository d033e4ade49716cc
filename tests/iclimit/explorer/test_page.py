"""The explorer's page: one file that loads nothing, with formulas, points and all panels."""

import inspect
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from iclimit.cli import main
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.explorer.functions import functions
from iclimit.explorer.page import PANELS, explorer_page
from iclimit.explorer.points import stored_errors
from iclimit.explorer.symbols import notation, quantities
from iclimit.registry import REGISTRY
from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore, StoredBatch
from iclimit.simulate.pretraining import simulate_errors
from iclimit.statement import Derived
from iclimit.validation.reference import read_reference
from iclimit.validation.reference.curves import CURVES

MOST = 8e6
"""Bytes of the page."""

LOADS = (
    r"<(?:script|img|iframe|link)[^>]*\s(?:src|href)=.?(?:https?:)?//",
    r"url\(\s*.?(?:https?:)?//",
    r"@import",
    r"\bfetch\(",
    "XMLHttpRequest",
    "WebSocket",
    r"\bimport\(",
)
"""What would load something."""


@pytest.fixture(scope="module")
def page():
    return explorer_page()


@pytest.fixture(scope="module")
def data(page):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert text is not None
    return json.loads(text[1])


def test_one_small_file_that_loads_nothing(page):
    assert len(page.encode()) < MOST
    for pattern in LOADS:
        assert not re.search(pattern, page), pattern
    assert "default-src 'none'" in page
    assert not re.search(r"\$[a-z]+\b", page.split("<body>")[1].split("<script")[0])


def test_every_panel_is_there_once(page):
    identities = re.findall(r'^    id: "(\w+)",$', page, re.MULTILINE)
    assert len(identities) == len(set(identities)) == len(PANELS)


def test_formulas_are_drawn_without_leftovers_of_latex(data):
    assert {function.name for function in functions()} <= data["formulas"].keys()
    for name, formula in data["formulas"].items():
        for mathml in (formula["mathml"], *(symbol for symbol, _ in formula["symbols"])):
            assert mathml.startswith("<math "), name
            assert not re.search(r"\\|xmlns|&(?!#?\w+;)", mathml), name


def test_points_are_the_published_ones_with_the_error_of_their_mean(data):
    rows = read_reference("lu_letey_linear_simulations.csv")
    points = [point for point in data["errors"] if point["source"] == "published"]
    assert len(points) == len(rows)
    for point, row in zip(points, rows, strict=True):
        assert point["icl"] == float(row["icl_mean"])
        runs = float(row["runs"])
        # The published deviation is that of the runs around their own mean.
        error = float(row["icl_std"]) / (runs - 1) ** 0.5
        assert point["icl_se"] == pytest.approx(error, rel=1e-12)


def test_published_training_curves_are_those_of_the_files(data):
    assert [run["label"] for run in data["training_runs"]] == [curve.label for curve in CURVES]
    for run, curve in zip(data["training_runs"], CURVES, strict=True):
        published = dict(curve.read())
        for step, loss in zip(run["steps"], run["losses"], strict=True):
            assert loss == pytest.approx(published[step], rel=1e-5)
        assert run["steps"][-1] == max(published)
    series = data["blog"]["lstm"]
    assert {each["figure"] for each in series} == {14, 15, 16}
    found = len(read_reference("blog_fig14_16_lstm.csv"))
    assert sum(len(each["rows"]) for each in series) == found


def test_every_button_leads_to_points(data):
    assert data["presets"]
    for _, values in data["presets"]:
        others = [name for name in ("tau", "alpha", "kappa", "rho") if name != values["axis"]]
        fitting = [
            point
            for point in data["errors"]
            if all(abs(point[name] / values[name] - 1) < 0.02 for name in others)
        ]
        assert len(fitting) >= 4


RUN = {"dim": 8, "context": 16, "tasks": 4, "prompts": 128, "rho": 0.1, "ridge": 0.2}
"""A run that the view predicts."""

OTHER = [
    {"gates": np.linspace(0, 1, 16)},
    {"drift": 1.0},
    {"correlation": 0.5},
    {"correlation": 0.5, "correlated_query": True},
    {"task_law": "gaussian"},
    {"task_covariance": np.linspace(0.5, 1.5, 8)},
    {"tasks": np.eye(8)},
    {"tasks": math.inf},
    {"input_law": "rademacher"},
    {"input_covariance": np.linspace(0.5, 1.5, 8)},
    {"test_covariance": np.linspace(0.5, 1.5, 8)},
    {"test_context": 5},
    {"test_rho": 0.5},
    {"test_drift": 1.0},
    {"test_correlation": 0.5},
    {"test_gates": np.linspace(0, 1, 16)},
    {"ridge": Derived(0.2, "best ridge")},
]
"""What makes it a run of another quantity, one at a time."""

SAME = [
    {"sampler": "tokens", "test_prompts": 50},
    {"task_law": "sphere", "input_law": "gaussian"},
    {"test_context": 16, "test_rho": 0.1, "drift": 0.0, "test_drift": 0.0, "correlation": 0.0},
]
"""Further arguments of runs that the view predicts."""


def put_on_record(path, cells):
    with RunStore(path) as store:
        for cell in cells:
            batch = StoredBatch.of(cell, cell.run(0), rng=0, backend="numpy", seconds=0.1, count=3)
            store.add(batch)


def errors_cell(**more):
    return Cell.of(simulate_errors, **RUN | more, repeats=3)


def test_runs_on_record_are_points(own_store):
    put_on_record(own_store, [errors_cell()])
    (point,) = stored_errors(own_store)
    expected = errors_cell().run(0)
    assert (point["tau"], point["alpha"], point["kappa"]) == (2, 2, 0.5)
    assert (point["icl"], point["icl_se"]) == (expected.icl.mean, expected.icl.standard_error)
    assert (point["idg"], point["idg_se"]) == (expected.idg.mean, expected.idg.standard_error)


def test_only_runs_that_the_view_predicts_are_points(own_store):
    put_on_record(own_store, [errors_cell(**more) for more in OTHER])
    with pytest.raises(ValueError, match="store must hold runs of simulate_errors"):
        stored_errors(own_store)
    plain = [errors_cell(**more) for more in SAME]
    put_on_record(own_store, plain)
    shown = {point["icl"] for point in stored_errors(own_store)}
    assert shown == {cell.run(0).icl.mean for cell in plain}


def test_every_argument_that_changes_what_is_measured_was_tried():
    tried = {name for more in OTHER for name in more}
    ways = {"rng", "backend", "repeats", "first_repeat", "sampler", "test_prompts"}
    plain = {"dim", "context", "prompts", "rho"}
    assert tried | ways | plain == set(inspect.signature(simulate_errors).parameters)


def test_records_of_other_programs_are_no_points(own_store):
    put_on_record(own_store, [errors_cell()])
    whole = json.dumps(RUN)
    rows = [
        {"parameters": "{}", "numbers": "{}"},
        {"parameters": '{"dim": "x"}', "numbers": "{}"},
        {"function": "laboratory.pretraining.cells.simulate_errors", "parameters": whole},
    ]
    sizes = [math.inf, math.nan, 0, -3, 8.5, 1e300, 10**4000, True, "8", None, [8], {"x": 1}]
    rows += [{"parameters": json.dumps(RUN | {"dim": size})} for size in sizes]
    rows += [{"parameters": json.dumps(RUN | {"rho": rho})} for rho in (math.nan, math.inf, -1)]
    numbers = [{"icl": [1.0, 0.1]}, {"icl": [-1.0, 0.1], "idg": [1.0, 0.1]}]
    rows += [{"parameters": whole, "numbers": json.dumps(each)} for each in numbers]
    with RunStore(own_store) as store:
        (batch,) = store.find(errors_cell().identity(0, "numpy"))
        for number, changes in enumerate(rows):
            store.add(replace(batch, identity=str(number), **changes))
    assert len(stored_errors(own_store)) == 1


def test_a_store_without_runs_is_refused(own_store):
    RunStore(own_store).close()
    with pytest.raises(ValueError, match="store must hold runs of simulate_errors"):
        stored_errors(own_store)


def test_quantities_that_are_not_in_the_page_have_a_reason():
    known = {function.name for function in functions()}
    assert set(QUANTITIES) - known == {row.name for row in REGISTRY.values() if row.unscripted}


def test_symbols_are_plain_text():
    known = notation()
    assert known["ridge"]["symbol"] == "λ"
    assert quantities()["ridge_risk"]["label"] == "ridge risk"
    assert quantities()["optimal_idg_error"]["label"] == "optimal IDG error"
    assert known["tau"]["definition"] == "n/d²"
    assert not any("\\" in text for each in known.values() for text in each.values())


def test_the_verb_prints_the_path(tmp_path, capsys):
    path = tmp_path / "page.html"
    assert main(["explorer", "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
