"""Attention layers with any weights against loops over tokens and heads."""

import numpy as np
import pytest
from scipy.special import softmax as scipy_softmax

from iclimit.simulate.models.transformer import Layer, apply_layer, forward, prediction

ROUNDING = 1e-12  # of numbers of order one to ten
KINDS = ("key", "query", "value", "projection")
PROMPTS, TOKENS, SIZE = 3, 5, 4


def draw_tokens(count=PROMPTS):
    return np.random.default_rng(1).standard_normal((count, TOKENS, SIZE))


def random_layer(heads, seed=2):
    generator = np.random.default_rng([heads, seed])
    return Layer(*(0.5 * generator.standard_normal((4, heads, SIZE, SIZE))))


def layer_by_loops(tokens, layer, include_query, dampening, softmax):
    """One token, one head and one key at a time."""
    out = tokens.copy()
    last = TOKENS if include_query else TOKENS - 1
    for m in range(len(tokens)):
        for t in range(TOKENS):
            z = tokens[m, t]
            for h in range(len(layer.key)):
                K, Q, V, P = (getattr(layer, kind)[h] for kind in KINDS)
                score = np.array([(K @ tokens[m, s]) @ (Q @ z) for s in range(last)])
                weight = scipy_softmax(score) if softmax else score
                for s in range(last):
                    out[m, t] += dampening * weight[s] * (P @ (V @ tokens[m, s]))
    return out


@pytest.mark.parametrize("dampening", [1.0, 0.3])
@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_layer_equals_loops(heads, include_query, softmax, dampening):
    tokens = draw_tokens()
    layer = random_layer(heads)
    original = tokens.copy()
    found = apply_layer(
        tokens, layer, include_query=include_query, dampening=dampening, softmax=softmax
    )
    expected = layer_by_loops(tokens, layer, include_query, dampening, softmax)
    np.testing.assert_allclose(found, expected, rtol=0, atol=100 * ROUNDING)
    np.testing.assert_array_equal(tokens, original)


def test_lookup_and_output_are_the_products_of_each_head():
    layer = random_layer(3)
    for h in range(3):
        lookup = layer.key[h].T @ layer.query[h]
        output = layer.projection[h] @ layer.value[h]
        np.testing.assert_allclose(layer.lookup[h], lookup, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(layer.output[h], output, rtol=0, atol=ROUNDING)


def test_softmax_does_not_overflow():
    tokens = draw_tokens()
    zero = np.zeros((1, SIZE, SIZE))
    one = np.eye(SIZE)[None]
    found = apply_layer(tokens, Layer(1e4 * one, 1e4 * one, one, one), softmax=True)
    for m in range(PROMPTS):  # all weight on the key with the largest score
        for t in range(TOKENS):
            scores = [tokens[m, s] @ tokens[m, t] for s in range(TOKENS - 1)]
            expected = tokens[m, t] + tokens[m, int(np.argmax(scores))]
            np.testing.assert_allclose(found[m, t], expected, rtol=0, atol=ROUNDING)
    even = apply_layer(tokens, Layer(zero, zero, one, one), softmax=True)
    expected = tokens + np.mean(tokens[:, :-1], axis=1, keepdims=True)
    np.testing.assert_allclose(even, expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("include_query", [False, True])
def test_forward_is_layer_after_layer(include_query):
    tokens = 0.4 * draw_tokens()
    layers = [random_layer(1), random_layer(2), random_layer(1, 3)]
    setting = {"include_query": include_query, "dampening": 0.6}
    expected = tokens
    for layer in layers:
        expected = layer_by_loops(expected, layer, include_query, 0.6, False)
    found = forward(tokens, layers, **setting)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_array_equal(prediction(tokens, layers, **setting), -found[:, -1, -1])
    np.testing.assert_array_equal(forward(tokens, []), tokens)
    np.testing.assert_array_equal(prediction(tokens, []), -tokens[:, -1, -1])
