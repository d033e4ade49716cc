"""Claims, cells and their execution: seeds, failures, interruption, reports."""

import json
import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from made_up_searches import made_up_searches
from refusals import value_error

from iclimit.asymptotics.pretraining import error_spread, icl_error
from iclimit.comparison import Comparison
from iclimit.results import Estimate
from iclimit.runs import Cell
from iclimit.validation import CLAIMS, Claim, select_claims, validate
from iclimit.validation.claim import PRESETS
from iclimit.validation.claims.pretraining.nonmonotonicity import (
    nonmonotonicity_boundary,
    optimal_context,
)
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.reference.runs import error_runs, gap_runs
from iclimit.validation.report import run_claims as runs_module
from iclimit.validation.report.report import write_report
from iclimit.validation.report.summary import table
from iclimit.validation.rows import call, cells_of, drawing, judged, mean, note, run, theory_calls
from iclimit.verdict import Verdict


def draw_number(*, scale, rng):
    return scale * float(np.random.default_rng(rng).standard_normal())


def fail(*, rng):  # noqa: ARG001
    raise ArithmeticError("did not converge")


def draw_line(figure):
    figure.subplots().plot([0, 1])


def make_claim(name, *numbers, allowance=10.0):
    def rows(effort):
        for number in numbers:
            estimate = call(Estimate, number, 1.0, 2)
            yield mean("number", 0.0, estimate, allowance=allowance, degrees=math.inf)
        yield note(effort.preset)
        yield drawing(draw_line)

    return Claim(name, name.title(), "nowhere", "numbers are small", rows)


GOOD = make_claim("good", run(draw_number, scale=1.0), run(draw_number, scale=2.0))
BROKEN = make_claim("broken", run(fail), run(draw_number, scale=3.0))
WRONG = make_claim("wrong", run(draw_number, scale=1e9), allowance=0.0)


def test_a_cell_is_seeded_by_root_and_content_alone():
    cell = Cell.of(draw_number, scale=1.0)
    assert cell.run(0) == Cell.of(draw_number, scale=1.0).run(0)
    assert cell.run(0) != cell.run(1)
    assert cell.run(0) != Cell.of(draw_number, scale=2.0).run(0) / 2
    first, same = (cells_of(Point(1.5, each, 0.5, 0.1).simulated(16, 4)) for each in (1, 1.0))
    assert next(first) == next(same)


def test_results_do_not_depend_on_the_company():
    alone = validate([GOOD], rng=3, jobs=1).results[0]
    together = validate([WRONG, GOOD], rng=3, jobs=1).results[1]
    assert alone.verdict is not None
    assert together.verdict is not None
    assert alone.verdict.comparisons == together.verdict.comparisons


def test_results_do_not_depend_on_the_number_of_workers():
    one, two = (validate([GOOD], jobs=jobs).results[0] for jobs in (1, 2))
    assert one.verdict is not None
    assert two.verdict is not None
    assert one.verdict.comparisons == two.verdict.comparisons
    assert one.holds


def test_claims_may_be_given_by_name():
    outcome = validate(["solver", GOOD], jobs=1)
    assert [result.claim for result in outcome.results] == [CLAIMS["solver"], GOOD]


def test_failures_are_reported_and_the_rest_goes_on():
    outcome = validate([BROKEN, GOOD, WRONG], jobs=1)
    assert [result.holds for result in outcome.results] == [False, True, False]
    assert not outcome.holds
    assert "ArithmeticError in fail(): did not converge" in outcome.results[0].error
    lines = table(outcome)
    assert "ERROR" in lines
    assert "NO" in lines


def test_a_judgement_that_fails_is_the_claims_own_error():
    def raise_singular():
        raise np.linalg.LinAlgError("singular")

    bad = replace(GOOD, name="bad", rows=lambda _: [judged(call(raise_singular))])
    outcome = validate([bad, GOOD], jobs=1)
    assert [result.holds for result in outcome.results] == [False, True]
    assert "LinAlgError in its judgement: singular" in outcome.results[0].error


def test_bad_arguments_are_named_before_any_work():
    for options, message in (
        ({"preset": "slow"}, "preset must be one of tiny, quick, medium, full, day, got 'slow'"),
        ({"backend": "torch"}, "backend must be one of numpy, cupy, got 'torch'"),
        ({"rng": -1}, r"rng \(--seed\) must be an integer >= 0, got -1"),
        ({"jobs": 0}, "jobs must be >= 1, or -1 for all cores, got 0"),
        ({"claims": []}, "claims must be a list of names or claims, at least one, got"),
        ({"claims": [1]}, "claims must be a list of names or claims, at least one, got"),
        ({"claims": "solver"}, r"names or claims, at least one, such as \['solver'\], got"),
        ({"claims": ["ridgeles"]}, "got 'ridgeles'; did you mean ridgeless?"),
    ):
        value_error(message, validate, **({"claims": [GOOD]} | options))


@pytest.mark.parametrize("name", ["", "../../x", "a<b>", "a b", "A", "a--b", "-a", "a\n"])
def test_names_of_claims_can_be_files_and_anchors(name):
    value_error("name of a claim must be lower-case letters and digits", replace, GOOD, name=name)


def test_interruption_keeps_what_is_finished(monkeypatch, tmp_path):
    real = runs_module.run_cells

    def interrupted(cells, **options):
        yield from real(islice(cells, 2), **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_module, "run_cells", interrupted)
    outcome = validate([GOOD, WRONG], jobs=1)
    assert outcome.interrupted
    assert [result.claim.name for result in outcome.results] == ["good"]
    assert outcome.missing == ["wrong"]
    assert not outcome.holds
    write_report(outcome, tmp_path)
    report = json.loads((tmp_path / "results.json").read_text())
    assert report["interrupted"]
    assert report["missing"] == ["wrong"]
    assert "not finished" in (tmp_path / "report.html").read_text()


def test_report_is_complete_and_self_contained(tmp_path):
    outcome = validate([GOOD, WRONG, BROKEN], jobs=1, rng=5)
    path = write_report(outcome, tmp_path / "new" / "folder")
    page = path.read_text()
    found = {"report.html", "results.json", "good.png", "wrong.png"}
    assert {p.name for p in path.parent.iterdir()} == found
    assert "src='data:image/webp;base64," in page
    assert "1 of 3 claims hold, not wrong, broken" in page
    assert "name='viewport'" in page
    assert "http" not in page.replace("https://", "http")[: page.index("<body>")]
    data = json.loads((path.parent / "results.json").read_text(), parse_constant=pytest.fail)
    assert data["seed"] == 5
    assert [claim["holds"] for claim in data["claims"]] == [True, False, False]
    (comparison,) = data["claims"][1]["comparisons"]
    assert abs(comparison["z"]) > comparison["threshold"]
    assert outcome.to_dict()["versions"]["numpy"] == np.__version__


def test_a_verdict_never_holds_on_nan():
    verdict = Verdict((Comparison("x", 0.0, math.nan, 1.0),), lambda _: None)
    assert not verdict.holds


@pytest.mark.parametrize("options", [{}, {"allowance": 0.1}, {"degrees": 5.0}])
def test_a_bound_is_contradicted_from_above_only(options):
    def z(estimate, upper_bound=True, theory=1.0):
        row = Comparison("x", theory, estimate, 0.5, upper_bound=upper_bound)
        return replace(row, **options).z

    for below in (1.0, 0.9, -50.0, -math.inf):
        assert z(below) == 0.0
    for above in (1.05, 1.2, 4.0, 50.0, math.inf):
        assert z(above) == z(above, upper_bound=False)
        assert z(above) > 0 or above < 1 + options.get("allowance", 0.0)
    assert z(-50.0, upper_bound=False) < -3  # a number of the theory binds from below too
    assert math.isnan(z(math.nan))
    assert math.isnan(z(0.0, theory=math.nan))


def test_a_bound_without_standard_error():
    def holds(estimate):
        row = Comparison("x", 1.0, estimate, 0.0, 1e-12, upper_bound=True)
        return Verdict((row,), draw_line).holds

    assert holds(0.0)
    assert holds(1 + 1e-13)
    assert not holds(1 + 1e-11)
    assert not holds(math.nan)


def test_bounds_are_no_default_and_count_for_the_threshold():
    number = Comparison("x", 1.0, 0.0, 0.1)
    bound = replace(number, upper_bound=True)
    assert not number.upper_bound
    assert (number.z, bound.z) == (pytest.approx(-10), 0)
    one, two = (Verdict(rows, draw_line) for rows in ((bound,), (bound, bound)))
    assert one.holds
    assert one.threshold(bound) < two.threshold(bound)


def test_select_claims():
    assert [c.name for c in select_claims(["ridge", "solver", "ridge"])] == ["ridge", "solver"]
    assert len(select_claims([])) == len(CLAIMS)
    value_error(r"claim must be one of ridgeless, .*, got 'nope'", select_claims, ["nope"])


@pytest.mark.parametrize("preset", PRESETS)
def test_claims_ask_for_distinct_seeded_cells_without_a_backend(preset):
    for claim in CLAIMS.values():
        with made_up_searches():
            cells = claim.cells(preset)
        seeds = {tuple(cell.seed(0).spawn_key) for cell in cells}
        assert len(seeds) == len(set(cells)), claim.name
        assert not any("backend" in dict(cell.parameters) for cell in cells), claim.name


def test_the_arguments_of_the_theory_behind_a_row():
    """Through fields, arithmetic and lists; other functions are no theory."""
    point = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "rho": 0.1}
    spread = call(error_spread, **point).gap * 2.0
    estimate = call(max, [call(icl_error, **point, ridge=0.5), 0.0])
    found = list(theory_calls(mean("d = 8", spread / 8, estimate)))
    assert found == [("error_spread", point), ("icl_error", point | {"ridge": 0.5})]
    assert not list(
        theory_calls([note("nothing"), mean("number", 1.0, run(draw_number, scale=1.0))])
    )


def test_published_tables_are_read_with_their_provenance():
    runs = error_runs()
    assert len(runs) == 23
    assert runs[1].errors["icl"].mean == pytest.approx(1.305007919139215)
    # Ten runs, population standard deviation.
    assert runs[1].errors["icl"].standard_error == pytest.approx(0.008524970808670483 / 3)
    assert {run.sizes["dim"] for run in gap_runs()} == {10, 32}


def test_nonmonotonicity_boundary_separates_finite_from_infinite_optimal_context():
    kappa = np.array([1.3, 1.6, 2.0])
    boundary = nonmonotonicity_boundary(kappa, 0.5)
    inside, outside = (optimal_context(boundary * f, kappa, 0.5) for f in (0.97, 1.03))
    assert np.all(np.isfinite(inside))
    assert np.all(np.isinf(outside))
    assert np.all(np.isnan(nonmonotonicity_boundary(np.array([5.0, 9.0]), 0.5)))


def report_backend(*, number, rng, backend="numpy"):
    return backend, number, int(np.random.default_rng(rng).integers(2**62))


def report_default(*, number, rng):
    return "none", number, int(np.random.default_rng(rng).integers(2**62))


@pytest.mark.parametrize("backend", ["numpy", "cupy"])
def test_cells_get_the_backend_if_their_function_takes_one(backend, monkeypatch):
    # No GPU is needed to ask.
    monkeypatch.setattr("iclimit.validation.report.run_claims.get_backend", lambda _: None)
    results = [run(f, number=k) for f in (report_backend, report_default) for k in (1, 2)]
    cells = list(cells_of(results))
    seen = {}

    def see(given):
        seen.update(zip(cells, given, strict=True))
        return [Comparison("seen", 0.0, 0.0, 1.0)]

    claim = replace(GOOD, rows=lambda _: [judged(call(see, results))])
    outcome = validate([claim], backend=backend, jobs=2, rng=4)
    assert outcome.holds, outcome.results[0].error
    assert [seen[cell][0] for cell in cells] == [backend, backend, "none", "none"]
    assert [seen[cell][1] for cell in cells] == [1, 2, 1, 2]
    # The backend is no part of what a seed means.
    assert [seen[cell] for cell in cells] == [(seen[cell][0], *cell.run(4)[1:]) for cell in cells]
