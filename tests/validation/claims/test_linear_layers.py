"""The claims on several linear layers can fail."""

from collections.abc import Iterator
from typing import Any

import pytest
from judged_claims import Results, assert_fails, drawn, failed, judge, off, run_cells

from iclimit.asymptotics.gdpp import gdpp_minima
from iclimit.validation.claims.gdpp import published_layers


@pytest.fixture(scope="module")
def published() -> Iterator[Results]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published_layers, "CONTEXTS", {"quick": 5000})
        yield run_cells("published-layers")


def test_published_layers_hold_and_draw(published: Results) -> None:
    verdict = judge("published-layers", published)
    assert verdict.holds, failed(verdict)
    assert drawn(verdict) > 10_000
    assert verdict.resolutions["optimal_learning_rate.loss"] < 0.0005
    assert verdict.resolutions["gdpp_minima.loss"] < 0.01


def test_published_layers_can_fail(published: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        wrong = off(published_layers.optimal_learning_rate, 1.0005, "loss")
        patch.setattr(published_layers, "optimal_learning_rate", wrong)
        assert_fails(judge("published-layers", published), "optimal_learning_rate")
    second: dict[int, Any] = {
        n: gdpp_minima(2, context=n, dim=5, input_law="uniform")[1:]
        for n in published_layers.published(2)
    }
    with monkeypatch.context() as patch:
        patch.setattr(published_layers, "minima", second.__getitem__)
        found = failed(judge("published-layers", published))
        assert "common factor of 19 comparisons with gdpp_minima.loss" in found
        assert "loss of the best two layers on simulated contexts, N=26" in found
    with monkeypatch.context() as patch:
        exact = published_layers.layers_loss
        patch.setattr(published_layers, "layers_loss", lambda context: 0.99 * exact(context))
        found = failed(judge("published-layers", published))
        assert "common factor of 19 comparisons with gdpp_minima.loss" in found
