"""The validation on record is in step with the claims, and other runs are held against it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iclimit.validation import CLAIMS, validate
from iclimit.validation.claim import Effort
from iclimit.validation.reference import LARGEST, read_reference
from iclimit.validation.report import record
from iclimit.validation.report.coverage import TOGETHER
from iclimit.validation.report.record import compare_with_record, read_record, read_setting
from iclimit.validation.rows import Limit, Single, Values, cells_of

SLOW = {
    *("softmax-published", "softmax-pair", "noisy-baselines", "published-layers", "spread"),
    *("gd-learning-rate", "gdpp-error", "sine"),
}
"""Claims whose theory takes a second and more."""

ON_RECORD = [each["name"] for each in read_reference(f"{LARGEST}/claims.csv")]
"""Claims on record; a new claim is put there with the next run of the preset."""


def rows_of(claim):
    """Labels, functions and theories of the comparisons that are known before anything is run."""
    for row in CLAIMS[claim].rows(Effort(read_setting()["preset"])):
        if isinstance(row, Single):
            yield row.label, row.of, row.theory
        elif isinstance(row, Limit):
            yield from zip(row.theories, row.of, row.theories.values(), strict=True)


@pytest.mark.parametrize(
    "claim", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in ON_RECORD]
)
def test_names_and_theory_on_record_are_those_of_the_claims(claim):
    """A claim that has changed is run again: see ``benchmarks/record.py``."""
    known = read_record()
    value = Values({})
    for label, of, theory in rows_of(claim):
        row = known[claim, label, of]
        if not any(cells_of(theory)):
            expected = float(value(theory))
            assert row.comparison.theory == pytest.approx(expected, rel=record.ROUNDING)


def test_all_claims_on_record_hold():
    claims = read_reference(f"{LARGEST}/claims.csv")
    assert len(set(ON_RECORD) & {*CLAIMS}) >= 66
    assert {claim for claim, *_ in read_record()} == {*ON_RECORD, TOGETHER}
    assert read_setting()["preset"] == LARGEST
    assert all(each["holds"] == "1" for each in claims)
    compared = sum(claim != TOGETHER for claim, *_ in read_record())
    said = f"all {len(claims)} claims hold, in {round(compared, -2):,} comparisons"
    assert said in (Path(__file__).parents[3] / "README.md").read_text("utf-8")


def test_what_is_on_record_is_within_its_threshold():
    for row in read_record().values():
        if row.comparison.standard_error > 0:  # others need all digits
            assert abs(row.comparison.z) <= row.threshold, (row.claim, row.comparison.label)


def test_all_claims_together_are_the_weighted_mean_of_what_the_claims_found():
    claims = [row.comparison for row in read_record().values() if row.claim != TOGETHER]
    together = [row.comparison for row in read_record().values() if row.claim == TOGETHER]
    assert len(together) >= 20
    for row in together:
        found = [each for each in claims if each.of == row.of and each.pooled]
        assert sum(each.pooled for each in found) == row.pooled
        errors = np.array([each.standard_error for each in found])
        factor = np.average([each.estimate for each in found], weights=errors**-2.0)
        if not any(each.allowance for each in found):
            assert row.estimate == pytest.approx(factor, abs=1e-7)
            assert row.standard_error == pytest.approx(np.sum(errors**-2.0) ** -0.5, rel=1e-3)


@pytest.fixture(scope="module")
def run():
    return validate(["solver", "task-alignment"], preset="tiny", rng=5, jobs=1)


def changed(run, **what):
    """The run with one comparison changed."""

    def change(row):
        fields = {name: function(row) for name, function in what.items()}
        return (
            replace(row, **fields)
            if row.label == "resolvent at q, tau=2 alpha=2 kappa=1.5 ridge=0"
            else row
        )

    results = [
        replace(
            each,
            verdict=replace(each.verdict, comparisons=[*map(change, each.verdict.comparisons)]),
        )
        for each in run.results
    ]
    return replace(run, results=results)


def test_another_seed_and_preset_agrees_with_the_record(run):
    compared = compare_with_record(run)
    assert compared.holds
    assert compared.shared == sum(len(each.verdict.evidence) for each in run.results)
    assert not compared.new
    assert not compared.missing
    assert str(compared.shared) in str(compared)


def test_a_changed_theory_is_noticed_whatever_the_error_bars(run):
    compared = compare_with_record(changed(run, theory=lambda row: row.theory * (1 + 1e-6)))
    [failure] = compared.verdict.failures
    assert failure.label.startswith("theory of task-alignment: resolvent at q, tau=2")
    assert not compared.holds


def test_a_changed_estimate_is_noticed_beyond_the_error_bars(run):
    for errors, holds in ((1, True), (12, False)):
        other = changed(run, estimate=lambda row, n=errors: row.theory + n * row.standard_error)
        assert compare_with_record(other).holds is holds


def test_other_names_fail_at_the_preset_of_the_record_only(run):
    other = changed(run, label=lambda _: "another name")
    compared = compare_with_record(other)
    assert compared.new == ["task-alignment: another name"]
    assert compared.missing == ["task-alignment: resolvent at q, tau=2 alpha=2 kappa=1.5 ridge=0"]
    assert compared.holds
    assert not compare_with_record(replace(other, preset=LARGEST)).holds


def test_bounds_and_exact_numbers_that_vary_are_not_compared():
    known = read_record()
    bounds = [row for row in known.values() if row.comparison.upper_bound]
    varying = [row for row in known.values() if row.varies and row.comparison.standard_error == 0]
    assert bounds
    assert varying
    for row in bounds:
        lower = replace(row.comparison, estimate=-math.inf)
        assert all("theory of" in each.label for each in record._differences(row, lower))
    for row in varying:
        assert record._differences(row, row.comparison) == []


def test_where_theory_varies_ratios_to_it_are_compared():
    row = next(
        each
        for each in read_record().values()
        if each.varies and each.comparison.standard_error > 0 and not each.comparison.upper_bound
    )
    known = row.comparison
    setting = {"theory": 2 * known.theory, "estimate": 2 * known.estimate}
    other = replace(known, **setting, standard_error=2 * known.standard_error)
    [alike] = record._differences(row, other)
    assert alike.z == 0
    [different] = record._differences(row, replace(other, estimate=3 * known.estimate))
    assert abs(different.z) > 4


def test_unknown_records_are_refused():
    with pytest.raises(ValueError, match="got 'half'"):
        read_record("half")
