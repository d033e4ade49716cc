"""Every network against a second implementation, which is differentiated by autograd."""

import array_api_strict
import autograd
import autograd.numpy as anp
import numpy as np
import pytest
from plain_networks import answers
from prompt_arrays import arrays_of

from iclimit.notation import PARAMETERS
from iclimit.problem import Problem
from iclimit.simulate.descent.alignment import network_predictor
from iclimit.simulate.models.embedded_descent import EmbeddedDescent
from iclimit.simulate.models.linear_attention import LinearAttention
from iclimit.simulate.models.lstm import LstmNetwork
from iclimit.simulate.models.merged_heads import MergedHeads
from iclimit.simulate.models.network import mean_of_blocks
from iclimit.simulate.models.recurrent_layer import RecurrentLayer
from iclimit.simulate.models.stack import AttentionNetwork, CausalNetwork
from iclimit.simulate.prompts import Prompts, sample_prompts

PROMPTS = sample_prompts(Problem(dim=3, context=4, noise_variance=0.2, scale=1), 6, rng=0)
NETWORKS = [
    AttentionNetwork(3),
    AttentionNetwork(3, layers=2, attention="linear"),
    AttentionNetwork(3, layers=2, width=5),
    AttentionNetwork(3, layers=2, layer_norm=True),
    AttentionNetwork(3, layers=2, heads=2, width=4, mlp=7, layer_norm=True, include_query=True),
    AttentionNetwork(3, layers=3, heads=2, shared=True, layer_norm=True),
    AttentionNetwork(3, layers=2, attention=("softmax", "linear"), tokens="separate", positions=4),
    AttentionNetwork(3, attention="linear", width=5, embedding_mlp=6),
    AttentionNetwork(3, layers=2, attention=("linear", "softmax")),
    AttentionNetwork(
        3,
        layers=2,
        heads=2,
        width=6,
        mlp=5,
        layer_norm=True,
        include_query=True,
        tokens="separate",
        positions=2,
        embedding_mlp=4,
    ),
    CausalNetwork(3, layers=2, heads=2, width=6, mlp=5, layer_norm=True, positions=2),
    CausalNetwork(3, layers=2, attention=("linear", "softmax")),
    EmbeddedDescent(3, width=3, mlp=5),
    LinearAttention(3),
    LinearAttention(3, heads=3, include_query=True),
    LinearAttention(3, layers=3, heads=2, include_query=True),
    LinearAttention(3, layers=2, shared=True),
    LinearAttention(3, layers=2, heads=2, shared=True, include_query=True),
    LstmNetwork(3, hidden=5),
    LstmNetwork(3, hidden=5, bidirectional=True),
    LstmNetwork(3, hidden=5, layers=3, bidirectional=True),
    LstmNetwork(3, hidden=5, layers=2),
    MergedHeads(3, heads=2, init_scale=0.5),
    RecurrentLayer(3),
    RecurrentLayer(3, corrects=False),
    RecurrentLayer(3, corrects=False, gated=False, preconditioned=True),
    RecurrentLayer(3, by_channel=True, by_token=True, preconditioned=True, context=4),
    RecurrentLayer(3, selective=True),
    RecurrentLayer(3, corrects=False, by_channel=True, selective=True),
    RecurrentLayer(
        3, by_channel=True, by_token=True, preconditioned=True, context=4, selective=True
    ),
]
ROUNDING = 1e-12  # of the largest entry; the largest seen is 1e-15


def weights_of(network):
    """Weights at which no scale is one, no bias or offset zero, and no gate linear."""
    rng = np.random.default_rng(1)
    weights = network.initial(rng)
    return {name: each + 0.3 * rng.standard_normal(each.shape) for name, each in weights.items()}


def assert_equal(found, expected):
    largest = max(1.0, float(np.max(np.abs(expected))))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * largest)


@pytest.mark.machine
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_predictions_and_gradients(network):
    weights = weights_of(network)
    context = (PROMPTS.inputs, PROMPTS.labels)

    def loss(w):
        return anp.mean((answers(network, w, *context, PROMPTS.query) - PROMPTS.target) ** 2)

    def total(query):
        return anp.sum(answers(network, weights, *context, query))

    exact = answers(network, weights, *context, PROMPTS.query)
    assert_equal(network.forward(weights, PROMPTS)[0], exact)
    found, gradient = network.loss_and_gradient(weights, PROMPTS)
    assert_equal(found, loss(weights))
    expected = autograd.grad(loss)(weights)
    assert {name: each.shape for name, each in gradient.items()} == network.shapes
    for name, value in expected.items():
        assert_equal(gradient[name], value)
    assert_equal(
        network_predictor(network, weights)(PROMPTS)[1], autograd.grad(total)(PROMPTS.query)
    )
    blocks = [(PROMPTS[:2], PROMPTS.target[:2]), (PROMPTS[2:], PROMPTS.target[2:])]
    fixed = network.fixed_loss(iter(blocks), 6)
    summed = mean_of_blocks(network.loss_and_gradient, weights, blocks, 6)
    for found, gradient in (fixed(weights), summed):
        assert_equal(found, loss(weights))
        for name, value in expected.items():
            assert_equal(gradient[name], value)


def test_arrays_of_the_standard():
    for network in NETWORKS:
        weights = weights_of(network)
        strict = {name: array_api_strict.asarray(each) for name, each in weights.items()}
        prompts = Prompts(*map(array_api_strict.asarray, arrays_of(PROMPTS).values()))
        loss, gradient = network.loss_and_gradient(strict, prompts)
        expected, gradients = network.loss_and_gradient(weights, PROMPTS)
        assert_equal(float(loss), expected)
        for name, value in gradients.items():
            assert_equal(np.from_dlpack(gradient[name]), value)
        slopes = np.from_dlpack(network_predictor(network, strict)(prompts)[1])
        assert_equal(slopes, network_predictor(network, weights)(PROMPTS)[1])


def test_bad_sizes_are_named():
    for network in {type(each): each for each in NETWORKS}.values():
        for name, value in vars(network).items():
            row = PARAMETERS.get(name)
            if isinstance(value, bool):
                with pytest.raises(TypeError, match=f"{name} must be True or False, got 1"):
                    type(network)(**vars(network) | {name: 1})
            elif row is not None and row.range is not None:
                least = row.range.lower if row.range.open_lower else row.range.lower - 1
                for wrong in (least, "a", np.nan, *([1.5] if row.integer else [])):
                    with pytest.raises(ValueError, match=rf"^{name} must be .*, got {wrong!r}"):
                        type(network)(**vars(network) | {name: wrong})
