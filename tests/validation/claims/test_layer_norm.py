"""The two features of the claim on layer normalisation are those of a layer."""

import numpy as np

from iclimit.simulate.networks import AttentionNetwork
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.claims.networks import layer_norm


def test_two_features_are_what_a_symmetric_layer_computes():
    """Keys and queries that do not tell inputs apart, values that read the label."""
    prompts = sample_prompts(layer_norm.PROBLEM, 20, rng=0)
    network = AttentionNetwork(10, attention="linear", layer_norm=True)
    inputs = np.diag([1.0] * 10 + [0.0])
    label = np.diag([0.0] * 10 + [1.0])
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
