"""The claim on steps at test time can fail: wrong formulas must turn the verdict."""

import pytest
from judged_claims import failed, judge, off, run_cells

from iclimit.asymptotics import depth
from iclimit.validation.claims.depth import overthinking


def test_steps_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    for table, name in (("STEPS", "dampened"), ("FEEDBACK", "dampened threshold")):
        monkeypatch.setattr(overthinking, table, {name: getattr(overthinking, table)[name]})
    results = run_cells("overthinking")
    verdict = judge("overthinking", results)
    assert verdict.holds, failed(verdict)
    assert verdict.resolutions["test_time_errors"] < 0.01
    assert verdict.resolutions["overthinking_threshold"] < 0.015
    for name in ("test_time_errors", "overthinking_threshold"):
        with monkeypatch.context() as patch:
            patch.setattr(overthinking.depth, name, off(getattr(depth, name), 1.03))
            wrong = judge("overthinking", results)
            assert not wrong.holds
            assert all(
                row.of in ("", name) for row in wrong.comparisons if row.label in failed(wrong)
            )
