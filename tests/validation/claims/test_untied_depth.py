"""The claim on untied depth can fail: wrong theory must turn the verdict."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged_claims import assert_fails, draw, failed, judge, off, run_cells

from iclimit.asymptotics.depth import balanced_saddle
from iclimit.asymptotics.depth import untied_depth as best_layers
from iclimit.validation.claims.depth import untied_depth


def stay_balanced(eigenvalues: Any) -> Any:
    """Untied layers that keep the loss of tied ones, as version 1 of the paper has them."""
    lam = np.array(eigenvalues)
    saddle = balanced_saddle(lam, lam**2, depth=2)
    best = replace(best_layers(lam, lam**2, depth=2), losses=np.full(2, saddle.loss))
    return saddle, best, float(np.mean(lam**2))


@pytest.mark.slow
def test_untied_depth_holds_and_wrong_theory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untied_depth, "MANY", 100)
    results = run_cells("untied-depth")
    verdict = judge("untied-depth", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    assert verdict.resolutions["balanced_saddle.loss"] < 0.03
    assert verdict.resolutions["balanced_saddle.growth_rate"] < 0.08
    for name, factor, fields, label in (
        ("balanced_saddle", 1.03, ["loss"], "trained shared layers"),
        ("balanced_saddle", 1.10, ["growth_rate"], "growth of asymmetry"),
        ("depth_loss", 1.04, ["loss"], "gain of untied over tied"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(untied_depth, name, off(getattr(untied_depth, name), factor, *fields))
            assert_fails(judge("untied-depth", results), label)
    with monkeypatch.context() as patch:
        patch.setattr(untied_depth, "theory", stay_balanced)
        pooled, single = failed(judge("untied-depth", results))
        assert "common factor" in pooled
        assert single == "loss, trained untied layers"
    monkeypatch.setattr(untied_depth, "untied_depth", off(best_layers, 1.03, "losses"))
    assert "loss, trained untied layers" in failed(judge("untied-depth", results))
