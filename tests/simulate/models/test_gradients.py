"""Hand-derived gradients against complex steps through the forward pass of the transformer."""

from dataclasses import replace

import numpy as np
import pytest

from iclimit.simulate.models.gram_stack import run_stack
from iclimit.simulate.models.linear_attention import readout_loss
from iclimit.simulate.models.moments import FeatureLoss, pair_numbers, readout_moments
from iclimit.simulate.models.transformer import Layer, prediction

ROUNDING = 1e-12  # relative to the largest entry; complex steps have no truncation error
STEP = 1e-30
KINDS = ("key", "query", "value", "projection")


def draw(depth, heads, n=5):
    """Tokens with any number in the query's label slot, labels, and layers."""
    generator = np.random.default_rng([depth, heads])
    layers = [Layer(*(0.4 * generator.standard_normal((4, heads, 3, 3)))) for _ in range(depth)]
    return generator.standard_normal((n, 4, 3)), generator.standard_normal(n), layers


def stepped(array, index):
    """Copy with an imaginary step in one entry."""
    array = array.astype(complex)
    array[index] += 1j * STEP
    return array


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_derivatives_equal_complex_steps(depth, heads, include_query):
    tokens, seed, layers = draw(depth, heads)
    predictions, pullback = run_stack(tokens, layers, include_query)
    expected = prediction(tokens, layers, include_query=include_query)
    assert_close(predictions, expected)
    gradients, by_query = pullback(seed)
    assert len(gradients) == depth

    def slope(tokens, stack):
        return seed * prediction(tokens, stack, include_query=include_query).imag / STEP

    for entry in range(3):
        moved = stepped(tokens, (slice(None), -1, entry))
        assert_close(by_query[:, entry], slope(moved, layers))
    for place, layer in enumerate(layers):
        for kind in KINDS:
            weights = getattr(layer, kind)
            expected = np.empty_like(weights)
            for index in np.ndindex(weights.shape):
                stack = layers.copy()
                stack[place] = replace(layer, **{kind: stepped(weights, index)})
                expected[index] = np.sum(slope(tokens, stack))
            assert_close(getattr(gradients[place], kind), expected)


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_moments_know_the_loss_of_one_layer(heads, include_query):
    tokens, labels, layers = draw(1, heads, n=9)
    blocks = [(tokens[:4], labels[:4]), (tokens[4:], labels[4:])]
    moments = readout_moments(blocks, include_query=include_query)
    assert moments.second.shape == (18, 18)
    place = 3 * pair_numbers(3)[:, :, None] + np.arange(3)
    found, gradient = readout_loss(FeatureLoss(moments, place.reshape(-1)), layers[0])
    predictions, pullback = run_stack(tokens, layers, include_query)
    assert found == pytest.approx(np.mean((predictions - labels) ** 2), rel=ROUNDING)
    [expected], _ = pullback(2 / 9 * (predictions - labels))
    for kind in KINDS:
        assert_close(getattr(gradient, kind), getattr(expected, kind))


def test_moments_equal_loops():
    tokens, labels, _ = draw(1, 1)
    moments = readout_moments([(tokens, labels)])
    features = []
    for prompt in tokens:
        gram = np.sum([np.outer(token, token) for token in prompt[:-1]], axis=0)
        features.append(
            [gram[i, j] * prompt[-1, k] for i in range(3) for j in range(i, 3) for k in range(3)]
        )
    target = labels + tokens[:, -1, -1]
    assert moments.label == pytest.approx(np.mean(target**2), rel=ROUNDING)
    assert_close(moments.cross, np.mean(target[:, None] * features, axis=0))
    assert_close(moments.second, np.einsum("ni,nj->ij", features, features) / 5)


def test_no_layers():
    with pytest.raises(ValueError, match="layers must hold at least one Layer, got none"):
        run_stack(draw(1, 1)[0], [], False)
