"""The claims on trained networks can fail."""

from dataclasses import replace
from typing import Any

import pytest
from judged_claims import Results, assert_fails, drawn, failed, judge, off, scaled

from iclimit.validation import CLAIMS, Cell
from iclimit.validation.claims.networks import copying, sine


@pytest.fixture(scope="module")
def sines() -> Results:
    """The best kernel, and networks after a few steps that are said to have been trained."""
    results: dict[Any, Any] = {}
    for key, cell in CLAIMS["sine"].cells_by_key("quick").items():
        short = {"held_out": 500_000}
        if key[0] != "kernel":
            short = {"steps": 100, "held_out": 5000}
        results[key] = Cell.of(cell.function, **dict(cell.parameters) | short).run(0)
    for embedded, loss in {"inputs": 0.0047, "tokens": 0.0036}.items():
        run = results[embedded, False]
        trained = scaled(run.loss, loss / run.loss.mean)
        ratio = scaled(run.ratio, 1.01 / run.ratio.mean)
        results[embedded, False] = replace(run, loss=trained, ratio=ratio)
    return results


def test_sines_hold_and_can_fail(sines: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge("sine", sines)
    assert verdict.holds, failed(verdict)
    assert drawn(verdict) > 10_000
    monkeypatch.setattr(sine, "sine_optimum", off(sine.sine_optimum, 1.06, "loss"))
    sine.optimum.cache_clear()
    assert_fails(judge("sine", sines), "best kernel")
    sine.optimum.cache_clear()


def test_copying_counts_failures_and_can_fail() -> None:
    (key, cell), *_ = CLAIMS["copying"].cells_by_key("quick").items()
    run = Cell.of(cell.function, **dict(cell.parameters) | {"steps": 50}).run(0)
    after = replace(run.after, following=1.0, others=0.02)
    trained = replace(run, loss=scaled(run.loss, 0.71 / run.loss.mean), after=after)
    verdict = judge("copying", {key: trained, "failed": run})
    assert verdict.holds, failed(verdict)
    assert verdict.notes == ["1 of 2 seeds failed"]
    assert drawn(verdict) > 10_000
    assert_fails(judge("copying", {key: run}), "")
    blurred = replace(trained, after=replace(after, others=0.2))
    assert_fails(judge("copying", {key: blurred}), "dependence on other tokens")
    assert copying.worst_loss("quick") < run.loss.mean
