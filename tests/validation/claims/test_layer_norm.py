"""The claim on layer normalisation can fail, and the two features are those of a layer."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from judged_claims import Results, assert_fails, draw, failed, judge, run_cells, scaled

from iclimit.simulate.networks import AttentionNetwork
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.claims.networks import layer_norm


@pytest.fixture(scope="module")
def trained() -> Iterator[Results]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_norm, "HELD_OUT", {"quick": 8000})
        yield run_cells("layer-norm")


@pytest.mark.slow
def test_layer_norm_holds_and_draws(trained: Results) -> None:
    verdict = judge("layer-norm", trained)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    for pair in trained.values():
        assert pair.difference.z(0) > 10


@pytest.mark.slow
def test_layer_norm_can_fail(trained: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    shift = scaled(trained[1, 0].difference, -0.2)
    below = {key: replace(pair, above_features=shift) for key, pair in trained.items()}
    assert_fails(judge("layer-norm", below), "best features over layer")
    with monkeypatch.context() as patch:
        patch.setattr(layer_norm, "LAW", 1.05 * layer_norm.LAW)
        assert_fails(judge("layer-norm", trained), "best step")
    null = {
        key: replace(pair, normalised=scaled(pair.normalised, 1.5))
        for key, pair in trained.items()
    }
    assert_fails(judge("layer-norm", null), "no trained networks")


def test_two_features_are_what_a_symmetric_layer_computes() -> None:
    """Keys and queries that do not tell inputs apart, values that read the label."""
    prompts = sample_prompts(layer_norm.PROBLEM, 20, rng=0)
    network = AttentionNetwork(10, attention="linear", layer_norm=True)
    inputs, label = np.diag([1.0] * 10 + [0.0]), np.diag([0.0] * 10 + [1.0])
    weights = {
        "attention_scale": np.ones(11),
        "attention_offset": np.zeros(11),
        "query": 0.3 * inputs + 0.7 * label,
        "key": np.eye(11),
        "value": label,
        "output": -label,
    }
    found, _ = network.forward({name: each[None] for name, each in weights.items()}, prompts)
    expected = layer_norm.normalised_features(prompts) @ [0.3, 0.7]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
