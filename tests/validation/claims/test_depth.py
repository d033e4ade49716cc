"""The claims on depth can fail: wrong formulas must turn the verdict."""

import pytest
from judged_claims import assert_fails, drawn, failed, judge, off, run_cells

from iclimit.validation.claims.depth import depth_loss, untied_layers


def test_losses_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {name: depth_loss.POINTS[name] for name in ("both", "untied")}
    monkeypatch.setattr(depth_loss, "POINTS", points)
    results = run_cells("depth-loss")
    verdict = judge("depth-loss", results)
    assert verdict.holds, failed(verdict)
    assert drawn(verdict) > 10_000
    assert verdict.resolutions["depth_loss.loss"] < 0.01
    assert verdict.resolutions["untied_depth.losses"] < 0.03
    with monkeypatch.context() as patch:
        patch.setattr(depth_loss, "depth_loss", off(depth_loss.depth_loss, 1.03, "loss"))
        assert_fails(judge("depth-loss", results), "loss, $P = 1.5 d$")
    monkeypatch.setattr(depth_loss, "untied_depth", off(depth_loss.untied_depth, 1.04, "losses"))
    assert_fails(judge("depth-loss", results), "untied layers")


def test_flows_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untied_layers, "CASES", untied_layers.CASES[::2])
    results = run_cells("untied-layers")
    verdict = judge("untied-layers", results)
    assert verdict.holds, failed(verdict)
    assert drawn(verdict) > 10_000
    for name, fields, label in (
        ("balanced_saddle", ["loss"], "tied loss"),
        ("balanced_saddle", ["growth_rate"], "growth rate"),
        ("untied_depth", ["losses"], "untied loss"),
        ("untied_power_law_loss", [], "untied loss, closed"),
        ("untied_power_law_steps", [], "smallest step"),
        ("tied_flow", ["loss"], "tied loss at time"),
    ):
        with monkeypatch.context() as patch:
            right = getattr(untied_layers, name)
            patch.setattr(untied_layers, name, off(right, 1 + 3e-6, *fields))
            assert_fails(judge("untied-layers", results), label)
