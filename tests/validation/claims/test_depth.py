"""The claims on depth can fail: wrong formulas must turn the verdict."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged_claims import assert_fails, draw, failed, judge, off, run_cells

from iclimit.validation.claims.depth import (
    compute_optimal,
    depth_loss,
    depth_scaling,
    online_sgd,
    untied_flow,
)

FOUR = ("time", "depth", "width", "context")
WRONG = ("depth_loss", "scaling_exponents", "scaling_terms", "tied_flow")


def test_losses_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {name: depth_loss.POINTS[name] for name in ("both", "untied")}
    monkeypatch.setattr(depth_loss, "POINTS", points)
    results = run_cells("depth-loss")
    verdict = judge("depth-loss", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    assert verdict.resolutions["depth_loss.loss"] < 0.01
    assert verdict.resolutions["untied_depth.losses"] < 0.03
    assert verdict.resolutions["depth_schedule_loss.loss"] < 0.02
    with monkeypatch.context() as patch:
        patch.setattr(depth_loss, "depth_loss", off(depth_loss.depth_loss, 1.03, "loss"))
        assert_fails(judge("depth-loss", results), "loss, $P = 1.5 d$")
    with monkeypatch.context() as patch:
        wrong = off(depth_loss.depth_schedule_loss, 1.04, "loss")
        patch.setattr(depth_loss, "depth_schedule_loss", wrong)
        assert_fails(judge("depth-loss", results), "steps given")
    monkeypatch.setattr(depth_loss, "untied_depth", off(depth_loss.untied_depth, 1.04, "losses"))
    assert_fails(judge("depth-loss", results), "untied layers")


def test_flows_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untied_flow, "CASES", untied_flow.CASES[::2])
    results = run_cells("untied-flow")
    verdict = judge("untied-flow", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    for name, fields, label in (
        ("balanced_saddle", ["loss"], "tied loss"),
        ("balanced_saddle", ["growth_rate"], "growth rate"),
        ("untied_depth", ["losses"], "untied loss"),
        ("untied_power_law_loss", [], "untied loss, closed"),
        ("untied_power_law_steps", [], "smallest step"),
        ("tied_flow", ["loss"], "at time"),
    ):
        with monkeypatch.context() as patch:
            right = getattr(untied_flow, name)
            patch.setattr(untied_flow, name, off(right, 1 + 3e-6, *fields))
            assert_fails(judge("untied-flow", results), label)


@pytest.mark.slow
def test_scaling_laws_hold_and_printed_formulas_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_scaling, "CONTEXTS", 300)
    monkeypatch.setattr(depth_scaling, "DRAWS", 200)
    results = run_cells("depth-scaling")
    verdict = judge("depth-scaling", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    assert all(verdict.resolutions[f"scaling_terms.{name}"] < 0.01 for name in FOUR)
    right = {name: getattr(depth_scaling, name) for name in WRONG}

    def one_layer(*, depth: Any, setting: str = "rrs", **options: Any) -> Any:
        """The loss of isotropic data with one layer as version 1 prints it."""
        found = right["depth_loss"](depth=depth, setting=setting, **options)
        if setting != "iso":
            return found
        printed = (1 + options["alpha"]) ** -2.0
        return replace(found, loss=np.where(np.equal(depth, 1), printed, found.loss))

    def fixed_time(*, nu: float, beta: float, setting: str = "rrs") -> Any:
        """The exponent of time with fixed covariances as version 1 prints it."""
        found = right["scaling_exponents"](nu=nu, beta=beta, setting=setting)
        return found if setting != "fs" else replace(found, time=beta / (nu + nu * beta + 1))

    def published_width(*, nu: float, beta: float, setting: str = "rrs") -> Any:
        """The exponent of width without its limit at beta = 1."""
        found = right["scaling_exponents"](nu=nu, beta=beta, setting=setting)
        return found if found.width is None else replace(found, width=nu * beta)

    for name, wrong, label in (
        ("scaling_exponents", fixed_time, "time, fixed"),
        ("scaling_exponents", published_width, "width, beta"),
        ("scaling_terms", off(right["scaling_terms"], 1.005, *FOUR), "constant of"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(depth_scaling, name, wrong)
            wrongs = [row.label for row in depth_scaling.compare_refined() if row.z]
        assert wrongs
        assert all(label in each for each in wrongs), wrongs
    monkeypatch.setattr(depth_scaling, "compare_refined", list)
    with monkeypatch.context() as patch:
        patch.setattr(depth_scaling, "tied_flow", off(right["tied_flow"], 1 + 1e-7, "loss"))
        assert_fails(judge("depth-scaling", results), "loss at time")
    monkeypatch.setattr(depth_scaling, "depth_loss", one_layer)
    found = failed(judge("depth-scaling", results))
    assert found[1:] == [f"isotropic, alpha = {alpha}, 1 layers" for alpha in (0.5, 2.0)]


def test_best_shapes_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_optimal, "COMPUTES", (1e8,))
    monkeypatch.setattr(compute_optimal, "CONTEXTS", 200)
    results = run_cells("compute-optimal")
    verdict = judge("compute-optimal", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    assert verdict.resolutions["tied_flow.loss"] < 0.15
    with monkeypatch.context() as patch:
        wrong = off(compute_optimal.tied_flow, 1.2, "loss")
        patch.setattr(compute_optimal, "tied_flow", wrong)
        found = failed(judge("compute-optimal", results))
        assert found[1:] == [
            "loss at compute 1e+06, all finite",
            "loss at compute 1e+08, all finite",
        ]
    for field in ("loss", "depth"):
        with monkeypatch.context() as patch:
            wrong = off(compute_optimal.compute_optimal, 1 + 3e-5, field)
            patch.setattr(compute_optimal, "compute_optimal", wrong)
            wrongs = [row.label for row in compute_optimal.compare_searches() if row.z]
        assert len(wrongs) == 2
        assert all(f"{field} of the best sum" in label for label in wrongs)


def test_online_sgd_holds_and_printed_formulas_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_sgd, "TRAININGS", 400)
    results = run_cells("online-sgd")
    verdict = judge("online-sgd", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    assert verdict.resolutions["online_sgd_errors.loss"] < 0.05
    right = online_sgd.online_sgd_errors

    def other_start(*, steps: Any, **setting: Any) -> Any:
        """The recursion from the distance 1, as version 1 prints it."""
        found, start = right(steps=steps, **setting), right(steps=0, **setting)
        more = (1 - start.distance) * found.contraction**steps
        moment = 1 + (1 + setting["noise_variance"]) / setting["alpha"]
        return replace(
            found,
            loss=found.loss + moment * more,
            long_context_loss=found.long_context_loss + more,
        )

    def other_loss(**setting: Any) -> Any:
        """The loss on infinite contexts, taken for that on contexts of training."""
        found = right(**setting)
        return replace(found, loss=found.long_context_loss)

    for wrong, label in ((other_start, "4 steps"), (other_loss, "context of training")):
        monkeypatch.setattr(online_sgd, "online_sgd_errors", wrong)
        found = failed(judge("online-sgd", results))
        assert any(label in each for each in found), found
