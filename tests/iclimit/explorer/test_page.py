"""The explorer's page: one file that loads nothing, with formulas, points and all panels."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from iclimit.cli import main
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.explorer.functions import functions
from iclimit.explorer.page import PANELS, explorer_page
from iclimit.explorer.points import stored_errors
from iclimit.explorer.symbols import notation, quantities
from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore, StoredBatch
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation.reference import read_reference
from iclimit.validation.reference.curves import CURVES

PAGE = Path(__file__).parents[3] / "docs" / "explorer.rst"

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


def test_runs_on_record_are_points(own_store):
    run = {"dim": 8, "context": 16, "tasks": 4, "prompts": 128, "rho": 0.1, "ridge": 0.2}
    cells = [Cell.of(simulate_errors, **run, repeats=3)]
    cells += [Cell.of(simulate_errors, **run, repeats=3, test_context=5)]
    with RunStore(own_store) as store:
        for cell in cells:
            batch = StoredBatch.of(cell, cell.run(0), rng=0, backend="numpy", seconds=0.1, count=3)
            store.add(batch)
        # Records of other programs, which are left out.
        whole = json.dumps(run)
        for parameters, numbers in (("{}", "{}"), ('{"dim": "x"}', "{}"), (whole, '{"icl": [1]}')):
            foreign = {"parameters": parameters, "numbers": numbers}
            store.add(replace(batch, identity=f"{parameters}{numbers}", **foreign))
    (point,) = stored_errors(own_store)
    expected = cells[0].run(0)
    assert (point["tau"], point["alpha"], point["kappa"]) == (2, 2, 0.5)
    assert (point["icl"], point["icl_se"]) == (expected.icl.mean, expected.icl.standard_error)
    assert (point["idg"], point["idg_se"]) == (expected.idg.mean, expected.idg.standard_error)


def test_a_store_without_runs_is_refused(own_store):
    RunStore(own_store).close()
    with pytest.raises(ValueError, match="store must hold runs of simulate_errors"):
        stored_errors(own_store)


def test_quantities_that_are_not_in_the_page_have_a_reason():
    told = set(re.findall(r"``(\w+)``", PAGE.read_text("utf-8").split("What stays out")[1]))
    known = {function.name for function in functions()}
    assert set(QUANTITIES) - known == told - known


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
