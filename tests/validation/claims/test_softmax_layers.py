"""The claim on softmax layers can fail."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from judged_claims import Results, assert_fails, draw, failed, judge, run_cells, scaled

from iclimit.validation.claims.gdpp.published_layers import published
from iclimit.validation.claims.networks import softmax_layers


@pytest.fixture(scope="module")
def trained() -> Iterator[Results]:
    with pytest.MonkeyPatch.context() as patch:
        quick = softmax_layers.TRAINING["quick"] | {"steps": 250, "batch": 128, "held_out": 4000}
        patch.setattr(softmax_layers, "TRAINING", {"quick": quick})
        # The exact losses take three seconds; published ones are 0 to 14 % above.
        patch.setattr(softmax_layers, "layers_loss", lambda n: published(2)[n][0])
        yield run_cells("softmax-layers")


def test_softmax_layers_hold_and_draw(trained: Results) -> None:
    verdict = judge("softmax-layers", trained)
    assert verdict.holds, failed(verdict)
    draw(verdict)


def test_softmax_layers_can_fail(trained: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    for factor, label in ((2.0, "pairs over one linear"), (0.1, "linear layers over run")):
        moved = {
            key: replace(runs, losses=[scaled(each, factor) for each in runs.losses])
            for key, runs in trained.items()
        }
        assert_fails(judge("softmax-layers", moved), label)
    none = {key: replace(runs, losses=[]) for key, runs in trained.items()}
    assert_fails(judge("softmax-layers", none), "no trained network")
    exact = softmax_layers.linear_loss
    monkeypatch.setattr(softmax_layers, "linear_loss", lambda *size: 6 * exact(*size))
    assert "as many linear layers over 3 published layers" in "".join(
        failed(judge("softmax-layers", trained))
    )
