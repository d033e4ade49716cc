"""The claims on trained networks can fail."""

from dataclasses import replace
from typing import Any

import pytest
from judged_claims import Results, assert_fails, draw, failed, judge, off, scaled

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
    run = results["inputs", False]
    trained = {"loss": 0.0047, "ratio": 1.01}
    results["inputs", False] = replace(
        run, **{k: scaled(getattr(run, k), v / getattr(run, k).mean) for k, v in trained.items()}
    )
    return results


def test_sines_hold_and_can_fail(sines: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge("sine", sines)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    monkeypatch.setattr(sine, "sine_optimum", off(sine.sine_optimum, 1.06, "loss"))
    sine.optimum.cache_clear()
    assert_fails(judge("sine", sines), "best kernel")
    sine.optimum.cache_clear()


def test_networks_of_whole_tokens_lie_between_two_optima(sines: Results) -> None:
    run = sines["inputs", False]
    results: dict[Any, Any] = {}
    for tied in (False, True):
        best, least = sine.optimum(tied, False), sine.optimum(tied, True)
        ours = scaled(run.loss, 0.5 * (best + least) / run.loss.mean)
        kernel = scaled(sines["kernel", False], best / sines["kernel", False].mean)
        results |= {("kernel", tied): kernel, ("inputs", tied): run}
        results["tokens", tied] = replace(run, loss=ours)
    verdict = CLAIMS["sine"].judge("medium", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    for factor in (0.3, 2.0):
        wrong = replace(run, loss=scaled(ours, factor))
        verdict = CLAIMS["sine"].judge("medium", results | {("tokens", True): wrong})
        assert_fails(verdict, "whole tokens")


def test_copying_counts_failures_and_can_fail() -> None:
    (key, cell), *_ = CLAIMS["copying"].cells_by_key("quick").items()
    run = Cell.of(cell.function, **dict(cell.parameters) | {"steps": 50}).run(0)
    after = replace(run.after, following=1.0, others=0.02)
    trained = replace(run, loss=scaled(run.loss, 0.52 / run.loss.mean), after=after)
    verdict = judge("copying", {key: trained, "failed": run})
    assert verdict.holds, failed(verdict)
    assert verdict.notes == ["1 of 2 seeds failed"]
    draw(verdict)
    assert_fails(judge("copying", {key: run}), "")
    blurred = replace(trained, after=replace(after, others=0.2))
    assert_fails(judge("copying", {key: blurred}), "dependence on other tokens")
    assert copying.worst_loss("quick") < run.loss.mean
