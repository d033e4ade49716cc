"""All claims are judged once: what they state that they would have noticed, they notice."""

import math
from dataclasses import replace

import pytest

from iclimit.validation import CLAIMS, validate
from iclimit.validation.report.coverage import uncovered_reason
from iclimit.validation.report.record import compare_with_record
from iclimit.validation.report.report import write_report

COVERED = 0.02
"""Largest resolution of a function that counts as covered."""

BLUNT = {"finite_size_spread": 0.12}
"""Known less well: standard deviations need thousands of runs for a per cent."""


LARGEST_REPORT = 4e6
"""Bytes of the page of all claims."""


@pytest.mark.slow
def test_what_a_validation_states_that_it_would_have_noticed(tmp_path):
    # One test, so that parallel workers do not validate once each.
    run = validate(list(CLAIMS.values()))
    claims_hold_and_fail_when_the_theory_is_off_by_the_stated_resolution(run)
    no_allowance_is_larger_than_a_third_of_the_resolution(run)
    every_function_is_covered_or_there_is_a_reason(run)
    assert compare_with_record(run).holds
    the_report_of_every_third_claim_has_less_than_a_third_of_the_bytes(run, tmp_path)


def the_report_of_every_third_claim_has_less_than_a_third_of_the_bytes(run, folder):
    third = replace(run, results=run.results[::3])
    assert write_report(third, folder).stat().st_size < LARGEST_REPORT / 3


def claims_hold_and_fail_when_the_theory_is_off_by_the_stated_resolution(run):
    assert run.holds, [each.claim.name for each in run.results if not each.holds]
    both = []
    either = []
    for result in run.results:
        assert result.verdict is not None
        for of, reach in result.verdict.resolutions.items():
            if not math.isfinite(reach):
                continue
            # A change of this size is noticed 19 times in 20; in one of both directions nearly
            # always, since the simulation deviates in one of them.
            failed = [
                not result.verdict.scaled(of, factor).holds
                for factor in (1 + 1.001 * reach, 1 - 1.001 * reach)
            ]
            both += failed
            either.append((result.claim.name, of, any(failed)))
            for factor in (1 + 0.1 * reach, 1 - 0.1 * reach):
                assert result.verdict.scaled(of, factor).holds, (result.claim.name, of)
    assert [each for each in either if not each[2]] == []
    assert sum(both) >= 0.88 * len(both)


def no_allowance_is_larger_than_a_third_of_the_resolution(run):
    for result in run.results:
        assert result.verdict is not None
        for row in result.verdict.comparisons:
            if row.of and row.standard_error > 0 and not row.upper_bound:
                allowed = result.verdict.resolutions[row.of] * abs(row.theory) / 3
                assert row.allowance <= 1.0001 * allowed, (result.claim.name, row.label)


def every_function_is_covered_or_there_is_a_reason(run):
    blunt = {
        each.function: each.resolution
        for each in run.coverage
        if not each.resolution <= BLUNT.get(each.function, COVERED)
        and not uncovered_reason(each.function)
    }
    assert blunt == {}
