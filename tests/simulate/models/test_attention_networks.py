"""Attention networks against a second implementation, which is differentiated by autograd."""

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
from plain_networks import attention, tokens_of

from iclimit.problem import Problem
from iclimit.simulate.networks import AttentionNetwork, token_sensitivities
from iclimit.simulate.prompts import sample_prompts

PROMPTS = sample_prompts(Problem(dim=3, context=4, scale=1), 6, rng=0)
NETWORKS = {
    "one layer": AttentionNetwork(3),
    "linear layers": AttentionNetwork(3, layers=2, attention="linear"),
    "embedded": AttentionNetwork(3, layers=2, width=5),
    "normalised": AttentionNetwork(3, layers=2, layer_norm=True),
    "transformer": AttentionNetwork(
        3, layers=2, heads=2, width=4, mlp=7, layer_norm=True, include_query=True
    ),
    "recurrent": AttentionNetwork(3, layers=3, heads=2, shared=True, layer_norm=True),
    "copying": AttentionNetwork(
        3, layers=2, attention=("softmax", "linear"), tokens="separate", positions=4
    ),
    "deep embedding": AttentionNetwork(3, attention="linear", width=5, embedding_mlp=6),
}
ROUNDING = 1e-12  # of the largest entry; the largest seen is 1e-15


def start(network):
    """Weights at which no scale is one, and no bias or offset zero."""
    rng = np.random.default_rng(1)
    weights = network.initial(rng)
    return {name: each + 0.3 * rng.standard_normal(each.shape) for name, each in weights.items()}


@pytest.mark.parametrize("name", ["copying", "transformer", "deep embedding"])
def test_sensitivities_of_the_first_layer(name):
    network = NETWORKS[name]
    weights = start(network)
    tokens = tokens_of(network, PROMPTS.inputs, PROMPTS.labels, PROMPTS.query)
    count = tokens.shape[1]
    norms = np.empty((count - 2, count))
    for row in range(count - 2):
        by_tokens = autograd.grad(
            lambda e, j=row: anp.sum(attention(network, weights, e, 1)[:, j])
        )
        norms[row] = np.linalg.norm(by_tokens(tokens).mean(axis=0), axis=1)
    rest = [norms[j, k] for j in range(count - 2) for k in range(count) if k not in (j, j + 1)]
    found = token_sensitivities(network, weights, PROMPTS)
    assert found.own == pytest.approx(np.mean(np.diagonal(norms)), rel=ROUNDING)
    assert found.following == pytest.approx(np.mean(np.diagonal(norms, 1)), rel=ROUNDING)
    assert found.others == pytest.approx(np.mean(rest), rel=ROUNDING)


def test_initial_weights_have_the_variance_asked_for():
    weights = AttentionNetwork(3, layers=40, width=30, mlp=60, init_scale=0.5).initial(
        np.random.default_rng(0)
    )
    # 36,000 weights: four standard errors of a variance are 3 %.
    assert np.var(weights["query"]) * 30 == pytest.approx(0.5, rel=0.03)
    assert np.var(weights["mlp_out"]) * 60 == pytest.approx(0.5, rel=0.03)
    assert not np.any(weights["query_bias"])


def test_one_step_of_gradient_descent_is_one_linear_layer():
    """The construction of von Oswald et al., as in their code: rate 0.7, weights start at zero."""
    x = np.diag([1.0, 1.0, 1.0, 0.0])
    weights = {"query": x, "key": x, "value": -np.diag([0.0, 0.0, 0.0, 1.0])}
    weights["output"] = -0.7 / 4 * weights["value"]
    network = AttentionNetwork(3, attention="linear")
    found, _ = network.forward({name: each[None] for name, each in weights.items()}, PROMPTS)
    step = 0.7 / 4 * np.einsum("nij,ni->nj", PROMPTS.inputs, PROMPTS.labels)
    np.testing.assert_allclose(found, np.einsum("nj,nj->n", step, PROMPTS.query), rtol=1e-12)


def test_bad_arguments_are_named():
    for wrong, message in (
        ({"positions": 3}, "positions must be even, got 3"),
        ({"attention": ("linear",), "layers": 2}, r"got \('linear',\) with layers=2"),
        ({"attention": 3}, "attention must be"),
        ({"init_scale": 0.0}, "init_scale must be"),
    ):
        with pytest.raises(ValueError, match=message):
            AttentionNetwork(3, **wrong)
